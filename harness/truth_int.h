/* What the files of the truth server share. */
#ifndef HARNESS_TRUTH_INT_H
#define HARNESS_TRUTH_INT_H

#include <pthread.h>
#include <stdatomic.h>

#include "harness/corpus.h"
#include "harness/truth.h"

enum truth_step { STEP_READ, STEP_ROLE, STEP_TOKEN, STEP_END };

struct truth_conn {
    int fd;
    struct buf in;  /* own: the request so far */
    struct buf out; /* own: what a send did not take */
    enum truth_step step;
    enum chunk_api api;
    bool stream;
    bool want_usage;
    bool watches_out;
    enum corpus_end end; /* of the answer */
    int32_t at;          /* in the heap; -1: not there */
    int32_t record;
    int32_t n_tokens;
    int32_t n_told;
    int64_t next_ns;
    int64_t first_ns; /* planned time of the first token */
};

struct truth {
    struct truth_opts o;
    int32_t port;
    char url[64];
    int listen_fd;
    int epoll_fd;
    int wake_fd;
    int timer_fd;
    pthread_t thread;
    bool is_running;
    _Atomic bool stop;
    struct truth_conn **conns; /* own, [CONNS_MAX] by descriptor */
    struct truth_conn **heap;  /* own, [CONNS_MAX] by next_ns */
    int32_t n_heap;
    struct truth_record *records; /* own */
    int32_t n_records;
    int32_t cap_records;
    int64_t *times; /* own */
    int64_t n_times;
    int64_t cap_times;
    char *read_buf;   /* own, [READ_MAX] */
    struct buf frame; /* own: one event as it goes out */
};

/* Reads what a request asks for into c; name: the first word of its path, "" for /v1/...
 * in: head ends with an empty line, the body lies behind it */
void truth_ask(const struct truth *t,
               struct truth_conn *c,
               const char *head,
               int64_t n_head,
               int64_t n_body,
               char name[CORPUS_NAME_MAX]);

/* The value of a header field, up to end; NULL: none. The whole number at s; INT64_MIN: none. */
const char *truth_field(const char *head, const char *end, const char *name);
int64_t truth_number(const char *s);

/* Each appends one piece of an answer to t->frame, framed as chunks of HTTP: header and role; an
 * event of n tokens; what follows the last one; an answer without a stream.
 * err: ERR_LIMIT, ERR_NOMEM */
int truth_role(struct truth *t, const struct truth_conn *c);
int truth_token(struct truth *t, const struct truth_conn *c, int32_t n);
int truth_end(struct truth *t, const struct truth_conn *c);
int truth_whole(struct truth *t, const struct truth_conn *c);

#endif
