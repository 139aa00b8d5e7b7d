/* Parts, limits, and why these limits:
 *
 *   clock      smallest step between two readings             1 us: a hundredth of what is reported
 *   schedule   send lag at 500 requests/s, p50 and p99        what the verdict calls too late: 5 ms
 *   arrivals   gaps of 100 seeds and of the requests really   Kolmogorov-Smirnov, alpha 0.01
 *              sent; variance of counts over their mean       within a quarter of 1
 *   latency    TTFT and ITL against the truth, p50 and p99    0.5 ms and 5 ms
 *   speed      token events a second of loop's processor time 20,000
 *   corpus     answers read in single bytes, in random cuts,  all
 *              and over sockets
 *
 * Limits hold on a busy machine with two cores; what was measured stands beside them. */
#include "harness/selftest.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/base/mem.h"
#include "engine/base/rng.h"
#include "engine/base/str.h"
#include "harness/corpus.h"
#include "harness/probe.h"
#include "reports/stat.h"

enum {
    CLOCK_READS = 100000,
    SEEDS = 100,
    GAPS = 2000,
    COUNT_SEEDS = 400,
    CUTS = 16,
    ROUNDS = 8,
    STALL_NS = 50000000
};

static const double KS_01 = 1.628; /* of the distance times sqrt(n), alpha 0.01 */
static const double RATE = 500;

static struct selftest_row *
add(struct selftest *t, const char *name, const char *unit, double value, double limit) {
    struct selftest_row *r = &t->row[t->n < SELFTEST_ROWS_MAX ? t->n++ : SELFTEST_ROWS_MAX - 1];
    *r = (struct selftest_row){.name = name, .unit = unit, .value = value, .limit = limit};
    r->is_ok = value <= limit;
    t->n_bad += r->is_ok ? 0 : 1;
    return r;
}

static struct selftest_row *
add_floor(struct selftest *t, const char *name, const char *unit, double value, double limit) {
    struct selftest_row *r = add(t, name, unit, -value, -limit);
    r->value = value;
    r->limit = limit;
    r->is_floor = true;
    return r;
}

static void check_clock(struct selftest *t) {
    int64_t least = INT64_MAX;
    int64_t last = clock_now_ns();
    int64_t begin = last;
    for (int32_t i = 0; i < CLOCK_READS; i++) {
        int64_t now = clock_now_ns();
        least = now > last ? i64_min(least, now - last) : least;
        last = now;
    }
    struct selftest_row *r = add(t, "clock: smallest step", "s", (double)least * 1e-9, 1e-6);
    snprintf(r->note, sizeof r->note, "one reading takes %.0f ns",
             (double)(last - begin) / CLOCK_READS);
}

static double quantile(double *x, int32_t n, double q) {
    stat_sort(x, n);
    return n > 0 ? stat_sorted_quantile(x, n, q) : (double)NAN;
}

/* Distance of gap[n] from the exponential distribution of that rate, times sqrt(n). Sorts. */
static double ks_exponential(double *gap, int32_t n, double rate) {
    double worst = 0;
    stat_sort(gap, n);
    for (int32_t i = 0; i < n; i++) {
        double f = 1 - exp(-rate * gap[i]);
        worst = fmax(worst, fmax(f - (double)i / n, (double)(i + 1) / n - f));
    }
    return worst * sqrt(n);
}

static int check_schedules(struct selftest *t) {
    static double gap[GAPS];
    int32_t n_refused = 0;
    double sum = 0;
    double square = 0;
    int rc = 0;
    for (uint64_t seed = 0; seed < SEEDS && !rc; seed++) {
        struct arrival a;
        int64_t last = 0;
        rc = arrival_init(
            &a, &(struct arrival_opts){.kind = ARRIVAL_POISSON, .value = RATE, .seed = seed});
        for (int32_t i = 0; i < GAPS && !rc; i++) {
            int64_t at = 0;
            (void)arrival_next(&a, &at);
            gap[i] = (double)(at - last) * 1e-9;
            last = at;
        }
        n_refused += ks_exponential(gap, GAPS, RATE) > KS_01 ? 1 : 0;
    }
    for (uint64_t seed = 0; seed < COUNT_SEEDS && !rc; seed++) {
        struct arrival a;
        int64_t at = 0;
        int32_t n = 0;
        rc = arrival_init(&a, &(struct arrival_opts){
                                  .kind = ARRIVAL_POISSON, .value = RATE, .seed = seed + SEEDS});
        while (!rc && arrival_next(&a, &at) && at < 1000000000) {
            n++;
        }
        sum += n;
        square += (double)n * n;
    }
    double mean = sum / COUNT_SEEDS;
    double dispersion = (square / COUNT_SEEDS - mean * mean) / mean;
    add(t, "arrivals: seeds of 100 with gaps refused", "", n_refused, 5);
    struct selftest_row *r =
        add(t, "arrivals: variance of counts off 1", "", fabs(dispersion - 1), 0.25);
    snprintf(r->note, sizeof r->note, "%.3f", dispersion);
    return rc;
}

