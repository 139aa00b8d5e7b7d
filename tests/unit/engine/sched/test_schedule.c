/* One behaviour of the scheduler after the other; random schedules are in tests/prop. */
#include "tests/support/support.h"

#include <string.h>

#include "engine/sched/sched.h"

enum { P = 4, TOKEN = 50 };

struct world {
    struct sched s;
    struct plan p;
    struct seq *made[32];
    int32_t n_made;
};

static void world_init(struct world *w, const struct sched_opts *o) {
    memset(w, 0, sizeof *w);
    assert_ok(sched_init(&w->s, o));
    assert_ok(plan_init(&w->p, o->running_max));
}

static void world_fini(struct world *w) {
    for (int32_t i = 0; i < w->n_made; i++) {
        seq_destroy(w->made[i]);
    }
    plan_fini(&w->p);
    sched_fini(&w->s);
}

static struct sched_opts opts(int32_t n_blocks) {
    return (struct sched_opts){.group = {{.n_blocks = n_blocks}},
                               .n_group = 1,
                               .block_tok = P,
                               .batch_tok_max = 16,
                               .running_max = 4,
                               .waiting_max = 8};
}

/* A request of n tokens first, first + 1, ...; ids are 1, 2, ... */
static struct seq *make(struct world *w, int32_t first, int32_t n, int32_t max_new) {
    int32_t ids[64];
    for (int32_t i = 0; i < n; i++) {
        ids[i] = first + i;
    }
    assert_ok(seq_create(ids, n, max_new, P, w->s.opts.n_group, &w->made[w->n_made]));
    struct seq *q = w->made[w->n_made++];
    q->id = (uint64_t)w->n_made;
    return q;
}

static struct seq *submit(struct world *w, int32_t first, int32_t n, int32_t max_new) {
    struct seq *q = make(w, first, n, max_new);
    assert_ok(sched_submit(&w->s, q, 99));
    return q;
}

static void plan(struct world *w) {
    sched_plan(&w->s, &w->p);
    assert_ok(sched_check(&w->s));
}

static void commit(struct world *w) {
    int32_t tokens[32];
    for (int32_t i = 0; i < 32; i++) {
        tokens[i] = TOKEN;
    }
    sched_commit(&w->s, &w->p, tokens);
    assert_ok(sched_check(&w->s));
}

static void step(struct world *w) {
    plan(w);
    commit(w);
}

static void expect_item(
    const struct world *w, int32_t i, const struct seq *q, int32_t start, int32_t n, bool sample) {
    assert_true(i < w->p.n_item);
    assert_ptr_equal(w->p.item[i].seq, q);
    assert_int_equal(w->p.item[i].start, start);
    assert_int_equal(w->p.item[i].n, n);
    assert_int_equal(w->p.item[i].sample, sample);
}

static void test_sched_init_refuses_bad_options(void **state) {
    (void)state;
    struct sched s;
    struct sched_opts o = opts(4);
    o.batch_tok_max = 0;
    assert_err(sched_init(&s, &o), ERR_RANGE, "0 tokens a step");
    o = opts(4);
    o.running_max = 17;
    assert_err(sched_init(&s, &o), ERR_RANGE, "17 running (at most as many)");
    o = opts(4);
    o.chunk_max = -1;
    assert_err(sched_init(&s, &o), ERR_RANGE, "chunk -1");
    o = opts(0);
    assert_err(sched_init(&s, &o), ERR_RANGE, "0 blocks");
}

static void test_sched_submit_refuses_what_never_fits(void **state) {
    (void)state;
    struct world w;
    struct sched_opts o = opts(3);
    world_init(&w, &o);
    struct seq *q = make(&w, 0, 12, 5);
    assert_err(sched_submit(&w.s, q, 0), ERR_LIMIT,
               "12 tokens needs 4 cache blocks of 4 tokens, the pool has 3");
    q->score = true; /* no room for a new token is needed */
    assert_ok(sched_submit(&w.s, q, 0));
    submit(&w, 0, 11, 5);
    world_fini(&w);
}

