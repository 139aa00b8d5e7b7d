/* The solver alone, on llm-compressor's own Hessians: scales, values and logged error. */
#include "tests/support/support.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/json.h"
#include "engine/model/safetensors.h"
#include "engine/quant/gptq.h"
#include "kernels/backend.h"

#define CASE "quant/llama__gptq_w4a16_g32_static__f32"

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

static void vectors_close(struct vectors *v) {
    tensor_dir_fini(&v->dir);
    file_unmap(&v->map);
}

static const struct tensor *vector(const struct vectors *v, const char *module, const char *part) {
    char name[TENSOR_NAME_MAX];
    snprintf(name, sizeof name, "%s.%s", module, part);
    return tensor_dir_find(&v->dir, name);
}

static double logged_error(const json_t *expected, const char *module) {
    const json_t *m = json_object_get(json_object_get(expected, "modules"), module);
    return json_number_value(json_object_get(m, "llmcompressor_gptq_error_full_precision"));
}

static void check_module(const struct vectors *model,
                         const struct vectors *trace,
                         const json_t *expected,
                         const char *module,
                         int32_t n_threads) {
    const struct tensor *h = vector(trace, module, "hessian");
    const struct tensor *want = vector(trace, module, "solver_weight");
    const struct tensor *scale = vector(trace, module, "solver_scale");
    const struct tensor *w = vector(model, module, "weight");
    assert_true(h && want && scale && w);
    int32_t n = (int32_t)w->dim[0];
    int32_t k = (int32_t)w->dim[1];
    int32_t groups = k / 32;
    struct gptq_opts o = {.grid = {.bits = 4, .group = 32, .scale_type = DTYPE_F32},
                          .block = 128,
                          .dampening = 0.01,
                          .n_threads = n_threads};
    float *x = mem_array(MEM_TEST, (int64_t)n * k, 4);
    float *s = mem_array(MEM_TEST, (int64_t)n * groups, 4);
    int8_t *codes = mem_array(MEM_TEST, (int64_t)n * k, 1);
    struct wmat m = {.type = w->type, .n = n, .k = k, .data = w->data, .row_bytes = w->bytes / n};
    for (int32_t r = 0; r < n; r++) {
        ref_decode(&m, r, 0, k, x + (int64_t)r * k);
    }
    grid_scales(&o.grid, x, n, k, NULL, s, NULL);
    assert_close(s, (const float *)(const void *)scale->data, (int64_t)n * groups, 0);
    struct gptq_result res;
    assert_ok(gptq_solve(&o, x, n, k, (const float *)(const void *)h->data, s, NULL, codes, &res));
    const float *ref = (const float *)(const void *)want->data;
    int64_t n_diff = 0;
    for (int64_t i = 0; i < (int64_t)n * k; i++) {
        float q = grid_value(codes[i], s[i / 32], 0);
        n_diff += fabsf(q - ref[i]) > 1e-6f ? 1 : 0;
    }
    print_message("%s: %lld of %d codes differ, loss %.7f against %.7f\n", module,
                  (long long)n_diff, n * k, res.loss, logged_error(expected, module));
    assert_int_equal(n_diff, 0);
    assert_rel(res.loss, logged_error(expected, module), 1e-5);
    assert_int_equal(res.n_retry, 0);
    mem_free(x);
    mem_free(s);
    mem_free(codes);
}

static void test_gptq_reproduces_llmcompressor(void **state) {
    (void)state;
    static const char *const modules[] = {
        "model.layers.0.self_attn.q_proj", "model.layers.0.self_attn.k_proj",
        "model.layers.0.self_attn.v_proj", "model.layers.0.self_attn.o_proj",
        "model.layers.0.mlp.gate_proj",    "model.layers.0.mlp.up_proj",
        "model.layers.0.mlp.down_proj"};
    struct vectors model;
    struct vectors trace;
    json_t *expected = NULL;
    vectors_open(test_golden("models/llama/model.safetensors"), &model);
    vectors_open(test_golden(CASE "/gptq_trace.safetensors"), &trace);
    assert_ok(json_read(test_golden(CASE "/expected.json"), &expected));
    for (int32_t i = 0; i < ARRAY_LEN(modules); i++) {
        check_module(&model, &trace, expected, modules[i], 1 + i % 2);
    }
    json_decref(expected);
    vectors_close(&model);
    vectors_close(&trace);
}

int main(void) {
    const struct CMUnitTest tests[] = {TEST(test_gptq_reproduces_llmcompressor)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