static int failed(const struct probe_result *r) {
    return r->n_failed > 0 ? err_set(ERR_NET, "%d of %d requests failed: %s", r->n_failed,
                                     r->n_failed + r->n_ok, r->error)
                           : 0;
}

/* Latency and schedule under a Poisson load of streams. */
static int check_latency(struct selftest *t, bool (*stop)(void)) {
    const struct probe_opts o = {.truth = {.ttft_ns = 50000000, .itl_ns = 10000000},
                                 .arrival = {.kind = ARRIVAL_POISSON, .value = RATE, .seed = 5},
                                 .n_requests = 1500,
                                 .tokens = 10,
                                 .stop = stop};
    struct probe_result r;
    int rc = probe_run(&o, &r);
    rc = rc ? rc : failed(&r);
    if (rc) {
        probe_fini(&r);
        return rc;
    }
    for (int32_t i = r.n_ok - 1; i > 0; i--) {
        r.start_s[i] -= r.start_s[i - 1];
    }
    for (int32_t i = 0; i < r.n_itl; i++) {
        r.itl_s[i] = fabs(r.itl_s[i]);
    }
    for (int32_t i = 0; i < r.n_ttft; i++) {
        r.ttft_s[i] = fabs(r.ttft_s[i]);
    }
    struct selftest_row *w = add(t, "send lag p50", "s", quantile(r.lag_s, r.n_ok, 0.5), 0.5e-3);
    snprintf(w->note, sizeof w->note, "%.0f requests/s, Poisson", r.rate);
    add(t, "send lag p99", "s", quantile(r.lag_s, r.n_ok, 0.99), 5e-3);
    w = add(t, "arrivals: distance of those sent", "",
            ks_exponential(r.start_s + 1, r.n_ok - 1, RATE), KS_01);
    snprintf(w->note, sizeof w->note, "Kolmogorov-Smirnov, times sqrt(n)");
    w = add(t, "TTFT error p50", "s", quantile(r.ttft_s, r.n_ttft, 0.5), 0.5e-3);
    snprintf(w->note, sizeof w->note, "truth 50 ms");
    add(t, "TTFT error p99", "s", quantile(r.ttft_s, r.n_ttft, 0.99), 5e-3);
    w = add(t, "ITL error p50", "s", quantile(r.itl_s, r.n_itl, 0.5), 0.5e-3);
    snprintf(w->note, sizeof w->note, "truth 10 ms, %d gaps", r.n_itl);
    add(t, "ITL error p99", "s", quantile(r.itl_s, r.n_itl, 0.99), 5e-3);
    probe_fini(&r);
    return 0;
}

/* Streams that come as fast as they go: events by processor time of the loop. */
static int check_speed(struct selftest *t, bool (*stop)(void)) {
    const struct probe_opts o = {.truth = {.itl_ns = 500000},
                                 .arrival = {.kind = ARRIVAL_CLOSED, .value = 64},
                                 .n_requests = 512,
                                 .tokens = 400,
                                 .stop = stop};
    struct probe_result r;
    int rc = probe_run(&o, &r);
    rc = rc ? rc : failed(&r);
    if (!rc) {
        struct selftest_row *w = add_floor(t, "token events per second of processor", "1/s",
                                           (double)r.n_events / r.cpu_s, 20000);
        snprintf(w->note, sizeof w->note, "64 streams; %.0f/s in wall time",
                 (double)r.n_events / r.wall_s);
    }
    probe_fini(&r);
    return rc;
}

static bool is_right(const struct corpus_case *c, const struct reply *r, const struct buf *text) {
    return r->kind == c->want && r->n_tokens == c->n_tokens && text->len == c->text.len &&
           memcmp(buf_cstr(text), buf_cstr(&c->text), (size_t)text->len) == 0;
}

