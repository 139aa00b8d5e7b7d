/* The server over loopback: what it answers equals what the engine gives by itself.
 * LABELS: threads */
#include "tests/support/support.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/json.h"
#include "tests/support/api_client.h"
#include "tests/support/api_server.h"

enum { TOKENS = 40, BODY = 2048 };

static struct api_server sv;
static const char user[] = "hello there";
static const char *backend;

static int setup_cpu(void **state) {
    test_setup(state);
    backend = "cpu";
    api_server_start(&sv, backend, NULL);
    return 0;
}

static int setup_null(void **state) {
    const struct server_opts o = {.key = "secret key", .body_max = 4096, .calls_max = 2};
    test_setup(state);
    backend = "null";
    api_server_start(&sv, backend, &o);
    return 0;
}

static int teardown(void **state) {
    api_server_stop(&sv);
    return test_teardown(state);
}

static json_t *parse(const char *text, int64_t n) {
    json_t *j = NULL;
    assert_ok(json_parse("answer", text, n, &j));
    return j;
}

/* A path of keys "a.0.b" into an answer. */
static json_t *at(json_t *j, const char *path) {
    char key[64];
    while (*path && j) {
        size_t n = strcspn(path, ".");
        snprintf(key, sizeof key, "%.*s", (int)n, path);
        j = json_is_array(j) ? json_array_get(j, (size_t)strtol(key, NULL, 10))
                             : json_object_get(j, key);
        path += n + (path[n] == '.' ? 1 : 0);
    }
    return j;
}

static json_t *post(const char *path, const char *body, int32_t status) {
    struct api_reply r;
    int32_t got = api_ask(sv.port, "POST", path, body, &r);
    if (got != status || !r.whole) {
        fail_msg("%s %s: %d (%s), want %d", path, body, got, buf_cstr(&r.body), status);
    }
    json_t *j = parse(buf_cstr(&r.body), r.body.len);
    api_reply_fini(&r);
    return j;
}

/* The text of an engine's own answer. */
static void own_text(const struct engine_request *r, struct buf *text, int32_t *n_tok) {
    static int32_t tokens[1 << 12];
    int32_t n = api_server_tokens(&sv, backend, r, tokens, ARRAY_LEN(tokens));
    const struct model_cfg *c = &sv.model->weights->cfg;
    *n_tok = n;
    for (int32_t i = 0; i < c->n_eos && n > 0 && !r->ignore_stop; i++) {
        n -= tokens[n - 1] == c->eos[i] ? 1 : 0;
    }
    assert_ok(tok_decode(sv.model->tok, tokens, n, true, text));
}

static void chat_ids(struct tok_ids *ids) {
    json_t *m = json_pack("[{s:s, s:s}]", "role", "user", "content", user);
    tok_ids_init(ids);
    assert_ok(model_chat_ids(sv.model, m, 0, ids));
    json_decref(m);
}

static void own_chat(struct sampling p, int32_t max_new, struct buf *text, int32_t *n_tok) {
    struct tok_ids ids;
    chat_ids(&ids);
    const struct engine_request r = {
        .ids = ids.v, .n_ids = ids.n, .max_new = max_new, .sampling = p};
    buf_init(text, MEM_TEST, 1 << 24);
    own_text(&r, text, n_tok);
    tok_ids_fini(&ids);
}

static const char *chat_body(const char *more) {
    static char body[BODY];
    snprintf(body, sizeof body, "{\"messages\":[{\"role\":\"user\",\"content\":\"%s\"}],%s}", user,
             more);
    return body;
}

static void check_text(json_t *j, const struct buf *want) {
    assert_true(json_is_string(j));
    assert_int_equal(json_string_length(j), want->len);
    assert_memory_equal(json_string_value(j), buf_cstr(want), (size_t)want->len);
}

