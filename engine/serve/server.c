/* The server's life, and the callbacks of libmicrohttpd.
 *
 *     HTTP threads (n) --parse, sleep--> dispatcher (1) --submit--> engine (1)
 *          ^                                  |   ^                    |
 *          +------------wake, read------------+   +-------events-------+
 *
 * Laws:
 *  1. A refusal is answered when the body was read, so that the connection stays whole; only a body
 *     that is announced too large is refused at once, and the connection closed.
 *  2. Every buffer, table and time has a limit in struct server_opts.
 *  3. The key is compared in a time that does not depend on where it differs.
 *  4. Shutting down: refuse new work, wait for the old, then stop the dispatcher, then the library,
 *     so that no connection is left asleep. */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/base/log.h"
#include "engine/base/rng.h"
#include "engine/base/str.h"
#include "engine/serve/server_int.h"

enum {
    DEFAULT_HTTP_THREADS = 4,
    DEFAULT_CONNS = 1024,
    DEFAULT_CALLS = 256,
    COUNT_MAX = 1 << 20,
    KERNEL_BACKLOG = 256 << 10, /* bytes of a stream in the kernel */
    DISCARD_TIMES = 4           /* a refused body is read up to so many times the limit */
};
static const int64_t DEFAULT_BODY = 8 << 20;
static const int64_t DEFAULT_BODIES = 256 << 20;
static const int64_t DEFAULT_HEAD = 32 << 10;
static const int64_t DEFAULT_BACKLOG = 4 << 20;
static const int64_t SECOND_NS = 1000000000;
static const int64_t LAST_WORDS_NS = 2000000000; /* for errors to reach clients at the end */

_Static_assert(sizeof(void *) >= sizeof(uint64_t), "a connection's name is kept in a pointer");

static bool is_key(const struct server *s, const char *header) {
    static const char scheme[] = "Bearer ";
    if (!header || strncmp(header, scheme, sizeof scheme - 1) != 0) {
        return false;
    }
    const char *given = header + sizeof scheme - 1;
    size_t n_given = strlen(given);
    size_t n_key = strlen(s->o.key);
    volatile uint8_t diff = n_given == n_key ? 0 : 1;
    for (size_t i = 0; i < n_given; i++) {
        diff |= (uint8_t)(given[i] ^ s->o.key[n_key ? i % n_key : 0]);
    }
    return diff == 0;
}

static const char *header_of(struct MHD_Connection *conn, const char *name) {
    return MHD_lookup_connection_value(conn, MHD_HEADER_KIND, name);
}

