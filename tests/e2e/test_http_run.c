/* trilemma run against servers over HTTP: what the truth server did stands in the database and on
 * the report; what goes wrong is told apart. LABELS: threads */
#include "tests/support/cli.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include <sqlite3.h>

#include "engine/base/buf.h"
#include "harness/corpus.h"
#include "harness/truth.h"
#include "tests/support/api_server.h"
#include "tests/support/tiny.h"

static char dir[FILE_PATH_MAX];

static int make(void **state) {
    (void)state;
    test_tmpdir(dir);
    return 0;
}

static int unmake(void **state) {
    (void)state;
    test_rmdir(dir);
    return 0;
}

static const char load[] = "workload: {synthetic: {input: {fixed: 8}, output: {fixed: 6}}}\n";

/* Writes a scenario: targets and the lines behind the workload. */
static void scenario(const char *name, const char *targets, const char *lines) {
    struct buf b;
    buf_init(&b, MEM_TEST, 1 << 20);
    assert_ok(buf_fmt(&b, "scenario: h\nseed: 3\ntargets:\n%s%s%s", targets, load, lines));
    tiny_file(dir, name, buf_cstr(&b));
    buf_fini(&b);
}

static sqlite3 *open_db(const char *name) {
    char path[FILE_PATH_MAX];
    sqlite3 *db = NULL;
    assert_ok(file_join(path, dir, name));
    assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    return db;
}

static double number(const char *name, const char *sql) {
    sqlite3 *db = open_db(name);
    sqlite3_stmt *q = NULL;
    double v = (double)NAN;
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &q, NULL), SQLITE_OK);
    if (sqlite3_step(q) == SQLITE_ROW && sqlite3_column_type(q, 0) != SQLITE_NULL) {
        v = sqlite3_column_double(q, 0);
    }
    sqlite3_finalize(q);
    sqlite3_close(db);
    return v;
}

static bool is(const char *name, const char *sql, double want) {
    double v = number(name, sql);
    if (v < want || v > want || isnan(v)) {
        print_error("%s: %g, want %g\n", sql, v, want);
        return false;
    }
    return true;
}

static void test_http_run_stores_what_the_server_did(void **state) {
    (void)state;
    enum { N = 40 };
    struct cli_result r;
    struct truth *t = NULL;
    char target[256];
    assert_ok(truth_open(&(struct truth_opts){.ttft_ns = 20000000, .itl_ns = 3000000}, &t));
    snprintf(target, sizeof target, "  far: {http: {url: \"%s/v1\", model: m}}\n", truth_url(t));
    scenario("ok.yaml", target, "arrival: {constant: {rate: 100/s}}\nrequests: 40\n");
    cli_line(dir, 0, &r, "run ok.yaml --db ok.db");
    cli_fini(&r);
    truth_stop(t);
    assert_true(is("ok.db", "SELECT count(*) FROM v_request WHERE ok", N));
    assert_true(is("ok.db", "SELECT count(*) FROM token_event", N * 6));
    assert_true(is("ok.db", "SELECT count(*) FROM v_gap_error", 0));
    assert_true(is("ok.db", "SELECT count(*) FROM request_http WHERE status = 200", N));
    assert_true(is("ok.db", "SELECT count(*) FROM v_http WHERE token_count = 'event'", N));
    assert_true(is("ok.db",
                   "SELECT count(*) FROM request WHERE n_output_is_estimated = 0 AND "
                   "n_prompt = 8 AND n_output = 6 AND finish_reason = 'length'",
                   N));
    /* the order of things, for every request */
    assert_true(
        is("ok.db",
           "SELECT count(*) FROM request q JOIN request_http h USING (run_id, seq) WHERE "
           "q.intended_start_ns <= h.handed_ns AND h.handed_ns <= h.first_write_ns AND "
           "h.first_write_ns = q.actual_start_ns AND h.first_write_ns <= h.first_read_ns AND "
           "h.first_read_ns <= q.first_event_ns AND q.first_event_ns <= q.first_token_ns AND "
           "q.first_token_ns <= q.last_token_ns AND q.last_token_ns <= q.end_ns",
           N));
    /* the role chunk is no token: what was planned can only be late */
    assert_true(is("ok.db", "SELECT min(ttft_service_s) >= 0.02 FROM v_request", 1));
    assert_true(is("ok.db",
                   "SELECT kind = 'http' AND detail LIKE 'http://127.0.0.1:%, m, chat, "
                   "openai' FROM target",
                   1));
    int32_t n = 0;
    truth_records(t, &n);
    assert_int_equal(n, N);
    cli_line(dir, 0, &r, "report ok.db --text");
    assert_non_null(strstr(buf_cstr(&r.out), "far"));
    cli_fini(&r);
    truth_close(t);
}

