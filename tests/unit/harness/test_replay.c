/* The replay on a tiny model: every request is accounted for, whatever happens. LABELS: threads */
#include "tests/support/support.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/run/model.h"
#include "harness/replay.h"
#include "harness/target_engine.h"
#include "reports/summary.h"

struct bench {
    char dir[FILE_PATH_MAX];
    char db[FILE_PATH_MAX];
    struct model *model;
    struct engine *engine;
    struct target *target;
    struct scenario sc;
    struct load load;
    struct store *store;
    int64_t session_id;
    int64_t run_id;
    struct replay_result res;
};

static void begin_rows(struct bench *b) {
    int64_t target = 0;
    const struct store_session s = {.kind = "run", .scenario_name = "t", .start_wall_ns = 1};
    assert_ok(store_open(b->db, STORE_WRITE, &b->store));
    assert_ok(store_session_begin(b->store, &s, &b->session_id));
    const struct store_target t = {
        .session_id = b->session_id, .name = "a", .kind = "engine", .checkpoint_id = STORE_NULL};
    assert_ok(store_target(b->store, &t, &target));
    const struct store_run r = {.session_id = b->session_id,
                                .target_id = target,
                                .point = "p",
                                .point_value = 1,
                                .arrival = "any",
                                .start_wall_ns = 1};
    assert_ok(store_run_begin(b->store, &r, &b->run_id));
}

/* lines: of the scenario behind its targets */
static void setup(struct bench *b, const char *lines, const struct engine_opts *eo) {
    char text[1024];
    struct engine_stats es;
    memset(b, 0, sizeof *b);
    test_tmpdir(b->dir);
    assert_ok(file_join(b->db, b->dir, "r.db"));
    int n = snprintf(text, sizeof text,
                     "scenario: t\nseed: 4\ntargets: {a: {engine: {model: m}}}\n%s", lines);
    assert_ok(scenario_parse("t", text, n, &b->sc));
    assert_ok(model_open(test_golden("models/llama"), NULL, &b->model));
    assert_ok(engine_open(b->model->weights, eo, &b->engine));
    assert_ok(target_engine_open(b->engine, &b->target));
    engine_stats(b->engine, &es);
    assert_ok(load_init(&b->load, &b->sc, b->model->weights->cfg.vocab, es.ctx_max));
    begin_rows(b);
}

static int replay(struct bench *b,
                  int (*progress)(void *ctx, double t, double all, int64_t done, int64_t offered)) {
    struct replay_opts o = {.sc = &b->sc,
                            .load = &b->load,
                            .target = b->target,
                            .store = b->store,
                            .run_id = b->run_id,
                            .progress = progress,
                            .ctx = b};
    return replay_run(&o, &b->res);
}

static void teardown(struct bench *b) {
    (void)store_close(b->store);
    load_fini(&b->load);
    target_close(b->target);
    engine_close(b->engine);
    model_close(b->model);
    scenario_fini(&b->sc);
    test_rmdir(b->dir);
}

struct row {
    int64_t seq;
    double start_s;
    double end_s;
    bool ok;
    char error_class[32];
    int64_t n_output;
    double send_lag_s;
    bool warmup;
};

enum { ROWS_MAX = 4096 };

/* All requests of the run in order of their numbers. returns how many */
static int32_t read_rows(struct bench *b, struct row *rows) {
    struct store_rows *r = NULL;
    bool has = true;
    int32_t n = 0;
    assert_ok(store_flush(b->store));
    assert_ok(store_rows_open(b->store, "v_request",
                              "seq, start_s, end_s, ok, error_class, n_output, send_lag_s, phase",
                              "run_id", b->run_id, "seq", &r));
    for (;;) {
        assert_ok(store_rows_next(r, &has));
        if (!has) {
            break;
        }
        const char *error = store_rows_str(r, 4);
        assert_true(n < ROWS_MAX);
        rows[n] = (struct row){.seq = store_rows_i64(r, 0),
                               .start_s = store_rows_f64(r, 1),
                               .end_s = store_rows_f64(r, 2),
                               .ok = store_rows_i64(r, 3) == 1,
                               .n_output = store_rows_i64(r, 5),
                               .send_lag_s = store_rows_f64(r, 6),
                               .warmup = strcmp(store_rows_str(r, 7), "warmup") == 0};
        snprintf(rows[n].error_class, sizeof rows[n].error_class, "%s", error ? error : "");
        n++;
    }
    store_rows_close(r);
    return n;
}

