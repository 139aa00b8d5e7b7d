/* status 200 and an event stream -> sse -> chunk -> tokens
 * status 200 and JSON            -> chunk of the whole body, when no stream was asked for
 * anything else                  -> a class; the first one found stays
 *
 * 1. Role, empty text, usage and comments bear no token.
 * 2. The running count of the server decides how many tokens an event has, then listed ids, then
 *    listed log-probabilities, else one. Tokens that came without text (half a character) count
 *    with the next text.
 * 3. What the network does behind the last event no longer matters; before it, it is the class. */
#include "harness/reply.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "engine/base/err.h"
#include "engine/base/str.h"

static const struct {
    const char *name;
    const char *text;
} classes[REPLY_N] = {
#define REPLY_ROW(name, label, text) {label, text},
    REPLY_MAP(REPLY_ROW)
#undef REPLY_ROW
};

static const char *const counts[REPLY_COUNT_N] = {NULL,       "event",     "spread", "tokenizer",
                                                  "logprobs", "token_ids", "usage"};

const char *reply_class_name(enum reply_class kind) {
    return classes[kind].name;
}

const char *reply_class_text(enum reply_class kind) {
    return classes[kind].text;
}

const char *reply_count_name(enum reply_count count) {
    return counts[count];
}

void reply_init(struct reply *r, const struct reply_opts *o) {
    *r = (struct reply){0};
    sse_init(&r->sse);
    buf_init(&r->body, MEM_HARNESS, REPLY_BODY_MAX);
    buf_init(&r->piece, MEM_HARNESS, SSE_EVENT_MAX);
    reply_reset(r, o);
}

void reply_fini(struct reply *r) {
    sse_fini(&r->sse);
    buf_fini(&r->body);
    buf_fini(&r->piece);
}

void reply_reset(struct reply *r, const struct reply_opts *o) {
    struct reply fresh = {.o = *o,
                          .sse = r->sse,
                          .body = r->body,
                          .piece = r->piece,
                          .n_prompt = -1,
                          .n_output = -1,
                          .n_cached = -1,
                          .n_reasoning = -1,
                          .retry_after_ns = -1};
    *r = fresh;
    sse_reset(&r->sse);
    buf_clear(&r->body);
    buf_clear(&r->piece);
}

static void fail(struct reply *r, enum reply_class kind, const char *why) {
    if (r->kind == REPLY_OK) {
        r->kind = kind;
        (void)str_copy(r->error, REPLY_TEXT_MAX, why && why[0] ? why : classes[kind].text);
    }
}

static enum reply_class class_of_status(int32_t status) {
    if (status == 429) {
        return REPLY_RATE_LIMITED;
    }
    if (status >= 400 && status < 500) {
        return REPLY_CLIENT_ERROR;
    }
    return status >= 500 ? REPLY_SERVER_ERROR : REPLY_BAD_STATUS;
}

/* True for "name" and "name; parameters". */
static bool is_type(const char *type, const char *name) {
    size_t n = strlen(name);
    return type && strncasecmp(type, name, n) == 0 && strchr("; \t", type[n]) != NULL;
}

/* Retry-After in seconds; a date is left out. src: RFC 9110, 10.2.3 */
static int64_t retry_after(const char *v) {
    int64_t s = 0;
    if (!v || str_i64(v, 0, 1000000, &s)) {
        err_clear();
        return -1;
    }
    return s * 1000000000;
}

void reply_head(struct reply *r, int32_t status, const char *type, const char *retry) {
    r->status = status;
    r->retry_after_ns = retry_after(retry);
    r->is_streamed = status == 200 && r->o.stream && is_type(type, "text/event-stream");
}

