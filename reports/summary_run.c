/* The numbers of one run: distributions, steady window, throughput, goodput, verdict.
 *
 *   v_ttft v_itl v_tpot v_e2e ---> struct report_dist      samples in the order of intended starts
 *   v_tokens_per_bin ---> steady window ---> tokens per second inside it (all requests, also those
 *                                            that began before or ended after)
 *   v_goodput_input + gaps ---> good requests ---> per second of the measured phase
 *   v_run_counts, v_send_lag, v_in_flight ---> verdict, unless the run brought its own
 *
 * A gap of an event with several tokens counts once for each token. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/base/mem.h"
#include "engine/base/str.h"
#include "reports/cost.h"
#include "reports/summary_int.h"

static const double BIN_S = SUMMARY_BIN_NS * 1e-9;

enum { GOOD_BINS = 40, FLIGHT_POINTS = 30 };

int summary_push(struct summary_values *v, double x, int64_t times) {
    if (times > SUMMARY_SAMPLES_MAX - v->n) {
        return err_set(ERR_LIMIT, "more than %d samples in one run", (int)SUMMARY_SAMPLES_MAX);
    }
    if (v->n + times > v->cap) {
        int64_t cap = i64_max(i64_max(256, v->n + times), v->cap * 2);
        double *bigger = mem_realloc(MEM_REPORT, v->x, cap * (int64_t)sizeof *bigger);
        if (!bigger) {
            return ERR_NOMEM;
        }
        v->x = bigger;
        v->cap = cap;
    }
    for (int64_t i = 0; i < times; i++) {
        v->x[v->n++] = x;
    }
    return 0;
}

static int take_value(void *ctx, const struct store_rows *row) {
    return summary_push(ctx, store_rows_f64(row, 0), 1);
}

int summary_describe(const struct summary_values *v, struct report_dist *d) {
    *d = (struct report_dist){.n = v->n,
                              .mean = stat_mean(v->x, v->n),
                              .p50 = stat_none(),
                              .p90 = stat_none(),
                              .p95 = stat_none(),
                              .p99 = stat_none()};
    if (v->n == 0) {
        return 0;
    }
    double *sorted = mem_array(MEM_REPORT, v->n, (int64_t)sizeof *sorted);
    if (!sorted) {
        return ERR_NOMEM;
    }
    memcpy(sorted, v->x, (size_t)v->n * sizeof *sorted);
    stat_sort(sorted, v->n);
    d->p50 = stat_quantile(v->x, sorted, v->n, 0.5);
    d->p90 = stat_quantile(v->x, sorted, v->n, 0.9);
    d->p95 = stat_quantile(v->x, sorted, v->n, 0.95);
    d->p99 = stat_quantile(v->x, sorted, v->n, 0.99);
    for (int32_t i = 0; i < SUMMARY_CURVE; i++) {
        d->curve[i] = stat_sorted_quantile(sorted, v->n, (double)i / (SUMMARY_CURVE - 1));
    }
    mem_free(sorted);
    return 0;
}

static int read_dist(struct store *s, const char *view, int64_t run_id, struct report_dist *d) {
    struct summary_values v = {0};
    int rc = summary_each(s, view, "value_s", "run_id", run_id, "seq", take_value, &v);
    rc = rc ? rc : summary_describe(&v, d);
    mem_free(v.x);
    return rc;
}

/* The limits that a request's own numbers must hold; those on itl follow with its gaps. */
static bool request_holds(const struct report *r, const struct report_sample *q) {
    for (int32_t i = 0; i < r->n_slos; i++) {
        const struct report_slo *o = &r->slos[i];
        bool is_tpot = str_eq(o->metric, "tpot");
        if (str_eq(o->metric, "itl") || (is_tpot && isnan(q->tpot_s))) {
            continue;
        }
        double value = str_eq(o->metric, "ttft") ? q->ttft_s : (is_tpot ? q->tpot_s : q->e2e_s);
        if (!(value <= o->limit_s)) {
            return false;
        }
    }
    return true;
}

struct sample_reader {
    const struct report *r;
    struct report_run *run;
    int64_t cap;
};

static int take_sample(void *ctx, const struct store_rows *row) {
    struct sample_reader *t = ctx;
    struct report_run *run = t->run;
    if (run->n_samples == t->cap) {
        int64_t cap = i64_max(256, t->cap * 2);
        struct report_sample *bigger =
            mem_realloc(MEM_REPORT, run->samples, cap * (int64_t)sizeof *bigger);
        if (!bigger) {
            return ERR_NOMEM;
        }
        run->samples = bigger;
        t->cap = cap;
    }
    struct report_sample *q = &run->samples[run->n_samples++];
    *q = (struct report_sample){.seq = store_rows_i64(row, 0),
                                .ok = store_rows_i64(row, 1) == 1,
                                .start_s = store_rows_f64(row, 2),
                                .ttft_s = store_rows_f64(row, 3),
                                .tpot_s = store_rows_f64(row, 4),
                                .e2e_s = store_rows_f64(row, 5)};
    q->good = q->ok && request_holds(t->r, q);
    return 0;
}

