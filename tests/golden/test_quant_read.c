/* pack-quantized folders of llm-compressor: our logits against those of transformers, which loads
 * them with f32 scales.
 *
 * Tolerance: relative noise of 1e-6 on the embeddings moves the reference itself by up to 1e-5 in
 * weight-only schemes; 1e-3 is the bound that the origin of the vectors states. */
#include "tests/support/support.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/json.h"
#include "engine/run/engine.h"

enum { IDS_MAX = 64 };

static const struct {
    const char *backend;
    const char *variant;
} machines[] = {{"ref", NULL}, {"cpu", "sse2"}, {"cpu", "avx2"}, {"cpu", "avx512"}};

struct golden {
    int32_t ids[IDS_MAX];
    int32_t n;
    const json_t *argmax; /* [n] */
    const json_t *last;   /* [V] logits of the last position */
    double worst;
    int32_t n_wrong;
};

static int compare_row(void *ctx, int32_t pos, const float *logits, int32_t vocab) {
    struct golden *g = ctx;
    int32_t best = 0;
    for (int32_t i = 1; i < vocab; i++) {
        best = logits[i] > logits[best] ? i : best;
    }
    g->n_wrong += best != json_integer_value(json_array_get(g->argmax, (size_t)pos)) ? 1 : 0;
    if (pos < g->n - 1) {
        return 0;
    }
    for (int32_t i = 0; i < vocab; i++) {
        double d = fabs((double)logits[i] - json_number_value(json_array_get(g->last, (size_t)i)));
        g->worst = d > g->worst || isnan(d) ? d : g->worst;
    }
    return 0;
}

static void on_machine(const struct weights *w, int32_t m, const char *folder, struct golden *g) {
    struct engine *e = NULL;
    struct engine_opts o = {.backend = machines[m].backend,
                            .variant = machines[m].variant,
                            .n_threads = 2,
                            .n_blocks = 8,
                            .ctx_max = IDS_MAX};
    int rc = engine_open(w, &o, &e);
    if (rc == ERR_UNSUPPORTED && machines[m].variant) {
        print_message("%s: %s is not on this machine\n", folder, machines[m].variant);
        return;
    }
    assert_ok(rc);
    g->worst = 0;
    g->n_wrong = 0;
    assert_ok(engine_score(e, g->ids, g->n, 0, compare_row, g));
    engine_close(e);
    if (!(g->worst <= 1e-3) || g->n_wrong > 0) {
        fail_msg("%s on %s: logits off by %g, %d of %d argmax differ", folder,
                 machines[m].variant ? machines[m].variant : machines[m].backend, g->worst,
                 g->n_wrong, g->n);
    }
}

static void read_golden(const json_t *e, struct golden *g) {
    const json_t *ids = json_object_get(e, "prompt_ids");
    g->n = (int32_t)json_array_size(ids);
    assert_true(g->n > 0 && g->n <= IDS_MAX);
    for (int32_t i = 0; i < g->n; i++) {
        g->ids[i] = (int32_t)json_integer_value(json_array_get(ids, (size_t)i));
    }
    g->argmax = json_object_get(json_object_get(e, "argmax_all"), "default");
    g->last = json_object_get(json_object_get(e, "logits_last"), "default");
    assert_int_equal(json_array_size(g->argmax), g->n);
}

static void check_folder(const char *name) {
    char rel[256];
    json_t *e = NULL;
    struct golden g = {0};
    struct ckpt *c = NULL;
    struct weights *w = NULL;
    snprintf(rel, sizeof rel, "quant/%s/expected.json", name);
    assert_ok(json_read(test_golden(rel), &e));
    snprintf(rel, sizeof rel, "quant/%s", name);
    read_golden(e, &g);
    assert_ok(ckpt_open(test_golden(rel), &c));
    assert_ok(weights_load(c, NULL, &w));
    assert_int_equal(json_array_size(g.last), w->cfg.vocab);
    for (int32_t m = 0; m < ARRAY_LEN(machines); m++) {
        on_machine(w, m, name, &g);
    }
    print_message("%s (%s): off by %.2g at most on the last machine\n", name, w->scheme, g.worst);
    weights_free(w);
    ckpt_close(c);
    json_decref(e);
}

static void test_quant_read_rtn_f32_scales(void **state) {
    (void)state;
    check_folder("llama__rtn_w4a16_g32__f32");
}

static void test_quant_read_rtn_bf16_scales(void **state) {
    (void)state;
    check_folder("llama__rtn_w4a16_g32");
}

static void test_quant_read_rtn_asymmetric(void **state) {
    (void)state;
    check_folder("llama__rtn_w4a16_g32_asym");
}

static void test_quant_read_rtn_with_lm_head(void **state) {
    (void)state;
    check_folder("llama__rtn_w4a16_g32_lm_head");
}

static void test_quant_read_gptq_static_f32_scales(void **state) {
    (void)state;
    check_folder("llama__gptq_w4a16_g32_static__f32");
}

static void test_quant_read_gptq_static(void **state) {
    (void)state;
    check_folder("llama__gptq_w4a16_g32_static");
}

static void test_quant_read_gptq_without_order(void **state) {
    (void)state;
    check_folder("llama__gptq_w4a16_g32_null__f32");
}

static void test_quant_read_gptq_qwen3(void **state) {
    (void)state;
    check_folder("qwen3__gptq_w4a16_g32_static");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_quant_read_rtn_f32_scales),         TEST(test_quant_read_rtn_bf16_scales),
        TEST(test_quant_read_rtn_asymmetric),         TEST(test_quant_read_rtn_with_lm_head),
        TEST(test_quant_read_gptq_static_f32_scales), TEST(test_quant_read_gptq_static),
        TEST(test_quant_read_gptq_without_order),     TEST(test_quant_read_gptq_qwen3)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
