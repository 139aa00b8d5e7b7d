/* The results database: what is written is read, damage and newer versions are refused, a full disk
 * or a failing statement loses only what was not committed. */
#include "tests/support/support.h"

#include <math.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/clock.h"
#include "reports/store.h"
#include "tests/support/db_fixture.h"

static void db_path(char *path, const char *dir) {
    assert_ok(file_join(path, dir, "results.db"));
}

static int64_t
number(struct store *s, const char *view, const char *columns, const char *key, int64_t id) {
    struct store_rows *r = NULL;
    bool has = false;
    assert_ok(store_rows_open(s, view, columns, key, id, NULL, &r));
    assert_ok(store_rows_next(r, &has));
    assert_true(has);
    int64_t v = store_rows_i64(r, 0);
    store_rows_close(r);
    return v;
}

static int64_t count(struct store *s, const char *view, const char *key, int64_t id) {
    struct store_rows *r = NULL;
    bool has = true;
    int64_t n = -1;
    assert_ok(store_rows_open(s, view, "run_id", key, id, NULL, &r));
    for (; has; n++) {
        assert_ok(store_rows_next(r, &has));
    }
    store_rows_close(r);
    return n;
}

/* sqlite's own verdict on the file. */
static void assert_sound(const char *path) {
    sqlite3 *db = NULL;
    sqlite3_stmt *stmt = NULL;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, "PRAGMA integrity_check", -1, &stmt, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
    assert_string_equal((const char *)sqlite3_column_text(stmt, 0), "ok");
    sqlite3_finalize(stmt);
    sqlite3_close(db);
}

