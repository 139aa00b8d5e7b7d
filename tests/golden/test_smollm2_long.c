/* SmolLM2-135M: perplexities by every definition, and the quantizer against llm-compressor.
 * LABELS: long */
#include "tests/support/smollm2.h"

#include <math.h>
#include <string.h>

#include "engine/base/json.h"
#include "engine/quant/quant.h"
#include "harness/evaljob.h"

static void read_text(struct textdata *t) {
    const char *path = test_shared("wikitext2/wiki.test.raw");
    if (!path) {
        print_message("WikiText-2 is not here\n");
        skip();
    }
    const struct cli_env env = {0};
    assert_ok(textdata_open(&env, path, t));
    assert_string_equal(t->sha256,
                        "173c87a53759e0201f33e0ccf978e510c2042d7f2cb78229d9a50d79b9e7dd08");
}

struct wanted {
    enum ppl_def def;
    int32_t window;
    int32_t stride;
    int64_t tokens;
    int32_t rows;
    bool strip;
    int64_t n_scored;
    double nll_sum;
    double ppl;
};

/* src: smollm2/perplexity_ppl1.json, _ppl2, _ppl4, perplexity_full.json */
static const struct wanted wanted[] = {
    {PPL_DISJOINT, 2048, 0, 40000, 0, false, 38893, 118810.8447441479, 21.2172190283},
    {PPL_LLAMA_CPP, 512, 0, 40000, 0, false, 19890, 63152.4715567882, 23.9288909172},
    {PPL_HF_STRIDED, 2048, 512, 5632, 0, false, 5631, 17154.7023999491, 21.0410501238},
    {PPL_SEED, 512, 0, 0, 300, false, -1, 146727.3917601346, 43.7000923435},
    {PPL_DISJOINT, 2048, 0, 0, 0, false, 303266, 934364.161007, 21.780288},
    {PPL_DISJOINT, 512, 0, 0, 0, false, 302822, 1029678.454094, 29.972379},
    {PPL_LLAMA_CPP, 512, 0, 0, 0, false, 150960, 474869.879872, 23.235167},
    {PPL_LLAMA_CPP, 2048, 0, 0, 0, false, 151404, 444923.548852, 18.890350},
    {PPL_SEED, 512, 0, 0, 0, true, -1, -1, 45.981381}};

static void test_smollm2_perplexity_by_every_definition(void **state) {
    (void)state;
    struct model *m = NULL;
    struct textdata text;
    smollm2_open(&m);
    read_text(&text);
    for (int32_t i = 0; i < ARRAY_LEN(wanted); i++) {
        const struct wanted *w = &wanted[i];
        struct evaljob j = {.model = {m},
                            .name = {"smollm2"},
                            .n_model = 1,
                            .base = -1,
                            .def = w->def,
                            .window = w->window,
                            .stride = w->stride,
                            .tokens = w->tokens,
                            .rows = w->rows,
                            .strip = w->strip,
                            .text = &text,
                            .quiet = true};
        struct evaljob_result r;
        assert_ok(evaljob_run(&j, &r));
        print_message("%s %d: %.7f, want %.7f (%.0f s)\n", ppl_def_name(w->def), w->window,
                      r.ppl.ppl, w->ppl, r.seconds);
        assert_rel(r.ppl.ppl, w->ppl, 2e-5);
        if (w->n_scored > 0) {
            assert_int_equal(r.n_scored, w->n_scored);
            assert_rel(r.ppl.nll_sum, w->nll_sum, 2e-5);
        }
    }
    textdata_fini(&text);
    model_close(m);
}

static void read_calib(int32_t *ids, int32_t n_sample, int32_t sample_tok) {
    json_t *o = NULL;
    assert_ok(json_read(test_golden("smollm2/calib_tokens.json"), &o));
    for (int32_t i = 0; i < n_sample; i++) {
        const json_t *chunk = json_array_get(json_object_get(o, "chunks"), (size_t)i);
        assert_int_equal(json_array_size(chunk), sample_tok);
        for (int32_t t = 0; t < sample_tok; t++) {
            ids[i * sample_tok + t] = (int32_t)json_integer_value(json_array_get(chunk, (size_t)t));
        }
    }
    json_decref(o);
}

