/* Scenario files: what they mean, how they are refused, and that their canonical text is stable. */
#include "tests/support/support.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "scenarios/scenario.h"

enum { TEXT_MAX = 1 << 20 };

static const char head[] = "scenario: s\n"
                           "targets: {base: {engine: {model: m}}}\n";
static const char load[] = "workload: {synthetic: {input: {fixed: 8}, output: {fixed: 4}}}\n"
                           "arrival: {poisson: {rate: 4/s}}\n";

static int parse(const char *a, const char *b, const char *c, struct scenario *sc) {
    char text[4096];
    snprintf(text, sizeof text, "%s%s%s", a, b, c);
    return scenario_parse("s.yaml", text, (int64_t)strlen(text), sc);
}

/* Wants a refusal that holds each of the given parts. */
static void refuse(const char *a, const char *b, const char *c, const char *part) {
    struct scenario sc;
    assert_err(parse(a, b, c, &sc), ERR_CONFIG, part);
}

static void test_scenario_read_demo_file(void **state) {
    (void)state;
    struct scenario sc;
    char path[FILE_PATH_MAX];
    snprintf(path, sizeof path, "%s", test_golden("../../../scenarios/demo.yaml"));
    assert_ok(scenario_read(path, &sc));
    assert_string_equal(sc.name, "chat-base-vs-w4");
    assert_int_equal(sc.n_targets, 3);
    assert_string_equal(sc.targets[1].name, "rtn");
    assert_int_equal(sc.targets[1].kind, TARGET_ENGINE);
    assert_int_equal(sc.work.input.kind, LENGTH_EMPIRICAL);
    assert_int_equal(sc.work.input.max, 256);
    assert_int_equal(sc.work.prefix_groups, 2);
    assert_int_equal(sc.arrival.kind, ARRIVAL_POISSON);
    assert_int_equal(sc.arrival.n_points, 2);
    assert_rel(sc.arrival.points[1], 2, 1e-12);
    assert_int_equal(sc.duration_ns, 12000000000);
    assert_int_equal(sc.n_slo, 2);
    assert_int_equal(sc.n_evals, 1);
    assert_int_equal(sc.evals[0].n_prompts, 8);
    assert_int_equal(scenario_base(&sc), 0);
    assert_rel(sc.machine_usd_per_hour, 0.08, 1e-12);
    scenario_fini(&sc);
}

static void test_scenario_format_is_a_fixed_point(void **state) {
    (void)state;
    static const char *const files[] = {"demo", "all", "trace", "closed", "zero", "http"};
    for (int32_t i = 0; i < ARRAY_LEN(files); i++) {
        char rel[64];
        struct scenario sc;
        struct scenario again;
        struct buf a;
        struct buf b;
        snprintf(rel, sizeof rel, "../../fuzz/corpus/fuzz_scenario/%s.yaml", files[i]);
        buf_init(&a, MEM_TEST, TEXT_MAX);
        buf_init(&b, MEM_TEST, TEXT_MAX);
        assert_ok(scenario_read(test_golden(rel), &sc));
        assert_ok(scenario_format(&sc, &a));
        assert_ok(scenario_parse("again", buf_cstr(&a), a.len, &again));
        assert_ok(scenario_format(&again, &b));
        assert_string_equal(buf_cstr(&a), buf_cstr(&b));
        scenario_fini(&again);
        scenario_fini(&sc);
        buf_fini(&a);
        buf_fini(&b);
    }
}

static void test_scenario_parse_unknown_key_names_the_nearest(void **state) {
    (void)state;
    refuse(head, load, "durration: 5s\n",
           "s.yaml:5:1: unknown key \"durration\" in the scenario, did you mean \"duration\"?");
    refuse(head, load, "duration: 5s\nslo: {ttft_p96: 1s}\n", "did you mean \"ttft_p9");
    refuse("scenario: s\n", "targets: {a: {engin: {model: m}}}\n", "", "s.yaml:2:15: unknown key");
    refuse("scenario: s\ntargets:\n  a:\n    engine:\n      modell: m\n", load, "",
           "s.yaml:5:7: unknown key \"modell\" in a, did you mean \"model\"?");
    refuse(head, load, "duration: 5s\nzzzzzzzz: 1\n", "want one of: scenario, seed");
}

