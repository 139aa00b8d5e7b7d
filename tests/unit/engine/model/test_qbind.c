/* Quantized modules by hand: every layout, bit by bit. */
#include "tests/support/support.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/rng.h"
#include "kernels/backend.h"
#include "tests/support/one_module.h"

enum { K_MAX = 256 };

/* Writes field i of b bits of a stream of words that lie stride words apart. */
static void set_field(uint8_t *p, int64_t stride, int64_t i, int32_t b, uint32_t v) {
    for (int32_t j = 0; j < b; j++) {
        int64_t at = i * b + j;
        p[4 * stride * (at / 32) + at % 32 / 8] |= (uint8_t)((v >> j & 1) << (at % 8));
    }
}

static void set_padded(uint8_t *p, int64_t stride, int64_t i, int32_t b, uint32_t v) {
    int32_t a_word = 32 / b;
    uint32_t word = 0;
    memcpy(&word, p + 4 * stride * (i / a_word), 4);
    word |= v << (b * (i % a_word));
    memcpy(p + 4 * stride * (i / a_word), &word, 4);
}

/* Codes and zero points of a packed module, both ways of packing. */
static void packed_round_trip(int32_t bits, bool padded, bool asym, int32_t n, int32_t k) {
    struct one o;
    struct wmat w;
    struct rng r;
    char config[512];
    const int32_t g = k / 2;
    uint32_t code[32][K_MAX];
    uint32_t zero[32][2];
    int32_t half = 1 << (bits - 1);
    snprintf(config, sizeof config,
             "{\"quant_method\":\"compressed-tensors\",\"format\":\"pack-quantized\","
             "\"config_groups\":{\"g\":{\"targets\":[\"Linear\"],\"weights\":{\"num_bits\":%d,"
             "\"group_size\":%d,\"symmetric\":%s}}}}",
             bits, g, asym ? "false" : "true");
    one_init(&o, config, n, k);
    rng_init(&r, 7, (uint64_t)bits);
    int64_t words = padded ? i64_div_up(k, 32 / bits) : i64_div_up((int64_t)k * bits, 32);
    int64_t z_words = padded ? i64_div_up(n, 32 / bits) : i64_div_up((int64_t)n * bits, 32);
    struct toy_tensor *t = one_put(&o, "weight_packed", DTYPE_I32, n, words);
    for (int32_t i = 0; i < n; i++) {
        for (int32_t c = 0; c < k; c++) {
            code[i][c] = (uint32_t)rng_below(&r, 1 << bits);
            (padded ? set_padded : set_field)(t->data + i * words * 4, 1, c, bits, code[i][c]);
        }
    }
    one_put(&o, "weight_scale", DTYPE_F32, n, 2);
    one_put_shape(&o, n, k);
    if (asym) {
        t = one_put(&o, "weight_zero_point", DTYPE_I32, z_words, 2);
        for (int32_t i = 0; i < n; i++) {
            for (int32_t c = 0; c < 2; c++) {
                zero[i][c] = (uint32_t)rng_below(&r, 1 << bits);
                (padded ? set_padded : set_field)(t->data + 4 * c, 2, i, bits, zero[i][c]);
            }
        }
    }
    assert_ok(one_bind(&o, &w, 0));
    assert_int_equal(dtype_packed_bits(w.type), bits);
    assert_int_equal(w.row_bytes, 4 * i64_div_up((int64_t)k * bits, 32));
    for (int32_t i = 0; i < n; i++) {
        float row[K_MAX];
        ref_decode(&w, i, 0, k, row);
        for (int32_t c = 0; c < k; c++) {
            int32_t z = asym ? (int32_t)zero[i][c / g] : half;
            if (row[c] != (float)((int32_t)code[i][c] - z)) {
                fail_msg("%d bits%s, row %d column %d: %g, want %d", bits, padded ? " padded" : "",
                         i, c, (double)row[c], (int32_t)code[i][c] - z);
            }
        }
    }
    one_fini(&o);
}

