/* Bad company: clients that leave, that do not read, that never finish, that talk nonsense. Others
 * must not notice, and nothing may stay behind.
 * LABELS: threads */
#include "tests/support/support.h"

#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "engine/base/rng.h"
#include "tests/support/api_client.h"
#include "tests/support/api_server.h"

enum { SEED = 77, STEADY = 8, LEAVERS = 1000, NONSENSE = 3000, BODY_MAX = 65536 };
#define ENDLESS "{\"prompt\":\"hello\",\"max_tokens\":60000,\"ignore_eos\":true,\"stream\":true}"
#define RUNNING "vllm:num_requests_running{model_name=\"tiny\"}"
#define WAITING "vllm:num_requests_waiting{model_name=\"tiny\"}"
#define USAGE   "vllm:kv_cache_usage_perc{model_name=\"tiny\"}"
#define OPEN    "trilemma:http_connections{model_name=\"tiny\"}"

static struct api_server sv;

static int teardown(void **state) {
    api_server_stop(&sv);
    return test_teardown(state);
}

static int setup(void **state) {
    const struct server_opts o = {.backlog_max = 256 << 20, .body_max = BODY_MAX};
    test_setup(state);
    api_server_start(&sv, "null", &o);
    return 0;
}

/* Limits that a test can reach. */
static int setup_tight(void **state) {
    const struct server_opts o = {
        .backlog_max = 64 << 10, .head_ns = 300000000, .idle_ns = 900000000, .head_bytes = 8192};
    test_setup(state);
    api_server_start(&sv, "null", &o);
    return 0;
}

/* Nothing is left of earlier clients: the one connection asks for this. */
static void check_empty(void) {
    api_server_wait(&sv, RUNNING, 0);
    api_server_wait(&sv, WAITING, 0);
    api_server_wait(&sv, USAGE, 0);
    api_server_wait(&sv, OPEN, 1);
}

struct steady {
    pthread_t thread;
    char body[256];
    struct buf want; /* own; the choices of each event */
    _Atomic bool *stop;
    int32_t n_round;
    bool same;
};

/* What a stream says, without ids and times. */
static bool stream_once(const char *body, struct buf *out) {
    struct api_reply r;
    bool ok = api_ask(sv.port, "POST", "/v1/completions", body, &r) == 200 && r.whole;
    const char *p = buf_cstr(&r.body);
    for (const char *e = strstr(p, "\n\n"); e && ok; e = strstr(p, "\n\n")) {
        const char *from = strstr(p, "\"choices\":");
        from = from && from < e ? from : p;
        ok = buf_add(out, from, e - from) == 0;
        p = e + 2;
    }
    ok = ok && strstr(buf_cstr(out), "[DONE]");
    api_reply_fini(&r);
    return ok;
}

static void *run_steady(void *arg) {
    struct steady *s = arg;
    struct buf got;
    buf_init(&got, MEM_TEST, API_REPLY_MAX);
    do {
        buf_clear(&got);
        s->same = stream_once(s->body, &got) && got.len == s->want.len &&
                  memcmp(got.data, s->want.data, (size_t)got.len) == 0;
        s->n_round++;
    } while (s->same && !atomic_load(s->stop));
    buf_fini(&got);
    return NULL;
}

static void start_steady(struct steady *all, _Atomic bool *stop) {
    for (int32_t i = 0; i < STEADY; i++) {
        struct steady *s = &all[i];
        *s = (struct steady){.stop = stop, .same = true};
        buf_init(&s->want, MEM_TEST, API_REPLY_MAX);
        snprintf(s->body, sizeof s->body,
                 "{\"prompt\":\"hello %d\",\"max_tokens\":%d,\"seed\":%d,\"temperature\":2,"
                 "\"ignore_eos\":true,\"stream\":true,\"logprobs\":%d}",
                 i, 200 + 40 * i, i, i % 3);
        assert_true(stream_once(s->body, &s->want)); /* nobody else is there */
        assert_true(s->want.len > 1000);
    }
    for (int32_t i = 0; i < STEADY; i++) {
        assert_int_equal(pthread_create(&all[i].thread, NULL, run_steady, &all[i]), 0);
    }
}

