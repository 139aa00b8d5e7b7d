/* One HTTP request that is being answered: where the HTTP threads and the dispatcher meet. */
#ifndef ENGINE_SERVE_CALL_H
#define ENGINE_SERVE_CALL_H

#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>

#include "engine/serve/apiout.h"
#include "engine/serve/apireq.h"
#include "engine/serve/choice.h"

enum { CALL_PATH_MAX = 64 };
static const int64_t CALL_ANSWER_MAX = INT64_C(1) << 30; /* bytes of a whole answer */

struct call {
    _Atomic int32_t n_ref; /* the HTTP side's and the dispatcher's */

    /* The HTTP side's. */
    struct MHD_Connection *conn; /* ref */
    uint64_t conn_name;
    const void *route; /* ref, the server's */
    char method[8];
    char path[CALL_PATH_MAX];
    struct buf body; /* own */
    int64_t n_body;  /* bytes of it that came, those not kept too */
    bool read;       /* the body is complete */
    bool handed;     /* the dispatcher has it, or had it */
    int64_t start_ns;
    struct apierr early; /* what is wrong already */

    /* Both sides', under lock. */
    pthread_mutex_t lock;
    struct buf out; /* own; answer or what is not sent of a stream, from n_read on */
    int64_t n_read;
    int32_t status;  /* 0: not known yet */
    bool stream;     /* out goes on growing until done */
    bool done;       /* nothing more will come */
    bool broken;     /* the connection must be cut */
    bool suspended;  /* the connection sleeps until wake */
    const char *end; /* why it was cut, for the log; a literal; NULL: it was not */

    _Atomic bool gone; /* the HTTP side has ended */

    /* The dispatcher's once it is handed over. */
    struct call *next;     /* in its inbox, or among the touched */
    struct apireq req;     /* own */
    struct apiout head;    /* what its objects begin with */
    struct choice *choice; /* own, [n_choice] */
    int32_t n_choice;
    int32_t n_live; /* choices in the engine */
    bool failed;    /* answered with an error, or cut */
    bool touched;
    struct buf pending; /* own; made since the last flush */
};

/* Makes a call with one reference, the HTTP side's.
 * in:  body_max: bytes of a body; err: NULL with ERR_NOMEM set. own: caller, call_release */
struct call *call_create(struct MHD_Connection *conn, int64_t body_max, int64_t now_ns);
void call_take(struct call *c);
/* The last one writes the line of the log and frees all. */
void call_release(struct call *c);

/* HTTP side: puts the connection to sleep until the other side has something. */
void call_sleep(struct call *c);

/* Dispatcher: all wake the connection when it sleeps. */

/* Begins a stream with status 200. */
void call_begin(struct call *c);
/* Appends n bytes to a stream.
 * err: ERR_LIMIT when more than backlog_max bytes would wait for the client; ERR_NOMEM */
int call_append(struct call *c, const char *data, int64_t n, int64_t backlog_max);
/* Ends a stream. */
void call_end(struct call *c);
/* Gives the whole answer, taking the bytes of b. */
void call_answer(struct call *c, int32_t status, struct buf *b);
/* Cuts the connection. why: a literal, for the log */
void call_break(struct call *c, const char *why);
/* Notes why an answer ended early. */
void call_note(struct call *c, const char *why);

/* The HTTP library's reader of a stream; cls: the call. */
ssize_t call_read(void *cls, uint64_t pos, char *dst, size_t max);

#endif