static void test_serve_chat_equals_the_engine(void **state) {
    (void)state;
    struct buf want;
    struct tok_ids ids;
    int32_t n = 0;
    chat_ids(&ids);
    own_chat((struct sampling){.temperature = 0.7f, .seed = 5, .top_k = 40}, TOKENS, &want, &n);
    for (int32_t i = 0; i < 2; i++) {
        json_t *j = post("/v1/chat/completions",
                         chat_body("\"temperature\":0.7,\"seed\":5,\"top_k\":40,\"max_tokens\":40,"
                                   "\"model\":\"tiny\""),
                         200);
        check_text(at(j, "choices.0.message.content"), &want);
        assert_string_equal(json_string_value(at(j, "choices.0.message.role")), "assistant");
        assert_string_equal(json_string_value(at(j, "choices.0.finish_reason")),
                            n == TOKENS ? "length" : "stop");
        assert_string_equal(json_string_value(at(j, "object")), "chat.completion");
        assert_int_equal(json_integer_value(at(j, "usage.prompt_tokens")), ids.n);
        assert_int_equal(json_integer_value(at(j, "usage.completion_tokens")), n);
        int64_t cached = json_integer_value(at(j, "usage.prompt_tokens_details.cached_tokens"));
        assert_true(i == 0 ? cached == 0 : cached >= 16 && cached < ids.n);
        json_decref(j);
    }
    tok_ids_fini(&ids);
    buf_fini(&want);
}

struct stream {
    struct buf text[4];
    int32_t n_role;
    int32_t n_delta;
    int32_t n_finish;
    char reason[16];
    int64_t n_new; /* of the usage chunk; -1: none */
    int64_t n_now; /* of the newest chunk of a choice; -1: none */
    bool done;
};

static void take_choice(struct stream *s, json_t *c, bool chat) {
    int32_t i = (int32_t)json_integer_value(at(c, "index"));
    json_t *text = chat ? at(c, "delta.content") : at(c, "text");
    const char *reason = json_string_value(at(c, "finish_reason"));
    assert_in_range(i, 0, 3);
    s->n_role += at(c, "delta.role") ? 1 : 0;
    if (json_string_length(text) > 0) {
        s->n_delta++;
        assert_ok(buf_add(&s->text[i], json_string_value(text), (int64_t)json_string_length(text)));
    }
    if (reason) {
        s->n_finish++;
        snprintf(s->reason, sizeof s->reason, "%s", reason);
    }
}

/* Reads a whole stream; fails on anything that is not of the API's form. */
static void stream(const char *path, const char *body, bool chat, struct stream *s) {
    struct api_reply r;
    *s = (struct stream){.n_new = -1, .n_now = -1};
    for (int32_t i = 0; i < ARRAY_LEN(s->text); i++) {
        buf_init(&s->text[i], MEM_TEST, 1 << 24);
    }
    assert_int_equal(api_ask(sv.port, "POST", path, body, &r), 200);
    assert_true(r.whole);
    assert_non_null(strstr(r.head.data, "text/event-stream"));
    for (const char *p = r.body.data; *p;) {
        const char *end = strstr(p, "\n\n");
        assert_true(end && strncmp(p, "data: ", 6) == 0 && !s->done);
        if (strncmp(p, "data: [DONE]", 12) == 0) {
            s->done = true;
        } else {
            json_t *j = parse(p + 6, end - p - 6);
            json_t *c = at(j, "choices.0");
            if (c) {
                json_t *now = at(j, "usage.completion_tokens");
                assert_true(!now || json_integer_value(now) >= s->n_now);
                s->n_now = now ? json_integer_value(now) : s->n_now;
                take_choice(s, c, chat);
            } else {
                s->n_new = json_integer_value(at(j, "usage.completion_tokens"));
            }
            json_decref(j);
        }
        p = end + 2;
    }
    assert_true(s->done);
    api_reply_fini(&r);
}

static void stream_fini(struct stream *s) {
    for (int32_t i = 0; i < ARRAY_LEN(s->text); i++) {
        buf_fini(&s->text[i]);
    }
}

