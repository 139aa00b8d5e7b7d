/* Request traces: both formats, their times, and damage with its line. */
#include "tests/support/support.h"

#include <stdio.h>
#include <string.h>

#include "scenarios/trace.h"

static int parse(const char *text, struct trace *t) {
    return trace_parse("t", text, (int64_t)strlen(text), t);
}

static void test_trace_parse_azure_csv(void **state) {
    (void)state;
    struct trace t;
    assert_ok(parse("TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
                    "2023-02-28 23:59:59.6805900,374,44\r\n"
                    "2023-03-01 00:00:00.9951690,396,109",
                    &t));
    assert_int_equal(t.n, 2);
    assert_int_equal(t.start_ns[0], 0);
    assert_int_equal(t.start_ns[1], 1314579000);
    assert_int_equal(t.n_prompt[1], 396);
    assert_int_equal(t.n_output[1], 109);
    assert_int_equal(t.block_at[2], 0);
    trace_fini(&t);
}

static void test_trace_parse_mooncake_jsonl(void **state) {
    (void)state;
    struct trace t;
    assert_ok(parse("{\"timestamp\": 5, \"input_length\": 9, \"output_length\": 2, "
                    "\"hash_ids\": [7, 8]}\n"
                    "{\"timestamp\": 8, \"input_length\": 4, \"output_length\": 1, "
                    "\"hash_ids\": [7]}\n",
                    &t));
    assert_int_equal(t.n, 2);
    assert_int_equal(t.start_ns[1], 3000000);
    assert_int_equal(t.block_at[1], 2);
    assert_int_equal(t.block_at[2], 3);
    assert_int_equal(t.blocks[2], 7);
    trace_fini(&t);
}

static void test_trace_parse_damage_names_the_line(void **state) {
    (void)state;
    static const char head[] = "TIMESTAMP,ContextTokens,GeneratedTokens\n";
    static const struct {
        const char *row;
        const char *part;
    } cases[] = {{"", "no request"},
                 {"2023-11-16 18:15:46,1\n", "t:2: \"2023"},
                 {"2023-11-16T18:15:46,1,1\n", "t:2: time"},
                 {"2023-11-16 18:15:46.5x,1,1\n", "ends in \"x\""},
                 {"2023-11-16 18:15:46,-1,1\n", "t:2: -1 is outside"},
                 {"2023-11-16 18:15:46,1,1\n2023-11-16 18:15:45,1,1\n", "t:3: its time is before"}};
    for (int32_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct trace t;
        char text[512];
        snprintf(text, sizeof text, "%s%s", head, cases[i].row);
        int rc = parse(text, &t);
        assert_err(rc, rc == ERR_RANGE ? ERR_RANGE : ERR_FORMAT, cases[i].part);
    }
    struct trace t;
    assert_err(parse("{\"timestamp\": 1}", &t), ERR_FORMAT, "input_length");
    assert_err(parse("{\"timestamp\": -1, \"input_length\": 1, \"output_length\": 1}", &t),
               ERR_FORMAT, "timestamp");
    assert_err(parse("hello", &t), ERR_FORMAT, "want the header");
}

static int parse_one(void *ctx) {
    struct trace t;
    (void)ctx;
    int rc = parse("{\"timestamp\": 5, \"input_length\": 9, \"output_length\": 2, "
                   "\"hash_ids\": [7, 8]}\n",
                   &t);
    if (!rc) {
        trace_fini(&t);
    }
    return rc;
}

static void test_trace_parse_without_memory(void **state) {
    (void)state;
    static const int codes[] = {ERR_NOMEM, 0};
    test_fault_loop(FAULT_ALLOC, parse_one, NULL, codes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_trace_parse_azure_csv),
        TEST(test_trace_parse_mooncake_jsonl),
        TEST(test_trace_parse_damage_names_the_line),
        TEST(test_trace_parse_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