/* Rows of a view for the run, or for its whole database when key is NULL. */
static int32_t count_view(struct bench *b, const char *view, const char *key) {
    struct store_rows *r = NULL;
    bool has = true;
    int32_t n = -1;
    assert_ok(store_rows_open(b->store, view, "run_id", key, b->run_id, NULL, &r));
    for (; has; n++) {
        assert_ok(store_rows_next(r, &has));
    }
    store_rows_close(r);
    return n;
}

static void test_replay_burst(void **state) {
    (void)state;
    static struct row rows[ROWS_MAX];
    struct bench b;
    setup(&b,
          "workload: {synthetic: {input: {uniform: {min: 2, max: 30}}, output: {fixed: 5}}}\n"
          "arrival: {burst: {requests: 20}}\n",
          &(struct engine_opts){.n_threads = 1});
    assert_ok(replay(&b, NULL));
    assert_int_equal(read_rows(&b, rows), 20);
    for (int32_t i = 0; i < 20; i++) {
        assert_true(rows[i].ok && rows[i].seq == i && rows[i].n_output == 5);
        assert_true(rows[i].start_s == 0 && rows[i].end_s > 0 && rows[i].send_lag_s >= 0);
    }
    assert_int_equal(count_view(&b, "v_itl", "run_id"), 20 * 4);
    assert_int_equal(count_view(&b, "v_gap_error", NULL), 0);
    assert_false(b.res.aborted);
    assert_true(b.res.measured_from_ns == 0 && b.res.measured_to_ns == b.res.end_ns);
    teardown(&b);
}

static void test_replay_constant_keeps_the_schedule(void **state) {
    (void)state;
    static struct row rows[ROWS_MAX];
    struct bench b;
    setup(&b,
          "workload: {synthetic: {input: {fixed: 8}, output: {fixed: 2}}}\n"
          "arrival: {constant: {rate: 200/s}}\nwarmup: 50ms\nduration: 250ms\n",
          &(struct engine_opts){.n_threads = 1});
    assert_ok(replay(&b, NULL));
    assert_int_equal(read_rows(&b, rows), 60);
    for (int32_t i = 0; i < 60; i++) {
        const struct row *r = &rows[i];
        int64_t number = r->warmup ? -1 - r->seq : r->seq + 10;
        assert_true(r->warmup == (r->seq < 0));
        assert_rel(r->start_s + 1, (double)number / 200 + 1, 1e-9);
        assert_true(r->ok && r->send_lag_s >= 0);
    }
    assert_true(count_view(&b, "v_sample", "run_id") >= 2);
    assert_int_equal(b.res.measured_from_ns, 50000000);
    assert_int_equal(b.res.measured_to_ns, 300000000);
    teardown(&b);
}

static void test_replay_closed_keeps_its_users_busy(void **state) {
    (void)state;
    enum { USERS = 3, REQUESTS = 60 };
    static struct row rows[ROWS_MAX];
    struct bench b;
    setup(&b,
          "workload: {synthetic: {input: {fixed: 8}, output: {uniform: {min: 1, max: 30}}}}\n"
          "arrival: {closed: {concurrency: 3}}\nrequests: 60\n",
          &(struct engine_opts){.n_threads = 1});
    assert_ok(replay(&b, NULL));
    assert_int_equal(read_rows(&b, rows), REQUESTS);
    for (int32_t i = 0; i < REQUESTS; i++) {
        int32_t n_before = 0; /* requests in the house when this one was meant to start */
        bool follows = rows[i].start_s == 0;
        for (int32_t k = 0; k < REQUESTS; k++) {
            n_before +=
                k != i && rows[k].start_s <= rows[i].start_s && rows[k].end_s > rows[i].start_s;
            follows = follows || rows[k].end_s == rows[i].start_s;
        }
        assert_true(rows[i].ok);
        assert_true(follows);           /* a user asks again when it has its answer, not later */
        assert_true(n_before <= USERS); /* one more may start at the very same time */
    }
    teardown(&b);
}

