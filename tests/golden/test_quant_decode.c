/* Every module of every folder of llm-compressor, AutoGPTQ's and AutoAWQ's layouts: decoded values,
 * codes, scales and zero points against what the formats' own readers made of the same files.
 *
 * Values are compared bit by bit where they are listed (the first eight); sums of doubles may be
 * added in another order, so they agree to 1e-9 of the sum of magnitudes. */
#include "tests/support/support.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/json.h"
#include "engine/base/str.h"
#include "kernels/backend.h"
#include "kernels/scaled.h"
#include "tests/support/quant_golden.h"

struct sums {
    double sum;
    double sum_abs;
};

struct seen {
    const char *folder;
    const json_t *modules;
    int32_t n;
};

static double num(const json_t *o, const char *key) {
    const json_t *v = json_object_get(o, key);
    if (!json_is_number(v)) {
        fail_msg("%s is missing", key);
    }
    return json_number_value(v);
}

static void
same_sums(const char *module, const char *what, const struct sums *s, double sum, double sum_abs) {
    double tol = 1e-9 * (1 + fabs(sum_abs));
    if (!(fabs(s->sum - sum) <= tol) || !(fabs(s->sum_abs - sum_abs) <= tol)) {
        fail_msg("%s: %s: sum %.17g, of magnitudes %.17g; want %.17g, %.17g", module, what, s->sum,
                 s->sum_abs, sum, sum_abs);
    }
}

/* Demands that v[i] is the list's i-th number. */
static void same_first(const char *module, const char *what, const json_t *list, const double *v) {
    assert_true(json_array_size(list) > 0);
    for (size_t i = 0; i < json_array_size(list); i++) {
        double want = json_number_value(json_array_get(list, i));
        if ((float)v[i] != (float)want) {
            fail_msg("%s: %s %zu is %.9g, want %.9g", module, what, i, v[i], want);
        }
    }
}

static void add(struct sums *s, double v) {
    s->sum += v;
    s->sum_abs += fabs(v);
}

static void check_values(const char *module, const struct wmat *w, const json_t *want) {
    struct sums s = {0};
    double first[8] = {0};
    const json_t *shape = json_object_get(want, "shape");
    assert_int_equal(json_integer_value(json_array_get(shape, 0)), w->n);
    assert_int_equal(json_integer_value(json_array_get(shape, 1)), w->k);
    float *row = mem_array(MEM_TEST, w->k, 4);
    assert_non_null(row);
    for (int32_t r = 0; r < w->n; r++) {
        ref_decode(w, r, 0, w->k, row);
        for (int32_t c = 0; c < w->k; c++) {
            add(&s, (double)row[c]);
        }
        for (int32_t c = 0; r == 0 && c < 8; c++) {
            first[c] = (double)row[c];
        }
    }
    mem_free(row);
    same_first(module, "value", json_object_get(want, "first8"), first);
    same_sums(module, "values", &s, num(want, "sum_f64"), num(want, "sum_abs_f64"));
}

/* Codes as they are stored, less half the range; gptq and awq list them whole: add is that half. */
static void check_codes(const char *module, const struct wmat *w, const json_t *want) {
    struct sums s = {0};
    double first[16] = {0};
    const json_t *list = json_object_get(want, "first16");
    double half = list ? 0 : (double)(1 << (dtype_packed_bits(w->type) - 1));
    float *row = mem_array(MEM_TEST, w->k, 4);
    assert_non_null(row);
    for (int32_t r = 0; r < w->n; r++) {
        scaled_codes(w, r, 0, w->k, row);
        for (int32_t c = 0; c < w->k; c++) {
            add(&s, (double)row[c] + half);
        }
        for (int32_t c = 0; r == 0 && c < 16; c++) {
            first[c] = (double)row[c] + half;
        }
    }
    mem_free(row);
    same_first(module, "code", list ? list : json_object_get(want, "codes_first16"), first);
    double sum = num(want, list ? "sum" : "codes_sum");
    same_sums(module, "codes", &s, sum, list ? num(want, "sum_abs") : sum);
}