static int32_t tokens_of(struct reply *r, const struct chunk *c) {
    enum reply_count how = REPLY_COUNT_EVENT;
    int64_t n = 1;
    bool is_running = r->count == REPLY_COUNT_NONE || r->count == REPLY_COUNT_USAGE;
    if (c->n_output >= 0 && is_running) { /* else it is the sum that comes with the last text */
        how = REPLY_COUNT_USAGE;
        n = i64_max(0, c->n_output - r->n_running);
        r->n_running = i64_max(r->n_running, c->n_output);
    } else if (c->n_ids > 0 || c->n_logprobs > 0) {
        how = c->n_ids > 0 ? REPLY_COUNT_IDS : REPLY_COUNT_LOGPROBS;
        n = c->n_ids > 0 ? c->n_ids : c->n_logprobs;
    }
    r->count = r->count == REPLY_COUNT_NONE || how < r->count ? how : r->count;
    return (int32_t)i64_min(n, INT32_MAX);
}

static void take_sums(struct reply *r, const struct chunk *c) {
    r->n_prompt = c->n_prompt >= 0 ? c->n_prompt : r->n_prompt;
    r->n_output = c->n_output >= 0 ? c->n_output : r->n_output;
    r->n_cached = c->n_cached >= 0 ? c->n_cached : r->n_cached;
    r->n_reasoning = c->n_reasoning_tokens >= 0 ? c->n_reasoning_tokens : r->n_reasoning;
    if (c->finish[0]) {
        memcpy(r->finish, c->finish, sizeof r->finish);
    }
}

static int tell(struct reply *r, struct reply_event *ev) {
    ev->text = buf_cstr(&r->piece);
    ev->n = r->piece.len;
    r->n_events += ev->bears_tokens ? 1 : 0;
    r->n_tokens += ev->n_tokens;
    return r->o.fn ? r->o.fn(r->o.ctx, ev) : 0;
}

/* A document that could not be read as an answer; the class goes with the error's code. */
static void fail_read(struct reply *r, int rc) {
    fail(r,
         rc == ERR_NOMEM ? REPLY_NO_MEMORY : (rc == ERR_LIMIT ? REPLY_TOO_LARGE : REPLY_BAD_JSON),
         err_msg());
    err_clear();
}

static int on_event(void *ctx, const struct sse_event *e) {
    struct reply *r = ctx;
    struct chunk c;
    if (r->is_done || e->n == 0) { /* empty data keeps a connection alive */
        return 0;
    }
    if (e->n == 6 && memcmp(e->data, "[DONE]", 6) == 0) {
        r->is_done = true;
        return 0;
    }
    buf_clear(&r->piece);
    int rc = chunk_read(r->o.api, e->data, e->n, &r->piece, &c);
    if (rc) {
        fail_read(r, rc);
        return ERR_CANCELED;
    }
    if (c.is_error || str_eq(e->name, "error")) {
        fail(r, REPLY_ERROR_EVENT, c.error);
        return ERR_CANCELED;
    }
    if (!c.has_choices && c.n_output < 0) {
        fail(r, REPLY_BAD_SHAPE, NULL);
        return ERR_CANCELED;
    }
    r->is_done = c.is_last;
    struct reply_event ev = {.bears_tokens = r->piece.len > 0, .is_answer = c.n_answer > 0};
    ev.n_tokens = ev.bears_tokens ? tokens_of(r, &c) : 0;
    take_sums(r, &c);
    rc = tell(r, &ev);
    if (rc) {
        fail(r, REPLY_NO_MEMORY, err_msg());
    }
    return rc;
}

bool reply_feed(struct reply *r, const void *bytes, int64_t n) {
    r->n_body += n;
    if (r->kind != REPLY_OK) {
        return false;
    }
    if (r->is_streamed) {
        int rc = sse_feed(&r->sse, bytes, n, on_event, r);
        if (rc && r->kind == REPLY_OK) {
            fail_read(r, rc);
        }
        return r->kind == REPLY_OK;
    }
    bool is_answer = r->status == 200 && !r->o.stream;
    int64_t room = (is_answer ? REPLY_BODY_MAX : REPLY_ERROR_BODY_MAX) - r->body.len;
    if (n > room && is_answer) {
        fail(r, REPLY_TOO_LARGE, NULL);
        return false;
    }
    if (buf_add(&r->body, bytes, i64_min(n, room))) {
        fail(r, REPLY_NO_MEMORY, NULL);
        err_clear();
        return false;
    }
    return true;
}