static void stop_steady(struct steady *all, _Atomic bool *stop) {
    int32_t n = 0;
    bool same = true;
    atomic_store(stop, true);
    for (int32_t i = 0; i < STEADY; i++) {
        assert_int_equal(pthread_join(all[i].thread, NULL), 0);
        same = same && all[i].same;
        n += all[i].n_round;
        buf_fini(&all[i].want);
    }
    print_message("%d undisturbed streams\n", n);
    assert_true(same);
}

/* One client that leaves in one of many ways. */
static void leave(struct rng *r) {
    static const char head[] =
        "POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 500\r\n";
    struct api_conn c;
    if (!api_open(&c, sv.port)) {
        fail_msg("the server takes no connection");
    }
    if (rng_below(r, 3) == 0) { /* the connection is reset, not closed */
        const struct linger now = {.l_onoff = 1};
        setsockopt(c.fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    }
    switch (rng_below(r, 7)) {
    case 0:
        break;
    case 1:
        api_send(&c, head, 1 + rng_below(r, (int64_t)sizeof head - 2));
        break;
    case 2:
        api_send(&c, head, (int64_t)sizeof head - 1);
        api_send(&c, "\r\n{\"prompt\":", 12);
        break;
    case 3:
        api_request(&c, "POST", "/v1/completions", "",
                    "{\"prompt\":\"x\",\"max_tokens\":50000,\"ignore_eos\":true}");
        break;
    case 4:
        api_request(&c, "POST", "/v1/completions", "", ENDLESS);
        shutdown(c.fd, SHUT_WR);
        api_ends(&c, 10000);
        break;
    default:
        api_request(&c, "POST", "/v1/completions", "", ENDLESS);
        api_fill(&c, rng_below(r, 3000));
    }
    api_close(&c);
}

static void test_serve_thousand_leave_eight_stay(void **state) {
    (void)state;
    struct steady all[STEADY];
    _Atomic bool stop = false;
    struct rng r;
    rng_init(&r, SEED, 1);
    start_steady(all, &stop);
    for (int32_t i = 0; i < LEAVERS; i++) {
        leave(&r);
    }
    stop_steady(all, &stop);
    check_empty();
    assert_true(api_server_metric(&sv, "trilemma:clients_lost_total{model_name=\"tiny\"}") > 200);
}

/* Bytes at random, heads with bytes changed, bodies with bytes changed. out: is its end told? */
static bool talk_nonsense(struct rng *r, struct api_conn *c) {
    static const char *const bodies[] = {
        "{\"prompt\":\"hello\",\"max_tokens\":3,\"stop\":[\"a\"],\"logprobs\":2,\"n\":2}",
        "{\"messages\":[{\"role\":\"user\",\"content\":\"hello\"}],\"max_tokens\":3,\"stream\":"
        "true,"
        "\"stream_options\":{\"include_usage\":true}}"};
    char text[1024];
    int32_t n = 0;
    int64_t kind = rng_below(r, 4);
    if (kind == 0) {
        n = (int32_t)rng_below(r, 300);
        for (int32_t i = 0; i < n; i++) {
            text[i] = (char)rng_u64(r);
        }
    } else {
        int32_t chat = (int32_t)rng_below(r, 2);
        n = snprintf(text, sizeof text,
                     "POST /v1/%scompletions HTTP/1.1\r\nHost: a\r\nContent-Length: %zu\r\n\r\n%s",
                     chat ? "chat/" : "", strlen(bodies[chat]), bodies[chat]);
        for (int64_t k = rng_below(r, 4); k > 0; k--) {
            int64_t body = (int64_t)strlen(bodies[chat]);
            int64_t at = kind == 1 ? rng_below(r, n) : n - 1 - rng_below(r, body);
            text[at] =
                (char)(rng_below(r, 2) ? rng_u64(r) : (uint64_t)' ' + (uint64_t)rng_below(r, 95));
        }
    }
    api_send(c, text, n);
    return kind > 1;
}

static void test_serve_nonsense_harms_nobody(void **state) {
    (void)state;
    struct steady all[STEADY];
    _Atomic bool stop = false;
    struct rng r;
    int32_t n_status[6] = {0};
    rng_init(&r, SEED, 2);
    start_steady(all, &stop);
    for (int32_t i = 0; i < NONSENSE; i++) {
        struct api_conn c;
        struct api_reply reply;
        assert_true(api_open(&c, sv.port));
        bool framed = talk_nonsense(&r, &c);
        if (!framed) { /* now and then it waits for an answer */
            shutdown(c.fd, rng_below(&r, 50) ? SHUT_RDWR : SHUT_WR);
        }
        assert_true(api_read(&c, &reply) || !framed);
        assert_in_range(reply.status, 0, 599);
        n_status[reply.status / 100]++;
        api_reply_fini(&reply);
        api_close(&c);
    }
    stop_steady(all, &stop);
    check_empty();
    print_message("no answer %d, 2xx %d, 4xx %d, 5xx %d\n", n_status[0], n_status[2], n_status[4],
                  n_status[5]);
    assert_true(n_status[2] > 100 && n_status[4] > 500 && n_status[5] == 0);
}

/* A stream that nobody reads is cut when its backlog is full; the next one is served. */
static void test_serve_slow_reader_is_cut(void **state) {
    (void)state;
    struct api_conn slow[3];
    struct api_reply r;
    for (int32_t i = 0; i < 3; i++) {
        const int small = 32768;
        assert_true(api_open(&slow[i], sv.port));
        setsockopt(slow[i].fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
        assert_true(api_request(&slow[i], "POST", "/v1/completions", "", ENDLESS));
    }
    api_server_wait(&sv, "trilemma:slow_readers_total{model_name=\"tiny\"}", 3);
    assert_int_equal(
        api_ask(sv.port, "POST", "/v1/completions", "{\"prompt\":\"x\",\"max_tokens\":5}", &r),
        200);
    api_reply_fini(&r);
    for (int32_t i = 0; i < 3; i++) {
        assert_true(api_read(&slow[i], &r) == false && r.status == 200); /* no end came */
        api_reply_fini(&r);
        api_close(&slow[i]);
    }
    check_empty();
}

/* One byte now and then is no progress: the whole head has a limit, and so has a body. */
static void test_serve_slowloris_is_cut(void **state) {
    (void)state;
    static const char head[] = "POST /v1/completions HTTP/1.1\r\nContent-Length: 5000\r\nX: y";
    for (int32_t way = 0; way < 3; way++) {
        struct api_conn c;
        bool ended = false;
        int32_t sent = 0;
        assert_true(api_open(&c, sv.port));
        if (way == 1) { /* the head is whole, the body drips */
            assert_true(api_send(&c, head, (int64_t)sizeof head - 1));
            assert_true(api_send(&c, "\r\n\r\n", 4));
        }
        while (!ended && sent < 500) {
            if (way < 2) {
                api_send(&c, way ? " " : head + i32_min(sent, (int32_t)sizeof head - 2), 1);
            }
            sent++;
            ended = api_ends(&c, 20);
        }
        assert_true(ended);
        api_close(&c);
    }
    /* why: a wait, as a connection is cut first and counted then */
    api_server_wait(&sv, "trilemma:timeouts_total{model_name=\"tiny\"}", 3);
    check_empty();
}

static void test_serve_large_head_is_refused(void **state) {
    (void)state;
    static char more[20000];
    struct api_conn c;
    struct api_reply r;
    int32_t n = snprintf(more, sizeof more, "X-Long: ");
    memset(more + n, 'x', 15000);
    memcpy(more + n + 15000, "\r\n", 3);
    assert_true(api_open(&c, sv.port));
    api_request(&c, "GET", "/health", more, NULL);
    api_read(&c, &r);
    assert_true(r.status == 431 || r.status == 413 || r.status == 0);
    assert_true(r.status != 0 || api_ends(&c, 10000));
    api_reply_fini(&r);
    api_close(&c);
    check_empty();
}

/* New work gets 503 while old work ends in time; what does not is told so. */
static void test_serve_drains(void **state) {
    (void)state;
    struct api_conn c;
    struct api_reply r;
    assert_true(api_open(&c, sv.port));
    assert_true(api_request(&c, "POST", "/v1/completions", "", ENDLESS));
    assert_true(api_fill(&c, 1000));
    server_drain(sv.server, 1000000);
    assert_true(api_read(&c, &r) && r.status == 200);
    assert_non_null(strstr(r.body.data, "\"message\":\"the server is shutting down\""));
    assert_null(strstr(r.body.data, "[DONE]"));
    api_reply_fini(&r);
    api_close(&c);
    assert_int_equal(api_ask(sv.port, "POST", "/v1/completions", "{\"prompt\":\"x\"}", &r), 503);
    assert_non_null(strstr(r.head.data, "Retry-After"));
    api_reply_fini(&r);
    assert_int_equal(api_ask(sv.port, "GET", "/health", NULL, &r), 503);
    assert_non_null(strstr(r.body.data, "draining"));
    api_reply_fini(&r);
}

/* Closed in the middle of everything. */
static void test_serve_closes_with_clients_inside(void **state) {
    (void)state;
    struct api_conn c[6];
    for (int32_t i = 0; i < 6; i++) {
        assert_true(api_open(&c[i], sv.port));
        if (i % 3 == 0) {
            api_send(&c[i], "POST /v1/comp", 13);
        } else {
            api_request(&c[i], "POST", "/v1/completions", "",
                        i % 3 == 1 ? ENDLESS : "{\"prompt\":\"x\",\"max_tokens\":60000}");
        }
    }
    assert_true(api_fill(&c[1], 500));
    server_close(sv.server);
    sv.server = NULL;
    for (int32_t i = 0; i < 6; i++) {
        assert_true(api_ends(&c[i], 10000));
        api_close(&c[i]);
    }
}

static void test_serve_open_refuses(void **state) {
    (void)state;
    struct server *s = NULL;
    struct server_opts o = {.engine = sv.engine, .model = sv.model, .name = "x", .port = sv.port};
    assert_err(server_open(&o, &s), ERR_NET, "Address already in use");
    o.port = 70000;
    assert_err(server_open(&o, &s), ERR_RANGE, "port is 70000, want 0..65535");
    o.port = 0;
    o.host = "no.such.host.invalid";
    assert_err(server_open(&o, &s), ERR_NET, "no.such.host.invalid");
    o.host = NULL;
    o.conns_max = 2;
    assert_err(server_open(&o, &s), ERR_RANGE, "conns_max");
}

#define ABUSE_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
#define TIGHT_TEST(f) cmocka_unit_test_setup_teardown(f, setup_tight, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {ABUSE_TEST(test_serve_thousand_leave_eight_stay),
                                       ABUSE_TEST(test_serve_nonsense_harms_nobody),
                                       TIGHT_TEST(test_serve_slow_reader_is_cut),
                                       TIGHT_TEST(test_serve_slowloris_is_cut),
                                       TIGHT_TEST(test_serve_large_head_is_refused),
                                       ABUSE_TEST(test_serve_drains),
                                       ABUSE_TEST(test_serve_closes_with_clients_inside),
                                       ABUSE_TEST(test_serve_open_refuses)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
