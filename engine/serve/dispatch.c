/* The loop: sleep on epoll; take new calls, lost connections and events; write once to each call
 * that got something; look after time-outs.
 *
 * Laws:
 *  1. This thread alone polls the engine, submits and aborts, and owns choices and their ids. No
 * lock is held across a call into the engine.
 *  2. Everything of one poll goes to a connection in one piece: a step is one write.
 *  3. Nobody is waited for. A client that does not read fills its own backlog and is cut.
 *  4. A call leaves when the engine has ended every choice of it, so that nothing refers to freed
 *     memory; a client that is gone makes that happen within a step.
 *  5. A lost client is one whose side of the connection is closed (EPOLLRDHUP), also while its
 *     connection sleeps, when the HTTP library does not look. */
#include "engine/serve/dispatch.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/base/log.h"
#include "engine/serve/idmap.h"
#include "engine/serve/pump.h"

enum { EVENTS_AT_ONCE = 1024, READY_AT_ONCE = 64, TICK_MS = 100 };

struct dispatch {
    struct dispatch_opts o;
    struct pump pump;
    int epoll_fd;
    int wake_fd;
    pthread_t thread;
    bool running;
    pthread_mutex_t lock;
    struct call *inbox; /* under lock, newest first */
    int32_t n_flight;   /* under lock */
    bool closed;        /* under lock */
    _Atomic int64_t n_gone;
    _Atomic bool abort_all;

    /* The thread's own. */
    struct call **active; /* own list, [calls_max] references taken */
    int32_t n_active;
    struct idmap ids; /* engine's id -> struct choice */
    struct call *touched;
    int64_t n_gone_seen;
    bool aborts_wait; /* an abort found the engine's queue full */
    int64_t swept_ns;
    int32_t n_ahead;      /* tokens that the engine may be ahead */
    struct event *events; /* own, [EVENTS_AT_ONCE] */
};

static void wake_up(struct dispatch *d) {
    uint64_t one = 1;
    ssize_t n = write(d->wake_fd, &one, sizeof one);
    (void)n; /* why: it fails only when the counter is full, and then the reader is awake */
}

static void touch(struct dispatch *d, struct call *c) {
    if (!c->touched) {
        c->touched = true;
        c->next = d->touched;
        d->touched = c;
    }
}

static void abort_choice(struct dispatch *d, struct choice *h) {
    h->abort = engine_abort(d->o.engine, h->id) != 0;
    d->aborts_wait = d->aborts_wait || h->abort;
    pump_kick(&d->pump);
}

static void abort_choices(struct dispatch *d, struct call *c) {
    for (int32_t i = 0; i < c->n_choice; i++) {
        if (c->choice[i].id && !c->choice[i].ended) {
            abort_choice(d, &c->choice[i]);
        }
    }
}

/* Cuts the connection: nothing can or need be said. */
static void drop(struct dispatch *d, struct call *c, const char *why) {
    if (!c->failed) {
        c->failed = true;
        call_break(c, why);
        conns_cut(d->o.conns, c->conn_name);
        abort_choices(d, c);
    }
}

/* Tells the client what went wrong: by status, or in a stream that has begun by an event. */
static void fail(struct dispatch *d, struct call *c, const struct apierr *e) {
    struct buf b;
    if (c->failed) {
        return;
    }
    buf_init(&b, MEM_SERVE, CALL_ANSWER_MAX);
    int rc = c->stream ? apiout_stream_error(e, &c->pending) : apierr_format(e, &b);
    if (rc) {
        buf_fini(&b);
        drop(d, c, "no memory for the error");
        return;
    }
    c->failed = true;
    call_note(c, "error");
    if (c->stream) {
        touch(d, c);
    } else {
        call_answer(c, e->status, &b);
    }
    abort_choices(d, c);
}

static void fail_rc(struct dispatch *d, struct call *c, int rc) {
    struct apierr e = {0};
    apierr_from(&e, rc, NULL);
    fail(d, c, &e);
}

/* What the choice's next chunk says of its usage. */
static void set_now(struct call *c, const struct choice *h) {
    c->head.now =
        (struct apiout_usage){.n_prompt = c->req.prompt[h->index / c->req.n].n, .n_new = h->n_tok};
}

