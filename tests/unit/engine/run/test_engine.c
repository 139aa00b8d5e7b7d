/* The engine's border on the null backend: limits, events, ends, scores, and what a step costs. */
#include "tests/support/support.h"

#include <math.h>
#include <string.h>

#include "engine/run/engine.h"
#include "engine/sched/seq.h"
#include "tests/support/toy_model.h"

enum { EVENTS = 4096 };

static char dir[FILE_PATH_MAX];
static struct toy_model toy;
static struct ckpt *ckpt;
static struct weights *weights;
static struct engine *engine;
static struct event got[EVENTS];
static int32_t n_got;

static int setup(void **state) {
    test_setup(state);
    test_tmpdir(dir);
    toy_model_init(&toy, 2, DTYPE_F32);
    toy_model_write_hf(&toy, dir, "", 0);
    engine = NULL;
    int rc = ckpt_open(dir, &ckpt);
    return rc ? rc : weights_load(ckpt, NULL, &weights);
}

static int teardown(void **state) {
    fault_disarm();
    engine_close(engine);
    weights_free(weights);
    ckpt_close(ckpt);
    toy_model_fini(&toy);
    test_rmdir(dir);
    return test_teardown(state);
}

static struct engine_opts opts(void) {
    return (struct engine_opts){.backend = "null",
                                .n_threads = 1,
                                .block_tok = 4,
                                .batch_tok_max = 32,
                                .running_max = 4,
                                .waiting_max = 8,
                                .n_blocks = 64};
}

static void open_engine(const struct engine_opts *o) {
    engine_close(engine);
    engine = NULL;
    assert_ok(engine_open(weights, o, &engine));
    n_got = 0;
}

static struct engine_request request(int32_t n_ids, int32_t max_new) {
    static int32_t ids[TOY_CTX];
    for (int32_t i = 0; i < TOY_CTX; i++) {
        ids[i] = 3 + i % 30;
    }
    return (struct engine_request){
        .ids = ids, .n_ids = n_ids, .max_new = max_new, .ignore_stop = true};
}

static uint64_t submit(const struct engine_request *r) {
    uint64_t id = 0;
    assert_ok(engine_submit(engine, r, &id));
    assert_true(id > 0);
    return id;
}

static void poll_all(void) {
    n_got += engine_poll(engine, got + n_got, EVENTS - n_got);
}

static void drain(void) {
    for (bool busy = true; busy;) {
        assert_ok(engine_step(engine, &busy));
        assert_ok(engine_check(engine));
        poll_all();
    }
}

/* The END of a request; fails unless there is exactly one, behind all its tokens. */
static const struct event *end_of(uint64_t id) {
    const struct event *end = NULL;
    int32_t n_tok = 0;
    for (int32_t i = 0; i < n_got; i++) {
        if (got[i].id != id) {
            continue;
        }
        assert_null(end);
        if (got[i].kind == EVENT_END) {
            end = &got[i];
        } else {
            assert_int_equal(got[i].index, n_tok);
            n_tok++;
        }
    }
    assert_non_null(end);
    assert_int_equal(end->index, n_tok);
    return end;
}

static int32_t tokens_of(uint64_t id, int32_t *out) {
    int32_t n = 0;
    for (int32_t i = 0; i < n_got; i++) {
        if (got[i].id == id && got[i].kind == EVENT_TOKEN) {
            out[n++] = got[i].token;
        }
    }
    return n;
}

#define expect_open_bad(change, code, part)                                                        \
    do {                                                                                           \
        struct engine_opts o_ = opts();                                                            \
        struct engine *e_ = NULL;                                                                  \
        change;                                                                                    \
        assert_err(engine_open(weights, &o_, &e_), (code), (part));                                \
        assert_null(e_);                                                                           \
    } while (0)

