/* Quantized modules that are wrong: what is missing, misshapen, out of range or not finite is
 * named. */
#include "tests/support/support.h"

#include <stdio.h>
#include <string.h>

#include "tests/support/one_module.h"

#define PACK ONE_CT("pack-quantized", ONE_INT(4, 32) ONE_ASYM, "")
#define W8A8                                                                                       \
    ONE_CT("int-quantized", "\"num_bits\":8,\"strategy\":\"channel\"" ONE_ASYM,                    \
           ",\"input_activations\":{\"num_bits\":8,\"strategy\":\"tensor\",\"symmetric\":false}")
#define F8                                                                                         \
    ONE_CT("float-quantized", "\"num_bits\":8,\"type\":\"float\",\"strategy\":\"channel\"", "")
#define NV                                                                                         \
    ONE_CT(                                                                                        \
        "nvfp4-pack-quantized",                                                                    \
        "\"num_bits\":4,\"type\":\"float\",\"strategy\":\"tensor_group\",\"group_size\":16",       \
        ",\"input_activations\":{\"num_bits\":4,\"type\":\"float\",\"strategy\":\"tensor_group\"," \
        "\"group_size\":16,\"dynamic\":\"local\"}")
#define MX(name, bits)                                                                             \
    ONE_CT(name,                                                                                   \
           "\"num_bits\":" #bits ",\"type\":\"float\",\"strategy\":\"group\",\"group_size\":32",   \
           "")
#define GPTQ "{\"quant_method\":\"gptq\",\"bits\":4,\"group_size\":32,\"sym\":false}"
#define AWQ  "{\"quant_method\":\"awq\",\"bits\":4,\"group_size\":32}"

enum { NW = 16, KW = 64, PARTS_MAX = 6 };

struct part {
    const char *name;
    enum dtype type;
    int64_t rows;
    int64_t cols;
};

enum layout_row { L_PACK, L_W8A8, L_F8, L_NV, L_MX4, L_MX8, L_GPTQ, L_AWQ, L_N };

/* The right tensors of every layout, [16,64]. */
static const struct {
    const char *config;
    struct part part[PARTS_MAX];
} right[L_N] = {
    [L_PACK] = {PACK,
                {{"weight_packed", DTYPE_I32, NW, KW / 8},
                 {"weight_scale", DTYPE_BF16, NW, KW / 32},
                 {"weight_zero_point", DTYPE_I32, NW / 8, KW / 32},
                 {"weight_shape", DTYPE_I64, 2, 0}}},
    [L_W8A8] = {W8A8,
                {{"weight", DTYPE_I8, NW, KW},
                 {"weight_scale", DTYPE_F32, NW, 1},
                 {"weight_zero_point", DTYPE_I8, NW, 1},
                 {"input_scale", DTYPE_F32, 1, 0},
                 {"input_zero_point", DTYPE_I8, 1, 0}}},
    [L_F8] = {F8, {{"weight", DTYPE_F8_E4M3, NW, KW}, {"weight_scale", DTYPE_BF16, NW, 1}}},
    [L_NV] = {NV,
              {{"weight_packed", DTYPE_U8, NW, KW / 2},
               {"weight_scale", DTYPE_F8_E4M3, NW, KW / 16},
               {"weight_global_scale", DTYPE_F32, 1, 0},
               {"input_global_scale", DTYPE_F32, 1, 0}}},
    [L_MX4] = {MX("mxfp4-pack-quantized", 4),
               {{"weight_packed", DTYPE_U8, NW, KW / 2}, {"weight_scale", DTYPE_U8, NW, KW / 32}}},
    [L_MX8] = {MX("mxfp8-quantized", 8),
               {{"weight", DTYPE_F8_E4M3, NW, KW}, {"weight_scale", DTYPE_U8, NW, KW / 32}}},
    [L_GPTQ] = {GPTQ,
                {{"qweight", DTYPE_I32, KW / 8, NW},
                 {"qzeros", DTYPE_I32, KW / 32, NW / 8},
                 {"scales", DTYPE_F16, KW / 32, NW},
                 {"g_idx", DTYPE_I32, KW, 0}}},
    [L_AWQ] = {AWQ,
               {{"qweight", DTYPE_I32, KW, NW / 8},
                {"qzeros", DTYPE_I32, KW / 32, NW / 8},
                {"scales", DTYPE_F16, KW / 32, NW}}},
};

