/* Ctrl-C and kill -9: what was measured is kept, nothing is half-written. */
#include "tests/support/cli.h"

#include <dirent.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include <sqlite3.h>

#include "tests/support/tiny.h"

static char dir[FILE_PATH_MAX];

/* A load that would go on for ten minutes, behind a short one. */
static const char scenario[] =
    "scenario: long\ntargets:\n  base: {engine: {model: llama, threads: 1}}\n"
    "workload: {synthetic: {input: {fixed: 16}, output: {fixed: 8}}}\n"
    "arrival: {constant: {rate: [40/s, 41/s]}}\nduration: 600s\n";

static int make(void **state) {
    (void)state;
    test_tmpdir(dir);
    tiny_model(dir, "llama", 1 << 20);
    tiny_text(dir, "text.txt", 4000);
    tiny_ids(dir, "good.json", 40, TINY_VOCAB);
    tiny_file(dir, "long.yaml", scenario);
    return 0;
}

static int unmake(void **state) {
    (void)state;
    test_rmdir(dir);
    return 0;
}

static double one_number(const char *name, const char *sql) {
    char path[FILE_PATH_MAX];
    sqlite3 *db = NULL;
    sqlite3_stmt *q = NULL;
    double v = (double)NAN;
    assert_ok(file_join(path, dir, name));
    if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL) == SQLITE_OK &&
        sqlite3_prepare_v2(db, sql, -1, &q, NULL) == SQLITE_OK && sqlite3_step(q) == SQLITE_ROW) {
        v = sqlite3_column_double(q, 0);
    }
    sqlite3_finalize(q);
    sqlite3_close(db);
    return v;
}

struct wait {
    const char *db;
    double n_tok;  /* rows wanted */
    double n_seen; /* out: rows committed */
    double at_s;   /* out: time of the last one */
    double gap_s;  /* out: longest stretch of events between two commits */
};

/* True once so many events are committed. */
static bool has_tokens(void *ctx, const char *out, const char *err) {
    struct wait *w = ctx;
    (void)out;
    (void)err;
    double before_s = w->at_s;
    w->n_seen = one_number(w->db, "SELECT count(*) FROM token_event");
    w->at_s = one_number(w->db, "SELECT max(t_ns) * 1e-9 FROM token_event");
    w->gap_s = before_s > 0 ? fmax(w->gap_s, w->at_s - before_s) : 0;
    return w->n_seen >= w->n_tok;
}

static bool has_output(void *ctx, const char *out, const char *err) {
    (void)ctx;
    (void)err;
    return out[0] != '\0';
}

static bool has_progress(void *ctx, const char *out, const char *err) {
    (void)ctx;
    (void)out;
    return strstr(err, " %  ETA ") != NULL;
}

static void check_sound(const char *db) {
    assert_true(one_number(db, "SELECT count(*) FROM pragma_integrity_check WHERE "
                               "integrity_check = 'ok'") == 1);
    assert_true(one_number(db, "SELECT count(*) FROM v_gap_error") == 0);
}

static void test_interrupt_run(void **state) {
    (void)state;
    struct wait w = {.db = "int.db", .n_tok = 40};
    const char *const args[] = {"run", "long.yaml", "--db", "int.db", NULL};
    struct cli_opts o = {.cwd = dir, .signal = SIGINT, .when = has_tokens, .ctx = &w, .watch = dir};
    struct cli_result r;
    cli_run(&o, args, &r);
    assert_int_equal(r.code, 4);
    cli_check_error(&r, "interrupted; what was measured is in int.db");
    cli_fini(&r);
    check_sound("int.db");
    assert_true(one_number("int.db", "SELECT count(*) FROM token_event") >= w.n_seen);
    assert_true(one_number("int.db", "SELECT count(*) FROM run") == 1);
    assert_true(one_number("int.db", "SELECT count(*) FROM run WHERE status = 'aborted' AND "
                                     "verdict = 'INCONCLUSIVE' AND end_ns > 0") == 1);
    assert_true(one_number("int.db", "SELECT count(*) FROM session WHERE status = 'aborted' AND "
                                     "end_wall_ns > start_wall_ns") == 1);
    assert_true(one_number("int.db", "SELECT count(*) FROM request WHERE end_ns IS NULL") == 0);
    assert_true(one_number("int.db", "SELECT count(*) FROM request WHERE error_class NOT IN "
                                     "('interrupted')") == 0);
    cli_line(dir, 0, &r, "report int.db --text");
    assert_non_null(strstr(buf_cstr(&r.out), "aborted"));
    cli_fini(&r);
}