static void test_engine_open_refuses_bad_options(void **state) {
    (void)state;
    expect_open_bad(o_.backend = "tpu", ERR_UNSUPPORTED, "\"tpu\", this build has");
    expect_open_bad(o_.n_threads = -1, ERR_RANGE, "n_threads is -1");
    expect_open_bad(o_.block_tok = -1, ERR_RANGE, "block_tok is -1");
    expect_open_bad(o_.block_tok = INT32_MAX, ERR_RANGE, "want 0..256");
    expect_open_bad(o_.batch_tok_max = -5, ERR_RANGE, "batch_tok_max is -5");
    expect_open_bad(o_.batch_tok_max = INT32_MAX, ERR_RANGE, "batch_tok_max is 2147483647");
    expect_open_bad(o_.running_max = INT32_MAX, ERR_RANGE, "running_max");
    expect_open_bad(o_.running_max = 33, ERR_RANGE, "33 running (at most as many)");
    expect_open_bad(o_.waiting_max = INT32_MAX, ERR_RANGE, "waiting_max");
    expect_open_bad(o_.chunk_max = -1, ERR_RANGE, "chunk_max is -1");
    expect_open_bad(o_.ctx_max = -1, ERR_RANGE, "ctx_max is -1");
    expect_open_bad(o_.n_blocks = -1, ERR_RANGE, "n_blocks is -1");
    expect_open_bad((o_.n_blocks = 0, o_.kv_bytes = -1), ERR_RANGE, "kv_bytes is -1");
    expect_open_bad((o_.n_blocks = 0, o_.kv_bytes = 1), ERR_RANGE, "1 bytes hold no KV block");
    expect_open_bad(o_.kv_type = DTYPE_N, ERR_RANGE, "kv_type");
    expect_open_bad((o_.backend = "ref", o_.kv_type = DTYPE_I8), ERR_UNSUPPORTED, "I8");
}

static void test_engine_defaults_open(void **state) {
    (void)state;
    struct engine_stats s;
    const struct engine_opts o = {.backend = "null"};
    open_engine(&o);
    engine_stats(engine, &s);
    assert_true(s.n_blocks == 32 * TOY_CTX / 16 && s.ctx_max == TOY_CTX);
    assert_int_equal(s.kv_bytes_per_token, 2 * 2 * TOY_K * TOY_D * 4);
    assert_int_equal(s.kv_bytes, s.kv_bytes_per_token * 16 * s.n_blocks);
    assert_non_null(strstr(engine_describe(engine), "null: "));
}

static void test_engine_submit_refuses(void **state) {
    (void)state;
    struct engine_opts o = opts();
    uint64_t id = 77;
    o.n_blocks = 10;
    open_engine(&o);
    struct engine_request r = request(0, 1);
    assert_err(engine_submit(engine, &r, &id), ERR_RANGE, "0 prompt tokens");
    r = request(1, -1);
    assert_err(engine_submit(engine, &r, &id), ERR_RANGE, "-1 new tokens");
    r = request(1, 1);
    r.n_stop = SEQ_STOP_MAX + 1;
    assert_err(engine_submit(engine, &r, &id), ERR_RANGE, "17 stop tokens");
    r.n_stop = -1;
    r.stop = r.ids;
    assert_err(engine_submit(engine, &r, &id), ERR_RANGE, "-1 stop tokens");
    r = request(40, 1);
    assert_err(engine_submit(engine, &r, &id), ERR_LIMIT,
               "40 tokens needs 11 cache blocks of 4 tokens, the pool has 10");
    r.score = true;
    assert_ok(engine_submit(engine, &r, &id));
    r = request(2, 1);
    r.ids = (const int32_t[]){1, TOY_V};
    assert_err(engine_submit(engine, &r, &id), ERR_RANGE, "token 1 of the prompt is 40");
    r.ids = (const int32_t[]){-1, 1};
    assert_err(engine_submit(engine, &r, &id), ERR_RANGE, "token 0 of the prompt is -1");
    r = request(2, 1);
    r.sampling.top_p = 7;
    assert_err(engine_submit(engine, &r, &id), ERR_RANGE, "top_p 7");
}

static void test_engine_context_is_a_limit(void **state) {
    (void)state;
    struct engine_opts o = opts();
    uint64_t id = 0;
    o.ctx_max = 20;
    open_engine(&o);
    struct engine_request r = request(21, 1);
    assert_err(engine_submit(engine, &r, &id), ERR_LIMIT, "21 tokens, the context holds 20");
    r = request(20, 1);
    assert_err(engine_submit(engine, &r, &id), ERR_LIMIT, "at least one new token");
    r.score = true;
    submit(&r);
    r = request(15, 100);
    id = submit(&r);
    drain();
    assert_true(end_of(id)->finish == FINISH_LENGTH && end_of(id)->index == 5);
}