/* What a choice has ready goes to the stream. */
static int emit(struct dispatch *d, struct call *c, struct choice *h) {
    int rc = 0;
    if (!c->req.stream || c->failed) {
        return 0;
    }
    set_now(c, h);
    if (h->n_ready > h->n_sent || (h->reason && !h->told && h->lp.n > 0)) {
        rc = apiout_delta(&c->head, h->index, buf_cstr(&h->text) + h->n_sent,
                          h->n_ready - h->n_sent, &h->lp, &c->pending);
        h->n_sent = h->n_ready;
        touch(d, c);
    }
    if (h->reason && !h->told && !rc) {
        h->told = true;
        rc = apiout_finish(&c->head, h->index, h->reason, &c->pending);
        touch(d, c);
    }
    return rc;
}

static struct apiout_usage usage_of(const struct call *c) {
    struct apiout_usage u = {0};
    for (int32_t i = 0; i < c->n_choice; i++) {
        u.n_prompt += i % c->req.n == 0 ? c->req.prompt[i / c->req.n].n : 0;
        u.n_cached += i % c->req.n == 0 ? c->choice[i].n_cached : 0;
        u.n_new += c->choice[i].n_tok;
    }
    return u;
}

static int end_stream(struct dispatch *d, struct call *c) {
    struct apiout_usage u = usage_of(c);
    int rc = c->req.usage ? apiout_stream_usage(&c->head, &u, &c->pending) : 0;
    touch(d, c);
    return rc ? rc : apiout_done(&c->pending);
}

static int answer_whole(struct call *c) {
    struct apiout_usage u = usage_of(c);
    struct buf b;
    buf_init(&b, MEM_SERVE, CALL_ANSWER_MAX);
    int rc = apiout_begin(&c->head, &b);
    for (int32_t i = 0; i < c->n_choice && !rc; i++) {
        struct choice *h = &c->choice[i];
        rc = apiout_choice(&c->head, i, buf_cstr(&h->text), h->text.len, &h->lp, h->reason, &b);
    }
    rc = rc ? rc : apiout_end(&u, &b);
    if (!rc) {
        call_answer(c, MHD_HTTP_OK, &b);
    }
    buf_fini(&b);
    return rc;
}

/* Every choice is over: the rest of the answer. The call leaves at the next flush. */
static void complete(struct dispatch *d, struct call *c) {
    if (!c->failed) {
        int rc = c->req.stream ? end_stream(d, c) : answer_whole(c);
        if (rc) {
            fail_rc(d, c, rc);
        }
    }
    touch(d, c);
}

static void count_end(struct dispatch *d, const struct call *c, const struct choice *h) {
    struct metrics *m = d->o.metrics;
    bool good = h->reason != NULL && !c->failed;
    enum metrics_finish f = !good                       ? METRICS_ABORT
                            : strcmp(h->reason, "stop") ? METRICS_LENGTH
                                                        : METRICS_STOP;
    f = h->finish == FINISH_ERROR ? METRICS_ERROR : f;
    metrics_finish(m, f, c->req.prompt[h->index / c->req.n].n, h->n_tok);
    if (good && h->last_ns) {
        metrics_time(m, METRICS_E2E, h->last_ns - c->start_ns);
    }
    if (h->first_run_ns >= 0) {
        metrics_time(m, METRICS_QUEUE, h->first_run_ns - c->start_ns);
    }
}

static void take_end(struct dispatch *d, struct call *c, struct choice *h, const struct event *ev) {
    int rc = choice_end(h, ev);
    idmap_remove(&d->ids, ev->id);
    count_end(d, c, h);
    c->n_live--;
    if (!rc && !h->reason) {
        struct apierr e = {0};
        apierr_set(&e, ev->finish == FINISH_ERROR ? 500 : 503, NULL,
                   ev->finish == FINISH_ERROR ? "the engine could not go on with this request"
                                              : "the request was ended by the server");
        fail(d, c, &e);
    }
    rc = rc ? rc : emit(d, c, h);
    if (rc) {
        fail_rc(d, c, rc);
    }
    if (c->n_live == 0) {
        complete(d, c);
    }
}

