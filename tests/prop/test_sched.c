/* Random schedules against a model of the cache's content.
 *
 * The test plays the forward pass: it writes into a shadow cache, for every row of the batch, the
 * hash of the sequence's tokens up to that row, after the plan's block copies, once for each group
 * of layers. Then it demands that every earlier position a row attends to, in the group's window,
 * holds the right hash, so a block that was shared, evicted, copied or freed wrongly is seen at
 * once. "Sampled" tokens are a function of
 * the prefix hash, so a finished sequence must equal the one that a lone run would give, whatever
 * the schedule was. The pool's laws are checked after every step. */
#include "tests/support/support.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/rng.h"
#include "engine/sched/batch.h"
#include "engine/sched/sched.h"

enum { VOCAB = 3, N_STEPS = 1000000, LEN_MAX = 60, LIVE_MAX = 24 };

struct world {
    struct sched s;
    struct plan plan;
    struct batch_set batch;
    struct rng rng;
    uint64_t *shadow[KVGROUP_MAX]; /* [n_blocks * P] */
    int32_t n_live;
    uint64_t next_id;
    int64_t n_done;
    int64_t n_aborted;
    int64_t n_cow;
    int64_t n_pool_full; /* ended with length since the pool is no larger */
};

static uint64_t step_hash(uint64_t h, int32_t token) {
    return rng_keyed(h, (uint64_t)token + 1, 77);
}

static uint64_t prefix_hash(const struct seq *q, int32_t n) {
    uint64_t h = 1;
    for (int32_t i = 0; i < n; i++) {
        h = step_hash(h, q->tok[i]);
    }
    return h;
}

static int32_t sampled(uint64_t h) {
    return (int32_t)(rng_keyed(h, 5, 5) % VOCAB);
}

static void world_init(struct world *w, uint64_t seed) {
    memset(w, 0, sizeof *w);
    rng_init(&w->rng, seed, 0);
    int32_t P = (int32_t)(1 + rng_below(&w->rng, 5));
    /* why: in every fourth world a long sequence does not fit, not even alone */
    int64_t least = rng_below(&w->rng, 4) == 0 ? 2 : LEN_MAX / P + 2;
    struct sched_opts o = {.n_group = (int32_t)(1 + rng_below(&w->rng, 2)),
                           .block_tok = P,
                           .batch_tok_max = (int32_t)(8 + rng_below(&w->rng, 40)),
                           .running_max = (int32_t)(1 + rng_below(&w->rng, 8)),
                           .waiting_max = LIVE_MAX,
                           .chunk_max = (int32_t)rng_below(&w->rng, 9),
                           .no_prefix_cache = rng_below(&w->rng, 5) == 0,
                           .salt = seed};
    for (int32_t g = 0; g < o.n_group; g++) {
        bool windowed = g > 0 || rng_below(&w->rng, 3) == 0;
        o.group[g] = (struct sched_group){
            .n_blocks = (int32_t)(least + rng_below(&w->rng, 30)),
            .window = windowed ? (int32_t)(1 + rng_below(&w->rng, LEN_MAX / 2)) : 0};
    }
    assert_ok(sched_init(&w->s, &o));
    assert_ok(plan_init(&w->plan, o.running_max));
    assert_ok(batch_init(&w->batch, o.n_group, o.batch_tok_max, o.running_max, LEN_MAX + 1));
    for (int32_t g = 0; g < o.n_group; g++) {
        w->shadow[g] = mem_array(MEM_TEST, (int64_t)o.group[g].n_blocks * P, 8);
        assert_non_null(w->shadow[g]);
    }
}

/* Does some group lack the blocks for n tokens, even alone? */
static bool never_fits(const struct world *w, int32_t n) {
    for (int32_t g = 0; g < w->s.opts.n_group; g++) {
        if (sched_blocks_needed(&w->s.opts, g, n) > w->s.opts.group[g].n_blocks) {
            return true;
        }
    }
    return false;
}