static void test_engine_runs_a_request(void **state) {
    (void)state;
    struct engine_opts o = opts();
    open_engine(&o);
    struct engine_request r = request(10, 6);
    uint64_t id = submit(&r);
    drain();
    const struct event *end = end_of(id);
    assert_true(end->finish == FINISH_LENGTH && end->index == 6 && end->n_prompt == 10);
    assert_true(end->n_cached == 0 && end->n_preempt == 0 && end->token == -1);
    assert_true(end->first_run_ns > 0 && end->first_run_ns <= got[0].t_ns);
    for (int32_t i = 1; i < n_got; i++) {
        assert_true(got[i].t_ns >= got[i - 1].t_ns);
        assert_true(isnan(got[i].logprob));
    }
}

static void test_engine_stop_tokens(void **state) {
    (void)state;
    struct engine_opts o = opts();
    int32_t tok[8];
    open_engine(&o);
    struct engine_request r = request(10, 8);
    uint64_t id = submit(&r);
    drain();
    assert_int_equal(tokens_of(id, tok), 8);
    int32_t first = 0; /* where the token that we choose appears first */
    while (tok[first] != tok[3]) {
        first++;
    }
    r.ignore_stop = false;
    r.stop = &tok[3];
    r.n_stop = 1;
    id = submit(&r);
    drain();
    assert_true(end_of(id)->finish == FINISH_STOP && end_of(id)->index == first + 1);
    weights->cfg.eos[0] = tok[3]; /* without a list the model's own ids end it */
    r.stop = NULL;
    id = submit(&r);
    drain();
    assert_true(end_of(id)->finish == FINISH_STOP && end_of(id)->index == first + 1);
    r.ignore_stop = true;
    id = submit(&r);
    drain();
    assert_int_equal(end_of(id)->finish, FINISH_LENGTH);
}

static void test_engine_no_new_tokens_only_an_end(void **state) {
    (void)state;
    struct engine_opts o = opts();
    open_engine(&o);
    struct engine_request r = request(10, 0);
    uint64_t id = submit(&r);
    drain();
    assert_true(end_of(id)->finish == FINISH_LENGTH && end_of(id)->index == 0 && n_got == 1);
}

static void test_engine_busy_past_its_limit(void **state) {
    (void)state;
    struct engine_opts o = opts();
    uint64_t id[9] = {0};
    open_engine(&o);
    struct engine_request r = request(4, 3);
    for (int32_t i = 0; i < 8; i++) {
        id[i] = submit(&r);
    }
    assert_err(engine_submit(engine, &r, &id[8]), ERR_BUSY, "8 requests are in flight");
    drain();
    for (int32_t i = 0; i < 8; i++) {
        assert_int_equal(end_of(id[i])->finish, FINISH_LENGTH);
    }
    submit(&r);
    drain();
}

static void test_engine_abort_before_during_after(void **state) {
    (void)state;
    struct engine_opts o = opts();
    bool busy = false;
    open_engine(&o);
    struct engine_request r = request(10, 50);
    uint64_t early = submit(&r);
    assert_ok(engine_abort(engine, early));
    uint64_t later = submit(&r);
    uint64_t never = submit(&r);
    assert_ok(engine_step(engine, &busy));
    assert_ok(engine_step(engine, &busy));
    poll_all();
    assert_true(end_of(early)->finish == FINISH_ABORT && end_of(early)->index == 0);
    assert_int_equal(end_of(early)->first_run_ns, -1);
    assert_ok(engine_abort(engine, later));
    assert_ok(engine_abort(engine, 9999));
    assert_ok(engine_step(engine, &busy));
    poll_all();
    assert_int_equal(end_of(later)->finish, FINISH_ABORT);
    assert_true(end_of(later)->index > 0);
    drain();
    assert_int_equal(end_of(never)->finish, FINISH_LENGTH);
    assert_ok(engine_abort(engine, never));
    assert_ok(engine_abort(engine, later));
    drain();
    end_of(never);
    end_of(later);
    struct engine_stats s;
    engine_stats(engine, &s);
    assert_int_equal(s.n_blocks_active, 0);
}

static void test_engine_abort_queue_is_bounded(void **state) {
    (void)state;
    struct engine_opts o = opts();
    int rc = 0;
    int32_t n = 0;
    open_engine(&o);
    for (; n < 100000 && !rc; n++) {
        rc = engine_abort(engine, 5);
    }
    assert_err(rc, ERR_BUSY, "queue of commands is full");
    drain();
    assert_ok(engine_abort(engine, 5));
}