/* A target for each kind of fault: its class, in the database and on the report. */
static void test_http_run_faults_have_classes(void **state) {
    (void)state;
    static const struct {
        const char *name;
        const char *want;
    } rows[] = {{"no_done", "no_done"},         {"early_fin", "early_fin"},
                {"early_rst", "reset"},         {"stall", "stalled"},
                {"error_event", "error_event"}, {"bad_json", "bad_json"},
                {"not_sse", "not_sse"},         {"error_body", "error_body"},
                {"http_400", "http_4xx"},       {"http_429", "rate_limited"},
                {"http_503", "http_5xx"},       {"empty_stream", "empty_stream"},
                {"no_answer", "no_answer"},     {"bad_shape", "bad_shape"}};
    struct cli_result r;
    struct truth *t = NULL;
    struct buf targets;
    assert_ok(truth_open(&(struct truth_opts){0}, &t));
    buf_init(&targets, MEM_TEST, 1 << 16);
    for (int32_t i = 0; i < ARRAY_LEN(rows); i++) {
        assert_ok(buf_fmt(&targets, "  t%d: {http: {url: \"%s/%s/v1\", model: m, stall: 100ms}}\n",
                          i, truth_url(t), rows[i].name));
    }
    scenario("faults.yaml", buf_cstr(&targets), "arrival: {burst: {requests: 3}}\n");
    buf_fini(&targets);
    cli_line(dir, 0, &r, "run faults.yaml --db faults.db");
    cli_fini(&r);
    cli_line(dir, 0, &r, "report faults.db --json");
    for (int32_t i = 0; i < ARRAY_LEN(rows); i++) {
        char sql[256];
        snprintf(sql, sizeof sql,
                 "SELECT count(*) FROM v_request q JOIN v_run r USING (run_id) WHERE r.target = "
                 "'t%d' AND NOT ok AND q.error_class = '%s'",
                 i, rows[i].want);
        assert_true(is("faults.db", sql, 3));
        snprintf(sql, sizeof sql, "\"%s\"", rows[i].want);
        assert_non_null(strstr(buf_cstr(&r.out), sql));
    }
    cli_fini(&r);
    assert_true(is("faults.db",
                   "SELECT count(DISTINCT retry_after_ns) FROM request_http WHERE "
                   "retry_after_ns = 2000000000",
                   1));
    assert_true(is("faults.db",
                   "SELECT count(*) FROM request WHERE error_text = 'out of order' "
                   "AND error_class = 'error_body'",
                   3));
    cli_line(dir, 0, &r, "report faults.db --text");
    for (int32_t i = 0; i < ARRAY_LEN(rows); i++) {
        assert_non_null(strstr(buf_cstr(&r.out), rows[i].want));
    }
    cli_fini(&r);
    truth_close(t);
}

/* The server tells only the sum: three tokens an event, each gap a third of what it is. */
static void test_http_run_spreads_tokens(void **state) {
    (void)state;
    struct cli_result r;
    struct truth *t = NULL;
    char target[256];
    assert_ok(truth_open(&(struct truth_opts){.itl_ns = 2000000, .per_event = 3}, &t));
    snprintf(target, sizeof target, "  far: {http: {url: \"%s/v1\", model: m}}\n", truth_url(t));
    scenario("sum.yaml", target, "arrival: {burst: {requests: 4}}\n");
    cli_line(dir, 0, &r, "run sum.yaml --db sum.db");
    cli_fini(&r);
    truth_close(t);
    assert_true(is("sum.db", "SELECT count(*) FROM token_event WHERE n_tokens = 3", 8));
    assert_true(is("sum.db",
                   "SELECT count(*) FROM request WHERE n_output = 6 AND n_output_first = "
                   "3 AND n_output_is_estimated = 0",
                   4));
    assert_true(is("sum.db", "SELECT count(*) FROM request_http WHERE token_count = 'spread'", 4));
    assert_true(is("sum.db",
                   "SELECT sum(abs(tpot_s - i.value_s) < 1e-9) FROM v_request JOIN v_itl "
                   "i USING (run_id, seq)",
                   4));
}

