/* Blocked and threaded factorizations against what they must multiply to. LABELS: threads */
#include "tests/support/support.h"

#include <math.h>
#include <string.h>

#include "engine/base/rng.h"
#include "engine/quant/linalg.h"

static const int32_t sizes[] = {1, 2, 15, 16, 17, 63, 64, 65, 129, 150};

/* a = m m^T + k/4 on the diagonal, m random: well conditioned, positive definite. */
static double *spd(int32_t k) {
    struct rng r;
    double *a = mem_array(MEM_TEST, (int64_t)k * k, 8);
    double *m = mem_array(MEM_TEST, (int64_t)k * k, 8);
    assert_true(a && m);
    rng_init(&r, 4, (uint64_t)k);
    for (int32_t i = 0; i < k * k; i++) {
        m[i] = rng_normal(&r);
    }
    for (int32_t i = 0; i < k; i++) {
        for (int32_t j = 0; j < k; j++) {
            double s = i == j ? k / 4.0 : 0;
            for (int32_t c = 0; c < k; c++) {
                s += m[i * k + c] * m[j * k + c];
            }
            a[i * k + j] = s;
        }
    }
    mem_free(m);
    return a;
}

static double *copy(const double *a, int32_t k) {
    double *b = mem_array(MEM_TEST, (int64_t)k * k, 8);
    assert_non_null(b);
    memcpy(b, a, (size_t)k * (size_t)k * 8);
    return b;
}

static void test_linalg_cholesky_multiplies_back(void **state) {
    (void)state;
    for (int32_t t = 0; t < ARRAY_LEN(sizes); t++) {
        int32_t k = sizes[t];
        double *a = spd(k);
        double *l = copy(a, k);
        double *l2 = copy(a, k);
        for (int32_t i = 0; i < k; i++) {
            for (int32_t j = i + 1; j < k; j++) {
                l[i * k + j] = l2[i * k + j] = 1e99; /* not read, left as it was */
            }
        }
        assert_ok(linalg_cholesky(l, k, 1));
        assert_ok(linalg_cholesky(l2, k, 2));
        assert_memory_equal(l, l2, (size_t)k * (size_t)k * 8);
        for (int32_t i = 0; i < k; i++) {
            for (int32_t j = 0; j < k; j++) {
                double s = 0;
                for (int32_t c = 0; c <= i && c <= j; c++) {
                    s += l[i * k + c] * l[j * k + c];
                }
                assert_true(fabs(s - a[i * k + j]) <= 1e-13 * k * a[i * k + i]);
                assert_true(j <= i || l[i * k + j] == 1e99);
            }
        }
        mem_free(a);
        mem_free(l);
        mem_free(l2);
    }
}

static void test_linalg_inverse_of_a_triangle(void **state) {
    (void)state;
    for (int32_t t = 0; t < ARRAY_LEN(sizes); t++) {
        int32_t k = sizes[t];
        double *l = spd(k);
        assert_ok(linalg_cholesky(l, k, 2));
        double *x = copy(l, k);
        double *x2 = copy(l, k);
        assert_ok(linalg_invert_lower(x, k, 1));
        assert_ok(linalg_invert_lower(x2, k, 2));
        assert_memory_equal(x, x2, (size_t)k * (size_t)k * 8);
        for (int32_t i = 0; i < k; i++) {
            for (int32_t j = 0; j < k; j++) {
                double s = 0;
                for (int32_t c = j; c <= i; c++) {
                    s += l[i * k + c] * x[c * k + j];
                }
                assert_true(fabs(s - (i == j ? 1 : 0)) <= 1e-13 * k);
                assert_true(j <= i || x[i * k + j] == 0);
            }
        }
        mem_free(l);
        mem_free(x);
        mem_free(x2);
    }
}

static void test_linalg_inverse_factor_of_a_hessian(void **state) {
    (void)state;
    for (int32_t t = 0; t < ARRAY_LEN(sizes); t++) {
        int32_t k = sizes[t];
        double *a = spd(k);
        double *work = mem_array(MEM_TEST, (int64_t)k * k, 8);
        float *h = mem_array(MEM_TEST, (int64_t)k * k, 4);
        float *u = mem_array(MEM_TEST, (int64_t)k * k, 4);
        for (int32_t i = 0; i < k * k; i++) {
            h[i] = (float)a[i];
        }
        assert_ok(linalg_inverse_factor(h, k, work, u, 2));
        /* u^T u h = 1, so u h = u^-T is lower triangular with diagonal 1 / u[i,i] */
        for (int32_t i = 0; i < k; i++) {
            for (int32_t j = i; j < k; j++) {
                double s = 0;
                double size = 0;
                for (int32_t c = i; c < k; c++) {
                    s += (double)u[i * k + c] * (double)h[c * k + j];
                    size += fabs((double)u[i * k + c] * (double)h[c * k + j]);
                }
                double want = i == j ? 1 / (double)u[i * k + i] : 0;
                assert_true(fabs(s - want) <= 1e-6 * size);
            }
            for (int32_t j = 0; j < i; j++) {
                assert_true(u[i * k + j] == 0);
            }
        }
        mem_free(a);
        mem_free(work);
        mem_free(h);
        mem_free(u);
    }
}

static void test_linalg_not_positive_definite(void **state) {
    (void)state;
    double a[4] = {1, 2, 2, 1};
    double z[1] = {0};
    double nan[1] = {(double)NAN};
    double inf[1] = {(double)INFINITY};
    assert_int_equal(linalg_cholesky(a, 2, 1), ERR_NUMERIC);
    assert_int_equal(linalg_cholesky(z, 1, 1), ERR_NUMERIC);
    assert_int_equal(linalg_cholesky(nan, 1, 1), ERR_NUMERIC);
    assert_int_equal(linalg_cholesky(inf, 1, 1), ERR_NUMERIC);
    double *big = spd(150);
    big[149 * 150 + 149] = -1; /* in the last block */
    assert_int_equal(linalg_cholesky(big, 150, 2), ERR_NUMERIC);
    mem_free(big);
}

static int factor_once(void *ctx) {
    (void)ctx;
    const float h[4] = {2, 1, 1, 2};
    double work[4];
    float u[4];
    return linalg_inverse_factor(h, 2, work, u, 1);
}

static void test_linalg_without_memory(void **state) {
    (void)state;
    static const int codes[] = {ERR_NOMEM, 0};
    test_fault_loop(FAULT_ALLOC, factor_once, NULL, codes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_linalg_cholesky_multiplies_back), TEST(test_linalg_inverse_of_a_triangle),
        TEST(test_linalg_inverse_factor_of_a_hessian), TEST(test_linalg_not_positive_definite),
        TEST(test_linalg_without_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
