/* The summary's own judgements, and figures as readers see them. */
#include "tests/support/support.h"

#include <math.h>
#include <string.h>

#include "reports/show.h"
#include "reports/summary.h"

enum { NS = 1000000000 };

/* A run of n requests, one a 100 ms, each answered after wait(i) seconds. */
static int64_t make_run(struct store *s, int64_t n, double wait_s, double growth_s, double lag_s) {
    int64_t session = 0;
    int64_t target = 0;
    int64_t run = 0;
    assert_ok(store_session_begin(s, &(struct store_session){.kind = "run"}, &session));
    assert_ok(store_target(s, &(struct store_target){session, "t", "null", true, STORE_NULL, NULL},
                           &target));
    assert_ok(store_run_begin(
        s,
        &(struct store_run){
            .session_id = session, .target_id = target, .point = "10/s", .arrival = "poisson"},
        &run));
    for (int64_t i = 0; i < n; i++) {
        int64_t start = i * NS / 10;
        int64_t sent = start + (int64_t)(lag_s * NS);
        int64_t done = sent + (int64_t)((wait_s + growth_s * (double)i) * NS);
        const struct store_request r = {.run_id = run,
                                        .seq = i,
                                        .phase = "measured",
                                        .intended_start_ns = start,
                                        .actual_start_ns = sent,
                                        .first_event_ns = done,
                                        .first_token_ns = done,
                                        .first_answer_ns = done,
                                        .last_token_ns = done,
                                        .end_ns = done,
                                        .n_output = 1,
                                        .n_output_first = 1};
        assert_ok(store_request(s, &r));
    }
    assert_ok(store_run_finish(s, run,
                               &(struct store_run_end){.status = "done",
                                                       .measured_from_ns = 0,
                                                       .measured_to_ns = n * NS / 10,
                                                       .end_ns = n * NS / 5}));
    return run;
}

static void test_summary_judge_runs(void **state) {
    (void)state;
    static const struct {
        int64_t n;
        double wait_s;
        double growth_s;
        double lag_s;
        enum verdict_kind want;
    } cases[] = {{200, 0.3, 0, 1e-5, VERDICT_VALID},
                 {200, 0.3, 0.1, 1e-5, VERDICT_SERVER_LIMITED},
                 {200, 0.3, 0, 0.2, VERDICT_CLIENT_BOUND},
                 {5, 0.3, 0, 1e-5, VERDICT_INCONCLUSIVE}};
    char dir[FILE_PATH_MAX];
    char path[FILE_PATH_MAX];
    struct store *s = NULL;
    struct verdict v;
    test_tmpdir(dir);
    assert_ok(file_join(path, dir, "results.db"));
    assert_ok(store_open(path, STORE_WRITE, &s));
    for (int32_t i = 0; i < ARRAY_LEN(cases); i++) {
        int64_t run = make_run(s, cases[i].n, cases[i].wait_s, cases[i].growth_s, cases[i].lag_s);
        assert_ok(summary_judge(s, run, &v));
        assert_string_equal(verdict_name(v.kind), verdict_name(cases[i].want));
    }
    assert_err(summary_judge(s, 99, &v), ERR_NOTFOUND, "no run 99");
    assert_ok(store_close(s));
    test_rmdir(dir);
}

static void test_summary_keeps_unmeasured_unmeasured(void **state) {
    (void)state;
    char dir[FILE_PATH_MAX];
    char path[FILE_PATH_MAX];
    struct store *s = NULL;
    struct report r;
    test_tmpdir(dir);
    assert_ok(file_join(path, dir, "results.db"));
    assert_ok(store_open(path, STORE_WRITE, &s));
    make_run(s, 40, 0.2, 0, 0);
    assert_ok(summary_read(s, 0, &r));
    const struct report_run *run = &r.runs[0];
    assert_int_equal(run->dist[0].n, 40);
    assert_int_equal(run->dist[1].n, 0);
    assert_true(isnan(run->dist[1].mean.value));
    assert_true(isnan(run->dist[2].p95.value));
    assert_true(isnan(run->goodput_per_s.value));
    assert_true(isnan(run->usd_per_mtok.value));
    assert_true(isnan(r.targets[0].perplexity.value));
    assert_true(run->n_preempt == STORE_NULL || run->n_preempt == 0);
    assert_false(run->steady.found);
    summary_fini(&r);
    assert_ok(store_close(s));
    test_rmdir(dir);
}

static void test_show_figures(void **state) {
    (void)state;
    char t[SHOW_MAX];
    assert_string_equal(show_value(t, 0.2134, SHOW_SECONDS), "213 ms");
    assert_string_equal(show_value(t, 3.2e-5, SHOW_SECONDS), "32.0 us");
    assert_string_equal(show_value(t, 0.42, SHOW_USD), "$0.420");
    assert_string_equal(show_value(t, 0.9, SHOW_SHARE), "90.0 %");
    assert_string_equal(show_value(t, 98.4e6, SHOW_BYTES), "98.4 MB");
    assert_string_equal(show_value(t, (double)NAN, SHOW_BYTES), "not measured");
    assert_string_equal(show_i64(t, INT64_MIN, SHOW_COUNT), "not measured");
    const double none = (double)NAN;
    assert_string_equal(show_interval(t, (struct stat_ci){0.2, 0.19, 0.21}, SHOW_SECONDS),
                        "190 to 210 ms");
    assert_string_equal(show_interval(t, (struct stat_ci){0.2, 0.19, none}, SHOW_SECONDS),
                        "at least 190 ms");
    assert_string_equal(show_interval(t, (struct stat_ci){0.2, none, none}, SHOW_SECONDS),
                        "no interval");
    assert_string_equal(show_interval(t, stat_none(), SHOW_SECONDS), "");
    assert_string_equal(show_date(t, INT64_C(1764000000000000000)), "2025-11-24 16:00 UTC");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_summary_judge_runs),
        TEST(test_summary_keeps_unmeasured_unmeasured),
        TEST(test_show_figures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
