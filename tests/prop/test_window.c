/* Sliding windows: a sequence may grow past the tokens that its windowed pool holds, and what it
 * computes then is what it computes with all blocks at hand, bit for bit. */
#include "tests/support/support.h"

#include <string.h>

#include "engine/run/engine.h"

enum { N_PROMPT = 24, N_NEW = 100, P = 4, CHUNK = 5 };

struct trace {
    float *rows; /* own, [N_NEW, V] */
    int32_t tokens[N_NEW];
    int32_t n_rows;
    int32_t most_active; /* blocks in use, all groups */
};

static int keep_row(void *ctx, int32_t pos, const float *logits, int32_t vocab) {
    struct trace *t = ctx;
    assert_int_equal(pos, N_PROMPT - 1 + t->n_rows);
    memcpy(t->rows + (int64_t)t->n_rows++ * vocab, logits, (size_t)vocab * sizeof *logits);
    return 0;
}

static void run(const struct weights *w, int64_t kv_bytes, int32_t chunk, struct trace *t) {
    struct engine *e = NULL;
    int32_t ids[N_PROMPT];
    uint64_t id = 0;
    bool busy = true;
    struct engine_opts o = {.block_tok = P,
                            .n_threads = 1,
                            .batch_tok_max = 64,
                            .chunk_max = chunk,
                            .running_max = 2,
                            .kv_bytes = kv_bytes,
                            .ctx_max = N_PROMPT + N_NEW};
    memset(t, 0, sizeof *t);
    t->rows = mem_array(MEM_TEST, (int64_t)N_NEW * w->cfg.vocab, 4);
    assert_non_null(t->rows);
    for (int32_t i = 0; i < N_PROMPT; i++) {
        ids[i] = 5 + i * 7 % 100;
    }
    assert_ok(engine_open(w, &o, &e));
    struct engine_request r = {.ids = ids,
                               .n_ids = N_PROMPT,
                               .max_new = N_NEW,
                               .ignore_stop = true,
                               .row = keep_row,
                               .row_ctx = t};
    assert_ok(engine_submit(e, &r, &id));
    while (busy) {
        struct event ev;
        struct engine_stats s;
        assert_ok(engine_step(e, &busy));
        assert_ok(engine_check(e));
        engine_stats(e, &s);
        t->most_active = i32_max(t->most_active, s.n_blocks_active);
        while (engine_poll(e, &ev, 1) == 1) {
            if (ev.kind == EVENT_TOKEN) {
                t->tokens[ev.index] = ev.token;
            } else {
                assert_true(ev.n_preempt == 0 && ev.index == N_NEW);
            }
        }
    }
    engine_close(e);
}

static void on_model(const char *path) {
    struct ckpt *c = NULL;
    struct weights *w = NULL;
    struct trace all;
    struct trace few;
    struct kv_groups groups;
    int32_t bound = 0;
    int64_t one = 0;
    assert_ok(ckpt_open(path, &c));
    assert_ok(weights_load(c, NULL, &w));
    model_cfg_kv_groups(&w->cfg, &groups);
    for (int32_t g = 0; g < groups.n; g++) {
        int32_t span = groups.window[g] ? groups.window[g] - 1 + CHUNK : N_PROMPT + N_NEW;
        int32_t blocks = (span + P - 1) / P + (groups.window[g] ? 1 : 0);
        bound += blocks;
        one += (int64_t)blocks * P * groups.n_layer[g];
    }
    assert_true(groups.window[groups.n - 1] == 16);
    run(w, 0, 0, &all);
    one *= model_cfg_kv_bytes_per_token(&w->cfg, DTYPE_F32) / w->cfg.n_layer;
    run(w, one, CHUNK, &few); /* memory of one sequence and no more */
    assert_true(few.most_active <= bound);
    assert_int_equal(few.n_rows, N_NEW);
    assert_memory_equal(all.tokens, few.tokens, sizeof all.tokens);
    assert_memory_equal(all.rows, few.rows, (size_t)N_NEW * (size_t)w->cfg.vocab * 4);
    mem_free(all.rows);
    mem_free(few.rows);
    weights_free(w);
    ckpt_close(c);
}

static void test_window_in_every_layer_runs_in_bounded_memory(void **state) {
    (void)state;
    on_model(test_golden("models/mistral_swa"));
}

static void test_window_beside_full_layers_keeps_what_it_sees(void **state) {
    (void)state;
    on_model(test_golden("models/gemma3"));
}

int main(void) {
    const struct CMUnitTest tests[] = {TEST(test_window_in_every_layer_runs_in_bounded_memory),
                                       TEST(test_window_beside_full_layers_keeps_what_it_sees)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