/* A case in random cuts and in single bytes. out: *right */
static int read_case(
    const struct corpus_case *c, struct rng *rng, struct reply *r, struct buf *text, bool *right) {
    int rc = 0;
    *right = true;
    for (int32_t k = 0; k < ROUNDS && !rc; k++) {
        int64_t cut[CUTS];
        int64_t at = 0;
        for (int32_t i = 0; i < CUTS; i++) {
            at += rng_below(rng, c->body.len / 8 + 2);
            cut[i] = at;
        }
        rc = corpus_read(c, cut, CUTS, r, text);
        *right = *right && is_right(c, r, text);
    }
    int64_t *each = mem_array(MEM_HARNESS, c->body.len + 1, (int64_t)sizeof *each);
    for (int64_t i = 0; each && i < c->body.len; i++) {
        each[i] = i + 1;
    }
    rc = rc || each ? rc : ERR_NOMEM;
    rc = rc ? rc : corpus_read(c, each, (int32_t)c->body.len, r, text);
    *right = *right && !rc && is_right(c, r, text);
    mem_free(each);
    return rc;
}

/* A case over a socket. out: *right */
static int ask_case(const struct corpus_case *c, const struct truth *truth, bool *right) {
    static const int32_t ids[] = {1, 2, 3, 4};
    char url[192];
    struct target *t = NULL;
    struct target_event ev[16];
    int64_t sent = 0;
    int64_t n_tokens = 0;
    bool over = false;
    snprintf(url, sizeof url, "%s/%s/v1", truth_url(truth), c->name);
    const struct scenario_http s = {.n_urls = 1,
                                    .urls = {url},
                                    .weights = {1},
                                    .api = chunk_api_name(c->api),
                                    .stream = c->stream ? "true" : "false",
                                    .stall_ns = STALL_NS};
    int rc = http_open(&(struct http_opts){.s = &s, .model = "truth"}, &t);
    if (rc) {
        return rc;
    }
    rc = target_start(t);
    rc = rc ? rc
            : target_submit(t, &(struct target_request){.ids = ids, .n_ids = 4, .max_new = 4},
                            &sent);
    while (!rc && !over) {
        int32_t n = target_poll(t, ev, ARRAY_LEN(ev));
        for (int32_t i = 0; i < n; i++) {
            n_tokens += ev[i].kind == TARGET_TOKENS ? ev[i].n_tokens : 0;
            over = ev[i].kind == TARGET_END;
            const char *got = over ? ev[i].outcome->error_class : NULL;
            const char *want = reply_class_name(c->want);
            *right = over && str_eq(got ? got : "", want ? want : "") && n_tokens == c->n_tokens;
        }
        if (n == 0) {
            clock_sleep_until(clock_now_ns() + 200000);
        }
        rc = target_error(t);
    }
    target_close(t);
    return rc;
}

static int check_corpus(struct selftest *t, bool (*stop)(void)) {
    struct truth *truth = NULL;
    struct reply r;
    struct buf text;
    struct rng rng;
    int32_t n_read = 0;
    int32_t n_asked = 0;
    char first[CORPUS_NAME_MAX] = "";
    rng_init(&rng, 1, 1);
    reply_init(&r, &(struct reply_opts){0});
    buf_init(&text, MEM_HARNESS, CORPUS_BODY_MAX);
    int rc = truth_open(&(struct truth_opts){0}, &truth);
    for (int32_t i = 0; i < corpus_n() && !rc; i++) {
        struct corpus_case c;
        bool read = false;
        bool asked = false;
        rc = stop && stop() ? err_set(ERR_CANCELED, "interrupted") : corpus_make(i, &c);
        if (rc) {
            break;
        }
        rc = read_case(&c, &rng, &r, &text, &read);
        rc = rc ? rc : ask_case(&c, truth, &asked);
        n_read += read ? 1 : 0;
        n_asked += asked ? 1 : 0;
        if (!first[0] && !(read && asked)) {
            (void)str_copy(first, CORPUS_NAME_MAX, c.name);
        }
        corpus_fini(&c);
    }
    truth_close(truth);
    reply_fini(&r);
    buf_fini(&text);
    if (rc) {
        return rc;
    }
    struct selftest_row *w = add_floor(t, "answers read right at any cut", "", n_read, corpus_n());
    (void)str_copy(w->note, SELFTEST_NOTE_MAX, first);
    add_floor(t, "answers over sockets given their class", "", n_asked, corpus_n());
    return 0;
}

int selftest_run(bool (*stop)(void), void (*tell)(const char *part), struct selftest *t) {
    *t = (struct selftest){0};
    tell("clock and schedules");
    check_clock(t);
    int rc = check_schedules(t);
    if (!rc) {
        tell("latency against the truth server");
        rc = check_latency(t, stop);
    }
    if (!rc) {
        tell("speed");
        rc = check_speed(t, stop);
    }
    if (!rc) {
        tell("answers, good and broken");
        rc = check_corpus(t, stop);
    }
    return rc;
}
