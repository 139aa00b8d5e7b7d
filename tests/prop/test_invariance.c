/* Law 5 of the engine: same prompt, same seed, same bits, whatever else runs.
 * LABELS: slow
 *
 * One request with sampled tokens is run alone; its rows of logits and its tokens are kept. Then it
 * runs again in a batch of 16, with a warm prefix cache, in chunks of 7 and of 512, with one and
 * two threads, in other blocks, with an F16 cache against itself, and while preemption is forced:
 * every bit must be equal each time. Models with sliding windows give blocks back on the way. */
#include "tests/support/support.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/rng.h"
#include "engine/run/engine.h"
#include "engine/sched/seq.h"

enum { N_PROMPT = 61, N_NEW = 20, N_OTHERS = 15, SEED = 42 };

struct trace {
    int32_t vocab;
    float *rows; /* own, [N_NEW, V] */
    int32_t tokens[N_NEW];
    int32_t n_rows;
    int32_t n_tokens;
    int32_t n_preempt;
    int32_t n_cached;
};

static int keep_row(void *ctx, int32_t pos, const float *logits, int32_t vocab) {
    struct trace *t = ctx;
    int32_t i = pos - (N_PROMPT - 1);
    assert_true(i >= 0 && i < N_NEW);
    memcpy(t->rows + (int64_t)i * vocab, logits, (size_t)vocab * sizeof *logits);
    t->n_rows++;
    return 0;
}

static void trace_init(struct trace *t, int32_t vocab) {
    memset(t, 0, sizeof *t);
    t->vocab = vocab;
    t->rows = mem_array(MEM_TEST, (int64_t)N_NEW * vocab, 4);
    assert_non_null(t->rows);
}

static void make_prompt(int32_t *ids, int32_t n, int32_t vocab, uint64_t stream) {
    struct rng r;
    rng_init(&r, 5, stream);
    for (int32_t i = 0; i < n; i++) {
        ids[i] = 3 + (int32_t)rng_below(&r, vocab - 3);
    }
}

static uint64_t submit(struct engine *e, struct trace *t, int32_t vocab, uint64_t stream) {
    int32_t ids[N_PROMPT];
    uint64_t id = 0;
    make_prompt(ids, N_PROMPT, vocab, stream);
    struct engine_request r = {.ids = ids,
                               .n_ids = N_PROMPT,
                               .max_new = N_NEW,
                               .ignore_stop = true,
                               .sampling = {.temperature = 0.8f, .top_p = 0.95f, .seed = SEED},
                               .row = t ? keep_row : NULL,
                               .row_ctx = t};
    assert_ok(engine_submit(e, &r, &id));
    return id;
}

/* Steps until all n requests are over; events of id go to t. */
static void drain(struct engine *e, uint64_t id, struct trace *t, int32_t n) {
    while (n > 0) {
        struct event ev;
        bool busy = false;
        assert_ok(engine_step(e, &busy));
        assert_ok(engine_check(e));
        while (engine_poll(e, &ev, 1) == 1) {
            if (ev.kind == EVENT_END) {
                n--;
                assert_int_equal(ev.finish, FINISH_LENGTH);
            }
            if (ev.id != id) {
                continue;
            }
            if (ev.kind == EVENT_TOKEN) {
                t->tokens[t->n_tokens++] = ev.token;
            } else {
                t->n_preempt = ev.n_preempt;
                t->n_cached = ev.n_cached;
            }
        }
    }
}

static void expect_equal(const struct trace *a, const struct trace *b, const char *what) {
    assert_int_equal(b->n_tokens, N_NEW);
    assert_memory_equal(a->tokens, b->tokens, sizeof a->tokens);
    if (memcmp(a->rows, b->rows, (size_t)N_NEW * (size_t)a->vocab * 4) != 0) {
        fail_msg("logits differ: %s", what);
    }
}

/* Runs the request among n_others others on a fresh engine; warm: a second time on the same one. */
static void one_run(const struct weights *w,
                    const struct engine_opts *o,
                    int32_t n_others,
                    bool warm,
                    struct trace *t) {
    struct engine *e = NULL;
    trace_init(t, w->cfg.vocab);
    assert_ok(engine_open(w, o, &e));
    for (int32_t pass = 0; pass < (warm ? 2 : 1); pass++) {
        t->n_rows = t->n_tokens = 0;
        for (int32_t i = 0; i < n_others; i++) {
            submit(e, NULL, w->cfg.vocab, 100 + (uint64_t)i);
        }
        uint64_t id = submit(e, t, w->cfg.vocab, 1);
        drain(e, id, t, n_others + 1);
    }
    engine_close(e);
}

