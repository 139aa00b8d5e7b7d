/* Accuracy and speed of the HTTP target beside a bare epoll client, against the same server in the
 * same run: bench_http [STREAMS] [TOKENS_PER_S] [SECONDS]. Not run by ctest.
 *
 *   stream   STREAMS streams at TOKENS_PER_S tokens a second each, one event a read
 *   short    whole answers of one token, 64 at once
 *   latency  8 streams at once, first token after 50 ms
 *
 * The bare client speaks HTTP/1.1 by hand: connect, one send, then recv and a search for "data:".
 * It is the floor that the kernel sets. */
#include <errno.h>
#include <math.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/base/mem.h"
#include "engine/base/str.h"
#include "harness/probe.h"
#include "reports/stat.h"

enum { READ_MAX = 1 << 14, EVENTS_MAX = 64 };

struct bare {
    int32_t n_conns;
    int32_t tokens;
    bool whole;
    int32_t n_requests;
    struct truth *truth;
    int epoll_fd;
    int *fd;          /* own, [n_conns] */
    int32_t *number;  /* own, [n_conns]: of the request in flight */
    int64_t *sent_ns; /* own, [n_requests] */
    int64_t *first_ns;
    int32_t n_sent;
    int32_t n_done;
    int64_t n_events;
    double cpu_s;
    double wall_s;
};

static double thread_cpu_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static bool ask(struct bare *b, int32_t i) {
    char body[256];
    char text[512];
    int n_body = snprintf(body, sizeof body,
                          "{\"model\":\"truth\",\"messages\":[{\"role\":\"user\",\"content\":\"x\"}"
                          "],\"max_completion_tokens\":%d,\"stream\":%s,\"stream_options\":{"
                          "\"include_usage\":true}}",
                          b->tokens, b->whole ? "false" : "true");
    int n =
        snprintf(text, sizeof text,
                 "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Request-Id: "
                 "trilemma-%d\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
                 b->n_sent, n_body, body);
    b->number[i] = b->n_sent++;
    b->sent_ns[b->number[i]] = clock_now_ns();
    return send(b->fd[i], text, (size_t)n, MSG_NOSIGNAL) == n;
}

static bool open_one(struct bare *b, int32_t i) {
    const int on = 1;
    const struct sockaddr_in a = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)truth_port(b->truth)),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct epoll_event ev = {.events = EPOLLIN, .data.u32 = (uint32_t)i};
    b->fd[i] = socket(AF_INET, SOCK_STREAM, 0);
    return b->fd[i] >= 0 &&
           connect(b->fd[i], (const struct sockaddr *)(const void *)&a, sizeof a) == 0 &&
           setsockopt(b->fd[i], IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0 &&
           epoll_ctl(b->epoll_fd, EPOLL_CTL_ADD, b->fd[i], &ev) == 0;
}

/* Events in a piece; the end of an answer is its usage (streams) or anything (whole). */
static bool read_piece(struct bare *b, int32_t i, const char *p, int64_t n, int64_t now) {
    const char *end = p + n;
    int32_t k = b->number[i];
    bool over = b->whole;
    for (const char *at = memmem(p, (size_t)n, "\"content\":\" ", 12); at;
         at = memmem(at + 12, (size_t)(end - at - 12), "\"content\":\" ", 12)) {
        b->first_ns[k] = b->first_ns[k] ? b->first_ns[k] : now;
        b->n_events++;
    }
    return over || memmem(p, (size_t)n, "[DONE]", 6) != NULL;
}

static int bare_run(struct bare *b) {
    static char buf[READ_MAX];
    struct epoll_event ev[EVENTS_MAX];
    b->epoll_fd = epoll_create1(0);
    b->fd = mem_array(MEM_TEST, b->n_conns, (int64_t)sizeof *b->fd);
    b->number = mem_array(MEM_TEST, b->n_conns, (int64_t)sizeof *b->number);
    b->sent_ns = mem_array(MEM_TEST, b->n_requests, (int64_t)sizeof *b->sent_ns);
    b->first_ns = mem_array(MEM_TEST, b->n_requests, (int64_t)sizeof *b->first_ns);
    double cpu0 = thread_cpu_s();
    int64_t t0 = clock_now_ns();
    for (int32_t i = 0; i < b->n_conns; i++) {
        if (!open_one(b, i) || !ask(b, i)) {
            return err_set(ERR_NET, "bare client: %s", strerror(errno));
        }
    }
    while (b->n_done < b->n_requests) {
        int n = epoll_wait(b->epoll_fd, ev, EVENTS_MAX, 10000);
        for (int k = 0; k < n; k++) {
            int32_t i = (int32_t)ev[k].data.u32;
            ssize_t got = recv(b->fd[i], buf, sizeof buf, 0);
            if (got <= 0) {
                return err_set(ERR_NET, "bare client: a connection ended");
            }
            if (read_piece(b, i, buf, got, clock_now_ns())) {
                b->n_done++;
                if (b->n_sent < b->n_requests && !ask(b, i)) {
                    return err_set(ERR_NET, "bare client: %s", strerror(errno));
                }
            }
        }
        if (n == 0) {
            return err_set(ERR_TIMEOUT, "bare client: silence");
        }
    }
    b->cpu_s = thread_cpu_s() - cpu0;
    b->wall_s = (double)(clock_now_ns() - t0) * 1e-9;
    return 0;
}