static void test_qbind_pack_every_width_both_ways(void **state) {
    (void)state;
    for (int32_t bits = 2; bits <= 8; bits++) {
        for (int32_t asym = 0; asym < 2; asym++) {
            packed_round_trip(bits, false, asym, 13, 192);
            packed_round_trip(bits, true, asym, 13, 192);
        }
    }
}

/* 20 columns of 3 bits take two words in both layouts: an idle bit that is set tells them apart. */
static void test_qbind_pack_where_the_width_says_nothing(void **state) {
    (void)state;
    for (int32_t asym = 0; asym < 2; asym++) {
        packed_round_trip(3, false, asym, 13, 20);
        packed_round_trip(3, true, asym, 13, 20);
    }
    struct one o;
    struct wmat w;
    float row[20];
    one_init(&o, ONE_CT("pack-quantized", ONE_INT(3, 20), ""), 8, 20);
    struct toy_tensor *t = one_put(&o, "weight_packed", DTYPE_I32, 8, 2);
    for (int32_t i = 0; i < 8; i++) {
        set_field(t->data + 8 * i, 1, 11, 3, 5); /* bits 33..35: no idle bit of a padded word */
    }
    one_put(&o, "weight_scale", DTYPE_F32, 8, 1);
    one_put_shape(&o, 8, 20);
    assert_ok(one_bind(&o, &w, 0)); /* an old or unknown writer: padded, bits 1..3 of word 1 */
    ref_decode(&w, 0, 0, 20, row);
    assert_true(row[10] == 2 - 4 && row[11] == 1 - 4);
    o.q.writer = 18;
    assert_ok(one_bind(&o, &w, 0));
    ref_decode(&w, 0, 0, 20, row);
    assert_true(row[10] == -4 && row[11] == 5 - 4);
    one_fini(&o);
}

static void test_qbind_pack_reference_word(void **state) {
    (void)state;
    struct one o;
    struct wmat w;
    float row[40];
    const uint32_t word = 0xcba9f870; /* -8 -1 0 7 1 2 3 4 */
    one_init(&o, ONE_CT("pack-quantized", ONE_INT(4, 20), ""), 12, 40);
    memcpy(one_put(&o, "weight_packed", DTYPE_I32, 12, 5)->data + 4 * 5, &word, 4);
    struct toy_tensor *s = one_put(&o, "weight_scale", DTYPE_BF16, 12, 2);
    memcpy(s->data + 2 * 2, &(uint16_t){0x3f00}, 2); /* 0.5 */
    one_put_shape(&o, 12, 40);
    assert_ok(one_bind(&o, &w, 0));
    ref_decode(&w, 1, 0, 20, row);
    const float want[8] = {-4, -0.5f, 0, 3.5f, 0.5f, 1, 1.5f, 2};
    assert_close(row, want, 8, 0);
    assert_int_equal(o.n_owned, 0); /* used where it lies */
    /* and copied when it lies askew */
    assert_ok(one_bind(&o, &w, 3));
    ref_decode(&w, 1, 0, 20, row);
    assert_close(row, want, 8, 0);
    assert_int_equal(o.n_owned, 2);
    one_fini(&o);
}

static void test_qbind_order_of_columns(void **state) {
    (void)state;
    struct one o;
    struct wmat w;
    int32_t g[40];
    one_init(&o, ONE_CT("pack-quantized", ONE_INT(4, 20), ""), 4, 40);
    one_put(&o, "weight_packed", DTYPE_I32, 4, 5);
    one_put(&o, "weight_scale", DTYPE_F32, 4, 2);
    one_put_shape(&o, 4, 40);
    struct toy_tensor *t = one_put(&o, "weight_g_idx", DTYPE_I32, 40, 0);
    for (int32_t i = 0; i < 40; i++) {
        g[i] = i % 2;
    }
    memcpy(t->data, g, sizeof g);
    assert_ok(one_bind(&o, &w, 0));
    assert_memory_equal(w.g_idx, g, sizeof g);
    for (int32_t i = 0; i < 40; i++) {
        g[i] = i / 20;
    }
    memcpy(t->data, g, sizeof g);
    assert_ok(one_bind(&o, &w, 0));
    assert_null(w.g_idx); /* in order */
    memset(t->data, 0xff, sizeof g);
    assert_ok(one_bind(&o, &w, 0));
    assert_null(w.g_idx); /* -1: unused */
    g[7] = 2;
    memcpy(t->data, g, sizeof g);
    assert_err(one_bind(&o, &w, 0), ERR_FORMAT,
               "m.weight_g_idx\": column 7 is of group 2, want 0..1");
    g[7] = -1;
    memcpy(t->data, g, sizeof g);
    assert_err(one_bind(&o, &w, 0), ERR_FORMAT, "column 7 is of group -1");
    memset(t->data, 0xff, 8);
    g[7] = 0;
    memcpy(t->data + 8, g + 2, sizeof g - 8);
    assert_err(one_bind(&o, &w, 0), ERR_FORMAT, "some groups are -1");
    one_fini(&o);
}