static void run_sql(const char *path, const char *sql) {
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

static void test_store_writes_and_reads_a_whole_session(void **state) {
    (void)state;
    char dir[FILE_PATH_MAX];
    char path[FILE_PATH_MAX];
    struct store *s = NULL;
    struct db_fixture f;
    test_tmpdir(dir);
    db_path(path, dir);
    assert_ok(store_open(path, STORE_WRITE, &s));
    assert_ok(db_fixture_write(s, &f));
    assert_ok(store_close(s));
    assert_sound(path);
    assert_ok(store_open(path, STORE_READ, &s));
    int64_t run = f.runs[1][1].run_id;
    assert_int_equal(number(s, "v_run_counts", "n_offered", "run_id", run), DB_REQUESTS);
    assert_int_equal(number(s, "v_run_counts", "n_ok", "run_id", run), DB_REQUESTS - 1);
    assert_int_equal(number(s, "v_run_counts", "n_warmup", "run_id", run), DB_WARMUP);
    assert_int_equal(number(s, "v_run_failures", "n", "run_id", run), 1);
    assert_int_equal(count(s, "v_ttft", "run_id", run), DB_REQUESTS - 1);
    assert_int_equal(count(s, "v_itl", "run_id", run), (DB_REQUESTS - 1) * (DB_OUTPUT - 2));
    assert_int_equal(count(s, "v_gap_error", NULL, 0), 0);
    assert_int_equal(count(s, "v_pack_error", NULL, 0), 0);
    assert_int_equal(count(s, "v_peers", "run_id", run), 6);
    assert_ok(store_close(s));
    test_rmdir(dir);
}

static void test_store_keeps_null_apart_from_zero(void **state) {
    (void)state;
    char dir[FILE_PATH_MAX];
    char path[FILE_PATH_MAX];
    struct store *s = NULL;
    struct db_fixture f;
    struct store_rows *r = NULL;
    bool has = false;
    test_tmpdir(dir);
    db_path(path, dir);
    assert_ok(store_open(path, STORE_WRITE, &s));
    assert_ok(db_fixture_write(s, &f));
    assert_ok(store_rows_open(s, "v_request", "ttft_s, tpot_s, n_output, n_preempt, error_class",
                              "run_id", f.runs[1][1].run_id, "seq", &r));
    for (int32_t i = 0; i <= DB_WARMUP + DB_FAILED; i++) {
        assert_ok(store_rows_next(r, &has));
    }
    assert_true(isnan(store_rows_f64(r, 0)) && isnan(store_rows_f64(r, 1)));
    assert_true(store_rows_i64(r, 2) == STORE_NULL);
    assert_int_equal(store_rows_i64(r, 3), 0);
    assert_string_equal(store_rows_str(r, 4), "timeout");
    store_rows_close(r);
    assert_ok(store_close(s));
    test_rmdir(dir);
}

static void test_store_latency_views_follow_their_definitions(void **state) {
    (void)state;
    char dir[FILE_PATH_MAX];
    char path[FILE_PATH_MAX];
    struct store *s = NULL;
    struct db_fixture f;
    struct store_rows *r = NULL;
    bool has = false;
    test_tmpdir(dir);
    db_path(path, dir);
    assert_ok(store_open(path, STORE_WRITE, &s));
    assert_ok(db_fixture_write(s, &f));
    const struct db_run *run = &f.runs[0][0];
    assert_ok(store_rows_open(s, "v_request", "ttft_s, ttft_service_s, tpot_s, e2e_s", "run_id",
                              run->run_id, "seq", &r));
    for (int32_t i = 0; i < DB_WARMUP + DB_REQUESTS; i++) {
        assert_ok(store_rows_next(r, &has));
        if (i >= DB_WARMUP) {
            int32_t k = i - DB_WARMUP;
            assert_rel(store_rows_f64(r, 0), run->ttft[k], 1e-6);
            assert_rel(store_rows_f64(r, 1), run->ttft[k] - 20e-6, 1e-6);
            assert_rel(store_rows_f64(r, 2), run->gap[k], 1e-6);
            assert_rel(store_rows_f64(r, 3), run->ttft[k] + 23 * run->gap[k], 1e-6);
        }
    }
    store_rows_close(r);
    assert_ok(
        store_rows_open(s, "v_itl", "value_s, n_tokens", "run_id", run->run_id, "seq, idx", &r));
    for (int32_t i = 0; i < DB_OUTPUT - 2; i++) {
        assert_ok(store_rows_next(r, &has));
        assert_rel(store_rows_f64(r, 0), run->gap[0], 1e-6);
        assert_int_equal(store_rows_i64(r, 1), i == DB_OUTPUT - 3 ? 2 : 1);
    }
    store_rows_close(r);
    assert_ok(store_close(s));
    test_rmdir(dir);
}

static void test_store_open_refuses_what_is_not_ours(void **state) {
    (void)state;
    char dir[FILE_PATH_MAX];
    char path[FILE_PATH_MAX];
    struct store *s = NULL;
    test_tmpdir(dir);
    db_path(path, dir);
    assert_err(store_open(path, STORE_READ, &s), ERR_NOTFOUND, "results.db");
    assert_ok(file_write(path, "", 0));
    assert_err(store_open(path, STORE_READ, &s), ERR_FORMAT, "empty file");
    assert_ok(file_write(path, "hello, this is certainly not a database, but long enough", 56));
    assert_err(store_open(path, STORE_READ, &s), ERR_FORMAT, "not a database");
    assert_err(store_open(path, STORE_WRITE, &s), ERR_FORMAT, "not a database");
    remove(path);
    run_sql(path, "CREATE TABLE song (title TEXT)");
    assert_err(store_open(path, STORE_READ, &s), ERR_FORMAT, "not one of Trilemma's");
    assert_err(store_open(path, STORE_WRITE, &s), ERR_FORMAT, "not one of Trilemma's");
    test_rmdir(dir);
}

static void test_store_open_refuses_newer_version(void **state) {
    (void)state;
    char dir[FILE_PATH_MAX];
    char path[FILE_PATH_MAX];
    struct store *s = NULL;
    test_tmpdir(dir);
    db_path(path, dir);
    assert_ok(store_open(path, STORE_WRITE, &s));
    assert_ok(store_close(s));
    run_sql(path, "PRAGMA user_version = 9");
    assert_err(store_open(path, STORE_READ, &s), ERR_UNSUPPORTED,
               "version 9, this program reads up to");
    assert_err(store_open(path, STORE_WRITE, &s), ERR_UNSUPPORTED, "version 9");
    test_rmdir(dir);
}

/* A file of version 1 is read by nobody, and brought up by whoever writes to it. */
static void test_store_open_brings_older_files_up(void **state) {
    (void)state;
    char dir[FILE_PATH_MAX];
    char path[FILE_PATH_MAX];
    struct store *s = NULL;
    struct db_fixture f;
    test_tmpdir(dir);
    db_path(path, dir);
    assert_ok(store_open(path, STORE_WRITE, &s));
    assert_ok(db_fixture_write(s, &f));
    assert_ok(store_close(s));
    run_sql(path, "DROP VIEW v_http; DROP TABLE request_http; DROP VIEW v_pack_error; "
                  "DROP VIEW v_token_pack; DROP TABLE token_pack; PRAGMA user_version = 1");
    assert_err(store_open(path, STORE_READ, &s), ERR_UNSUPPORTED, "version 1, want 3");
    assert_ok(store_open(path, STORE_WRITE, &s));
    int64_t run = f.runs[1][1].run_id;
    const struct store_http q = {.run_id = run,
                                 .seq = DB_REQUESTS - 1,
                                 .endpoint = 1,
                                 .status = 200,
                                 .handed_ns = 5,
                                 .dns_ns = STORE_NULL,
                                 .connect_ns = STORE_NULL,
                                 .tls_ns = STORE_NULL,
                                 .first_write_ns = 7,
                                 .first_read_ns = 9,
                                 .n_reasoning = STORE_NULL,
                                 .retry_after_ns = STORE_NULL,
                                 .token_count = "usage"};
    assert_ok(store_http(s, &q));
    assert_int_equal(number(s, "v_http", "endpoint", "run_id", run), 1);
    assert_int_equal(number(s, "v_run_counts", "n_offered", "run_id", run), DB_REQUESTS);
    assert_ok(store_close(s));
    assert_sound(path);
    test_rmdir(dir);
}

/* The sum of a request over its events: 7 tokens on 3 events are 2, 2, 3. */
static void test_store_spread(void **state) {
    (void)state;
    char dir[FILE_PATH_MAX];
    char path[FILE_PATH_MAX];
    struct store *s = NULL;
    struct store_rows *r = NULL;
    bool has = false;
    static const int64_t want[] = {2, 2, 3};
    test_tmpdir(dir);
    db_path(path, dir);
    assert_ok(store_open(path, STORE_WRITE, &s));
    const struct store_session session = {.kind = "run", .start_wall_ns = 1};
    struct store_target target = {.name = "a", .kind = "http", .checkpoint_id = STORE_NULL};
    struct store_run run = {.point = "p", .point_value = 1, .arrival = "burst", .start_wall_ns = 1};
    int64_t run_id = 0;
    assert_ok(store_session_begin(s, &session, &target.session_id));
    assert_ok(store_target(s, &target, &run.target_id));
    run.session_id = target.session_id;
    assert_ok(store_run_begin(s, &run, &run_id));
    assert_ok(store_request(
        s, &(struct store_request){.run_id = run_id, .seq = 0, .phase = "measured", .end_ns = 9}));
    for (int64_t i = 0; i < 3; i++) {
        assert_ok(store_token(s, &(struct store_token){.run_id = run_id,
                                                       .idx = i,
                                                       .t_ns = i,
                                                       .gap_ns = i ? 1 : STORE_NULL,
                                                       .n_tokens = 1}));
    }
    assert_ok(store_spread(s, run_id, 0, 3, 7));
    assert_ok(store_rows_open(s, "v_itl", "n_tokens", "run_id", run_id, "idx", &r));
    for (int32_t i = 1; i < 3; i++) {
        assert_ok(store_rows_next(r, &has));
        assert_int_equal(store_rows_i64(r, 0), want[i]);
    }
    store_rows_close(r);
    assert_ok(store_close(s));
    test_rmdir(dir);
}

static void test_store_open_truncated_file_is_an_error(void **state) {
    (void)state;
    char dir[FILE_PATH_MAX];
    char path[FILE_PATH_MAX];
    struct store *s = NULL;
    struct db_fixture f;
    struct buf whole;
    test_tmpdir(dir);
    db_path(path, dir);
    assert_ok(store_open(path, STORE_WRITE, &s));
    assert_ok(db_fixture_write(s, &f));
    assert_ok(store_close(s));
    buf_init(&whole, MEM_TEST, 1 << 26);
    assert_ok(file_read(path, &whole));
    for (int64_t n = 1; n < whole.len; n += whole.len / 7) {
        assert_ok(file_write(path, whole.data, n));
        assert_err(store_open(path, STORE_READ, &s), ERR_FORMAT, "results.db");
    }
    buf_fini(&whole);
    test_rmdir(dir);
}

static void test_store_full_disk_keeps_what_was_committed(void **state) {
    (void)state;
    char dir[FILE_PATH_MAX];
    char path[FILE_PATH_MAX];
    struct store *s = NULL;
    struct db_fixture f;
    int64_t n_committed = 0;
    test_tmpdir(dir);
    db_path(path, dir);
    assert_ok(store_open(path, STORE_WRITE, &s));
    assert_ok(db_fixture_write(s, &f));
    assert_ok(store_limit(s, 4 << 20));
    int rc = 0;
    for (int64_t i = 0; !rc && i < 1000000; i++) {
        rc = store_token(
            s, &(struct store_token){
                   .run_id = 1, .seq = 1000 + i, .t_ns = i, .gap_ns = STORE_NULL, .n_tokens = 1});
        if (!rc && i % 1000 == 999) {
            assert_ok(store_flush(s));
            n_committed = i + 1;
        }
    }
    assert_err(rc, ERR_DB, "full");
    assert_true(n_committed > 0);
    assert_ok(store_limit(s, 64 << 20));
    assert_ok(store_token(s, &(struct store_token){.run_id = 2, .seq = 5000000, .n_tokens = 1}));
    assert_ok(store_close(s));
    assert_sound(path);
    sqlite3 *db = NULL;
    sqlite3_stmt *stmt = NULL;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, "SELECT count(*) FROM token_event WHERE seq >= 1000",
                                        -1, &stmt, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
    assert_int_equal(sqlite3_column_int64(stmt, 0), n_committed + 1);
    sqlite3_finalize(stmt);
    sqlite3_close(db);
    test_rmdir(dir);
}

static void test_store_bad_row_is_refused_alone(void **state) {
    (void)state;
    char dir[FILE_PATH_MAX];
    char path[FILE_PATH_MAX];
    struct store *s = NULL;
    test_tmpdir(dir);
    db_path(path, dir);
    assert_ok(store_open(path, STORE_WRITE, &s));
    const struct store_token t = {.run_id = 1, .n_tokens = 1};
    assert_ok(store_token(s, &t));
    assert_err(store_token(s, &t), ERR_DB, "UNIQUE");
    assert_err(store_request(s, &(struct store_request){.run_id = 1, .phase = "lunch"}), ERR_DB,
               "CHECK");
    assert_ok(store_close(s));
    assert_ok(store_open(path, STORE_READ, &s));
    assert_int_equal(count(s, "v_tokens_per_bin", "run_id", 1), 1);
    assert_ok(store_close(s));
    test_rmdir(dir);
}

static void test_store_rows_open_refuses_other_text(void **state) {
    (void)state;
    char dir[FILE_PATH_MAX];
    char path[FILE_PATH_MAX];
    struct store *s = NULL;
    struct store_rows *r = NULL;
    test_tmpdir(dir);
    db_path(path, dir);
    assert_ok(store_open(path, STORE_WRITE, &s));
    assert_err(store_rows_open(s, "run", "run_id", NULL, 0, NULL, &r), ERR_INTERNAL, "no query");
    assert_err(store_rows_open(s, "v_run; DROP", "run_id", NULL, 0, NULL, &r), ERR_INTERNAL, "");
    assert_err(store_rows_open(s, "v_run", "count(*)", NULL, 0, NULL, &r), ERR_INTERNAL, "");
    assert_err(store_rows_open(s, "v_nothing", "run_id", NULL, 0, NULL, &r), ERR_DB,
               "no such table");
    assert_ok(store_close(s));
    test_rmdir(dir);
}

static void test_store_checkpoint_same_file_same_id(void **state) {
    (void)state;
    char dir[FILE_PATH_MAX];
    char path[FILE_PATH_MAX];
    struct store *s = NULL;
    int64_t a = 0;
    int64_t b = 0;
    test_tmpdir(dir);
    db_path(path, dir);
    assert_ok(store_open(path, STORE_WRITE, &s));
    struct store_checkpoint c = {.path = "p",
                                 .sha256 = "s",
                                 .scheme = "W4A16",
                                 .n_params = 5,
                                 .bits_per_weight = (double)NAN};
    assert_ok(store_checkpoint(s, &c, &a));
    c.scheme = NULL;
    assert_ok(store_checkpoint(s, &c, &b));
    assert_int_equal(a, b);
    c.sha256 = "other";
    assert_ok(store_checkpoint(s, &c, &b));
    assert_int_not_equal(a, b);
    assert_ok(store_close(s));
    test_rmdir(dir);
}

/* One small session in a fresh file, whatever fails on the way. */
static int small_session(void *ctx) {
    const char *path = ctx;
    struct store *s = NULL;
    int64_t session = 0;
    int64_t target = 0;
    int64_t run = 0;
    remove(path);
    int rc = store_open(path, STORE_WRITE, &s);
    if (rc) {
        return rc;
    }
    rc = store_session_begin(s, &(struct store_session){.kind = "run", .scenario_text = "x: 1"},
                             &session);
    rc = rc ? rc
            : store_target(s, &(struct store_target){session, "t", "null", true, STORE_NULL, NULL},
                           &target);
    rc = rc ? rc
            : store_run_begin(s,
                              &(struct store_run){.session_id = session,
                                                  .target_id = target,
                                                  .point = "1/s",
                                                  .arrival = "poisson"},
                              &run);
    for (int32_t i = 0; i < 3 && !rc; i++) {
        rc = store_token(s, &(struct store_token){.run_id = run, .idx = i, .n_tokens = 1});
    }
    rc = rc ? rc : store_run_finish(s, run, &(struct store_run_end){.status = "done"});
    struct store_rows *r = NULL;
    bool has = false;
    int read_rc = store_rows_open(s, "v_run", "run_id, target", "session_id", session, NULL, &r);
    if (!read_rc) {
        read_rc = store_rows_next(r, &has);
        store_rows_close(r);
    }
    int close_rc = store_close(s);
    return rc ? rc : (read_rc ? read_rc : close_rc);
}

static void test_store_survives_every_failing_statement(void **state) {
    (void)state;
    static const int codes[] = {ERR_DB, ERR_NOMEM, 0};
    char dir[FILE_PATH_MAX];
    char path[FILE_PATH_MAX];
    test_tmpdir(dir);
    db_path(path, dir);
    test_fault_loop(FAULT_SQL, small_session, path, codes);
    test_fault_loop(FAULT_ALLOC, small_session, path, codes);
    assert_ok(small_session(path));
    assert_sound(path);
    test_rmdir(dir);
}

/* A reader sees the events at the latest a second after they were handed in. */
static void test_store_tick_commits_after_a_second(void **state) {
    (void)state;
    char dir[FILE_PATH_MAX];
    char path[FILE_PATH_MAX];
    struct store *s = NULL;
    struct store *reader = NULL;
    test_tmpdir(dir);
    db_path(path, dir);
    assert_ok(store_open(path, STORE_WRITE, &s));
    assert_ok(store_open(path, STORE_READ, &reader));
    assert_ok(store_token(s, &(struct store_token){.run_id = 1, .n_tokens = 1}));
    int64_t begun = clock_now_ns();
    while (clock_now_ns() - begun < STORE_COMMIT_NS &&
           count(reader, "v_tokens_per_bin", NULL, 0) == 0) {
        assert_ok(store_tick(s));
    }
    assert_ok(store_tick(s));
    assert_int_equal(count(reader, "v_tokens_per_bin", NULL, 0), 1);
    assert_ok(store_close(reader));
    assert_ok(store_close(s));
    test_rmdir(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_store_writes_and_reads_a_whole_session),
        TEST(test_store_keeps_null_apart_from_zero),
        TEST(test_store_latency_views_follow_their_definitions),
        TEST(test_store_open_refuses_what_is_not_ours),
        TEST(test_store_open_refuses_newer_version),
        TEST(test_store_open_brings_older_files_up),
        TEST(test_store_spread),
        TEST(test_store_open_truncated_file_is_an_error),
        TEST(test_store_full_disk_keeps_what_was_committed),
        TEST(test_store_bad_row_is_refused_alone),
        TEST(test_store_rows_open_refuses_other_text),
        TEST(test_store_checkpoint_same_file_same_id),
        TEST(test_store_survives_every_failing_statement),
        TEST(test_store_tick_commits_after_a_second),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
