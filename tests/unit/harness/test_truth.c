/* The truth server: what it does with odd peers, and that it gives back what it took. LABELS:
 * threads
 */
#include "tests/support/support.h"

#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "harness/truth.h"

/* Connects; anything that takes longer than ten seconds fails. */
static int open_to(const struct truth *t) {
    const struct sockaddr_in a = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)truth_port(t)),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const struct timeval wait = {.tv_sec = 10};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)(const void *)&a, sizeof a), 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait), 0);
    return fd;
}

/* Sends bytes and reads until the answer ends with mark, or, mark NULL, until the end. */
static void ask(const struct truth *t, const char *bytes, const char *mark, struct buf *out) {
    char piece[1 << 14];
    int fd = open_to(t);
    ssize_t n = send(fd, bytes, strlen(bytes), MSG_NOSIGNAL);
    assert_true(n > 0);
    buf_clear(out);
    while ((!mark || !strstr(buf_cstr(out), mark)) && (n = recv(fd, piece, sizeof piece, 0)) > 0) {
        assert_ok(buf_add(out, piece, n));
    }
    assert_true(mark ? n > 0 : n == 0 || out->len == 0);
    close(fd);
}

static void test_truth_answers_by_hand(void **state) {
    (void)state;
    struct truth *t = NULL;
    struct buf out;
    int32_t n = 0;
    buf_init(&out, MEM_TEST, 1 << 20);
    assert_ok(truth_open(&(struct truth_opts){.tokens = 2, .keep_times = true}, &t));
    ask(t,
        "POST /v1/chat/completions HTTP/1.1\r\nx-request-id: trilemma--3\r\nContent-Length: 15\r\n"
        "\r\n{\"stream\":true}",
        "\r\n0\r\n\r\n", &out);
    assert_non_null(strstr(buf_cstr(&out), "text/event-stream"));
    assert_non_null(strstr(buf_cstr(&out), "\"role\":\"assistant\""));
    assert_non_null(strstr(buf_cstr(&out), "{\"content\":\" w1\"}"));
    assert_null(strstr(buf_cstr(&out), "w2"));
    assert_non_null(strstr(buf_cstr(&out), "data: [DONE]\n\n"));
    assert_null(strstr(buf_cstr(&out), "usage"));
    ask(t, "POST /v1/completions HTTP/1.1\r\nContent-Length: 16\r\n\r\n{\"max_tokens\":9}", "}}",
        &out);
    assert_non_null(strstr(buf_cstr(&out), "\"completion_tokens\":2}"));
    truth_stop(t);
    const struct truth_record *r = truth_records(t, &n);
    assert_int_equal(n, 2);
    assert_int_equal(r[0].number, -3);
    assert_int_equal(r[0].n_tokens, 2);
    assert_true(r[0].recv_ns <= r[0].first_ns && r[0].first_ns <= r[0].last_ns);
    assert_true(truth_times(t)[r[0].time_at + 1] == r[0].last_ns);
    assert_true(r[0].last_ns <= r[0].end_ns && r[1].number == INT64_MIN);
    assert_ptr_equal(truth_find(t, -3), r);
    assert_null(truth_find(t, 4));
    truth_close(t);
    buf_fini(&out);
}

/* Whatever else comes, the connection is closed and the server goes on. */
static void test_truth_closes_on_odd_peers(void **state) {
    (void)state;
    static const char *const odd[] = {
        "GET /v1 HTTP/1.1\r\n\r\n", "\x16\x03\x01\x02\x00\x01", "hello world, this is no request",
        "POST /v1/chat/completions HTTP/1.1\r\nContent-Length: 999999999999\r\n\r\n"};
    struct truth *t = NULL;
    struct buf out;
    buf_init(&out, MEM_TEST, 1 << 20);
    assert_ok(truth_open(&(struct truth_opts){0}, &t));
    for (int32_t i = 0; i < ARRAY_LEN(odd); i++) {
        ask(t, odd[i], NULL, &out);
        assert_int_equal(out.len, 0);
    }
    ask(t, "POST /v1/chat/completions HTTP/1.1\r\nContent-Length: 3\r\n\r\n[1]", "}}", &out);
    assert_non_null(strstr(buf_cstr(&out), "HTTP/1.1 200 OK"));
    close(open_to(t)); /* gone before a word */
    ask(t, "POST /v1/responses HTTP/1.1\r\n\r\n", "}}", &out);
    assert_non_null(strstr(buf_cstr(&out), "\"output_tokens\":16}"));
    truth_close(t);
    buf_fini(&out);
}

static void test_truth_port_is_taken(void **state) {
    (void)state;
    struct truth *t = NULL;
    struct truth *other = NULL;
    assert_ok(truth_open(&(struct truth_opts){0}, &t));
    assert_err(truth_open(&(struct truth_opts){.port = truth_port(t)}, &other), ERR_NET,
               "of 127.0.0.1: Address already in use");
    truth_close(t);
}

static int open_and_close(void *ctx) {
    struct truth *t = NULL;
    (void)ctx;
    int rc = truth_open(&(struct truth_opts){0}, &t);
    truth_close(t);
    return rc;
}

static void test_truth_without_memory(void **state) {
    (void)state;
    static const int codes[] = {ERR_NOMEM, 0};
    test_fault_loop(FAULT_ALLOC, open_and_close, NULL, codes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_truth_answers_by_hand), TEST(test_truth_closes_on_odd_peers),
        TEST(test_truth_port_is_taken), TEST(test_truth_without_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