/* A block of 128 on a smaller matrix, ragged blocks, one scale a tensor. */
static void test_qbind_float_blocks(void **state) {
    (void)state;
    struct one o;
    struct wmat w;
    float row[40];
    one_init(&o,
             "{\"quant_method\":\"fp8\",\"weight_block_size\":[4,16],\"activation_scheme\":"
             "\"dynamic\"}",
             6, 40);
    one_put(&o, "weight", DTYPE_F8_E4M3, 6, 40);
    struct toy_tensor *s = one_put(&o, "weight_scale_inv", DTYPE_F32, 2, 3);
    memcpy(s->data + 4 * 5, &(float){0.25f}, 4); /* rows 4.., columns 32.. */
    assert_ok(one_bind(&o, &w, 0));
    assert_true(w.row_group == 4 && w.group == 16 && w.act.type == ACTQ_F8_E4M3 &&
                w.act.group == 16 && !w.act.is_static);
    ref_decode(&w, 5, 0, 40, row);
    assert_true(row[31] == 1 && row[32] == 0.25f);
    ref_decode(&w, 3, 0, 40, row);
    assert_true(row[39] == 1);
    one_fini(&o);
    one_init(&o, "{\"quant_method\":\"fp8\",\"weight_block_size\":[128,128]}", 6, 40);
    one_put(&o, "weight", DTYPE_F8_E4M3, 6, 40);
    one_put(&o, "weight_scale_inv", DTYPE_BF16, 1, 1);
    assert_ok(one_bind(&o, &w, 0));
    assert_true(w.row_group == 6 && w.group == 40 && w.act.group == 40);
    one_fini(&o);
    one_init(&o, "{\"quant_method\":\"fp8\",\"activation_scheme\":\"static\"}", 6, 40);
    one_put(&o, "weight", DTYPE_F8_E4M3, 6, 40);
    one_put(&o, "weight_scale", DTYPE_F32, 1, 0);
    one_put(&o, "input_scale", DTYPE_F32, 1, 0);
    assert_ok(one_bind(&o, &w, 0));
    assert_true(w.row_group == 6 && w.group == 40 && w.act.is_static && w.act.scale == 1);
    one_fini(&o);
}

static void test_qbind_gptq_three_bits_straddle(void **state) {
    (void)state;
    struct one o;
    struct wmat w;
    enum { N3 = 32, K3 = 64 };
    uint32_t code[N3][K3];
    uint32_t zero[2][N3];
    struct rng r;
    rng_init(&r, 3, 3);
    one_init(&o, "{\"quant_method\":\"gptq\",\"bits\":3,\"group_size\":32,\"sym\":false}", N3, K3);
    struct toy_tensor *t = one_put(&o, "qweight", DTYPE_I32, K3 * 3 / 32, N3);
    for (int32_t i = 0; i < N3; i++) {
        for (int32_t c = 0; c < K3; c++) {
            code[i][c] = (uint32_t)rng_below(&r, 8);
            set_field(t->data + 4 * i, N3, c, 3, code[i][c]);
        }
    }
    t = one_put(&o, "qzeros", DTYPE_I32, 2, N3 * 3 / 32);
    for (int32_t g = 0; g < 2; g++) {
        for (int32_t i = 0; i < N3; i++) {
            zero[g][i] = (uint32_t)rng_below(&r, 8);
            set_field(t->data + g * t->dim[1] * 4, 1, i, 3, (zero[g][i] + 7) & 7);
        }
    }
    t = one_put(&o, "scales", DTYPE_F16, 2, N3);
    memcpy(t->data + 2 * (N3 + 5), &(uint16_t){0x4000}, 2); /* 2: group 1, row 5 */
    assert_ok(one_bind(&o, &w, 0));
    for (int32_t i = 0; i < N3; i++) {
        float row[K3];
        ref_decode(&w, i, 0, K3, row);
        for (int32_t c = 0; c < K3; c++) {
            int32_t want = (int32_t)code[i][c] - (int32_t)zero[c / 32][i];
            assert_true(row[c] == (float)(want * (i == 5 && c >= 32 ? 2 : 1)));
        }
    }
    one_fini(&o);
}

