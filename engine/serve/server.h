/* The OpenAI API over HTTP, on an engine of this process. */
#ifndef ENGINE_SERVE_SERVER_H
#define ENGINE_SERVE_SERVER_H

#include "engine/run/engine.h"
#include "engine/run/model.h"

struct server;

/* Zero means the default in brackets. All pointers are references and must outlive the server. */
struct server_opts {
    struct engine *engine; /* the server's threads own it from open to close */
    const struct model *model;
    const char *name;       /* of the model, as clients ask for it */
    const char *host;       /* ["127.0.0.1"] */
    int32_t port;           /* 0: any */
    const char *key;        /* clients must send it as a bearer token; NULL: none */
    int32_t n_http_threads; /* [4] */
    int32_t conns_max;      /* [1024] open connections; one more is closed at once */
    int32_t calls_max;      /* [256] answers in the making; one more gets 429 */
    int64_t body_max;       /* [8 MiB] bytes of one body; a larger one gets 413 */
    int64_t bodies_max;     /* [256 MiB] bytes of all bodies at once; more get 503 */
    int64_t head_bytes;     /* [32 KiB] memory of a connection, head included; more gets 431 */
    int64_t backlog_max;    /* [4 MiB] bytes of a stream that may wait for its client */
    int64_t head_ns;        /* [10 s] for the first head of a connection */
    int64_t idle_ns;        /* [60 s] for a later head, for a body, and for a stalled reader */
};

/* Listens and serves.
 * err: ERR_NET (the address), ERR_NOTFOUND (no tokenizer), ERR_RANGE, ERR_NOMEM, ERR_IO
 * own: caller, server_close */
int server_open(const struct server_opts *o, struct server **out);

/* "http://127.0.0.1:8000". own: the server */
const char *server_url(const struct server *s);
int32_t server_port(const struct server *s);

/* New work gets 503 from now on; returns when all that was begun is answered. What is not within
 * grace_ns is ended with an error. cost: blocks */
void server_drain(struct server *s, int64_t grace_ns);

/* Ends everything; clients in mid-answer get an error or a closed connection. NULL is fine. */
void server_close(struct server *s);

#endif