static void test_engine_stats_add_up(void **state) {
    (void)state;
    struct engine_opts o = opts();
    struct engine_stats s;
    open_engine(&o);
    struct engine_request r = request(10, 6);
    submit(&r);
    drain();
    engine_stats(engine, &s);
    assert_true(s.n_tok_generated == 6 && s.n_tok_computed == 15 && s.n_running == 0);
    assert_true(s.n_blocks == 64 && s.n_blocks_active == 0 && s.n_blocks_cached == 3);
    assert_true(s.n_prefix_query_tok == 10 && s.n_prefix_hit_tok == 0);
    uint64_t id = submit(&r);
    drain();
    assert_int_equal(end_of(id)->n_cached, 8);
    engine_stats(engine, &s);
    assert_true(s.n_prefix_hit_tok == 8 && s.n_tok_computed == 22 && s.n_tok_generated == 12);
    engine_flush(engine);
    id = submit(&r);
    drain();
    assert_int_equal(end_of(id)->n_cached, 0);
}

struct rows {
    int32_t next; /* position that must come */
    int32_t n;
    int32_t fail_at; /* -1: never */
};

static int see_row(void *ctx, int32_t pos, const float *logits, int32_t vocab) {
    struct rows *r = ctx;
    assert_int_equal(pos, r->next);
    assert_int_equal(vocab, TOY_V);
    float sum = 0;
    for (int32_t i = 0; i < vocab; i++) {
        sum += logits[i];
    }
    assert_true(sum == 16);
    r->next++;
    r->n++;
    return pos == r->fail_at ? err_set(ERR_CHECKSUM, "row %d is not liked", pos) : 0;
}

static void test_engine_score_gives_rows_in_order(void **state) {
    (void)state;
    static const int32_t chunks[] = {0, 1, 7};
    struct engine_request r = request(100, 0);
    for (int32_t i = 0; i < ARRAY_LEN(chunks); i++) {
        struct engine_opts o = opts();
        struct rows rows = {.fail_at = -1};
        o.chunk_max = chunks[i];
        o.batch_tok_max = 100;
        open_engine(&o);
        assert_ok(engine_score(engine, r.ids, 100, 0, see_row, &rows));
        assert_int_equal(rows.n, 100);
        rows = (struct rows){.next = 93, .fail_at = -1};
        assert_ok(engine_score(engine, r.ids, 100, 93, see_row, &rows));
        assert_int_equal(rows.n, 7);
    }
    struct rows none = {0};
    assert_err(engine_score(engine, r.ids, 5, 5, see_row, &none), ERR_RANGE, "from position 5");
    assert_err(engine_score(engine, r.ids, 5, -1, see_row, &none), ERR_RANGE, "position -1");
}

static void test_engine_score_passes_the_row_functions_code_on(void **state) {
    (void)state;
    struct engine_opts o = opts();
    struct rows rows = {.fail_at = 3};
    struct engine_request r = request(20, 0);
    open_engine(&o);
    assert_err(engine_score(engine, r.ids, 20, 0, see_row, &rows), ERR_CHECKSUM,
               "row 3 is not liked");
    assert_int_equal(rows.n, 4);
    rows = (struct rows){.fail_at = -1};
    assert_ok(engine_score(engine, r.ids, 20, 0, see_row, &rows));
}

static void test_engine_row_error_ends_that_request_alone(void **state) {
    (void)state;
    struct engine_opts o = opts();
    struct rows rows = {.next = 9, .fail_at = 12};
    open_engine(&o);
    struct engine_request r = request(10, 8);
    uint64_t good = submit(&r);
    r.row = see_row;
    r.row_ctx = &rows;
    uint64_t bad = submit(&r);
    struct rows at_once = {.next = 9, .fail_at = 9};
    r.row_ctx = &at_once;
    uint64_t worse = submit(&r);
    drain();
    assert_true(end_of(good)->finish == FINISH_LENGTH && end_of(good)->index == 8);
    assert_true(end_of(bad)->finish == FINISH_ERROR && end_of(bad)->index == 3);
    assert_true(end_of(worse)->finish == FINISH_ERROR && end_of(worse)->index == 0);
}

