/* Answers are JSON of the right shape whatever the text is; errors and metrics too. */
#include "tests/support/support.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

#include "engine/base/json.h"
#include "engine/base/rng.h"
#include "engine/serve/apiout.h"
#include "engine/serve/jsonout.h"
#include "engine/serve/metrics.h"
#include "engine/text/utf8.h"

static struct buf b;

static int setup(void **state) {
    test_setup(state);
    buf_init(&b, MEM_TEST, 1 << 22);
    return 0;
}

static int teardown(void **state) {
    buf_fini(&b);
    return test_teardown(state);
}

static json_t *parse(const char *text, int64_t n) {
    json_t *j = NULL;
    assert_ok(json_parse("out", text, n, &j));
    return j;
}

/* One event of a stream; fails unless it is "data: JSON" and a blank line. */
static json_t *event(void) {
    assert_true(b.len > 8 && strncmp(b.data, "data: ", 6) == 0);
    assert_string_equal(b.data + b.len - 2, "\n\n");
    assert_null(memchr(b.data, '\n', (size_t)b.len - 2));
    json_t *j = parse(b.data + 6, b.len - 8);
    buf_clear(&b);
    return j;
}

static const char *text_at(json_t *j, const char *key) {
    return json_string_value(json_object_get(j, key));
}

static json_t *choice_of(json_t *j) {
    return json_array_get(json_object_get(j, "choices"), 0);
}

