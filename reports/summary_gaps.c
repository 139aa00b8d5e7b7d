/* One pass over the token events of a run, a request at a time: v_itl, v_tokens_per_bin and the gap
 * means of v_peer_gaps in C, because ten million rows are too many to step through once for each.
 *
 * A gap of an event with several tokens is shared among them and counts once for each. Gaps are
 * those of successful measured requests; bins hold the tokens of all. */
#include <math.h>

#include "engine/base/err.h"
#include "engine/base/mem.h"
#include "engine/base/str.h"
#include "reports/summary_int.h"

/* Whether quantile q of the gaps is within a limit; sorts them only when counting leaves it open.
 */
static bool quantile_holds(double *gaps, int64_t n, double q, double limit) {
    int64_t n_within = 0;
    int64_t below = (int64_t)(q * (double)(n - 1));
    for (int64_t i = 0; i < n; i++) {
        n_within += gaps[i] <= limit ? 1 : 0;
    }
    if (n_within <= below || n_within >= i64_min(below + 2, n)) {
        return n_within > below;
    }
    stat_sort(gaps, n);
    return stat_sorted_quantile(gaps, n, q) <= limit;
}

/* The gaps of one request against the limits on itl. */
static bool gaps_hold(const struct report *r, double *gaps, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        sum += gaps[i];
    }
    for (int32_t i = 0; i < r->n_slos && n > 0; i++) {
        const struct report_slo *o = &r->slos[i];
        double percent = 100;
        if (!str_eq(o->metric, "itl")) {
            continue;
        }
        bool is_mean = str_eq(o->stat, "mean");
        if (o->stat[0] == 'p' && str_f64(o->stat + 1, &percent)) {
            percent = 100;
        }
        if (!(is_mean ? sum / (double)n <= o->limit_s
                      : quantile_holds(gaps, n, percent / 100, o->limit_s))) {
            return false;
        }
    }
    return true;
}

struct gap_reader {
    const struct report *r;
    struct report_run *run;
    struct summary_bins *bins;
    struct summary_values all;
    struct summary_values one;
    int64_t at; /* index into run->samples */
    double sum_s;
    int64_t n_gaps;
    double token_sum_s; /* gaps of events that bear tokens */
    int64_t n_tokens;
};

static void count_tokens(struct summary_bins *b, const struct store_events *e) {
    for (int64_t i = 0; i < e->n; i++) {
        int64_t bin = e->events[i].t_ns / SUMMARY_BIN_NS;
        if (bin >= b->first && bin < b->last) {
            b->sums[(bin - b->first) / b->group] += (double)e->events[i].n_tokens;
        }
    }
}

/* The measured request with this number if it succeeded, else NULL. */
static struct report_sample *sample_of(struct gap_reader *g, int64_t seq) {
    struct report_run *run = g->run;
    while (g->at < run->n_samples && run->samples[g->at].seq < seq) {
        g->at++;
    }
    bool is_it = g->at < run->n_samples && run->samples[g->at].seq == seq;
    return is_it && run->samples[g->at].ok ? &run->samples[g->at] : NULL;
}

static int take_events(void *ctx, const struct store_events *e) {
    struct gap_reader *g = ctx;
    struct report_sample *q = sample_of(g, e->seq);
    count_tokens(g->bins, e);
    g->one.n = 0;
    for (int64_t i = 0; i < e->n && q; i++) {
        const struct store_event *v = &e->events[i];
        if (v->gap_ns == STORE_NULL) {
            continue;
        }
        double gap = (double)v->gap_ns * 1e-9;
        g->sum_s += gap;
        g->n_gaps++;
        if (v->n_tokens > 0) {
            g->token_sum_s += gap;
            g->n_tokens += v->n_tokens;
            int rc = summary_push(&g->one, gap / (double)v->n_tokens, v->n_tokens);
            rc = rc ? rc : summary_push(&g->all, gap / (double)v->n_tokens, v->n_tokens);
            if (rc) {
                return rc;
            }
        }
    }
    if (q && !gaps_hold(g->r, g->one.x, g->one.n)) {
        q->good = false;
    }
    return 0;
}

int summary_gaps(struct store *s,
                 const struct report *r,
                 struct report_run *run,
                 struct summary_bins *bins,
                 struct summary_gap_means *means) {
    struct gap_reader g = {.r = r, .run = run, .bins = bins};
    int rc = store_events_each(s, run->run_id, take_events, &g);
    rc = rc ? rc : summary_describe(&g.all, &run->dist[1]);
    means->token_s = g.n_tokens > 0 ? g.token_sum_s / (double)g.n_tokens : (double)NAN;
    means->event_s = g.n_gaps > 0 ? g.sum_s / (double)g.n_gaps : (double)NAN;
    mem_free(g.all.x);
    mem_free(g.one.x);
    return rc;
}
