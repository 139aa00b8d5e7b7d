/* Decoders: every variant gives the bits of ref_decode, for random blocks and for scales that are
 * infinite, NaN, subnormal or a negative zero; ref_decode itself gives values worked out by hand.
 */
#include "tests/support/support.h"

#include <math.h>
#include <string.h>

#include "engine/base/rng.h"
#include "kernels/backend.h"
#include "kernels/cpu/cpu_isa.h"

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

static void test_decode_bits_w4(void **state) {
    (void)state;
    static const int32_t groups[] = {8, 32, 64, 96, K};
    static const enum dtype types[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16};
    static uint8_t data[ROWS * K / 2];
    static uint8_t scale[ROWS * K * 4];
    static int8_t zero[ROWS * K];
    struct rng r;
    rng_init(&r, 12, 0);
    fill(&r, data, sizeof(data));
    for (int32_t i = 0; i < ARRAY_LEN(groups) * ARRAY_LEN(types) * 2; i++) {
        struct wmat w = {.type = DTYPE_W4, .n = ROWS, .k = K, .data = data, .row_bytes = K / 2};
        w.group = groups[i / 2 / ARRAY_LEN(types)];
        w.scale = scale;
        w.scale_type = types[i / 2 % ARRAY_LEN(types)];
        w.zero = i % 2 ? zero : NULL;
        fill(&r, scale, sizeof(scale));
        for (int32_t j = 0; j < ARRAY_LEN(zero); j++) {
            zero[j] = (int8_t)(rng_below(&r, 256) - 128);
        }
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

/* A piece from the middle of a row equals that part of the whole row. */
static void test_decode_pieces_equal_whole(void **state) {
    (void)state;
    static uint8_t data[K * 4];
    static const enum dtype types[] = {DTYPE_F32, DTYPE_F16, DTYPE_Q4_0, DTYPE_Q4_1, DTYPE_Q8_0};
    struct rng r;
    float whole[K];
    float part[64];
    rng_init(&r, 13, 0);
    for (int32_t i = 0; i < ARRAY_LEN(types); i++) {
        fill(&r, data, sizeof(data));
        struct wmat w = {.type = types[i], .n = 1, .k = K, .data = data};
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
        TEST(test_decode_bits_w4),
        TEST(test_decode_values_by_hand),
        TEST(test_decode_pieces_equal_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