/* How one tensor is made wrong: absent (DTYPE_N), of another type or shape, or with bytes in it. */
static const struct {
    enum layout_row layout;
    struct part part;
    int64_t at;     /* of two bytes, -1: none */
    uint16_t bytes; /* little-endian */
    int code;
    const char *says;
} wrongs[] = {
    {L_PACK, {"weight_scale", DTYPE_N, 0, 0}, -1, 0, ERR_NOTFOUND, "\"m.weight_scale\" is missing"},
    {L_PACK, {"weight_shape", DTYPE_N, 0, 0}, -1, 0, ERR_NOTFOUND, "\"m.weight_shape\" is missing"},
    {L_PACK, {"weight_zero_point", DTYPE_N, 0, 0}, -1, 0, ERR_NOTFOUND, "m.weight_zero_point"},
    {L_PACK, {"weight_packed", DTYPE_I32, NW, 9}, -1, 0, ERR_FORMAT, "[16, 9], want I32 [16, 8]"},
    {L_PACK, {"weight_packed", DTYPE_I32, 15, 8}, -1, 0, ERR_FORMAT, "[15, 8], want I32 [16, 8]"},
    {L_PACK, {"weight_packed", DTYPE_I32, 128, 0}, -1, 0, ERR_FORMAT, "[128], want I32 [16, 8]"},
    {L_PACK, {"weight_scale", DTYPE_I32, NW, 2}, -1, 0, ERR_FORMAT, "want F32, F16 or BF16"},
    {L_PACK, {"weight_scale", DTYPE_BF16, NW, 1}, -1, 0, ERR_FORMAT, "[16, 1], want"},
    {L_PACK, {"weight_scale", DTYPE_BF16, NW, 0}, -1, 0, ERR_FORMAT, "BF16 [16], want"},
    {L_PACK, {"weight_scale", DTYPE_BF16, NW, 2}, 6, 0, ERR_NUMERIC, "scale 3 is zero"},
    {L_PACK, {"weight_scale", DTYPE_BF16, NW, 2}, 8, 0x7f80, ERR_NUMERIC, "infinity at element 4"},
    {L_PACK, {"weight_scale", DTYPE_F16, NW, 2}, 8, 0x7e00, ERR_NUMERIC, "NaN or infinity"},
    {L_PACK, {"weight_zero_point", DTYPE_I32, 2, 3}, -1, 0, ERR_FORMAT, "[2, 3], want I32 [2, 2]"},
    {L_PACK, {"weight_zero_point", DTYPE_I8, 2, 2}, -1, 0, ERR_FORMAT, "want I8 [16, 2]"},
    {L_PACK, {"weight_shape", DTYPE_I64, 3, 0}, -1, 0, ERR_FORMAT, "[3], want I64 [2]"},
    {L_PACK, {"weight_shape", DTYPE_I32, 2, 0}, -1, 0, ERR_FORMAT, "want I64 [2]"},
    {L_PACK,
     {"weight_shape", DTYPE_I64, 2, 0},
     0,
     17,
     ERR_FORMAT,
     "says [17, 64], the model wants"},
    {L_PACK, {"weight_shape", DTYPE_I64, 2, 0}, 7, 0x80, ERR_FORMAT, "the model wants [16, 64]"},
    {L_PACK, {"weight_g_idx", DTYPE_I32, 63, 0}, -1, 0, ERR_FORMAT, "[63], want I32 [64]"},
    {L_PACK, {"weight_g_idx", DTYPE_I64, 64, 0}, -1, 0, ERR_FORMAT, "want I32 [64]"},
    {L_PACK, {"weight_g_idx", DTYPE_I32, 64, 0}, 40, 2, ERR_FORMAT, "column 10 is of group 2"},
    {L_W8A8, {"weight", DTYPE_U8, NW, KW}, -1, 0, ERR_FORMAT, "U8 [16, 64], want I8 [16, 64]"},
    {L_W8A8, {"weight", DTYPE_I8, KW, NW}, -1, 0, ERR_FORMAT, "[64, 16], want I8 [16, 64]"},
    {L_W8A8, {"weight_scale", DTYPE_F32, NW, 2}, -1, 0, ERR_FORMAT, "[16, 2], want"},
    {L_W8A8, {"weight_zero_point", DTYPE_I32, NW, 1}, -1, 0, ERR_FORMAT, "want I8 [16, 1]"},
    {L_W8A8, {"input_scale", DTYPE_N, 0, 0}, -1, 0, ERR_NOTFOUND, "m.input_scale"},
    {L_W8A8, {"input_scale", DTYPE_F32, 2, 0}, -1, 0, ERR_FORMAT, "want one F32, F16 or BF16"},
    {L_W8A8, {"input_scale", DTYPE_BF16, 1, 0}, 0, 0, ERR_NUMERIC, "m.input_scale\" is 0"},
    {L_W8A8, {"input_scale", DTYPE_BF16, 1, 0}, 0, 0xbf80, ERR_NUMERIC, "is -1, want a finite"},
    {L_W8A8, {"input_zero_point", DTYPE_N, 0, 0}, -1, 0, ERR_NOTFOUND, "m.input_zero_point"},
    {L_W8A8, {"input_zero_point", DTYPE_I32, 1, 0}, -1, 0, ERR_FORMAT, "want I8 [1]"},
    {L_F8, {"weight", DTYPE_F8_E4M3, NW, KW}, 70, 0x7f, ERR_NUMERIC, "element 70"},
    {L_F8, {"weight", DTYPE_BF16, NW, KW}, -1, 0, ERR_FORMAT, "BF16 [16, 64], want F8_E4M3"},
    {L_F8, {"weight_scale", DTYPE_N, 0, 0}, -1, 0, ERR_NOTFOUND, "m.weight_scale"},
    {L_F8, {"weight_scale", DTYPE_BF16, 1, 0}, -1, 0, ERR_FORMAT, "[1], want"},
    {L_F8, {"weight_zero_point", DTYPE_F8_E4M3, NW, 1}, -1, 0, ERR_FORMAT, "byte 0 is not zero"},
    {L_NV, {"weight_packed", DTYPE_U8, NW, 31}, -1, 0, ERR_FORMAT, "want U8 [16, 32]"},
    {L_NV, {"weight_scale", DTYPE_BF16, NW, 4}, -1, 0, ERR_FORMAT, "want F8_E4M3 [16, 4]"},
    {L_NV, {"weight_scale", DTYPE_F8_E4M3, NW, 4}, 3, 0xff, ERR_NUMERIC, "element 3"},
    {L_NV, {"weight_global_scale", DTYPE_N, 0, 0}, -1, 0, ERR_NOTFOUND, "m.weight_global_scale"},
    {L_NV, {"weight_global_scale", DTYPE_F32, 1, 0}, 2, 0, ERR_NUMERIC, "is 0, want a finite"},
    {L_NV, {"input_global_scale", DTYPE_N, 0, 0}, -1, 0, ERR_NOTFOUND, "m.input_global_scale"},
    {L_NV, {"input_global_scale", DTYPE_F32, 1, 0}, 2, 0x7f80, ERR_NUMERIC, "input_global_scale"},
    {L_MX4, {"weight_scale", DTYPE_U8, NW, 2}, 9, 0xff, ERR_NUMERIC, "element 9"},
    {L_MX4, {"weight_scale", DTYPE_F32, NW, 2}, -1, 0, ERR_FORMAT, "want U8 (E8M0)"},
    {L_MX8, {"weight", DTYPE_F8_E5M2, NW, KW}, -1, 0, ERR_FORMAT, "F8_E5M2 [16, 64], want F8_E4M3"},
    {L_MX8, {"weight_scale", DTYPE_U8, NW, 4}, -1, 0, ERR_FORMAT, "[16, 4], want"},
    {L_GPTQ, {"qweight", DTYPE_I32, NW, KW / 8}, -1, 0, ERR_FORMAT, "[16, 8], want I32 [8, 16]"},
    {L_GPTQ, {"qweight", DTYPE_U32, KW / 8, NW}, -1, 0, ERR_FORMAT, "U32"},
    {L_GPTQ, {"qzeros", DTYPE_N, 0, 0}, -1, 0, ERR_NOTFOUND, "m.qzeros"},
    {L_GPTQ, {"qzeros", DTYPE_I32, 2, 1}, -1, 0, ERR_FORMAT, "[2, 1], want I32 [2, 2]"},
    {L_GPTQ, {"scales", DTYPE_N, 0, 0}, -1, 0, ERR_NOTFOUND, "m.scales"},
    {L_GPTQ, {"scales", DTYPE_F16, NW, 2}, -1, 0, ERR_FORMAT, "[16, 2], want"},
    {L_GPTQ, {"scales", DTYPE_F16, 2, NW}, 34, 0, ERR_NUMERIC, "scale 17 is zero"},
    {L_GPTQ, {"g_idx", DTYPE_I32, KW, 0}, 0, 0x100, ERR_FORMAT, "column 0 is of group 256"},
    {L_GPTQ, {"g_idx", DTYPE_I32, KW, 0}, 2, 0xffff, ERR_FORMAT, "column 0 is of group -65536"},
    {L_AWQ, {"qweight", DTYPE_I32, KW / 8, NW}, -1, 0, ERR_FORMAT, "want I32 [64, 2]"},
    {L_AWQ, {"qzeros", DTYPE_I32, 1, 2}, -1, 0, ERR_FORMAT, "[1, 2], want I32 [2, 2]"},
    {L_AWQ, {"scales", DTYPE_F16, 2, NW}, 0, 0x7c00, ERR_NUMERIC, "m.scales"},
};