/* One scenario for the engine's stand-ins: nobody, and a server. */
static void test_http_run_null_target(void **state) {
    (void)state;
    struct cli_result r;
    scenario("null.yaml", "  none: {null: {ttft: 10ms, itl: 2ms, tokens: 5}}\n",
             "arrival: {closed: {concurrency: 4}}\nrequests: 40\n");
    cli_line(dir, 0, &r, "run null.yaml --db null.db");
    cli_fini(&r);
    assert_true(is("null.db", "SELECT count(*) FROM request WHERE error_class IS NULL", 40));
    assert_true(is("null.db",
                   "SELECT count(*) FROM request WHERE first_token_ns - actual_start_ns "
                   "= 10000000 AND last_token_ns - first_token_ns = 8000000",
                   40));
    assert_true(is("null.db", "SELECT count(*) FROM token_event WHERE gap_ns = 2000000", 160));
    assert_true(is("null.db", "SELECT count(*) FROM request_http", 0));
}

/* The same scenario in the process and over HTTP: with the model's tokenizer both are asked the
 * same ids, request by request. */
static void test_http_run_beside_the_engine(void **state) {
    (void)state;
    struct cli_result r;
    struct truth *t = NULL;
    char targets[512];
    tiny_model(dir, "llama", 512);
    assert_ok(truth_open(&(struct truth_opts){0}, &t));
    snprintf(targets, sizeof targets,
             "  base: {engine: {model: llama, threads: 1}}\n"
             "  far: {http: {url: \"%s/v1\", model: m, api: completions, dialect: vllm, tokenizer: "
             "llama}}\n  none: {null: {}}\n",
             truth_url(t));
    scenario("both.yaml", targets, "arrival: {burst: {requests: 12}}\n");
    cli_line(dir, 0, &r, "run both.yaml --db both.db");
    cli_fini(&r);
    truth_close(t);
    assert_true(is("both.db",
                   "SELECT count(*) FROM request WHERE error_class IS NULL AND n_output "
                   "= 6",
                   36));
    assert_true(is("both.db",
                   "SELECT count(*) FROM request a JOIN request b USING (seq, "
                   "prompt_hash) WHERE a.run_id = 1 AND b.run_id = 2",
                   12));
    cli_line(dir, 0, &r, "report both.db --text");
    assert_non_null(strstr(buf_cstr(&r.out), "none"));
    cli_fini(&r);
}

/* Our own server, by every endpoint that it has: counts are its running ones, and exact. */
static void test_http_run_against_our_server(void **state) {
    (void)state;
    struct cli_result r;
    struct api_server sv;
    char targets[640];
    api_server_start(&sv, "cpu", NULL);
    snprintf(
        targets, sizeof targets,
        "  chat: {http: {url: \"http://127.0.0.1:%d/v1\", model: tiny, dialect: vllm}}\n"
        "  plain: {http: {url: \"http://127.0.0.1:%d/v1\", model: tiny, dialect: vllm, api: "
        "completions}}\n"
        "  whole: {http: {url: \"http://127.0.0.1:%d/v1\", model: tiny, dialect: vllm, stream: "
        "false}}\n",
        sv.port, sv.port, sv.port);
    scenario("ours.yaml", targets, "arrival: {closed: {concurrency: 3}}\nrequests: 12\n");
    cli_line(dir, 0, &r, "run ours.yaml --db ours.db");
    cli_fini(&r);
    api_server_stop(&sv);
    assert_true(is("ours.db",
                   "SELECT count(*) FROM request WHERE error_class IS NULL AND n_output "
                   "= 6 AND finish_reason = 'length' AND n_output_is_estimated = 0",
                   36));
    /* a random model also says bytes that are no text: tokens without an event */
    assert_true(is("ours.db", "SELECT count(*) FROM v_http WHERE token_count <> 'usage'", 0));
    assert_true(is("ours.db",
                   "SELECT count(*) FROM (SELECT sum(n_tokens) AS n FROM token_event GROUP BY "
                   "run_id, seq) WHERE n > 6",
                   0));
    assert_true(number("ours.db", "SELECT count(DISTINCT seq) FROM token_event WHERE run_id = 1") >
                0);
    assert_true(is("ours.db",
                   "SELECT count(*) FROM request WHERE run_id = 3 AND first_token_ns IS "
                   "NOT NULL",
                   0));
}

