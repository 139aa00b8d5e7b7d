/* What the files of the HTTP target share. */
#ifndef HARNESS_HTTP_INT_H
#define HARNESS_HTTP_INT_H

#include <pthread.h>
#include <stdatomic.h>

#include <curl/curl.h>

#include "engine/base/ring.h"
#include "engine/text/tok.h"
#include "harness/dialect.h"
#include "harness/http.h"
#include "harness/reply.h"

enum {
    HTTP_ID_MAX = 64,
    HTTP_TYPE_MAX = 128,
    HTTP_RING = 1 << 17,
    HTTP_READ_MAX = 8192,
    HTTP_SHARDS = 64
};

/* Counting by our tokenizer: the text since the last safe cut. */
struct counter {
    struct buf tail; /* own */
    int64_t n_tail;  /* tokens of it when it was counted last */
};

void http_count_reset(struct counter *c);

/* Takes one event's text. out: tokens it adds, >= 0; 1 when they cannot be counted */
int32_t http_count(struct counter *c, const struct tok *tok, const char *text, int64_t n);

/* A request from submit until its end was polled and the next poll came. */
struct xfer {
    struct http *h;             /* ref */
    struct http_shard *shard;   /* ref: where it was sent */
    CURL *easy;                 /* own */
    struct buf body;            /* own */
    struct reply reply;         /* own */
    struct counter counter;     /* own; of poll */
    struct curl_slist id_field; /* head of the list of header fields; the rest is the target's */
    char id[HTTP_ID_MAX];
    char type[HTTP_TYPE_MAX];      /* Content-Type; "": none */
    char retry_after[HTTP_ID_MAX]; /* Retry-After; "": none */
    char finish[CHUNK_FINISH_MAX];
    char error_text[REPLY_TEXT_MAX];
    char curl_error[CURL_ERROR_SIZE];
    uint64_t tag;
    int64_t intended_ns;
    int64_t heard_ns; /* last byte of the answer */
    int32_t at;       /* index in waiting or active; -1: in none */
    bool is_active;
    bool is_canceled;
    bool is_first_told;
    int32_t n_prereq; /* connections the request was written to */
    bool has_head;
    struct target_wire wire;
    struct target_outcome outcome;
    struct xfer *next; /* ref: in a list of free, sent or polled ones */
};

/* A share of the connections. why: libcurl looks through all connections to a host for each new
 * request; thousands in one handle would cost their square. */
struct http_shard {
    CURLM *multi;     /* own */
    struct http *h;   /* ref */
    int32_t n_conns;  /* open sockets */
    int32_t n_active; /* requests */
    int64_t due_ns;   /* when libcurl wants to be called; INT64_MAX: not at all */
};

/* What the loop hands to poll. */
struct http_item {
    struct target_event ev;
    struct xfer *x; /* END: goes back to the free ones at the poll after */
    char *text;     /* own: TOKENS that are to be counted; NULL: counted */
    int64_t n_text;
};

struct http {
    struct target head;
    struct http_opts o;
    const struct dialect *dialect;
    enum chunk_api api;
    bool stream;
    bool kernel_time;
    int64_t timeout_ns;
    int64_t stall_ns;                /* 0: no limit */
    char *urls[SCENARIO_URLS_MAX];   /* own: whole addresses */
    int32_t turn[SCENARIO_URLS_MAX]; /* of the sender: credit of each URL */
    struct curl_slist *headers;      /* own: fields of every request; holds the key */
    char *key;                       /* own; NULL: none */
    json_t *more;                    /* own: fields of the body */
    struct tok *tok;                 /* own; NULL: none */

    pthread_mutex_t lock; /* of the next five; held for a few instructions */
    struct xfer *free;
    struct xfer *inbox; /* submitted, newest first */
    uint64_t *canceled; /* own, [HTTP_REQUESTS_MAX] tags */
    int32_t n_canceled;
    int32_t n_xfer;    /* made so far */
    struct xfer **all; /* own, [HTTP_REQUESTS_MAX]: every one made */

    struct ring ring;    /* own: items, from the loop to poll */
    struct xfer *polled; /* of poll: ended in the last poll */

    pthread_t thread;
    bool is_running;
    _Atomic bool stop;
    _Atomic int rc;
    char error[256]; /* written by the loop before rc */
    _Atomic int64_t busy_ns;
    _Atomic int64_t lag_ns;
    _Atomic int64_t cpu_ns;
    _Atomic int64_t start_ns;

    /* the loop's own */
    struct http_shard shard[HTTP_SHARDS];
    int32_t n_shards; /* in use */
    int epoll_fd;
    int wake_fd;
    int send_fd;           /* timer of the schedule */
    int curl_fd;           /* timer of libcurl */
    int64_t armed_ns;      /* what curl_fd is set to */
    struct xfer **waiting; /* own, heap by intended time */
    int32_t n_waiting;
    struct xfer **active; /* own */
    int32_t n_active;
    struct xfer **by_tag; /* own, [TARGET_REQUESTS_MAX] */
    int64_t rx_ns;        /* kernel's time of what is read next; 0: unknown */
    int64_t rx_last_ns;   /* and of the last byte that waits there */
    int64_t rx_left;      /* bytes of those not read yet; below 0: more came meanwhile */
    int64_t wall_minus_mono_ns;
    int64_t compared_ns; /* when; 0: never */
    bool is_reset;       /* a look at the socket took the news of its reset from libcurl */
    int64_t looked_ns;   /* last look for silence */
};

/* The loop: makes its descriptors, runs until stop, and gives them back. */
int http_loop_init(struct http *h);
void http_loop_fini(struct http *h);
void *http_loop_run(void *arg);

/* Shares of connections: the first is made by init; err: ERR_NOMEM. */
int http_shards_init(struct http *h);
void http_shards_fini(struct http *h);

/* Gives a request to a share and starts it. err: ERR_NOMEM; it is to be removed in any case */
int http_shard_add(struct http *h, struct xfer *x);
void http_shard_remove(struct xfer *x);

/* curl_multi_socket_action of a share. */
void http_shard_act(struct http_shard *s, curl_socket_t fd, int what);

/* When libcurl wants to be called next, INT64_MAX never; calls what is due. */
int64_t http_shards_due(const struct http *h);
void http_shards_act_due(struct http *h, int64_t now);

/* Makes the loop look at its inbox. */
void http_wake(struct http *h);

/* Sets up what all requests of an easy handle have in common. err: ERR_NOMEM */
int http_easy(struct xfer *x);

/* Tells the easy handle what this request is. */
void http_load_xfer(struct xfer *x);

/* Reads libcurl's verdict and measurements into x->outcome and x->wire. */
void http_finish(struct xfer *x, CURLcode code);

/* Hands an item over; waits when poll is far behind. */
void http_tell(struct http *h, const struct http_item *item);

#endif