static void put_right(struct one *o, enum layout_row l, const char *but) {
    for (int32_t i = 0; i < PARTS_MAX && right[l].part[i].name; i++) {
        const struct part *p = &right[l].part[i];
        if (but && strcmp(but, p->name) == 0) {
            continue;
        }
        if (strcmp(p->name, "weight_shape") == 0) {
            one_put_shape(o, NW, KW);
        } else {
            one_put(o, p->name, p->type, p->rows, p->cols);
        }
    }
}

static void test_qbind_right_tensors_bind(void **state) {
    (void)state;
    for (int32_t l = 0; l < L_N; l++) {
        struct one o;
        struct wmat w = {0};
        int64_t want = 0;
        one_init(&o, right[l].config, NW, KW);
        put_right(&o, (enum layout_row)l, NULL);
        assert_ok(one_bind(&o, &w, 0));
        assert_true(w.n == NW && w.k == KW);
        for (int32_t i = 0; i < o.toy.n; i++) {
            bool counts = strstr(o.toy.t[i].name, "weight_shape") == NULL;
            want += counts ? o.toy.t[i].bytes : 0;
        }
        assert_int_equal(o.b.bytes, want);
        one_fini(&o);
    }
}

static void test_qbind_wrong_tensors_are_named(void **state) {
    (void)state;
    for (int32_t i = 0; i < ARRAY_LEN(wrongs); i++) {
        const struct part *p = &wrongs[i].part;
        struct one o;
        struct wmat w = {.n = -5};
        char tensor[64];
        one_init(&o, right[wrongs[i].layout].config, NW, KW);
        put_right(&o, wrongs[i].layout, p->name);
        if (p->type != DTYPE_N) {
            struct toy_tensor *t = one_put(&o, p->name, p->type, p->rows, p->cols);
            if (strcmp(p->name, "weight_shape") == 0 && p->rows == 2 && p->type == DTYPE_I64) {
                memcpy(t->data, (int64_t[2]){NW, KW}, 16);
            }
            if (wrongs[i].at >= 0) {
                int64_t n = i64_min(2, t->bytes - wrongs[i].at);
                memcpy(t->data + wrongs[i].at, &wrongs[i].bytes, (size_t)(n < 2 ? 1 : 2));
            }
        }
        int rc = one_bind(&o, &w, 0);
        if (rc == 0) {
            fail_msg("row %d: %s was read", i, p->name);
        }
        snprintf(tensor, sizeof tensor, "m.%s", p->name);
        assert_err(rc, wrongs[i].code, wrongs[i].says);
        assert_err(rc, wrongs[i].code, tensor);
        assert_int_equal(w.n, -5);
        one_fini(&o);
    }
}

