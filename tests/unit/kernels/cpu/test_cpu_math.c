/* The vector exponential of every variant: error in units of the last place, and special values. */
#include "tests/support/support.h"

#include <math.h>
#include <string.h>

#include "kernels/cpu/cpu_isa.h"

enum { N = 4096 };

/* Distance in units of the last place of the exact value, at least that of the least normal. */
static double ulps(float got, double want) {
    int exp = 0;
    frexp(want, &exp);
    exp = exp < -125 ? -125 : exp;
    return fabs((double)got - want) / ldexp(1, exp - 24);
}

static double worst_ulps(const struct cpu_kern *kern, double from, double to) {
    static float x[N];
    static float y[N];
    double worst = 0;
    for (int32_t i = 0; i < N; i++) {
        x[i] = (float)(from + (to - from) * i / (N - 1));
    }
    kern->exp(y, x, N);
    for (int32_t i = 0; i < N; i++) {
        worst = fmax(worst, ulps(y[i], exp((double)x[i])));
    }
    return worst;
}

/* Below 1: half an ulp for the last sum, a quarter each for r and the polynomial, 0.1 for the
 * truncation; without fused multiply-add one more quarter for the square. */
static void test_cpu_math_exp_is_accurate(void **state) {
    (void)state;
    for (int32_t v = 0; cpu_isa_at(v); v++) {
        const struct cpu_kern *kern = cpu_isa_at(v);
        double limit = kern->n_lane == 4 ? 1.5 : 1.25; /* without and with fused multiply-add */
        for (int32_t from = -104; from < 88; from++) {
            double worst = worst_ulps(kern, from, from + 0.7);
            if (!(worst <= limit)) {
                print_error("%s: exp near %d is off by %.2f ulp\n", kern->name, from, worst);
                fail();
            }
        }
    }
}

static void test_cpu_math_exp_of_special_values(void **state) {
    (void)state;
    const float ones[2] = {1, 1};
    const float x[7] = {0, -0.0F, INFINITY, -INFINITY, NAN, 1000, -1000};
    for (int32_t v = 0; cpu_isa_at(v); v++) {
        float y[7];
        cpu_isa_at(v)->exp(y, x, 7);
        assert_close(y, ones, 2, 0);
        assert_true(isinf(y[2]) && y[2] > 0);
        assert_close(y + 3, (const float[]){0}, 1, 0);
        assert_true(isnan(y[4]));
        assert_true(isinf(y[5]) && y[5] > 0);
        assert_close(y + 6, (const float[]){0}, 1, 0);
    }
}

/* A value has the same bits in every lane and in a partial vector. */
static void test_cpu_math_exp_same_in_every_lane(void **state) {
    (void)state;
    for (int32_t v = 0; cpu_isa_at(v); v++) {
        float x[33];
        float y[33];
        for (int32_t i = 0; i < 33; i++) {
            x[i] = -3.7F;
        }
        cpu_isa_at(v)->exp(y, x, 33);
        for (int32_t i = 1; i < 33; i++) {
            assert_memory_equal(&y[i], &y[0], sizeof(float));
        }
    }
}

static void test_cpu_math_f16_equals_scalar(void **state) {
    (void)state;
    for (int32_t v = 0; cpu_isa_at(v); v++) {
        const struct cpu_kern *kern = cpu_isa_at(v);
        for (int32_t base = 0; base < 65536; base += N) {
            static uint16_t h[N];
            static uint16_t back[N];
            static float f[N];
            for (int32_t i = 0; i < N; i++) {
                h[i] = (uint16_t)(base + i);
            }
            kern->from_f16(f, h, N - 1);
            kern->to_f16(back, f, N - 1);
            for (int32_t i = 0; i < N - 1; i++) {
                float want = f16_to_f32(h[i]);
                assert_true(isnan(want) ? isnan(f[i]) : memcmp(&f[i], &want, 4) == 0);
                assert_true(isnan(want) ? isnan(f16_to_f32(back[i])) : back[i] == h[i]);
            }
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_cpu_math_exp_is_accurate),
        TEST(test_cpu_math_exp_of_special_values),
        TEST(test_cpu_math_exp_same_in_every_lane),
        TEST(test_cpu_math_f16_equals_scalar),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