static void check_result(struct world *w, struct seq *q) {
    if (q->finish == FINISH_ABORT) {
        w->n_aborted++;
    } else if (!q->score) {
        for (int32_t i = q->n_prompt; i < q->n_known; i++) {
            assert_int_equal(q->tok[i], sampled(prefix_hash(q, i)));
        }
        if (q->finish == FINISH_LENGTH && q->n_known < q->cap) {
            assert_true(never_fits(w, q->n_known));
            w->n_pool_full++;
        }
    }
    w->n_done++;
}

static void collect(struct world *w) {
    for (struct seq *q = sched_pop_done(&w->s); q; q = sched_pop_done(&w->s)) {
        check_result(w, q);
        assert_true(q->held[0].n == 0 && q->held[1].n == 0);
        seq_destroy(q);
        w->n_live--;
    }
}

static void submit_one(struct world *w) {
    int32_t ids[LEN_MAX];
    int32_t n = (int32_t)(1 + rng_below(&w->rng, LEN_MAX / 2));
    int32_t max_new = (int32_t)rng_below(&w->rng, LEN_MAX - n);
    struct seq *q = NULL;
    for (int32_t i = 0; i < n; i++) {
        /* why: mostly equal beginnings, so that prefixes are shared and diverge inside blocks */
        ids[i] = rng_below(&w->rng, 10) == 0 ? (int32_t)rng_below(&w->rng, VOCAB) : i % VOCAB;
    }
    assert_ok(seq_create(ids, n, max_new, w->s.opts.block_tok, w->s.opts.n_group, &q));
    q->id = ++w->next_id;
    q->priority = (int32_t)rng_below(&w->rng, 3);
    q->score = rng_below(&w->rng, 8) == 0;
    q->score_from = (int32_t)rng_below(&w->rng, n);
    q->n_stop = rng_below(&w->rng, 3) == 0 ? 1 : 0;
    q->stop[0] = (int32_t)rng_below(&w->rng, VOCAB);
    int rc = sched_submit(&w->s, q, 0);
    if (rc == ERR_LIMIT) {
        assert_true(never_fits(w, n + (q->score ? 0 : 1)));
        seq_destroy(q);
        return;
    }
    assert_ok(rc);
    w->n_live++;
}

static void check_reads(struct world *w, const struct plan_item *it, int32_t g) {
    int32_t P = w->s.opts.block_tok;
    int32_t window = w->s.opts.group[g].window;
    int32_t lo = window > 0 ? i32_max(0, it->start - window + 1) : 0;
    uint64_t h = 1;
    for (int32_t i = 0; i < it->start; i++) {
        h = step_hash(h, it->seq->tok[i]);
        int32_t id = it->seq->held[g].id[i / P];
        if (i >= lo && (id < 0 || w->shadow[g][(int64_t)id * P + i % P] != h)) {
            fail_msg("sequence %llu, group %d, reads a wrong block at position %d of %d",
                     (unsigned long long)it->seq->id, g, i, it->start);
        }
    }
}

static void copy_blocks(struct world *w, int32_t g) {
    int32_t P = w->s.opts.block_tok;
    for (int32_t i = 0; i < w->plan.n_item; i++) {
        const struct plan_item *it = &w->plan.item[i];
        if (it->cow_src[g] >= 0) {
            memcpy(w->shadow[g] + (int64_t)it->cow_dst[g] * P,
                   w->shadow[g] + (int64_t)it->cow_src[g] * P, (size_t)P * 8);
            w->n_cow++;
        }
    }
}

static void play_forward(struct world *w) {
    const struct plan *p = &w->plan;
    for (int32_t g = 0; g < w->s.opts.n_group; g++) {
        const struct batch *b = &w->batch.group[g];
        copy_blocks(w, g);
        for (int32_t i = 0; i < p->n_item; i++) {
            const struct plan_item *it = &p->item[i];
            for (int32_t j = 0; j < it->n; j++) {
                int32_t t = b->seq_start[i] + j;
                assert_int_equal(b->pos[t], it->start + j);
                w->shadow[g][b->slot[t]] = prefix_hash(it->seq, it->start + j + 1);
            }
        }
        for (int32_t i = 0; i < p->n_item; i++) {
            check_reads(w, &p->item[i], g);
        }
    }
}