/* Text of an error body: the message of its JSON, else its first line. */
static void error_text(struct reply *r, char dst[REPLY_TEXT_MAX]) {
    struct chunk c;
    dst[0] = '\0';
    buf_clear(&r->piece);
    if (chunk_read(r->o.api, buf_cstr(&r->body), r->body.len, &r->piece, &c) == 0 && c.is_error) {
        (void)str_copy(dst, REPLY_TEXT_MAX, c.error);
    } else {
        (void)str_copy(dst, REPLY_TEXT_MAX, buf_cstr(&r->body));
        dst[strcspn(dst, "\r\n")] = '\0';
    }
    err_clear();
}

/* The whole body as one answer. */
static void read_whole(struct reply *r) {
    struct chunk c;
    buf_clear(&r->piece);
    int rc = chunk_read(r->o.api, buf_cstr(&r->body), r->body.len, &r->piece, &c);
    if (rc) {
        fail_read(r, rc);
    } else if (c.is_error) {
        fail(r, REPLY_ERROR_BODY, c.error);
    } else if (!c.has_choices || (r->piece.len == 0 && !c.finish[0])) {
        fail(r, REPLY_BAD_SHAPE, NULL);
    } else {
        struct reply_event ev = {
            .bears_tokens = r->piece.len > 0, .is_answer = c.n_answer > 0, .is_whole = true};
        bool is_known = c.n_output >= 0 || c.n_ids > 0 || c.n_logprobs > 0;
        ev.n_tokens = is_known ? tokens_of(r, &c) : 0;
        take_sums(r, &c);
        if (tell(r, &ev)) {
            fail(r, REPLY_NO_MEMORY, NULL);
        }
        r->is_done = true;
    }
}

static void end_stream(struct reply *r, enum reply_class how, const char *why) {
    if (r->is_done) {
        return; /* law 3 */
    }
    if (how != REPLY_OK) {
        fail(r, how, why);
    } else {
        fail(r, r->sse.n_events == 0 ? REPLY_EMPTY_STREAM : REPLY_NO_DONE,
             r->sse.n_events > 0 && sse_is_cut(&r->sse) ? "the stream ended inside an event"
                                                        : NULL);
    }
}

/* A body where a stream was asked for: an error that says 200, else no stream. */
static void end_unasked(struct reply *r) {
    struct chunk c;
    buf_clear(&r->piece);
    int rc = chunk_read(r->o.api, buf_cstr(&r->body), r->body.len, &r->piece, &c);
    err_clear();
    if (!rc && c.is_error) {
        fail(r, REPLY_ERROR_BODY, c.error);
    } else {
        fail(r, REPLY_NOT_SSE, NULL);
    }
}

/* The server's sum is the truth of the total; without running counts it is spread. */
static void settle_counts(struct reply *r) {
    bool differs = r->n_output >= 0 && r->n_output != r->n_tokens;
    bool lags = r->count == REPLY_COUNT_USAGE && r->n_tokens < r->n_output / 2;
    if (lags || (r->count == REPLY_COUNT_EVENT && differs)) {
        r->count = REPLY_COUNT_SPREAD;
    }
    if (r->n_output < 0 && r->count > REPLY_COUNT_EVENT) {
        r->n_output = r->n_tokens;
    }
}

void reply_end(struct reply *r, enum reply_class how, const char *why) {
    char text[REPLY_TEXT_MAX];
    if (r->kind != REPLY_OK) {
        return;
    }
    if (r->status == 0) {
        fail(r, how == REPLY_OK || how == REPLY_CUT ? REPLY_NO_ANSWER : how, why);
    } else if (r->status != 200) {
        error_text(r, text);
        fail(r, class_of_status(r->status), text);
    } else if (r->is_streamed) {
        end_stream(r, how, why);
    } else if (how != REPLY_OK) {
        fail(r, how, why);
    } else if (r->o.stream) {
        end_unasked(r);
    } else {
        read_whole(r);
    }
    settle_counts(r);
}
