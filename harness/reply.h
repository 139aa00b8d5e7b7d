/* One answer of a server, from its bytes to tokens and, when it went wrong, one class.
 *
 * Pure: no clock, no socket. The caller says what the header said, feeds the body in any pieces and
 * tells how the transfer ended. Text and class do not depend on where the pieces were cut. */
#ifndef HARNESS_REPLY_H
#define HARNESS_REPLY_H

#include "harness/chunk.h"
#include "harness/sse.h"

enum { REPLY_BODY_MAX = 1 << 26, REPLY_ERROR_BODY_MAX = 4096, REPLY_TEXT_MAX = 160 };

/* X(NAME, class in the database, sentence) */
#define REPLY_MAP(X)                                                                               \
    X(OK, NULL, "")                                                                                \
    X(DNS, "dns", "the name has no address")                                                       \
    X(CONNECT, "connect", "no connection")                                                         \
    X(CONNECT_TIMEOUT, "connect_timeout", "no connection in time")                                 \
    X(TLS, "tls", "no trusted connection")                                                         \
    X(NO_ANSWER, "no_answer", "the connection was closed without an answer")                       \
    X(RATE_LIMITED, "rate_limited", "HTTP status 429")                                             \
    X(CLIENT_ERROR, "http_4xx", "the server refused the request")                                  \
    X(SERVER_ERROR, "http_5xx", "the server failed")                                               \
    X(BAD_STATUS, "http_status", "a status that is no answer")                                     \
    X(NOT_SSE, "not_sse", "the answer is no event stream")                                         \
    X(ERROR_BODY, "error_body", "an error in a body with status 200")                              \
    X(ERROR_EVENT, "error_event", "an error inside the stream")                                    \
    X(BAD_JSON, "bad_json", "an answer that is no JSON")                                           \
    X(BAD_SHAPE, "bad_shape", "JSON that is no answer")                                            \
    X(EMPTY_STREAM, "empty_stream", "a stream without an event")                                   \
    X(NO_DONE, "no_done", "the stream ended without its last event")                               \
    X(CUT, "early_fin", "the connection was closed inside the answer")                             \
    X(RESET, "reset", "the connection was reset")                                                  \
    X(STALLED, "stalled", "silence inside the answer")                                             \
    X(TIMEOUT, "timeout", "the answer took too long")                                              \
    X(TOO_LARGE, "too_large", "an event or body beyond the limit")                                 \
    X(PROTOCOL, "protocol", "broken HTTP")                                                         \
    X(NO_MEMORY, "client_memory", "the client is out of memory")

#define REPLY_ENUM(name, label, text) REPLY_##name,
enum reply_class { REPLY_MAP(REPLY_ENUM) REPLY_N };
#undef REPLY_ENUM

/* How the tokens of an event were counted, best last. */
enum reply_count {
    REPLY_COUNT_NONE,      /* not at all */
    REPLY_COUNT_EVENT,     /* one an event */
    REPLY_COUNT_SPREAD,    /* the server's sum, evenly over the events */
    REPLY_COUNT_TOKENIZER, /* our tokenizer on the whole text so far */
    REPLY_COUNT_LOGPROBS,  /* listed log-probabilities */
    REPLY_COUNT_IDS,       /* listed token ids */
    REPLY_COUNT_USAGE,     /* the running count of the server */
    REPLY_COUNT_N
};

struct reply_event {
    bool bears_tokens;
    bool is_answer; /* text of the answer proper */
    bool is_whole;  /* the whole answer at once */
    int32_t n_tokens;
    const char *text; /* valid during the call, [n] */
    int64_t n;
};

/* Called for each event but [DONE]. err: ends the reply with NO_MEMORY */
typedef int (*reply_fn)(void *ctx, const struct reply_event *ev);

struct reply_opts {
    enum chunk_api api;
    bool stream; /* an event stream was asked for */
    reply_fn fn; /* NULL: none */
    void *ctx;
};

struct reply {
    struct reply_opts o;
    struct sse sse;   /* own */
    struct buf body;  /* own: of what is no stream */
    struct buf piece; /* own: text of one event */
    enum reply_class kind;
    bool is_streamed; /* the body is read as events */
    bool is_done;
    int32_t status;
    int64_t n_tokens;  /* sum over events */
    int64_t n_body;    /* bytes */
    int64_t n_events;  /* with tokens */
    int64_t n_running; /* last running count of the server */
    enum reply_count count;
    int64_t n_prompt; /* usage; -1: not said, like the next three */
    int64_t n_output;
    int64_t n_cached;
    int64_t n_reasoning;
    int64_t retry_after_ns; /* -1 */
    char finish[CHUNK_FINISH_MAX];
    char error[REPLY_TEXT_MAX]; /* what the server or the parser said */
};

/* own: caller, reply_fini */
void reply_init(struct reply *r, const struct reply_opts *o);
void reply_fini(struct reply *r);

/* Begins anew and keeps the memory. */
void reply_reset(struct reply *r, const struct reply_opts *o);

/* The header is whole. in: type NULL: no Content-Type; retry_after NULL: no such field */
void reply_head(struct reply *r, int32_t status, const char *type, const char *retry_after);

/* Takes n bytes of the body. out: false when the rest is not worth reading (kind says why) */
bool reply_feed(struct reply *r, const void *bytes, int64_t n);

/* The transfer is over. in: how: REPLY_OK for a clean end, else what the network did; why: more
 * words on it, may be NULL. out: r->kind, r->error, counts; kind OK: a whole answer */
void reply_end(struct reply *r, enum reply_class how, const char *why);

/* Class in the database, NULL for OK; general sentence; name of a way to count. */
const char *reply_class_name(enum reply_class kind);
const char *reply_class_text(enum reply_class kind);
const char *reply_count_name(enum reply_count count);

#endif
