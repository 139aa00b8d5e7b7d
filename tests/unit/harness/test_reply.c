/* What an answer's documents mean: tokens, channels, counts, errors; and how requests are made for
 * each kind of server. */
#include "tests/support/support.h"

#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "engine/base/json.h"
#include "harness/dialect.h"
#include "harness/reply.h"

struct log {
    struct buf text;
    int32_t n_events;
    int32_t n_bearing;
    int32_t n_answer;
    int32_t n_tokens[16];
};

static int keep(void *ctx, const struct reply_event *ev) {
    struct log *l = ctx;
    l->n_events++;
    l->n_answer += ev->bears_tokens && ev->is_answer ? 1 : 0;
    if (ev->bears_tokens && l->n_bearing < 16) {
        l->n_tokens[l->n_bearing++] = ev->n_tokens;
    }
    return buf_add(&l->text, ev->text, ev->n);
}

/* Reads documents, ended by NULL, as a stream of events. */
static void
read_stream(enum chunk_api api, const char *const *docs, struct reply *r, struct log *l) {
    *l = (struct log){0};
    buf_init(&l->text, MEM_TEST, 1 << 20);
    reply_init(r, &(struct reply_opts){.api = api, .stream = true, .fn = keep, .ctx = l});
    reply_head(r, 200, "Text/Event-Stream ; charset=utf-8", NULL);
    for (int32_t i = 0; docs[i]; i++) {
        char line[1024];
        int n = snprintf(line, sizeof line, "data: %s\n\n", docs[i]);
        (void)reply_feed(r, line, n);
    }
    reply_end(r, REPLY_OK, NULL);
}

static void done(struct reply *r, struct log *l) {
    reply_fini(r);
    buf_fini(&l->text);
}

static void test_reply_channels(void **state) {
    (void)state;
    static const char *const docs[] = {
        "{\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}",
        "{\"choices\":[{\"delta\":{\"reasoning\":\"r1\",\"content\":null}}]}",
        "{\"choices\":[{\"delta\":{\"reasoning_content\":\"r2\",\"reasoning\":\"r2\"}}]}",
        "{\"choices\":[{\"delta\":{\"content\":\"a\"}},{\"delta\":{\"content\":\"other\"}}]}",
        "{\"choices\":[{\"delta\":{\"tool_calls\":[{\"function\":{\"name\":\"f\"}},{\"function\":{"
        "\"arguments\":\"{}\"}}]}}]}",
        "{\"choices\":[{\"delta\":{\"refusal\":\"no\"},\"finish_reason\":\"tool_calls\"}]}",
        "{\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":5,"
        "\"prompt_tokens_details\":{\"cached_tokens\":4},\"completion_tokens_details\":{"
        "\"reasoning_tokens\":2}}}",
        "[DONE]",
        "not read any more",
        NULL};
    struct reply r;
    struct log l;
    read_stream(CHUNK_CHAT, docs, &r, &l);
    assert_int_equal(r.kind, REPLY_OK);
    assert_string_equal(buf_cstr(&l.text), "r1r2af{}no");
    assert_int_equal(l.n_events, 7);
    assert_int_equal(l.n_bearing, 5);
    assert_int_equal(l.n_answer, 3);
    assert_string_equal(r.finish, "tool_calls");
    assert_int_equal(r.n_prompt, 9);
    assert_int_equal(r.n_output, 5);
    assert_int_equal(r.n_cached, 4);
    assert_int_equal(r.n_reasoning, 2);
    assert_int_equal(r.count, REPLY_COUNT_EVENT);
    done(&r, &l);
}

