/* Token events from rows and from the packed copy are the same, and the copy is never stale. */
#include "tests/support/support.h"

#include <math.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/str.h"
#include "reports/summary.h"
#include "tests/support/db_fixture.h"

static void run_sql(const char *path, const char *sql) {
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

static int64_t number(const char *path, const char *sql) {
    sqlite3 *db = NULL;
    sqlite3_stmt *stmt = NULL;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &stmt, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
    int64_t n = sqlite3_column_int64(stmt, 0);
    sqlite3_finalize(stmt);
    sqlite3_close(db);
    return n;
}

static void make_db(char dir[FILE_PATH_MAX], char path[FILE_PATH_MAX], struct db_fixture *f) {
    struct store *s = NULL;
    test_tmpdir(dir);
    assert_ok(file_join(path, dir, "results.db"));
    assert_ok(store_open(path, STORE_WRITE, &s));
    assert_ok(db_fixture_write(s, f));
    assert_ok(store_close(s));
}

struct hash {
    uint64_t h;
    int64_t n;
};

static int add_events(void *ctx, const struct store_events *e) {
    struct hash *t = ctx;
    for (int64_t i = 0; i < e->n; i++) {
        const int64_t parts[] = {e->seq, e->is_whole, e->events[i].t_ns, e->events[i].gap_ns,
                                 e->events[i].n_tokens};
        for (int32_t k = 0; k < ARRAY_LEN(parts); k++) {
            t->h = (t->h ^ (uint64_t)parts[k]) * UINT64_C(1099511628211);
        }
    }
    t->n += e->n;
    return 0;
}

static struct hash events_of(const char *path, int64_t run_id) {
    struct store *s = NULL;
    struct hash t = {0};
    assert_ok(store_open(path, STORE_READ, &s));
    assert_ok(store_events_each(s, run_id, add_events, &t));
    assert_ok(store_close(s));
    return t;
}

static void test_events_from_pack_equal_those_from_rows(void **state) {
    (void)state;
    char dir[FILE_PATH_MAX];
    char path[FILE_PATH_MAX];
    struct db_fixture f;
    make_db(dir, path, &f);
    int64_t run = f.runs[1][1].run_id;
    assert_true(number(path, "SELECT count(*) FROM token_pack") > DB_REQUESTS);
    assert_int_equal(number(path, "SELECT count(*) FROM v_pack_error"), 0);
    struct hash packed = events_of(path, run);
    run_sql(path, "DELETE FROM token_pack");
    struct hash rows = events_of(path, run);
    assert_true(rows.n > 1000);
    assert_int_equal(rows.n, packed.n);
    assert_true(rows.h == packed.h);
    test_rmdir(dir);
}

static void test_events_append_drops_the_pack_and_finish_makes_it_anew(void **state) {
    (void)state;
    char dir[FILE_PATH_MAX];
    char path[FILE_PATH_MAX];
    char sql[128];
    struct db_fixture f;
    struct store *s = NULL;
    struct hash t = {0};
    make_db(dir, path, &f);
    int64_t run = f.runs[0][0].run_id;
    snprintf(sql, sizeof sql, "SELECT count(*) FROM token_pack WHERE run_id = %lld",
             (long long)run);
    int64_t n = number(path, sql);
    struct hash before = events_of(path, run);
    assert_ok(store_open(path, STORE_WRITE, &s));
    for (int64_t i = 0; i < 2; i++) {
        assert_ok(store_token(s, &(struct store_token){.run_id = run,
                                                       .seq = 1000000,
                                                       .idx = i,
                                                       .t_ns = 5 + 2 * i,
                                                       .gap_ns = i ? 2 : STORE_NULL,
                                                       .n_tokens = 1}));
    }
    assert_ok(store_events_each(s, run, add_events, &t));
    assert_int_equal(t.n, before.n + 2);
    assert_ok(store_flush(s));
    assert_int_equal(number(path, sql), 0);
    assert_ok(store_run_finish(s, run, &(struct store_run_end){.status = "done"}));
    assert_int_equal(number(path, sql), n + 1);
    assert_ok(store_close(s));
    assert_int_equal(events_of(path, run).n, before.n + 2);
    test_rmdir(dir);
}

static void test_events_that_cannot_be_packed_stay_rows(void **state) {
    (void)state;
    static const char *const changes[] = {
        "UPDATE token_event SET gap_ns = gap_ns + 1 WHERE run_id = 2 AND seq = 9 AND idx = 3",
        "UPDATE token_event SET gap_ns = 0 WHERE run_id = 2 AND seq = 9 AND idx = 0",
        "DELETE FROM token_event WHERE run_id = 2 AND seq = 9 AND idx = 3"};
    for (int32_t i = 0; i < ARRAY_LEN(changes); i++) {
        char dir[FILE_PATH_MAX];
        char path[FILE_PATH_MAX];
        struct db_fixture f;
        struct store *s = NULL;
        make_db(dir, path, &f);
        run_sql(path, "DELETE FROM token_pack");
        run_sql(path, changes[i]);
        assert_ok(store_open(path, STORE_WRITE, &s));
        assert_ok(store_run_finish(s, 2, &(struct store_run_end){.status = "done"}));
        assert_ok(store_run_finish(s, 1, &(struct store_run_end){.status = "done"}));
        assert_ok(store_close(s));
        assert_int_equal(number(path, "SELECT count(*) FROM token_pack WHERE run_id = 2"), 0);
        assert_true(number(path, "SELECT count(*) FROM token_pack WHERE run_id = 1") > 0);
        assert_int_equal(events_of(path, 2).n,
                         number(path, "SELECT count(*) FROM token_event WHERE run_id = 2"));
        test_rmdir(dir);
    }
}

static void test_events_damaged_pack_is_an_error(void **state) {
    (void)state;
    static const char *const changes[] = {
        "UPDATE token_pack SET data = substr(data, 1, length(data) - 1)",
        "UPDATE token_pack SET n_events = n_events + 1", "UPDATE token_pack SET n_events = -1",
        "UPDATE token_pack SET n_events = 9000000000000", "UPDATE token_pack SET data = x''"};
    char dir[FILE_PATH_MAX];
    char path[FILE_PATH_MAX];
    struct db_fixture f;
    struct report r;
    make_db(dir, path, &f);
    for (int32_t i = 0; i < ARRAY_LEN(changes); i++) {
        struct store *s = NULL;
        run_sql(path, changes[i]);
        assert_ok(store_open(path, STORE_READ, &s));
        assert_err(summary_read(s, 0, &r), ERR_FORMAT, "packed");
        assert_ok(store_close(s));
    }
    test_rmdir(dir);
}

static void test_store_open_brings_version_2_up(void **state) {
    (void)state;
    char dir[FILE_PATH_MAX];
    char path[FILE_PATH_MAX];
    struct db_fixture f;
    struct store *s = NULL;
    struct report r;
    make_db(dir, path, &f);
    run_sql(path, "DROP VIEW v_pack_error; DROP VIEW v_token_pack; DROP TABLE token_pack; "
                  "CREATE VIEW \"v \"\"old\"\"\" AS SELECT 1; PRAGMA user_version = 2");
    assert_err(store_open(path, STORE_READ, &s), ERR_UNSUPPORTED, "version 2");
    assert_ok(store_open(path, STORE_WRITE, &s));
    assert_ok(summary_read(s, 0, &r));
    assert_true(r.runs[0].dist[1].n > 1000);
    summary_fini(&r);
    assert_ok(store_close(s));
    assert_int_equal(number(path, "SELECT count(*) FROM sqlite_schema WHERE name LIKE '%old%'"), 0);
    assert_int_equal(number(path, "PRAGMA user_version"), STORE_VERSION);
    test_rmdir(dir);
}

/* The means that the summary takes in its one pass are those of the view. */
static void test_summary_peers_equal_their_view(void **state) {
    (void)state;
    char dir[FILE_PATH_MAX];
    char path[FILE_PATH_MAX];
    struct db_fixture f;
    struct store *s = NULL;
    struct store_rows *rows = NULL;
    struct report r;
    bool has = false;
    make_db(dir, path, &f);
    assert_ok(store_open(path, STORE_READ, &s));
    assert_ok(summary_read(s, 0, &r));
    assert_int_equal(r.n_peers, 6 * r.n_runs);
    for (int32_t i = 0; i < r.n_peers; i++) {
        const struct report_peer *p = &r.peers[i];
        bool found = false;
        assert_ok(store_rows_open(s, "v_peers",
                                  "definition, ttft_s, tpot_s, itl_s, e2e_s, output_tokens_per_s",
                                  "run_id", r.runs[p->run].run_id, NULL, &rows));
        for (assert_ok(store_rows_next(rows, &has)); has; assert_ok(store_rows_next(rows, &has))) {
            if (!str_eq(store_rows_str(rows, 0), p->definition)) {
                continue;
            }
            found = true;
            assert_rel(p->ttft_s, store_rows_f64(rows, 1), 1e-12);
            assert_rel(p->tpot_s, store_rows_f64(rows, 2), 1e-12);
            assert_rel(p->itl_s, store_rows_f64(rows, 3), 1e-9);
            assert_rel(p->e2e_s, store_rows_f64(rows, 4), 1e-12);
            if (!str_eq(p->definition, "Trilemma")) {
                assert_rel(p->output_tokens_per_s, store_rows_f64(rows, 5), 1e-12);
            }
        }
        store_rows_close(rows);
        assert_true(found);
    }
    summary_fini(&r);
    assert_ok(store_close(s));
    test_rmdir(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_events_from_pack_equal_those_from_rows),
        TEST(test_events_append_drops_the_pack_and_finish_makes_it_anew),
        TEST(test_events_that_cannot_be_packed_stay_rows),
        TEST(test_events_damaged_pack_is_an_error),
        TEST(test_store_open_brings_version_2_up),
        TEST(test_summary_peers_equal_their_view),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