static void test_sched_submit_refuses_past_the_queue(void **state) {
    (void)state;
    struct world w;
    struct sched_opts o = opts(4);
    o.waiting_max = 2;
    world_init(&w, &o);
    submit(&w, 0, 4, 4);
    submit(&w, 10, 4, 4);
    assert_err(sched_submit(&w.s, make(&w, 20, 4, 4), 0), ERR_BUSY, "2 requests are waiting");
    assert_int_equal(w.s.n_waiting, 2);
    world_fini(&w);
}

static void test_sched_first_come_first_served(void **state) {
    (void)state;
    struct world w;
    struct sched_opts o = opts(16);
    world_init(&w, &o);
    struct seq *a = submit(&w, 0, 4, 4);
    struct seq *b = submit(&w, 10, 4, 4);
    struct seq *c = submit(&w, 20, 4, 4);
    assert_int_equal(a->arrive_ns, 99);
    plan(&w);
    assert_int_equal(w.p.n_admitted, 3);
    expect_item(&w, 0, a, 0, 4, true);
    expect_item(&w, 1, b, 0, 4, true);
    expect_item(&w, 2, c, 0, 4, true);
    world_fini(&w);
}

static void test_sched_priority_goes_before_arrival(void **state) {
    (void)state;
    struct world w;
    struct sched_opts o = opts(16);
    world_init(&w, &o);
    struct seq *low = submit(&w, 0, 4, 4);
    struct seq *high = make(&w, 10, 4, 4);
    struct seq *also = make(&w, 20, 4, 4);
    high->priority = also->priority = 5;
    assert_ok(sched_submit(&w.s, high, 0));
    assert_ok(sched_submit(&w.s, also, 0));
    plan(&w);
    expect_item(&w, 0, high, 0, 4, true);
    expect_item(&w, 1, also, 0, 4, true);
    expect_item(&w, 2, low, 0, 4, true);
    world_fini(&w);
}

static void test_sched_decode_rows_go_first(void **state) {
    (void)state;
    struct world w;
    struct sched_opts o = opts(32);
    o.chunk_max = 6;
    world_init(&w, &o);
    struct seq *a = submit(&w, 0, 20, 4);
    step(&w);
    struct seq *b = submit(&w, 40, 3, 4);
    step(&w);
    plan(&w); /* b decodes, a is still in its prompt, c comes in */
    expect_item(&w, 0, b, 3, 1, true);
    expect_item(&w, 1, a, 12, 6, false);
    assert_int_equal(w.p.n_decode, 1);
    world_fini(&w);
}

static void test_sched_chunks_obey_both_limits(void **state) {
    (void)state;
    struct world w;
    struct sched_opts o = opts(32);
    o.batch_tok_max = 10;
    o.chunk_max = 7;
    world_init(&w, &o);
    struct seq *a = submit(&w, 0, 16, 4);
    struct seq *b = submit(&w, 40, 16, 4);
    plan(&w);
    expect_item(&w, 0, a, 0, 7, false);
    expect_item(&w, 1, b, 0, 3, false);
    assert_int_equal(w.p.n_tok, 10);
    commit(&w);
    plan(&w);
    expect_item(&w, 0, a, 7, 7, false);
    expect_item(&w, 1, b, 3, 3, false);
    commit(&w);
    plan(&w);
    expect_item(&w, 0, a, 14, 2, true);
    expect_item(&w, 1, b, 6, 7, false);
    world_fini(&w);
}

static void test_sched_stop_tokens_and_length_end(void **state) {
    (void)state;
    struct world w;
    struct sched_opts o = opts(32);
    world_init(&w, &o);
    struct seq *stop = submit(&w, 0, 4, 9);
    struct seq *ignore = submit(&w, 10, 4, 2);
    struct seq *zero = submit(&w, 20, 4, 0);
    stop->n_stop = ignore->n_stop = 1;
    stop->stop[0] = ignore->stop[0] = TOKEN;
    ignore->ignore_stop = true;
    step(&w);
    assert_ptr_equal(sched_pop_done(&w.s), stop);
    assert_ptr_equal(sched_pop_done(&w.s), zero);
    assert_null(sched_pop_done(&w.s));
    assert_true(stop->finish == FINISH_STOP && stop->n_known == 5 && stop->held[0].n == 0);
    assert_true(zero->finish == FINISH_LENGTH && zero->n_known == 4);
    step(&w);
    assert_ptr_equal(sched_pop_done(&w.s), ignore);
    assert_true(ignore->finish == FINISH_LENGTH && ignore->n_known == 6);
    assert_int_equal(w.s.pool[0].n_active, 0);
    world_fini(&w);
}