/* Streams, what each event counts, the sum, and how it came about. */
static void test_reply_counts(void **state) {
    (void)state;
#define TEXT(more) "{\"choices\":[{\"delta\":{\"content\":\"x\"}" more "}]}"
#define RUN(n)                                                                                     \
    "{\"choices\":[{\"delta\":{\"content\":\"x\"}}],\"usage\":{\"completion_tokens\":" n "}}"
#define SUM(n) "{\"choices\":[],\"usage\":{\"completion_tokens\":" n "}}"
    static const struct {
        const char *docs[8];
        int32_t want[4];
        int64_t n_output;
        enum reply_count count;
    } rows[] = {
        {{TEXT(""), TEXT(""), "[DONE]"}, {1, 1}, -1, REPLY_COUNT_EVENT},
        {{TEXT(""), TEXT(""), SUM("2"), "[DONE]"}, {1, 1}, 2, REPLY_COUNT_EVENT},
        {{TEXT(""), TEXT(""), SUM("7"), "[DONE]"}, {1, 1}, 7, REPLY_COUNT_SPREAD},
        {{RUN("2"), RUN("5"), SUM("5"), "[DONE]"}, {2, 3}, 5, REPLY_COUNT_USAGE},
        /* half a character: its token counts with the text that shows it */
        {{RUN("1"), SUM("2"), RUN("3"), "[DONE]"}, {1, 2}, 3, REPLY_COUNT_USAGE},
        /* the sum comes with the last text: it is no running count */
        {{TEXT(""), TEXT(""), RUN("3"), "[DONE]"}, {1, 1, 1}, 3, REPLY_COUNT_EVENT},
        /* zeros until the end are no counts */
        {{RUN("0"), RUN("0"), SUM("6"), "[DONE]"}, {0, 0}, 6, REPLY_COUNT_SPREAD},
        {{TEXT(",\"logprobs\":{\"content\":[{},{}]}"), TEXT(",\"logprobs\":{\"tokens\":[\"a\"]}"),
          "[DONE]"},
         {2, 1},
         3,
         REPLY_COUNT_LOGPROBS},
        {{TEXT(",\"token_ids\":[5,6,7]"), TEXT(",\"token_ids\":[8]"), "[DONE]"},
         {3, 1},
         4,
         REPLY_COUNT_IDS},
        /* one event without a count makes the whole a guess */
        {{TEXT(",\"token_ids\":[5,6,7]"), TEXT(""), "[DONE]"}, {3, 1}, -1, REPLY_COUNT_EVENT}};
    for (int32_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct reply r;
        struct log l;
        read_stream(CHUNK_CHAT, rows[i].docs, &r, &l);
        assert_int_equal(r.kind, REPLY_OK);
        for (int32_t k = 0; k < l.n_bearing; k++) {
            assert_int_equal(l.n_tokens[k], rows[i].want[k]);
        }
        assert_int_equal(r.n_output, rows[i].n_output);
        assert_int_equal(r.count, rows[i].count);
        done(&r, &l);
    }
}

static void test_reply_documents_of_wrong_types(void **state) {
    (void)state;
    static const char *const bad[] = {"[]",
                                      "3",
                                      "{\"choices\":[{\"delta\":{\"content\":7}}]}",
                                      "{\"choices\":[{\"text\":{}}]}",
                                      "{\"choices\":[{\"delta\":{\"content\":[{\"text\":1}]}}]}",
                                      ""};
    for (int32_t i = 0; i < ARRAY_LEN(bad); i++) {
        const char *const docs[] = {bad[i], "[DONE]", NULL};
        struct reply r;
        struct log l;
        read_stream(CHUNK_CHAT, docs, &r, &l);
        assert_int_equal(r.kind, bad[i][0] ? REPLY_BAD_JSON : REPLY_OK); /* "" says nothing */
        done(&r, &l);
    }
}

static void test_reply_responses_items(void **state) {
    (void)state;
    static const char *const docs[] = {
        "{\"type\":\"response.created\",\"response\":{}}",
        "{\"type\":\"response.reasoning_text.delta\",\"delta\":\"t\"}",
        "{\"type\":\"response.output_text.delta\",\"delta\":\"x\"}",
        "{\"type\":\"response.function_call_arguments.delta\",\"delta\":\"{}\"}",
        "{\"type\":\"response.incomplete\",\"response\":{\"status\":\"incomplete\","
        "\"incomplete_details\":{\"reason\":\"max_output_tokens\"},\"usage\":{\"input_tokens\":2,"
        "\"output_tokens\":3,\"output_tokens_details\":{\"reasoning_tokens\":1}}}}",
        NULL};
    static const char *const failed[] = {
        "{\"type\":\"response.failed\",\"response\":{\"status\":\"failed\",\"error\":{\"message\":"
        "\"oh\"}}}",
        NULL};
    struct reply r;
    struct log l;
    read_stream(CHUNK_RESPONSES, docs, &r, &l);
    assert_int_equal(r.kind, REPLY_OK);
    assert_string_equal(buf_cstr(&l.text), "tx{}");
    assert_int_equal(l.n_answer, 2);
    assert_int_equal(r.n_output, 3);
    assert_int_equal(r.n_reasoning, 1);
    assert_string_equal(r.finish, "max_output_tokens");
    done(&r, &l);
    read_stream(CHUNK_RESPONSES, failed, &r, &l);
    assert_int_equal(r.kind, REPLY_ERROR_EVENT);
    assert_string_equal(r.error, "oh");
    done(&r, &l);
}

static void test_reply_too_large(void **state) {
    (void)state;
    static char big[1 << 20];
    struct reply r;
    bool more = true;
    memset(big, 'x', sizeof big);
    reply_init(&r, &(struct reply_opts){.stream = true});
    reply_head(&r, 200, "text/event-stream", NULL);
    for (int32_t i = 0; i < 8 && more; i++) {
        more = reply_feed(&r, big, sizeof big);
    }
    assert_false(more);
    reply_end(&r, REPLY_PROTOCOL, NULL);
    assert_int_equal(r.kind, REPLY_TOO_LARGE);
    reply_fini(&r);
}

static int callback_fails(void *ctx, const struct reply_event *ev) {
    (void)ctx;
    (void)ev;
    return ERR_NOMEM;
}