static void
take_token(struct dispatch *d, struct call *c, struct choice *h, const struct event *ev) {
    int64_t before_ns = h->last_ns;
    int32_t n_tok = h->n_tok;
    if (c->failed) {
        return;
    }
    int rc = choice_token(h, ev);
    if (h->n_tok > n_tok) {
        metrics_time(d->o.metrics, n_tok ? METRICS_ITL : METRICS_TTFT,
                     ev->t_ns - (n_tok ? before_ns : c->start_ns));
    }
    if (!rc && h->reason) {
        abort_choice(d, h);
    }
    rc = rc ? rc : emit(d, c, h);
    if (rc) {
        fail_rc(d, c, rc);
    }
}

/* out: number of events; EVENTS_AT_ONCE when there may be more */
static int32_t take_events(struct dispatch *d) {
    int32_t n = engine_poll(d->o.engine, d->events, EVENTS_AT_ONCE);
    for (int32_t i = 0; i < n; i++) {
        const struct event *ev = &d->events[i];
        struct choice *h = idmap_get(&d->ids, ev->id);
        if (h && ev->kind == EVENT_TOKEN) {
            take_token(d, h->owner, h, ev);
        } else if (h) {
            take_end(d, h->owner, h, ev);
        }
    }
    return n;
}

static int make_choices(struct dispatch *d, struct call *c) {
    int32_t n = c->req.n_prompt * c->req.n;
    c->choice = mem_array(MEM_SERVE, n, (int64_t)sizeof *c->choice);
    if (!c->choice) {
        return ERR_NOMEM;
    }
    for (; c->n_choice < n; c->n_choice++) {
        int rc = choice_init(&c->choice[c->n_choice], &c->req, d->o.tok, c->n_choice, d->n_ahead);
        if (rc) {
            return rc;
        }
        c->choice[c->n_choice].owner = c;
    }
    return 0;
}

static int submit_all(struct dispatch *d, struct call *c) {
    for (int32_t i = 0; i < c->n_choice; i++) {
        struct choice *h = &c->choice[i];
        struct engine_request r = choice_request(h);
        uint64_t id = 0;
        int rc = engine_submit(d->o.engine, &r, &id);
        if (rc) {
            return rc;
        }
        h->id = id;
        c->n_live++;
        rc = idmap_put(&d->ids, id, h);
        if (rc) {
            return rc;
        }
    }
    return 0;
}

static int begin_stream(struct dispatch *d, struct call *c) {
    int rc = 0;
    call_begin(c);
    for (int32_t i = 0; i < c->n_choice && c->head.chat && !rc; i++) {
        set_now(c, &c->choice[i]);
        rc = apiout_role(&c->head, i, &c->pending);
    }
    touch(d, c);
    return rc;
}

static void start(struct dispatch *d, struct call *c) {
    d->active[d->n_active++] = c;
    if (atomic_load(&c->gone) || conns_hung_up(d->o.conns, c->conn_name)) {
        drop(d, c, "the client went away");
    } else {
        int rc = make_choices(d, c);
        rc = rc ? rc : submit_all(d, c);
        pump_kick(&d->pump);
        rc = rc || !c->req.stream ? rc : begin_stream(d, c);
        if (rc) {
            fail_rc(d, c, rc);
        }
    }
    if (c->n_live == 0) {
        touch(d, c);
    }
}

/* out: false when the thread may end */
static bool take_inbox(struct dispatch *d) {
    struct call *list = NULL;
    pthread_mutex_lock(&d->lock);
    struct call *c = d->inbox;
    d->inbox = NULL;
    bool closed = d->closed;
    pthread_mutex_unlock(&d->lock);
    while (c) { /* oldest first */
        struct call *next = c->next;
        c->next = list;
        list = c;
        c = next;
    }
    while (list) {
        struct call *next = list->next;
        list->next = NULL;
        start(d, list);
        list = next;
    }
    return !closed || d->n_active > 0;
}

static void leave(struct dispatch *d, struct call *c) {
    for (int32_t i = 0; i < d->n_active; i++) {
        if (d->active[i] == c) {
            d->active[i] = d->active[--d->n_active];
            break;
        }
    }
    pthread_mutex_lock(&d->lock);
    d->n_flight--;
    pthread_mutex_unlock(&d->lock);
    call_release(c);
}

