/* Bodies of requests: every field, every refusal. */
#include "tests/support/support.h"

#include <stdio.h>
#include <string.h>

#include "tests/support/api_fixture.h"

static struct api_fixture fix;
static struct apireq req;
static struct apierr err;

static int setup(void **state) {
    test_setup(state);
    return api_fixture_init(&fix);
}

static int teardown(void **state) {
    api_fixture_fini(&fix);
    return test_teardown(state);
}

static int parse(enum apireq_kind kind, const char *body) {
    return apireq_parse(kind, &fix.env, body, (int64_t)strlen(body), &req, &err);
}

static void good(enum apireq_kind kind, const char *body) {
    int rc = parse(kind, body);
    if (rc) {
        fail_msg("%s is refused: %d %s", body, err.status, err.text);
    }
}

/* A body with more fields behind a prompt. */
static const char *with(enum apireq_kind kind, const char *more) {
    static char body[1024];
    snprintf(body, sizeof body, "{%s%s%s}",
             kind == APIREQ_CHAT ? "\"messages\":[{\"role\":\"user\",\"content\":\"hello\"}]"
                                 : "\"prompt\":\"hello\"",
             more[0] ? "," : "", more);
    return body;
}

static void bad(enum apireq_kind kind, const char *body, const char *param, const char *part) {
    int rc = parse(kind, body);
    bool as_told = rc && err.status == 400 && strcmp(err.param, param) == 0 &&
                   strstr(err.text, part) && req.n_prompt == 0;
    if (!rc) {
        apireq_fini(&req);
    }
    if (!as_told) {
        fail_msg("%s: %d, param \"%s\", \"%s\"; want 400, \"%s\", \"%s\"", body, err.status,
                 err.param, err.text, param, part);
    }
}

static void test_apireq_defaults(void **state) {
    (void)state;
    good(APIREQ_CHAT, with(APIREQ_CHAT, ""));
    assert_int_equal(req.n_prompt, 1);
    assert_int_equal(req.n, 1);
    assert_int_equal(req.max_new, API_CTX - req.prompt[0].n);
    assert_true(req.sampling.temperature == 1 && req.sampling.top_p == 0);
    assert_true(!req.stream && !req.seeded && !req.logprobs && !req.ignore_eos);
    assert_int_equal(req.n_stop_id, 1);
    assert_int_equal(req.stop_id[0], API_EOS);
    apireq_fini(&req);
    good(APIREQ_COMPLETION, with(APIREQ_COMPLETION, ""));
    assert_int_equal(req.max_new, APIREQ_COMPLETION_TOK);
    assert_int_equal(req.prompt[0].n, 2); /* hello <|end|>, which the tokenizer adds */
    assert_int_equal(req.prompt[0].v[0], 259);
    apireq_fini(&req);
}

static void test_apireq_every_field_is_taken(void **state) {
    (void)state;
    good(APIREQ_CHAT,
         with(APIREQ_CHAT,
              "\"model\":\"toy\",\"max_completion_tokens\":9,\"min_tokens\":2,\"ignore_eos\":true,"
              "\"temperature\":0.5,\"top_p\":0.25,\"top_k\":7,\"min_p\":0.125,"
              "\"presence_penalty\":-1,\"frequency_penalty\":1.5,\"seed\":-5,"
              "\"stop\":[\"ab\",\"\\u00e9\"],\"stop_token_ids\":[3,4],\"n\":3,\"stream\":true,"
              "\"stream_options\":{\"include_usage\":true,\"continuous_usage_stats\":true},"
              "\"logprobs\":true,\"top_logprobs\":4,"
              "\"user\":\"me\",\"metadata\":{\"k\":\"v\"},\"parallel_tool_calls\":true,"
              "\"service_tier\":\"auto\",\"response_format\":{\"type\":\"text\"},"
              "\"tool_choice\":\"none\",\"function_call\":\"none\",\"tools\":[],\"functions\":[],"
              "\"logit_bias\":{},\"store\":false"));
    const struct sampling *p = &req.sampling;
    assert_true(p->temperature == 0.5f && p->top_p == 0.25f && p->top_k == 7 && p->min_p == 0.125f);
    assert_true(p->presence == -1 && p->frequency == 1.5f && p->seed == (uint64_t)-5);
    assert_true(req.seeded && req.ignore_eos && req.stream && req.usage && req.each &&
                req.logprobs);
    assert_true(req.max_new == 9 && req.min_new == 2 && req.n == 3 && req.n_top == 4);
    assert_int_equal(req.stop.n, 2);
    assert_true(req.stop.len[0] == 2 && memcmp(req.stop.word[0], "ab", 2) == 0);
    assert_true(req.stop.len[1] == 2 && memcmp(req.stop.word[1], "\xc3\xa9", 2) == 0);
    assert_true(req.n_stop_id == 3 && req.stop_id[1] == 3 && req.stop_id[2] == 4);
    apireq_fini(&req);
    good(APIREQ_COMPLETION,
         with(APIREQ_COMPLETION, "\"max_tokens\":9,\"logprobs\":2,\"echo\":false,\"best_of\":1,"
                                 "\"suffix\":\"\",\"stop\":\"x\",\"top_k\":-1"));
    assert_true(req.logprobs && req.n_top == 2 && req.stop.n == 1 && req.sampling.top_k == 0);
    apireq_fini(&req);
}

