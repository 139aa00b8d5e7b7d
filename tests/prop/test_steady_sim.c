/* How often the steady window is found in series that have one, and in series that have none. */
#include "tests/support/support.h"

#include <math.h>

#include "engine/base/rng.h"
#include "reports/steady.h"

/* why: in 200 bins with rho 0.9 there are 10 independent values; no test tells that from a walk in
 * 95 of 100 cases while it refuses 95 of 100 walks, so there less is asked for. */
enum { REPS = 1000, N = 200, LONG = 400 };

/* AR(1) about 100. */
static void ar1(double *x, int32_t n, double rho, double sd, struct rng *r) {
    double z = rng_normal(r);
    for (int32_t i = 0; i < n; i++) {
        z = rho * z + sqrt(1 - rho * rho) * rng_normal(r);
        x[i] = fmax(0, 100 + sd * z);
    }
}

/* A random walk of the logarithm, steps in percent. */
static void walk(double *x, int32_t n, double step, struct rng *r) {
    double level = 0;
    for (int32_t i = 0; i < n; i++) {
        level += step / 100 * rng_normal(r);
        x[i] = 100 * exp(level);
    }
}

static void ramp(double *x, int32_t n, double rise, struct rng *r) {
    for (int32_t i = 0; i < n; i++) {
        x[i] = fmax(0, (100 + rise * i / n) * (1 + 0.1 * rng_normal(r)));
    }
}

/* Per mille of the series that pass. kind: 'a' (p = rho, q = sd), 'w' (q = step), 'r' (q = rise) */
static int32_t passed(char kind, int32_t n, double p, double q) {
    int32_t n_found = 0;
    for (uint64_t i = 0; i < REPS; i++) {
        double x[STEADY_BINS_MAX];
        struct steady s;
        struct rng r;
        rng_init(&r, i, 31);
        if (kind == 'a') {
            ar1(x, n, p, q, &r);
        } else if (kind == 'w') {
            walk(x, n, q, &r);
        } else {
            ramp(x, n, q, &r);
        }
        steady_find(x, n, &s);
        n_found += s.found ? 1 : 0;
    }
    print_message("%c %d bins, %.1f, %.1f: found in %d of %d\n", kind, n, p, q, n_found, REPS);
    return 1000 * n_found / REPS;
}

static void test_steady_find_accepts_what_is_steady(void **state) {
    (void)state;
    static const double rhos[] = {0, 0.5, 0.9};
    for (int32_t i = 0; i < ARRAY_LEN(rhos); i++) {
        assert_in_range(passed('a', STEADY_BINS_MAX, rhos[i], 10), 950, 1000);
        assert_in_range(passed('a', LONG, rhos[i], 10), 950, 1000);
        assert_in_range(passed('a', N, rhos[i], 1.5), 950, 1000);
        assert_in_range(passed('a', N, rhos[i], 10), rhos[i] > 0.8 ? 800 : 950, 1000);
    }
}

static void test_steady_find_refuses_walks_and_ramps(void **state) {
    (void)state;
    static const double steps[] = {3, 6, 12};
    static const double rises[] = {30, 60, 120};
    for (int32_t i = 0; i < ARRAY_LEN(steps); i++) {
        assert_in_range(passed('w', N, 0, steps[i]), 0, 50);
        assert_in_range(passed('w', 120, 0, steps[i]), 0, 50);
        assert_in_range(passed('w', LONG, 0, steps[i]), 0, 50);
        assert_in_range(passed('r', N, 0, rises[i]), 0, 50);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_steady_find_accepts_what_is_steady),
        TEST(test_steady_find_refuses_walks_and_ramps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