/* A scale as it is stored, before any global one. */
static double raw_scale(const struct wmat *w, int64_t i) {
    struct wmat plain = *w;
    if (w->scale_type == DTYPE_F8_E8M0) {
        return ((const uint8_t *)w->scale)[i];
    }
    plain.global = 0;
    return (double)scaled_scale(&plain, i);
}

static void check_scales(const char *module, const struct wmat *w, const json_t *want) {
    struct sums s = {0};
    double first[8] = {0};
    int64_t rows = i64_div_up(w->n, w->row_group > 0 ? w->row_group : 1);
    int64_t n = rows * scaled_n_group(w);
    for (int64_t i = 0; i < n; i++) {
        double v = raw_scale(w, i);
        add(&s, v);
        if (i < 8) {
            first[i] = v;
        }
    }
    same_first(module, "scale", json_object_get(want, "first8"), first);
    same_sums(module, "scales", &s, num(want, "sum_f64"), num(want, "sum_abs_f64"));
}

/* gptq and awq list scales and zero points group by group, [G,n]. */
static void check_turned(const char *module, const struct wmat *w, const json_t *m) {
    double scale[4];
    double zero[8];
    int32_t groups = scaled_n_group(w);
    int32_t half = 1 << (dtype_packed_bits(w->type) - 1);
    for (int32_t i = 0; i < 8; i++) {
        int64_t at = scaled_row(w, i);
        zero[i] = (w->zero ? w->zero[at] : 0) + half;
        if (i < 4) {
            scale[i] = raw_scale(w, at);
        }
    }
    same_first(module, "scale", json_object_get(m, "scales_first4"), scale);
    same_first(module, "zero point", json_object_get(m, "zeros_first8"), zero);
    int32_t lo = INT32_MAX;
    int32_t hi = INT32_MIN;
    for (int64_t i = 0; i < (int64_t)w->n * groups; i++) {
        int32_t z = (w->zero ? w->zero[i] : 0) + half;
        lo = i32_min(lo, z);
        hi = i32_max(hi, z);
    }
    const json_t *span = json_object_get(m, "zeros_min_max");
    assert_int_equal(lo, json_integer_value(json_array_get(span, 0)));
    assert_int_equal(hi, json_integer_value(json_array_get(span, 1)));
}

static void check_module(void *ctx, const char *module, const struct linear *lin) {
    struct seen *seen = ctx;
    const json_t *m = json_object_get(seen->modules, module);
    char full[256];
    if (!m) {
        return;
    }
    seen->n++;
    snprintf(full, sizeof full, "%s: %s", seen->folder, module);
    if (json_object_get(m, "weight")) { /* dense, pruned */
        check_values(full, &lin->w, json_object_get(m, "weight"));
        return;
    }
    if (json_object_get(m, "dequantized")) {
        check_values(full, &lin->w, json_object_get(m, "dequantized"));
        check_codes(full, &lin->w, m);
        check_turned(full, &lin->w, m);
        return;
    }
    check_values(full, &lin->w, json_object_get(m, "f32_scale"));
    check_scales(full, &lin->w, json_object_get(m, "scale"));
    if (json_object_get(m, "codes")) {
        check_codes(full, &lin->w, json_object_get(m, "codes"));
    }
    const json_t *zero = json_object_get(m, "zero_point_first8");
    assert_true(!zero == !lin->w.zero);
    if (zero) {
        double first[8];
        for (int32_t i = 0; i < 8; i++) {
            first[i] = lin->w.zero[i];
        }
        same_first(full, "zero point", zero, first);
    }
}