static void test_replay_counts_refusals(void **state) {
    (void)state;
    static struct row rows[ROWS_MAX];
    struct bench b;
    int32_t n_ok = 0;
    setup(&b,
          "workload: {synthetic: {input: {fixed: 200}, output: {fixed: 40}}}\n"
          "arrival: {burst: {requests: 40}}\n",
          &(struct engine_opts){.backend = "ref", .waiting_max = 4});
    assert_ok(replay(&b, NULL));
    assert_int_equal(read_rows(&b, rows), 40);
    for (int32_t i = 0; i < 40; i++) {
        n_ok += rows[i].ok ? 1 : 0;
        assert_true(rows[i].ok || strcmp(rows[i].error_class, "refused_busy") == 0);
        assert_true(rows[i].ok || rows[i].end_s >= rows[i].start_s);
    }
    assert_true(n_ok >= 4 && n_ok < 40);
    teardown(&b);
}

static void test_replay_drain_is_over(void **state) {
    (void)state;
    static struct row rows[ROWS_MAX];
    struct bench b;
    setup(&b,
          "workload: {synthetic: {input: {fixed: 20}, output: {fixed: 450}}}\n"
          "arrival: {closed: {concurrency: 8}}\nduration: 10ms\ndrain: 1ms\n",
          &(struct engine_opts){.backend = "ref"});
    assert_ok(replay(&b, NULL));
    assert_int_equal(read_rows(&b, rows), 8);
    for (int32_t i = 0; i < 8; i++) {
        assert_string_equal(rows[i].error_class, "drain_timeout");
        assert_true(rows[i].end_s > rows[i].start_s && rows[i].n_output < 450);
    }
    assert_false(b.res.aborted);
    teardown(&b);
}

static int stop_at_once(void *ctx, double t, double all, int64_t done, int64_t offered) {
    (void)ctx;
    assert_true(t > 0 && all >= 0 && done <= offered);
    return 1;
}

static void test_replay_stops_when_asked(void **state) {
    (void)state;
    static struct row rows[ROWS_MAX];
    struct bench b;
    setup(&b,
          "workload: {synthetic: {input: {fixed: 20}, output: {fixed: 450}}}\n"
          "arrival: {constant: {rate: 100/s}}\nduration: 1h\nwarmup: 1h\n",
          &(struct engine_opts){.backend = "ref"});
    assert_ok(replay(&b, stop_at_once));
    int32_t n = read_rows(&b, rows);
    assert_true(n > 5);
    for (int32_t i = 0; i < n; i++) {
        assert_true(rows[i].ok || strcmp(rows[i].error_class, "interrupted") == 0);
        assert_true(rows[i].warmup);
    }
    assert_true(b.res.aborted);
    assert_true(b.res.measured_from_ns == b.res.measured_to_ns); /* it never began */
    teardown(&b);
}

/* Weights without a finite result: each request ends with an error, and the run goes on. */
static void test_replay_engine_errors(void **state) {
    (void)state;
    static struct row rows[ROWS_MAX];
    struct bench b;
    setup(&b,
          "workload: {synthetic: {input: {fixed: 8}, output: {fixed: 5}}}\n"
          "arrival: {burst: {requests: 6}}\n",
          &(struct engine_opts){.n_threads = 1});
    float *norm = (float *)(uintptr_t)b.model->weights->final_norm;
    for (int32_t i = 0; i < b.model->weights->cfg.hidden; i++) {
        norm[i] = (float)INFINITY;
    }
    assert_ok(replay(&b, NULL));
    assert_int_equal(read_rows(&b, rows), 6);
    for (int32_t i = 0; i < 6; i++) {
        assert_string_equal(rows[i].error_class, "engine_error");
    }
    teardown(&b);
}