static void test_apireq_null_is_absent(void **state) {
    (void)state;
    good(APIREQ_CHAT,
         with(APIREQ_CHAT, "\"temperature\":null,\"stop\":null,\"n\":null,\"tools\":null,\"model\":"
                           "null,\"stream\":null,\"stream_options\":null,\"max_tokens\":null"));
    assert_true(req.sampling.temperature == 1 && req.n == 1 && req.stop.n == 0);
    apireq_fini(&req);
}

static void test_apireq_prompts(void **state) {
    (void)state;
    good(APIREQ_COMPLETION, "{\"prompt\":[1,2,299]}");
    assert_true(req.n_prompt == 1 && req.prompt[0].n == 3 && req.prompt[0].v[2] == 299);
    apireq_fini(&req);
    good(APIREQ_COMPLETION, "{\"prompt\":[[1],[2,3],\"hello\"],\"n\":2}");
    assert_true(req.n_prompt == 3 && req.prompt[1].n == 2 && req.prompt[2].v[0] == 259);
    apireq_fini(&req);
    good(APIREQ_TOKENIZE, "{\"prompt\":\"hello<|end|>\",\"add_special_tokens\":false}");
    assert_true(req.n_prompt == 1 && req.prompt[0].n == 2 && req.prompt[0].v[1] == API_EOS);
    apireq_fini(&req);
    good(APIREQ_TOKENIZE, "{\"messages\":[{\"role\":\"user\",\"content\":\"hello\"}]}");
    assert_int_equal(req.n_prompt, 1);
    apireq_fini(&req);
    good(APIREQ_TOKENIZE, "{\"prompt\":[]}");
    apireq_fini(&req);
    good(APIREQ_DETOKENIZE, "{\"tokens\":[259,0]}");
    assert_true(req.tokens.n == 2 && req.tokens.v[0] == 259);
    apireq_fini(&req);
}

/* Text parts are one text. */
static void test_apireq_parts_equal_a_string(void **state) {
    (void)state;
    struct apireq one;
    good(APIREQ_CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":\"hello\"}]}");
    one = req;
    good(APIREQ_CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":"
                      "\"hel\"},{\"type\":\"text\",\"text\":\"lo\"}]}]}");
    assert_int_equal(one.prompt[0].n, req.prompt[0].n);
    assert_memory_equal(one.prompt[0].v, req.prompt[0].v,
                        (size_t)req.prompt[0].n * sizeof(int32_t));
    apireq_fini(&one);
    apireq_fini(&req);
}

struct refusal {
    const char *more;
    const char *param;
    const char *part;
};