/* Columns 0..7 that hold 0..7 are the word 0x75316420. */
static void test_qbind_awq_reference_word(void **state) {
    (void)state;
    struct one o;
    struct wmat w;
    const uint32_t word = 0x75316420;
    one_init(&o, "{\"quant_method\":\"awq\",\"bits\":4,\"group_size\":8}", 16, 8);
    struct toy_tensor *t = one_put(&o, "qweight", DTYPE_I32, 8, 2);
    memcpy(t->data + (3 * 2 + 1) * 4, &word, 4); /* input 3, outputs 8..15 */
    t = one_put(&o, "qzeros", DTYPE_I32, 1, 2);
    memcpy(t->data, &word, 4); /* outputs 0..7 */
    one_put(&o, "scales", DTYPE_F16, 1, 16);
    assert_ok(one_bind(&o, &w, 0));
    for (int32_t i = 0; i < 16; i++) {
        float row[8];
        ref_decode(&w, i, 0, 8, row);
        assert_true(row[2] == (float)(i < 8 ? -i : 0));
        assert_true(row[3] == (float)(i < 8 ? -i : i - 8));
    }
    one_fini(&o);
}

static void test_qbind_gptq_words_decide_in_symmetric_files(void **state) {
    (void)state;
    static const struct {
        const char *format;
        uint32_t words;
        const char *note;
    } rows[] = {
        {"gptq", 0x77777777, ""},
        {"gptq", 0x88888888, "those of gptq_v2"},
        {"gptq_v2", 0x88888888, ""},
        {"gptq_v2", 0x77777777, "those of gptq;"},
        {"gptq_v2", 0x78777777, "zero points differ"},
    };
    for (int32_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct one o;
        struct wmat w;
        char config[256];
        float row[32];
        snprintf(config, sizeof config,
                 "{\"quant_method\":\"gptq\",\"bits\":4,\"group_size\":-1,\"sym\":true,"
                 "\"checkpoint_format\":\"%s\"}",
                 rows[i].format);
        one_init(&o, config, 8, 32);
        one_put(&o, "qweight", DTYPE_I32, 4, 8);
        memcpy(one_put(&o, "qzeros", DTYPE_I32, 1, 1)->data, &rows[i].words, 4);
        one_put(&o, "scales", DTYPE_F16, 1, 8);
        assert_ok(one_bind(&o, &w, 0));
        assert_non_null(strstr(o.b.note, rows[i].note));
        assert_true(rows[i].note[0] || !o.b.note[0]);
        ref_decode(&w, 7, 0, 32, row);
        assert_true(row[0] == -8 + (i == 4 ? 1 : 0)); /* code 0 less 8, or less 7 as stored */
        one_fini(&o);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {TEST(test_qbind_pack_every_width_both_ways),
                                       TEST(test_qbind_pack_where_the_width_says_nothing),
                                       TEST(test_qbind_pack_reference_word),
                                       TEST(test_qbind_order_of_columns),
                                       TEST(test_qbind_float_blocks),
                                       TEST(test_qbind_gptq_three_bits_straddle),
                                       TEST(test_qbind_awq_reference_word),
                                       TEST(test_qbind_gptq_words_decide_in_symmetric_files)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