static uint64_t name_of(struct MHD_Connection *conn) {
    const union MHD_ConnectionInfo *i =
        MHD_get_connection_info(conn, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return i ? (uint64_t)(uintptr_t)i->socket_context : 0;
}

/* A head was read: what is wrong already goes to c->early. */
static struct call *
begin(struct server *s, struct MHD_Connection *conn, const char *method, const char *path) {
    int64_t now_ns = clock_now_ns();
    struct call *c = call_create(conn, s->o.body_max, now_ns);
    if (!c) {
        return NULL;
    }
    c->conn_name = name_of(conn);
    str_copy(c->method, (int64_t)sizeof c->method, method);
    str_copy(c->path, CALL_PATH_MAX, path);
    conns_phase(&s->conns, c->conn_name, CONNS_BODY, now_ns);
    const struct route *route = route_find(method, path, &c->early);
    c->route = route;
    if (route && s->o.key && !route->open && !is_key(s, header_of(conn, "Authorization"))) {
        apierr_set(&c->early, 401, NULL, "the API key is missing or wrong");
        c->early.code = "invalid_api_key";
    }
    int64_t length = 0;
    const char *told = header_of(conn, "Content-Length");
    bool counted = told && str_i64(told, 0, INT64_MAX, &length) == 0;
    if ((told && !counted) || length > s->o.body_max) {
        apierr_set(&c->early, 413, NULL, "a body of %.40s bytes, at most %lld are read", told,
                   (long long)s->o.body_max);
    }
    return c;
}

static void free_body(struct server *s, struct call *c) {
    atomic_fetch_sub(&s->body_bytes, c->body.len);
    buf_fini(&c->body);
}

static enum MHD_Result take_body(struct server *s, struct call *c, const char *data, int64_t n) {
    c->n_body += n;
    if (c->early.status) {
        return c->n_body > DISCARD_TIMES * s->o.body_max ? MHD_NO : MHD_YES;
    }
    if (atomic_fetch_add(&s->body_bytes, n) + n > s->o.bodies_max) {
        atomic_fetch_sub(&s->body_bytes, n);
        apierr_set(&c->early, 503, NULL, "the bodies of all requests take too much memory");
        return MHD_YES;
    }
    int rc = buf_add(&c->body, data, n);
    if (rc) {
        atomic_fetch_sub(&s->body_bytes, n);
        if (rc == ERR_LIMIT) {
            apierr_set(&c->early, 413, NULL, "the body has more than the %lld bytes that are read",
                       (long long)s->o.body_max);
        } else {
            apierr_from(&c->early, rc, NULL);
        }
        free_body(s, c);
    }
    return MHD_YES;
}

static enum MHD_Result on_request(void *cls,
                                  struct MHD_Connection *conn,
                                  const char *url,
                                  const char *method,
                                  const char *version,
                                  const char *data,
                                  size_t *n_data,
                                  void **con_cls) {
    struct server *s = cls;
    struct call *c = *con_cls;
    (void)version;
    if (!c) {
        c = begin(s, conn, method, url);
        *con_cls = c;
        if (!c) {
            return MHD_NO;
        }
        if (c->early.status == 413) {
            c->read = true;
            return route_act(s, c);
        }
        return MHD_YES;
    }
    if (*n_data > 0) {
        int64_t n = (int64_t)*n_data;
        *n_data = 0;
        return take_body(s, c, data, n);
    }
    if (!c->read) {
        c->read = true;
        conns_phase(&s->conns, c->conn_name, CONNS_BUSY, clock_now_ns());
        return route_act(s, c);
    }
    return route_reply(s, c);
}

static void on_completed(void *cls,
                         struct MHD_Connection *conn,
                         void **con_cls,
                         enum MHD_RequestTerminationCode why) {
    struct server *s = cls;
    struct call *c = *con_cls;
    (void)conn;
    if (!c) {
        return;
    }
    *con_cls = NULL;
    free_body(s, c);
    conns_phase(&s->conns, c->conn_name, CONNS_IDLE, clock_now_ns());
    bool handed = c->handed;
    if (handed && why != MHD_REQUEST_TERMINATED_COMPLETED_OK) {
        dispatch_gone(s->dispatch, c);
    }
    call_release(c);
    if (handed) {
        pthread_mutex_lock(&s->lock);
        s->n_handed--;
        pthread_cond_signal(&s->idle);
        pthread_mutex_unlock(&s->lock);
    }
}

static void on_connection(void *cls,
                          struct MHD_Connection *conn,
                          void **socket_context,
                          enum MHD_ConnectionNotificationCode what) {
    struct server *s = cls;
    if (what == MHD_CONNECTION_NOTIFY_CLOSED) {
        conns_remove(&s->conns, (uint64_t)(uintptr_t)*socket_context);
        return;
    }
    const union MHD_ConnectionInfo *i =
        MHD_get_connection_info(conn, MHD_CONNECTION_INFO_CONNECTION_FD);
    if (i) {
        /* why: what the kernel holds for a client that does not read is memory too */
        const int most = (int)i64_min(s->o.backlog_max, KERNEL_BACKLOG);
        setsockopt(i->connect_fd, SOL_SOCKET, SO_SNDBUF, &most, sizeof most);
        uint64_t name = conns_add(&s->conns, i->connect_fd, clock_now_ns());
        *socket_context = (void *)(uintptr_t)name;
        if (name && dispatch_watch(s->dispatch, i->connect_fd, name)) {
            log_warn("%s", err_msg());
        }
    }
}

static void on_log(void *cls, const char *fmt, va_list ap) PRINTF_LIKE(2, 0);
static void on_log(void *cls, const char *fmt, va_list ap) {
    char line[512];
    (void)cls;
    vsnprintf(line, sizeof line, fmt, ap);
    line[strcspn(line, "\n")] = '\0';
    log_debug("http: %s", line);
}

static void fill_defaults(struct server_opts *o) {
    o->host = o->host ? o->host : "127.0.0.1";
    o->n_http_threads = o->n_http_threads ? o->n_http_threads : DEFAULT_HTTP_THREADS;
    o->conns_max = o->conns_max ? o->conns_max : DEFAULT_CONNS;
    o->calls_max = o->calls_max ? o->calls_max : DEFAULT_CALLS;
    o->body_max = o->body_max ? o->body_max : DEFAULT_BODY;
    o->bodies_max = o->bodies_max ? o->bodies_max : DEFAULT_BODIES;
    o->head_bytes = o->head_bytes ? o->head_bytes : DEFAULT_HEAD;
    o->backlog_max = o->backlog_max ? o->backlog_max : DEFAULT_BACKLOG;
    o->head_ns = o->head_ns ? o->head_ns : 10 * SECOND_NS;
    o->idle_ns = o->idle_ns ? o->idle_ns : 60 * SECOND_NS;
}

static int check_opts(const struct server_opts *o) {
    const struct {
        const char *name;
        int64_t v;
        int64_t lo;
        int64_t hi;
    } rows[] = {{"port", o->port, 0, 65535},
                {"n_http_threads", o->n_http_threads, 1, 256},
                {"conns_max", o->conns_max, o->n_http_threads, COUNT_MAX},
                {"calls_max", o->calls_max, 1, COUNT_MAX},
                {"body_max", o->body_max, 1, INT32_MAX},
                {"bodies_max", o->bodies_max, 1, INT64_MAX / 2},
                {"head_bytes", o->head_bytes, 4096, 1 << 24},
                {"backlog_max", o->backlog_max, 1024, CALL_ANSWER_MAX},
                {"head_ns", o->head_ns, 1, INT64_MAX / 4},
                {"idle_ns", o->idle_ns, 1, INT64_MAX / 4}};
    for (int32_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (rows[i].v < rows[i].lo || rows[i].v > rows[i].hi) {
            return err_set(ERR_RANGE, "server: %s is %lld, want %lld..%lld", rows[i].name,
                           (long long)rows[i].v, (long long)rows[i].lo, (long long)rows[i].hi);
        }
    }
    return model_need_tok(o->model);
}

static int start_http(struct server *s) {
    const struct server_opts *o = &s->o;
    unsigned int flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME |
                         MHD_USE_ERROR_LOG | (s->listener.ipv6 ? MHD_USE_IPv6 : 0U);
    int64_t idle_s = i64_min(i64_div_up(o->idle_ns, SECOND_NS), INT_MAX);
    struct MHD_OptionItem pool[] = {{MHD_OPTION_THREAD_POOL_SIZE, o->n_http_threads, NULL},
                                    {MHD_OPTION_END, 0, NULL}};
    struct MHD_OptionItem none[] = {{MHD_OPTION_END, 0, NULL}};
    s->daemon = MHD_start_daemon(
        flags, (uint16_t)s->listener.port, NULL, NULL, on_request, s, MHD_OPTION_EXTERNAL_LOGGER,
        on_log, NULL, MHD_OPTION_LISTEN_SOCKET, s->listener.fd, MHD_OPTION_NOTIFY_COMPLETED,
        on_completed, s, MHD_OPTION_NOTIFY_CONNECTION, on_connection, s,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned int)o->conns_max, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned int)idle_s, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)o->head_bytes,
        MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1, MHD_OPTION_ARRAY, o->n_http_threads > 1 ? pool : none,
        MHD_OPTION_END);
    return s->daemon ? 0
                     : err_set(ERR_IO, "cannot start the HTTP threads on %s: %s", s->listener.url,
                               strerror(errno));
}

