/* Rotary tables against the papers' formulas in double precision, written anew here. */
#include "tests/support/support.h"

#include <math.h>

#include "engine/model/rope.h"

enum { D = 64, N_POS = 300 };
static const double PI = 3.14159265358979323846;

static struct rope_cfg base(void) {
    struct model_cfg c;
    model_cfg_init(&c);
    return c.rope;
}

static double plain(const struct rope_cfg *c, int32_t i) {
    return pow(c->theta, -2.0 * i / D);
}

static void expect_frequencies(const struct rope_cfg *c, const double *want, double factor) {
    float f[D / 2];
    assert_rel((double)rope_frequencies(c, D, f), factor, 1e-6);
    for (int32_t i = 0; i < D / 2; i++) {
        assert_rel((double)f[i], want[i], 1e-6);
    }
}

static void test_rope_default(void **state) {
    (void)state;
    static const double thetas[] = {10000, 500000, 1e6};
    for (int32_t t = 0; t < ARRAY_LEN(thetas); t++) {
        struct rope_cfg c = base();
        double want[D / 2];
        c.theta = thetas[t];
        for (int32_t i = 0; i < D / 2; i++) {
            want[i] = plain(&c, i);
        }
        expect_frequencies(&c, want, 1);
    }
}

static void test_rope_linear_divides(void **state) {
    (void)state;
    struct rope_cfg c = base();
    double want[D / 2];
    c.type = ROPE_LINEAR;
    c.factor = 4;
    for (int32_t i = 0; i < D / 2; i++) {
        want[i] = plain(&c, i) / 4;
    }
    expect_frequencies(&c, want, 1);
}

static void test_rope_llama3_keeps_blends_and_stretches(void **state) {
    (void)state;
    struct rope_cfg c = base();
    double want[D / 2];
    int32_t n[3] = {0};
    c.type = ROPE_LLAMA3;
    c.theta = 500000;
    c.factor = 8;
    c.low_freq_factor = 1;
    c.high_freq_factor = 4;
    c.original_ctx = 8192;
    for (int32_t i = 0; i < D / 2; i++) {
        double f = plain(&c, i);
        double turns = 8192 * f / (2 * PI); /* over the context of the pre-training */
        double keep = fmin(fmax((turns - 1) / (4 - 1), 0), 1);
        want[i] = f * (keep + (1 - keep) / 8);
        n[keep == 1 ? 0 : keep > 0 ? 1 : 2]++;
    }
    assert_true(n[0] > 0 && n[1] > 0 && n[2] > 0);
    expect_frequencies(&c, want, 1);
}

static void test_rope_yarn_ramps_between_two_dimensions(void **state) {
    (void)state;
    struct rope_cfg c = base();
    double want[D / 2];
    c.type = ROPE_YARN;
    c.theta = 1e6;
    c.factor = 4;
    c.original_ctx = 32768;
    double low = floor(D * log(32768 / (32 * 2 * PI)) / (2 * log(1e6)));
    double high = ceil(D * log(32768 / (1 * 2 * PI)) / (2 * log(1e6)));
    assert_true(low > 0 && high < D / 2 - 1);
    for (int32_t i = 0; i < D / 2; i++) {
        double stretch = fmin(fmax((i - low) / (high - low), 0), 1);
        want[i] = plain(&c, i) * ((1 - stretch) + stretch / 4);
    }
    expect_frequencies(&c, want, 0.1 * log(4) + 1);
    c.attention_factor = 1.25;
    expect_frequencies(&c, want, 1.25);
}

static void test_rope_file_factors_divide(void **state) {
    (void)state;
    struct rope_cfg c = base();
    float factor[D / 2];
    double want[D / 2];
    for (int32_t i = 0; i < D / 2; i++) {
        factor[i] = 1 + (float)i / 8;
        want[i] = plain(&c, i) / (double)factor[i];
    }
    c.freq_factor = factor;
    expect_frequencies(&c, want, 1);
}

static void test_rope_table_is_cosines_then_sines(void **state) {
    (void)state;
    struct rope_cfg c = base();
    float f[D / 2];
    float factor;
    float *table = mem_array(MEM_TEST, (int64_t)N_POS * D, 4);
    assert_non_null(table);
    c.type = ROPE_YARN;
    c.factor = 4;
    c.original_ctx = 128;
    factor = rope_frequencies(&c, D, f);
    rope_table(&c, D, N_POS, table);
    for (int32_t p = 0; p < N_POS; p++) {
        for (int32_t i = 0; i < D / 2; i++) {
            /* the angle itself is rounded to f32, half a unit in its last place; then the result */
            double angle = p * (double)f[i];
            double tol = (double)factor * (angle * 0x1p-24 + 2e-7);
            double cos_got = (double)table[p * D + i];
            double sin_got = (double)table[p * D + D / 2 + i];
            assert_true(fabs(cos_got - cos(angle) * (double)factor) <= tol);
            assert_true(fabs(sin_got - sin(angle) * (double)factor) <= tol);
        }
    }
    mem_free(table);
}

int main(void) {
    const struct CMUnitTest tests[] = {TEST(test_rope_default),
                                       TEST(test_rope_linear_divides),
                                       TEST(test_rope_llama3_keeps_blends_and_stretches),
                                       TEST(test_rope_yarn_ramps_between_two_dimensions),
                                       TEST(test_rope_file_factors_divide),
                                       TEST(test_rope_table_is_cosines_then_sines)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