static void check_buf(const struct buf *got, const struct buf *want) {
    assert_int_equal(got->len, want->len);
    assert_memory_equal(buf_cstr(got), buf_cstr(want), (size_t)want->len);
}

static void test_serve_stream_equals_the_engine(void **state) {
    (void)state;
    struct buf want;
    struct stream s;
    int32_t n = 0;
    own_chat((struct sampling){.temperature = 0.9f, .seed = 11}, TOKENS, &want, &n);
    stream("/v1/chat/completions",
           chat_body("\"temperature\":0.9,\"seed\":11,\"max_tokens\":40,\"stream\":true,"
                     "\"stream_options\":{\"include_usage\":true,\"continuous_usage_stats\":true}"),
           true, &s);
    check_buf(&s.text[0], &want);
    assert_true(s.n_role == 1 && s.n_finish == 1 && s.n_delta > 1 && s.n_new == n);
    assert_true(s.n_now == n);
    assert_string_equal(s.reason, n == TOKENS ? "length" : "stop");
    stream_fini(&s);
    stream("/v1/chat/completions",
           chat_body("\"temperature\":0.9,\"seed\":11,\"max_tokens\":40,\"stream\":true"), true,
           &s);
    assert_true(s.n_new == -1 && s.n_now == -1);
    check_buf(&s.text[0], &want);
    stream_fini(&s);
    buf_fini(&want);
}

/* Choice i of n has seed + i; prompts of each form. */
static void test_serve_completions_of_many_prompts(void **state) {
    (void)state;
    static int32_t one[] = {40, 41, 42, 43};
    static int32_t two[] = {50, 51};
    json_t *j = post("/v1/completions",
                     "{\"prompt\":[[40,41,42,43],[50,51]],\"n\":2,\"max_tokens\":12,\"seed\":3,"
                     "\"ignore_eos\":true}",
                     200);
    struct stream s;
    stream("/v1/completions",
           "{\"prompt\":[[40,41,42,43],[50,51]],\"n\":2,\"max_tokens\":12,\"seed\":3,"
           "\"ignore_eos\":true,\"stream\":true}",
           false, &s);
    assert_int_equal(json_array_size(at(j, "choices")), 4);
    assert_int_equal(json_integer_value(at(j, "usage.prompt_tokens")), 6);
    assert_int_equal(json_integer_value(at(j, "usage.completion_tokens")), 48);
    for (int32_t i = 0; i < 4; i++) {
        const struct engine_request r = {
            .ids = i < 2 ? one : two,
            .n_ids = i < 2 ? 4 : 2,
            .max_new = 12,
            .ignore_stop = true,
            .sampling = {.temperature = 1, .seed = (uint64_t)(3 + i % 2)}};
        struct buf want;
        char path[64];
        int32_t n = 0;
        buf_init(&want, MEM_TEST, 1 << 20);
        own_text(&r, &want, &n);
        snprintf(path, sizeof path, "choices.%d.text", i);
        check_text(at(j, path), &want);
        check_buf(&s.text[i], &want);
        buf_fini(&want);
    }
    assert_true(s.n_finish == 4);
    stream_fini(&s);
    json_decref(j);
    j = post("/v1/completions", "{\"prompt\":\"hello\",\"temperature\":0}", 200);
    assert_true(json_integer_value(at(j, "usage.completion_tokens")) <= 16);
    json_decref(j);
}

