/* Reports when memory or the database fails at any one point: an error or a whole report. */
#include "tests/support/support.h"

#include "reports/report.h"

static int whole_report(void *ctx) {
    struct buf out;
    buf_init(&out, MEM_TEST, REPORT_BYTES_MAX);
    int rc = report_html(ctx, &(struct report_opts){.without_plots = true}, &out);
    if (!rc) {
        buf_clear(&out);
        rc = report_json(ctx, &(struct report_opts){0}, &out);
    }
    buf_fini(&out);
    return rc;
}

static void test_report_small_session_without_memory(void **state) {
    (void)state;
    static const int codes[] = {ERR_NOMEM, ERR_DB, 0};
    char dir[FILE_PATH_MAX];
    char path[FILE_PATH_MAX];
    struct store *s = NULL;
    int64_t session = 0;
    int64_t target = 0;
    int64_t run = 0;
    test_tmpdir(dir);
    assert_ok(file_join(path, dir, "results.db"));
    assert_ok(store_open(path, STORE_WRITE, &s));
    assert_ok(store_session_begin(s, &(struct store_session){.kind = "run"}, &session));
    for (int32_t i = 0; i < 2; i++) {
        const struct store_target t = {session, i ? "b" : "a", "null", i == 0, STORE_NULL, NULL};
        assert_ok(store_target(s, &t, &target));
        const struct store_run r = {
            .session_id = session, .target_id = target, .point = "1/s", .arrival = "poisson"};
        assert_ok(store_run_begin(s, &r, &run));
        const struct store_request q = {.run_id = run, .phase = "measured", .end_ns = 5};
        assert_ok(store_request(s, &q));
        assert_ok(store_run_finish(s, run, &(struct store_run_end){.status = "aborted"}));
    }
    test_fault_loop(FAULT_ALLOC, whole_report, s, codes);
    test_fault_loop(FAULT_SQL, whole_report, s, codes);
    assert_ok(store_close(s));
    test_rmdir(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_report_small_session_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
