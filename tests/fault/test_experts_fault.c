/* Loading and opening mixtures of experts and quantized folders while memory or the map fails: a
 * listed error, no leak. */
#include "tests/support/support.h"

#include "engine/run/engine.h"

static int open_and_close(void *ctx) {
    struct ckpt *c = NULL;
    struct weights *w = NULL;
    struct engine *e = NULL;
    struct engine_opts o = {
        .backend = "ref", .batch_tok_max = 8, .running_max = 2, .n_blocks = 4, .ctx_max = 32};
    int rc = ckpt_open(ctx, &c);
    rc = rc ? rc : weights_load(c, NULL, &w);
    rc = rc ? rc : engine_open(w, &o, &e);
    engine_close(e);
    weights_free(w);
    ckpt_close(c);
    return rc;
}

static void each_point(const char *rel) {
    char path[FILE_PATH_MAX];
    assert_ok(file_join(path, test_golden(rel), ""));
    test_fault_loop(FAULT_ALLOC, open_and_close, path, (const int[]){ERR_NOMEM, 0});
    test_fault_loop(FAULT_MMAP, open_and_close, path, (const int[]){ERR_IO, ERR_NOMEM, 0});
}

static void test_experts_fault_folder(void **state) {
    (void)state;
    each_point("models/qwen3_moe");
}

static void test_experts_fault_two_rotary_tables(void **state) {
    (void)state;
    each_point("models/gemma3");
}

static void test_experts_fault_quantized_experts(void **state) {
    (void)state;
    each_point("quant/qwen3_moe__rtn_w4a16_g16_asym");
}

static void test_experts_fault_mixed_schemes_and_rules(void **state) {
    (void)state;
    each_point("quant/llama__rtn_mixed_w8_fp8_w4");
}

static void test_experts_fault_repacked(void **state) {
    (void)state;
    each_point("quant/gptq_v1_w4_g32_asym_desc_act");
    each_point("quant/awq_gemm_w4_g32");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_experts_fault_folder), TEST(test_experts_fault_two_rotary_tables),
        TEST(test_experts_fault_quantized_experts),
        TEST(test_experts_fault_mixed_schemes_and_rules), TEST(test_experts_fault_repacked)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
