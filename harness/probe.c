/* One thread submits and polls; the target's loop and the truth server run beside it. Times of
 * events are kept by request and joined with the server's by their numbers at the end. */
#include "harness/probe.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/base/mem.h"
#include "reports/stat.h"

enum { PROMPT = 8, EVENTS_MAX = 256 };

static const int64_t START_NS = 20000000;
static const int64_t NAP_NS = 200000;

struct one {
    int64_t intended_ns;
    int64_t handed_ns;
    int64_t sent_ns;
    int64_t first_ns;
    int32_t n_events;
    bool ok;
};

struct probe {
    const struct probe_opts *o;
    struct probe_result *r;
    struct truth *truth;   /* own */
    struct target *target; /* own */
    struct scenario_http s;
    char url[96];
    struct arrival arrival;
    struct one *one; /* own, [n_requests] */
    int64_t *t_ns;   /* own, [n_requests][tokens] */
    int64_t start_ns;
    int64_t next_ns; /* intended offset of the next request; -1: unknown */
    int64_t *ready;  /* own, [n_requests]: starts of users that are free again */
    int32_t n_ready; /* of them, n_taken are used up */
    int32_t n_taken;
    int32_t n_sent;
    int32_t n_over;
};

static void take_end(struct probe *p, struct one *q, const struct target_event *e) {
    int64_t start = 0;
    p->n_over++;
    q->ok = e->end == TARGET_OK;
    q->handed_ns = e->outcome->wire->handed_ns;
    if (!q->ok && p->r->n_failed++ == 0) {
        const char *text = e->outcome->error_text;
        snprintf(p->r->error, sizeof p->r->error, "%s: %s", e->outcome->error_class,
                 text ? text : "");
    }
    p->r->n_ok += q->ok ? 1 : 0;
    if (arrival_done(&p->arrival, e->t_ns - p->start_ns, &start)) {
        p->ready[p->n_ready++] = start;
    }
}

/* The next start that is known. out: false when there is none */
static bool next_start(struct probe *p) {
    if (p->next_ns < 0 && p->n_taken < p->n_ready) {
        p->next_ns = p->ready[p->n_taken++];
    }
    return p->next_ns >= 0 || arrival_next(&p->arrival, &p->next_ns);
}

static void take(struct probe *p, const struct target_event *e) {
    struct one *q = &p->one[e->tag];
    if (e->kind == TARGET_SENT) {
        q->sent_ns = e->t_ns;
    } else if (e->kind == TARGET_TOKENS) {
        q->first_ns = q->n_events == 0 ? e->t_ns : q->first_ns;
        if (q->n_events < p->o->tokens) {
            p->t_ns[(int64_t)e->tag * p->o->tokens + q->n_events] = e->t_ns;
        }
        q->n_events++;
        p->r->n_events++;
    } else if (e->kind == TARGET_END) {
        take_end(p, q, e);
    }
}

/* Submits what the target wants by now. */
static int submit_due(struct probe *p) {
    static const int32_t ids[PROMPT] = {1, 2, 3, 4, 5, 6, 7, 8};
    int rc = 0;
    while (!rc && p->n_sent < p->o->n_requests) {
        if (!next_start(p)) {
            return 0;
        }
        int64_t at = p->start_ns + p->next_ns;
        if (at - p->target->lead_ns > clock_now_ns()) {
            return 0;
        }
        int64_t sent = 0;
        const struct target_request q = {.tag = (uint64_t)p->n_sent,
                                         .number = p->n_sent,
                                         .intended_ns = at,
                                         .ids = ids,
                                         .n_ids = PROMPT,
                                         .max_new = p->o->tokens};
        p->one[p->n_sent++].intended_ns = at;
        p->next_ns = -1;
        rc = target_submit(p->target, &q, &sent);
    }
    return rc;
}

static int drive(struct probe *p) {
    struct target_event ev[EVENTS_MAX];
    p->start_ns = clock_now_ns() + START_NS;
    p->next_ns = -1;
    int rc = 0;
    while (!rc && p->n_over < p->o->n_requests) {
        rc = submit_due(p);
        int32_t n = target_poll(p->target, ev, EVENTS_MAX);
        for (int32_t i = 0; i < n; i++) {
            take(p, &ev[i]);
        }
        if (n == 0) {
            clock_sleep_until(clock_now_ns() + NAP_NS);
        }
        rc = rc ? rc : target_error(p->target);
        if (!rc && p->o->stop && p->o->stop()) {
            rc = err_set(ERR_CANCELED, "interrupted");
        }
    }
    p->r->wall_s = (double)(clock_now_ns() - p->start_ns) * 1e-9;
    return rc;
}

