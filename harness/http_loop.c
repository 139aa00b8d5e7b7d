/* One thread: epoll, libcurl's socket interface, two timers.
 *
 *   epoll -> wake_fd   inbox into the heap of what waits; cancels
 *         -> send_fd   absolute timer of the heap's first request
 *         -> curl_fd   libcurl's own timer
 *         -> a socket  curl_multi_socket_action -> callbacks of http_xfer.c -> ring
 *
 * 1. A request is sent at its intended time: the timer wakes SPIN_NS early and the loop looks
 *    without sleeping until then. What is due goes out before the next socket is read.
 * 2. An event's time is when the first byte of its read reached this machine, by the kernel's
 * stamp, which a busy client does not move; else when it was read.
 * 3. Every request that came out of the inbox gets one END.
 * src: libcurl 7.88, curl_multi_socket_action(3); kernel, Documentation/networking/timestamping */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/base/str.h"
#include "harness/http_int.h"

enum { EVENTS_MAX = 64, TICK_MS = 50, COMPARE_TRIES = 4, SHORT_READ = 600 };

static const int64_t SPIN_NS = 80000;
static const int64_t LOOK_NS = 100000000;   /* for silence and long requests */
static const int64_t COMPARE_NS = 10000000; /* the two clocks are compared so often */
static const int64_t COMPARE_SPAN_NS = 1000;
static const int64_t SHORT_NS = 100000;
static const int64_t FULL_NS = 100000; /* a full ring is looked at again after this */

void http_wake(struct http *h) {
    const uint64_t one = 1;
    ssize_t n = write(h->wake_fd, &one, sizeof one);
    (void)n; /* why: a counter that is full wakes as well */
}

void http_tell(struct http *h, const struct http_item *item) {
    while (!ring_push(&h->ring, item)) {
        if (atomic_load(&h->stop)) {
            mem_free(item->text);
            return; /* why: nobody polls any more */
        }
        clock_sleep_until(clock_now_ns() + FULL_NS);
    }
}

static int watch(struct http *h, int fd) {
    struct epoll_event ev = {.events = EPOLLIN, .data.u64 = (uint32_t)fd};
    return epoll_ctl(h->epoll_fd, EPOLL_CTL_ADD, fd, &ev);
}

static void arm(int fd, int64_t at_ns) {
    const struct itimerspec t = {
        .it_value = {.tv_sec = at_ns / 1000000000, .tv_nsec = at_ns % 1000000000}};
    (void)timerfd_settime(fd, TFD_TIMER_ABSTIME, &t, NULL);
}

static void drain(int fd) {
    uint64_t n = 0;
    ssize_t got = read(fd, &n, sizeof n);
    (void)got;
}

/* A run opens as many sockets as there are requests in flight. */
static void raise_file_limit(void) {
    struct rlimit r;
    if (getrlimit(RLIMIT_NOFILE, &r) == 0 && r.rlim_cur < r.rlim_max) {
        r.rlim_cur = r.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &r);
    }
}

int http_loop_init(struct http *h) {
    raise_file_limit();
    h->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    h->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    h->send_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    h->curl_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (h->epoll_fd < 0 || h->wake_fd < 0 || h->send_fd < 0 || h->curl_fd < 0 ||
        watch(h, h->wake_fd) || watch(h, h->send_fd) || watch(h, h->curl_fd)) {
        int code = errno;
        http_loop_fini(h);
        return err_set(ERR_IO, "the HTTP target cannot start: %s", strerror(code));
    }
    h->n_waiting = 0;
    h->n_active = 0;
    h->looked_ns = 0;
    h->compared_ns = 0;
    atomic_store(&h->busy_ns, 0);
    atomic_store(&h->lag_ns, 0);
    atomic_store(&h->cpu_ns, 0);
    int rc = http_shards_init(h);
    if (rc) {
        http_loop_fini(h);
    }
    return rc;
}