static void test_engine_logprobs_are_of_the_softmax(void **state) {
    (void)state;
    struct engine_opts o = opts();
    open_engine(&o);
    o.logprobs = true;
    open_engine(&o);
    struct engine_request r = request(10, 3);
    submit(&r);
    drain();
    /* null's rows are zero but for one 16 */
    assert_rel((double)got[0].logprob, 16 - log(exp(16) + TOY_V - 1), 1e-3);
}

static void test_engine_same_tokens_in_any_company(void **state) {
    (void)state;
    struct engine_opts o = opts();
    int32_t alone[20];
    int32_t among[20];
    struct engine_request r = request(13, 20);
    r.sampling = (struct sampling){.temperature = 30, .seed = 5};
    open_engine(&o);
    uint64_t id = submit(&r);
    drain();
    assert_int_equal(tokens_of(id, alone), 20);
    for (int32_t way = 0; way < 3; way++) {
        o.chunk_max = way == 1 ? 3 : 0;
        o.n_blocks = way == 2 ? 10 : 64; /* too few for two: somebody is preempted */
        open_engine(&o);
        struct engine_request other = request(17, 20);
        other.sampling = (struct sampling){.temperature = 30, .seed = 6};
        other.ids += 3;
        submit(&other);
        id = submit(&r);
        drain();
        assert_int_equal(tokens_of(id, among), 20);
        assert_memory_equal(alone, among, sizeof alone);
        assert_true(way != 2 || end_of(id)->n_preempt > 0);
    }
}

/* A stop token that would come at once is held off for min_new tokens and no longer. */
static void test_engine_min_new_holds_stop_tokens_off(void **state) {
    (void)state;
    struct engine_opts o = opts();
    int32_t free_run[20];
    int32_t held[20];
    open_engine(&o);
    struct engine_request r = request(10, 20);
    uint64_t id = submit(&r);
    drain();
    assert_int_equal(tokens_of(id, free_run), 20);
    r.ignore_stop = false;
    r.stop = free_run;
    r.n_stop = 1;
    id = submit(&r);
    drain();
    assert_true(end_of(id)->finish == FINISH_STOP && end_of(id)->index == 1);
    r.min_new = 5;
    id = submit(&r);
    drain();
    int32_t n = tokens_of(id, held);
    assert_true(n > 5);
    for (int32_t i = 0; i < n - 1; i++) {
        assert_true(held[i] != free_run[0]);
    }
    r.min_new = -1;
    assert_err(engine_submit(engine, &r, &id), ERR_RANGE, "new tokens");
}

static void test_engine_penalties_change_what_is_drawn(void **state) {
    (void)state;
    struct engine_opts o = opts();
    int32_t tok[40];
    int32_t count[TOY_V] = {0};
    open_engine(&o);
    struct engine_request r = request(10, 40);
    r.sampling = (struct sampling){.temperature = 0.01f, .frequency = 2, .presence = 2};
    r.logprob = true;
    uint64_t id = submit(&r);
    drain();
    assert_int_equal(tokens_of(id, tok), 40);
    /* null's rows are zero but for one 16: a token loses its place after six times */
    for (int32_t i = 0; i < 40; i++) {
        count[tok[i]]++;
        assert_true(count[tok[i]] <= 8);
        assert_true(isfinite(got[i].logprob));
    }
}

static void test_engine_alone_past_the_pool_ends_with_length(void **state) {
    (void)state;
    struct engine_opts o = opts();
    o.n_blocks = 4;
    open_engine(&o);
    struct engine_request r = request(10, 50);
    uint64_t id = submit(&r);
    drain();
    /* 16 positions fit; the token after the last of them is known, not computed */
    assert_true(end_of(id)->finish == FINISH_LENGTH && end_of(id)->index == 7);
}

static void test_engine_full_event_ring_holds_steps_back(void **state) {
    (void)state;
    struct engine_opts o = opts();
    bool busy = false;
    uint64_t id[8];
    int rc = 0;
    open_engine(&o);
    struct engine_request r = request(4, 100);
    for (int32_t i = 0; i < 8; i++) {
        id[i] = submit(&r);
    }
    for (int32_t i = 0; i < 1000 && !rc; i++) {
        rc = engine_step(engine, &busy);
    }
    assert_err(rc, ERR_AGAIN, "ring of events is full");
    assert_err(engine_step(engine, &busy), ERR_AGAIN, "full");
    assert_true(busy);
    poll_all();
    drain();
    for (int32_t i = 0; i < 8; i++) {
        assert_true(end_of(id[i])->finish == FINISH_LENGTH && end_of(id[i])->index == 100);
    }
}