static void test_sched_score_request_ends_scored(void **state) {
    (void)state;
    struct world w;
    struct sched_opts o = opts(32);
    o.chunk_max = 3;
    world_init(&w, &o);
    struct seq *q = make(&w, 0, 5, 0);
    q->score = true;
    assert_ok(sched_submit(&w.s, q, 0));
    plan(&w);
    expect_item(&w, 0, q, 0, 3, false);
    commit(&w);
    plan(&w);
    expect_item(&w, 0, q, 3, 2, false);
    commit(&w);
    assert_ptr_equal(sched_pop_done(&w.s), q);
    assert_int_equal(q->finish, FINISH_SCORED);
    world_fini(&w);
}

static void test_sched_preempts_the_last_and_admits_nobody(void **state) {
    (void)state;
    struct world w;
    struct sched_opts o = opts(4);
    world_init(&w, &o);
    struct seq *a = submit(&w, 0, 8, 8);
    struct seq *b = submit(&w, 20, 8, 8);
    step(&w); /* both hold two blocks, both need a third now */
    struct seq *c = submit(&w, 40, 1, 1);
    plan(&w);
    assert_int_equal(w.p.n_preempted, 1);
    assert_int_equal(w.p.n_admitted, 0);
    assert_int_equal(w.p.n_item, 1);
    expect_item(&w, 0, a, 8, 1, true);
    assert_true(b->state == SEQ_WAITING && b->n_preempt == 1 && b->n_known == 9);
    assert_true(b->n_computed == 0 && b->held[0].n == 0);
    assert_ptr_equal(w.s.waiting[0], b); /* at its old place, before c */
    assert_ptr_equal(w.s.waiting[1], c);
    commit(&w);
    assert_int_equal(w.s.n_preempted, 1);
    world_fini(&w);
}

static void test_sched_preempted_comes_back_through_its_own_blocks(void **state) {
    (void)state;
    struct world w;
    struct sched_opts o = opts(4);
    world_init(&w, &o);
    struct seq *a = submit(&w, 0, 8, 1);
    struct seq *b = submit(&w, 20, 7, 9);
    step(&w);
    assert_ptr_equal(sched_pop_done(&w.s), a);
    for (int32_t i = 0; i < 20 && b->state != SEQ_FINISHED; i++) {
        step(&w);
    }
    assert_int_equal(b->finish, FINISH_LENGTH);
    assert_int_equal(b->n_known, 16);
    world_fini(&w);
}

static void test_sched_alone_in_a_full_pool_ends_with_length(void **state) {
    (void)state;
    struct world w;
    struct sched_opts o = opts(2);
    world_init(&w, &o);
    struct seq *a = submit(&w, 0, 7, 20);
    step(&w);
    step(&w); /* position 7 is computed: 8 positions, two full blocks, 9 known tokens */
    assert_int_equal(a->n_known, 9);
    plan(&w);
    assert_int_equal(w.p.n_item, 0);
    assert_ptr_equal(sched_pop_done(&w.s), a);
    assert_true(a->finish == FINISH_LENGTH && a->held[0].n == 0);
    assert_int_equal(w.s.n_running + w.s.n_waiting, 0);
    world_fini(&w);
}