static int take_counts(void *ctx, const struct store_rows *row) {
    struct report_run *run = ctx;
    run->n_offered = store_rows_i64(row, 0);
    run->n_ok = store_rows_i64(row, 1);
    run->n_failed = store_rows_i64(row, 2);
    run->n_prompt = store_rows_i64(row, 3);
    run->n_output = store_rows_i64(row, 4);
    run->n_cached_prompt = store_rows_i64(row, 5);
    run->n_preempt = store_rows_i64(row, 6);
    return 0;
}

struct failure_reader {
    struct report *r;
    struct report_run *run;
};

static int take_failure(void *ctx, const struct store_rows *row) {
    struct failure_reader *t = ctx;
    struct report_run *run = t->run;
    if (run->n_failures == SUMMARY_FAILURES_MAX) {
        struct report_failure *last = &run->failures[SUMMARY_FAILURES_MAX - 1];
        last->n += store_rows_i64(row, 1);
        return summary_keep(t->r, "other", &last->error_class);
    }
    struct report_failure *f = &run->failures[run->n_failures++];
    f->n = store_rows_i64(row, 1);
    return summary_keep(t->r, store_rows_str(row, 0), &f->error_class);
}

static int take_bounds(void *ctx, const struct store_rows *row) {
    struct report_run *run = ctx;
    run->measured_from_s = store_rows_f64(row, 0);
    run->measured_to_s = store_rows_f64(row, 1);
    const char *verdict = store_rows_str(row, 2);
    run->verdict.kind = VERDICT_N;
    for (int32_t i = 0; i < VERDICT_N && verdict; i++) {
        if (str_eq(verdict, verdict_name((enum verdict_kind)i))) {
            run->verdict.kind = (enum verdict_kind)i;
        }
    }
    const char *reason = store_rows_str(row, 3);
    str_copy(run->verdict.reason, VERDICT_REASON_MAX, reason ? reason : "");
    return 0;
}

/* Where the harness gave no bounds (an aborted run): first intended start to last end. */
static void bounds_from_samples(struct report_run *run) {
    double from = (double)INFINITY;
    double to = 0;
    for (int64_t i = 0; i < run->n_samples; i++) {
        const struct report_sample *q = &run->samples[i];
        from = fmin(from, q->start_s);
        to = fmax(to, fmax(q->start_s, isnan(q->e2e_s) ? 0 : q->start_s + q->e2e_s));
    }
    run->measured_from_s =
        isnan(run->measured_from_s) && run->n_samples ? from : run->measured_from_s;
    run->measured_to_s = isnan(run->measured_to_s) && run->n_samples ? to : run->measured_to_s;
}

/* A rate is never below 0; NaN stays. */
static double at_least_zero(double v) {
    return v < 0 ? 0 : v;
}

/* Cuts the measured phase into bins of whole quarter seconds; none when it is too short. */
static void plan_bins(struct report_run *run, struct summary_bins *bins) {
    double length = run->measured_to_s - run->measured_from_s;
    if (!(length >= 2 * BIN_S) || length > 1e9) {
        return;
    }
    bins->first = (int64_t)ceil(run->measured_from_s / BIN_S - 1e-9);
    int64_t n = (int64_t)floor(run->measured_to_s / BIN_S + 1e-9) - bins->first;
    bins->group = i64_div_up(i64_max(n, 1), SUMMARY_BINS_MAX);
    run->n_bins = (int32_t)(n / bins->group);
    bins->last = bins->first + run->n_bins * bins->group;
    run->bin_s = BIN_S * (double)bins->group;
}

static void rate(const struct report *r, const struct summary_bins *bins, struct report_run *run) {
    run->output_tokens_per_s = stat_none();
    run->usd_per_mtok = stat_none();
    run->window_from_s = run->measured_from_s;
    run->window_to_s = run->measured_to_s;
    if (run->n_bins < 1) {
        snprintf(run->steady.reason, sizeof run->steady.reason, "the measured phase is too short");
        return;
    }
    for (int32_t i = 0; i < run->n_bins; i++) {
        run->tokens_per_s[i] = bins->sums[i] / run->bin_s;
    }
    steady_find(run->tokens_per_s, run->n_bins, &run->steady);
    int32_t from = run->steady.found ? run->steady.from : 0;
    int32_t to = run->steady.found ? run->steady.to : run->n_bins;
    run->window_from_s = (double)bins->first * BIN_S + from * run->bin_s;
    run->window_to_s = (double)bins->first * BIN_S + to * run->bin_s;
    run->output_tokens_per_s = stat_mean(run->tokens_per_s + from, to - from);
    run->output_tokens_per_s.lo = at_least_zero(run->output_tokens_per_s.lo);
    run->usd_per_mtok = cost_usd_per_mtok(r->usd_per_hour, run->output_tokens_per_s);
}