/* No sequence holds more than its bound. */
static void check_holdings(const struct world *w) {
    for (int32_t i = 0; i < w->s.n_running; i++) {
        const struct seq *q = w->s.running[i];
        for (int32_t g = 0; g < w->s.opts.n_group; g++) {
            assert_true(q->held[g].n - q->held[g].first <=
                        sched_blocks_needed(&w->s.opts, g, q->n_known));
        }
    }
}

static void step(struct world *w) {
    int32_t tokens[64];
    sched_plan(&w->s, &w->plan);
    assert_true(w->plan.n_tok <= w->s.opts.batch_tok_max);
    if (w->plan.n_item == 0 && w->s.n_done == 0) {
        assert_int_equal(w->s.n_running + w->s.n_waiting, 0); /* somebody always progresses */
    }
    if (w->plan.n_item > 0) {
        check_holdings(w);
        batch_build(&w->batch, &w->plan, w->s.opts.block_tok);
        play_forward(w);
        for (int32_t i = 0; i < w->plan.n_item; i++) {
            tokens[i] = sampled(prefix_hash(w->plan.item[i].seq, w->plan.item[i].seq->n_known));
        }
        sched_commit(&w->s, &w->plan, tokens);
    }
    assert_ok(sched_check(&w->s));
    collect(w);
}

static void world_fini(struct world *w) {
    int32_t n = 0;
    while (w->n_live > 0) {
        step(w);
        if (++n > 100000) {
            fail_msg("%d sequences never end", w->n_live);
        }
    }
    for (int32_t g = 0; g < KVGROUP_MAX; g++) {
        assert_int_equal(w->s.pool[g].n_active, 0);
        mem_free(w->shadow[g]);
    }
    batch_fini(&w->batch);
    plan_fini(&w->plan);
    sched_fini(&w->s);
}

static void test_sched_random_schedules_keep_content_and_laws(void **state) {
    (void)state;
    const char *env = getenv("TRILEMMA_PROP_STEPS");
    int64_t n_steps = env ? strtoll(env, NULL, 10) : N_STEPS;
    int64_t n = 0;
    int64_t done = 0;
    int64_t cow = 0;
    int64_t preempted = 0;
    int64_t hits = 0;
    int64_t full = 0;
    for (uint64_t seed = 1; n < n_steps; seed++) {
        struct world w;
        world_init(&w, seed);
        for (int32_t i = 0; i < 2000; i++, n++) {
            if (w.n_live < LIVE_MAX && rng_below(&w.rng, 3) == 0) {
                submit_one(&w);
            }
            if (rng_below(&w.rng, 40) == 0 && w.next_id > 0) {
                sched_abort(&w.s, 1 + (uint64_t)rng_below(&w.rng, (int64_t)w.next_id));
                assert_ok(sched_check(&w.s));
            }
            if (rng_below(&w.rng, 400) == 0) {
                sched_flush(&w.s);
            }
            step(&w);
        }
        preempted += w.s.n_preempted;
        hits += w.s.n_hit_tok;
        world_fini(&w);
        done += w.n_done;
        cow += w.n_cow;
        full += w.n_pool_full;
    }
    print_message("%lld steps, %lld sequences, %lld preemptions, %lld tokens hit, %lld copies, "
                  "%lld past the pool\n",
                  (long long)n, (long long)done, (long long)preempted, (long long)hits,
                  (long long)cow, (long long)full);
    assert_true(done > 0 && preempted > 0 && hits > 0 && cow > 0 && full > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {TEST(test_sched_random_schedules_keep_content_and_laws)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