static void test_qbind_wrong_sizes_and_places(void **state) {
    (void)state;
    struct one o;
    struct wmat w;
    const struct qscheme *s = NULL;
    one_init(&o, ONE_CT("pack-quantized", ONE_INT(4, 48), ""), NW, KW);
    put_right(&o, L_PACK, NULL);
    assert_err(one_bind(&o, &w, 0), ERR_FORMAT, "\"m\": 64 columns are no multiple of group 48");
    one_fini(&o);
    one_init(&o, GPTQ, NW, 36);
    one_put(&o, "qweight", DTYPE_I32, 5, NW);
    assert_err(one_bind(&o, &w, 0), ERR_FORMAT, "36 columns of 4 bits end inside a word");
    one_fini(&o);
    one_init(&o, AWQ, 12, KW);
    one_put(&o, "qweight", DTYPE_I32, KW, 2);
    assert_err(one_bind(&o, &w, 0), ERR_FORMAT, "12 rows are no multiple of 8");
    one_fini(&o);
    /* stored quantized, but the configuration says dense */
    one_init(
        &o,
        "{\"quant_method\":\"compressed-tensors\",\"format\":\"pack-quantized\",\"ignore\":[\"m\"],"
        "\"config_groups\":{\"g\":{\"targets\":[\"Linear\"],\"weights\":{" ONE_INT(4, 32) "}}}}",
        NW, KW);
    put_right(&o, L_PACK, NULL);
    one_open(&o, false, 0);
    assert_err(qbind_module(&o.b, "m", "Linear", false, NW, KW, &s, &w), ERR_FORMAT,
               "is stored quantized, but quantization_config leaves it dense");
    one_fini(&o);
    /* and the other way round */
    one_init(&o, PACK, NW, KW);
    one_put(&o, "weight", DTYPE_BF16, NW, KW);
    assert_err(one_bind(&o, &w, 0), ERR_NOTFOUND,
               "\"m.weight_packed\" is missing (pack-quantized, int4");
    assert_ok(qbind_module(&o.b, "m", "Linear", true, NW, KW, &s, &w)); /* a router may */
    assert_null(s);
    one_fini(&o);
    /* gptq and its like leave it to the tensors */
    one_init(&o, GPTQ, NW, KW);
    one_put(&o, "weight", DTYPE_BF16, NW, KW);
    one_open(&o, false, 0);
    assert_ok(qbind_module(&o.b, "m", "Linear", false, NW, KW, &s, &w));
    assert_null(s);
    one_fini(&o);
}