static int goodput(const struct report *r, struct report_run *run) {
    double per_bin[GOOD_BINS] = {0};
    double n_good = 0;
    double length = run->measured_to_s - run->measured_from_s;
    run->goodput_per_s = stat_none();
    run->goodput_share = stat_none();
    if (r->n_slos == 0 || run->n_samples == 0 || !(length > 0)) {
        return 0;
    }
    double *good = mem_array(MEM_REPORT, run->n_samples, (int64_t)sizeof *good);
    if (!good) {
        return ERR_NOMEM;
    }
    for (int64_t i = 0; i < run->n_samples; i++) {
        double place = (run->samples[i].start_s - run->measured_from_s) / length * GOOD_BINS;
        int32_t bin = (int32_t)fmin(fmax(place, 0), GOOD_BINS - 1);
        good[i] = run->samples[i].good ? 1 : 0;
        per_bin[bin] += good[i];
        n_good += good[i];
    }
    double n_eff = stat_n_eff(good, run->n_samples);
    n_eff = isnan(n_eff) ? (double)run->n_samples : n_eff;
    run->goodput_share = stat_share(n_good / (double)run->n_samples * n_eff, n_eff);
    struct stat_ci c = stat_mean(per_bin, GOOD_BINS);
    double scale = GOOD_BINS / length;
    run->goodput_per_s =
        (struct stat_ci){c.value * scale, at_least_zero(c.lo * scale), c.hi * scale};
    mem_free(good);
    return 0;
}

struct flight_reader {
    double from_s;
    double step_s;
    double count[FLIGHT_POINTS];
};

static int take_flight(void *ctx, const struct store_rows *row) {
    struct flight_reader *t = ctx;
    double from = store_rows_f64(row, 0);
    double to = store_rows_f64(row, 1);
    for (int32_t i = 0; i < FLIGHT_POINTS; i++) {
        double at = t->from_s + (i + 0.5) * t->step_s;
        t->count[i] += from <= at && (isnan(to) || at < to) ? 1 : 0;
    }
    return 0;
}

static int judge(struct store *s, struct report_run *run) {
    enum { THIRD = FLIGHT_POINTS / 3 };
    struct flight_reader t = {.from_s = run->measured_from_s,
                              .step_s =
                                  (run->measured_to_s - run->measured_from_s) / FLIGHT_POINTS};
    struct verdict_in in = {.is_aborted = run->status && str_eq(run->status, "aborted"),
                            .is_closed = run->arrival && (str_eq(run->arrival, "closed") ||
                                                          str_eq(run->arrival, "burst")),
                            .n_offered = run->n_offered,
                            .n_ok = run->n_ok,
                            .n_failed = run->n_failed,
                            .send_lag_p99_s = run->send_lag_p99.value,
                            .ttft_p50_s = run->dist[0].p50.value,
                            .in_flight_first = (double)NAN,
                            .in_flight_last = (double)NAN,
                            .in_flight_se = (double)NAN};
    int rc = summary_each(s, "v_in_flight", "from_s, to_s", "run_id", run->run_id, NULL,
                          take_flight, &t);
    if (rc) {
        return rc;
    }
    if (t.step_s > 0) {
        const double *last = t.count + 2 * THIRD;
        double square = 0;
        in.in_flight_first = stat_mean(t.count, THIRD).value;
        in.in_flight_last = stat_mean(last, THIRD).value;
        for (int32_t i = 0; i < THIRD; i++) {
            square += pow(t.count[i] - in.in_flight_first, 2) + pow(last[i] - in.in_flight_last, 2);
        }
        in.in_flight_se = sqrt(square / (THIRD - 1) / THIRD);
    }
    verdict_judge(&in, &run->verdict);
    return 0;
}

struct peer_reader {
    struct report *r;
    struct summary_gap_means gaps;
    int32_t run;
};

static double itl_of(const struct peer_reader *t, const struct store_rows *row) {
    const char *from = store_rows_str(row, 4);
    if (!from) {
        return store_rows_f64(row, 3);
    }
    return str_eq(from, "token_s") ? t->gaps.token_s : t->gaps.event_s;
}

