/* Lockstep scoring against golden perplexities and against divergences computed from whole logits.
 */
#include "tests/support/support.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/json.h"
#include "engine/base/str.h"
#include "harness/evaljob.h"
#include "tests/support/tiny.h"
#include "tests/support/vectors.h"

enum { N_IDS = 160 };

static void open_model(const char *rel, struct model **m) {
    assert_ok(model_open(test_golden(rel), NULL, m));
}

static void golden_ids(const char *model, struct vectors *v, const int32_t **ids) {
    char rel[128];
    int64_t n = 0;
    snprintf(rel, sizeof rel, "models/%s/golden.safetensors", model);
    vectors_open(test_golden(rel), v);
    *ids = vectors_i32(v, "input_ids", &n);
    assert_int_equal(n, N_IDS);
}

static void check_model(const char *name, const json_t *figures) {
    char rel[128];
    struct model *m = NULL;
    struct vectors v;
    const int32_t *ids = NULL;
    golden_ids(name, &v, &ids);
    snprintf(rel, sizeof rel, "models/%s", name);
    open_model(rel, &m);
    for (size_t i = 0; i < json_array_size(figures); i++) {
        const json_t *want = json_array_get(figures, i);
        bool seed = str_eq(json_string_value(json_object_get(want, "kind")), "seed_document");
        int32_t stride = (int32_t)json_integer_value(json_object_get(want, "stride"));
        int32_t window =
            seed ? stride : (int32_t)json_integer_value(json_object_get(want, "max_length"));
        struct evaljob j = {.model = {m},
                            .name = {name},
                            .n_model = 1,
                            .base = -1,
                            .def = seed ? PPL_SEED : PPL_HF_STRIDED,
                            .window = window,
                            .stride = stride,
                            .ids = ids,
                            .n_ids = N_IDS,
                            .engine = {.n_threads = 1},
                            .quiet = true};
        struct evaljob_result r;
        assert_ok(evaljob_run(&j, &r));
        assert_rel(r.ppl.ppl, json_number_value(json_object_get(want, "ppl")), 1e-5);
        assert_rel(r.ppl.n, json_number_value(json_object_get(want, "n_tokens")), 1e-15);
        assert_true(isnan(r.kl.mean) && isnan(r.ratio.value));
    }
    model_close(m);
    vectors_close(&v);
}

static void test_evaluate_golden_perplexities(void **state) {
    (void)state;
    static const char *const models[] = {"llama", "llama3_rope", "smollm2_like", "qwen3",
                                         "qwen3_yarn"};
    json_t *all = NULL;
    assert_ok(json_read(test_golden("summary.json"), &all));
    for (int32_t i = 0; i < ARRAY_LEN(models); i++) {
        const json_t *entry = json_object_get(json_object_get(all, "models"), models[i]);
        check_model(models[i], json_object_get(entry, "ppl"));
    }
    json_decref(all);
}

static void test_evaluate_model_against_itself(void **state) {
    (void)state;
    struct model *m = NULL;
    struct vectors v;
    const int32_t *ids = NULL;
    golden_ids("llama", &v, &ids);
    open_model("models/llama", &m);
    struct evaljob j = {.model = {m, m, m},
                        .name = {"a", "b", "c"},
                        .n_model = 3,
                        .base = 1,
                        .def = PPL_HF_STRIDED,
                        .window = 48,
                        .stride = 16,
                        .ids = ids,
                        .n_ids = N_IDS,
                        .engine = {.n_threads = 1, .batch_tok_max = 20},
                        .quiet = true};
    struct evaljob_result r[3];
    assert_ok(evaljob_run(&j, r));
    for (int32_t i = 0; i < 3; i++) {
        assert_true(r[i].kl.mean == 0 && r[i].kl.max == 0);
        assert_true(r[i].kl.top1 == 1);
        assert_true(r[i].ratio.value == 1);
        assert_true(r[i].ppl.ppl == r[0].ppl.ppl);
    }
    model_close(m);
    vectors_close(&v);
}

/* All logits of a model, for the independent computation. */
struct logits {
    float *x; /* own, [N_IDS, V] */
};

static int keep_row(void *ctx, int32_t pos, const float *logits, int32_t vocab) {
    struct logits *l = ctx;
    memcpy(l->x + (int64_t)pos * vocab, logits, (size_t)vocab * sizeof *logits);
    return 0;
}

static void all_logits(const struct model *m, const int32_t *ids, struct logits *l) {
    struct engine *e = NULL;
    struct engine_opts o = {.backend = "ref", .running_max = 1};
    l->x = mem_array(MEM_TEST, N_IDS * TINY_VOCAB, (int64_t)sizeof *l->x);
    assert_non_null(l->x);
    assert_ok(engine_open(m->weights, &o, &e));
    assert_ok(engine_score(e, ids, N_IDS, 0, keep_row, l));
    engine_close(e);
}

static void log_softmax(const float *x, double *out) {
    double sum = 0;
    for (int32_t i = 0; i < TINY_VOCAB; i++) {
        sum += exp((double)x[i]);
    }
    for (int32_t i = 0; i < TINY_VOCAB; i++) {
        out[i] = (double)x[i] - log(sum);
    }
}