/* Quantizes into dir and scores the first tokens of WikiText-2 against the base. */
static void quantize_and_score(struct model *m,
                               enum quant_method method,
                               const char *dir,
                               struct evaljob_result ppl[2],
                               struct evaljob_result kl[2]) {
    static int32_t ids[16 * 512];
    struct model *q = NULL;
    struct textdata text;
    read_text(&text);
    read_calib(ids, 16, 512);
    /* why: GPTQ's default scales (harness/cmd_quantize.c); rounding keeps llm-compressor's own */
    enum grid_observer observer = method == QUANT_GPTQ ? GRID_MSE : GRID_MINMAX;
    struct quant_opts o = {.method = method,
                           .grid = {.bits = 4, .group = 64, .observer = observer},
                           .block = 128,
                           .dampening = 0.01,
                           .dense_type = DTYPE_F32,
                           .calib = ids,
                           .n_sample = method == QUANT_GPTQ ? 16 : 0,
                           .sample_tok = 512};
    assert_ok(quant_run(m, dir, &o, NULL));
    assert_ok(model_open(dir, NULL, &q));
    struct evaljob j = {.model = {m, q},
                        .name = {"base", "quantized"},
                        .n_model = 2,
                        .base = 0,
                        .def = PPL_DISJOINT,
                        .window = 2048,
                        .tokens = 10240,
                        .text = &text,
                        .quiet = true};
    assert_ok(evaljob_run(&j, ppl));
    j.def = PPL_HF_STRIDED; /* the golden divergence is over the first 10,000 positions */
    j.stride = 2048;
    j.tokens = 10000;
    assert_ok(evaljob_run(&j, kl));
    model_close(q);
    textdata_fini(&text);
}

static void
run_method(enum quant_method method, struct evaljob_result p[2], struct evaljob_result k[2]) {
    char dir[FILE_PATH_MAX];
    struct model *m = NULL;
    smollm2_open(&m);
    test_tmpdir(dir);
    quantize_and_score(m, method, dir, p, k);
    print_message("perplexity %.4f (base %.4f), KL %.4f, top-1 %.4f\n", p[1].ppl.ppl, p[0].ppl.ppl,
                  k[1].kl.mean, k[1].kl.top1);
    test_rmdir(dir);
    model_close(m);
}

/* src: smollm2/llmcompressor.json, eval of base and rtn_w4a16_g64 */
static void test_smollm2_rtn_equals_llmcompressor(void **state) {
    (void)state;
    struct evaljob_result p[2];
    struct evaljob_result k[2];
    run_method(QUANT_RTN, p, k);
    assert_rel(p[0].ppl.ppl, 23.7994, 1e-4);
    assert_rel(p[1].ppl.ppl, 33.6732, 1e-4);
}

/* src: smollm2/llmcompressor.json, gptq_w4a16_g64_static_16chunks */
static void test_smollm2_gptq_reaches_llmcompressor(void **state) {
    (void)state;
    struct evaljob_result p[2];
    struct evaljob_result k[2];
    run_method(QUANT_GPTQ, p, k);
    assert_true(p[1].ppl.ppl <= 33.5473 * 1.01);
    assert_true(k[1].kl.mean <= 0.32916 * 1.01);
}

static void test_smollm2_prompts_on_ref_equal_transformers(void **state) {
    (void)state;
    struct model *m = NULL;
    struct engine *e = NULL;
    json_t *all = NULL;
    smollm2_open(&m);
    smollm2_engine(m, "ref", &e);
    assert_ok(json_read(test_golden("smollm2/prompts.json"), &all));
    size_t i = 0;
    const json_t *p = NULL;
    json_array_foreach(json_object_get(all, "prompts"), i, p) {
        smollm2_check_prompt(e, p, true);
        print_message("%s\n", json_string_value(json_object_get(p, "name")));
    }
    json_decref(all);
    engine_close(e);
    model_close(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {TEST(test_smollm2_prompts_on_ref_equal_transformers),
                                       TEST(test_smollm2_rtn_equals_llmcompressor),
                                       TEST(test_smollm2_gptq_reaches_llmcompressor),
                                       TEST(test_smollm2_perplexity_by_every_definition)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
