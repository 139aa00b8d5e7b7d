/* One thread, one epoll, one heap of what is to be written next.
 *
 *   connection: READ (until the request is whole) -> TELL (by the schedule, or a case of the
 *   corpus) -> READ again, or closed
 *
 * 1. Times are planned from the moment the request was whole: first + k * itl, absolute.
 * 2. An event's time is the clock just before its send; one event is one send.
 * 3. A peer that does not read is let wait: what a send did not take is sent later, and the times
 * of later events move; nothing is dropped.
 * 4. What a peer sends is read within limits; anything else closes its connection.
 * src: RFC 9112 (message framing, chunked) */
#include "harness/truth.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/base/str.h"
#include "harness/corpus.h"
#include "harness/truth_int.h"

enum {
    CONNS_MAX = 1 << 16,
    EVENTS_MAX = 128,
    READ_MAX = 1 << 16,
    REQUEST_MAX = 1 << 26, /* bytes of one request */
    OUT_MAX = 1 << 26,
    BACKLOG = 4096
};

static const int64_t SPIN_NS = 60000;

static void place(struct truth *t, int32_t i, struct truth_conn *c) {
    t->heap[i] = c;
    c->at = i;
}

static void sift(struct truth *t, int32_t i) {
    struct truth_conn *c = t->heap[i];
    for (; i > 0 && c->next_ns < t->heap[(i - 1) / 2]->next_ns; i = (i - 1) / 2) {
        place(t, i, t->heap[(i - 1) / 2]);
    }
    for (int32_t k = 2 * i + 1; k < t->n_heap; k = 2 * i + 1) {
        k += k + 1 < t->n_heap && t->heap[k + 1]->next_ns < t->heap[k]->next_ns ? 1 : 0;
        if (t->heap[k]->next_ns >= c->next_ns) {
            break;
        }
        place(t, i, t->heap[k]);
        i = k;
    }
    place(t, i, c);
}

static void unplan(struct truth *t, struct truth_conn *c) {
    if (c->at < 0) {
        return;
    }
    int32_t i = c->at;
    struct truth_conn *last = t->heap[--t->n_heap];
    c->at = -1;
    if (last != c) {
        place(t, i, last);
        sift(t, i);
    }
}

static void plan(struct truth *t, struct truth_conn *c, int64_t at_ns) {
    c->next_ns = at_ns;
    if (c->at < 0) {
        place(t, t->n_heap++, c);
    }
    sift(t, c->at);
}

static void drop(struct truth *t, struct truth_conn *c) {
    unplan(t, c);
    t->conns[c->fd] = NULL;
    close(c->fd);
    buf_fini(&c->in);
    buf_fini(&c->out);
    mem_free(c);
}

static void reset(struct truth *t, struct truth_conn *c) {
    const struct linger now = {.l_onoff = 1};
    (void)setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    drop(t, c);
}

static void watch(struct truth *t, struct truth_conn *c, bool out) {
    struct epoll_event ev = {.events = EPOLLIN | (out ? (uint32_t)EPOLLOUT : 0U), .data.fd = c->fd};
    c->watches_out = out;
    (void)epoll_ctl(t->epoll_fd, EPOLL_CTL_MOD, c->fd, &ev);
}

