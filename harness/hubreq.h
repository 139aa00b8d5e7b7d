/* One HTTP GET through libcurl: no redirect is followed, nothing is tried twice. */
#ifndef HARNESS_HUBREQ_H
#define HARNESS_HUBREQ_H

#include "engine/base/file.h"

enum {
    HUBREQ_URL_MAX = 8192,  /* bytes of a URL; signed addresses of a CDN are long */
    HUBREQ_HOST_MAX = 256,  /* bytes of a host name */
    HUBREQ_FIELD_MAX = 256, /* bytes of a header field that is kept */
};

struct hubreq;

/* What the answer's header says. */
struct hubreq_head {
    int32_t status;
    int64_t length;                      /* Content-Length; -1: none */
    bool has_range;                      /* Content-Range was there and is well formed */
    int64_t range_first;                 /* -1: "bytes * / total" */
    int64_t range_last;                  /* -1 likewise */
    int64_t range_total;                 /* -1: "*" */
    int64_t linked_size;                 /* X-Linked-Size; -1: none */
    char etag[HUBREQ_FIELD_MAX];         /* strong ETag with its quotes; "": none or weak */
    char linked_sha256[FILE_SHA256_HEX]; /* X-Linked-Etag when it is a SHA-256; "": none */
    char retry_after[HUBREQ_FIELD_MAX];
    char location[HUBREQ_URL_MAX]; /* absolute; "": no redirect */
};

/* Takes a piece of the body of a 200 or 206 answer. err: any, ends the request with that code */
typedef int (*hubreq_body)(void *ctx, const struct hubreq_head *head, const void *data, int64_t n);

struct hubreq_opts {
    const char *url;
    const char *token;    /* NULL or "": no Authorization */
    int64_t from;         /* first byte wanted; 0: all, no Range */
    const char *if_range; /* entity tag; "": none */
    int64_t connect_ms;   /* for name and connection together */
    int64_t stall_ms;     /* longest silence */
    bool (*stop)(void);   /* asked at least ten times a second */
    hubreq_body body;
    void (*tick)(void *ctx); /* called at least ten times a second; NULL: never */
    void *ctx;               /* for body and tick */
};

enum hubreq_end {
    HUBREQ_WHOLE,  /* a whole answer came */
    HUBREQ_BODY,   /* body refused it, or stop asked for the end */
    HUBREQ_NO_WAY, /* no name, no connection, no trust: another try will not help */
    HUBREQ_CUT,    /* the connection broke or fell silent */
};

/* err: ERR_NOMEM. own: caller, hubreq_destroy */
int hubreq_create(struct hubreq **out);
void hubreq_destroy(struct hubreq *r);

/* Sends one request and reads the answer.
 * out:  head; end says how it ended, also on failure
 * err:  ERR_NET with host and cause (never the query of a URL, never the token); ERR_CANCELED;
 *       what body returned
 * cost: blocks; connect_ms and stall_ms bound the silence */
int hubreq_run(struct hubreq *r,
               const struct hubreq_opts *o,
               struct hubreq_head *head,
               enum hubreq_end *end);

/* Host of a URL; "?" when it has none. */
void hubreq_host(const char *url, char dst[HUBREQ_HOST_MAX]);

/* True when both URLs have the same scheme, host and port. */
bool hubreq_same_origin(const char *a, const char *b);

#endif