static void test_sched_abort_in_every_state(void **state) {
    (void)state;
    struct world w;
    struct sched_opts o = opts(6);
    o.running_max = 1;
    world_init(&w, &o);
    struct seq *a = submit(&w, 0, 4, 9);
    struct seq *b = submit(&w, 20, 4, 9);
    step(&w);
    assert_false(sched_abort(&w.s, 77));
    assert_true(sched_abort(&w.s, b->id)); /* waiting */
    assert_ok(sched_check(&w.s));
    plan(&w);
    assert_true(sched_abort(&w.s, a->id)); /* running, planned: commit must pass it by */
    assert_int_equal(a->held[0].n, 0);
    assert_ok(sched_check(&w.s));
    int32_t known = a->n_known;
    commit(&w);
    assert_int_equal(a->n_known, known);
    assert_false(sched_abort(&w.s, a->id)); /* finished */
    assert_ptr_equal(sched_pop_done(&w.s), b);
    assert_ptr_equal(sched_pop_done(&w.s), a);
    assert_null(sched_pop_done(&w.s));
    assert_true(a->finish == FINISH_ABORT && b->finish == FINISH_ABORT);
    assert_int_equal(w.s.pool[0].n_active, 0);
    world_fini(&w);
}

static void test_sched_abort_of_a_preempted(void **state) {
    (void)state;
    struct world w;
    struct sched_opts o = opts(4);
    world_init(&w, &o);
    submit(&w, 0, 8, 8);
    struct seq *b = submit(&w, 20, 8, 8);
    step(&w);
    plan(&w);
    assert_int_equal(b->state, SEQ_WAITING);
    assert_true(sched_abort(&w.s, b->id));
    commit(&w);
    assert_ptr_equal(sched_pop_done(&w.s), b);
    world_fini(&w);
}

static void test_sched_partial_hit_skips_whole_blocks(void **state) {
    (void)state;
    struct world w;
    struct sched_opts o = opts(16);
    world_init(&w, &o);
    submit(&w, 0, 10, 1);
    step(&w);
    struct seq *b = submit(&w, 0, 10, 1);
    plan(&w);
    expect_item(&w, 0, b, 8, 2, true);
    assert_int_equal(b->n_cached, 8);
    assert_int_equal(w.p.item[0].cow_src[0], -1);
    assert_true(w.s.n_hit_tok == 8 && w.s.n_query_tok == 20);
    world_fini(&w);
}

static void test_sched_full_hit_computes_the_last_token_in_a_copy(void **state) {
    (void)state;
    struct world w;
    struct sched_opts o = opts(16);
    world_init(&w, &o);
    struct seq *a = submit(&w, 0, 8, 9);
    step(&w);
    struct seq *b = submit(&w, 0, 8, 9);
    plan(&w);
    expect_item(&w, 1, b, 7, 1, true);
    assert_int_equal(w.p.item[1].cow_src[0], a->held[0].id[1]);
    assert_int_equal(w.p.item[1].cow_dst[0], b->held[0].id[1]);
    assert_int_not_equal(b->held[0].id[1], a->held[0].id[1]);
    assert_int_equal(b->held[0].id[0], a->held[0].id[0]);
    assert_int_equal(w.s.pool[0].block[a->held[0].id[0]].ref, 2);
    assert_int_equal(b->n_cached, 7);
    world_fini(&w);
}

static void test_sched_full_hit_without_a_block_for_the_copy(void **state) {
    (void)state;
    struct world w;
    struct sched_opts o = opts(3);
    world_init(&w, &o);
    submit(&w, 0, 8, 1);
    step(&w); /* two blocks cached, one free */
    struct seq *c = submit(&w, 40, 3, 9);
    plan(&w); /* takes the free one */
    expect_item(&w, 0, c, 0, 3, true);
    commit(&w);
    struct seq *b = submit(&w, 0, 8, 1);
    plan(&w); /* the copy would need a fourth: the whole last block is computed again */
    expect_item(&w, 1, b, 4, 4, true);
    assert_int_equal(w.p.item[1].cow_src[0], -1);
    assert_int_equal(b->n_cached, 4);
    world_fini(&w);
}