static void
all_ways(const struct weights *w, const char *backend, const char *variant, enum dtype kv) {
    const struct {
        const char *what;
        int32_t threads;
        int32_t chunk;
        int32_t others;
        int32_t n_blocks;
        bool warm;
        int32_t block_tok;
    } ways[] = {{"two threads", 2, 0, 0, 0, false, 16},
                {"chunks of 7", 1, 7, 0, 0, false, 16},
                {"chunks of 512", 2, 512, 0, 0, false, 16},
                {"in a batch of 16", 2, 0, N_OTHERS, 0, false, 16},
                {"in a batch of 16, chunks of 7", 2, 7, N_OTHERS, 0, false, 16},
                {"warm prefix cache", 1, 0, 0, 0, true, 16},
                {"warm prefix cache, chunks of 7, batch", 2, 7, N_OTHERS, 0, true, 16},
                {"forced preemption", 2, 0, 1, 9, false, 16},
                {"blocks of 4, chunks of 7", 1, 7, 0, 0, false, 4},
                {"blocks of 4, warm prefix cache, batch", 2, 7, 3, 0, true, 4}};
    struct trace ref;
    struct kv_groups groups;
    model_cfg_kv_groups(&w->cfg, &groups);
    struct engine_opts base = {.backend = backend,
                               .variant = variant,
                               .n_threads = 1,
                               .batch_tok_max = 512,
                               .running_max = 16,
                               .ctx_max = 128,
                               .kv_type = kv,
                               .n_blocks = 256};
    one_run(w, &base, 0, false, &ref);
    assert_int_equal(ref.n_tokens, N_NEW);
    for (int32_t i = 0; i < ARRAY_LEN(ways); i++) {
        struct trace t;
        struct engine_opts o = base;
        o.n_threads = ways[i].threads;
        o.chunk_max = ways[i].chunk;
        o.block_tok = ways[i].block_tok;
        o.n_blocks = ways[i].n_blocks ? ways[i].n_blocks : o.n_blocks;
        one_run(w, &o, ways[i].others, ways[i].warm, &t);
        expect_equal(&ref, &t, ways[i].what);
        if (ways[i].warm) {
            assert_int_equal(t.n_cached, N_PROMPT / o.block_tok * o.block_tok);
        }
        if (ways[i].n_blocks && groups.window[0] == 0) { /* a window alone never runs out */
            assert_true(t.n_preempt > 0);
        }
        mem_free(t.rows);
    }
    mem_free(ref.rows);
}

/* first: index of the first machine to run */
static void on_model(const char *path, int32_t first) {
    static const struct {
        const char *backend;
        const char *variant;
    } machines[] = {{"cpu", "sse2"}, {"cpu", "avx2"}, {"cpu", "avx512"}, {"cuda", NULL}};
    struct ckpt *c = NULL;
    struct weights *w = NULL;
    assert_ok(ckpt_open(path, &c));
    assert_ok(weights_load(c, NULL, &w));
    for (int32_t i = first; i < ARRAY_LEN(machines); i++) {
        struct engine *e = NULL;
        struct engine_opts o = {.backend = machines[i].backend,
                                .variant = machines[i].variant,
                                .n_blocks = 8,
                                .ctx_max = 64};
        int rc = engine_open(w, &o, &e);
        engine_close(e);
        if (rc == ERR_UNSUPPORTED || rc == ERR_DEVICE) {
            print_message("not on this machine: %s\n", err_msg());
            continue;
        }
        assert_ok(rc);
        all_ways(w, machines[i].backend, machines[i].variant, DTYPE_F32);
        all_ways(w, machines[i].backend, machines[i].variant, DTYPE_F16);
    }
    weights_free(w);
    ckpt_close(c);
}

static void test_invariance_qwen3_any_schedule_same_bits(void **state) {
    (void)state;
    on_model(test_golden("models/qwen3"), 0);
}

static void test_invariance_smollm2_like_any_schedule_same_bits(void **state) {
    (void)state;
    on_model(test_golden("models/smollm2_like"), 0);
}

static void test_invariance_w4_any_schedule_same_bits(void **state) {
    (void)state;
    on_model(test_golden("quant/llama__gptq_w4a16_g32_static"), 0);
}

static void test_invariance_gemma3_any_schedule_same_bits(void **state) {
    (void)state;
    on_model(test_golden("models/gemma3"), 0);
}

static void test_invariance_mistral_any_schedule_same_bits(void **state) {
    (void)state;
    on_model(test_golden("models/mistral_swa"), 0);
}

static void test_invariance_qwen3_moe_any_schedule_same_bits(void **state) {
    (void)state;
    on_model(test_golden("models/qwen3_moe"), 0);
}

static void test_invariance_smollm2_any_schedule_same_bits(void **state) {
    (void)state;
    const char *path = test_smollm2();
    if (!path) {
        print_message("SmolLM2 is not in the cache (trilemma fetch smollm2-135m)\n");
        skip();
    }
    on_model(path, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {TEST(test_invariance_qwen3_any_schedule_same_bits),
                                       TEST(test_invariance_smollm2_like_any_schedule_same_bits),
                                       TEST(test_invariance_w4_any_schedule_same_bits),
                                       TEST(test_invariance_gemma3_any_schedule_same_bits),
                                       TEST(test_invariance_mistral_any_schedule_same_bits),
                                       TEST(test_invariance_qwen3_moe_any_schedule_same_bits),
                                       TEST(test_invariance_smollm2_any_schedule_same_bits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