static void test_quant_decode_every_module_of_every_folder(void **state) {
    (void)state;
    int32_t n_module = 0;
    for (int32_t i = 0; i < quant_n_folders; i++) {
        struct quant_golden g;
        quant_golden_open(quant_folders[i].name, &g);
        assert_string_equal(g.w->scheme, quant_folders[i].scheme);
        struct seen seen = {.folder = quant_folders[i].name,
                            .modules = json_object_get(g.e, "modules")};
        quant_golden_each(g.w, check_module, &seen);
        assert_int_equal(seen.n, json_object_size(seen.modules));
        assert_true(seen.n > 0);
        n_module += seen.n;
        quant_golden_close(&g);
    }
    print_message("%d modules in %d folders\n", n_module, quant_n_folders);
}

/* Schemes of one folder differ by module; the words of another say what its label does not. */
static void test_quant_decode_mixed_and_mislabelled(void **state) {
    (void)state;
    struct quant_golden g;
    quant_golden_open("llama__rtn_mixed_w8_fp8_w4", &g);
    const struct linear *lin = g.w->layer[1].lin;
    assert_string_equal(lin[LINEAR_Q].scheme,
                        "int-quantized, int8, per channel, symmetric; input int8, per token");
    assert_string_equal(lin[LINEAR_UP].scheme, "pack-quantized, int4, group 32, symmetric");
    assert_string_equal(lin[LINEAR_DOWN].scheme,
                        "float-quantized, fp8, per channel; input fp8, per token");
    assert_string_equal(g.w->head.scheme, "BF16");
    assert_true(lin[LINEAR_Q].w.act.type == ACTQ_I8 && lin[LINEAR_UP].w.act.type == ACTQ_NONE &&
                lin[LINEAR_DOWN].w.act.type == ACTQ_F8_E4M3);
    assert_string_equal(g.w->note, "");
    quant_golden_close(&g);
    quant_golden_open("gptq_mislabelled_v2_words_labelled_gptq_sym", &g);
    assert_non_null(strstr(g.w->note, "labelled gptq, but its zero points are those of gptq_v2"));
    quant_golden_close(&g);
}

static void test_quant_decode_inputs_and_cache(void **state) {
    (void)state;
    struct quant_golden g;
    quant_golden_open("llama__w8a8_static_tensor", &g);
    const struct actq *a = &g.w->layer[0].lin[LINEAR_Q].w.act;
    assert_true(a->type == ACTQ_I8 && a->is_static && !a->asymmetric && a->scale > 0);
    quant_golden_close(&g);
    quant_golden_open("llama__nvfp4", &g);
    a = &g.w->layer[2].lin[LINEAR_DOWN].w.act;
    assert_true(a->type == ACTQ_F4 && !a->is_static && a->group == 16 && a->global > 0);
    quant_golden_close(&g);
    quant_golden_open("llama__fp8_block32", &g);
    a = &g.w->layer[0].lin[LINEAR_Q].w.act;
    assert_true(a->type == ACTQ_F8_E4M3 && a->group == 32);
    assert_int_equal(g.w->layer[0].lin[LINEAR_Q].w.row_group, 32);
    quant_golden_close(&g);
    quant_golden_open("llama__kv_fp8_static", &g);
    assert_true(g.w->q.kv_f8);
    for (int32_t i = 0; i < g.w->cfg.n_layer; i++) {
        assert_true(g.w->layer[i].k_scale > 0 && g.w->layer[i].k_scale != 1);
        assert_true(g.w->layer[i].v_scale > 0 && g.w->layer[i].v_scale != 1);
    }
    quant_golden_close(&g);
    quant_golden_open("gptq_v1_w4_g32_asym_desc_act", &g);
    assert_non_null(g.w->layer[0].lin[LINEAR_Q].w.g_idx);
    quant_golden_close(&g);
    quant_golden_open("gptq_v1_w4_g32_asym", &g);
    assert_null(g.w->layer[0].lin[LINEAR_Q].w.g_idx); /* in order: no need of it */
    quant_golden_close(&g);
}

static void *give(void *ctx, int64_t bytes) {
    void **p = ctx;
    while (*p) {
        p++;
    }
    return *p = mem_calloc(MEM_TEST, bytes);
}