/* Starts all threads with every signal blocked: signals are the caller's business. */
static int start_threads(struct server *s) {
    const struct dispatch_opts dopts = {.engine = s->o.engine,
                                        .tok = s->o.model->tok,
                                        .conns = &s->conns,
                                        .metrics = &s->metrics,
                                        .calls_max = s->o.calls_max,
                                        .backlog_max = s->o.backlog_max,
                                        .head_ns = s->o.head_ns,
                                        .idle_ns = s->o.idle_ns};
    sigset_t all;
    sigset_t old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int rc = dispatch_open(&dopts, &s->dispatch);
    rc = rc ? rc : start_http(s);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return rc;
}

/* Bytes of the longest text that may fit the context: every token is its longest. */
static int64_t longest_text(const struct tok *tok, int32_t ctx_max) {
    int32_t longest = 1;
    for (int32_t id = 0; tok && id < tok_n_vocab(tok); id++) {
        int32_t n = 0;
        if (tok_piece(tok, id, &n)) {
            longest = i32_max(longest, n);
        }
    }
    return (int64_t)longest * ctx_max;
}

int server_open(const struct server_opts *o, struct server **out) {
    pthread_condattr_t monotonic;
    struct engine_stats st;
    struct server *s = mem_calloc(MEM_SERVE, (int64_t)sizeof *s);
    if (!s) {
        return ERR_NOMEM;
    }
    s->o = *o;
    s->listener.fd = -1;
    fill_defaults(&s->o);
    engine_stats(o->engine, &st);
    s->ctx_max = st.ctx_max;
    s->text_max = longest_text(o->model->tok, st.ctx_max);
    s->created_s = clock_wall_ns() / SECOND_NS;
    s->seed = rng_keyed((uint64_t)clock_wall_ns(), (uint64_t)getpid(), 0);
    metrics_init(&s->metrics);
    pthread_mutex_init(&s->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&s->idle, &monotonic);
    pthread_condattr_destroy(&monotonic);
    int rc = check_opts(&s->o);
    rc = rc ? rc : conns_init(&s->conns, s->o.conns_max);
    rc = rc ? rc : listener_open(s->o.host, s->o.port, &s->listener);
    rc = rc ? rc : start_threads(s);
    if (rc) {
        server_close(s);
        return rc;
    }
    if (!s->listener.loopback && !s->o.key) {
        log_warn("%s can be reached from other machines, and no key is asked for", s->listener.url);
    }
    *out = s;
    return 0;
}