static void test_apireq_refuses_fields(void **state) {
    (void)state;
    static const struct refusal both[] = {
        {"\"temprature\":1", "temprature", "did you mean \"temperature\""},
        {"\"zzzzzzzz\":1", "zzzzzzzz", "unknown field"},
        {"\"model\":3", "model", "want a string"},
        {"\"temperature\":\"1\"", "temperature", "is a string, want a number"},
        {"\"temperature\":2.5", "temperature", "want 0..2"},
        {"\"temperature\":-1", "temperature", "want 0..2"},
        {"\"temperature\":true", "temperature", "true"},
        {"\"top_p\":0", "top_p", "more than 0"},
        {"\"top_p\":1.5", "top_p", "at most 1"},
        {"\"top_p\":[]", "top_p", "want a number"},
        {"\"top_k\":-2", "top_k", "-1 (all)"},
        {"\"top_k\":1.5", "top_k", "whole number"},
        {"\"min_p\":2", "min_p", "want 0..1"},
        {"\"presence_penalty\":3", "presence_penalty", "-2..2"},
        {"\"frequency_penalty\":-3", "frequency_penalty", "-2..2"},
        {"\"seed\":1.5", "seed", "whole number"},
        {"\"max_tokens\":0", "max_tokens", "want 1.."},
        {"\"max_tokens\":\"5\"", "max_tokens", "whole number"},
        {"\"max_tokens\":64", "max_tokens", "the context holds 64"},
        {"\"min_tokens\":-1", "min_tokens", "want 0.."},
        {"\"min_tokens\":6,\"max_tokens\":5", "min_tokens", "min_tokens is 6, max_tokens 5"},
        {"\"ignore_eos\":1", "ignore_eos", "true or false"},
        {"\"stop\":5", "stop", "a string or a list"},
        {"\"stop\":\"\"", "stop", "empty or too long"},
        {"\"stop\":[\"a\",3]", "stop", "stop[1]"},
        {"\"stop\":[\"1\",\"2\",\"3\",\"4\",\"5\",\"6\",\"7\",\"8\",\"9\",\"10\",\"11\",\"12\","
         "\"13\",\"14\",\"15\",\"16\",\"17\"]",
         "stop", "17 strings, want at most 16"},
        {"\"stop_token_ids\":3", "stop_token_ids", "list"},
        {"\"stop_token_ids\":[300]", "stop_token_ids", "no token id 0..299"},
        {"\"stop_token_ids\":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]", "stop_token_ids",
         "at most 15"},
        {"\"n\":0", "n", "want 1..128"},
        {"\"n\":129", "n", "want 1..128"},
        {"\"n\":\"1\"", "n", "whole number"},
        {"\"stream\":\"yes\"", "stream", "true or false"},
        {"\"stream_options\":{\"include_usage\":true}", "stream_options", "without stream"},
        {"\"stream\":true,\"stream_options\":{\"x\":true}", "stream_options", "include_usage"},
        {"\"stream\":true,\"stream_options\":5", "stream_options", "an object"},
        {"\"user\":5", "user", "want a string"},
        {"\"metadata\":[]", "metadata", "want an object"},
        {"\"response_format\":{\"type\":\"json_object\"}", "response_format", "not supported"},
        {"\"response_format\":{\"type\":\"text\",\"x\":1}", "response_format", "not supported"},
        {"\"logit_bias\":{\"5\":1}", "logit_bias", "not supported"}};
    static const struct refusal chat[] = {
        {"\"prompt\":\"x\"", "prompt", "unknown field"},
        {"\"max_completion_tokens\":5,\"max_tokens\":6", "max_tokens", "differ"},
        {"\"logprobs\":3", "logprobs", "true or false"},
        {"\"top_logprobs\":3", "top_logprobs", "without logprobs"},
        {"\"logprobs\":true,\"top_logprobs\":21", "top_logprobs", "want 0..20"},
        {"\"tools\":[{\"type\":\"function\"}]", "tools", "not supported"},
        {"\"functions\":[{}]", "functions", "not supported"},
        {"\"tool_choice\":\"auto\"", "tool_choice", "want \"none\""},
        {"\"function_call\":{}", "function_call", "want \"none\""},
        {"\"service_tier\":\"flex\"", "service_tier", "not supported"},
        {"\"parallel_tool_calls\":1", "parallel_tool_calls", "true or false"},
        {"\"store\":true", "store", "not supported"}};
    static const struct refusal plain[] = {
        {"\"messages\":[]", "messages", "unknown field"},
        {"\"logprobs\":true", "logprobs", "whole number"},
        {"\"logprobs\":21", "logprobs", "want 0..20"},
        {"\"echo\":true", "echo", "not supported"},
        {"\"best_of\":2", "best_of", "want 1"},
        {"\"suffix\":\"x\"", "suffix", "not supported"},
        {"\"max_completion_tokens\":5", "max_completion_tokens", "unknown field"}};
    for (int32_t i = 0; i < ARRAY_LEN(both); i++) {
        bad(APIREQ_CHAT, with(APIREQ_CHAT, both[i].more), both[i].param, both[i].part);
        bad(APIREQ_COMPLETION, with(APIREQ_COMPLETION, both[i].more), both[i].param, both[i].part);
    }
    for (int32_t i = 0; i < ARRAY_LEN(chat); i++) {
        bad(APIREQ_CHAT, with(APIREQ_CHAT, chat[i].more), chat[i].param, chat[i].part);
    }
    for (int32_t i = 0; i < ARRAY_LEN(plain); i++) {
        bad(APIREQ_COMPLETION, with(APIREQ_COMPLETION, plain[i].more), plain[i].param,
            plain[i].part);
    }
}

