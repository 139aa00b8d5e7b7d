/* The open connections, and how long each has taken for what it is at. */
#ifndef ENGINE_SERVE_CONNS_H
#define ENGINE_SERVE_CONNS_H

#include <pthread.h>

#include "engine/base/types.h"

enum conns_phase {
    CONNS_FREE,
    CONNS_FRESH, /* accepted; the head of the first request is awaited */
    CONNS_IDLE,  /* between two requests */
    CONNS_BODY,  /* the head is read, the body is not */
    CONNS_BUSY,  /* being answered; no limit of time */
};

struct conns_slot {
    enum conns_phase phase;
    uint32_t age;       /* counts the uses of the slot */
    int fd;             /* the HTTP library's */
    bool hung_up;       /* the peer has closed its side */
    bool cut;           /* shut down by us */
    int64_t since_ns;   /* of the phase */
    int64_t hung_up_ns; /* when hung_up */
};

struct conns {
    pthread_mutex_t lock;
    struct conns_slot *slot; /* own, [cap] */
    int32_t cap;
    int32_t n_open;
    int32_t next; /* where the search for a free slot begins */
};

/* err: ERR_NOMEM. own: caller, conns_fini */
int conns_init(struct conns *c, int32_t cap);
void conns_fini(struct conns *c);

/* Notes a new connection. out: its name, 0 when the table is full */
uint64_t conns_add(struct conns *c, int fd, int64_t now_ns);

/* Forgets it. Must come before the descriptor is closed. */
void conns_remove(struct conns *c, uint64_t name);

void conns_phase(struct conns *c, uint64_t name, enum conns_phase phase, int64_t now_ns);

/* Notes that the peer has closed its side; is that so, or is the connection gone? */
void conns_hang_up(struct conns *c, uint64_t name, int64_t now_ns);
bool conns_hung_up(struct conns *c, uint64_t name);

/* Shuts a connection down in both directions; the HTTP library sees its end. */
void conns_cut(struct conns *c, uint64_t name);

/* Cuts all that take longer than head_ns for a first head, or idle_ns for a later head or a body,
 * and those whose peer has hung up before. out: how many took too long */
int32_t conns_sweep(struct conns *c, int64_t now_ns, int64_t head_ns, int64_t idle_ns);

int32_t conns_n_open(struct conns *c);

#endif
