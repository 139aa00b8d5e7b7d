/* Scale, rounding and packing of a group, as compressed-tensors defines them. */
#include "tests/support/support.h"

#include <float.h>
#include <math.h>

#include "engine/base/rng.h"
#include "engine/quant/grid.h"

static struct grid_opts opts(int32_t group) {
    return (struct grid_opts){.bits = 4, .group = group, .scale_type = DTYPE_F32};
}

static void test_grid_packs_the_known_word(void **state) {
    (void)state;
    const int8_t codes[2][10] = {{-8, -1, 0, 7, 1, 2, 3, 4, 5, -3}};
    uint32_t words[4] = {1, 1, 1, 1};
    grid_pack4(&codes[0][0], 2, 10, words);
    assert_int_equal(words[0], 0xcba9f870);
    assert_int_equal(words[1], 0x0000005d); /* the rest of a row's last word stays zero */
    assert_int_equal(words[2], 0x88888888);
    assert_int_equal(words[3], 0x00000088);
}

static void test_grid_codes_round_half_to_even_and_clamp(void **state) {
    (void)state;
    const struct grid_opts o = opts(8);
    static const struct {
        float w;
        int32_t code;
    } rows[] = {{0.5f, 0},   {1.5f, 2},  {2.5f, 2},  {-0.5f, 0}, {-1.5f, -2},
                {-2.5f, -2}, {7.4f, 7},  {7.5f, 7},  {99, 7},    {-8.5f, -8},
                {-99, -8},   {3.49f, 3}, {3.51f, 4}, {-7.5f, -8}};
    for (int32_t i = 0; i < ARRAY_LEN(rows); i++) {
        assert_int_equal(grid_code(&o, rows[i].w, 1, 0), rows[i].code);
        assert_int_equal(grid_code(&o, rows[i].w / 4, 0.25f, 0), rows[i].code);
    }
    assert_true(grid_value(-8, 0.5f, 0) == -4 && grid_value(3, 0.5f, -2) == 2.5f);
}

static void test_grid_symmetric_scale_is_the_largest_over_seven_and_a_half(void **state) {
    (void)state;
    const struct grid_opts o = opts(4);
    const float w[2][8] = {{1, -3, 2, 0.5f, 0, 0, 0, 0}, {15, 1, 1, 1, -7.5f, 7.25f, 0, 0}};
    float s[4];
    int8_t codes[16];
    grid_scales(&o, &w[0][0], 2, 8, NULL, s, NULL);
    const float want[4] = {3 / 7.5f, FLT_EPSILON, 2, 1};
    assert_close(s, want, 4, 0);
    grid_round(&o, &w[0][0], 2, 8, s, NULL, codes);
    const int8_t expect[16] = {2, -8, 5, 1, 0, 0, 0, 0, 7, 0, 0, 0, -8, 7, 0, 0};
    assert_memory_equal(codes, expect, 16);
}

static void test_grid_scales_are_rounded_to_their_type(void **state) {
    (void)state;
    struct grid_opts o = opts(2);
    const float w[4] = {1, -0.3f, 0, 0};
    float s[2];
    o.scale_type = DTYPE_BF16;
    grid_scales(&o, w, 1, 4, NULL, s, NULL);
    assert_true(s[0] == bf16_to_f32(f32_to_bf16(1 / 7.5f)) && s[0] != 1 / 7.5f);
    assert_true(s[1] == 0.0078125f); /* the type's epsilon, so that zero stays zero */
    o.scale_type = DTYPE_F16;
    grid_scales(&o, w, 1, 4, NULL, s, NULL);
    assert_true(s[0] == f16_to_f32(f32_to_f16(1 / 7.5f)) && s[1] == 0x1p-10f);
    const float tiny[2] = {1e-9f, -1e-9f}; /* rounds to no F16: takes epsilon as well */
    grid_scales(&o, tiny, 1, 2, NULL, s, NULL);
    assert_true(s[0] == 0x1p-10f && grid_code(&o, tiny[0], s[0], 0) == 0);
}