static void test_apireq_refuses_bodies(void **state) {
    (void)state;
    static const struct {
        enum apireq_kind kind;
        struct refusal r;
    } rows[] = {
        {APIREQ_CHAT, {"", "", "body: line 1"}},
        {APIREQ_CHAT, {"{\"messages\":", "", "body: line 1"}},
        {APIREQ_CHAT, {"[]", "", "no JSON object"}},
        {APIREQ_CHAT, {"{\"n\":1,\"n\":2}", "", "duplicate"}},
        {APIREQ_CHAT, {"{}", "messages", "is missing"}},
        {APIREQ_CHAT, {"{\"messages\":[]}", "messages", "1..4096"}},
        {APIREQ_CHAT, {"{\"messages\":{}}", "messages", "an object"}},
        {APIREQ_CHAT, {"{\"messages\":[5]}", "messages[0]", "want an object"}},
        {APIREQ_CHAT, {"{\"messages\":[{}]}", "messages[0]", "the role \"\""}},
        {APIREQ_CHAT,
         {"{\"messages\":[{\"role\":\"tool\",\"content\":\"x\"}]}", "messages[0]", "\"tool\""}},
        {APIREQ_CHAT,
         {"{\"messages\":[{\"role\":\"user\"}]}", "messages[0].content", "is missing"}},
        {APIREQ_CHAT,
         {"{\"messages\":[{\"role\":\"user\",\"content\":5}]}", "messages[0].content",
          "a whole number"}},
        {APIREQ_CHAT,
         {"{\"messages\":[{\"role\":\"user\",\"content\":\"x\",\"tool_calls\":[]}]}", "messages[0]",
          "tool_calls"}},
        {APIREQ_CHAT,
         {"{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\"}]}]}",
          "messages[0].content", "image_url"}},
        {APIREQ_CHAT,
         {"{\"messages\":[{\"role\":\"user\",\"content\":[5]}]}", "messages[0].content", "[0]"}},
        {APIREQ_CHAT,
         {"{\"messages\":[{\"role\":\"user\",\"content\":\"raise\"}]}", "messages",
          "no systems here"}},
        {APIREQ_COMPLETION, {"{}", "prompt", "is missing"}},
        {APIREQ_COMPLETION, {"{\"prompt\":5}", "prompt", "want a string or a list"}},
        {APIREQ_COMPLETION, {"{\"prompt\":[]}", "prompt", "no token"}},
        {APIREQ_COMPLETION, {"{\"prompt\":[1,300]}", "prompt", "prompt[1] is 300"}},
        {APIREQ_COMPLETION, {"{\"prompt\":[1,-1]}", "prompt", "0..299"}},
        {APIREQ_COMPLETION, {"{\"prompt\":[1,\"x\"]}", "prompt", "prompt[1] is a string"}},
        {APIREQ_COMPLETION, {"{\"prompt\":[\"x\",5]}", "prompt[1]", "a whole number"}},
        {APIREQ_COMPLETION, {"{\"prompt\":[[1],[]]}", "prompt[1]", "no token"}},
        {APIREQ_COMPLETION, {"{\"prompt\":[[1],[[2]]]}", "prompt[1]", "want a token id"}},
        {APIREQ_COMPLETION, {"{\"prompt\":[\"a\",\"b\"],\"n\":65}", "n", "130 choices"}},
        {APIREQ_TOKENIZE, {"{}", "prompt", "is missing"}},
        {APIREQ_TOKENIZE, {"{\"prompt\":\"a\",\"messages\":[]}", "messages", "both given"}},
        {APIREQ_TOKENIZE,
         {"{\"prompt\":\"a\",\"add_special_tokens\":1}", "add_special_tokens", "true or false"}},
        {APIREQ_DETOKENIZE, {"{}", "tokens", "is missing"}},
        {APIREQ_DETOKENIZE, {"{\"tokens\":\"x\"}", "tokens", "a string"}},
        {APIREQ_DETOKENIZE, {"{\"tokens\":[300]}", "tokens", "tokens[0] is 300"}}};
    for (int32_t i = 0; i < ARRAY_LEN(rows); i++) {
        bad(rows[i].kind, rows[i].r.more, rows[i].r.param, rows[i].r.part);
    }
}