/* Hands each touched call what was made for it. */
static void flush(struct dispatch *d) {
    while (d->touched) {
        struct call *c = d->touched;
        d->touched = c->next;
        c->next = NULL;
        c->touched = false;
        if (c->stream && c->pending.len > 0) {
            int rc = call_append(c, c->pending.data, c->pending.len, d->o.backlog_max);
            buf_clear(&c->pending);
            if (rc) {
                bool slow = rc == ERR_LIMIT;
                metrics_count(d->o.metrics, &d->o.metrics->n_slow, slow ? 1 : 0);
                c->failed = false;
                drop(d, c, slow ? "slow reader: its backlog is full" : "no memory for its stream");
            }
        }
        if (c->stream && (c->failed || c->n_live == 0)) {
            call_end(c);
        }
        if (c->n_live == 0) {
            leave(d, c);
        }
    }
}

static void lost(struct dispatch *d, struct call *c) {
    if (!c->failed && c->n_live > 0) {
        metrics_count(d->o.metrics, &d->o.metrics->n_lost, 1);
    }
    drop(d, c, "the client went away");
}

static void hang_up(struct dispatch *d, uint64_t conn_name) {
    conns_hang_up(d->o.conns, conn_name, clock_now_ns());
    for (int32_t i = 0; i < d->n_active; i++) {
        if (d->active[i]->conn_name == conn_name) {
            lost(d, d->active[i]);
        }
    }
}

static void take_gone(struct dispatch *d) {
    int64_t n = atomic_load(&d->n_gone);
    for (int32_t i = 0; i < d->n_active && n != d->n_gone_seen; i++) {
        if (atomic_load(&d->active[i]->gone)) {
            lost(d, d->active[i]);
        }
    }
    d->n_gone_seen = n;
}

static void fail_all(struct dispatch *d) {
    struct apierr e = {0};
    if (atomic_exchange(&d->abort_all, false)) {
        apierr_set(&e, 503, NULL, "the server is shutting down");
        for (int32_t i = 0; i < d->n_active; i++) {
            fail(d, d->active[i], &e);
        }
    }
}

/* Aborts that found the queue full. */
static void retry_aborts(struct dispatch *d) {
    bool wait = d->aborts_wait;
    d->aborts_wait = false;
    for (int32_t i = 0; i < d->n_active && wait; i++) {
        struct call *c = d->active[i];
        for (int32_t k = 0; k < c->n_choice; k++) {
            if (c->choice[k].abort && !c->choice[k].ended) {
                abort_choice(d, &c->choice[k]);
            }
        }
    }
}

static void sweep(struct dispatch *d) {
    int64_t now_ns = clock_now_ns();
    if (now_ns - d->swept_ns >= TICK_MS * INT64_C(1000000)) {
        int32_t n = conns_sweep(d->o.conns, now_ns, d->o.head_ns, d->o.idle_ns);
        metrics_count(d->o.metrics, &d->o.metrics->n_timeout, n);
        d->swept_ns = now_ns;
    }
}

static void *run(void *arg) {
    struct dispatch *d = arg;
    for (int32_t n_event = 0;;) {
        struct epoll_event ready[READY_AT_ONCE];
        int32_t wait_ms = n_event == EVENTS_AT_ONCE ? 0 : TICK_MS;
        int n = epoll_wait(d->epoll_fd, ready, READY_AT_ONCE, wait_ms);
        for (int i = 0; i < n; i++) {
            uint64_t count = 0;
            if (ready[i].data.u64 != 0) {
                hang_up(d, ready[i].data.u64);
            } else if (read(d->wake_fd, &count, sizeof count) < 0 && errno != EAGAIN) {
                log_warn("the dispatcher's counter: %s", strerror(errno));
            }
        }
        if (!take_inbox(d)) {
            return NULL;
        }
        take_gone(d);
        fail_all(d);
        n_event = take_events(d);
        retry_aborts(d);
        if (n_event > 0) {
            pump_kick(&d->pump); /* why: it may have waited for room in the ring */
        }
        flush(d);
        sweep(d);
    }
}

