/* A plain HTTP client for tests of the server: blocking, one connection, no assertions, so that any
 * thread may use it. */
#ifndef TESTS_SUPPORT_API_CLIENT_H
#define TESTS_SUPPORT_API_CLIENT_H

#include "engine/base/buf.h"

enum { API_TIMEOUT_S = 60, API_REPLY_MAX = 1 << 28 };

struct api_conn {
    int fd;        /* own; -1: closed */
    struct buf in; /* own; received and not used yet, from n_used on */
    int64_t n_used;
    bool bare; /* the last request was a HEAD: its response has no body */
};

struct api_reply {
    int32_t status; /* 0: no head came */
    struct buf head;
    struct buf body; /* without chunk framing */
    bool whole;      /* it came to its end */
};

/* Connects to 127.0.0.1. out: false when that fails. own: caller, api_close */
bool api_open(struct api_conn *c, int32_t port);
void api_close(struct api_conn *c);

/* Sends bytes; sends a request. in: more: header lines with CRLF, or ""; body NULL: none */
bool api_send(struct api_conn *c, const char *data, int64_t n);
bool api_request(
    struct api_conn *c, const char *method, const char *path, const char *more, const char *body);

/* Reads one response. out: false when it is not whole (closed, or API_TIMEOUT_S of silence); what
 * came is in r. own: r of the caller, api_reply_fini */
bool api_read(struct api_conn *c, struct api_reply *r);
void api_reply_fini(struct api_reply *r);

/* Waits until at least n bytes of what comes next are in c->in. out: false at the end */
bool api_fill(struct api_conn *c, int64_t n);

/* Is the other side's end here within ms? What it sent before is thrown away. */
bool api_ends(struct api_conn *c, int32_t ms);

/* One request on a connection of its own. out: the status */
int32_t
api_ask(int32_t port, const char *method, const char *path, const char *body, struct api_reply *r);

#endif
