/* What the quantizer makes of the families: gemma3 with its six norms is written and read again;
 * experts, the text part of a multimodal folder, and GGUF files without a config are refused. */
#include "tests/support/support.h"

#include <string.h>

#include "engine/quant/quant.h"

static void expect_refused(const char *path, const char *part) {
    char dir[FILE_PATH_MAX];
    char out[FILE_PATH_MAX];
    struct model *m = NULL;
    struct quant_opts o = {
        .method = QUANT_RTN, .grid = {.bits = 4, .group = 32}, .dense_type = DTYPE_BF16};
    test_tmpdir(dir);
    assert_ok(file_join(out, dir, "out"));
    assert_ok(model_open(path, NULL, &m));
    assert_err(quant_run(m, out, &o, NULL), ERR_UNSUPPORTED, part);
    assert_false(file_exists(out));
    model_close(m);
    test_rmdir(dir);
}

static void test_quant_families_refuses_by_name(void **state) {
    (void)state;
    expect_refused(test_golden("models/qwen3_moe"), "qwen3_moe is a mixture of experts");
    expect_refused(test_golden("gguf/qwen3_moe.gguf"), "qwen3_moe is a mixture of experts");
    expect_refused(test_golden("gguf/gemma3.gguf"), "family gemma3 from GGUF");
}

static void same_norms(const struct model_cfg *c,
                       const struct layer_weights *a,
                       const struct layer_weights *b) {
    size_t e = (size_t)c->hidden * sizeof(float);
    size_t d = (size_t)c->head_dim * sizeof(float);
    assert_memory_equal(a->attn_norm, b->attn_norm, e);
    assert_memory_equal(a->mlp_norm, b->mlp_norm, e);
    assert_memory_equal(a->attn_post_norm, b->attn_post_norm, e);
    assert_memory_equal(a->mlp_post_norm, b->mlp_post_norm, e);
    assert_memory_equal(a->q_norm, b->q_norm, d);
    assert_memory_equal(a->k_norm, b->k_norm, d);
}

static void check_gemma3(enum quant_method method) {
    char dir[FILE_PATH_MAX];
    struct model *m = NULL;
    struct model *back = NULL;
    struct quant_opts o = {
        .method = method, .grid = {.bits = 4, .group = 32}, .dense_type = DTYPE_BF16};
    test_tmpdir(dir);
    assert_ok(model_open(test_golden("models/gemma3"), NULL, &m));
    assert_ok(quant_run(m, dir, &o, NULL));
    assert_ok(model_open(dir, NULL, &back));
    const struct weights *a = m->weights;
    const struct weights *b = back->weights;
    assert_int_equal(a->n_param, b->n_param);
    for (int32_t i = 0; i < a->cfg.n_layer; i++) {
        const struct linear *la = &a->layer[i].lin[LINEAR_DOWN];
        const struct linear *lb = &b->layer[i].lin[LINEAR_DOWN];
        same_norms(&a->cfg, &a->layer[i], &b->layer[i]);
        assert_int_equal(lb->w.type, method == QUANT_NONE ? DTYPE_BF16 : DTYPE_W4);
        if (method == QUANT_NONE) {
            assert_memory_equal(la->w.data, lb->w.data, (size_t)(la->w.n * la->w.row_bytes));
        }
    }
    model_close(back);
    model_close(m);
    test_rmdir(dir);
}

static void test_quant_families_gemma3_comes_back(void **state) {
    (void)state;
    check_gemma3(QUANT_NONE);
    check_gemma3(QUANT_RTN);
}

int main(void) {
    const struct CMUnitTest tests[] = {TEST(test_quant_families_refuses_by_name),
                                       TEST(test_quant_families_gemma3_comes_back)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
