/* Decoders: every variant gives the bits of ref_decode, for random blocks and for scales that are
 * infinite, NaN, subnormal or a negative zero; ref_decode itself gives values worked out by hand.
 */
#include "tests/support/support.h"

#include <math.h>
#include <string.h>

#include "engine/base/rng.h"
#include "kernels/backend.h"
#include "kernels/cpu/cpu_isa.h"
#include "kernels/host.h"

enum { K = 192, ROWS = 64 };

static const uint16_t odd_halves[] = {0x0000, 0x8000, 0x0001, 0x83ff, 0x0400, 0x7bff,
                                      0xfbff, 0x7c00, 0xfc00, 0x7e00, 0x3c00, 0x2e66};

static uint16_t any_half(struct rng *r) {
    if (rng_below(r, 3) == 0) {
        return odd_halves[rng_below(r, ARRAY_LEN(odd_halves))];
    }
    return (uint16_t)rng_u64(r);
}

static void fill(struct rng *r, uint8_t *p, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        p[i] = (uint8_t)(rng_u64(r) >> 24);
    }
}

/* Equal bits, or both NaN: a NaN's payload may differ between scalar and vector conversion. */
static void same_row(const char *what, const float *got, const float *want, int32_t n) {
    for (int32_t i = 0; i < n; i++) {
        bool nan = isnan(got[i]) && isnan(want[i]);
        if (!nan && memcmp(&got[i], &want[i], sizeof(float)) != 0) {
            print_error("%s: element %d is %a, want %a\n", what, i, (double)got[i],
                        (double)want[i]);
            fail();
        }
    }
}

static void check_rows(const struct wmat *w) {
    float want[K];
    float got[K];
    for (int32_t v = 0; cpu_isa_at(v); v++) {
        const struct cpu_kern *kern = cpu_isa_at(v);
        for (int32_t r = 0; r < w->n; r++) {
            ref_decode(w, r, 0, w->k, want);
            kern->decode(w, r, got);
            same_row(kern->name, got, want, w->k);
        }
    }
}

static void check_blocks(enum dtype type, int32_t n_scale) {
    struct rng r;
    static uint8_t data[ROWS * K * 4];
    int64_t row = dtype_row_bytes(type, K);
    const struct dtype_info *info = dtype_info(type);
    rng_init(&r, 11, (uint64_t)type);
    fill(&r, data, ROWS * row);
    for (int64_t at = 0; at < ROWS * row; at += info->block_bytes) {
        for (int32_t i = 0; i < n_scale; i++) {
            uint16_t h = any_half(&r);
            memcpy(data + at + i * 2, &h, sizeof(h));
        }
    }
    struct wmat w = {.type = type, .n = ROWS, .k = K, .data = data, .row_bytes = row};
    check_rows(&w);
}

static void test_decode_bits_plain(void **state) {
    (void)state;
    check_blocks(DTYPE_F32, 0);
    check_blocks(DTYPE_F16, 1);
    check_blocks(DTYPE_BF16, 1);
}

static void test_decode_bits_blocks(void **state) {
    (void)state;
    check_blocks(DTYPE_Q4_0, 1);
    check_blocks(DTYPE_Q4_1, 2);
    check_blocks(DTYPE_Q8_0, 1);
}

static const enum dtype scaled_types[] = {
    DTYPE_W2, DTYPE_W3, DTYPE_W4, DTYPE_W5,      DTYPE_W6,      DTYPE_W7,
    DTYPE_W8, DTYPE_I8, DTYPE_F4, DTYPE_F8_E4M3, DTYPE_F8_E5M2,
};

static const enum dtype scale_types[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16, DTYPE_F8_E4M3,
                                         DTYPE_F8_E8M0};

/* Random bits for everything that decoders read. */
struct scaled_data {
    uint8_t data[ROWS * K];
    uint8_t scale[ROWS * K * 4];
    int8_t zero[ROWS * K];
    int32_t g_idx[K];
};

static bool is_int(enum dtype t) {
    return dtype_packed_bits(t) > 0 || t == DTYPE_I8;
}

/* All that scaled_check allows of one type and group: scale types, zero points, row groups, a
 * global scale, act-order. */
static void
check_scaled(struct scaled_data *d, struct rng *r, enum dtype type, int32_t k, int32_t g) {
    int32_t n_type = dtype_packed_bits(type) ? 3 : ARRAY_LEN(scale_types);
    for (int32_t i = 0; i < n_type * 8; i++) {
        struct wmat w = {.type = type, .n = 9, .k = k, .data = d->data, .group = g};
        w.row_bytes = dtype_row_bytes(type, k);
        w.scale = d->scale;
        w.scale_type = scale_types[i / 8];
        w.zero = i % 2 && is_int(type) ? d->zero : NULL;
        w.row_group = i % 8 / 2 == 1 ? 4 : 0;
        w.row_group = i % 8 / 2 == 2 ? w.n : w.row_group;
        w.global = i % 8 / 2 == 2 ? 77.3F : 0;
        w.g_idx = i % 8 / 2 == 3 ? d->g_idx : NULL;
        for (int32_t c = 0; c < k; c++) {
            d->g_idx[c] = (int32_t)rng_below(r, i64_div_up(k, g));
        }
        assert_ok(host_check_weight(&w));
        check_rows(&w);
    }
}