const char *server_url(const struct server *s) {
    return s->listener.url;
}

int32_t server_port(const struct server *s) {
    return s->listener.port;
}

/* Waits until no answer is under way. out: false when the time was over first */
static bool wait_idle(struct server *s, int64_t ns) {
    int64_t until = 0;
    int err = 0;
    if (!i64_add(clock_now_ns(), ns, &until)) {
        until = INT64_MAX;
    }
    const struct timespec t = {.tv_sec = until / SECOND_NS, .tv_nsec = until % SECOND_NS};
    pthread_mutex_lock(&s->lock);
    while (s->n_handed > 0 && err == 0) {
        err = pthread_cond_timedwait(&s->idle, &s->lock, &t);
    }
    bool idle = s->n_handed == 0;
    pthread_mutex_unlock(&s->lock);
    return idle;
}

void server_drain(struct server *s, int64_t grace_ns) {
    atomic_store(&s->draining, true);
    if (!wait_idle(s, grace_ns)) {
        log_warn("%d requests are not answered in time and end with an error",
                 dispatch_n_flight(s->dispatch));
        dispatch_abort_all(s->dispatch);
        wait_idle(s, LAST_WORDS_NS);
    }
}

void server_close(struct server *s) {
    if (!s) {
        return;
    }
    atomic_store(&s->draining, true);
    if (s->dispatch) {
        dispatch_stop(s->dispatch);
    }
    if (s->daemon) {
        MHD_stop_daemon(s->daemon);
    } else if (s->listener.fd >= 0) {
        close(s->listener.fd);
    }
    dispatch_close(s->dispatch);
    conns_fini(&s->conns);
    metrics_fini(&s->metrics);
    pthread_cond_destroy(&s->idle);
    pthread_mutex_destroy(&s->lock);
    mem_free(s);
}