static int open_all(struct probe *p) {
    const struct probe_opts *o = p->o;
    struct truth_opts to = o->truth;
    to.keep_times = true;
    int rc = truth_open(&to, &p->truth);
    if (rc) {
        return rc;
    }
    snprintf(p->url, sizeof p->url, "%s/v1", truth_url(p->truth));
    p->s = (struct scenario_http){.n_urls = 1,
                                  .urls = {p->url},
                                  .weights = {1},
                                  .stream = o->whole ? "false" : "true",
                                  .timestamps = o->kernel_time ? "kernel" : "user"};
    rc = http_open(&(struct http_opts){.s = &p->s, .model = "truth"}, &p->target);
    rc = rc ? rc : arrival_init(&p->arrival, &o->arrival);
    p->one = mem_array(MEM_HARNESS, o->n_requests, (int64_t)sizeof *p->one);
    p->t_ns = mem_array(MEM_HARNESS, (int64_t)o->n_requests * o->tokens, (int64_t)sizeof *p->t_ns);
    p->ready = mem_array(MEM_HARNESS, o->n_requests, (int64_t)sizeof *p->ready);
    if (!rc && !(p->one && p->t_ns && p->ready)) {
        rc = ERR_NOMEM;
    }
    return rc ? rc : target_start(p->target);
}

static int make_result(struct probe *p) {
    struct probe_result *r = p->r;
    int64_t n = i64_max(1, r->n_ok);
    r->lag_s = mem_array(MEM_HARNESS, n, (int64_t)sizeof *r->lag_s);
    r->start_s = mem_array(MEM_HARNESS, n, (int64_t)sizeof *r->start_s);
    r->ttft_s = mem_array(MEM_HARNESS, n, (int64_t)sizeof *r->ttft_s);
    r->itl_s = mem_array(MEM_HARNESS, n * p->o->tokens, (int64_t)sizeof *r->itl_s);
    r->gap_s = mem_array(MEM_HARNESS, n * p->o->tokens, (int64_t)sizeof *r->gap_s);
    return r->lag_s && r->start_s && r->ttft_s && r->itl_s && r->gap_s ? 0 : ERR_NOMEM;
}

/* The errors of one streamed request. */
static void compare(struct probe *p, int32_t i, const struct truth_record *t) {
    struct probe_result *r = p->r;
    const struct one *q = &p->one[i];
    const int64_t *mine = &p->t_ns[(int64_t)i * p->o->tokens];
    int64_t truth_ns = t->first_ns - t->recv_ns;
    r->ttft_s[r->n_ttft++] = (double)(q->first_ns - q->sent_ns - truth_ns) * 1e-9;
    if (t->time_at < 0 || q->n_events != t->n_events || q->n_events > p->o->tokens) {
        return;
    }
    const int64_t *his = truth_times(p->truth) + t->time_at;
    for (int32_t k = 1; k < q->n_events; k++) {
        int64_t gap = his[k] - his[k - 1];
        r->gap_s[r->n_itl] = (double)gap * 1e-9;
        r->itl_s[r->n_itl++] = (double)(mine[k] - mine[k - 1] - gap) * 1e-9;
    }
}

/* Joins both sides: the records of the server are in order of arrival, ours by number. */
static int join(struct probe *p) {
    struct probe_result *r = p->r;
    int32_t n = 0;
    int32_t n_ok = 0;
    int64_t first = INT64_MAX;
    int rc = make_result(p);
    if (rc) {
        return rc;
    }
    const struct truth_record *t = truth_records(p->truth, &n);
    for (int32_t i = 0; i < p->o->n_requests; i++) {
        first = p->one[i].ok ? i64_min(first, p->one[i].handed_ns) : first;
    }
    for (int32_t i = 0; i < p->o->n_requests; i++) {
        if (p->one[i].ok) {
            r->lag_s[n_ok] = (double)(p->one[i].handed_ns - p->one[i].intended_ns) * 1e-9;
            r->start_s[n_ok++] = (double)(p->one[i].handed_ns - first) * 1e-9;
        }
    }
    stat_sort(r->start_s, n_ok);
    r->rate = n_ok > 1 ? (double)(n_ok - 1) / r->start_s[n_ok - 1] : 0;
    for (int32_t i = 0; i < n && !p->o->whole; i++) {
        int64_t k = t[i].number;
        if (k >= 0 && k < p->o->n_requests && p->one[k].ok && r->n_ttft < r->n_ok) {
            compare(p, (int32_t)k, &t[i]);
        }
    }
    return 0;
}

int probe_run(const struct probe_opts *o, struct probe_result *r) {
    struct probe p = {.o = o, .r = r};
    *r = (struct probe_result){0};
    int rc = open_all(&p);
    rc = rc ? rc : drive(&p);
    if (p.target) {
        struct http_usage u;
        target_stop(p.target);
        http_usage(p.target, &u);
        r->cpu_s = (double)u.cpu_ns * 1e-9;
    }
    if (p.truth) {
        truth_stop(p.truth);
    }
    rc = rc ? rc : join(&p);
    target_close(p.target);
    truth_close(p.truth);
    mem_free(p.one);
    mem_free(p.t_ns);
    mem_free(p.ready);
    if (rc) {
        probe_fini(r);
    }
    return rc;
}

void probe_fini(struct probe_result *r) {
    mem_free(r->lag_s);
    mem_free(r->start_s);
    mem_free(r->ttft_s);
    mem_free(r->itl_s);
    mem_free(r->gap_s);
    *r = (struct probe_result){0};
}