static void test_serve_stop_strings(void **state) {
    (void)state;
    struct buf full;
    int32_t n = 0;
    own_chat((struct sampling){.temperature = 1, .seed = 21}, TOKENS, &full, &n);
    /* three bytes of plain text from the middle, which may lie across tokens */
    const char *stop = NULL;
    for (int64_t i = full.len / 3; i + 3 < full.len && !stop; i++) {
        const uint8_t *p = (const uint8_t *)full.data + i;
        bool plain = p[0] > ' ' && p[0] < 127 && p[1] > ' ' && p[1] < 127 && p[0] != '"' &&
                     p[0] != '\\' && p[1] != '"' && p[1] != '\\';
        stop = plain ? full.data + i : NULL;
    }
    assert_non_null(stop);
    char word[3] = {stop[0], stop[1], '\0'};
    char more[256];
    struct stream s;
    full.len = strstr(full.data, word) - full.data;
    full.data[full.len] = '\0';
    snprintf(more, sizeof more,
             "\"seed\":21,\"max_tokens\":40,\"stop\":[\"never there\",\"%s\"],\"stream\":false",
             word);
    json_t *j = post("/v1/chat/completions", chat_body(more), 200);
    check_text(at(j, "choices.0.message.content"), &full);
    assert_string_equal(json_string_value(at(j, "choices.0.finish_reason")), "stop");
    assert_true(json_integer_value(at(j, "usage.completion_tokens")) <= n);
    json_decref(j);
    snprintf(more, sizeof more, "\"seed\":21,\"max_tokens\":40,\"stop\":\"%s\",\"stream\":true",
             word);
    stream("/v1/chat/completions", chat_body(more), true, &s);
    check_buf(&s.text[0], &full);
    assert_string_equal(s.reason, "stop");
    stream_fini(&s);
    buf_fini(&full);
}

static void test_serve_logprobs(void **state) {
    (void)state;
    json_t *j = post("/v1/chat/completions",
                     chat_body("\"temperature\":0,\"max_tokens\":8,\"ignore_eos\":true,"
                               "\"logprobs\":true,\"top_logprobs\":5"),
                     200);
    json_t *list = at(j, "choices.0.logprobs.content");
    assert_int_equal(json_array_size(list), 8);
    for (size_t i = 0; i < 8; i++) {
        json_t *t = json_array_get(list, i);
        double best = json_number_value(at(t, "top_logprobs.0.logprob"));
        double second = json_number_value(at(t, "top_logprobs.1.logprob"));
        assert_int_equal(json_array_size(at(t, "top_logprobs")), 5);
        assert_true(best < 0 && best >= second);
        assert_rel(json_number_value(at(t, "logprob")), best, 1e-5); /* greedy */
    }
    json_decref(j);
    j = post("/v1/completions", "{\"prompt\":\"hello\",\"max_tokens\":4,\"logprobs\":0}", 200);
    assert_true(json_is_null(at(j, "choices.0.logprobs.top_logprobs")));
    assert_true(json_array_size(at(j, "choices.0.logprobs.tokens")) <= 4);
    json_decref(j);
}

static void test_serve_tokenize_and_back(void **state) {
    (void)state;
    json_t *j = post("/tokenize", "{\"prompt\":\"hello hello\",\"add_special_tokens\":false}", 200);
    assert_int_equal(json_integer_value(at(j, "count")), 2);
    assert_int_equal(json_integer_value(at(j, "tokens.1")), 260);
    assert_int_equal(json_integer_value(at(j, "max_model_len")), API_SERVER_CTX);
    json_decref(j);
    j = post("/detokenize", "{\"tokens\":[259,260,261]}", 200);
    assert_string_equal(json_string_value(at(j, "prompt")), "hello hello<|end|>");
    json_decref(j);
}