static void bare_fini(struct bare *b) {
    for (int32_t i = 0; b->fd && i < b->n_conns; i++) {
        close(b->fd[i]);
    }
    close(b->epoll_fd);
    mem_free(b->fd);
    mem_free(b->number);
    mem_free(b->sent_ns);
    mem_free(b->first_ns);
}

static void print_quantiles(const char *what, double *x, int32_t n) {
    stat_sort(x, n);
    if (n > 0) {
        printf("  %-24s p50 %9.1f us   p99 %9.1f us\n", what, stat_sorted_quantile(x, n, 0.5) * 1e6,
               stat_sorted_quantile(x, n, 0.99) * 1e6);
    }
}

static int run_bare(const struct probe_opts *o, int32_t n_conns) {
    struct bare b = {
        .n_conns = n_conns, .tokens = o->tokens, .whole = o->whole, .n_requests = o->n_requests};
    int rc = truth_open(&o->truth, &b.truth);
    rc = rc ? rc : bare_run(&b);
    if (!rc) {
        truth_stop(b.truth);
        int32_t n = 0;
        int32_t n_err = 0;
        const struct truth_record *t = truth_records(b.truth, &n);
        double *err = mem_array(MEM_TEST, i64_max(1, n), (int64_t)sizeof *err);
        for (int32_t i = 0; i < n && !o->whole; i++) {
            int64_t k = t[i].number;
            if (b.first_ns[k] && t[i].first_ns > 0) {
                err[n_err++] =
                    (double)((b.first_ns[k] - b.sent_ns[k]) - (t[i].first_ns - t[i].recv_ns)) *
                    1e-9;
            }
        }
        double done = o->whole ? b.n_requests : (double)b.n_events;
        printf("bare:   %.0f %s/s of processor, %.0f/s of wall time, %.2f us of processor each\n",
               done / b.cpu_s, o->whole ? "requests" : "events", done / b.wall_s,
               b.cpu_s / done * 1e6);
        print_quantiles("TTFT error", err, n_err);
        mem_free(err);
    }
    bare_fini(&b);
    truth_close(b.truth);
    return rc;
}

static int run_ours(const struct probe_opts *o) {
    struct probe_result r;
    struct rusage u;
    int rc = probe_run(o, &r);
    if (rc) {
        return rc;
    }
    getrusage(RUSAGE_SELF, &u);
    double done = o->whole ? r.n_ok : (double)r.n_events;
    printf("curl:   %.0f %s/s of processor, %.0f/s of wall time, %.2f us of processor each%s%s\n",
           done / r.cpu_s, o->whole ? "requests" : "events", done / r.wall_s, r.cpu_s / done * 1e6,
           r.n_failed ? "; failed: " : "", r.error);
    print_quantiles("TTFT error", r.ttft_s, r.n_ttft);
    print_quantiles("ITL error", r.itl_s, r.n_itl);
    printf("  resident at most %.1f MB (server included)\n", (double)u.ru_maxrss / 1e3);
    probe_fini(&r);
    return 0;
}

static int both(const char *name, const struct probe_opts *o, int32_t n_conns) {
    printf("%s\n", name);
    int rc = run_bare(o, n_conns);
    rc = rc ? rc : run_ours(o);
    if (!rc && !o->whole) {
        struct probe_opts k = *o;
        k.kernel_time = true;
        printf("with the kernel's time stamps:\n");
        rc = run_ours(&k);
    }
    return rc;
}

int main(int argc, char **argv) {
    int64_t n[3] = {200, 50, 4};
    for (int i = 1; i < argc && i < 4; i++) {
        if (str_i64(argv[i], 1, 100000, &n[i - 1])) {
            fprintf(stderr, "usage: bench_http [STREAMS] [TOKENS_PER_S] [SECONDS]\n");
            return 2;
        }
    }
    const struct probe_opts latency = {.truth = {.ttft_ns = 50000000, .itl_ns = 10000000},
                                       .arrival = {.kind = ARRIVAL_CLOSED, .value = 8},
                                       .n_requests = 160,
                                       .tokens = 16};
    const struct probe_opts stream = {.truth = {.ttft_ns = 100000000, .itl_ns = 1000000000 / n[1]},
                                      .arrival = {.kind = ARRIVAL_CLOSED, .value = (double)n[0]},
                                      .n_requests = (int32_t)n[0],
                                      .tokens = (int32_t)(n[1] * n[2])};
    const struct probe_opts brief = {.arrival = {.kind = ARRIVAL_CLOSED, .value = 64},
                                     .n_requests = 40000,
                                     .tokens = 1,
                                     .whole = true};
    char name[96];
    snprintf(name, sizeof name, "%lld streams of %lld tokens a second", (long long)n[0],
             (long long)n[1]);
    int rc = both("8 streams, first token after 50 ms", &latency, 8);
    rc = rc ? rc : both(name, &stream, (int32_t)n[0]);
    rc = rc ? rc : both("short answers, 64 at once", &brief, 64);
    if (rc) {
        fprintf(stderr, "%s\n", err_msg());
    }
    return rc ? 1 : 0;
}