static void test_sched_no_prefix_cache_and_scores_find_nothing(void **state) {
    (void)state;
    for (int32_t way = 0; way < 2; way++) {
        struct world w;
        struct sched_opts o = opts(16);
        o.no_prefix_cache = way == 0;
        world_init(&w, &o);
        submit(&w, 0, 8, 1);
        step(&w);
        struct seq *b = make(&w, 0, 8, 0);
        b->score = way == 1;
        assert_ok(sched_submit(&w.s, b, 0));
        plan(&w);
        expect_item(&w, 0, b, 0, 8, way == 0);
        assert_int_equal(w.s.pool[0].n_cached, way == 0 ? 0 : 2);
        world_fini(&w);
    }
}

static void test_sched_check_sees_lost_references(void **state) {
    (void)state;
    struct world w;
    struct sched_opts o = opts(16);
    world_init(&w, &o);
    struct seq *a = submit(&w, 0, 8, 4);
    step(&w);
    a->held[0].n--;
    assert_int_equal(sched_check(&w.s), ERR_INTERNAL);
    a->held[0].n++;
    w.s.pool[0].block[a->held[0].id[0]].ref++;
    assert_err(sched_check(&w.s), ERR_INTERNAL, "2 references, held by 1 sequences");
    w.s.pool[0].block[a->held[0].id[0]].ref--;
    a->state = SEQ_WAITING;
    assert_err(sched_check(&w.s), ERR_INTERNAL, "sequence 1: state 0");
    a->state = SEQ_RUNNING;
    assert_ok(sched_check(&w.s));
    world_fini(&w);
}

/* Two groups: all positions, and a window of 6 tokens in blocks of 4. */
static struct sched_opts windowed(int32_t n_blocks, int32_t n_window_blocks) {
    struct sched_opts o = opts(n_blocks);
    o.group[1] = (struct sched_group){.n_blocks = n_window_blocks, .window = 6};
    o.n_group = 2;
    o.chunk_max = 4;
    return o;
}

static void test_sched_window_keeps_only_the_blocks_it_sees(void **state) {
    (void)state;
    struct world w;
    struct sched_opts o = windowed(16, 4);
    world_init(&w, &o);
    struct seq *a = submit(&w, 0, 12, 20);
    for (int32_t i = 0; i < 3; i++) {
        step(&w);
    }
    /* 12 computed: position 12 sees 7..12, so block 0 (0..3) has gone and block 1 stays */
    assert_true(a->n_computed == 12 && a->held[0].first == 0 && a->held[0].n == 3);
    assert_true(a->held[1].first == 1 && a->held[1].n == 3 && a->held[1].id[0] == -1);
    for (int32_t i = 0; i < 16; i++) {
        step(&w);
        assert_true(a->held[1].n - a->held[1].first <= 3);
        assert_int_equal(a->held[0].n, (a->n_computed + P - 1) / P);
    }
    assert_true(w.s.pool[1].n_active <= 3 && w.s.pool[0].n_active == 7);
    world_fini(&w);
}

static void test_sched_window_alone_outgrows_its_pool(void **state) {
    (void)state;
    struct world w;
    struct sched_opts o = windowed(1, 4);
    o.group[0] = o.group[1];
    o.n_group = 1;
    world_init(&w, &o);
    struct seq *a = submit(&w, 0, 10, 40);
    for (int32_t i = 0; i < 100 && a->state != SEQ_FINISHED; i++) {
        step(&w);
    }
    assert_true(a->n_known == 50 && a->finish == FINISH_LENGTH && w.s.n_preempted == 0);
    world_fini(&w);
}

static void test_sched_submit_refuses_a_window_that_never_fits(void **state) {
    (void)state;
    struct world w;
    struct sched_opts o = windowed(16, 3);
    world_init(&w, &o);
    assert_err(sched_submit(&w.s, make(&w, 0, 40, 1), 0), ERR_LIMIT,
               "40 tokens needs 4 cache blocks of 4 tokens, the pool has 3");
    submit(&w, 0, 8, 2); /* short: all of it is three blocks */
    world_fini(&w);
}

