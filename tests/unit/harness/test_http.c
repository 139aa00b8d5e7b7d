/* The HTTP target against the truth server: times, every class of the corpus over real sockets,
 * connections, limits. LABELS: threads */
#include "tests/support/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <netinet/in.h>

#include "engine/base/clock.h"
#include "engine/base/str.h"
#include "engine/text/tok.h"
#include "harness/corpus.h"
#include "harness/http.h"
#include "harness/truth.h"
#include "tests/support/tiny.h"

enum { REQUESTS_MAX = 1024 };

struct seen {
    int64_t sent_ns;
    int64_t first_event_ns;
    int64_t first_ns;
    int64_t last_ns;
    int64_t end_ns;
    int64_t t_ns[64];
    int32_t n_events;
    int64_t n_tokens;
    int32_t n_ends;
    int32_t end;
    char error_class[32];
    char error_text[160];
    char finish[32];
    char token_count[16];
    struct target_outcome outcome;
    struct target_wire wire;
};

struct bench {
    struct truth *truth;
    struct target *target;
    struct scenario_http s;
    char url[256];
    int32_t n_over;
    struct seen *seen; /* [REQUESTS_MAX] by tag */
};

static void begin(struct bench *b, const struct truth_opts *o, const char *path) {
    if (o) {
        assert_ok(truth_open(o, &b->truth));
        snprintf(b->url, sizeof b->url, "%s%s", truth_url(b->truth), path);
    }
    b->s.urls[0] = b->url;
    b->s.weights[0] = 1;
    b->s.n_urls = i32_max(1, b->s.n_urls);
    b->seen = mem_array(MEM_TEST, REQUESTS_MAX, (int64_t)sizeof *b->seen);
    assert_ok(
        http_open(&(struct http_opts){.s = &b->s, .model = "m", .key = "sekret-12"}, &b->target));
    assert_ok(target_start(b->target));
}

static void end(struct bench *b) {
    target_stop(b->target);
    target_close(b->target);
    truth_close(b->truth);
    mem_free(b->seen);
}

static void submit(struct bench *b, int32_t tag, int64_t at_ns, int32_t max_new) {
    static const int32_t ids[] = {1, 2, 3, 4};
    int64_t sent = 0;
    const struct target_request q = {.tag = (uint64_t)tag,
                                     .number = tag,
                                     .intended_ns = at_ns,
                                     .ids = ids,
                                     .n_ids = 4,
                                     .max_new = max_new};
    assert_ok(target_submit(b->target, &q, &sent));
    assert_int_equal(sent, -1);
}

static void copy(char *dst, size_t cap, const char *s) {
    snprintf(dst, cap, "%s", s ? s : "");
}

static void take_end(struct bench *b, struct seen *s, const struct target_event *e) {
    s->n_ends++;
    s->end = e->end;
    s->end_ns = e->t_ns;
    s->outcome = *e->outcome;
    s->wire = *e->outcome->wire;
    copy(s->error_class, sizeof s->error_class, e->outcome->error_class);
    copy(s->error_text, sizeof s->error_text, e->outcome->error_text);
    copy(s->finish, sizeof s->finish, e->outcome->finish);
    copy(s->token_count, sizeof s->token_count, e->outcome->wire->token_count);
    b->n_over++;
}

static void take(struct bench *b, const struct target_event *e) {
    struct seen *s = &b->seen[e->tag];
    assert_int_equal(s->n_ends, 0);
    switch (e->kind) {
    case TARGET_SENT:
        s->sent_ns = e->t_ns;
        break;
    case TARGET_FIRST:
        s->first_event_ns = e->t_ns;
        break;
    case TARGET_TOKENS:
        s->first_ns = s->n_events == 0 ? e->t_ns : s->first_ns;
        s->last_ns = e->t_ns;
        if (s->n_events < ARRAY_LEN(s->t_ns)) {
            s->t_ns[s->n_events] = e->t_ns;
        }
        s->n_events++;
        s->n_tokens += e->n_tokens;
        break;
    default:
        take_end(b, s, e);
        break;
    }
}

static void poll_once(struct bench *b) {
    struct target_event ev[64];
    int32_t k = target_poll(b->target, ev, ARRAY_LEN(ev));
    for (int32_t i = 0; i < k; i++) {
        take(b, &ev[i]);
    }
    if (k == 0) {
        clock_sleep_until(clock_now_ns() + 1000000);
    }
    assert_ok(target_error(b->target));
}

/* Polls until n requests are over; fails after a minute. */
static void wait_for(struct bench *b, int32_t n) {
    int64_t until = clock_now_ns() + 60000000000;
    while (b->n_over < n) {
        poll_once(b);
        assert_true(clock_now_ns() < until);
    }
}