static void test_engine_step_allocates_nothing(void **state) {
    (void)state;
    struct engine_opts o = opts();
    int32_t n_step = 0;
    o.n_blocks = 40; /* some are preempted on the way */
    open_engine(&o);
    struct engine_request r = request(20, 100);
    r.sampling = (struct sampling){.temperature = 20, .top_p = 0.9f, .top_k = 30, .seed = 1};
    while (n_step < 1000) {
        bool busy = true;
        for (int32_t i = 0; i < 8; i++) {
            submit(&r);
        }
        int64_t calls = mem_calls();
        for (; busy; n_step++) {
            assert_ok(engine_step(engine, &busy));
            n_got = 0;
            poll_all();
        }
        assert_int_equal(mem_calls(), calls);
    }
    struct engine_stats s;
    engine_stats(engine, &s);
    assert_true(s.n_preempted > 0);
}

static void test_engine_failed_step_ends_everything(void **state) {
    (void)state;
    struct engine_opts o = opts();
    bool busy = false;
    uint64_t id[6];
    o.running_max = 2;
    open_engine(&o);
    struct engine_request r = request(10, 20);
    for (int32_t i = 0; i < 5; i++) {
        id[i] = submit(&r);
    }
    assert_ok(engine_step(engine, &busy));
    weights->embed.n = 2; /* the machine now refuses every token */
    assert_err(engine_step(engine, &busy), ERR_RANGE, "token");
    weights->embed.n = TOY_V;
    poll_all();
    for (int32_t i = 0; i < 5; i++) {
        assert_int_equal(end_of(id[i])->finish, FINISH_ERROR);
    }
    assert_err(engine_submit(engine, &r, &id[5]), ERR_DEVICE, "failed in an earlier step");
    assert_ok(engine_step(engine, &busy));
    assert_false(busy);
    assert_ok(engine_check(engine));
}

static void test_engine_close_with_requests_inside(void **state) {
    (void)state;
    struct engine_opts o = opts();
    bool busy = false;
    open_engine(&o);
    struct engine_request r = request(10, 20);
    for (int32_t i = 0; i < 6; i++) {
        submit(&r);
    }
    assert_ok(engine_step(engine, &busy));
    submit(&r);
    assert_ok(engine_abort(engine, 1));
    engine_close(engine);
    engine = NULL;
    engine_close(NULL);
}

#define ENGINE_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        ENGINE_TEST(test_engine_open_refuses_bad_options),
        ENGINE_TEST(test_engine_defaults_open),
        ENGINE_TEST(test_engine_submit_refuses),
        ENGINE_TEST(test_engine_context_is_a_limit),
        ENGINE_TEST(test_engine_runs_a_request),
        ENGINE_TEST(test_engine_stop_tokens),
        ENGINE_TEST(test_engine_no_new_tokens_only_an_end),
        ENGINE_TEST(test_engine_busy_past_its_limit),
        ENGINE_TEST(test_engine_abort_before_during_after),
        ENGINE_TEST(test_engine_abort_queue_is_bounded),
        ENGINE_TEST(test_engine_stats_add_up),
        ENGINE_TEST(test_engine_score_gives_rows_in_order),
        ENGINE_TEST(test_engine_score_passes_the_row_functions_code_on),
        ENGINE_TEST(test_engine_row_error_ends_that_request_alone),
        ENGINE_TEST(test_engine_logprobs_are_of_the_softmax),
        ENGINE_TEST(test_engine_same_tokens_in_any_company),
        ENGINE_TEST(test_engine_min_new_holds_stop_tokens_off),
        ENGINE_TEST(test_engine_penalties_change_what_is_drawn),
        ENGINE_TEST(test_engine_alone_past_the_pool_ends_with_length),
        ENGINE_TEST(test_engine_full_event_ring_holds_steps_back),
        ENGINE_TEST(test_engine_step_allocates_nothing),
        ENGINE_TEST(test_engine_failed_step_ends_everything),
        ENGINE_TEST(test_engine_close_with_requests_inside)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