static void test_serve_metrics_and_models(void **state) {
    (void)state;
    struct api_reply r;
    json_decref(post("/v1/completions",
                     "{\"prompt\":\"hello\",\"max_tokens\":7,\"ignore_eos\":true}", 200));
    api_server_wait(&sv, "vllm:generation_tokens_total{model_name=\"tiny\"}", 7);
    assert_true(api_server_metric(&sv, "vllm:prompt_tokens_total{model_name=\"tiny\"}") == 2);
    assert_true(
        api_server_metric(&sv, "vllm:time_to_first_token_seconds_count{model_name=\"tiny\"}") == 1);
    assert_true(
        api_server_metric(&sv, "vllm:inter_token_latency_seconds_count{model_name=\"tiny\"}") == 6);
    assert_true(api_server_metric(&sv, "finished_reason=\"length\"}") == 1);
    api_server_wait(&sv, "vllm:kv_cache_usage_perc{model_name=\"tiny\"}", 0);
    assert_int_equal(api_ask(sv.port, "GET", "/v1/models", NULL, &r), 200);
    json_t *j = parse(buf_cstr(&r.body), r.body.len);
    assert_string_equal(json_string_value(at(j, "data.0.id")), "tiny");
    json_decref(j);
    api_reply_fini(&r);
    assert_int_equal(api_ask(sv.port, "HEAD", "/health", NULL, &r), 200);
    api_reply_fini(&r);
}

/* Two requests in one packet, and more on the same connection. */
static void test_serve_keeps_connections(void **state) {
    (void)state;
    struct api_conn c;
    struct api_reply r;
    static const char two[] =
        "GET /health HTTP/1.1\r\nHost: a\r\n\r\n"
        "POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 40\r\n\r\n"
        "{\"prompt\":\"hello\",\"max_tokens\":3}       ";
    assert_true(api_open(&c, sv.port));
    assert_true(api_send(&c, two, (int64_t)strlen(two)));
    assert_true(api_read(&c, &r) && r.status == 200);
    api_reply_fini(&r);
    assert_true(api_read(&c, &r) && r.status == 200);
    api_reply_fini(&r);
    for (int32_t i = 0; i < 5; i++) {
        assert_true(api_request(&c, "POST", "/v1/completions", "",
                                i % 2 ? "{\"prompt\":\"hello\",\"stream\":true}" : "{}"));
        assert_true(api_read(&c, &r));
        assert_int_equal(r.status, i % 2 ? 200 : 400);
        api_reply_fini(&r);
    }
    api_close(&c);
}

/* What is wrong is said, with the header that goes with it; the key is asked for. */
static void test_serve_refusals(void **state) {
    (void)state;
    static const char key[] = "Authorization: Bearer secret key\r\n";
    static char large[6000];
    memset(large, ' ', sizeof large - 1);
    const struct {
        const char *method;
        const char *path;
        const char *more;
        const char *body;
        int32_t status;
        const char *part;
    } rows[] = {
        {"GET", "/health", "", NULL, 200, "ok"},
        {"GET", "/v1/models", "", NULL, 401, "invalid_api_key"},
        {"GET", "/v1/models", "Authorization: Bearer secret kez\r\n", NULL, 401, "API key"},
        {"GET", "/v1/models", "Authorization: Bearer secret ke\r\n", NULL, 401, "API key"},
        {"GET", "/v1/models", "Authorization: Bearer secret keyy\r\n", NULL, 401, "API key"},
        {"GET", "/v1/models", "Authorization: secret key\r\n", NULL, 401, "API key"},
        {"GET", "/v1/models", key, NULL, 200, "tiny"},
        {"GET", "/nowhere", key, NULL, 404, "there is no GET /nowhere"},
        {"GET", "/v1/completions", key, NULL, 405, "want POST"},
        {"DELETE", "/health", key, NULL, 405, "want GET"},
        {"POST", "/v1/completions", key, "{\"prompt\":\"x\",\"n\":0}", 400, "want 1..128"},
        {"POST", "/v1/completions", key, "{\"prompt\":\"x\",\"model\":\"y\"}", 404,
         "model_not_found"},
        {"POST", "/v1/completions", key, "", 400, "body: line 1"},
        {"POST", "/v1/completions", key, large, 413, "at most 4096"},
    };
    for (int32_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct api_conn c;
        struct api_reply r;
        assert_true(api_open(&c, sv.port));
        assert_true(api_request(&c, rows[i].method, rows[i].path, rows[i].more, rows[i].body));
        api_read(&c, &r);
        if (r.status != rows[i].status || !strstr(buf_cstr(&r.body), rows[i].part)) {
            fail_msg("row %d: %d %s, want %d with %s", i, r.status, buf_cstr(&r.body),
                     rows[i].status, rows[i].part);
        }
        assert_true(r.status != 401 || strstr(r.head.data, "WWW-Authenticate: Bearer"));
        api_reply_fini(&r);
        api_close(&c);
    }
}