/* Our own rate is that of the steady window. */
static int take_peer(void *ctx, const struct store_rows *row) {
    struct peer_reader *t = ctx;
    struct report *r = t->r;
    int rc = summary_grow(&r->peers, r->n_peers, (int64_t)sizeof *r->peers);
    if (rc) {
        return rc;
    }
    struct report_peer *p = &r->peers[r->n_peers];
    *p = (struct report_peer){.run = t->run,
                              .ttft_s = store_rows_f64(row, 1),
                              .tpot_s = store_rows_f64(row, 2),
                              .itl_s = itl_of(t, row),
                              .e2e_s = store_rows_f64(row, 5),
                              .output_tokens_per_s = store_rows_f64(row, 6)};
    rc = summary_keep(r, store_rows_str(row, 0), &p->definition);
    if (!rc && str_eq(p->definition, "Trilemma")) {
        p->output_tokens_per_s = r->runs[t->run].output_tokens_per_s.value;
    }
    r->n_peers += rc ? 0 : 1;
    return rc;
}

static int read_lag(struct store *s, struct report_run *run) {
    struct report_dist lag;
    int rc = read_dist(s, "v_send_lag", run->run_id, &lag);
    run->send_lag_p99 = rc ? stat_none() : lag.p99;
    return rc;
}

int summary_run(struct store *s, struct report *r, struct report_run *run) {
    struct sample_reader samples = {.r = r, .run = run};
    struct failure_reader failures = {.r = r, .run = run};
    struct peer_reader peers = {.r = r, .run = (int32_t)(run - r->runs)};
    struct summary_bins bins = {0};
    int64_t id = run->run_id;
    int rc = summary_each(s, "v_run_counts",
                          "n_offered, n_ok, n_failed, n_prompt, n_output, n_cached_prompt, "
                          "n_preempt",
                          "run_id", id, NULL, take_counts, run);
    rc = rc ? rc
            : summary_each(s, "v_run_failures", "error_class, n", "run_id", id, "error_class",
                           take_failure, &failures);
    rc = rc ? rc
            : summary_each(s, "v_run", "measured_from_s, measured_to_s, verdict, reason", "run_id",
                           id, NULL, take_bounds, run);
    rc = rc ? rc
            : summary_each(s, "v_goodput_input", "seq, ok, start_s, ttft_s, tpot_s, e2e_s",
                           "run_id", id, "seq", take_sample, &samples);
    bounds_from_samples(run);
    plan_bins(run, &bins);
    rc = rc ? rc : read_dist(s, "v_ttft", id, &run->dist[0]);
    rc = rc ? rc : summary_gaps(s, r, run, &bins, &peers.gaps);
    rc = rc ? rc : read_dist(s, "v_tpot", id, &run->dist[2]);
    rc = rc ? rc : read_dist(s, "v_e2e", id, &run->dist[3]);
    rc = rc ? rc : read_dist(s, "v_ttft_service", id, &run->ttft_service);
    rc = rc ? rc : read_lag(s, run);
    rate(r, &bins, run);
    rc = rc ? rc : goodput(r, run);
    rc = rc ? rc
            : summary_each(s, "v_peer_means",
                           "definition, ttft_s, tpot_s, itl_s, itl_from, e2e_s, "
                           "output_tokens_per_s",
                           "run_id", id, NULL, take_peer, &peers);
    return rc || run->verdict.kind != VERDICT_N ? rc : judge(s, run);
}

static int take_run_row(void *ctx, const struct store_rows *row) {
    struct report *r = ctx;
    struct report_run *run = &r->runs[0];
    run->run_id = store_rows_i64(row, 0);
    int rc = summary_keep(r, store_rows_str(row, 1), &run->arrival);
    return rc ? rc : summary_keep(r, store_rows_str(row, 2), &run->status);
}

int summary_judge(struct store *s, int64_t run_id, struct verdict *v) {
    struct report r = {.base = -1};
    r.runs = mem_calloc(MEM_REPORT, (int64_t)sizeof *r.runs);
    if (!r.runs) {
        return ERR_NOMEM;
    }
    r.n_runs = 1;
    int rc = store_flush(s);
    rc = rc ? rc
            : summary_each(s, "v_run", "run_id, arrival, status", "run_id", run_id, NULL,
                           take_run_row, &r);
    if (!rc && r.runs[0].run_id != run_id) {
        rc = err_set(ERR_NOTFOUND, "no run %lld in this database", (long long)run_id);
    }
    rc = rc ? rc : summary_run(s, &r, &r.runs[0]);
    rc = rc ? rc : judge(s, &r.runs[0]);
    if (!rc) {
        *v = r.runs[0].verdict;
    }
    summary_fini(&r);
    return rc;
}