static void test_apireq_prompt_longer_than_the_context_names_numbers(void **state) {
    (void)state;
    struct buf b;
    buf_init(&b, MEM_TEST, 1 << 16);
    assert_ok(buf_str(&b, "{\"prompt\":[0"));
    for (int32_t i = 1; i < API_CTX; i++) {
        assert_ok(buf_fmt(&b, ",%d", i));
    }
    assert_ok(buf_str(&b, "]}"));
    bad(APIREQ_COMPLETION, buf_cstr(&b), "prompt", "prompt has 64 tokens; the context holds 64");
    buf_fini(&b);
}

/* A text that cannot fit is refused by its bytes. */
static void test_apireq_text_longer_than_any_context_is_not_tokenized(void **state) {
    (void)state;
    fix.env.text_max = 4;
    bad(APIREQ_COMPLETION, "{\"prompt\":[\"hell\",\"hello\"]}", "prompt[1]",
        "5 bytes of text; a context of 64 tokens holds no more than 4");
    bad(APIREQ_CHAT,
        "{\"messages\":[{\"role\":\"user\",\"content\":\"ab\"},{\"role\":\"user\",\"content\":"
        "\"cde\"}]}",
        "messages", "5 bytes of text");
    good(APIREQ_TOKENIZE, "{\"prompt\":\"hello\"}");
    apireq_fini(&req);
}

static void test_apireq_unknown_model_is_404(void **state) {
    (void)state;
    assert_int_not_equal(parse(APIREQ_CHAT, with(APIREQ_CHAT, "\"model\":\"gpt\"")), 0);
    assert_int_equal(err.status, 404);
    assert_string_equal(err.code, "model_not_found");
    assert_non_null(strstr(err.text, "\"gpt\" does not exist; served is \"toy\""));
}

static int parse_all(void *ctx) {
    (void)ctx;
    int rc =
        parse(APIREQ_CHAT, with(APIREQ_CHAT, "\"stop\":[\"ab\",\"c\"],\"stop_token_ids\":[1]"));
    if (rc == 0) {
        apireq_fini(&req);
        rc = parse(APIREQ_COMPLETION, "{\"prompt\":[\"hello\",[1,2,3]],\"stop\":\"x\"}");
    }
    if (rc == 0) {
        apireq_fini(&req);
        rc = parse(APIREQ_CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\","
                                "\"text\":\"hello\"}]}]}");
    }
    if (rc == 0) {
        apireq_fini(&req);
    } else {
        assert_int_equal(err.status, 503);
    }
    return rc;
}

static void test_apireq_without_memory(void **state) {
    (void)state;
    static const int codes[] = {ERR_NOMEM, 0};
    parse_all(NULL); /* the tokenizer keeps a scratch */
    test_fault_loop(FAULT_ALLOC, parse_all, NULL, codes);
}

#define API_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        API_TEST(test_apireq_defaults),
        API_TEST(test_apireq_every_field_is_taken),
        API_TEST(test_apireq_null_is_absent),
        API_TEST(test_apireq_prompts),
        API_TEST(test_apireq_parts_equal_a_string),
        API_TEST(test_apireq_refuses_fields),
        API_TEST(test_apireq_refuses_bodies),
        API_TEST(test_apireq_prompt_longer_than_the_context_names_numbers),
        API_TEST(test_apireq_text_longer_than_any_context_is_not_tokenized),
        API_TEST(test_apireq_unknown_model_is_404),
        API_TEST(test_apireq_without_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
