/* Every allocation that a request makes fails in turn, once and from then on: the client gets an
 * answer or the end of its connection, nothing stays behind, and the next request is served.
 *
 * The client here uses no mem_*, so that only the server's allocations are counted. */
#include "tests/support/support.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/api_server.h"

enum { ANSWER_MAX = 1 << 16, FAULTS_MAX = 2000, LIMIT_S = 60 };

static struct api_server sv;

static int setup(void **state) {
    test_setup(state);
    api_server_start(&sv, "null", NULL);
    return 0;
}

static int teardown(void **state) {
    fault_disarm();
    api_server_stop(&sv);
    return test_teardown(state);
}

/* Sends a request and reads to the end of the connection. out: bytes received; -1: too late */
static int64_t ask(const char *request, char answer[ANSWER_MAX]) {
    const struct timeval limit = {.tv_sec = LIMIT_S};
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_addr = {htonl(INADDR_LOOPBACK)},
                            .sin_port = htons((uint16_t)sv.port)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    int64_t n = 0;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    if (connect(fd, (struct sockaddr *)&a, sizeof a) == 0 &&
        send(fd, request, strlen(request), MSG_NOSIGNAL) > 0) {
        for (ssize_t got = 1; got > 0 && n < ANSWER_MAX - 1;) {
            got = recv(fd, answer + n, (size_t)(ANSWER_MAX - 1 - n), 0);
            n += got > 0 ? got : 0;
            n = got < 0 && n == 0 ? -1 : n;
        }
    }
    close(fd);
    answer[n > 0 ? n : 0] = '\0';
    return n;
}

static void compose(char *dst, int32_t cap, const char *path, const char *body) {
    snprintf(dst, (size_t)cap,
             "POST %s HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: %zu\r\n\r\n%s",
             path, strlen(body), body);
}

static void one(const char *request, int64_t n, bool for_ever, int64_t *fired) {
    static char answer[ANSWER_MAX];
    fault_arm(FAULT_ALLOC, n, for_ever);
    ask(request, answer);
    *fired = fault_disarm();
    bool known = answer[0] == '\0' || strncmp(answer, "HTTP/1.1 200", 12) == 0 ||
                 strncmp(answer, "HTTP/1.1 503", 12) == 0;
    if (!known || (*fired == 0 && strncmp(answer, "HTTP/1.1 200", 12) != 0)) {
        fail_msg("fault %lld: %s", (long long)n, answer);
    }
}

static void loop(const char *path, const char *body) {
    static char request[2048];
    int64_t n = 1;
    compose(request, (int32_t)sizeof request, path, body);
    for (int64_t once = 1, ever = 1; once + ever > 0; n++) {
        assert_true(n < FAULTS_MAX);
        one(request, n, false, &once);
        one(request, n, true, &ever);
    }
    print_message("%s: %lld allocations\n", path, (long long)n - 2);
    assert_true(n > 4);
    api_server_wait(&sv, "vllm:num_requests_running{model_name=\"tiny\"}", 0);
    api_server_wait(&sv, "vllm:kv_cache_usage_perc{model_name=\"tiny\"}", 0);
    api_server_wait(&sv, "trilemma:http_connections{model_name=\"tiny\"}", 1);
}

static void test_serve_requests_without_memory(void **state) {
    (void)state;
    loop("/v1/chat/completions",
         "{\"messages\":[{\"role\":\"user\",\"content\":\"hello\"}],\"max_tokens\":4,\"n\":2,"
         "\"stop\":\"never\",\"stream\":true,\"stream_options\":{\"include_usage\":true},"
         "\"logprobs\":true,\"top_logprobs\":2,\"ignore_eos\":true}");
    loop("/v1/completions",
         "{\"prompt\":[\"hello\",[1,2]],\"max_tokens\":4,\"logprobs\":2,\"ignore_eos\":true}");
    loop("/tokenize", "{\"prompt\":\"hello\"}");
    loop("/detokenize", "{\"tokens\":[259]}");
}

static int open_close(void *ctx) {
    struct server *s = NULL;
    const struct server_opts o = {.engine = sv.engine, .model = sv.model, .name = "x"};
    (void)ctx;
    int rc = server_open(&o, &s);
    server_close(s);
    return rc;
}

static void test_serve_opens_without_memory(void **state) {
    (void)state;
    static const int codes[] = {ERR_NOMEM, 0};
    server_close(sv.server);
    sv.server = NULL;
    test_fault_loop(FAULT_ALLOC, open_close, NULL, codes);
}

#define FAULT_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {FAULT_TEST(test_serve_requests_without_memory),
                                       FAULT_TEST(test_serve_opens_without_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
