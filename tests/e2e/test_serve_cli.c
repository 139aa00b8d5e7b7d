/* trilemma serve as a program: what it prints, how it ends, what it asks for. */
#include "tests/support/cli.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/api_client.h"
#include "tests/support/tiny.h"

static char dir[FILE_PATH_MAX];

static int make(void **state) {
    (void)state;
    test_tmpdir(dir);
    tiny_model(dir, "llama", 4096);
    return 0;
}

static int unmake(void **state) {
    (void)state;
    test_rmdir(dir);
    return 0;
}

/* A visit to the server once it has said where it is. */
struct visit {
    const char *path;
    const char *more;
    const char *body;
    int32_t status;       /* out */
    bool done;            /* out */
    struct api_conn stay; /* a stream that is under way when the signal comes */
};

static bool visit(void *ctx, const char *out, const char *err) {
    struct visit *v = ctx;
    const char *at = strstr(out, "http://127.0.0.1:");
    (void)err;
    if (!at || !strchr(out, '\n') || v->done) {
        return v->done;
    }
    int32_t port = (int32_t)strtol(at + strlen("http://127.0.0.1:"), NULL, 10);
    struct api_conn c;
    struct api_reply r = {0};
    if (api_open(&c, port)) {
        api_request(&c, v->body ? "POST" : "GET", v->path, v->more, v->body);
        api_read(&c, &r);
        v->status = r.status;
        api_reply_fini(&r);
        api_close(&c);
    }
    if (v->stay.fd == 0 && api_open(&v->stay, port)) {
        api_request(
            &v->stay, "POST", "/v1/completions", v->more,
            "{\"prompt\":\"hello\",\"max_tokens\":1000,\"ignore_eos\":true,\"stream\":true}");
        api_fill(&v->stay, 500);
    }
    v->done = true;
    return true;
}

static void serve(struct visit *v, const char *const *args, int signal, struct cli_result *r) {
    static const char *const env[] = {"SERVE_TEST_KEY=abc", NULL};
    const struct cli_opts o = {.cwd = dir, .env = env, .signal = signal, .when = visit, .ctx = v};
    cli_run(&o, args, r);
    assert_true(v->done);
}

/* A stream that is under way when the signal comes is served to its end. */
static void test_serve_signal_drains_and_exits_0(void **state) {
    (void)state;
    static const int signals[] = {SIGINT, SIGTERM};
    const char *const args[] = {"serve",     "llama", "--port",    "0",
                                "--backend", "null",  "--verbose", NULL};
    for (int32_t i = 0; i < ARRAY_LEN(signals); i++) {
        struct visit v = {.path = "/v1/completions",
                          .more = "",
                          .body = "{\"prompt\":\"hello\",\"max_tokens\":3}"};
        struct cli_result r;
        struct api_reply rest;
        serve(&v, args, signals[i], &r);
        assert_int_equal(r.code, 0);
        assert_int_equal(v.status, 200);
        assert_non_null(strstr(buf_cstr(&r.out), "serving llama at http://127.0.0.1:"));
        assert_non_null(strstr(buf_cstr(&r.err), "POST /v1/completions 200: 1 choices, prompt 2"));
        assert_true(api_read(&v.stay, &rest));
        assert_non_null(strstr(rest.body.data, "data: [DONE]"));
        api_reply_fini(&rest);
        api_close(&v.stay);
        cli_fini(&r);
    }
}

static void test_serve_key_from_the_environment(void **state) {
    (void)state;
    const char *const args[] = {"serve",         "llama",          "--port", "0",
                                "--backend",     "null",           "--name", "m",
                                "--api-key-env", "SERVE_TEST_KEY", "--json", NULL};
    for (int32_t i = 0; i < 2; i++) {
        struct visit v = {.path = "/v1/models",
                          .more = i ? "Authorization: Bearer abc\r\n" : "",
                          .stay = {.fd = -1}};
        struct cli_result r;
        serve(&v, args, SIGINT, &r);
        assert_int_equal(r.code, 0);
        assert_int_equal(v.status, i ? 200 : 401);
        assert_non_null(strstr(buf_cstr(&r.out), "{\"url\":\"http://127.0.0.1:"));
        assert_non_null(strstr(buf_cstr(&r.out), "\"model\":\"m\",\"engine\":\"null"));
        assert_null(strstr(buf_cstr(&r.out), "abc"));
        cli_fini(&r);
    }
}

static void test_serve_refuses_bad_usage(void **state) {
    (void)state;
    cli_says(dir, 2, "NO_SUCH_VARIABLE: the variable is not set",
             "serve llama --api-key-env NO_SUCH_VARIABLE");
    cli_says(dir, 2, "port", "serve llama --port 70000");
    cli_says(dir, 4, "cannot listen on 192.0.2.1", "serve llama --port 0 --host 192.0.2.1");
    cli_says(dir, 3, "nothing", "serve nothing-here");
}

int main(void) {
    const struct CMUnitTest tests[] = {TEST(test_serve_signal_drains_and_exits_0),
                                       TEST(test_serve_key_from_the_environment),
                                       TEST(test_serve_refuses_bad_usage)};
    return cmocka_run_group_tests(tests, make, unmake);
}