static void test_decode_bits_scaled(void **state) {
    (void)state;
    static const int32_t groups[] = {1, 8, 16, 32, 48, 64, 96, 128, K};
    static struct scaled_data d;
    struct rng r;
    rng_init(&r, 12, 0);
    for (int32_t i = 0; i < ARRAY_LEN(scaled_types); i++) {
        for (int32_t j = 0; j < ARRAY_LEN(groups); j++) {
            fill(&r, d.data, sizeof(d.data));
            fill(&r, d.scale, sizeof(d.scale));
            for (int32_t at = 0; at < ARRAY_LEN(d.zero); at++) {
                d.zero[at] = (int8_t)(rng_below(&r, 256) - 128);
            }
            check_scaled(&d, &r, scaled_types[i], K, groups[j]);
            check_scaled(&d, &r, scaled_types[i], K - 22, i32_min(groups[j], K - 22));
        }
    }
}

/* Every 8-bit code through every variant, at each place of a piece. */
static void test_decode_bits_all_small_floats(void **state) {
    (void)state;
    static uint8_t data[256 + K];
    static const enum dtype types[] = {DTYPE_F8_E4M3, DTYPE_F8_E5M2, DTYPE_I8, DTYPE_W8, DTYPE_F4};
    const float one = 1;
    for (int32_t i = 0; i < ARRAY_LEN(data); i++) {
        data[i] = (uint8_t)i;
    }
    for (int32_t i = 0; i < ARRAY_LEN(types) * 256; i++) {
        struct wmat w = {.type = types[i / 256], .n = 1, .k = 64, .data = data + i % 256};
        w.row_bytes = dtype_row_bytes(w.type, w.k);
        w.scale = &one;
        w.group = 64;
        check_rows(&w);
    }
}

static void test_decode_values_by_hand(void **state) {
    (void)state;
    uint8_t q4_1[20] = {0x00, 0x38, 0x00, 0xbc}; /* d = 0.5, m = -1 */
    uint8_t q8_0[34] = {0x00, 0x40};             /* d = 2 */
    float out[32];
    q4_1[4] = 0xf3;
    q8_0[2] = 0xfd;
    struct wmat w = {.type = DTYPE_Q4_1, .n = 1, .k = 32, .data = q4_1, .row_bytes = 20};
    ref_decode(&w, 0, 0, 32, out);
    assert_rel((double)out[0], 0.5, 0);
    assert_rel((double)out[16], 6.5, 0);
    assert_rel((double)out[1], -1, 0);
    w.type = DTYPE_Q4_0;
    ref_decode(&w, 0, 0, 32, out); /* d = 0.5; the two bytes of m are the first four elements */
    assert_rel((double)out[0], -4, 0);
    assert_rel((double)out[1], (0xc - 8) * 0.5, 0);
    assert_rel((double)out[17], (0xb - 8) * 0.5, 0);
    w = (struct wmat){.type = DTYPE_Q8_0, .n = 1, .k = 32, .data = q8_0, .row_bytes = 34};
    ref_decode(&w, 0, 0, 32, out);
    assert_rel((double)out[0], -6, 0);
}

static void expect_row(const struct wmat *w, int32_t r, const float *want) {
    float got[16];
    assert_ok(host_check_weight(w));
    ref_decode(w, r, 0, w->k, got);
    same_row(dtype_info(w->type)->name, got, want, w->k);
}

/* 3 bits across a word border: elements 10 and 11 hold bits 30..35. The row is 48 bits in two
 * words; stored = q + 4. */
static void test_decode_dense_bits_by_hand(void **state) {
    (void)state;
    static const int32_t q[16] = {-4, 3, 0, -1, 2, 1, -2, -3, 3, 3, -4, 1, 2, 0, -1, 3};
    float want[16];
    float scale[2] = {0.5F, 2};
    const int8_t zero[2] = {0, -3};
    uint64_t bits = 0;
    for (int32_t i = 0; i < 16; i++) {
        bits |= (uint64_t)(q[i] + 4) << (3 * i);
        want[i] = i < 10 ? (float)q[i] * 0.5F : (float)(q[i] + 3) * 2;
    }
    struct wmat w = {.type = DTYPE_W3, .n = 1, .k = 16, .data = &bits, .row_bytes = 8, .group = 10};
    w.scale = scale;
    w.zero = zero;
    expect_row(&w, 0, want);
    const int32_t order[16] = {1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0};
    w.g_idx = order;
    for (int32_t i = 0; i < 16; i++) {
        want[i] = i % 2 ? (float)q[i] * 0.5F : (float)(q[i] + 3) * 2;
    }
    expect_row(&w, 0, want);
}

