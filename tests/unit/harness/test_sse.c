/* Event streams by the WHATWG standard: every kind of line, at every cut. */
#include "tests/support/support.h"

#include <stdio.h>
#include <string.h>

#include "harness/sse.h"

enum { OUT_MAX = 4096 };

/* Events as text: "name/id:data;" */
static int show(void *ctx, const struct sse_event *ev) {
    return buf_fmt(ctx, "%s/%s:%.*s;", ev->name, ev->id, (int)ev->n, ev->data);
}

static void read_cut(const char *in, size_t n, size_t cut, struct sse *s, struct buf *out) {
    sse_reset(s);
    buf_clear(out);
    assert_ok(sse_feed(s, in, (int64_t)cut, show, out));
    assert_ok(sse_feed(s, in + cut, (int64_t)(n - cut), show, out));
}

static void test_sse_lines_at_every_cut(void **state) {
    (void)state;
    static const struct {
        const char *in;
        const char *want;
        bool is_cut;
    } rows[] = {{"data: a\n\n", "message/:a;", false},
                {"data:a\n\ndata:  b\n\n", "message/:a;message/: b;", false},
                {"data: a\r\n\r\ndata: b\r\n\r\n", "message/:a;message/:b;", false},
                {"data: a\r\rdata: b\r\r", "message/:a;message/:b;", false},
                {"data: a\r\n\ndata: b\n\r\n", "message/:a;message/:b;", false},
                {"data: a\ndata: b\ndata\ndata:\n\n", "message/:a\nb\n\n;", false},
                {"\xef\xbb\xbf"
                 "data: a\n\n",
                 "message/:a;", false},
                {"\xef\xbb"
                 "data: a\n\ndata: b\n\n",
                 "message/:b;", false},
                {"\xef\xbb\xbf\xef\xbb\xbf"
                 "data: a\n\ndata: b\n\n",
                 "message/:b;", false},
                {": ping\n\n:\n:x\ndata: a\n\n", "message/:a;", false},
                {"event: e\ndata: a\n\ndata: b\n\n", "e/:a;message/:b;", false},
                {"id: 1\ndata: a\n\ndata: b\nid\n\ndata: c\n\n",
                 "message/1:a;message/:b;message/:c;", false},
                {"event: lost\n\ndata: a\n\n", "message/:a;", false},
                {"retry: 250\ndata: a\n\n", "message/:a;", false},
                {"Data: a\n\n data: b\n\nfoo: c\n\n", "", false},
                {"data: a\n\ndata: b\n", "message/:a;", true},
                {"data: a\n\ndata: b", "message/:a;", true},
                {"data: a\n\n: half", "message/:a;", true},
                {"data: a\r", "", true},
                {"\n\n\r\n\r", "", false},
                {"", "", false}};
    struct sse s;
    struct buf out;
    sse_init(&s);
    buf_init(&out, MEM_TEST, OUT_MAX);
    for (int32_t i = 0; i < ARRAY_LEN(rows); i++) {
        size_t n = strlen(rows[i].in);
        for (size_t cut = 0; cut <= n; cut++) {
            read_cut(rows[i].in, n, cut, &s, &out);
            assert_string_equal(buf_cstr(&out), rows[i].want);
            assert_int_equal(sse_is_cut(&s), rows[i].is_cut);
            assert_int_equal(s.n_bytes, n);
        }
    }
    sse_fini(&s);
    buf_fini(&out);
}

static void test_sse_retry(void **state) {
    (void)state;
    static const struct {
        const char *in;
        int64_t want;
    } rows[] = {{"retry: 250\n", 250},
                {"retry:x\n", -1},
                {"retry: -3\n", -1},
                {"retry:\n", -1},
                {"retry: 99999999999999999999\n", -1}};
    struct sse s;
    sse_init(&s);
    for (int32_t i = 0; i < ARRAY_LEN(rows); i++) {
        sse_reset(&s);
        assert_ok(sse_feed(&s, rows[i].in, (int64_t)strlen(rows[i].in), show, NULL));
        assert_int_equal(s.retry_ms, rows[i].want);
    }
    sse_fini(&s);
}

static int count(void *ctx, const struct sse_event *ev) {
    *(int64_t *)ctx += ev->n;
    return 0;
}

static void test_sse_limits(void **state) {
    (void)state;
    static char big[1 << 16];
    struct sse s;
    int64_t n = 0;
    int rc = 0;
    memset(big, 'x', sizeof big);
    sse_init(&s);
    assert_ok(sse_feed(&s, "data: ", 6, count, &n));
    for (int32_t i = 0; i <= SSE_EVENT_MAX / (int32_t)sizeof big && !rc; i++) {
        rc = sse_feed(&s, big, sizeof big, count, &n);
    }
    assert_err(rc, ERR_LIMIT, "a line of more than 4194304 bytes");
    sse_reset(&s);
    rc = 0;
    for (int32_t i = 0; i <= SSE_EVENT_MAX / (int32_t)sizeof big && !rc; i++) {
        rc = sse_feed(&s, "data:", 5, count, &n);
        rc = rc ? rc : sse_feed(&s, big, sizeof big, count, &n);
        rc = rc ? rc : sse_feed(&s, "\n", 1, count, &n);
    }
    assert_err(rc, ERR_LIMIT, "an event of more than 4194304 bytes");
    assert_int_equal(n, 0);
    sse_fini(&s);
}

static int refuse(void *ctx, const struct sse_event *ev) {
    (void)ctx;
    (void)ev;
    return err_set(ERR_CANCELED, "no");
}

static void test_sse_passes_errors_on(void **state) {
    (void)state;
    struct sse s;
    sse_init(&s);
    assert_err(sse_feed(&s, "data: a\n\ndata: b\n\n", 18, refuse, NULL), ERR_CANCELED, "no");
    assert_int_equal(s.n_events, 1);
    sse_fini(&s);
}

static int feed_all(void *ctx) {
    struct sse s;
    int64_t n = 0;
    (void)ctx;
    sse_init(&s);
    int rc = sse_feed(&s, "data: a\nda", 10, count, &n);
    rc = rc ? rc : sse_feed(&s, "ta: bb\n\n", 8, count, &n);
    sse_fini(&s);
    return rc;
}

static void test_sse_without_memory(void **state) {
    (void)state;
    static const int codes[] = {ERR_NOMEM, 0};
    test_fault_loop(FAULT_ALLOC, feed_all, NULL, codes);
}

int main(void) {
    const struct CMUnitTest tests[] = {TEST(test_sse_lines_at_every_cut), TEST(test_sse_retry),
                                       TEST(test_sse_limits), TEST(test_sse_passes_errors_on),
                                       TEST(test_sse_without_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