static void close_fd(int fd) {
    if (fd >= 0) {
        close(fd);
    }
}

void http_loop_fini(struct http *h) {
    for (int32_t i = 0; i < h->n_active; i++) {
        http_shard_remove(h->active[i]);
    }
    h->n_active = 0;
    h->n_waiting = 0;
    http_shards_fini(h);
    close_fd(h->epoll_fd);
    close_fd(h->wake_fd);
    close_fd(h->send_fd);
    close_fd(h->curl_fd);
}

/* The heap of what waits, by intended time, ties by tag. */
static bool before(const struct xfer *a, const struct xfer *b) {
    return a->intended_ns < b->intended_ns || (a->intended_ns == b->intended_ns && a->tag < b->tag);
}

static void place(struct http *h, int32_t i, struct xfer *x) {
    h->waiting[i] = x;
    x->at = i;
}

static void sift(struct http *h, int32_t i) {
    struct xfer *x = h->waiting[i];
    for (; i > 0 && before(x, h->waiting[(i - 1) / 2]); i = (i - 1) / 2) {
        place(h, i, h->waiting[(i - 1) / 2]);
    }
    for (int32_t c = 2 * i + 1; c < h->n_waiting; c = 2 * i + 1) {
        c += c + 1 < h->n_waiting && before(h->waiting[c + 1], h->waiting[c]) ? 1 : 0;
        if (!before(h->waiting[c], x)) {
            break;
        }
        place(h, i, h->waiting[c]);
        i = c;
    }
    place(h, i, x);
}

static void unwait(struct http *h, struct xfer *x) {
    int32_t i = x->at;
    struct xfer *last = h->waiting[--h->n_waiting];
    if (last != x) {
        place(h, i, last);
        sift(h, i);
    }
    x->at = -1;
}

static void end(struct xfer *x, enum target_end how) {
    struct http *h = x->h;
    const struct http_item item = {.ev = {.tag = x->tag,
                                          .t_ns = clock_now_ns(),
                                          .kind = TARGET_END,
                                          .end = (int32_t)how,
                                          .outcome = &x->outcome},
                                   .x = x};
    h->by_tag[x->tag] = NULL;
    http_tell(h, &item);
}

static void deactivate(struct xfer *x) {
    struct http *h = x->h;
    h->active[x->at] = h->active[--h->n_active];
    h->active[x->at]->at = x->at;
    x->at = -1;
    x->is_active = false;
}

/* Takes a request from libcurl: done, given up, or canceled. */
static void finish(struct xfer *x, CURLcode code, enum reply_class given_up) {
    http_shard_remove(x);
    deactivate(x);
    if (given_up != REPLY_OK) {
        reply_end(&x->reply, given_up, NULL);
    }
    http_finish(x, code);
    end(x, x->is_canceled ? TARGET_CANCELED : (x->outcome.error_class ? TARGET_FAILED : TARGET_OK));
}

static void begin(struct http *h, struct xfer *x) {
    unwait(h, x);
    x->at = h->n_active;
    x->is_active = true;
    h->active[h->n_active++] = x;
    x->wire.handed_ns = clock_now_ns();
    if (http_shard_add(h, x)) {
        finish(x, CURLE_OUT_OF_MEMORY, REPLY_NO_MEMORY);
    }
}

/* Sends what is due. */
static void send_due(struct http *h) {
    while (h->n_waiting > 0 && h->waiting[0]->intended_ns <= clock_now_ns()) {
        begin(h, h->waiting[0]);
    }
}

static void cancel_tag(struct http *h, uint64_t tag) {
    struct xfer *x = tag < TARGET_REQUESTS_MAX ? h->by_tag[tag] : NULL;
    if (!x) {
        return;
    }
    x->is_canceled = true;
    if (x->is_active) {
        finish(x, CURLE_OK, REPLY_TIMEOUT);
    } else {
        unwait(h, x);
        http_finish(x, CURLE_OK);
        end(x, TARGET_CANCELED);
    }
}

