/* Between the server's life, its HTTP callbacks and its routes. */
#ifndef ENGINE_SERVE_SERVER_INT_H
#define ENGINE_SERVE_SERVER_INT_H

#include "engine/serve/dispatch.h"
#include "engine/serve/listener.h"
#include "engine/serve/server.h"

struct server {
    struct server_opts o; /* defaults filled in */
    struct MHD_Daemon *daemon;
    struct listener listener;
    struct dispatch *dispatch;
    struct conns conns;
    struct metrics metrics;
    int32_t ctx_max;
    int64_t text_max; /* as in struct apireq_env */
    int64_t created_s;
    uint64_t seed;             /* of ids and of requests without a seed */
    _Atomic uint64_t n_answer; /* ids given out */
    _Atomic bool draining;
    _Atomic int64_t body_bytes; /* of all bodies */
    pthread_mutex_t lock;
    pthread_cond_t idle;
    int32_t n_handed; /* under lock: answers that the HTTP side has not ended */
};

/* One row of the table of routes. */
struct route {
    const char *method;
    const char *path;
    bool open;                                                        /* without the key */
    enum apireq_kind kind;                                            /* of the body; 0: none */
    int (*answer)(struct server *s, struct call *c, struct buf *out); /* NULL: by the engine */
};

/* Finds a route. out: NULL with e filled in: 404, or 405 */
const struct route *route_find(const char *method, const char *path, struct apierr *e);

/* Answers a call whose body is complete: queues the response, or hands it to the dispatcher. */
enum MHD_Result route_act(struct server *s, struct call *c);

/* Queues the response of a call that has woken up. */
enum MHD_Result route_reply(struct server *s, struct call *c);

#endif