static void test_scenario_parse_wrong_unit_or_type_says_where(void **state) {
    (void)state;
    refuse(head, load, "duration: 5\n", "s.yaml:5:11: duration: \"5\" has no unit");
    refuse(head, load, "duration: 5 parsecs\n", "unit \"parsecs\" is unknown");
    refuse(head, load, "duration: {a: 1}\n", "duration has no value");
    refuse(head, load, "duration:\n", "duration has no value");
    refuse(head, load, "duration: 5s\nseed: x\n", "s.yaml:6:7: seed: \"x\" is no whole number");
    refuse(head, "workload: {synthetic: {input: {fixed: 8}, output: {fixed: 4}}}\n",
           "arrival: {poisson: {rate: 4}}\nduration: 1s\n", "s.yaml:4:27: rate: \"4\" is no rate");
    refuse("scenario: s\ntargets: [a]\n", load, "duration: 1s\n", "targets: want at least one");
    refuse(head, load, "duration: 5s\nslo: {ttft: 0s}\n", "ttft: a limit of 0");
}

static void test_scenario_parse_missing_or_doubled_key(void **state) {
    (void)state;
    refuse("targets: {a: {null: {}}}\n", load, "duration: 1s\n", "has no key \"scenario\"");
    refuse(head, load, "duration: 1s\nduration: 2s\n", "duplicate");
    refuse("scenario: s\ntargets: {a: {engine: {threads: 2}}}\n", load, "duration: 1s\n",
           "a has no key \"model\"");
    refuse(head, load, "", "the load never ends");
    refuse(head, "arrival: {burst: {requests: 4}}\n", "", "no workload");
    refuse(head, "", "", "no workload");
}

static void test_scenario_parse_contradictions(void **state) {
    (void)state;
    refuse(head, load, "duration: 1s\nevaluate: [{kl: {base: nobody}}]\n",
           "no target is named \"nobody\"");
    refuse(head, load, "duration: 1s\nevaluate: [{answers: {max_tokens: 2}}]\n",
           "want either \"prompts\" or \"file\"");
    refuse(head,
           "workload: {synthetic: {input: {uniform: {min: 9, max: 3}}, output: {fixed: 1}}}\n",
           "arrival: {burst: {requests: 4}}\n", "min 9 is above max 3");
    refuse(head, "workload: {trace: {file: x, speed: 2}}\n", "arrival: {trace: {speed: 3}}\n",
           "given twice");
    refuse(head, "workload: {dataset: {name: x}}\n", "arrival: {trace: {speed: 3}}\n",
           "trace arrivals need workload");
    refuse("scenario: s\ntargets: {\"a/b\": {null: {}}}\n", load, "duration: 1s\n",
           "want 1..64 letters");
    refuse("scenario: s\ntargets: {a: {null: {}, engine: {model: m}}}\n", load, "duration: 1s\n",
           "one entry only");
}

