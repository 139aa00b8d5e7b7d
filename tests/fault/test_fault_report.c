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

struct finish {
    struct store *s;
    int64_t run;
};

/* Appends a row that is there, which is refused but drops the pack, and finishes, which makes it.
 */
static int append_and_finish(void *ctx) {
    const struct finish *f = ctx;
    (void)store_token(f->s, &(struct store_token){.run_id = f->run, .gap_ns = STORE_NULL});
    return store_run_finish(f->s, f->run, &(struct store_run_end){.status = "done"});
}

static int count_events(void *ctx, const struct store_events *e) {
    int64_t *n = ctx;
    *n += e->n;
    return 0;
}

static void test_store_run_finish_packs_all_or_nothing(void **state) {
    (void)state;
    static const int codes[] = {ERR_NOMEM, ERR_DB, 0};
    char dir[FILE_PATH_MAX];
    char path[FILE_PATH_MAX];
    struct finish f = {0};
    int64_t session = 0;
    int64_t target = 0;
    int64_t n = 0;
    struct store_rows *rows = NULL;
    bool has = false;
    test_tmpdir(dir);
    assert_ok(file_join(path, dir, "results.db"));
    assert_ok(store_open(path, STORE_WRITE, &f.s));
    assert_ok(store_session_begin(f.s, &(struct store_session){.kind = "run"}, &session));
    const struct store_target t = {session, "a", "null", true, STORE_NULL, NULL};
    assert_ok(store_target(f.s, &t, &target));
    const struct store_run r = {
        .session_id = session, .target_id = target, .point = "1/s", .arrival = "poisson"};
    assert_ok(store_run_begin(f.s, &r, &f.run));
    assert_ok(store_token(f.s, &(struct store_token){.run_id = f.run, .gap_ns = STORE_NULL}));
    test_fault_loop(FAULT_ALLOC, append_and_finish, &f, codes);
    test_fault_loop(FAULT_SQL, append_and_finish, &f, codes);
    assert_ok(append_and_finish(&f));
    assert_ok(store_events_each(f.s, f.run, count_events, &n));
    assert_int_equal(n, 1);
    assert_ok(store_rows_open(f.s, "v_pack_error", "run_id", NULL, 0, NULL, &rows));
    assert_ok(store_rows_next(rows, &has));
    assert_false(has);
    store_rows_close(rows);
    assert_ok(store_close(f.s));
    test_rmdir(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_report_small_session_without_memory),
        TEST(test_store_run_finish_packs_all_or_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
