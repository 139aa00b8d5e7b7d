/* Data types: row sizes, and the scalar conversions over all numbers of 16 and of 8 bits. */
#include "tests/support/support.h"

#include <math.h>
#include <string.h>

#include "kernels/dtype.h"

/* The value of a binary16 by its definition, without the code under test. */
static double half_value(uint32_t h) {
    int exp = (int)(h >> 10 & 31);
    double man = h & 1023;
    double mag = exp == 0 ? ldexp(man, -24) : ldexp(1024 + man, exp - 25);
    if (exp == 31) {
        mag = man > 0 ? (double)NAN : (double)INFINITY;
    }
    return h & 0x8000 ? -mag : mag;
}

static bool same(float got, double want) {
    return isnan(want) ? isnan(got) : (double)got == want && !signbit(got) == !signbit(want);
}

static void test_dtype_f16_widens_all(void **state) {
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        assert_true(same(f16_to_f32((uint16_t)h), half_value(h)));
    }
}

static void test_dtype_f16_round_trips_all(void **state) {
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        uint16_t back = f32_to_f16(f16_to_f32((uint16_t)h));
        if (isnan(half_value(h))) {
            assert_true(isnan(half_value(back)));
        } else {
            assert_int_equal(back, h);
        }
    }
}

/* Between each pair of neighbours: the midpoint goes to the even one, its neighbours to the near.
 */
static void test_dtype_f16_rounds_half_to_even(void **state) {
    (void)state;
    for (uint32_t h = 0; h < 0x7bff; h++) {
        float mid = (float)((half_value(h) + half_value(h + 1)) / 2);
        uint32_t even = h % 2 == 0 ? h : h + 1;
        assert_int_equal(f32_to_f16(mid), even);
        assert_int_equal(f32_to_f16(-mid), even | 0x8000);
        assert_int_equal(f32_to_f16(nextafterf(mid, 0)), h);
        assert_int_equal(f32_to_f16(nextafterf(mid, INFINITY)), h + 1);
    }
    assert_int_equal(f32_to_f16(65519.99F), 0x7bff);
    assert_int_equal(f32_to_f16(65520), 0x7c00);
    assert_int_equal(f32_to_f16(-3e38F), 0xfc00);
    assert_int_equal(f32_to_f16(1e-30F), 0);
}

static void test_dtype_bf16_all(void **state) {
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        float f = bf16_to_f32((uint16_t)h);
        uint32_t bits;
        memcpy(&bits, &f, sizeof(bits));
        assert_int_equal(bits, h << 16);
        uint16_t back = f32_to_bf16(f);
        assert_true(isnan(f) ? isnan(bf16_to_f32(back)) : back == h);
    }
}

static void test_dtype_bf16_rounds_half_to_even(void **state) {
    (void)state;
    for (uint32_t h = 0; h < 0x7f80; h++) {
        uint32_t bits = h << 16 | 0x8000;
        float mid;
        memcpy(&mid, &bits, sizeof(mid));
        assert_int_equal(f32_to_bf16(mid), h % 2 == 0 ? h : h + 1);
        assert_int_equal(f32_to_bf16(nextafterf(mid, 0)), h);
        assert_int_equal(f32_to_bf16(nextafterf(mid, INFINITY)), h + 1);
    }
}

/* A small float by its definition: exponent bits, mantissa bits. in: magnitude alone */
static double small_value(uint32_t mag, int exp_bits, int man_bits) {
    int bias = (1 << (exp_bits - 1)) - 1;
    int exp = (int)(mag >> man_bits);
    double man = ldexp((double)(mag & ((1U << man_bits) - 1)), -man_bits);
    return exp == 0 ? ldexp(man, 1 - bias) : ldexp(1 + man, exp - bias);
}

static void test_dtype_small_floats_widen_all(void **state) {
    (void)state;
    for (uint32_t c = 0; c < 256; c++) {
        uint32_t mag = c & 127;
        double sign = c & 128 ? -1 : 1;
        double e4m3 = mag == 127 ? (double)NAN : small_value(mag, 4, 3);
        double e5m2 = mag > 0x7c ? (double)NAN : small_value(mag, 5, 2);
        e5m2 = mag == 0x7c ? (double)INFINITY : e5m2;
        double e2m1 = small_value(c & 7, 2, 1);
        assert_true(same(f8_e4m3_to_f32((uint8_t)c), sign * e4m3));
        assert_true(same(f8_e5m2_to_f32((uint8_t)c), sign * e5m2));
        assert_true(same(f4_to_f32((uint8_t)c), c & 8 ? -e2m1 : e2m1));
        double e8m0 = c == 255 ? (double)NAN : ldexp(1, (int)c - 127);
        assert_true(same(f8_e8m0_to_f32((uint8_t)c), e8m0));
    }
}

