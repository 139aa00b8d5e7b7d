/* Whole scenarios in one process: what is refused before a session begins, and what stands in the
 * database when one breaks off. LABELS: threads */
#include "tests/support/support.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "harness/answers.h"
#include "harness/scenario_run.h"
#include "reports/store.h"
#include "tests/support/tiny.h"

static char dir[FILE_PATH_MAX];
static char db[FILE_PATH_MAX];

static int make(void **state) {
    (void)state;
    test_tmpdir(dir);
    tiny_model(dir, "llama", 512);
    tiny_text(dir, "text.txt", 40);
    return file_join(db, dir, "r.db");
}

static int unmake(void **state) {
    (void)state;
    test_rmdir(dir);
    return 0;
}

/* DIR in the text is the folder. */
static int run(const char *text, struct scenario_run_result *res) {
    struct buf b;
    struct scenario sc;
    const struct cli_env env = {.home = "/nonexistent"};
    buf_init(&b, MEM_TEST, 1 << 16);
    for (const char *p = text; *p;) {
        const char *mark = strstr(p, "DIR");
        assert_ok(buf_add(&b, p, mark ? mark - p : (int64_t)strlen(p)));
        assert_ok(buf_str(&b, mark ? dir : ""));
        p = mark ? mark + 3 : p + strlen(p);
    }
    assert_ok(scenario_parse("t", buf_cstr(&b), b.len, &sc));
    buf_fini(&b);
    const struct scenario_run_opts o = {.sc = &sc, .env = &env, .db = db, .quiet = true};
    int rc = scenario_run(&o, res);
    scenario_fini(&sc);
    return rc;
}

static void remove_db(void) {
    static const char *const tails[] = {"", "-wal", "-shm"};
    for (int32_t i = 0; i < ARRAY_LEN(tails); i++) {
        char path[FILE_PATH_MAX + 8];
        snprintf(path, sizeof path, "%s%s", db, tails[i]);
        unlink(path);
    }
}

/* The text of one column of the first row of a view. */
static void first(const char *view, const char *column, char dst[64]) {
    struct store *s = NULL;
    struct store_rows *r = NULL;
    bool has = false;
    assert_ok(store_open(db, STORE_READ, &s));
    assert_ok(store_rows_open(s, view, column, NULL, 0, NULL, &r));
    assert_ok(store_rows_next(r, &has));
    snprintf(dst, 64, "%s", has ? store_rows_str(r, 0) : "none");
    store_rows_close(r);
    assert_ok(store_close(s));
}

static const char good[] =
    "scenario: t\ntargets:\n  base: {engine: {model: DIR/llama, threads: 1}}\n"
    "  other: {engine: {model: DIR/llama, backend: ref}}\n"
    "workload: {synthetic: {input: {fixed: 8}, output: {fixed: 4}}}\n"
    "arrival: {burst: {requests: [3, 12]}}\n"
    "evaluate:\n  - perplexity: {dataset: DIR/text.txt, window: 32, tokens: 64}\n"
    "  - kl: {base: base, dataset: DIR/text.txt, window: 32, tokens: 64}\n"
    "  - answers: {file: DIR/prompts.txt, max_tokens: 3}\n";

static void test_scenario_run_whole(void **state) {
    (void)state;
    struct scenario_run_result res;
    char text[64];
    remove_db();
    tiny_file(dir, "prompts.txt", "hello\n\n  \nwhat is this?\r\n");
    assert_ok(run(good, &res));
    assert_int_equal(res.n_runs, 4);
    assert_true(res.session_id > 0 && !res.interrupted);
    first("v_session", "status", text);
    assert_string_equal(text, "done");
    struct store *s = NULL;
    struct store_rows *r = NULL;
    bool has = true;
    int32_t n_eval = 0;
    int32_t n_answer = 0;
    assert_ok(store_open(db, STORE_READ, &s));
    assert_ok(store_rows_open(s, "v_eval", "task", NULL, 0, NULL, &r));
    for (; has; n_eval += has ? 1 : 0) {
        assert_ok(store_rows_next(r, &has));
    }
    store_rows_close(r);
    /* the divergence covers the perplexity of the same text: once for each target, and a ratio */
    assert_int_equal(n_eval, 3);
    assert_ok(store_rows_open(s, "v_answer", "prompt", NULL, 0, "target_id, prompt_index", &r));
    for (has = true; has; n_answer += has ? 1 : 0) {
        assert_ok(store_rows_next(r, &has));
        if (has && n_answer % 2 == 1) {
            assert_string_equal(store_rows_str(r, 0), "what is this?");
        }
    }
    store_rows_close(r);
    assert_ok(store_close(s));
    assert_int_equal(n_answer, 4);
}