static void test_grid_asymmetric_covers_both_ends(void **state) {
    (void)state;
    struct grid_opts o = opts(4);
    const float w[12] = {-1, 2, 0.5f, 0, 3, 1, 2, 3, -15, -3, -1, -2};
    float s[3];
    int8_t z[3];
    int8_t codes[12];
    o.asymmetric = true;
    grid_scales(&o, w, 1, 12, NULL, s, z);
    assert_true(s[0] == 3 / 15.0f && s[1] == 3 / 15.0f && s[2] == 1);
    assert_true(z[0] == -3 && z[1] == -8 && z[2] == 7);
    grid_round(&o, w, 1, 12, s, z, codes);
    assert_true(codes[0] == -8 && codes[1] == 7 && codes[3] == -3);
    for (int32_t i = 0; i < 12; i++) {
        float back = grid_value(codes[i], s[i / 4], z[i / 4]);
        assert_true(fabsf(back - w[i]) <= s[i / 4] / 2 * 1.0001f);
    }
}

/* sum of column[i] * (value - w)^2 over one row on the scales s, z. */
static double error_on(const struct grid_opts *o,
                       const float *w,
                       int32_t k,
                       const float *column,
                       const float *s,
                       const int8_t *z) {
    double sum = 0;
    for (int32_t i = 0; i < k; i++) {
        int32_t g = i / o->group;
        int32_t zero = o->asymmetric ? z[g] : 0;
        float d = grid_value(grid_code(o, w[i], s[g], zero), s[g], zero) - w[i];
        sum += (double)d * (double)d * (column ? (double)column[i] : 1);
    }
    return sum;
}

static void test_grid_least_error_shrinks_where_it_pays(void **state) {
    (void)state;
    enum { K = 192, G = 24 };
    static const enum dtype types[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16};
    float w[K];
    float column[K];
    struct rng r;
    rng_init(&r, 12, 0);
    for (int32_t i = 0; i < K; i++) {
        float x = (float)rng_normal(&r);
        w[i] = x * x * x; /* long tails */
        column[i] = (float)rng_exponential(&r);
    }
    for (int32_t way = 0; way < 12; way++) {
        struct grid_opts o = opts(G);
        const float *c = way % 2 ? column : NULL;
        float s[2][K / G];
        int8_t z[2][K / G];
        o.asymmetric = way / 2 % 2 == 1;
        o.scale_type = types[way / 4];
        grid_scales(&o, w, 1, K, c, s[0], z[0]);
        o.observer = GRID_MSE;
        grid_scales(&o, w, 1, K, c, s[1], z[1]);
        int32_t n_less = 0;
        for (int32_t g = 0; g < K / G; g++) {
            const float *cg = c ? c + g * G : NULL;
            double before = error_on(&o, w + g * G, G, cg, &s[0][g], &z[0][g]);
            double after = error_on(&o, w + g * G, G, cg, &s[1][g], &z[1][g]);
            assert_true(after <= before * (1 + 1e-5));
            assert_true(s[1][g] <= s[0][g] && s[1][g] >= 0.59f * s[0][g]);
            n_less += after < 0.95 * before ? 1 : 0;
        }
        assert_true(n_less > 0);
    }
}

static void test_grid_least_error_of_nothing_is_epsilon(void **state) {
    (void)state;
    struct grid_opts o = opts(4);
    const float w[8] = {0, 0, 0, 0, 1e-40f, -1e-40f, 0, 0};
    float s[2];
    o.observer = GRID_MSE;
    grid_scales(&o, w, 1, 8, NULL, s, NULL);
    assert_true(s[0] == FLT_EPSILON && isfinite(s[1]) && s[1] > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_grid_packs_the_known_word),
        TEST(test_grid_codes_round_half_to_even_and_clamp),
        TEST(test_grid_symmetric_scale_is_the_largest_over_seven_and_a_half),
        TEST(test_grid_scales_are_rounded_to_their_type),
        TEST(test_grid_asymmetric_covers_both_ends),
        TEST(test_grid_least_error_shrinks_where_it_pays),
        TEST(test_grid_least_error_of_nothing_is_epsilon)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
