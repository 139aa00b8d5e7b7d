/* The plots: trade-off of quality against price and speed, distributions, throughput over time. A
 * missing gnuplot is said once in their place. */
#include <math.h>
#include <stdio.h>

#include "engine/base/err.h"
#include "engine/base/str.h"
#include "reports/pareto.h"
#include "reports/plot.h"
#include "reports/render.h"

enum { TARGETS_MAX = PLOT_SERIES_MAX, RATE_POINTS_MAX = 60 };

/* Draws one plot into the page. out: false when no further one should be tried */
static bool draw(const struct render *w, const struct plot *p, const char *caption) {
    struct buf svg;
    buf_init(&svg, MEM_REPORT, PLOT_SVG_MAX);
    int rc = plot_draw(p, &svg);
    if (rc == ERR_NOMEM) {
        w->d->rc = w->d->rc ? w->d->rc : rc;
    } else if (rc) {
        doc_para(w->d, DOC_WARN, "No plot here: %s.", err_msg());
    } else {
        doc_svg(w->d, caption, buf_cstr(&svg));
    }
    buf_fini(&svg);
    return rc == 0;
}

/* A target's place in a trade-off: x value, y quality. */
struct place {
    double x;
    double y;
    double x_lo;
    double x_hi;
    double y_lo;
    double y_hi;
};

static bool tradeoff(const struct render *w, bool is_cost) {
    const struct report *r = w->r;
    struct place at[TARGETS_MAX];
    struct pareto_point front[TARGETS_MAX];
    struct plot p = {.name = is_cost ? "cost" : "speed",
                     .x_label = is_cost ? "US dollars per million output tokens at this load"
                                        : "milliseconds per output token (TPOT, mean)",
                     .y_label = "perplexity",
                     .form = PLOT_POINTS};
    int32_t index[TARGETS_MAX];
    for (int32_t i = 0; i < r->n_targets && p.n_series < TARGETS_MAX; i++) {
        const struct report_run *run = summary_top_run(r, i);
        struct stat_ci y = r->targets[i].perplexity;
        struct stat_ci x = stat_none();
        if (run) {
            x = is_cost ? run->usd_per_mtok : run->dist[2].mean;
        }
        double scale = is_cost ? 1 : 1e3;
        if (isnan(x.value) || isnan(y.value)) {
            continue;
        }
        int32_t k = p.n_series++;
        index[k] = i;
        at[k] = (struct place){x.value * scale, y.value, x.lo * scale, x.hi * scale, y.lo, y.hi};
        front[k] = (struct pareto_point){.cost = {x.value, y.value, 0}};
        p.series[k] = (struct plot_series){.colour = i,
                                           .dash = k,
                                           .n = 1,
                                           .x = &at[k].x,
                                           .y = &at[k].y,
                                           .x_lo = &at[k].x_lo,
                                           .x_hi = &at[k].x_hi,
                                           .y_lo = &at[k].y_lo,
                                           .y_hi = &at[k].y_hi};
    }
    if (p.n_series < 2) {
        return true;
    }
    pareto_mark(front, p.n_series);
    for (int32_t k = 0; k < p.n_series; k++) {
        snprintf(p.series[k].label, PLOT_LABEL_MAX, "%.40s%s", r->targets[index[k]].name,
                 front[k].on_front ? "" : " (beaten)");
    }
    return draw(w, &p,
                is_cost ? "Quality against price at the highest load; lower left is better, bars "
                          "are 95 % intervals"
                        : "Quality against speed at the highest load; lower left is better, bars "
                          "are 95 % intervals");
}