static void test_qbind_cache_scales(void **state) {
    (void)state;
    struct one o;
    struct wmat w;
    float f = 0;
    one_init(&o, PACK, NW, KW);
    put_right(&o, L_PACK, NULL);
    one_put(&o, "k_scale", DTYPE_BF16, 1, 0);
    one_put(&o, "v_proj.output_scale", DTYPE_F32, 1, 0); /* the old name */
    assert_ok(one_bind(&o, &w, 0));
    assert_ok(qbind_kv_scale(&o.b, "m", "k_scale", &f));
    assert_true(f == 1);
    f = 0;
    assert_ok(qbind_kv_scale(&o.b, "m", "v_scale", &f));
    assert_true(f == 1);
    assert_err(qbind_kv_scale(&o.b, "x", "v_scale", &f), ERR_NOTFOUND, "\"x.v_scale\" is missing");
    one_fini(&o);
}

static void test_qbind_without_memory(void **state) {
    (void)state;
    for (int32_t l = 0; l < L_N; l++) {
        for (int32_t left = 0;; left++) {
            struct one o;
            struct wmat w;
            one_init(&o, right[l].config, NW, KW);
            put_right(&o, (enum layout_row)l, NULL);
            o.n_left = left;
            int rc = one_bind(&o, &w, 1);
            assert_true(rc == 0 || rc == ERR_NOMEM);
            one_fini(&o);
            if (!rc) {
                break;
            }
            assert_true(left < 10);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_qbind_right_tensors_bind), TEST(test_qbind_wrong_tensors_are_named),
        TEST(test_qbind_wrong_sizes_and_places), TEST(test_qbind_cache_scales),
        TEST(test_qbind_without_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