/* The key reaches the server, and nothing that is written. */
static void test_http_run_key_is_nowhere(void **state) {
    (void)state;
    static const char *const env[] = {"MY_KEY=sk-very-secret-77", NULL};
    const char *const args[] = {"run", "key.yaml", "--db", "key.db", NULL};
    const struct cli_opts o = {.cwd = dir, .env = env};
    struct cli_result r;
    struct truth *t = NULL;
    struct buf whole;
    char target[256];
    char path[FILE_PATH_MAX];
    assert_ok(truth_open(&(struct truth_opts){0}, &t));
    snprintf(target, sizeof target,
             "  far: {http: {url: \"%s/echo/v1\", model: m, key_env: MY_KEY}}\n", truth_url(t));
    scenario("key.yaml", target, "arrival: {burst: {requests: 3}}\n");
    cli_run(&o, args, &r);
    assert_int_equal(r.code, 0);
    assert_null(strstr(buf_cstr(&r.out), "secret"));
    assert_null(strstr(buf_cstr(&r.err), "secret"));
    cli_fini(&r);
    /* the server sent the field back as the text of an error */
    assert_true(
        is("key.db", "SELECT count(*) FROM request WHERE error_text LIKE '%Bearer ****%'", 3));
    assert_ok(file_join(path, dir, "key.db"));
    buf_init(&whole, MEM_TEST, 1 << 26);
    assert_ok(file_read(path, &whole));
    assert_null(memmem(buf_cstr(&whole), (size_t)whole.len, "very-secret", 11));
    buf_fini(&whole);
    truth_close(t);
    cli_says(dir, 3, "the environment variable MY_KEY is not set", "run key.yaml --db nokey.db");
}

struct away {
    struct truth **truth;
    int32_t port;
    int32_t step;
};

/* Stops the server once requests have succeeded, and starts it again once some have failed. */
static bool toggle(void *ctx, const char *out, const char *err) {
    struct away *a = ctx;
    char path[FILE_PATH_MAX];
    (void)out;
    (void)err;
    assert_ok(file_join(path, dir, "away.db"));
    if (!file_exists(path) || file_size(path) == 0) {
        return false;
    }
    sqlite3 *db = NULL;
    sqlite3_stmt *q = NULL;
    double n_ok = 0;
    double n_bad = 0;
    if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL) == SQLITE_OK &&
        sqlite3_prepare_v2(db,
                           "SELECT sum(error_class IS NULL AND end_ns > 0), "
                           "sum(error_class = 'connect') FROM request",
                           -1, &q, NULL) == SQLITE_OK &&
        sqlite3_step(q) == SQLITE_ROW) {
        n_ok = sqlite3_column_double(q, 0);
        n_bad = sqlite3_column_double(q, 1);
    }
    sqlite3_finalize(q);
    sqlite3_close(db);
    if (a->step == 0 && n_ok >= 20) {
        truth_close(*a->truth);
        *a->truth = NULL;
        a->step = 1;
    } else if (a->step == 1 && n_bad >= 80) {
        assert_ok(truth_open(&(struct truth_opts){.port = a->port}, a->truth));
        a->step = 2;
    }
    return false;
}

static void run_away(const char *on_error, int code, struct cli_result *r) {
    const char *const args[] = {"run", "away.yaml", "--db", "away.db", NULL};
    struct truth *t = NULL;
    char target[256];
    assert_ok(truth_open(&(struct truth_opts){0}, &t));
    struct away a = {.truth = &t, .port = truth_port(t)};
    const struct cli_opts o = {
        .cwd = dir, .signal = SIGCONT, .when = toggle, .ctx = &a, .watch = dir};
    snprintf(target, sizeof target, "  far: {http: {url: \"%s/v1\", model: m, on_error: %s}}\n",
             truth_url(t), on_error);
    scenario("away.yaml", target, "arrival: {constant: {rate: 50/s}}\nduration: 6s\n");
    cli_run(&o, args, r);
    assert_int_equal(r->code, code);
    assert_true(a.step > 0);
    truth_close(t);
}