/* Zero points 0 and 15: v1 wraps inside its field. */
static void check_edge(const char *file, bool v2) {
    char dir[FILE_PATH_MAX];
    char path[FILE_PATH_MAX];
    json_t *e = NULL;
    struct ckpt *c = NULL;
    void *owned[16] = {0};
    char rel[256];
    test_tmpdir(dir);
    assert_ok(file_join(path, dir, "config.json"));
    assert_ok(file_write(path, "{}", 2));
    assert_ok(file_join(path, dir, "model.safetensors"));
    snprintf(rel, sizeof rel, "quant/gptq_v1_zero_edge/%s", file);
    struct buf b;
    buf_init(&b, MEM_TEST, 1 << 20);
    assert_ok(file_read(test_golden(rel), &b));
    assert_ok(file_write(path, buf_cstr(&b), b.len));
    buf_fini(&b);
    assert_ok(json_read(test_golden("quant/gptq_v1_zero_edge/expected.json"), &e));
    assert_ok(ckpt_open(dir, &c));
    json_t *config = json_pack("{s:{s:s, s:i, s:i, s:b, s:s}}", "quantization_config",
                               "quant_method", "gptq", "bits", 4, "group_size", 32, "sym", 0,
                               "checkpoint_format", v2 ? "gptq_v2" : "gptq");
    struct qformat q;
    assert_ok(qformat_read(config, "edge", &q));
    struct qbind bind = {.c = c, .q = &q, .alloc = give, .ctx = owned, .check = true};
    const struct qscheme *s = NULL;
    struct wmat w;
    assert_ok(qbind_module(&bind, "x", "Linear", false, 8, 64, &s, &w));
    assert_non_null(s);
    assert_true((strstr(bind.note, "stored as 15 and read as 0") != NULL) == !v2);
    const json_t *want = json_object_get(e, "dequantized_wrap");
    for (int32_t r = 0; r < 8; r++) {
        float row[64];
        ref_decode(&w, r, 0, 64, row);
        for (int32_t k = 0; k < 64; k++) {
            const json_t *v = json_array_get(json_array_get(want, (size_t)r), (size_t)k);
            assert_true(row[k] == (float)json_number_value(v));
        }
    }
    for (int32_t i = 0; i < ARRAY_LEN(owned); i++) {
        mem_free(owned[i]);
    }
    qformat_fini(&q);
    json_decref(config);
    json_decref(e);
    ckpt_close(c);
    test_rmdir(dir);
}

static void test_quant_decode_zero_points_at_the_edge(void **state) {
    (void)state;
    check_edge("model.safetensors", false);
    check_edge("model_v2.safetensors", true);
}

/* What llm-compressor refused to write has no model: the folder is refused, and says why. */
static void test_quant_decode_folders_without_a_model(void **state) {
    (void)state;
    static const char *const names[] = {"llama__gptq_w4a16_g32_group",
                                        "llama__rtn_w4a16_g128_preset",
                                        "llama__rtn_w4a16_g128_preset_ignore_down"};
    for (int32_t i = 0; i < ARRAY_LEN(names); i++) {
        char rel[256];
        json_t *e = NULL;
        struct ckpt *c = NULL;
        snprintf(rel, sizeof rel, "quant/%s/expected.json", names[i]);
        assert_ok(json_read(test_golden(rel), &e));
        assert_true(json_is_string(json_object_get(e, "error")));
        json_decref(e);
        snprintf(rel, sizeof rel, "quant/%s", names[i]);
        assert_err(ckpt_open(test_golden(rel), &c), ERR_NOTFOUND, "no config.json");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {TEST(test_quant_decode_every_module_of_every_folder),
                                       TEST(test_quant_decode_mixed_and_mislabelled),
                                       TEST(test_quant_decode_inputs_and_cache),
                                       TEST(test_quant_decode_zero_points_at_the_edge),
                                       TEST(test_quant_decode_folders_without_a_model)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