/* The same load on the backend without arithmetic: what the harness itself costs. */
static void test_replay_null_backend(void **state) {
    (void)state;
    static struct row rows[ROWS_MAX];
    struct bench b;
    setup(&b,
          "workload: {synthetic: {input: {fixed: 32}, output: {fixed: 8}}}\n"
          "arrival: {closed: {concurrency: 32}}\nrequests: 2000\n",
          &(struct engine_opts){.backend = "null"});
    assert_ok(replay(&b, NULL));
    assert_int_equal(read_rows(&b, rows), 2000);
    for (int32_t i = 0; i < 2000; i++) {
        assert_true(rows[i].ok && rows[i].seq == i && rows[i].n_output == 8);
    }
    assert_int_equal(count_view(&b, "v_gap_error", NULL), 0);
    teardown(&b);
}

static void test_replay_judged_from_the_store(void **state) {
    (void)state;
    struct bench b;
    struct verdict v;
    setup(&b,
          "workload: {synthetic: {input: {fixed: 8}, output: {fixed: 2}}}\n"
          "arrival: {burst: {requests: 4}}\n",
          &(struct engine_opts){.n_threads = 1});
    assert_ok(replay(&b, NULL));
    const struct store_run_end end = {.status = "done",
                                      .measured_from_ns = b.res.measured_from_ns,
                                      .measured_to_ns = b.res.measured_to_ns,
                                      .end_ns = b.res.end_ns};
    assert_ok(store_run_finish(b.store, b.run_id, &end));
    assert_ok(summary_judge(b.store, b.run_id, &v));
    assert_int_equal(v.kind, VERDICT_INCONCLUSIVE);
    assert_non_null(strstr(v.reason, "only 4 requests"));
    teardown(&b);
}

/* A store that fails ends the run with its error; both threads are gone, nothing leaks. */
static void test_replay_store_faults(void **state) {
    (void)state;
    static const int64_t hits[] = {1, 2, 7, 30, 77};
    for (int32_t i = 0; i < ARRAY_LEN(hits); i++) {
        struct bench b;
        setup(&b,
              "workload: {synthetic: {input: {fixed: 8}, output: {fixed: 20}}}\n"
              "arrival: {burst: {requests: 12}}\n",
              &(struct engine_opts){.n_threads = 1});
        fault_arm(FAULT_SQL, hits[i], false);
        int rc = replay(&b, NULL);
        assert_int_equal(fault_disarm(), 1);
        assert_int_equal(rc, ERR_DB);
        assert_true(b.res.aborted);
        teardown(&b);
    }
}

static void test_replay_no_memory(void **state) {
    (void)state;
    for (int64_t n = 1; n <= 4; n++) {
        struct bench b;
        setup(&b,
              "workload: {synthetic: {input: {fixed: 8}, output: {fixed: 2}}}\n"
              "arrival: {burst: {requests: 2}}\n",
              &(struct engine_opts){.n_threads = 1});
        fault_arm(FAULT_ALLOC, n, true);
        int rc = replay(&b, NULL);
        assert_true(fault_disarm() > 0);
        assert_int_equal(rc, ERR_NOMEM);
        teardown(&b);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {TEST(test_replay_burst),
                                       TEST(test_replay_constant_keeps_the_schedule),
                                       TEST(test_replay_closed_keeps_its_users_busy),
                                       TEST(test_replay_counts_refusals),
                                       TEST(test_replay_drain_is_over),
                                       TEST(test_replay_stops_when_asked),
                                       TEST(test_replay_engine_errors),
                                       TEST(test_replay_null_backend),
                                       TEST(test_replay_judged_from_the_store),
                                       TEST(test_replay_store_faults),
                                       TEST(test_replay_no_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