static void read_inbox(struct http *h) {
    struct xfer *in = NULL;
    uint64_t canceled[EVENTS_MAX];
    int32_t n = 0;
    do {
        pthread_mutex_lock(&h->lock);
        struct xfer *x = h->inbox;
        h->inbox = NULL;
        n = i32_min(h->n_canceled, EVENTS_MAX);
        h->n_canceled -= n;
        memcpy(canceled, h->canceled + h->n_canceled, (size_t)n * sizeof *canceled);
        pthread_mutex_unlock(&h->lock);
        while (x) { /* oldest first */
            struct xfer *next = x->next;
            x->next = in;
            in = x;
            x = next;
        }
        for (; in; in = in->next) {
            h->by_tag[in->tag] = in;
            place(h, h->n_waiting++, in);
            sift(h, in->at);
        }
        for (int32_t i = 0; i < n; i++) {
            cancel_tag(h, canceled[i]);
        }
    } while (n > 0);
}

static void read_done(struct http *h) {
    int left = 0;
    for (int32_t i = 0; i < h->n_shards; i++) {
        CURLM *multi = h->shard[i].multi;
        for (const CURLMsg *m = curl_multi_info_read(multi, &left); m;
             m = curl_multi_info_read(multi, &left)) {
            char *ctx = NULL;
            if (m->msg == CURLMSG_DONE) {
                CURLcode code = m->data.result;
                curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &ctx);
                finish((struct xfer *)(void *)ctx, code, REPLY_OK);
            }
        }
    }
}

static void keep_cpu_time(struct http *h) {
    struct timespec t;
    if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t) == 0) {
        atomic_store(&h->cpu_ns, (int64_t)t.tv_sec * 1000000000 + t.tv_nsec);
    }
}

/* Gives up what is silent or too long. */
static void look(struct http *h, int64_t now) {
    if (now - h->looked_ns < LOOK_NS) {
        return;
    }
    h->looked_ns = now;
    keep_cpu_time(h);
    for (int32_t i = h->n_active - 1; i >= 0; i--) {
        struct xfer *x = h->active[i];
        bool silent = x->heard_ns > 0 && now - x->heard_ns > h->stall_ns;
        if (silent || now - x->wire.handed_ns > h->timeout_ns) {
            finish(x, CURLE_OK, silent ? REPLY_STALLED : REPLY_TIMEOUT);
        }
    }
}

/* The kernel stamps by the wall clock: how far it is from ours. A reading that was interrupted is
 * of no use; then the one before stays. */
static void compare_clocks(struct http *h) {
    for (int32_t i = 0; i < COMPARE_TRIES; i++) {
        int64_t m0 = clock_now_ns();
        int64_t wall = clock_wall_ns();
        int64_t m1 = clock_now_ns();
        if (m1 - m0 < COMPARE_SPAN_NS || h->compared_ns == 0) {
            h->wall_minus_mono_ns = wall - m0 - (m1 - m0) / 2;
            h->compared_ns = m1;
        }
        if (m1 - m0 < COMPARE_SPAN_NS) {
            return;
        }
    }
}

/* When byte n of what waits at a socket reached the kernel, monotonic; 0: unknown. out: *waiting:
 * up to n; h->is_reset */
static int64_t kernel_ns(struct http *h, int fd, size_t n, ssize_t *waiting) {
    char bytes[HTTP_READ_MAX]; /* MSG_TRUNC: nothing is copied */
    union {
        char bytes[CMSG_SPACE(sizeof(struct timespec))];
        struct cmsghdr align;
    } control;
    struct iovec iov = {.iov_base = bytes, .iov_len = n};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.bytes,
                         .msg_controllen = sizeof control.bytes};
    *waiting = recvmsg(fd, &msg, MSG_PEEK | MSG_DONTWAIT | MSG_TRUNC);
    if (*waiting <= 0) {
        h->is_reset = *waiting < 0 && errno == ECONNRESET;
        return 0;
    }
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c; c = CMSG_NXTHDR(&msg, c)) {
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_TIMESTAMPNS) {
            struct timespec t;
            memcpy(&t, CMSG_DATA(c), sizeof t);
            return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec - h->wall_minus_mono_ns;
        }
    }
    return 0;
}