typedef uint8_t narrow_fn(float f);

/* Numbers 0..top-1 come back; midpoints go to the even neighbour, all else to the near one; above
 * the largest it saturates. sign: the sign's bit */
static void check_narrow(narrow_fn *narrow, int exp_bits, int man_bits, uint32_t top) {
    uint32_t sign = 1U << (exp_bits + man_bits);
    for (uint32_t c = 0; c < top; c++) {
        float low = (float)small_value(c, exp_bits, man_bits);
        float mid =
            (float)((small_value(c, exp_bits, man_bits) + small_value(c + 1, exp_bits, man_bits)) /
                    2);
        uint32_t even = c % 2 == 0 ? c : c + 1;
        assert_int_equal(narrow(low), c);
        assert_int_equal(narrow(-low), c | sign);
        assert_int_equal(narrow(mid), even);
        assert_int_equal(narrow(-mid), even | sign);
        assert_int_equal(narrow(nextafterf(mid, 0)), c);
        assert_int_equal(narrow(nextafterf(mid, INFINITY)), c + 1);
    }
    float largest = (float)small_value(top, exp_bits, man_bits);
    assert_int_equal(narrow(largest), top);
    assert_int_equal(narrow(nextafterf(largest, INFINITY)), top);
    assert_int_equal(narrow(largest * 1.25F), top);
    assert_int_equal(narrow(-INFINITY), top | sign);
    assert_int_equal(narrow(1e-44F), 0);
}

static void test_dtype_small_floats_round_and_saturate(void **state) {
    (void)state;
    check_narrow(f32_to_f8_e4m3, 4, 3, 0x7e);
    check_narrow(f32_to_f4, 2, 1, 7);
    assert_int_equal(f32_to_f8_e4m3(NAN) & 0x7f, 0x7f);
    assert_int_equal(f32_to_f4(NAN) & 7, 7);
}

static void test_dtype_row_bytes_of_formats(void **state) {
    (void)state;
    assert_int_equal(dtype_row_bytes(DTYPE_F32, 3), 12);
    assert_int_equal(dtype_row_bytes(DTYPE_BF16, 0), 0);
    assert_int_equal(dtype_row_bytes(DTYPE_Q4_0, 64), 36);
    assert_int_equal(dtype_row_bytes(DTYPE_Q4_1, 576), 360);
    assert_int_equal(dtype_row_bytes(DTYPE_Q8_0, 576), 612);
    assert_int_equal(dtype_row_bytes(DTYPE_W4, 12), 8);
    assert_int_equal(dtype_row_bytes(DTYPE_W3, 33), 16);
    assert_int_equal(dtype_row_bytes(DTYPE_F4, 6), 3);
    assert_int_equal(dtype_row_bytes(DTYPE_F4, 7), -1);
    assert_int_equal(dtype_row_bytes(DTYPE_Q4_0, 33), -1);
    assert_int_equal(dtype_row_bytes(DTYPE_F64, -1), -1);
    assert_int_equal(dtype_row_bytes(DTYPE_F64, INT64_MAX), -1);
}

static void test_dtype_info_names_all(void **state) {
    (void)state;
    for (int32_t t = 0; t < DTYPE_N; t++) {
        const struct dtype_info *d = dtype_info((enum dtype)t);
        assert_non_null(d->name);
        assert_true(d->block >= 1 && d->block_bytes >= 1);
    }
    assert_string_equal(dtype_info(DTYPE_Q4_1)->name, "Q4_1");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_dtype_f16_widens_all),
        TEST(test_dtype_f16_round_trips_all),
        TEST(test_dtype_f16_rounds_half_to_even),
        TEST(test_dtype_bf16_all),
        TEST(test_dtype_bf16_rounds_half_to_even),
        TEST(test_dtype_row_bytes_of_formats),
        TEST(test_dtype_info_names_all),
        TEST(test_dtype_small_floats_widen_all),
        TEST(test_dtype_small_floats_round_and_saturate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