static int open_files(struct dispatch *d) {
    struct epoll_event ev = {.events = EPOLLIN, .data = {.u64 = 0}};
    d->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    d->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (d->epoll_fd < 0 || d->wake_fd < 0 ||
        epoll_ctl(d->epoll_fd, EPOLL_CTL_ADD, d->wake_fd, &ev) != 0) {
        return err_set(ERR_IO, "cannot wait for events: %s", strerror(errno));
    }
    return 0;
}

static int start_thread(struct dispatch *d) {
    int err = pthread_create(&d->thread, NULL, run, d);
    d->running = err == 0;
    return err ? err_set(ERR_IO, "cannot start the dispatcher's thread: %s", strerror(err)) : 0;
}

int dispatch_open(const struct dispatch_opts *o, struct dispatch **out) {
    struct engine_stats st;
    struct dispatch *d = mem_calloc(MEM_SERVE, (int64_t)sizeof *d);
    if (!d) {
        return ERR_NOMEM;
    }
    engine_stats(o->engine, &st);
    d->o = *o;
    d->epoll_fd = d->wake_fd = -1;
    d->n_ahead = st.events_max + EVENTS_AT_ONCE + 1;
    pthread_mutex_init(&d->lock, NULL);
    d->active = mem_array(MEM_SERVE, o->calls_max, (int64_t)sizeof(struct call *));
    d->events = mem_array(MEM_SERVE, EVENTS_AT_ONCE, (int64_t)sizeof *d->events);
    int rc = d->active && d->events ? 0 : ERR_NOMEM;
    rc = rc ? rc : idmap_init(&d->ids, st.events_max);
    rc = rc ? rc : open_files(d);
    rc = rc ? rc : pump_open(&d->pump, o->engine, d->wake_fd);
    rc = rc ? rc : start_thread(d);
    if (rc) {
        dispatch_close(d);
        return rc;
    }
    *out = d;
    return 0;
}

void dispatch_stop(struct dispatch *d) {
    if (d->running) {
        pthread_mutex_lock(&d->lock);
        d->closed = true;
        pthread_mutex_unlock(&d->lock);
        dispatch_abort_all(d);
        pthread_join(d->thread, NULL);
        d->running = false;
    }
    pump_close(&d->pump);
}

void dispatch_close(struct dispatch *d) {
    if (!d) {
        return;
    }
    dispatch_stop(d);
    if (d->epoll_fd >= 0) {
        close(d->epoll_fd);
    }
    if (d->wake_fd >= 0) {
        close(d->wake_fd);
    }
    idmap_fini(&d->ids);
    mem_free(d->active);
    mem_free(d->events);
    pthread_mutex_destroy(&d->lock);
    mem_free(d);
}

int dispatch_watch(struct dispatch *d, int fd, uint64_t conn_name) {
    struct epoll_event ev = {.events = EPOLLRDHUP | EPOLLET, .data = {.u64 = conn_name}};
    return epoll_ctl(d->epoll_fd, EPOLL_CTL_ADD, fd, &ev) == 0
               ? 0
               : err_set(ERR_IO, "cannot watch a connection: %s", strerror(errno));
}

int dispatch_push(struct dispatch *d, struct call *c) {
    int rc = 0;
    pthread_mutex_lock(&d->lock);
    if (d->closed) {
        rc = err_set(ERR_CANCELED, "the server is shutting down");
    } else if (d->n_flight >= d->o.calls_max) {
        rc = err_set(ERR_BUSY, "%d requests are in flight already, the limit is %d", d->n_flight,
                     d->o.calls_max);
    } else {
        call_take(c);
        c->next = d->inbox;
        d->inbox = c;
        d->n_flight++;
    }
    pthread_mutex_unlock(&d->lock);
    if (!rc) {
        wake_up(d);
    }
    return rc;
}

void dispatch_gone(struct dispatch *d, struct call *c) {
    atomic_store(&c->gone, true);
    atomic_fetch_add(&d->n_gone, 1);
    wake_up(d);
}

void dispatch_abort_all(struct dispatch *d) {
    atomic_store(&d->abort_all, true);
    wake_up(d);
}

int32_t dispatch_n_flight(struct dispatch *d) {
    pthread_mutex_lock(&d->lock);
    int32_t n = d->n_flight;
    pthread_mutex_unlock(&d->lock);
    return n;
}

bool dispatch_is_dead(const struct dispatch *d) {
    return atomic_load(&d->pump.dead);
}
