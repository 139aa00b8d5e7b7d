/* Connections in shares of SHARD_CONNS, each with a handle of libcurl of its own.
 *
 *   pick   the first share with an idle connection; else the first that is not full; else a new
 * one; else the emptiest
 *
 * 1. One user alone stays in the first share and keeps its connection.
 * 2. A target with HTTP/2, where requests share connections, or with a limit on them, has one
 * share.
 * 3. libcurl's timer of a share is due_ns here; the loop has one descriptor for the earliest. */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/base/str.h"
#include "harness/http_int.h"

enum { SHARD_CONNS = 256, CONNECTS_MAX = 1 << 16 };

/* libcurl: watch this socket for that. */
static int on_socket(CURL *easy, curl_socket_t fd, int what, void *ctx, void *known) {
    static const uint32_t wants[] = {[CURL_POLL_IN] = EPOLLIN,
                                     [CURL_POLL_OUT] = EPOLLOUT,
                                     [CURL_POLL_INOUT] = EPOLLIN | EPOLLOUT};
    struct http_shard *s = ctx;
    (void)easy;
    if (what == CURL_POLL_REMOVE) {
        (void)epoll_ctl(s->h->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
        return 0;
    }
    uint64_t index = (uint64_t)(s - s->h->shard);
    struct epoll_event ev = {.events = wants[what & CURL_POLL_INOUT],
                             .data.u64 = index << 32 | (uint32_t)fd};
    (void)epoll_ctl(s->h->epoll_fd, known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &ev);
    if (!known) {
        curl_multi_assign(s->multi, fd, s);
    }
    return 0;
}

static int on_timer(CURLM *multi, long ms, void *ctx) {
    struct http_shard *s = ctx;
    (void)multi;
    s->due_ns = ms < 0 ? INT64_MAX : clock_now_ns() + ms * 1000000;
    return 0;
}

static curl_socket_t on_open(void *ctx, curlsocktype kind, struct curl_sockaddr *a) {
    struct http_shard *s = ctx;
    const int on = 1;
    (void)kind;
    int fd = socket(a->family, a->socktype | SOCK_CLOEXEC, a->protocol);
    if (fd < 0) {
        return CURL_SOCKET_BAD;
    }
    if (s->h->kernel_time) {
        (void)setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on);
    }
    s->n_conns++;
    return fd;
}

static int on_close(void *ctx, curl_socket_t fd) {
    struct http_shard *s = ctx;
    s->n_conns--;
    return close(fd);
}

static int open_shard(struct http *h) {
    struct http_shard *s = &h->shard[h->n_shards];
    *s = (struct http_shard){.h = h, .due_ns = INT64_MAX, .multi = curl_multi_init()};
    if (!s->multi) {
        return err_set(ERR_NOMEM, "libcurl cannot make a handle");
    }
    curl_multi_setopt(s->multi, CURLMOPT_SOCKETFUNCTION, on_socket);
    curl_multi_setopt(s->multi, CURLMOPT_SOCKETDATA, s);
    curl_multi_setopt(s->multi, CURLMOPT_TIMERFUNCTION, on_timer);
    curl_multi_setopt(s->multi, CURLMOPT_TIMERDATA, s);
    curl_multi_setopt(s->multi, CURLMOPT_MAXCONNECTS, (long)CONNECTS_MAX);
    if (h->o.s->connections > 0) {
        curl_multi_setopt(s->multi, CURLMOPT_MAX_TOTAL_CONNECTIONS, (long)h->o.s->connections);
    }
    h->n_shards++;
    return 0;
}

int http_shards_init(struct http *h) {
    h->n_shards = 0;
    h->armed_ns = 0;
    return open_shard(h);
}

void http_shards_fini(struct http *h) {
    for (int32_t i = 0; i < h->n_shards; i++) {
        curl_multi_cleanup(h->shard[i].multi);
    }
    h->n_shards = 0;
}

static bool may_split(const struct http *h) {
    const struct scenario_http *s = h->o.s;
    bool is_one = s->version ? str_eq(s->version, "2") : str_starts(s->urls[0], "https://");
    return !is_one && s->connections == 0 && h->n_shards < HTTP_SHARDS;
}

static struct http_shard *pick(struct http *h) {
    struct http_shard *open = NULL;
    struct http_shard *least = &h->shard[0];
    for (int32_t i = 0; i < h->n_shards; i++) {
        struct http_shard *s = &h->shard[i];
        if (s->n_active < s->n_conns) {
            return s;
        }
        open = !open && s->n_active < SHARD_CONNS ? s : open;
        least = s->n_active < least->n_active ? s : least;
    }
    if (!open && may_split(h)) {
        if (open_shard(h) == 0) {
            return &h->shard[h->n_shards - 1];
        }
        err_clear(); /* why: the others serve as well, only slower */
    }
    return open ? open : least;
}

int http_shard_add(struct http *h, struct xfer *x) {
    struct http_shard *s = pick(h);
    x->shard = s;
    s->n_active++;
    curl_easy_setopt(x->easy, CURLOPT_OPENSOCKETFUNCTION, on_open);
    curl_easy_setopt(x->easy, CURLOPT_OPENSOCKETDATA, s);
    curl_easy_setopt(x->easy, CURLOPT_CLOSESOCKETFUNCTION, on_close);
    curl_easy_setopt(x->easy, CURLOPT_CLOSESOCKETDATA, s);
    if (curl_multi_add_handle(s->multi, x->easy) != CURLM_OK) {
        return err_set(ERR_NOMEM, "libcurl cannot start a transfer");
    }
    http_shard_act(s, CURL_SOCKET_TIMEOUT, 0);
    return 0;
}

void http_shard_remove(struct xfer *x) {
    curl_multi_remove_handle(x->shard->multi, x->easy);
    x->shard->n_active--;
}

void http_shard_act(struct http_shard *s, curl_socket_t fd, int what) {
    int running = 0;
    if (fd == CURL_SOCKET_TIMEOUT) {
        s->due_ns = INT64_MAX; /* libcurl says anew when it wants to be called */
    }
    (void)curl_multi_socket_action(s->multi, fd, what, &running);
}

int64_t http_shards_due(const struct http *h) {
    int64_t due = INT64_MAX;
    for (int32_t i = 0; i < h->n_shards; i++) {
        due = i64_min(due, h->shard[i].due_ns);
    }
    return due;
}

void http_shards_act_due(struct http *h, int64_t now) {
    for (int32_t i = 0; i < h->n_shards; i++) {
        if (h->shard[i].due_ns <= now) {
            http_shard_act(&h->shard[i], CURL_SOCKET_TIMEOUT, 0);
        }
    }
}
