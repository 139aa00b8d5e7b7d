/* The listening socket, opened by us so that a failure has a reason and port 0 a number. */
#ifndef ENGINE_SERVE_LISTENER_H
#define ENGINE_SERVE_LISTENER_H

#include "engine/base/types.h"

enum { LISTENER_URL_MAX = 128 };

struct listener {
    int fd; /* own until it is given to the HTTP library */
    int32_t port;
    bool ipv6;
    bool loopback;              /* nobody else can reach it */
    char url[LISTENER_URL_MAX]; /* "http://127.0.0.1:8000" */
};

/* Listens on a host name or address; port 0: any.
 * err: ERR_NET naming host, port and the system's reason. own: caller, close(l->fd) */
int listener_open(const char *host, int32_t port, struct listener *l);

#endif