/* Events are committed within a second, so what a killed process loses is at most that. */
static void test_kill_run(void **state) {
    (void)state;
    struct wait w = {.db = "kill.db", .n_tok = 400};
    const char *const args[] = {"run", "long.yaml", "--db", "kill.db", NULL};
    struct cli_opts o = {
        .cwd = dir, .signal = SIGKILL, .when = has_tokens, .ctx = &w, .watch = dir};
    struct cli_result r;
    cli_run(&o, args, &r);
    assert_int_equal(r.code, 128 + SIGKILL);
    cli_fini(&r);
    check_sound("kill.db");
    assert_true(one_number("kill.db", "SELECT count(*) FROM token_event") >= w.n_seen);
    /* a second, one arrival, and a round of the recorder on a busy machine */
    assert_true(w.gap_s > 0 && w.gap_s < 1.5);
    assert_true(one_number("kill.db", "SELECT count(*) FROM run WHERE status = 'running'") == 1);
    cli_line(dir, 0, &r, "report kill.db --text");
    cli_fini(&r);
    /* and the file takes the next session */
    cli_line(dir, 0, &r,
             "eval llama --dataset text.txt --window 32 --tokens 64 --db kill.db --kl llama");
    cli_fini(&r);
}

static void test_interrupt_generate(void **state) {
    (void)state;
    const char *const args[] = {"generate",     "llama",  "-p",           "hello",
                                "--max-tokens", "900000", "--ignore-eos", NULL};
    struct cli_opts o = {.cwd = dir, .signal = SIGINT, .when = has_output};
    struct cli_result r;
    cli_run(&o, args, &r);
    assert_int_equal(r.code, 4);
    assert_non_null(strstr(buf_cstr(&r.err), "abort]"));
    assert_non_null(strstr(buf_cstr(&r.err), "trilemma generate: interrupted after "));
    assert_true(r.out.len > 0);
    cli_fini(&r);
}

static void check_nothing_written(const char *folder) {
    char path[FILE_PATH_MAX];
    assert_ok(file_join(path, dir, folder));
    DIR *d = opendir(path);
    for (const struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d)) {
        if (e->d_name[0] != '.') {
            fail_msg("%s/%s is left", folder, e->d_name);
        }
    }
    if (d) {
        closedir(d);
    }
}

static void test_interrupt_quantize(void **state) {
    (void)state;
    const char *const args[] = {
        "quantize",        "llama", "--group",   "32",  "--calib", "text.txt", "--samples", "24",
        "--sample-tokens", "256",   "--backend", "ref", "--out",   "q",        NULL};
    struct cli_opts o = {.cwd = dir, .signal = SIGINT, .when = has_output};
    struct cli_result r;
    cli_run(&o, args, &r);
    assert_int_equal(r.code, 4);
    cli_check_error(&r, "interrupted");
    cli_fini(&r);
    check_nothing_written("q");
}

/* The bar on a terminal is the sign that scoring has begun. */
static void test_interrupt_eval(void **state) {
    (void)state;
    char path[FILE_PATH_MAX];
    const char *const args[] = {"eval", "llama",    "--dataset", "text.txt",  "--window",
                                "512",  "--stride", "2",         "--backend", "ref",
                                "--db", "eval.db",  NULL};
    struct cli_opts o = {.cwd = dir, .err_tty = true, .signal = SIGINT, .when = has_progress};
    struct cli_result r;
    cli_run(&o, args, &r);
    assert_int_equal(r.code, 4);
    assert_non_null(strstr(buf_cstr(&r.err), "evaluate ["));
    assert_non_null(strstr(buf_cstr(&r.err), "trilemma eval: interrupted"));
    assert_int_equal(r.out.len, 0);
    cli_fini(&r);
    assert_ok(file_join(path, dir, "eval.db"));
    assert_false(file_exists(path));
}

/* One request an hour: the sender must not sleep through Ctrl-C. */
static void test_interrupt_while_nothing_is_sent(void **state) {
    (void)state;
    struct wait w = {.db = "idle.db", .n_tok = 4};
    const char *const args[] = {"run", "idle.yaml", "--db", "idle.db", NULL};
    struct cli_opts o = {.cwd = dir, .signal = SIGINT, .when = has_tokens, .ctx = &w, .watch = dir};
    struct cli_result r;
    tiny_file(dir, "idle.yaml",
              "scenario: idle\ntargets:\n  base: {engine: {model: llama, threads: 1}}\n"
              "workload: {synthetic: {input: {fixed: 16}, output: {fixed: 8}}}\n"
              "arrival: {constant: {rate: 1/h}}\nduration: 5h\n");
    cli_run(&o, args, &r);
    assert_int_equal(r.code, 4);
    cli_fini(&r);
    check_sound("idle.db");
    assert_true(one_number("idle.db", "SELECT count(*) FROM request WHERE error_class IS NULL AND "
                                      "end_ns > 0") == 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_interrupt_run),      TEST(test_kill_run),
        TEST(test_interrupt_generate), TEST(test_interrupt_quantize),
        TEST(test_interrupt_eval),     TEST(test_interrupt_while_nothing_is_sent)};
    return cmocka_run_group_tests(tests, make, unmake);
}
