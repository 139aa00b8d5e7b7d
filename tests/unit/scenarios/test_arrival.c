/* Arrival processes: distribution of gaps and counts, absolute times, seeds, the closed loop. */
#include "tests/support/support.h"

#include <math.h>
#include <stdlib.h>

#include "scenarios/arrival.h"

enum { N = 4000 };

static void gaps_of(enum arrival_kind kind, double cv, uint64_t seed, double gap[N]) {
    struct arrival a;
    int64_t last = 0;
    assert_ok(arrival_init(
        &a, &(struct arrival_opts){.kind = kind, .value = 50, .cv = cv, .seed = seed}));
    for (int32_t i = 0; i < N; i++) {
        int64_t t = 0;
        assert_true(arrival_next(&a, &t));
        assert_true(t >= last);
        gap[i] = (double)(t - last) * 1e-9;
        last = t;
    }
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a;
    double y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Kolmogorov-Smirnov distance to 1 - exp(-50 t), times sqrt(n). */
static double ks_exponential(double gap[N]) {
    double worst = 0;
    qsort(gap, N, sizeof *gap, by_value);
    for (int32_t i = 0; i < N; i++) {
        double f = 1 - exp(-50 * gap[i]);
        worst = fmax(worst, fmax(f - (double)i / N, (double)(i + 1) / N - f));
    }
    return worst * sqrt(N);
}

static void test_arrival_poisson_gaps_are_exponential(void **state) {
    (void)state;
    int32_t n_refused = 0;
    for (uint64_t seed = 0; seed < 100; seed++) {
        double gap[N];
        gaps_of(ARRIVAL_POISSON, 0, seed, gap);
        n_refused += ks_exponential(gap) > 1.628 ? 1 : 0; /* alpha 0.01 */
    }
    assert_true(n_refused <= 5);
}

/* Counts in windows of one second: variance over mean is 1 for Poisson; the total is not fixed. */
static void test_arrival_poisson_counts_are_true(void **state) {
    (void)state;
    double sum = 0;
    double square = 0;
    enum { SEEDS = 400 };
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct arrival a;
        int64_t t = 0;
        int32_t n = 0;
        assert_ok(arrival_init(
            &a, &(struct arrival_opts){.kind = ARRIVAL_POISSON, .value = 100, .seed = seed}));
        while (arrival_next(&a, &t) && t < 1000000000) {
            n++;
        }
        sum += n;
        square += (double)n * n;
    }
    double mean = sum / SEEDS;
    double var = square / SEEDS - mean * mean;
    assert_rel(mean, 100, 0.02);
    assert_rel(var, 100, 0.25);
}

static void test_arrival_gamma_has_the_given_cv(void **state) {
    (void)state;
    static const double cvs[] = {0.5, 1, 2};
    for (int32_t k = 0; k < 3; k++) {
        double gap[N];
        double sum = 0;
        double square = 0;
        gaps_of(ARRIVAL_GAMMA, cvs[k], 11, gap);
        for (int32_t i = 0; i < N; i++) {
            sum += gap[i];
            square += gap[i] * gap[i];
        }
        double mean = sum / N;
        assert_rel(mean, 0.02, 4 * cvs[k] / sqrt(N));
        assert_rel(sqrt(square / N - mean * mean) / mean, cvs[k], 0.1);
    }
}

static void test_arrival_constant_never_drifts(void **state) {
    (void)state;
    struct arrival a;
    int64_t t = 0;
    assert_ok(arrival_init(&a, &(struct arrival_opts){.kind = ARRIVAL_CONSTANT, .value = 3}));
    for (int64_t i = 0; i < 300000; i++) {
        assert_true(arrival_next(&a, &t));
        assert_true(llabs(t - llround((double)i * 1e9 / 3)) <= 1);
    }
}

static void test_arrival_closed_answers_completions(void **state) {
    (void)state;
    struct arrival a;
    int64_t t = -1;
    assert_ok(arrival_init(&a, &(struct arrival_opts){.kind = ARRIVAL_CLOSED, .value = 3}));
    for (int32_t i = 0; i < 3; i++) {
        assert_true(arrival_next(&a, &t));
        assert_int_equal(t, 0);
    }
    assert_false(arrival_next(&a, &t));
    assert_true(arrival_done(&a, 700, &t));
    assert_int_equal(t, 700);
    assert_false(arrival_next(&a, &t));
}

static void test_arrival_burst_and_trace_end(void **state) {
    (void)state;
    static const int64_t times[] = {1000, 3000, 3000, 9000};
    struct arrival a;
    int64_t t = -1;
    assert_ok(arrival_init(&a, &(struct arrival_opts){.kind = ARRIVAL_BURST, .value = 2}));
    assert_true(arrival_next(&a, &t) && t == 0);
    assert_true(arrival_next(&a, &t) && t == 0);
    assert_false(arrival_next(&a, &t));
    assert_false(arrival_done(&a, 5, &t));
    assert_ok(
        arrival_init(&a, &(struct arrival_opts){
                             .kind = ARRIVAL_TRACE, .value = 2, .trace_ns = times, .n_trace = 4}));
    assert_true(arrival_next(&a, &t) && t == 0);
    assert_true(arrival_next(&a, &t) && t == 1000);
    assert_true(arrival_next(&a, &t) && t == 1000);
    assert_true(arrival_next(&a, &t) && t == 4000);
    assert_false(arrival_next(&a, &t));
}

static void test_arrival_same_seed_same_times(void **state) {
    (void)state;
    double a[N];
    double b[N];
    gaps_of(ARRIVAL_POISSON, 0, 5, a);
    gaps_of(ARRIVAL_POISSON, 0, 5, b);
    assert_memory_equal(a, b, sizeof a);
    gaps_of(ARRIVAL_POISSON, 0, 6, b);
    assert_memory_not_equal(a, b, sizeof a);
}

static void test_arrival_init_refuses_nonsense(void **state) {
    (void)state;
    static const int64_t back[] = {5, 4};
    struct arrival a;
    struct arrival_opts o = {.kind = ARRIVAL_POISSON, .value = 0};
    assert_err(arrival_init(&a, &o), ERR_CONFIG, "poisson arrivals of 0");
    o = (struct arrival_opts){.kind = ARRIVAL_POISSON, .value = (double)NAN};
    assert_err(arrival_init(&a, &o), ERR_CONFIG, "poisson");
    o = (struct arrival_opts){.kind = ARRIVAL_GAMMA, .value = 1};
    assert_err(arrival_init(&a, &o), ERR_CONFIG, "cv");
    o = (struct arrival_opts){.kind = ARRIVAL_CLOSED, .value = 0.5};
    assert_err(arrival_init(&a, &o), ERR_CONFIG, "closed");
    o = (struct arrival_opts){.kind = ARRIVAL_TRACE, .value = 1, .trace_ns = back, .n_trace = 2};
    assert_err(arrival_init(&a, &o), ERR_CONFIG, "request 1 is earlier");
    o = (struct arrival_opts){.kind = ARRIVAL_UNSET, .value = 1};
    assert_err(arrival_init(&a, &o), ERR_CONFIG, "no arrival process");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_arrival_poisson_gaps_are_exponential), TEST(test_arrival_poisson_counts_are_true),
        TEST(test_arrival_gamma_has_the_given_cv),       TEST(test_arrival_constant_never_drifts),
        TEST(test_arrival_closed_answers_completions),   TEST(test_arrival_burst_and_trace_end),
        TEST(test_arrival_same_seed_same_times),         TEST(test_arrival_init_refuses_nonsense),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