static void remove_away(void) {
    static const char *const names[] = {"away.db", "away.db-wal", "away.db-shm"};
    for (int32_t i = 0; i < ARRAY_LEN(names); i++) {
        char path[FILE_PATH_MAX];
        assert_ok(file_join(path, dir, names[i]));
        remove(path);
    }
}

static void test_http_run_goes_on_without_the_server(void **state) {
    (void)state;
    struct cli_result r;
    remove_away();
    run_away("continue", 0, &r);
    assert_non_null(strstr(buf_cstr(&r.out), "no answer at all from the target for "));
    cli_fini(&r);
    assert_true(is("away.db", "SELECT count(*) FROM request", 300));
    assert_true(is("away.db", "SELECT count(*) FROM request WHERE end_ns IS NULL", 0));
    assert_true(
        is("away.db", "SELECT count(*) FROM note WHERE text LIKE '%gives no answer for%'", 1));
    assert_true(is("away.db", "SELECT count(*) FROM note WHERE text LIKE '%answers again%'", 1));
    assert_true(
        is("away.db", "SELECT error_class IS NULL FROM request ORDER BY seq DESC LIMIT 1", 1));
}

static void test_http_run_stops_without_the_server(void **state) {
    (void)state;
    struct cli_result r;
    remove_away();
    run_away("stop", 4, &r);
    cli_check_error(&r, "far 50/s: no answer for ");
    cli_fini(&r);
    assert_true(is("away.db", "SELECT status = 'aborted' FROM run", 1));
    assert_true(is("away.db", "SELECT count(*) FROM request WHERE end_ns IS NULL", 0));
    assert_true(number("away.db", "SELECT count(*) FROM request") < 300);
}

static bool has_tokens(void *ctx, const char *out, const char *err) {
    (void)ctx;
    (void)out;
    (void)err;
    char path[FILE_PATH_MAX];
    assert_ok(file_join(path, dir, "int.db"));
    sqlite3 *db = NULL;
    sqlite3_stmt *q = NULL;
    int n = 0;
    if (file_exists(path) && file_size(path) > 0 &&
        sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL) == SQLITE_OK &&
        sqlite3_prepare_v2(db, "SELECT count(*) FROM token_event", -1, &q, NULL) == SQLITE_OK &&
        sqlite3_step(q) == SQLITE_ROW) {
        n = sqlite3_column_int(q, 0);
    }
    sqlite3_finalize(q);
    sqlite3_close(db);
    return n >= 40;
}

static void test_http_run_interrupted_keeps_events(void **state) {
    (void)state;
    const char *const args[] = {"run", "int.yaml", "--db", "int.db", NULL};
    const struct cli_opts o = {.cwd = dir, .signal = SIGINT, .when = has_tokens, .watch = dir};
    struct cli_result r;
    struct truth *t = NULL;
    char target[256];
    assert_ok(truth_open(&(struct truth_opts){.itl_ns = 5000000, .tokens = 1000000}, &t));
    snprintf(target, sizeof target, "  far: {http: {url: \"%s/v1\", model: m}}\n", truth_url(t));
    scenario("int.yaml", target, "arrival: {constant: {rate: 20/s}}\nduration: 600s\n");
    cli_run(&o, args, &r);
    assert_int_equal(r.code, 4);
    cli_check_error(&r, "interrupted; what was measured is in int.db");
    cli_fini(&r);
    assert_true(number("int.db", "SELECT count(*) FROM token_event") >= 40);
    assert_true(is("int.db",
                   "SELECT count(*) FROM request WHERE end_ns IS NULL OR error_class <> "
                   "'interrupted'",
                   0));
    assert_true(is("int.db", "SELECT status = 'aborted' FROM session", 1));
    truth_close(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {TEST(test_http_run_stores_what_the_server_did),
                                       TEST(test_http_run_faults_have_classes),
                                       TEST(test_http_run_spreads_tokens),
                                       TEST(test_http_run_null_target),
                                       TEST(test_http_run_beside_the_engine),
                                       TEST(test_http_run_against_our_server),
                                       TEST(test_http_run_key_is_nowhere),
                                       TEST(test_http_run_goes_on_without_the_server),
                                       TEST(test_http_run_stops_without_the_server),
                                       TEST(test_http_run_interrupted_keeps_events)};
    return cmocka_run_group_tests(tests, make, unmake);
}
