/* Logits, greedy ids and hidden figures of the golden models, on ref and on every cpu variant that
 * this machine can run. Weights are bf16 or f32, arithmetic is f32. */
#include "tests/support/support.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/model/safetensors.h"
#include "engine/run/engine.h"
#include "engine/sched/seq.h"

enum { N_GREEDY = 64, N_PROMPT = 24 };

static const struct {
    const char *backend;
    const char *variant;
} machines[] = {{"ref", NULL}, {"cpu", "sse2"}, {"cpu", "avx2"}, {"cpu", "avx512"}, {"cuda", NULL}};

struct vectors {
    struct filemap map;
    struct tensor_dir dir;
};

static void vectors_open(const char *path, struct vectors *v) {
    memset(v, 0, sizeof *v);
    assert_ok(file_map(path, &v->map));
    assert_ok(safetensors_parse(path, v->map.data, v->map.size, &v->dir));
    assert_ok(tensor_dir_sort(&v->dir, path));
}

static const struct tensor *vector(const struct vectors *v, const char *name) {
    const struct tensor *t = tensor_dir_find(&v->dir, name);
    if (!t) {
        fail_msg("golden tensor %s is missing", name);
    }
    return t;
}

static void vectors_close(struct vectors *v) {
    tensor_dir_fini(&v->dir);
    file_unmap(&v->map);
}

struct compare {
    const float *want; /* [T,V] */
    int32_t n_rows;
    double worst;
};

static int compare_row(void *ctx, int32_t pos, const float *logits, int32_t vocab) {
    struct compare *c = ctx;
    assert_true(pos < c->n_rows);
    for (int32_t i = 0; i < vocab; i++) {
        double d = fabs((double)logits[i] - (double)c->want[(int64_t)pos * vocab + i]);
        c->worst = d > c->worst || isnan(d) ? d : c->worst;
    }
    return 0;
}

static int open_on(const struct weights *w, int32_t m, struct engine **e) {
    struct engine_opts o = {.backend = machines[m].backend,
                            .variant = machines[m].variant,
                            .n_threads = 2,
                            .batch_tok_max = 64,
                            .running_max = 4,
                            .kv_bytes = 64 << 20};
    return engine_open(w, &o, e);
}

static void check_logits(struct engine *e,
                         const char *model,
                         int32_t m,
                         const int32_t *ids,
                         int32_t n,
                         const float *want) {
    struct compare c = {.want = want, .n_rows = n};
    assert_ok(engine_score(e, ids, n, 0, compare_row, &c));
    if (!(c.worst <= 1e-3)) {
        fail_msg("%s on %s %s: logits off by %g, at most 1e-3", model, machines[m].backend,
                 machines[m].variant ? machines[m].variant : "", c.worst);
    }
}

static void check_greedy(struct engine *e, const int32_t *want, int32_t n_prompt, int32_t n) {
    uint64_t id = 0;
    int32_t at = n_prompt;
    struct engine_request r = {
        .ids = want, .n_ids = n_prompt, .max_new = n - n_prompt, .ignore_stop = true};
    assert_ok(engine_submit(e, &r, &id));
    for (bool over = false; !over;) {
        struct event ev;
        bool busy = false;
        assert_ok(engine_step(e, &busy));
        while (engine_poll(e, &ev, 1) == 1) {
            over = ev.kind == EVENT_END;
            if (!over) {
                assert_int_equal(ev.token, want[at]);
                at++;
            }
        }
    }
    assert_int_equal(at, n);
    assert_ok(engine_check(e));
}

static void each_machine(const char *model,
                         const char *path,
                         const int32_t *ids,
                         int32_t n,
                         const float *logits,
                         const int32_t *greedy,
                         int32_t n_prompt,
                         int32_t n_greedy) {
    struct ckpt *c = NULL;
    struct weights *w = NULL;
    assert_ok(ckpt_open(path, &c));
    assert_ok(weights_load(c, NULL, &w));
    int32_t n_run = 0;
    for (int32_t m = 0; m < ARRAY_LEN(machines); m++) {
        struct engine *e = NULL;
        int rc = open_on(w, m, &e);
        bool absent = rc == ERR_UNSUPPORTED || rc == ERR_DEVICE;
        if (absent && strcmp(machines[m].backend, "ref") != 0) {
            print_message("%s: not on this machine: %s\n", model, err_msg());
            continue;
        }
        assert_ok(rc);
        check_logits(e, model, m, ids, n, logits);
        check_greedy(e, greedy, n_prompt, n_greedy);
        engine_close(e);
        n_run++;
    }
    assert_true(n_run >= 2);
    weights_free(w);
    ckpt_close(c);
}

static void tiny(const char *model) {
    char rel[256];
    struct vectors v;
    snprintf(rel, sizeof rel, "models/%s/golden.safetensors", model);
    vectors_open(test_golden(rel), &v);
    snprintf(rel, sizeof rel, "models/%s", model);
    const struct tensor *ids = vector(&v, "input_ids");
    each_machine(model, test_golden(rel), (const int32_t *)(const void *)ids->data,
                 (int32_t)ids->dim[0], (const float *)(const void *)vector(&v, "logits")->data,
                 (const int32_t *)(const void *)vector(&v, "greedy_ids")->data, N_PROMPT, N_GREEDY);
    vectors_close(&v);
}

static void test_models_llama_equals_transformers(void **state) {
    (void)state;
    tiny("llama");
}

static void test_models_llama3_rope_equals_transformers(void **state) {
    (void)state;
    tiny("llama3_rope");
}

static void test_models_smollm2_like_equals_transformers(void **state) {
    (void)state;
    tiny("smollm2_like");
}

static void test_models_qwen3_equals_transformers(void **state) {
    (void)state;
    tiny("qwen3");
}

static void test_models_qwen3_yarn_equals_transformers(void **state) {
    (void)state;
    tiny("qwen3_yarn");
}

static void stories(const char *rel) {
    struct vectors v;
    const char *path = test_shared(rel);
    if (!path) {
        print_message("shared data %s is not here\n", rel);
        skip();
    }
    vectors_open(test_golden("models/stories260K/golden.safetensors"), &v);
    const struct tensor *g = vector(&v, "greedy_ids");
    const int32_t *ids = (const int32_t *)(const void *)g->data;
    each_machine(rel, path, ids, 128,
                 (const float *)(const void *)vector(&v, "logits_first128")->data, ids, 1,
                 (int32_t)g->dim[0]);
    vectors_close(&v);
}

static void test_models_stories260k_safetensors(void **state) {
    (void)state;
    stories("stories260K/hf");
}

static void test_models_stories260k_gguf(void **state) {
    (void)state;
    stories("stories260K/stories260K-f32.gguf");
}

int main(void) {
    const struct CMUnitTest tests[] = {TEST(test_models_llama_equals_transformers),
                                       TEST(test_models_llama3_rope_equals_transformers),
                                       TEST(test_models_smollm2_like_equals_transformers),
                                       TEST(test_models_qwen3_equals_transformers),
                                       TEST(test_models_qwen3_yarn_equals_transformers),
                                       TEST(test_models_stories260k_safetensors),
                                       TEST(test_models_stories260k_gguf)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
