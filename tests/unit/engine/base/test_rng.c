/* The streams are a promise: scenario seeds of today must draw the same tomorrow, so their first
 * numbers are fixed here. Statistics are taken from fixed seeds with bounds of five standard
 * errors. */
#include "tests/support/support.h"

#include <math.h>
#include <stdlib.h>

#include "engine/base/rng.h"

enum { N = 200000 };

static void test_rng_first_numbers_never_change(void **state) {
    (void)state;
    /* computed from the papers' algorithms by another program */
    static const uint64_t want[] = {0x7aef9a2b3ca80b7a, 0xa88e3ae919ee71bf, 0x34b18b821f66d24c,
                                    0xd93d700b5115a10b};
    struct rng r;
    rng_init(&r, 42, 7);
    for (int32_t i = 0; i < ARRAY_LEN(want); i++) {
        assert_true(rng_u64(&r) == want[i]);
    }
    rng_init(&r, 42, 7);
    assert_true(rng_uniform(&r) == 0.48021853976811724);
    assert_true(rng_keyed(1, 2, 3) == 0x90efeb61c6e7f73f);
    assert_true(rng_keyed(0, 0, 0) == 0x238275bc38fcbe91);
}

static void test_rng_core_is_xoshiro256starstar(void **state) {
    (void)state;
    /* src: the authors' reference program from state 1, 2, 3, 4 */
    struct rng r = {{1, 2, 3, 4}};
    assert_true(rng_u64(&r) == 11520);
    assert_true(rng_u64(&r) == 0);
    assert_true(rng_u64(&r) == 1509978240);
    assert_true(rng_u64(&r) == 1215971899390074240);
}

static void test_rng_uniform_fills_its_interval(void **state) {
    (void)state;
    struct rng r;
    int32_t bin[100] = {0};
    double chi = 0;
    rng_init(&r, 1, 0);
    for (int32_t i = 0; i < N; i++) {
        double u = rng_uniform(&r);
        assert_true(u >= 0 && u < 1);
        bin[(int32_t)(u * 100)]++;
    }
    for (int32_t i = 0; i < 100; i++) {
        double d = bin[i] - N / 100.0;
        chi += d * d / (N / 100.0);
    }
    assert_true(fabs(chi - 99) < 5 * sqrt(2 * 99.0));
}

static void test_rng_below_is_unbiased_for_awkward_n(void **state) {
    (void)state;
    struct rng r;
    int64_t n = INT64_MAX / 4 * 3; /* a plain modulo would favour the lower third */
    int32_t low = 0;
    int32_t six[6] = {0};
    rng_init(&r, 2, 0);
    for (int32_t i = 0; i < N; i++) {
        int64_t v = rng_below(&r, n);
        assert_true(v >= 0 && v < n);
        low += v < n / 2 ? 1 : 0;
        six[rng_below(&r, 6)]++;
    }
    assert_true(fabs(low - N / 2.0) < 5 * sqrt(N / 4.0));
    for (int32_t i = 0; i < 6; i++) {
        assert_true(fabs(six[i] - N / 6.0) < 5 * sqrt(N / 6.0));
    }
    assert_int_equal(rng_below(&r, 1), 0);
}

static void test_rng_keyed_is_independent_in_every_argument(void **state) {
    (void)state;
    /* neighbouring keys differ in half of the bits, on average and in each bit */
    int32_t flips[3][64] = {{0}};
    for (uint64_t i = 0; i < 20000; i++) {
        uint64_t h = rng_keyed(i, i * 3, i * 7);
        const uint64_t near[3] = {h ^ rng_keyed(i ^ 1, i * 3, i * 7),
                                  h ^ rng_keyed(i, (i * 3) ^ 1, i * 7),
                                  h ^ rng_keyed(i, i * 3, (i * 7) ^ 1)};
        for (int32_t a = 0; a < 3; a++) {
            for (int32_t b = 0; b < 64; b++) {
                flips[a][b] += (int32_t)(near[a] >> b & 1);
            }
        }
    }
    for (int32_t a = 0; a < 3; a++) {
        for (int32_t b = 0; b < 64; b++) {
            assert_true(abs(flips[a][b] - 10000) < 5 * 71);
        }
    }
    assert_true(rng_keyed(1, 2, 3) != rng_keyed(1, 3, 2));
}

static void test_rng_streams_are_uncorrelated(void **state) {
    (void)state;
    struct rng a;
    struct rng b;
    double sum = 0;
    rng_init(&a, 9, 0);
    rng_init(&b, 9, 1);
    for (int32_t i = 0; i < N; i++) {
        sum += (rng_uniform(&a) - 0.5) * (rng_uniform(&b) - 0.5);
    }
    assert_true(fabs(sum / N) < 5.0 / 12 / sqrt(N));
}

static void test_rng_open01_never_touches_its_ends(void **state) {
    (void)state;
    assert_true(rng_open01(0) > 0);
    assert_true(rng_open01(UINT64_MAX) < 1);
    assert_true(isfinite(-log(-log(rng_open01(UINT64_MAX)))));
}

static void moments(double (*draw)(struct rng *, double), double p, double mean, double var) {
    struct rng r;
    double s = 0;
    double ss = 0;
    rng_init(&r, 3, (uint64_t)(p * 1000));
    for (int32_t i = 0; i < N; i++) {
        double x = draw(&r, p);
        s += x;
        ss += (x - mean) * (x - mean);
    }
    assert_true(fabs(s / N - mean) < 5 * sqrt(var / N));
    assert_rel(ss / N, var, 0.1);
}

static double draw_normal(struct rng *r, double p) {
    (void)p;
    return rng_normal(r);
}

static double draw_exponential(struct rng *r, double p) {
    (void)p;
    double x = rng_exponential(r);
    assert_true(x > 0);
    return x;
}

static double draw_gamma(struct rng *r, double shape) {
    double x = rng_gamma(r, shape);
    assert_true(x >= 0 && isfinite(x));
    return x;
}

static void test_rng_moments_of_the_distributions(void **state) {
    (void)state;
    moments(draw_normal, 0, 0, 1);
    moments(draw_exponential, 0, 1, 1);
    moments(draw_gamma, 0.3, 0.3, 0.3);
    moments(draw_gamma, 1, 1, 1);
    moments(draw_gamma, 4.5, 4.5, 4.5);
}

int main(void) {
    const struct CMUnitTest tests[] = {TEST(test_rng_first_numbers_never_change),
                                       TEST(test_rng_core_is_xoshiro256starstar),
                                       TEST(test_rng_uniform_fills_its_interval),
                                       TEST(test_rng_below_is_unbiased_for_awkward_n),
                                       TEST(test_rng_keyed_is_independent_in_every_argument),
                                       TEST(test_rng_streams_are_uncorrelated),
                                       TEST(test_rng_open01_never_touches_its_ends),
                                       TEST(test_rng_moments_of_the_distributions)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