static void test_http_times_follow_the_truth(void **state) {
    (void)state;
    enum { N = 20 };
    struct bench b = {0};
    begin(&b, &(struct truth_opts){.ttft_ns = 20000000, .itl_ns = 2000000, .keep_times = true},
          "/v1");
    int64_t t0 = clock_now_ns() + 30000000;
    for (int32_t i = 0; i < N; i++) {
        submit(&b, i, t0 + i * 5000000, 8);
    }
    wait_for(&b, N);
    truth_stop(b.truth);
    for (int32_t i = 0; i < N; i++) {
        const struct seen *s = &b.seen[i];
        const struct truth_record *r = truth_find(b.truth, i);
        assert_non_null(r);
        assert_int_equal(s->end, TARGET_OK);
        assert_int_equal(s->n_events, 8);
        assert_int_equal(s->n_tokens, 8);
        assert_string_equal(s->finish, "length");
        assert_string_equal(s->token_count, "event");
        assert_int_equal(s->outcome.n_prompt, 8);
        assert_int_equal(s->outcome.n_output, 8);
        assert_false(s->outcome.is_estimated);
        /* causes come before effects, on one clock */
        assert_true(s->wire.handed_ns >= t0 + i * 5000000);
        assert_true(s->wire.handed_ns <= s->sent_ns && s->sent_ns <= r->recv_ns);
        assert_true(s->wire.first_read_ns >= r->recv_ns);
        assert_true(s->first_event_ns <= s->first_ns && s->first_ns >= r->first_ns);
        for (int32_t k = 0; k < 8; k++) {
            assert_true(s->t_ns[k] >= truth_times(b.truth)[r->time_at + k]);
        }
        assert_true(s->end_ns >= s->last_ns);
    }
    end(&b);
}

static void test_http_keeps_connections(void **state) {
    (void)state;
    struct bench b = {0};
    begin(&b, &(struct truth_opts){0}, "/v1");
    for (int32_t i = 0; i < 3; i++) {
        submit(&b, i, 0, 2);
        wait_for(&b, i + 1);
        assert_int_equal(b.seen[i].wire.is_reused, i > 0);
        assert_true((b.seen[i].wire.connect_ns >= 0) == (i == 0));
        assert_int_equal(b.seen[i].wire.status, 200);
    }
    end(&b);
}

/* Each case over a real socket gets its class, one END, and its tokens. */
static void test_http_classes_of_the_corpus(void **state) {
    (void)state;
    for (int32_t i = 0; i < corpus_n(); i++) {
        struct corpus_case c;
        struct bench b = {0};
        char path[CORPUS_NAME_MAX + 8];
        assert_ok(corpus_make(i, &c));
        snprintf(path, sizeof path, "/%s/v1", c.name);
        b.s.api = chunk_api_name(c.api);
        b.s.stream = c.stream ? "true" : "false";
        b.s.stall_ns = 50000000;
        begin(&b, &(struct truth_opts){0}, path);
        submit(&b, 0, 0, 4);
        wait_for(&b, 1);
        const char *want = reply_class_name(c.want);
        const struct seen *s = &b.seen[0];
        if (strcmp(s->error_class, want ? want : "") != 0 || s->n_tokens != c.n_tokens) {
            fail_msg("%s: class \"%s\" (%s), %lld tokens; want \"%s\", %d", c.name, s->error_class,
                     s->error_text, (long long)s->n_tokens, want ? want : "", c.n_tokens);
        }
        assert_int_equal(s->end, want ? TARGET_FAILED : TARGET_OK);
        assert_int_equal(s->wire.status, c.status);
        if (c.want == REPLY_RATE_LIMITED) {
            assert_int_equal(s->wire.retry_after_ns, 2000000000);
        }
        corpus_fini(&c);
        end(&b);
    }
}

/* The server closes a kept connection: the next request finds out and takes a new one. */
static void test_http_half_closed(void **state) {
    (void)state;
    struct bench b = {0};
    begin(&b, &(struct truth_opts){0}, "/half_closed/v1");
    for (int32_t i = 0; i < 3; i++) {
        submit(&b, i, 0, 2);
        wait_for(&b, i + 1);
        assert_string_equal(b.seen[i].error_class, "");
        assert_false(b.seen[i].wire.is_reused);
    }
    end(&b);
}