/* Sends, or keeps what does not go. out: false when the peer is gone */
static bool put(struct truth *t, struct truth_conn *c, const char *data, int64_t n) {
    ssize_t done = 0;
    if (c->out.len == 0) {
        done = send(c->fd, data, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (done < 0 && errno != EAGAIN) {
            return false;
        }
        done = done < 0 ? 0 : done;
    }
    if (done < n) {
        if (buf_add(&c->out, data + done, n - done)) {
            return false;
        }
        watch(t, c, true);
    }
    return true;
}

static bool flush(struct truth *t, struct truth_conn *c) {
    ssize_t n = send(c->fd, buf_cstr(&c->out), (size_t)c->out.len, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0) {
        return errno == EAGAIN;
    }
    memmove(c->out.data, c->out.data + n, (size_t)(c->out.len - n + 1));
    c->out.len -= n;
    if (c->out.len == 0) {
        watch(t, c, false);
    }
    return true;
}

static struct truth_record *record_of(struct truth *t, const struct truth_conn *c) {
    return c->record >= 0 ? &t->records[c->record] : NULL;
}

/* A new record; -1 when there is no room for one. */
static int32_t add_record(struct truth *t, int64_t number, int64_t now) {
    if (t->n_records == t->cap_records) {
        int32_t cap = i32_max(1024, t->cap_records * 2);
        struct truth_record *p = cap > TRUTH_REQUESTS_MAX ? NULL
                                                          : mem_realloc(MEM_HARNESS, t->records,
                                                                        cap * (int64_t)sizeof *p);
        if (!p) {
            return -1;
        }
        t->records = p;
        t->cap_records = cap;
    }
    t->records[t->n_records] = (struct truth_record){.number = number,
                                                     .recv_ns = now,
                                                     .first_ns = -1,
                                                     .last_ns = -1,
                                                     .end_ns = -1,
                                                     .time_at = -1};
    return t->n_records++;
}

/* Room for the times of n events in a row; -1: none. */
static int64_t reserve_times(struct truth *t, int32_t n) {
    if (!t->o.keep_times || t->n_times + n > TRUTH_TIMES_MAX) {
        return -1;
    }
    if (t->n_times + n > t->cap_times) {
        int64_t cap = i64_max(t->n_times + n, i64_max(1 << 16, t->cap_times * 2));
        int64_t *p = mem_realloc(MEM_HARNESS, t->times, cap * (int64_t)sizeof *p);
        if (!p) {
            return -1;
        }
        t->times = p;
        t->cap_times = cap;
    }
    t->n_times += n;
    return t->n_times - n;
}

/* The answer is told; the connection waits for the next request, or ends. */
static void over(struct truth *t, struct truth_conn *c) {
    struct truth_record *r = record_of(t, c);
    if (r) {
        r->end_ns = clock_now_ns();
    }
    unplan(t, c);
    c->step = STEP_READ;
    if (c->end == CORPUS_STALL) {
        return;
    }
    if (c->end == CORPUS_RST) {
        reset(t, c);
    } else if (c->end != CORPUS_CLEAN) {
        drop(t, c);
    }
}

/* Writes what is due now and plans the next. */
static void tell(struct truth *t, struct truth_conn *c) {
    struct truth_record *r = record_of(t, c);
    int32_t per = t->o.per_event > 0 ? t->o.per_event : 1;
    int32_t n = 0;
    int rc = 0;
    buf_clear(&t->frame);
    if (c->step == STEP_ROLE) {
        rc = truth_role(t, c);
        c->step = STEP_TOKEN;
    } else if (!c->stream) {
        rc = truth_whole(t, c);
        n = c->n_tokens;
    } else {
        n = i32_min(per, c->n_tokens - c->n_told);
        rc = n > 0 ? truth_token(t, c, n) : 0;
    }
    c->n_told += n;
    bool is_last = c->step == STEP_TOKEN && c->n_told == c->n_tokens && n > 0;
    rc = rc || !is_last || !c->stream ? rc : truth_end(t, c);
    int64_t now = clock_now_ns();
    if (r && n > 0) {
        r->first_ns = r->first_ns < 0 ? now : r->first_ns;
        r->last_ns = now;
        r->n_tokens += n;
        if (r->time_at >= 0) {
            t->times[r->time_at + r->n_events] = now;
        }
        r->n_events++;
    }
    if (rc || !put(t, c, buf_cstr(&t->frame), t->frame.len)) {
        drop(t, c);
    } else if (is_last) {
        over(t, c);
    } else {
        plan(t, c, c->first_ns + (int64_t)(c->n_told / per) * t->o.itl_ns);
    }
}

static const char *reason(int32_t status) {
    return status == 200 ? "OK" : (status < 400 ? "Other" : "Error");
}

/* A case of the corpus, all at once. */
static void tell_case(struct truth *t, struct truth_conn *c, int32_t which) {
    struct corpus_case k;
    if (corpus_make(which, &k)) {
        drop(t, c);
        return;
    }
    c->end = k.end;
    buf_clear(&t->frame);
    int rc = 0;
    if (k.status > 0) {
        rc = buf_fmt(&t->frame, "HTTP/1.1 %d %s\r\n%s", k.status, reason(k.status), k.head);
        rc = rc || !k.type[0] ? rc : buf_fmt(&t->frame, "Content-Type: %s\r\n", k.type);
        bool is_short = k.end == CORPUS_FIN || k.end == CORPUS_RST || k.end == CORPUS_STALL;
        bool has_body = k.status != 204;
        if (!rc && has_body) {
            rc = buf_fmt(&t->frame, "Content-Length: %lld\r\n",
                         (long long)(k.body.len + (is_short ? 64 : 0)));
        }
        rc = rc ? rc : buf_str(&t->frame, "\r\n");
        rc = rc || !has_body ? rc : buf_add(&t->frame, buf_cstr(&k.body), k.body.len);
    }
    corpus_fini(&k);
    if (rc || !put(t, c, buf_cstr(&t->frame), t->frame.len)) {
        drop(t, c);
    } else {
        over(t, c);
    }
}

static void tell_echo(struct truth *t, struct truth_conn *c, const char *v) {
    int n = v ? (int)i64_min((int64_t)strcspn(v, "\r\n\"\\"), CORPUS_NAME_MAX) : 0;
    buf_clear(&t->frame);
    int rc = buf_fmt(&t->frame,
                     "HTTP/1.1 401 Unauthorized\r\nContent-Type: application/json\r\n"
                     "Content-Length: %d\r\n\r\n{\"error\":\"%.*s\"}",
                     n + 12, n, v ? v : "");
    if (rc || !put(t, c, buf_cstr(&t->frame), t->frame.len)) {
        drop(t, c);
    } else {
        over(t, c);
    }
}

static void
answer(struct truth *t, struct truth_conn *c, const char *head, int64_t n_head, int64_t n) {
    static const char mark[] = "trilemma-";
    char name[CORPUS_NAME_MAX];
    int64_t now = clock_now_ns();
    const char *id = truth_field(head, head + n_head, "X-Request-Id");
    bool is_ours = id && strncmp(id, mark, sizeof mark - 1) == 0;
    truth_ask(t, c, head, n_head, n, name);
    c->record = add_record(t, is_ours ? truth_number(id + sizeof mark - 1) : INT64_MIN, now);
    c->end = CORPUS_CLEAN;
    c->n_told = 0;
    int32_t which = name[0] ? corpus_find(name) : -1;
    if (which >= 0) {
        tell_case(t, c, which);
        return;
    }
    if (str_eq(name, "echo")) {
        tell_echo(t, c, truth_field(head, head + n_head, "Authorization"));
        return;
    }
    struct truth_record *r = record_of(t, c);
    if (r && c->stream) {
        int32_t per = t->o.per_event > 0 ? t->o.per_event : 1;
        r->time_at = reserve_times(t, (int32_t)i64_div_up(c->n_tokens, per));
    }
    c->first_ns = now + t->o.ttft_ns;
    c->step = c->stream ? STEP_ROLE : STEP_TOKEN;
    if (!c->stream) {
        c->first_ns += (int64_t)(c->n_tokens - 1) * t->o.itl_ns;
    }
    plan(t, c, c->stream && !t->o.role_late ? now : c->first_ns);
    if (c->next_ns <= now) {
        tell(t, c);
    }
}

/* Looks whether the request is whole. out: false when it is none */
static bool take_request(struct truth *t, struct truth_conn *c) {
    const char *head = buf_cstr(&c->in);
    const char *end = strstr(head, "\r\n\r\n");
    if (c->in.len >= 5 && strncmp(head, "POST ", 5) != 0) {
        return false;
    }
    if (!end) {
        return c->in.len < READ_MAX;
    }
    int64_t n_head = end + 4 - head;
    int64_t n_body = i64_max(0, truth_number(truth_field(head, end, "Content-Length")));
    if (n_body > REQUEST_MAX - n_head) {
        return false;
    }
    if (c->in.len < n_head + n_body) {
        return true;
    }
    int fd = c->fd;
    answer(t, c, head, n_head, n_body);
    if (t->conns[fd] == c) {
        buf_clear(&c->in); /* one request at a time, nothing is sent ahead */
    }
    return true;
}

static void on_conn(struct truth *t, struct truth_conn *c, uint32_t events) {
    if (events & EPOLLOUT && !flush(t, c)) {
        drop(t, c);
        return;
    }
    if (!(events & (EPOLLIN | EPOLLHUP | EPOLLERR))) {
        return;
    }
    ssize_t n = recv(c->fd, t->read_buf, READ_MAX, MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN) {
        return;
    }
    bool ok = n > 0 && c->step == STEP_READ && buf_add(&c->in, t->read_buf, n) == 0;
    if (!ok || !take_request(t, c)) {
        drop(t, c);
    }
}

static void on_accept(struct truth *t) {
    const int on = 1;
    for (;;) {
        int fd = accept4(t->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) {
            return;
        }
        struct truth_conn *c = fd < CONNS_MAX ? mem_calloc(MEM_HARNESS, (int64_t)sizeof *c) : NULL;
        struct epoll_event ev = {.events = EPOLLIN, .data.fd = fd};
        if (!c || epoll_ctl(t->epoll_fd, EPOLL_CTL_ADD, fd, &ev)) {
            mem_free(c);
            close(fd);
            continue;
        }
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        c->fd = fd;
        c->at = -1;
        c->record = -1;
        buf_init(&c->in, MEM_HARNESS, REQUEST_MAX);
        buf_init(&c->out, MEM_HARNESS, OUT_MAX);
        t->conns[fd] = c;
    }
}

static void tell_due(struct truth *t) {
    while (t->n_heap > 0 && t->heap[0]->next_ns <= clock_now_ns()) {
        tell(t, t->heap[0]);
    }
}

static int nap_ms(const struct truth *t) {
    if (t->n_heap == 0) {
        return 1000;
    }
    int64_t due = t->heap[0]->next_ns;
    if (due - clock_now_ns() <= SPIN_NS) {
        return 0;
    }
    const struct itimerspec at = {.it_value = {.tv_sec = (due - SPIN_NS) / 1000000000,
                                               .tv_nsec = (due - SPIN_NS) % 1000000000}};
    (void)timerfd_settime(t->timer_fd, TFD_TIMER_ABSTIME, &at, NULL);
    return 1000;
}

static void *serve(void *arg) {
    struct truth *t = arg;
    struct epoll_event ev[EVENTS_MAX];
    while (!atomic_load(&t->stop)) {
        int n = epoll_wait(t->epoll_fd, ev, EVENTS_MAX, nap_ms(t));
        for (int i = 0; i < n; i++) {
            int fd = ev[i].data.fd;
            if (fd == t->listen_fd) {
                on_accept(t);
            } else if (fd == t->timer_fd || fd == t->wake_fd) {
                uint64_t count = 0;
                ssize_t got = read(fd, &count, sizeof count);
                (void)got;
            } else if (fd < CONNS_MAX && t->conns[fd]) {
                on_conn(t, t->conns[fd], ev[i].events);
            }
            tell_due(t);
        }
        tell_due(t);
    }
    return NULL;
}

static int listen_on(struct truth *t) {
    const int on = 1;
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons((uint16_t)t->o.port),
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof a;
    t->listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (t->listen_fd < 0 ||
        setsockopt(t->listen_fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        bind(t->listen_fd, (const struct sockaddr *)(const void *)&a, sizeof a) != 0 ||
        listen(t->listen_fd, BACKLOG) != 0 ||
        getsockname(t->listen_fd, (struct sockaddr *)(void *)&a, &n) != 0) {
        return err_set(ERR_NET, "port %d of 127.0.0.1: %s", t->o.port, strerror(errno));
    }
    t->port = ntohs(a.sin_port);
    snprintf(t->url, sizeof t->url, "http://127.0.0.1:%d", t->port);
    return 0;
}

static int make(struct truth *t) {
    buf_init(&t->frame, MEM_HARNESS, OUT_MAX);
    t->conns = mem_array(MEM_HARNESS, CONNS_MAX, (int64_t)sizeof(struct truth_conn *));
    t->heap = mem_array(MEM_HARNESS, CONNS_MAX, (int64_t)sizeof(struct truth_conn *));
    t->read_buf = mem_calloc(MEM_HARNESS, READ_MAX);
    if (!t->conns || !t->heap || !t->read_buf) {
        return ERR_NOMEM;
    }
    t->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    t->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    t->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    int rc = listen_on(t);
    const int fds[] = {t->listen_fd, t->wake_fd, t->timer_fd};
    for (int32_t i = 0; i < ARRAY_LEN(fds) && !rc; i++) {
        struct epoll_event ev = {.events = EPOLLIN, .data.fd = fds[i]};
        if (epoll_ctl(t->epoll_fd, EPOLL_CTL_ADD, fds[i], &ev)) {
            rc = err_set(ERR_IO, "the truth server cannot start: %s", strerror(errno));
        }
    }
    if (!rc && pthread_create(&t->thread, NULL, serve, t) != 0) {
        rc = err_set(ERR_IO, "cannot start the thread of the truth server");
    }
    t->is_running = rc == 0;
    return rc;
}

int truth_open(const struct truth_opts *o, struct truth **out) {
    struct truth *t = mem_calloc(MEM_HARNESS, (int64_t)sizeof *t);
    if (!t) {
        return ERR_NOMEM;
    }
    t->o = *o;
    t->listen_fd = t->epoll_fd = t->wake_fd = t->timer_fd = -1;
    int rc = make(t);
    if (rc) {
        truth_close(t);
        return rc;
    }
    *out = t;
    return 0;
}

const char *truth_url(const struct truth *t) {
    return t->url;
}

int32_t truth_port(const struct truth *t) {
    return t->port;
}

void truth_stop(struct truth *t) {
    const uint64_t one = 1;
    if (t->is_running) {
        atomic_store(&t->stop, true);
        ssize_t n = write(t->wake_fd, &one, sizeof one);
        (void)n;
        pthread_join(t->thread, NULL);
        t->is_running = false;
    }
    for (int32_t i = 0; t->conns && i < CONNS_MAX; i++) {
        if (t->conns[i]) {
            drop(t, t->conns[i]);
        }
    }
    int *const fds[] = {&t->listen_fd, &t->epoll_fd, &t->wake_fd, &t->timer_fd};
    for (int32_t i = 0; i < ARRAY_LEN(fds); i++) {
        if (*fds[i] >= 0) {
            close(*fds[i]);
            *fds[i] = -1;
        }
    }
}

void truth_close(struct truth *t) {
    if (!t) {
        return;
    }
    truth_stop(t);
    buf_fini(&t->frame);
    mem_free(t->conns);
    mem_free(t->heap);
    mem_free(t->read_buf);
    mem_free(t->records);
    mem_free(t->times);
    mem_free(t);
}

const struct truth_record *truth_records(const struct truth *t, int32_t *n) {
    *n = t->n_records;
    return t->records;
}

const int64_t *truth_times(const struct truth *t) {
    return t->times;
}

const struct truth_record *truth_find(const struct truth *t, int64_t number) {
    for (int32_t i = 0; i < t->n_records; i++) {
        if (t->records[i].number == number) {
            return &t->records[i];
        }
    }
    return NULL;
}
