/* Server-sent events, from bytes in any pieces.
 *
 * src: WHATWG HTML, 9.2.5 "Parsing an event stream" and 9.2.6 "Interpreting an event stream". We
 * differ in two ways: bytes are handed on as they came (no decoding of UTF-8), and an event that
 * the end of the stream cuts off is told by sse_is_cut instead of being dropped in silence. */
#ifndef HARNESS_SSE_H
#define HARNESS_SSE_H

#include "engine/base/buf.h"

enum { SSE_EVENT_MAX = 1 << 22, SSE_NAME_MAX = 64 };

struct sse_event {
    const char *data; /* NUL-terminated, valid during the call */
    int64_t n;        /* bytes of data */
    const char *name; /* of the "event" field; "message" when there is none */
    const char *id;   /* the last one seen, "" */
};

/* err: any, ends the feed with that code */
typedef int (*sse_fn)(void *ctx, const struct sse_event *ev);

struct sse {
    struct buf line; /* own: the line so far */
    struct buf data; /* own: data of the event so far, each line with its LF */
    char name[SSE_NAME_MAX];
    char id[SSE_NAME_MAX];
    int64_t retry_ms; /* -1: never said */
    int64_t n_events;
    int64_t n_comments;
    int64_t n_bytes;
    int32_t n_bom;   /* bytes of the byte order mark seen; -1: past it */
    bool after_cr;   /* a LF that follows belongs to the CR */
    bool has_fields; /* of the event so far */
};

/* own: caller, sse_fini */
void sse_init(struct sse *s);
void sse_fini(struct sse *s);

/* Forgets all and keeps the memory. */
void sse_reset(struct sse *s);

/* Takes n bytes; calls fn for each whole event with data.
 * err: ERR_LIMIT (a line or an event of more than SSE_EVENT_MAX bytes), ERR_NOMEM, fn's */
int sse_feed(struct sse *s, const void *bytes, int64_t n, sse_fn fn, void *ctx);

/* True when the stream ends inside a line or an event. */
bool sse_is_cut(const struct sse *s);

#endif