static int32_t best_of(const double *x) {
    int32_t best = 0;
    for (int32_t i = 1; i < TINY_VOCAB; i++) {
        best = x[i] > x[best] ? i : best;
    }
    return best;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

/* One window over all ids, so that the engines' rows are those of the whole logits. */
static void test_evaluate_divergence_by_hand(void **state) {
    (void)state;
    struct model *m[2] = {0};
    struct vectors v;
    struct logits l[2];
    const int32_t *ids = NULL;
    double kl[N_IDS];
    double sum = 0;
    double same = 0;
    double nll[2] = {0};
    golden_ids("llama", &v, &ids);
    open_model("models/llama", &m[0]);
    open_model("quant/llama__rtn_w4a16_g32", &m[1]);
    for (int32_t i = 0; i < 2; i++) {
        all_logits(m[i], ids, &l[i]);
    }
    for (int32_t t = 0; t + 1 < N_IDS; t++) {
        double p[TINY_VOCAB];
        double q[TINY_VOCAB];
        log_softmax(l[0].x + (int64_t)t * TINY_VOCAB, p);
        log_softmax(l[1].x + (int64_t)t * TINY_VOCAB, q);
        kl[t] = 0;
        for (int32_t i = 0; i < TINY_VOCAB; i++) {
            kl[t] += exp(p[i]) * (p[i] - q[i]);
        }
        sum += kl[t];
        same += best_of(p) == best_of(q) ? 1 : 0;
        nll[0] -= p[ids[t + 1]];
        nll[1] -= q[ids[t + 1]];
    }
    struct evaljob j = {.model = {m[0], m[1]},
                        .name = {"base", "w4"},
                        .n_model = 2,
                        .def = PPL_DISJOINT,
                        .window = N_IDS,
                        .ids = ids,
                        .n_ids = N_IDS,
                        .engine = {.backend = "ref", .batch_tok_max = 37},
                        .quiet = true};
    struct evaljob_result r[2];
    assert_ok(evaljob_run(&j, r));
    assert_rel(r[1].kl.mean, sum / (N_IDS - 1), 1e-9);
    assert_rel(r[1].kl.top1, same / (N_IDS - 1), 1e-12);
    qsort(kl, N_IDS - 1, sizeof *kl, by_size);
    assert_rel(r[1].kl.max, kl[N_IDS - 2], 1e-7);
    assert_rel(r[1].kl.p50, kl[(N_IDS - 2) / 2], 1e-7);
    assert_rel(r[0].ppl.nll_sum, nll[0], 1e-9);
    assert_rel(r[1].ppl.nll_sum, nll[1], 1e-9);
    assert_rel(r[1].ratio.value, exp((nll[1] - nll[0]) / (N_IDS - 1)), 1e-9);
    assert_true(r[1].ratio.lo < r[1].ratio.value && r[1].ratio.value < r[1].ratio.hi);
    for (int32_t i = 0; i < 2; i++) {
        mem_free(l[i].x);
        model_close(m[i]);
    }
    vectors_close(&v);
}

static void test_evaluate_refuses(void **state) {
    (void)state;
    struct model *m[2] = {0};
    int32_t ids[64] = {0};
    struct evaljob_result r[2];
    open_model("models/llama", &m[0]);
    struct evaljob j = {.model = {m[0], m[0]},
                        .name = {"a", "b"},
                        .n_model = 1,
                        .base = -1,
                        .def = PPL_DISJOINT,
                        .window = 64,
                        .ids = ids,
                        .n_ids = 64,
                        .engine = {.n_threads = 1},
                        .quiet = true};
    ids[63] = TINY_VOCAB; /* only a target: no engine sees it */
    assert_err(evaljob_run(&j, r), ERR_RANGE, "token 63 is 384, a has 0..383");
    ids[63] = -1;
    assert_err(evaljob_run(&j, r), ERR_RANGE, "token 63 is -1");
    ids[63] = 0;
    j.window = 4096;
    j.tokens = 64;
    assert_err(evaljob_run(&j, r), ERR_RANGE, "64 tokens are too few");
    j.window = 64;
    j.engine.backend = "abacus";
    assert_err(evaljob_run(&j, r), ERR_UNSUPPORTED, "abacus");
    model_close(m[0]);
}

struct fault_ctx {
    struct model *m;
    const int32_t *ids;
};

static int evaluate_once(void *ctx) {
    const struct fault_ctx *f = ctx;
    struct evaljob_result r[2];
    struct evaljob j = {.model = {f->m, f->m},
                        .name = {"a", "b"},
                        .n_model = 2,
                        .def = PPL_DISJOINT,
                        .window = 8,
                        .tokens = 16,
                        .ids = f->ids,
                        .n_ids = N_IDS,
                        .engine = {.backend = "ref"},
                        .quiet = true};
    return evaljob_run(&j, r);
}

static void test_evaluate_faults(void **state) {
    (void)state;
    static const int codes[] = {ERR_NOMEM, 0};
    struct vectors v;
    struct fault_ctx f = {0};
    golden_ids("llama", &v, &f.ids);
    open_model("models/llama", &f.m);
    test_fault_loop(FAULT_ALLOC, evaluate_once, &f, codes);
    model_close(f.m);
    vectors_close(&v);
}

int main(void) {
    const struct CMUnitTest tests[] = {TEST(test_evaluate_golden_perplexities),
                                       TEST(test_evaluate_model_against_itself),
                                       TEST(test_evaluate_divergence_by_hand),
                                       TEST(test_evaluate_refuses), TEST(test_evaluate_faults)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