/* Distribution of one metric, one curve a run; only the highest load when there are too many. */
static bool distribution(const struct render *w,
                         int32_t metric,
                         const char *name,
                         const char *x_label,
                         const char *caption) {
    const struct report *r = w->r;
    double share[SUMMARY_CURVE] = {0};
    double ms[PLOT_SERIES_MAX][SUMMARY_CURVE];
    struct plot p = {.name = name,
                     .x_label = x_label,
                     .y_label = "share of samples",
                     .form = PLOT_LINES,
                     .from_zero = true};
    double lo = (double)INFINITY;
    double hi = 0;
    for (int32_t i = 0; i < r->n_runs && p.n_series < PLOT_SERIES_MAX; i++) {
        const struct report_run *run = &r->runs[i];
        const struct report_dist *d = &run->dist[metric];
        if (d->n == 0 || (r->n_runs > PLOT_SERIES_MAX && run != summary_top_run(r, run->target))) {
            continue;
        }
        struct plot_series *s = &p.series[p.n_series];
        *s = (struct plot_series){.colour = run->target,
                                  .dash = (int32_t)run->point_index,
                                  .n = SUMMARY_CURVE,
                                  .x = ms[p.n_series],
                                  .y = share};
        snprintf(s->label, PLOT_LABEL_MAX, "%.30s, %.24s", r->targets[run->target].name,
                 run->point);
        for (int32_t k = 0; k < SUMMARY_CURVE; k++) {
            ms[p.n_series][k] = d->curve[k] * 1e3;
            share[k] = (double)k / (SUMMARY_CURVE - 1);
        }
        lo = fmin(lo, d->curve[5]);
        hi = fmax(hi, d->curve[99]);
        p.n_series++;
    }
    p.x_log = lo > 0 && hi > 20 * lo;
    return p.n_series == 0 || draw(w, &p, caption);
}

/* Bins joined so that a curve has at most RATE_POINTS_MAX steps. out: their number */
static int32_t coarse(const struct report_run *run, double *t, double *rate) {
    int32_t group = (int32_t)i64_div_up(run->n_bins, RATE_POINTS_MAX);
    int32_t n = run->n_bins / group;
    for (int32_t k = 0; k < n; k++) {
        rate[k] = 0;
        t[k] = (k + 1) * group * run->bin_s;
        for (int32_t i = 0; i < group; i++) {
            rate[k] += run->tokens_per_s[k * group + i] / group;
        }
    }
    return n;
}

static bool rates(const struct render *w) {
    const struct report *r = w->r;
    double t[PLOT_SERIES_MAX][RATE_POINTS_MAX];
    double rate[PLOT_SERIES_MAX][RATE_POINTS_MAX];
    struct plot p = {.name = "rate",
                     .x_label = "seconds from the start of the measured phase",
                     .y_label = "output tokens per second",
                     .form = PLOT_STEPS,
                     .is_wide = true,
                     .from_zero = true};
    for (int32_t i = 0; i < r->n_targets && p.n_series < PLOT_SERIES_MAX; i++) {
        const struct report_run *run = summary_top_run(r, i);
        if (!run || run->n_bins < 2) {
            continue;
        }
        int32_t k = p.n_series++;
        p.series[k] = (struct plot_series){
            .colour = i, .n = coarse(run, t[k], rate[k]), .x = t[k], .y = rate[k]};
        snprintf(p.series[k].label, PLOT_LABEL_MAX, "%.30s, %.24s", r->targets[i].name, run->point);
    }
    return p.n_series == 0 ||
           draw(w, &p, "Output over time at the highest load, every token where it arrived");
}

void render_plots(const struct render *w) {
    if (w->o->without_plots || w->d->ops->hides_folds) {
        return;
    }
    doc_section(w->d, "The trade-off");
    doc_plots(w->d);
    bool go_on = tradeoff(w, true) && tradeoff(w, false);
    go_on = go_on && distribution(w, 0, "ttft", "time to first token, ms",
                                  "Time to first token: share of requests that had it by then");
    go_on = go_on && distribution(w, 1, "itl", "time between tokens, ms",
                                  "Time between tokens: share of gaps no longer than that");
    if (go_on) {
        rates(w);
    }
    doc_plots_end(w->d);
}