/* Targets over HTTP: every key, and what is refused of them. */
static void test_scenario_http_keys(void **state) {
    (void)state;
    struct scenario sc;
    assert_ok(parse("scenario: s\ntargets:\n  a:\n    http:\n"
                    "      urls: {\"http://a:8000/v1\": 3, \"https://b/v1\": 1}\n"
                    "      model: m\n      api: responses\n      dialect: llama.cpp\n"
                    "      stream: false\n      version: \"2\"\n      on_error: stop\n"
                    "      timestamps: user\n      key_env: K\n      key_header: api-key\n"
                    "      headers: {X-Team: \"a: b\"}\n      body: '{\"min_p\": 0.1}'\n"
                    "      connections: 7\n      timeout: 9s\n      stall: 8s\n"
                    "      connect_timeout: 70ms\n"
                    "  b: {http: {urls: [\"http://a/v1\", \"http://c/v1\"], model: m}}\n"
                    "  c: {null: {ttft: 5ms, itl: 2ms, tokens: 3}}\n",
                    load, "duration: 1s\n", &sc));
    const struct scenario_http *h = &sc.targets[0].http;
    assert_int_equal(h->n_urls, 2);
    assert_string_equal(h->urls[1], "https://b/v1");
    assert_int_equal(h->weights[0], 3);
    assert_string_equal(h->header_names[0], "X-Team");
    assert_string_equal(h->header_values[0], "a: b");
    assert_string_equal(h->body, "{\"min_p\": 0.1}");
    assert_int_equal(h->connections, 7);
    assert_int_equal(h->stall_ns, 8000000000);
    assert_int_equal(h->connect_ns, 70000000);
    assert_int_equal(sc.targets[1].http.weights[1], 1);
    assert_int_equal(sc.targets[2].null.itl_ns, 2000000);
    assert_int_equal(sc.targets[2].null.tokens, 3);
    scenario_fini(&sc);
}

static void test_scenario_http_refusals(void **state) {
    (void)state;
    static const struct {
        const char *keys;
        const char *says;
    } rows[] = {
        {"url: \"ftp://a\"", "s.yaml:2:38: url: \"ftp://a\" does not begin with http://"},
        {"url: \"http://me:pw@a/v1\"", "a name or password in it would be stored; want key_env"},
        {"url: \"http:///v1\"", "want scheme://host[:port][/path]"},
        {"url: \"http://a/v1?k=1\"", "want scheme://host[:port][/path]"},
        {"timeout: 1s", "http has no key \"url\", want \"url\" or \"urls\""},
        {"url: \"http://a\", urls: [\"http://b\"]", "http has both url and urls"},
        {"urls: [\"http://a\", \"http://a\"]", "urls: \"http://a\" is there twice"},
        {"urls: []", "want a list of addresses"},
        {"urls: {\"http://a\": 0}", "share \"0\", want a whole number 1..1000"},
        {"url: \"http://a\", api: chats",
         "api: \"chats\", want one of chat, completions, responses"},
        {"url: \"http://a\", dialect: vlm", "dialect: \"vlm\", want one of openai, vllm, sglang"},
        {"url: \"http://a\", stream: maybe", "stream: \"maybe\", want one of true, false"},
        {"url: \"http://a\", version: \"3\"", "version: \"3\", want one of 1.1, 2"},
        {"url: \"http://a\", on_error: retry", "on_error: \"retry\", want one of continue, stop"},
        {"url: \"http://a\", headers: {Authorization: x}",
         "headers: Authorization would be stored"},
        {"url: \"http://a\", headers: {X-API-Key: x}", "would be stored; want key_env"},
        {"url: \"http://a\", headers: {Content-Type: x}", "Content-Type is set by the program"},
        {"url: \"http://a\", headers: {\"a b\": x}", "headers: \"a b\" is no header field"},
        {"url: \"http://a\", headers: {a: \"x\\ny\"}", "headers: \"a\" is no header field"},
        {"url: \"http://a\", headers: [a]", "headers: want \"name: value\" entries"},
        {"url: \"http://a\", body: '{\"a\": '", "body: line 1, column"},
        {"url: \"http://a\", body: '[1]'", "body: want a JSON object"},
        {"url: \"http://a\", body: '{\"stream\": true}'", "body: \"stream\" is set by the program"},
        {"url: \"http://a\", key_header: api-key", "key_header without key_env"},
        {"url: \"http://a\", key_env: K, key_header: \"a:b\"", "is no header field"},
        {"url: \"http://a\", keyenv: K", "did you mean \"key_env\"?"}};
    for (int32_t i = 0; i < ARRAY_LEN(rows); i++) {
        char targets[512];
        snprintf(targets, sizeof targets, "targets: {a: {http: {model: m, %s}}}\n", rows[i].keys);
        refuse("scenario: s\n", targets, load, rows[i].says);
    }
    refuse("scenario: s\n", "targets: {a: {http: {url: \"http://a\"}}}\n", load,
           "a has no key \"model\"");
    refuse("scenario: s\n", "targets: {a: {null: {ttft: 5}}}\n", load, "\"5\" has no unit");
}

