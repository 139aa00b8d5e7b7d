/* Verdicts and their reasons; price; the Pareto front. */
#include "tests/support/support.h"

#include <math.h>
#include <string.h>

#include "reports/cost.h"
#include "reports/pareto.h"
#include "reports/verdict.h"

static struct verdict_in good(void) {
    return (struct verdict_in){.n_offered = 200,
                               .n_ok = 200,
                               .send_lag_p99_s = 40e-6,
                               .ttft_p50_s = 0.2,
                               .in_flight_first = 3,
                               .in_flight_last = 3.2,
                               .in_flight_se = 0.4};
}

static void judge(struct verdict_in in, enum verdict_kind want, const char *part) {
    struct verdict v;
    verdict_judge(&in, &v);
    assert_string_equal(verdict_name(v.kind), verdict_name(want));
    assert_non_null(strstr(v.reason, part));
}

static void test_verdict_judge_each_case(void **state) {
    (void)state;
    judge(good(), VERDICT_VALID, "200 of 200 requests succeeded");
    struct verdict_in in = good();
    in.is_aborted = true;
    judge(in, VERDICT_INCONCLUSIVE, "aborted");
    in = good();
    in.n_ok = 4;
    judge(in, VERDICT_INCONCLUSIVE, "only 4 requests");
    in = good();
    in.send_lag_p99_s = 0.05;
    judge(in, VERDICT_CLIENT_BOUND, "50.0 ms late");
    in.ttft_p50_s = 2;
    judge(in, VERDICT_VALID, "");
    in.ttft_p50_s = (double)NAN;
    judge(in, VERDICT_CLIENT_BOUND, "");
    in = good();
    in.n_failed = 3;
    in.n_ok = 197;
    judge(in, VERDICT_SERVER_LIMITED, "3 of 200");
}

static void test_verdict_judge_growing_queue(void **state) {
    (void)state;
    struct verdict_in in = good();
    in.in_flight_last = 30;
    judge(in, VERDICT_SERVER_LIMITED, "the queue grew");
    in.is_closed = true;
    judge(in, VERDICT_VALID, "");
    in.is_closed = false;
    in.in_flight_se = 12;
    judge(in, VERDICT_VALID, "");
    in.in_flight_last = (double)NAN;
    judge(in, VERDICT_VALID, "");
}

static void test_cost_usd_per_mtok_swaps_bounds(void **state) {
    (void)state;
    struct stat_ci c = cost_usd_per_mtok(3.6, (struct stat_ci){1000, 800, (double)NAN});
    assert_rel(c.value, 1.0, 1e-12);
    assert_true(isnan(c.lo));
    assert_rel(c.hi, 1.25, 1e-12);
    assert_true(isnan(cost_usd_per_mtok(0, c).value));
    assert_true(isnan(cost_usd_per_mtok(1, stat_none()).value));
}

static void test_pareto_mark_front(void **state) {
    (void)state;
    struct pareto_point p[] = {{{1, 5, 3}, false},
                               {{2, 2, 3}, false},
                               {{2, 6, 3}, false},
                               {{1, 5, 3}, false},
                               {{0, 0, (double)NAN}, true}};
    pareto_mark(p, ARRAY_LEN(p));
    assert_true(p[0].on_front && p[1].on_front && p[3].on_front);
    assert_false(p[2].on_front || p[4].on_front);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_verdict_judge_each_case),
        TEST(test_verdict_judge_growing_queue),
        TEST(test_cost_usd_per_mtok_swaps_bounds),
        TEST(test_pareto_mark_front),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