static void test_reply_callback_that_fails(void **state) {
    (void)state;
    struct reply r;
    reply_init(&r, &(struct reply_opts){.stream = true, .fn = callback_fails});
    reply_head(&r, 200, "text/event-stream", "7");
    assert_false(reply_feed(&r, "data: {\"choices\":[]}\n\n", 22));
    assert_int_equal(r.kind, REPLY_NO_MEMORY);
    assert_int_equal(r.retry_after_ns, 7000000000);
    reply_fini(&r);
}

/* Body of a request, as a JSON object. own: caller */
static json_t *body_of(const char *name, const struct dialect_request *q) {
    struct buf b;
    json_t *j = NULL;
    buf_init(&b, MEM_TEST, 1 << 20);
    assert_non_null(dialect_of(name));
    assert_ok(dialect_body(dialect_of(name), q, &b));
    assert_ok(json_parse("body", buf_cstr(&b), b.len, &j));
    buf_fini(&b);
    return j;
}

static void test_dialect_fields(void **state) {
    (void)state;
    static const struct {
        const char *name;
        const char *max;
        bool ignore_eos;
        bool min_tokens;
        bool running;
    } rows[] = {{"openai", "max_completion_tokens", false, false, false},
                {"vllm", "max_tokens", true, true, true},
                {"sglang", "max_tokens", true, true, true},
                {"llama.cpp", "max_tokens", true, false, false},
                {"tensorrt-llm", "max_tokens", true, true, true},
                {"ollama", "max_tokens", false, false, false}};
    const struct dialect_request q = {.api = CHUNK_CHAT,
                                      .stream = true,
                                      .model = "m",
                                      .text = "hi \"you\"",
                                      .max_new = 7,
                                      .seed = UINT64_MAX};
    for (int32_t i = 0; i < ARRAY_LEN(rows); i++) {
        json_t *j = body_of(rows[i].name, &q);
        const json_t *m = json_array_get(json_object_get(j, "messages"), 0);
        const json_t *options = json_object_get(j, "stream_options");
        assert_string_equal(json_string_value(json_object_get(m, "content")), "hi \"you\"");
        assert_int_equal(json_integer_value(json_object_get(j, rows[i].max)), 7);
        assert_int_equal(json_object_get(j, "ignore_eos") != NULL, rows[i].ignore_eos);
        assert_int_equal(json_object_get(j, "min_tokens") != NULL, rows[i].min_tokens);
        assert_true(json_is_true(json_object_get(options, "include_usage")));
        assert_int_equal(json_object_get(options, "continuous_usage_stats") != NULL,
                         rows[i].running);
        assert_int_equal(json_integer_value(json_object_get(j, "seed")), INT32_MAX);
        assert_null(json_object_get(j, "top_p"));
        json_decref(j);
    }
    assert_null(dialect_of("gpt"));
    assert_string_equal(dialect_of(NULL)->name, "openai");
}

static void test_dialect_prompts_and_more(void **state) {
    (void)state;
    static const int32_t ids[] = {5, 6, 7};
    struct buf text;
    json_t *more = json_pack("{s:f, s:i}", "temperature", 0.5, "best_of", 2);
    struct dialect_request q = {.api = CHUNK_COMPLETIONS,
                                .model = "m",
                                .ids = ids,
                                .n_ids = 3,
                                .max_new = 4,
                                .top_p = 0.9,
                                .more = more};
    json_t *j = body_of("vllm", &q);
    assert_int_equal(json_array_size(json_object_get(j, "prompt")), 3);
    assert_int_equal(json_integer_value(json_object_get(j, "best_of")), 2);
    assert_true(json_real_value(json_object_get(j, "temperature")) > 0.4); /* the later word */
    assert_true(json_is_false(json_object_get(j, "stream")));
    assert_null(json_object_get(j, "stream_options"));
    json_decref(j);
    q.api = CHUNK_RESPONSES;
    q.text = "x";
    j = body_of("openai", &q);
    assert_string_equal(json_string_value(json_object_get(j, "input")), "x");
    assert_int_equal(json_integer_value(json_object_get(j, "max_output_tokens")), 4);
    assert_null(json_object_get(j, "seed"));
    json_decref(j);
    json_decref(more);
    buf_init(&text, MEM_TEST, 1 << 20);
    q.text = "\xff";
    q.more = NULL;
    assert_err(dialect_body(dialect_of(NULL), &q, &text), ERR_FORMAT, "UTF-8");
    assert_ok(dialect_words(ids, 3, &text));
    assert_string_equal(buf_cstr(&text), "that it was");
    buf_fini(&text);
}

int main(void) {
    const struct CMUnitTest tests[] = {TEST(test_reply_channels),
                                       TEST(test_reply_counts),
                                       TEST(test_reply_documents_of_wrong_types),
                                       TEST(test_reply_responses_items),
                                       TEST(test_reply_too_large),
                                       TEST(test_reply_callback_that_fails),
                                       TEST(test_dialect_fields),
                                       TEST(test_dialect_prompts_and_more)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