static void test_scenario_run_refuses_before_a_session(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int code;
        const char *says;
    } bad[] = {
        {"scenario: t\ntargets: {a: {null: {}}}\nworkload: {synthetic: {input: {fixed: 8}, output: "
         "{fixed: 4}}}\narrival: {burst: {requests: 3}}\nevaluate: [{answers: {prompts: [x]}}]\n",
         ERR_UNSUPPORTED, "target \"a\": evaluations want engine targets, this one is null"},
        {"scenario: t\ntargets: {a: {http: {url: \"http://127.0.0.1:9/v1\", model: m, key_env: "
         "NO_SUCH_KEY}}}\nworkload: {synthetic: {input: {fixed: 8}, output: {fixed: 4}}}\n"
         "arrival: {burst: {requests: 3}}\n",
         ERR_CONFIG, "target \"a\": the environment variable NO_SUCH_KEY is not set"},
        {"scenario: t\ntargets: {a: {http: {url: \"http://127.0.0.1:99999/v1\", model: m}}}\n"
         "workload: {synthetic: {input: {fixed: 8}, output: {fixed: 4}}}\n"
         "arrival: {burst: {requests: 3}}\n",
         ERR_CONFIG, "target \"a\": url \"http://127.0.0.1:99999/v1\": "},
        {"scenario: t\ntargets: {a: {http: {url: \"http://127.0.0.1:9/v1\", model: m, tokenizer: "
         "DIR/none}}}\nworkload: {synthetic: {input: {fixed: 8}, output: {fixed: 4}}}\n"
         "arrival: {burst: {requests: 3}}\n",
         ERR_NOTFOUND, "none"},
        {"scenario: t\ntargets: {a: {http: {url: \"https://127.0.0.1:9/v1\", model: m, ca_file: "
         "DIR/none.pem}}}\nworkload: {synthetic: {input: {fixed: 8}, output: {fixed: 4}}}\n"
         "arrival: {burst: {requests: 3}}\n",
         ERR_NOTFOUND, "none.pem: no such file"},
        {"scenario: t\ntargets: {a: {engine: {model: DIR/llama}}, b: {engine: {model: DIR/no}}}\n"
         "workload: {synthetic: {input: {fixed: 8}, output: {fixed: 4}}}\n"
         "arrival: {burst: {requests: 3}}\n",
         ERR_NOTFOUND, "target \"b\""},
        {"scenario: t\ntargets: {a: {engine: {model: DIR/llama, kv_memory: 16}}}\n"
         "workload: {synthetic: {input: {fixed: 8}, output: {fixed: 4}}}\n"
         "arrival: {burst: {requests: 3}}\n",
         ERR_RANGE, "target \"a\""},
        {"scenario: t\ntargets: {a: {engine: {model: DIR/llama}}}\nworkload: {dataset: {name: "
         "mt-bench}}\narrival: {burst: {requests: 3}}\n",
         ERR_UNSUPPORTED, "dataset"}};
    remove_db();
    for (int32_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct scenario_run_result res;
        assert_err(run(bad[i].text, &res), bad[i].code, bad[i].says);
        assert_int_equal(res.session_id, 0);
        assert_false(file_exists(db));
    }
}

/* The evaluation fails behind a load that went well: rows stay, the session is aborted. */
static void test_scenario_run_breaks_off(void **state) {
    (void)state;
    struct scenario_run_result res;
    char text[64];
    remove_db();
    assert_err(run("scenario: t\ntargets: {a: {engine: {model: DIR/llama, threads: 1}}}\n"
                   "workload: {synthetic: {input: {fixed: 8}, output: {fixed: 4}}}\n"
                   "arrival: {burst: {requests: 12}}\n"
                   "evaluate: [{perplexity: {dataset: DIR/no.txt, window: 32}}]\n",
                   &res),
               ERR_NOTFOUND, "no.txt");
    assert_int_equal(res.n_runs, 1);
    first("v_session", "status", text);
    assert_string_equal(text, "aborted");
    first("v_run", "status", text);
    assert_string_equal(text, "done");
    first("v_run", "verdict", text);
    assert_string_equal(text, "VALID");
}

/* A statement of the store fails somewhere in the middle. */
static void test_scenario_run_store_faults(void **state) {
    (void)state;
    static const int64_t hits[] = {1, 4, 15, 40, 60, 80, 130};
    for (int32_t i = 0; i < ARRAY_LEN(hits); i++) {
        struct scenario_run_result res;
        char text[64] = "aborted";
        remove_db();
        fault_arm(FAULT_SQL, hits[i], false);
        int rc = run("scenario: t\ntargets: {a: {engine: {model: DIR/llama, threads: 1}}}\n"
                     "workload: {synthetic: {input: {fixed: 8}, output: {fixed: 4}}}\n"
                     "arrival: {burst: {requests: 12}}\n",
                     &res);
        assert_int_equal(fault_disarm(), 1);
        assert_int_equal(rc, ERR_DB);
        if (res.session_id > 0) {
            first("v_session", "status", text);
        }
        assert_true(strcmp(text, "aborted") == 0 || strcmp(text, "none") == 0);
    }
}

static void test_answers_prompts(void **state) {
    (void)state;
    char path[FILE_PATH_MAX];
    struct answers_prompts p;
    const char *const list[] = {"a", "b"};
    assert_ok(answers_prompts_init(&p, NULL, list, 2));
    assert_int_equal(p.n, 2);
    answers_prompts_fini(&p);
    assert_err(answers_prompts_init(&p, NULL, NULL, 0), ERR_RANGE, "no prompt");
    answers_prompts_fini(&p);
    tiny_file(dir, "blank.txt", "\n \n\t\n");
    assert_ok(file_join(path, dir, "blank.txt"));
    assert_err(answers_prompts_init(&p, path, NULL, 0), ERR_RANGE, "blank.txt: no prompt");
    answers_prompts_fini(&p);
    assert_err(answers_prompts_init(&p, "/nonexistent", NULL, 0), ERR_NOTFOUND, "/nonexistent");
    answers_prompts_fini(&p);
    tiny_text(dir, "many.txt", ANSWERS_MAX + 1);
    assert_ok(file_join(path, dir, "many.txt"));
    assert_err(answers_prompts_init(&p, path, NULL, 0), ERR_LIMIT, "more than 256 prompts");
    answers_prompts_fini(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_scenario_run_whole), TEST(test_scenario_run_refuses_before_a_session),
        TEST(test_scenario_run_breaks_off), TEST(test_scenario_run_store_faults),
        TEST(test_answers_prompts)};
    return cmocka_run_group_tests(tests, make, unmake);
}