/* A chunked body past the limit is read to its end and refused; one without end is cut. */
static void test_serve_chunked_bodies(void **state) {
    (void)state;
    static const char head[] = "POST /v1/completions HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer "
                               "secret key\r\nTransfer-Encoding: chunked\r\n\r\n";
    static const char good[] =
        "f\r\n{\"prompt\":\"hell\r\n12\r\no\",\"max_tokens\":2}\r\n0\r\n\r\n";
    char chunk[1024 + 16];
    struct api_conn c;
    struct api_reply r;
    int32_t n = snprintf(chunk, sizeof chunk, "400\r\n%1024s\r\n", "");
    assert_true(api_open(&c, sv.port));
    assert_true(api_send(&c, head, (int64_t)strlen(head)));
    assert_true(api_send(&c, good, (int64_t)strlen(good)));
    assert_true(api_read(&c, &r));
    assert_int_equal(r.status, 200);
    api_reply_fini(&r);
    assert_true(api_send(&c, head, (int64_t)strlen(head)));
    for (int32_t i = 0; i < 6; i++) {
        assert_true(api_send(&c, chunk, n));
    }
    assert_true(api_send(&c, "0\r\n\r\n", 5));
    assert_true(api_read(&c, &r));
    assert_int_equal(r.status, 413);
    api_reply_fini(&r);
    assert_true(api_send(&c, head, (int64_t)strlen(head)));
    bool open = true;
    for (int32_t i = 0; i < 100000 && open; i++) {
        open = api_send(&c, chunk, n);
    }
    assert_false(open);
    api_close(&c);
}

/* The third answer in the making is one too many. */
static void test_serve_too_many_requests(void **state) {
    (void)state;
    static const char key[] = "Authorization: Bearer secret key\r\n";
    static const char endless[] = "{\"prompt\":\"x\",\"max_tokens\":60000,\"ignore_eos\":true,"
                                  "\"stream\":true}";
    struct api_conn c[3];
    struct api_reply r;
    for (int32_t i = 0; i < 3; i++) {
        assert_true(api_open(&c[i], sv.port));
        assert_true(api_request(&c[i], "POST", "/v1/completions", key, endless));
        if (i < 2) {
            assert_true(api_fill(&c[i], 400)); /* it is under way */
        }
    }
    assert_true(api_read(&c[2], &r));
    assert_int_equal(r.status, 429);
    assert_non_null(strstr(r.head.data, "Retry-After: 1"));
    assert_non_null(strstr(buf_cstr(&r.body), "the limit is 2"));
    api_reply_fini(&r);
    for (int32_t i = 0; i < 3; i++) {
        api_close(&c[i]);
    }
}

#define CPU_TEST(f)  cmocka_unit_test_setup_teardown(f, setup_cpu, teardown)
#define NULL_TEST(f) cmocka_unit_test_setup_teardown(f, setup_null, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {CPU_TEST(test_serve_chat_equals_the_engine),
                                       CPU_TEST(test_serve_stream_equals_the_engine),
                                       CPU_TEST(test_serve_completions_of_many_prompts),
                                       CPU_TEST(test_serve_stop_strings),
                                       CPU_TEST(test_serve_logprobs),
                                       CPU_TEST(test_serve_tokenize_and_back),
                                       CPU_TEST(test_serve_metrics_and_models),
                                       CPU_TEST(test_serve_keeps_connections),
                                       NULL_TEST(test_serve_refusals),
                                       NULL_TEST(test_serve_chunked_bodies),
                                       NULL_TEST(test_serve_too_many_requests)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