static void test_sched_window_hit_needs_the_last_window_alone(void **state) {
    (void)state;
    struct world w;
    struct sched_opts o = windowed(16, 16);
    world_init(&w, &o);
    struct seq *a = submit(&w, 0, 14, 1);
    while (a->state != SEQ_FINISHED) {
        step(&w);
    }
    struct hash128 h; /* evict the first block of the windowed group */
    assert_true(kvpool_find(&w.s.pool[1], w.s.pool[1].root, a->tok, &h) >= 0);
    int32_t taken[16];
    int32_t n_taken = w.s.pool[1].n_free + 1;
    assert_ok(kvpool_take(&w.s.pool[1], n_taken, taken));
    kvpool_release(&w.s.pool[1], taken, n_taken);
    assert_int_equal(kvpool_find(&w.s.pool[1], w.s.pool[1].root, a->tok, &h), -1);
    struct seq *b = submit(&w, 0, 14, 1);
    plan(&w);
    expect_item(&w, 0, b, 12, 2, true); /* position 12 sees 7..: blocks 1 and 2 are enough */
    assert_true(b->held[0].n == 4 && b->held[1].first == 1 && b->held[1].id[0] == -1);
    assert_int_equal(b->n_cached, 12);
    world_fini(&w);
}

static void test_sched_window_full_hit_copies_in_every_group(void **state) {
    (void)state;
    struct world w;
    struct sched_opts o = windowed(16, 16);
    world_init(&w, &o);
    struct seq *a = submit(&w, 0, 12, 1);
    while (a->state != SEQ_FINISHED) {
        step(&w);
    }
    struct seq *b = submit(&w, 0, 12, 1);
    plan(&w);
    expect_item(&w, 0, b, 11, 1, true);
    for (int32_t g = 0; g < 2; g++) {
        assert_true(w.p.item[0].cow_src[g] >= 0);
        assert_int_equal(w.p.item[0].cow_dst[g], b->held[g].id[2]);
    }
    assert_int_equal(b->held[1].first, 1); /* position 11 sees 6..11 */
    world_fini(&w);
}

static int init_once(void *ctx) {
    struct sched s;
    struct plan p;
    int rc = sched_init(&s, ctx);
    if (rc) {
        return rc;
    }
    rc = plan_init(&p, 4);
    if (!rc) {
        plan_fini(&p);
    }
    sched_fini(&s);
    return rc;
}

static void test_sched_without_memory(void **state) {
    (void)state;
    static const int codes[] = {ERR_NOMEM, 0};
    struct sched_opts o = windowed(4, 4);
    test_fault_loop(FAULT_ALLOC, init_once, &o, codes);
}

int main(void) {
    const struct CMUnitTest tests[] = {TEST(test_sched_window_keeps_only_the_blocks_it_sees),
                                       TEST(test_sched_window_alone_outgrows_its_pool),
                                       TEST(test_sched_submit_refuses_a_window_that_never_fits),
                                       TEST(test_sched_window_hit_needs_the_last_window_alone),
                                       TEST(test_sched_window_full_hit_copies_in_every_group),
                                       TEST(test_sched_init_refuses_bad_options),
                                       TEST(test_sched_submit_refuses_what_never_fits),
                                       TEST(test_sched_submit_refuses_past_the_queue),
                                       TEST(test_sched_first_come_first_served),
                                       TEST(test_sched_priority_goes_before_arrival),
                                       TEST(test_sched_decode_rows_go_first),
                                       TEST(test_sched_chunks_obey_both_limits),
                                       TEST(test_sched_stop_tokens_and_length_end),
                                       TEST(test_sched_score_request_ends_scored),
                                       TEST(test_sched_preempts_the_last_and_admits_nobody),
                                       TEST(test_sched_preempted_comes_back_through_its_own_blocks),
                                       TEST(test_sched_alone_in_a_full_pool_ends_with_length),
                                       TEST(test_sched_abort_in_every_state),
                                       TEST(test_sched_abort_of_a_preempted),
                                       TEST(test_sched_partial_hit_skips_whole_blocks),
                                       TEST(test_sched_full_hit_computes_the_last_token_in_a_copy),
                                       TEST(test_sched_full_hit_without_a_block_for_the_copy),
                                       TEST(test_sched_no_prefix_cache_and_scores_find_nothing),
                                       TEST(test_sched_check_sees_lost_references),
                                       TEST(test_sched_without_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