static void test_http_nobody_there(void **state) {
    (void)state;
    struct bench b = {0};
    snprintf(b.url, sizeof b.url, "http://127.0.0.1:1/v1");
    begin(&b, NULL, "");
    submit(&b, 0, 0, 2);
    wait_for(&b, 1);
    assert_string_equal(b.seen[0].error_class, "connect");
    assert_true(b.seen[0].outcome.is_unreachable);
    assert_int_equal(b.seen[0].wire.status, 0);
    assert_true(b.seen[0].wire.first_write_ns < 0);
    end(&b);
}

static void test_http_no_tls(void **state) {
    (void)state;
    struct bench b = {0};
    assert_ok(truth_open(&(struct truth_opts){0}, &b.truth));
    snprintf(b.url, sizeof b.url, "https://127.0.0.1:%d/v1", truth_port(b.truth));
    begin(&b, NULL, "");
    submit(&b, 0, 0, 2);
    wait_for(&b, 1);
    assert_string_equal(b.seen[0].error_class, "tls");
    end(&b);
}

static void test_http_cancel(void **state) {
    (void)state;
    struct bench b = {0};
    begin(&b, &(struct truth_opts){.ttft_ns = 60000000000}, "/v1");
    submit(&b, 0, 0, 4);                            /* in the server's hands */
    submit(&b, 1, clock_now_ns() + 60000000000, 4); /* not sent yet */
    while (b.seen[0].sent_ns == 0) {
        poll_once(&b);
    }
    assert_ok(target_cancel(b.target, 0));
    assert_ok(target_cancel(b.target, 1));
    assert_ok(target_cancel(b.target, 7));
    wait_for(&b, 2);
    assert_int_equal(b.seen[0].end, TARGET_CANCELED);
    assert_int_equal(b.seen[1].end, TARGET_CANCELED);
    assert_true(b.seen[0].sent_ns > 0 && b.seen[1].sent_ns == 0);
    end(&b);
}

static void test_http_timeout(void **state) {
    (void)state;
    struct bench b = {.s = {.timeout_ns = 100000000}};
    begin(&b, &(struct truth_opts){.ttft_ns = 60000000000}, "/v1");
    submit(&b, 0, 0, 4);
    wait_for(&b, 1);
    assert_string_equal(b.seen[0].error_class, "timeout");
    assert_false(b.seen[0].outcome.is_unreachable);
    end(&b);
}

static void test_http_shares_of_urls(void **state) {
    (void)state;
    enum { N = 40 };
    struct bench b = {0};
    int32_t n[2] = {0, 0};
    char other[256];
    assert_ok(truth_open(&(struct truth_opts){0}, &b.truth));
    snprintf(b.url, sizeof b.url, "%s/v1/", truth_url(b.truth));
    snprintf(other, sizeof other, "%s/http_503/v1", truth_url(b.truth));
    b.s.n_urls = 2;
    b.s.urls[1] = other;
    b.s.weights[1] = 3;
    begin(&b, NULL, "");
    for (int32_t i = 0; i < N; i++) {
        submit(&b, i, 0, 2);
    }
    wait_for(&b, N);
    for (int32_t i = 0; i < N; i++) {
        n[b.seen[i].wire.endpoint]++;
        assert_string_equal(b.seen[i].error_class, b.seen[i].wire.endpoint ? "http_5xx" : "");
    }
    assert_int_equal(n[0], N / 4);
    assert_int_equal(n[1], N - N / 4);
    end(&b);
}

static void test_http_tokens_of_several(void **state) {
    (void)state;
    struct bench b = {0};
    begin(&b, &(struct truth_opts){.per_event = 3}, "/v1");
    submit(&b, 0, 0, 9);
    wait_for(&b, 1);
    assert_int_equal(b.seen[0].n_events, 3);
    assert_int_equal(b.seen[0].outcome.n_output, 9);
    assert_true(b.seen[0].outcome.is_spread);
    assert_string_equal(b.seen[0].token_count, "spread");
    end(&b);
}

/* Events are counted on the text as a whole, also past the cut of a long one. */
static void test_http_tokens_by_our_tokenizer(void **state) {
    (void)state;
    enum { WORDS = 600 };
    char dir[FILE_PATH_MAX];
    char path[FILE_PATH_MAX];
    struct bench b = {0};
    struct tok *tok = NULL;
    struct tok_ids ids;
    struct buf text;
    test_tmpdir(dir);
    tiny_model(dir, "m", 512);
    assert_ok(file_join(path, dir, "m"));
    assert_ok(tok_open(path, &tok));
    buf_init(&text, MEM_TEST, 1 << 20);
    for (int32_t i = 0; i < WORDS; i++) {
        assert_ok(buf_fmt(&text, " w%d", i));
    }
    tok_ids_init(&ids);
    assert_ok(tok_encode(tok, buf_cstr(&text), text.len, 0, &ids));
    b.s.tokenizer = path;
    begin(&b, &(struct truth_opts){0}, "/v1");
    submit(&b, 0, 0, WORDS);
    wait_for(&b, 1);
    assert_string_equal(b.seen[0].error_class, "");
    assert_string_equal(b.seen[0].token_count, "tokenizer");
    assert_int_equal(b.seen[0].n_events, WORDS);
    assert_int_equal(b.seen[0].n_tokens, ids.n);
    assert_int_equal(b.seen[0].outcome.n_output, WORDS); /* the server's word */
    end(&b);
    tok_ids_fini(&ids);
    buf_fini(&text);
    tok_close(tok);
    test_rmdir(dir);
}