static void test_scenario_parse_hostile_yaml(void **state) {
    (void)state;
    refuse("a: &x [1, 1]\nb: *x\n", "", "", "aliases");
    refuse("scenario: !!int 3\n", "", "", "tags");
    refuse("scenario: [1, 2\n", "", "", "s.yaml:");
    refuse("- a\n- b\n", "", "", "want \"key: value\" lines");
    refuse("\r%\xfe\xf5model: i", "", "", "s.yaml:1:1: directives");
    refuse("scenario: \xff\n", "", "", "s.yaml:1:11: byte 0xff is no UTF-8 text");
    refuse("", "", "", "empty");
    refuse(head, load, "duration: 1s\n---\nscenario: second\n", "s.yaml:6:1");
    refuse("[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]: 2\n", "", "", "s.yaml");
    char deep[2048] = "scenario: ";
    for (int32_t i = 0; i < 900; i++) {
        deep[10 + i] = '[';
    }
    refuse(deep, "", "", "s.yaml");
}

static void test_scenario_point_label_all_kinds(void **state) {
    (void)state;
    static const struct {
        const char *arrival;
        const char *label;
    } cases[] = {{"{constant: {rate: 30/m}}", "0.5/s"},
                 {"{gamma: {rate: 4/s, cv: 2}}", "4/s"},
                 {"{closed: {concurrency: 8}}", "8 users"},
                 {"{burst: {requests: 64}}", "burst of 64"}};
    for (int32_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct scenario sc;
        char line[128];
        char label[SCENARIO_LABEL_MAX];
        snprintf(line, sizeof line, "arrival: %s\nduration: 1s\n", cases[i].arrival);
        assert_ok(parse(head, "workload: {synthetic: {input: {fixed: 8}, output: {fixed: 4}}}\n",
                        line, &sc));
        assert_string_equal(scenario_point_label(&sc, 0, label), cases[i].label);
        scenario_fini(&sc);
    }
}

static int parse_demo(void *ctx) {
    struct scenario sc;
    struct buf b;
    const struct buf *text = ctx;
    buf_init(&b, MEM_TEST, TEXT_MAX);
    int rc = scenario_parse("demo", buf_cstr(text), text->len, &sc);
    if (!rc) {
        rc = scenario_format(&sc, &b);
        scenario_fini(&sc);
    }
    buf_fini(&b);
    return rc;
}

static void test_scenario_parse_without_memory(void **state) {
    (void)state;
    static const int codes[] = {ERR_NOMEM, 0};
    struct buf text;
    buf_init(&text, MEM_TEST, TEXT_MAX);
    assert_ok(file_read(test_golden("../../fuzz/corpus/fuzz_scenario/all.yaml"), &text));
    test_fault_loop(FAULT_ALLOC, parse_demo, &text, codes);
    buf_fini(&text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_scenario_read_demo_file),
        TEST(test_scenario_format_is_a_fixed_point),
        TEST(test_scenario_parse_unknown_key_names_the_nearest),
        TEST(test_scenario_parse_wrong_unit_or_type_says_where),
        TEST(test_scenario_parse_missing_or_doubled_key),
        TEST(test_scenario_parse_contradictions),
        TEST(test_scenario_http_keys),
        TEST(test_scenario_http_refusals),
        TEST(test_scenario_parse_hostile_yaml),
        TEST(test_scenario_point_label_all_kinds),
        TEST(test_scenario_parse_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
