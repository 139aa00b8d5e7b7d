/* The first address of the name that can be bound is taken. */
#include "engine/serve/listener.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/base/err.h"

enum { BACKLOG = 1024 };

/* out: the socket, or -1 with errno */
static int try_address(const struct addrinfo *a) {
    int one = 1;
    int fd = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -1;
    }
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(fd, a->ai_addr, a->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0) {
        return fd;
    }
    int saved = errno;
    close(fd);
    errno = saved;
    return -1;
}

/* Fills in what the socket is bound to. */
static void describe(struct listener *l) {
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } a;
    char text[INET6_ADDRSTRLEN] = "";
    socklen_t n = sizeof a;
    memset(&a, 0, sizeof a);
    getsockname(l->fd, &a.any, &n);
    l->ipv6 = a.any.sa_family == AF_INET6;
    if (l->ipv6) {
        inet_ntop(AF_INET6, &a.v6.sin6_addr, text, sizeof text);
        l->port = ntohs(a.v6.sin6_port);
        l->loopback = IN6_IS_ADDR_LOOPBACK(&a.v6.sin6_addr);
    } else {
        inet_ntop(AF_INET, &a.v4.sin_addr, text, sizeof text);
        l->port = ntohs(a.v4.sin_port);
        l->loopback = ntohl(a.v4.sin_addr.s_addr) >> 24 == 127;
    }
    snprintf(l->url, sizeof l->url, l->ipv6 ? "http://[%s]:%d" : "http://%s:%d", text, l->port);
}

int listener_open(const char *host, int32_t port, struct listener *l) {
    char service[16];
    struct addrinfo *all = NULL;
    struct addrinfo hints = {.ai_family = AF_UNSPEC,
                             .ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    snprintf(service, sizeof service, "%d", port);
    int err = getaddrinfo(host, service, &hints, &all);
    if (err) {
        return err_set(ERR_NET, "host \"%s\": %s", host, gai_strerror(err));
    }
    int fd = -1;
    for (const struct addrinfo *a = all; a && fd < 0; a = a->ai_next) {
        fd = try_address(a);
    }
    int saved = errno;
    freeaddrinfo(all);
    if (fd < 0) {
        return err_set(ERR_NET, "cannot listen on %s port %d: %s", host, port, strerror(saved));
    }
    *l = (struct listener){.fd = fd};
    describe(l);
    return 0;
}
