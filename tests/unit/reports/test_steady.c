/* The steady window: found on ramps and plateaus, refused where there is none. */
#include "tests/support/support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/rng.h"
#include "reports/steady.h"

enum { N = 120, REPS = 200 };

/* 15 bins of ramp, a plateau of 100, 10 bins of fall; 10 % noise. */
static void shape(double *x, const char *kind, uint64_t seed) {
    struct rng r;
    double walk = 100;
    rng_init(&r, seed, 3);
    for (int32_t i = 0; i < N; i++) {
        double level = 100;
        walk += 12 * rng_normal(&r);
        if (kind[0] == 'p') {
            level *= fmin(1, fmin((i + 1) / 15.0, (N - i) / 10.0));
        } else if (kind[0] == 'd') {
            level += i * 1.0;
        } else if (kind[0] == 'j') {
            level = i < N / 2 ? 100 : 60;
        } else if (kind[0] == 'w') {
            level = fabs(walk);
        }
        x[i] = fmax(0, level * (1 + 0.1 * rng_normal(&r)));
    }
}

static int32_t n_found(const char *kind, int32_t slack) {
    int32_t n = 0;
    for (uint64_t i = 0; i < REPS; i++) {
        double x[N];
        struct steady s;
        shape(x, kind, i);
        steady_find(x, N, &s);
        bool near = slack == 0 || (abs(s.from - 14) <= slack && abs(s.to - (N - 9)) <= slack);
        n += s.found && near ? 1 : 0;
    }
    return n;
}

static void test_steady_find_plateau_and_its_ends(void **state) {
    (void)state;
    int32_t n = n_found("plateau", 8);
    print_message("plateau found within 8 bins: %d of %d\n", n, REPS);
    assert_in_range(n, REPS * 95 / 100, REPS);
    assert_in_range(n_found("level", 0), REPS * 95 / 100, REPS);
}

static void test_steady_find_refuses_drift_and_jump(void **state) {
    (void)state;
    assert_in_range(n_found("drift", 0), 0, REPS * 5 / 100);
    assert_in_range(n_found("jump", 0), 0, REPS * 5 / 100);
    int32_t n = n_found("walk", 0);
    print_message("random walk accepted: %d of %d\n", n, REPS);
    assert_in_range(n, 0, REPS * 12 / 100);
}

static void test_steady_find_refuses_too_little(void **state) {
    (void)state;
    double x[N] = {1, 2, 3};
    struct steady s;
    steady_find(x, 3, &s);
    assert_false(s.found);
    assert_non_null(strstr(s.reason, "3 time bins"));
    double zero[N] = {0};
    steady_find(zero, N, &s);
    assert_false(s.found);
    assert_string_equal(s.reason, "nothing was produced");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_steady_find_plateau_and_its_ends),
        TEST(test_steady_find_refuses_drift_and_jump),
        TEST(test_steady_find_refuses_too_little),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
