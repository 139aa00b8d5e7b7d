#include "tests/support/api_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

bool api_open(struct api_conn *c, int32_t port) {
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_addr = {htonl(INADDR_LOOPBACK)},
                            .sin_port = htons((uint16_t)port)};
    const struct timeval limit = {.tv_sec = API_TIMEOUT_S};
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    c->n_used = 0;
    c->bare = false;
    buf_init(&c->in, MEM_TEST, API_REPLY_MAX);
    setsockopt(c->fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    if (connect(c->fd, (struct sockaddr *)&a, sizeof a) == 0) {
        return true;
    }
    api_close(c);
    return false;
}

void api_close(struct api_conn *c) {
    if (c->fd >= 0) {
        close(c->fd);
        buf_fini(&c->in);
    }
    c->fd = -1;
}

bool api_send(struct api_conn *c, const char *data, int64_t n) {
    while (n > 0) {
        ssize_t put = send(c->fd, data, (size_t)n, MSG_NOSIGNAL);
        if (put <= 0) {
            return false;
        }
        data += put;
        n -= put;
    }
    return true;
}

bool api_request(
    struct api_conn *c, const char *method, const char *path, const char *more, const char *body) {
    struct buf b;
    c->bare = strcmp(method, "HEAD") == 0;
    buf_init(&b, MEM_TEST, API_REPLY_MAX);
    int rc = buf_fmt(&b, "%s %s HTTP/1.1\r\nHost: test\r\n%s", method, path, more);
    rc = rc || !body ? rc : buf_fmt(&b, "Content-Length: %zu\r\n", strlen(body));
    rc = rc ? rc : buf_str(&b, "\r\n");
    rc = rc || !body ? rc : buf_str(&b, body);
    bool ok = rc == 0 && api_send(c, b.data, b.len);
    buf_fini(&b);
    return ok;
}

/* Receives more. out: false at the end, or after the limit */
static bool more(struct api_conn *c) {
    char chunk[1 << 16];
    if (c->n_used > 0) {
        memmove(c->in.data, c->in.data + c->n_used, (size_t)(c->in.len - c->n_used));
        c->in.len -= c->n_used;
        c->n_used = 0;
    }
    ssize_t n = recv(c->fd, chunk, sizeof chunk, 0);
    return n > 0 && buf_add(&c->in, chunk, n) == 0;
}

bool api_fill(struct api_conn *c, int64_t n) {
    while (c->in.len - c->n_used < n) {
        if (!more(c)) {
            return false;
        }
    }
    return true;
}

/* Moves n bytes into out. */
static bool move(struct api_conn *c, int64_t n, struct buf *out) {
    if (!api_fill(c, n) || buf_add(out, c->in.data + c->n_used, n)) {
        return false;
    }
    c->n_used += n;
    return true;
}

/* Moves a line with its CRLF into out. */
static bool move_line(struct api_conn *c, struct buf *out) {
    for (;;) {
        int64_t have = c->in.len - c->n_used;
        const char *from = have > 0 ? c->in.data + c->n_used : "";
        const char *end = memchr(from, '\n', (size_t)have);
        if (end) {
            return move(c, end - from + 1, out);
        }
        if (!more(c)) {
            return false;
        }
    }
}

static bool read_head(struct api_conn *c, struct api_reply *r) {
    for (;;) {
        int64_t at = r->head.len;
        if (!move_line(c, &r->head)) {
            return false;
        }
        if (strcmp(r->head.data + at, "\r\n") == 0) {
            bool interim =
                sscanf(r->head.data, "HTTP/1.%*d %d", &r->status) == 1 && r->status == 100;
            if (!interim) {
                return r->status > 0;
            }
            buf_clear(&r->head);
        }
    }
}

static const char *field(const struct api_reply *r, const char *name) {
    for (const char *line = strstr(r->head.data, "\r\n"); line; line = strstr(line + 2, "\r\n")) {
        size_t n = strlen(name);
        if (strncasecmp(line + 2, name, n) == 0 && line[2 + n] == ':') {
            return line + 2 + n + 1;
        }
    }
    return NULL;
}

static bool read_chunks(struct api_conn *c, struct api_reply *r) {
    struct buf line;
    long n = 1;
    bool ok = true;
    buf_init(&line, MEM_TEST, 1 << 16);
    while (ok && n > 0) {
        buf_clear(&line);
        ok = move_line(c, &line);
        n = ok ? strtol(line.data, NULL, 16) : 0;
        ok = ok && (n == 0 || move(c, n, &r->body));
        buf_clear(&line);
        ok = ok && move_line(c, &line);
    }
    buf_fini(&line);
    return ok;
}

bool api_read(struct api_conn *c, struct api_reply *r) {
    *r = (struct api_reply){0};
    buf_init(&r->head, MEM_TEST, 1 << 16);
    buf_init(&r->body, MEM_TEST, API_REPLY_MAX);
    if (!read_head(c, r)) {
        return false;
    }
    const char *length = field(r, "Content-Length");
    if (c->bare) {
        r->whole = true;
    } else if (field(r, "Transfer-Encoding")) {
        r->whole = read_chunks(c, r);
    } else if (length) {
        r->whole = move(c, strtol(length, NULL, 10), &r->body);
    }
    return r->whole;
}

void api_reply_fini(struct api_reply *r) {
    buf_fini(&r->head);
    buf_fini(&r->body);
}

bool api_ends(struct api_conn *c, int32_t ms) {
    char chunk[1 << 16];
    struct pollfd p = {.fd = c->fd, .events = POLLIN};
    while (poll(&p, 1, ms) == 1) {
        if (recv(c->fd, chunk, sizeof chunk, 0) <= 0) {
            return true;
        }
    }
    return false;
}

int32_t
api_ask(int32_t port, const char *method, const char *path, const char *body, struct api_reply *r) {
    struct api_conn c;
    *r = (struct api_reply){0};
    if (!api_open(&c, port)) {
        return 0;
    }
    if (api_request(&c, method, path, "", body)) {
        api_read(&c, r);
    }
    api_close(&c);
    return r->status;
}