static void test_decode_scaled_by_hand(void **state) {
    (void)state;
    const uint8_t data[12] = {0x21, 0xf7, 0x08, 0x80, 0xff, 0x7f, 0x40, 0xb8, 1, 2, 3, 4};
    const uint8_t e4m3[2] = {0x38, 0x44}; /* 1, 3 */
    const float f4[6] = {0.5F / 4, 1.0F / 4, 6.0F / 4, -6.0F / 4, -0.0F, 0};
    struct wmat w = {.type = DTYPE_F4, .n = 1, .k = 6, .data = data, .row_bytes = 3, .group = 5};
    w.scale = e4m3;
    w.scale_type = DTYPE_F8_E4M3;
    w.global = 4;
    expect_row(&w, 0, f4);                        /* the sixth, alone in its group, is 0 * 3 / 4 */
    const uint8_t e8m0[4] = {126, 128, 127, 255}; /* 1/2, 2, 1, NaN */
    const float i8[3] = {-128 * 2, -1 * 2, 127};
    w = (struct wmat){.type = DTYPE_I8, .n = 3, .k = 3, .data = data + 3, .row_bytes = 3};
    w.group = 2;
    w.row_group = 2;
    w.scale = e8m0 + 1;
    w.scale_type = DTYPE_F8_E8M0;
    expect_row(&w, 0, i8);
    expect_row(&w, 1, (const float[3]){64 * 2, -72 * 2, 1});
    const float f8[3] = {2 * 0.5F, -1 * 0.5F, 0x1p-9F * 2};
    w = (struct wmat){.type = DTYPE_F8_E4M3, .n = 1, .k = 3, .data = data + 6, .row_bytes = 3};
    w.group = 2;
    w.scale = e8m0;
    w.scale_type = DTYPE_F8_E8M0;
    expect_row(&w, 0, f8);
    w.type = DTYPE_F8_E5M2; /* 0x40: 2, 0xb8: -0.5, 1: 2^-16 */
    const float e5m2[3] = {2 * 0.5F, -0.5F * 0.5F, 0x1p-16F * 2};
    expect_row(&w, 0, e5m2);
}

/* A piece from the middle of a row equals that part of the whole row. */
static void test_decode_pieces_equal_whole(void **state) {
    (void)state;
    static uint8_t data[K * 4];
    static const enum dtype types[] = {DTYPE_F32,  DTYPE_F16, DTYPE_Q4_0, DTYPE_Q4_1,
                                       DTYPE_Q8_0, DTYPE_W5,  DTYPE_F4,   DTYPE_I8};
    static const float scale[K / 16] = {1, -2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    struct rng r;
    float whole[K];
    float part[64];
    rng_init(&r, 13, 0);
    for (int32_t i = 0; i < ARRAY_LEN(types); i++) {
        fill(&r, data, sizeof(data));
        struct wmat w = {.type = types[i], .n = 1, .k = K, .data = data};
        w.scale = scale;
        w.group = 16;
        w.row_bytes = dtype_row_bytes(types[i], K);
        ref_decode(&w, 0, 0, K, whole);
        ref_decode(&w, 0, 96, 64, part);
        same_row("piece", part, whole + 96, 64);
    }
}

/* Q8_1 is not in gguf-py's decoders: f16 d, f16 sum (not read), 32 x i8. */
static void test_decode_q8_1_by_its_definition(void **state) {
    (void)state;
    uint8_t b[36] = {0x00, 0xc0, 0xff, 0x7f}; /* d = -2 */
    float out[32];
    for (int32_t i = 0; i < 32; i++) {
        b[4 + i] = (uint8_t)(int8_t)(8 * i - 128);
    }
    struct wmat w = {.type = DTYPE_Q8_1, .n = 1, .k = 32, .data = b, .row_bytes = 36};
    ref_decode(&w, 0, 0, 32, out);
    for (int32_t i = 0; i < 32; i++) {
        assert_true(out[i] == -2.0F * (float)(8 * i - 128));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_decode_q8_1_by_its_definition),
        TEST(test_decode_bits_plain),
        TEST(test_decode_bits_blocks),
        TEST(test_decode_bits_scaled),
        TEST(test_decode_bits_all_small_floats),
        TEST(test_decode_dense_bits_by_hand),
        TEST(test_decode_scaled_by_hand),
        TEST(test_decode_values_by_hand),
        TEST(test_decode_pieces_equal_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