/* The stamps of what waits: one for the first event, one for those that came behind it. A short
 * read that just came is one event. */
static void read_stamps(struct http *h, int fd) {
    ssize_t n = 0;
    h->rx_last_ns = kernel_ns(h, fd, HTTP_READ_MAX, &n);
    h->rx_left = n;
    h->rx_ns = h->rx_last_ns;
    if (h->rx_ns > 0 && (n > SHORT_READ || clock_now_ns() - h->rx_ns > SHORT_NS)) {
        h->rx_ns = kernel_ns(h, fd, 1, &n);
    }
}

static void take_event(struct http *h, const struct epoll_event *e) {
    int fd = (int)(uint32_t)e->data.u64;
    if (fd == h->wake_fd) {
        drain(fd);
        read_inbox(h);
    } else if (fd == h->send_fd || fd == h->curl_fd) {
        drain(fd);
    } else {
        bool is_plain = (e->events & (EPOLLIN | EPOLLERR | EPOLLHUP)) == EPOLLIN;
        if (h->kernel_time && is_plain) {
            read_stamps(h, fd);
        }
        if (h->is_reset) {
            read_done(h); /* of others */
        }
        int what = (e->events & (EPOLLIN | EPOLLHUP) ? CURL_CSELECT_IN : 0) |
                   (e->events & EPOLLOUT ? CURL_CSELECT_OUT : 0) |
                   (e->events & EPOLLERR ? CURL_CSELECT_ERR : 0);
        http_shard_act(&h->shard[e->data.u64 >> 32], fd, what);
        h->rx_ns = 0;
        h->rx_last_ns = 0;
        if (h->is_reset) {
            read_done(h);
            h->is_reset = false;
        }
    }
}

/* How long to sleep. out: 0 when something is due within SPIN_NS */
static int nap_ms(struct http *h) {
    int64_t curl_due = http_shards_due(h);
    if (curl_due <= clock_now_ns()) {
        return 0;
    }
    if (curl_due != INT64_MAX && curl_due != h->armed_ns) {
        arm(h->curl_fd, curl_due);
        h->armed_ns = curl_due;
    }
    if (h->n_waiting > 0) {
        int64_t due = h->waiting[0]->intended_ns;
        if (due - clock_now_ns() <= SPIN_NS) {
            return 0;
        }
        arm(h->send_fd, due - SPIN_NS);
    }
    return TICK_MS;
}

static void one_round(struct http *h) {
    struct epoll_event ev[EVENTS_MAX];
    int n = epoll_wait(h->epoll_fd, ev, EVENTS_MAX, nap_ms(h));
    int64_t t0 = clock_now_ns();
    if (h->kernel_time && (h->compared_ns == 0 || t0 - h->compared_ns > COMPARE_NS)) {
        compare_clocks(h);
    }
    for (int i = 0; i < n; i++) {
        take_event(h, &ev[i]);
        send_due(h);
    }
    send_due(h);
    http_shards_act_due(h, clock_now_ns());
    read_done(h);
    int64_t t1 = clock_now_ns();
    look(h, t1);
    if (n > 0) {
        atomic_fetch_add(&h->busy_ns, t1 - t0);
        atomic_store(&h->lag_ns, i64_max(atomic_load(&h->lag_ns), t1 - t0));
    }
}

void *http_loop_run(void *arg) {
    struct http *h = arg;
    while (!atomic_load(&h->stop)) {
        one_round(h);
    }
    keep_cpu_time(h);
    return NULL;
}
