/* How often 95 % intervals hold the truth: AR(1) series and the times of M/M/1 and M/M/4 queues.
 * LABELS: slow
 *
 * A case counts the runs whose interval has a bound. Where all have both, 93 to 97 % must hold the
 * truth; where the samples are too few for both, a bound alone misses half as often, up to 99 %. */
#include "tests/support/support.h"

#include <math.h>

#include "engine/base/rng.h"
#include "reports/stat.h"

enum { RUNS = 2000, N = 20000, WARM = 5000, SERVERS_MAX = 4, QUANTILES = 3 };

static const double qs[QUANTILES] = {0.5, 0.9, 0.99};

struct source {
    int32_t servers; /* 0: AR(1) with mean 10 and variance 1 */
    double rho;
    int64_t n;
};

static void ar1(double *x, const struct source *s, struct rng *r) {
    double z = rng_normal(r);
    for (int64_t i = 0; i < s->n; i++) {
        z = s->rho * z + sqrt(1 - s->rho * s->rho) * rng_normal(r);
        x[i] = 10 + z;
    }
}

/* Time in the house of each customer; service takes 1 on average. */
static void queue(double *x, const struct source *s, struct rng *r) {
    double idle_at[SERVERS_MAX] = {0};
    double t = 0;
    for (int64_t i = -WARM; i < s->n; i++) {
        int32_t k = 0;
        t += rng_exponential(r) / (s->servers * s->rho);
        for (int32_t j = 1; j < s->servers; j++) {
            k = idle_at[j] < idle_at[k] ? j : k;
        }
        idle_at[k] = fmax(t, idle_at[k]) + rng_exponential(r);
        if (i >= 0) {
            x[i] = idle_at[k] - t;
        }
    }
}

/* Erlang's C: the chance to wait. */
static double wait_chance(int32_t servers, double rho) {
    double term = 1;
    double sum = 0;
    for (int32_t k = 0; k < servers; k++) {
        sum += term;
        term *= servers * rho / (k + 1);
    }
    term /= 1 - rho;
    return term / (sum + term);
}

/* Chance to be in the house longer than t. src: Gross and Harris, 2.3 */
static double longer(const struct source *s, double t) {
    double d = s->servers * (1 - s->rho) - 1;
    if (s->servers == 1) {
        return exp(-(1 - s->rho) * t);
    }
    return exp(-t) * (1 + wait_chance(s->servers, s->rho) * (1 - exp(-t * d)) / d);
}

/* The truth: mean and quantiles. */
static void truth_of(const struct source *s, double truth[1 + QUANTILES]) {
    static const double normal[QUANTILES] = {0, 1.2815515655446, 2.3263478740408};
    truth[0] = s->servers ? 1 + wait_chance(s->servers, s->rho) / (s->servers * (1 - s->rho)) : 10;
    for (int32_t m = 0; m < QUANTILES; m++) {
        double lo = 0;
        double hi = 1000;
        for (int32_t i = 0; i < 100 && s->servers; i++) {
            double mid = (lo + hi) / 2;
            bool above = longer(s, mid) > 1 - qs[m];
            lo = above ? mid : lo;
            hi = above ? hi : mid;
        }
        truth[1 + m] = s->servers ? lo : 10 + normal[m];
    }
}

struct tally {
    int32_t n_held;
    int32_t n_bound;
    int32_t n_both;
};

static void count(struct tally *t, struct stat_ci c, double truth) {
    bool has_lo = !isnan(c.lo);
    bool has_hi = !isnan(c.hi);
    t->n_bound += has_lo || has_hi ? 1 : 0;
    t->n_both += has_lo && has_hi ? 1 : 0;
    t->n_held += (has_lo || has_hi) && !(c.lo > truth) && !(c.hi < truth) ? 1 : 0;
}

static void cover(const struct source *s) {
    static double x[N];
    static double sorted[N];
    double truth[1 + QUANTILES];
    struct tally t[1 + QUANTILES] = {{0}};
    truth_of(s, truth);
    for (uint64_t i = 0; i < RUNS; i++) {
        struct rng r;
        rng_init(&r, i, 55);
        (s->servers ? queue : ar1)(x, s, &r);
        for (int64_t k = 0; k < s->n; k++) {
            sorted[k] = x[k];
        }
        stat_sort(sorted, s->n);
        count(&t[0], stat_mean(x, s->n), truth[0]);
        for (int32_t m = 0; m < QUANTILES; m++) {
            count(&t[1 + m], stat_quantile(x, sorted, s->n, qs[m]), truth[1 + m]);
        }
    }
    for (int32_t m = 0; m <= QUANTILES; m++) {
        double held = 100.0 * t[m].n_held / t[m].n_bound;
        print_message("servers %d, rho %.1f, n %lld, q %.2f: %.1f %% of %d, both bounds in %d\n",
                      s->servers, s->rho, (long long)s->n, m ? qs[m - 1] : 0, held, t[m].n_bound,
                      t[m].n_both);
        assert_true(t[m].n_bound > RUNS * 9 / 10);
        assert_true(held >= 93 && held <= (t[m].n_both > RUNS * 9 / 10 ? 97 : 99));
    }
}

static void test_stat_intervals_hold_the_truth_of_ar1(void **state) {
    (void)state;
    static const struct source s[] = {{0, 0, 2000}, {0, 0.5, 2000}, {0, 0.9, 5000}};
    for (int32_t i = 0; i < ARRAY_LEN(s); i++) {
        cover(&s[i]);
    }
}

static void test_stat_intervals_hold_the_truth_of_queues(void **state) {
    (void)state;
    static const struct source s[] = {{1, 0.5, N}, {1, 0.8, N}, {4, 0.5, N}, {4, 0.8, N}};
    for (int32_t i = 0; i < ARRAY_LEN(s); i++) {
        cover(&s[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_stat_intervals_hold_the_truth_of_ar1),
        TEST(test_stat_intervals_hold_the_truth_of_queues),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