/* Any bytes come back as utf8_repair makes them. */
static void test_jsonout_any_bytes(void **state) {
    (void)state;
    struct rng r;
    struct buf want;
    rng_init(&r, 9, 1);
    buf_init(&want, MEM_TEST, 1 << 16);
    for (int32_t i = 0; i < 20000; i++) {
        uint8_t p[24];
        int32_t n = (int32_t)rng_below(&r, 25);
        for (int32_t k = 0; k < n; k++) {
            p[k] = (uint8_t)(rng_below(&r, 3) ? rng_u64(&r) : (uint64_t)rng_below(&r, 0x30));
        }
        buf_clear(&b);
        buf_clear(&want);
        assert_ok(jsonout_strn(&b, (const char *)p, n));
        assert_ok(utf8_repair(p, n, &want));
        json_t *j = json_loadb(b.data, (size_t)b.len, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
        assert_non_null(j);
        assert_int_equal(json_string_length(j), want.len);
        assert_memory_equal(json_string_value(j), buf_cstr(&want), (size_t)want.len);
        json_decref(j);
    }
    buf_fini(&want);
    buf_clear(&b);
    assert_ok(jsonout_logprob(&b, -(double)INFINITY));
    assert_string_equal(buf_cstr(&b), "-9999.0");
}

static void test_apiout_chat_stream(void **state) {
    (void)state;
    const struct apiout o = {.chat = true, .usage = true, .id = "chatcmpl-1", .model = "a\"b"};
    const struct apiout_usage u = {.n_prompt = 5, .n_new = 7, .n_cached = 4};
    struct lpout lp;
    lpout_init(&lp, NULL, true, 0);
    assert_ok(apiout_role(&o, 0, &b));
    json_t *j = event();
    assert_string_equal(text_at(j, "object"), "chat.completion.chunk");
    assert_string_equal(text_at(j, "model"), "a\"b");
    assert_string_equal(text_at(json_object_get(choice_of(j), "delta"), "role"), "assistant");
    assert_true(json_is_null(json_object_get(j, "usage")));
    json_decref(j);
    assert_ok(apiout_delta(&o, 2, "x\n\"", 3, &lp, &b));
    j = event();
    assert_string_equal(text_at(json_object_get(choice_of(j), "delta"), "content"), "x\n\"");
    assert_int_equal(json_integer_value(json_object_get(choice_of(j), "index")), 2);
    assert_true(json_is_null(json_object_get(choice_of(j), "finish_reason")));
    json_decref(j);
    assert_ok(apiout_finish(&o, 2, "length", &b));
    j = event();
    assert_string_equal(text_at(choice_of(j), "finish_reason"), "length");
    assert_int_equal(json_object_size(json_object_get(choice_of(j), "delta")), 0);
    json_decref(j);
    assert_ok(apiout_stream_usage(&o, &u, &b));
    j = event();
    assert_int_equal(json_array_size(json_object_get(j, "choices")), 0);
    json_t *usage = json_object_get(j, "usage");
    assert_int_equal(json_integer_value(json_object_get(usage, "total_tokens")), 12);
    json_decref(j);
    assert_ok(apiout_done(&b));
    assert_string_equal(buf_cstr(&b), "data: [DONE]\n\n");
}

static void test_apiout_completion(void **state) {
    (void)state;
    const struct apiout o = {.id = "cmpl-1", .model = "m"};
    const struct apiout_usage u = {.n_prompt = 5, .n_new = 7, .n_cached = 4};
    struct lpout lp;
    lpout_init(&lp, NULL, false, 0);
    assert_ok(apiout_delta(&o, 0, "x", 1, &lp, &b));
    json_t *j = event();
    assert_string_equal(text_at(j, "object"), "text_completion");
    assert_string_equal(text_at(choice_of(j), "text"), "x");
    assert_null(json_object_get(j, "usage"));
    json_decref(j);
    assert_ok(apiout_begin(&o, &b));
    assert_ok(apiout_choice(&o, 0, "one", 3, &lp, "stop", &b));
    assert_ok(apiout_choice(&o, 1, "two", 3, &lp, "length", &b));
    assert_ok(apiout_end(&u, &b));
    j = parse(b.data, b.len);
    assert_int_equal(json_array_size(json_object_get(j, "choices")), 2);
    json_t *details = json_object_get(json_object_get(j, "usage"), "prompt_tokens_details");
    assert_int_equal(json_integer_value(json_object_get(details, "cached_tokens")), 4);
    json_decref(j);
}

static void test_apierr_of_codes(void **state) {
    (void)state;
    static const struct {
        int rc;
        int32_t status;
        const char *type;
        bool retry;
    } rows[] = {{ERR_LIMIT, 400, "invalid_request_error", false},
                {ERR_RANGE, 400, "invalid_request_error", false},
                {ERR_BUSY, 429, "rate_limit_error", true},
                {ERR_NOMEM, 503, "server_error", true},
                {ERR_DEVICE, 503, "server_error", true},
                {ERR_INTERNAL, 500, "server_error", false}};
    for (int32_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct apierr e = {0};
        err_set(rows[i].rc, "it was \"%d\"", i);
        assert_int_equal(apierr_from(&e, rows[i].rc, "n"), rows[i].rc);
        assert_int_equal(e.status, rows[i].status);
        assert_true(apierr_retry(&e) == rows[i].retry);
        buf_clear(&b);
        assert_ok(apierr_format(&e, &b));
        json_t *j = parse(b.data, b.len);
        json_t *o = json_object_get(j, "error");
        assert_string_equal(text_at(o, "type"), rows[i].type);
        assert_string_equal(text_at(o, "param"), "n");
        assert_non_null(strstr(text_at(o, "message"), "it was"));
        assert_true(json_is_null(json_object_get(o, "code")));
        json_decref(j);
    }
}

static void test_metrics_page(void **state) {
    (void)state;
    const struct engine_stats st = {.n_running = 3, .n_blocks = 10, .n_blocks_active = 5};
    struct metrics m;
    metrics_init(&m);
    metrics_time(&m, METRICS_TTFT, 1000000);      /* on a bound: inside */
    metrics_time(&m, METRICS_TTFT, 1000001);      /* behind it */
    metrics_time(&m, METRICS_TTFT, 999000000000); /* past all */
    metrics_finish(&m, METRICS_STOP, 7, 9);
    metrics_code(&m, 200);
    metrics_code(&m, 404);
    metrics_code(&m, 200);
    assert_ok(metrics_format(&m, &st, "a\"b", 4, &b));
    static const char *const lines[] = {
        "vllm:num_requests_running{model_name=\"a\\\"b\"} 3\n",
        "vllm:kv_cache_usage_perc{model_name=\"a\\\"b\"} 0.5\n",
        "vllm:time_to_first_token_seconds_bucket{model_name=\"a\\\"b\",le=\"0.001\"} 1\n",
        "vllm:time_to_first_token_seconds_bucket{model_name=\"a\\\"b\",le=\"0.005\"} 2\n",
        "vllm:time_to_first_token_seconds_bucket{model_name=\"a\\\"b\",le=\"160\"} 2\n",
        "vllm:time_to_first_token_seconds_bucket{model_name=\"a\\\"b\",le=\"+Inf\"} 3\n",
        "vllm:time_to_first_token_seconds_count{model_name=\"a\\\"b\"} 3\n",
        "vllm:prompt_tokens_total{model_name=\"a\\\"b\"} 7\n",
        "vllm:generation_tokens_total{model_name=\"a\\\"b\"} 9\n",
        "finished_reason=\"stop\"} 1\n",
        "trilemma:http_requests_total{model_name=\"a\\\"b\",code=\"200\"} 2\n",
        "trilemma:http_requests_total{model_name=\"a\\\"b\",code=\"404\"} 1\n",
        "trilemma:http_connections{model_name=\"a\\\"b\"} 4\n"};
    for (int32_t i = 0; i < ARRAY_LEN(lines); i++) {
        if (!strstr(buf_cstr(&b), lines[i])) {
            fail_msg("no line %s in\n%s", lines[i], buf_cstr(&b));
        }
    }
    metrics_fini(&m);
}

#define OUT_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {OUT_TEST(test_jsonout_any_bytes),
                                       OUT_TEST(test_apiout_chat_stream),
                                       OUT_TEST(test_apiout_completion),
                                       OUT_TEST(test_apierr_of_codes), OUT_TEST(test_metrics_page)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