static void test_http_every_api_whole_and_streamed(void **state) {
    (void)state;
    for (int api = 0; api < CHUNK_API_N; api++) {
        for (int whole = 0; whole < 2; whole++) {
            struct bench b = {.s = {.api = chunk_api_name((enum chunk_api)api),
                                    .stream = whole ? "false" : "true"}};
            begin(&b, &(struct truth_opts){0}, "/v1");
            submit(&b, 0, 0, 5);
            wait_for(&b, 1);
            assert_string_equal(b.seen[0].error_class, "");
            assert_int_equal(b.seen[0].n_events, whole ? 1 : 5);
            assert_int_equal(b.seen[0].outcome.n_output, 5);
            end(&b);
        }
    }
}

static void test_http_kernel_times(void **state) {
    (void)state;
    struct bench b = {.s = {.timestamps = "kernel"}};
    begin(&b, &(struct truth_opts){.ttft_ns = 5000000, .keep_times = true}, "/v1");
    submit(&b, 0, 0, 4);
    wait_for(&b, 1);
    truth_stop(b.truth);
    const struct truth_record *r = truth_find(b.truth, 0);
    /* the clocks of both are read apart: a millisecond of slack */
    assert_true(llabs(b.seen[0].first_ns - r->first_ns) < 1000000);
    end(&b);
}

static void test_http_open_refuses(void **state) {
    (void)state;
    struct target *t = NULL;
    struct scenario_http s = {
        .n_urls = 1, .urls = {"http://127.0.0.1:9/v1"}, .weights = {1}, .key_env = "KEY"};
    const struct http_opts o = {.s = &s, .model = "m"};
    assert_err(http_open(&o, &t), ERR_CONFIG, "variable KEY is not set");
    assert_err(http_open(&(struct http_opts){.s = &s, .model = "m", .key = ""}, &t), ERR_CONFIG,
               "KEY is empty");
    assert_err(http_open(&(struct http_opts){.s = &s, .model = "m", .key = "a\r\nb"}, &t),
               ERR_CONFIG, "the key in KEY has a blank");
    s.key_env = NULL;
    s.urls[0] = "http://[::/v1";
    assert_err(http_open(&o, &t), ERR_CONFIG, "url \"http://[::/v1\"");
    s.urls[0] = "http://127.0.0.1:9/v1";
    s.tokenizer = "/nonexistent";
    assert_err(http_open(&o, &t), ERR_NOTFOUND, "/nonexistent");
}

static int open_and_close(void *ctx) {
    struct scenario_http *s = ctx;
    struct target *t = NULL;
    int rc = http_open(&(struct http_opts){.s = s, .model = "m", .key = "k"}, &t);
    if (!rc) {
        target_close(t);
    }
    return rc;
}

static void test_http_open_without_memory(void **state) {
    (void)state;
    static const int codes[] = {ERR_NOMEM, ERR_FORMAT, 0};
    struct scenario_http s = {.n_urls = 1,
                              .urls = {"http://127.0.0.1:9/v1"},
                              .weights = {1},
                              .key_env = "KEY",
                              .body = "{\"a\":1}"};
    test_fault_loop(FAULT_ALLOC, open_and_close, &s, codes);
}

int main(void) {
    const struct CMUnitTest tests[] = {TEST(test_http_times_follow_the_truth),
                                       TEST(test_http_keeps_connections),
                                       TEST(test_http_classes_of_the_corpus),
                                       TEST(test_http_half_closed),
                                       TEST(test_http_nobody_there),
                                       TEST(test_http_no_tls),
                                       TEST(test_http_cancel),
                                       TEST(test_http_timeout),
                                       TEST(test_http_shares_of_urls),
                                       TEST(test_http_tokens_of_several),
                                       TEST(test_http_tokens_by_our_tokenizer),
                                       TEST(test_http_every_api_whole_and_streamed),
                                       TEST(test_http_kernel_times),
                                       TEST(test_http_open_refuses),
                                       TEST(test_http_open_without_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
