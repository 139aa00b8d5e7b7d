/* Between HTTP and the engine: takes calls, submits them, and turns events into bytes of answers.
 *
 * One thread does all of it; the engine has a thread of its own (pump.h). */
#ifndef ENGINE_SERVE_DISPATCH_H
#define ENGINE_SERVE_DISPATCH_H

#include "engine/serve/call.h"
#include "engine/serve/conns.h"
#include "engine/serve/metrics.h"

struct dispatch;

struct dispatch_opts {
    struct engine *engine;   /* ref; owned by the dispatcher's thread from open to close */
    const struct tok *tok;   /* ref */
    struct conns *conns;     /* ref */
    struct metrics *metrics; /* ref */
    int32_t calls_max;       /* calls in flight */
    int64_t backlog_max;     /* bytes of a stream that may wait for its client */
    int64_t head_ns;         /* conns_sweep's limits */
    int64_t idle_ns;
};

/* Starts both threads; signals are left to the caller's. err: ERR_NOMEM, ERR_IO
 * own: caller, dispatch_close */
int dispatch_open(const struct dispatch_opts *o, struct dispatch **out);

/* Refuses what comes from now on, fails what is in flight, waits for its end, ends the threads. */
void dispatch_stop(struct dispatch *d);

/* Stops and frees. in: no HTTP thread is left; NULL is fine */
void dispatch_close(struct dispatch *d);

/* Watches a new connection for its end. err: ERR_IO */
int dispatch_watch(struct dispatch *d, int fd, uint64_t conn_name);

/* Hands a sleeping call over, with req and head filled in; takes a reference of its own.
 * err: ERR_BUSY (calls_max in flight), ERR_CANCELED (closing); the call stays the caller's alone */
int dispatch_push(struct dispatch *d, struct call *c);

/* The HTTP side of a call that was handed over has ended. */
void dispatch_gone(struct dispatch *d, struct call *c);

/* Fails all calls in flight with 503; those that come later are served still. */
void dispatch_abort_all(struct dispatch *d);

/* Calls in flight; has the engine failed? */
int32_t dispatch_n_flight(struct dispatch *d);
bool dispatch_is_dead(const struct dispatch *d);

#endif
