/* The tables of figures: sizes, quality, latency, pairs, load, limits. A figure has its 95 %
 * interval below; a run that is not VALID says so in its row. */
#include <math.h>
#include <stdio.h>

#include "engine/base/str.h"
#include "reports/render.h"
#include "reports/show.h"

enum { COLUMNS = DOC_COLUMNS_MAX };

/* One row under construction: the strings of its cells live here. */
struct line {
    char text[COLUMNS][SHOW_MAX];
    char sub[COLUMNS][SHOW_MAX];
    struct doc_cell cells[COLUMNS];
    int32_t n;
};

static struct doc_cell *next(struct line *l) {
    struct doc_cell *c = &l->cells[l->n];
    *c = (struct doc_cell){.text = l->text[l->n], .sub = l->sub[l->n]};
    l->text[l->n][0] = '\0';
    l->sub[l->n][0] = '\0';
    l->n++;
    return c;
}

static void put_text(struct line *l, const char *text, const char *sub) {
    struct doc_cell *c = next(l);
    c->text = show_str(text);
    c->sub = sub;
    c->tone = text && text[0] ? DOC_PLAIN : DOC_MUTED;
}

static void put_ci(struct line *l, struct stat_ci ci, enum show_unit unit) {
    struct doc_cell *c = next(l);
    show_value(l->text[l->n - 1], ci.value, unit);
    show_interval(l->sub[l->n - 1], ci, unit);
    c->is_number = true;
    c->tone = isnan(ci.value) ? DOC_MUTED : DOC_PLAIN;
}

static void put_number(struct line *l, double v, enum show_unit unit) {
    struct doc_cell *c = next(l);
    show_value(l->text[l->n - 1], v, unit);
    c->is_number = true;
    c->tone = isnan(v) ? DOC_MUTED : DOC_PLAIN;
}

static void put_i64(struct line *l, int64_t v, enum show_unit unit) {
    put_number(l, v == STORE_NULL ? (double)NAN : (double)v, unit);
}

/* A size with its share of the base's below. */
static void put_size(struct line *l, int64_t v, int64_t base, bool is_base) {
    put_i64(l, v, SHOW_BYTES);
    if (!is_base && v != STORE_NULL && base != STORE_NULL && base > 0) {
        snprintf(l->sub[l->n - 1], SHOW_MAX, "%.0f %% of base", 100 * (double)v / (double)base);
    }
}

void render_glance(const struct render *w) {
    static const char *const names[] = {"target",        ">memory",   ">perplexity",
                                        ">KL",           ">TTFT p95", ">TPOT mean",
                                        ">output tok/s", ">goodput",  ">USD per Mtok"};
    const struct report *r = w->r;
    const struct report_target *base = r->base >= 0 ? &r->targets[r->base] : NULL;
    if (r->n_targets == 0) {
        return;
    }
    doc_section(w->d, "At a glance");
    doc_table(w->d, names, ARRAY_LEN(names));
    for (int32_t i = 0; i < r->n_targets; i++) {
        const struct report_target *t = &r->targets[i];
        const struct report_run *run = summary_top_run(r, i);
        const struct stat_ci none = stat_none();
        struct line l = {0};
        put_text(&l, t->name, run ? run->point : NULL);
        put_size(&l, t->weight_bytes, base ? base->weight_bytes : STORE_NULL, i == r->base);
        put_ci(&l, t->perplexity, SHOW_PLAIN);
        put_ci(&l, t->kl, SHOW_PLAIN);
        if (i == r->base) {
            l.cells[l.n - 1].text = "base";
        }
        put_ci(&l, run ? run->dist[0].p95 : none, SHOW_SECONDS);
        put_ci(&l, run ? run->dist[2].mean : none, SHOW_SECONDS);
        put_ci(&l, run ? run->output_tokens_per_s : none, SHOW_PLAIN);
        put_ci(&l, run ? run->goodput_per_s : none, SHOW_PER_S);
        put_ci(&l, run ? run->usd_per_mtok : none, SHOW_USD);
        doc_row(w->d, l.cells, l.n);
    }
    doc_table_end(w->d);
}

void render_sizes(const struct render *w) {
    static const char *const names[] = {"target",
                                        "scheme",
                                        "format",
                                        ">on disk",
                                        ">weights in memory",
                                        ">bits per weight",
                                        ">KV bytes per token"};
    const struct report *r = w->r;
    const struct report_target *base = r->base >= 0 ? &r->targets[r->base] : NULL;
    doc_section(w->d, "Size");
    doc_table(w->d, names, ARRAY_LEN(names));
    for (int32_t i = 0; i < r->n_targets; i++) {
        const struct report_target *t = &r->targets[i];
        struct line l = {0};
        put_text(&l, t->name, t->source);
        put_text(&l, t->scheme, NULL);
        put_text(&l, t->format, NULL);
        put_size(&l, t->disk_bytes, base ? base->disk_bytes : STORE_NULL, i == r->base);
        put_size(&l, t->weight_bytes, base ? base->weight_bytes : STORE_NULL, i == r->base);
        put_number(&l, t->bits_per_weight, SHOW_PLAIN);
        put_i64(&l, t->kv_bytes_per_token, SHOW_COUNT);
        doc_row(w->d, l.cells, l.n);
    }
    doc_table_end(w->d);
}

static const struct report_kl *newest_kl(const struct report *r, int32_t target) {
    const struct report_kl *k = NULL;
    for (int32_t i = 0; i < r->n_kls; i++) {
        k = r->kls[i].target == target ? &r->kls[i] : k;
    }
    return k;
}

static void evals_fold(const struct render *w) {
    static const char *const names[] = {"target",  "task",    "definition", "data set",
                                        ">window", ">stride", ">tokens",    ">value"};
    if (w->r->n_evals == 0) {
        return;
    }
    doc_fold(w->d, "Every evaluation with its definition");
    doc_table(w->d, names, ARRAY_LEN(names));
    for (int32_t i = 0; i < w->r->n_evals; i++) {
        const struct report_eval *e = &w->r->evals[i];
        struct line l = {0};
        put_text(&l, w->r->targets[e->target].name, NULL);
        put_text(&l, e->task, NULL);
        put_text(&l, e->definition, NULL);
        put_text(&l, e->dataset, e->dataset_sha256);
        put_i64(&l, e->window_tokens, SHOW_COUNT);
        put_i64(&l, e->stride_tokens, SHOW_COUNT);
        put_i64(&l, e->n_tokens, SHOW_COUNT);
        put_ci(&l, e->value, SHOW_PLAIN);
        doc_row(w->d, l.cells, l.n);
    }
    doc_table_end(w->d);
    doc_fold_end(w->d);
}

void render_quality(const struct render *w) {
    static const char *const names[] = {"target",         ">perplexity",        ">against base",
                                        ">KL divergence", ">KL 50 / 90 / 99 %", ">top-1 agreement"};
    const struct report *r = w->r;
    doc_section(w->d, "Quality");
    doc_table(w->d, names, ARRAY_LEN(names));
    for (int32_t i = 0; i < r->n_targets; i++) {
        const struct report_target *t = &r->targets[i];
        const struct report_kl *k = newest_kl(r, i);
        struct line l = {0};
        put_text(&l, t->name, t->detail);
        put_ci(&l, t->perplexity, SHOW_PLAIN);
        if (i == r->base) {
            put_text(&l, "base", NULL);
            put_text(&l, "base", NULL);
            put_text(&l, "base", NULL);
            put_text(&l, "base", NULL);
        } else {
            put_ci(&l, t->perplexity_ratio, SHOW_RATIO);
            put_ci(&l, t->kl, SHOW_PLAIN);
            put_text(&l, k ? "" : NULL, NULL);
            if (k) {
                snprintf(l.text[l.n - 1], SHOW_MAX, "%.3g / %.3g / %.3g", k->p50, k->p90, k->p99);
                l.cells[l.n - 1].text = l.text[l.n - 1];
                l.cells[l.n - 1].tone = DOC_PLAIN;
            }
            put_ci(&l, t->top1, SHOW_SHARE);
        }
        for (int32_t c = 2; c < l.n; c++) {
            l.cells[c].is_number = true;
            l.cells[c].tone = i == r->base ? DOC_MUTED : l.cells[c].tone;
        }
        doc_row(w->d, l.cells, l.n);
    }
    doc_table_end(w->d);
    doc_para(w->d, DOC_MUTED,
             "KL divergence from the base's next-token distribution, in nats a token. Top-1 "
             "agreement: share of tokens on which both find the same token most likely.");
    evals_fold(w);
}

static void put_run(struct line *l, const struct report *r, const struct report_run *run) {
    put_text(l, r->targets[run->target].name, NULL);
    put_text(l, run->point,
             run->verdict.kind == VERDICT_VALID ? NULL : verdict_name(run->verdict.kind));
}

static void latency_fold(const struct render *w) {
    static const char *const names[] = {"target", "load", "metric", ">samples", ">mean",
                                        ">p50",   ">p90", ">p95",   ">p99"};
    const struct report *r = w->r;
    doc_fold(w->d, "All latencies: mean and percentiles of every metric");
    doc_table(w->d, names, ARRAY_LEN(names));
    for (int32_t i = 0; i < r->n_runs * (SUMMARY_METRICS + 1); i++) {
        const struct report_run *run = &r->runs[i / (SUMMARY_METRICS + 1)];
        int32_t m = i % (SUMMARY_METRICS + 1);
        bool is_service = m == SUMMARY_METRICS;
        const struct report_dist *d = is_service ? &run->ttft_service : &run->dist[m];
        struct line l = {0};
        put_run(&l, r, run);
        put_text(&l, is_service ? "ttft from actual start" : summary_metric_name(m), NULL);
        put_i64(&l, d->n, SHOW_COUNT);
        put_ci(&l, d->mean, SHOW_SECONDS);
        put_ci(&l, d->p50, SHOW_SECONDS);
        put_ci(&l, d->p90, SHOW_SECONDS);
        put_ci(&l, d->p95, SHOW_SECONDS);
        put_ci(&l, d->p99, SHOW_SECONDS);
        doc_row(w->d, l.cells, l.n);
    }
    doc_table_end(w->d);
    doc_fold_end(w->d);
}

void render_latency(const struct render *w) {
    static const char *const names[] = {"target",   "load",     ">TTFT p50",  ">TTFT p95",
                                        ">ITL p50", ">ITL p95", ">TPOT mean", ">E2E p95"};
    const struct report *r = w->r;
    if (r->n_runs == 0) {
        return;
    }
    doc_section(w->d, "Latency");
    doc_table(w->d, names, ARRAY_LEN(names));
    for (int32_t i = 0; i < r->n_runs; i++) {
        const struct report_run *run = &r->runs[i];
        struct line l = {0};
        put_run(&l, r, run);
        put_ci(&l, run->dist[0].p50, SHOW_SECONDS);
        put_ci(&l, run->dist[0].p95, SHOW_SECONDS);
        put_ci(&l, run->dist[1].p50, SHOW_SECONDS);
        put_ci(&l, run->dist[1].p95, SHOW_SECONDS);
        put_ci(&l, run->dist[2].mean, SHOW_SECONDS);
        put_ci(&l, run->dist[3].p95, SHOW_SECONDS);
        doc_row(w->d, l.cells, l.n);
    }
    doc_table_end(w->d);
    doc_para(w->d, DOC_MUTED,
             "TTFT: time to first token, from the intended start. ITL: time between tokens. TPOT: "
             "time per output token after the first, one a request. E2E: to the last token. "
             "Small print: 95 %% interval, with autocorrelation accounted for; \"at least\" where "
             "the samples give no upper bound.");
    latency_fold(w);
}

void render_points(const struct render *w) {
    static const char *const names[] = {"target",           "load",    ">TTFT", ">TPOT",
                                        ">output tokens/s", ">goodput"};
    if (w->c->n == 0 || w->r->n_runs == 0) {
        return;
    }
    doc_section(w->d, "Speed against base, request by request");
    doc_table(w->d, names, ARRAY_LEN(names));
    for (int32_t i = 0; i < w->c->n; i++) {
        const struct compare_target *c = &w->c->items[i];
        for (int32_t k = 0; k < c->n_points; k++) {
            const struct compare_point *p = &c->points[k];
            struct line l = {0};
            put_text(&l, w->r->targets[c->target].name, NULL);
            put_text(&l, w->r->runs[p->run].point, NULL);
            put_ci(&l, p->ttft_ratio, SHOW_RATIO);
            put_ci(&l, p->tpot_ratio, SHOW_RATIO);
            put_number(&l, p->rate_ratio, SHOW_RATIO);
            put_number(&l, p->goodput_ratio, SHOW_RATIO);
            doc_row(w->d, l.cells, l.n);
        }
    }
    doc_table_end(w->d);
    doc_para(w->d, DOC_MUTED,
             "Ratios to the base at the same load; below 1x is faster for TTFT and TPOT. Requests "
             "are paired: same prompt, same length, same intended start.");
}

static enum doc_tone verdict_tone(enum verdict_kind kind) {
    return kind == VERDICT_VALID ? DOC_GOOD : (kind == VERDICT_INCONCLUSIVE ? DOC_WARN : DOC_BAD);
}

static void put_requests(struct line *l, const struct report_run *run) {
    struct doc_cell *c = next(l);
    char *sub = l->sub[l->n - 1];
    snprintf(l->text[l->n - 1], SHOW_MAX, "%lld of %lld", (long long)run->n_ok,
             (long long)run->n_offered);
    c->is_number = true;
    c->tone = run->n_failed > 0 ? DOC_BAD : DOC_PLAIN;
    if (run->n_failures > 0) {
        snprintf(sub, SHOW_MAX, "%lld %.60s%s", (long long)run->failures[0].n,
                 run->failures[0].error_class, run->n_failures > 1 ? ", ..." : "");
    }
}

void render_load(const struct render *w) {
    static const char *const names[] = {
        "target",   "load",        "verdict",       ">answered",     ">output tokens/s",
        ">goodput", ">good share", ">USD per Mtok", ">cached prompt"};
    const struct report *r = w->r;
    if (r->n_runs == 0) {
        return;
    }
    doc_section(w->d, "Throughput, goodput and cost");
    doc_table(w->d, names, ARRAY_LEN(names));
    for (int32_t i = 0; i < r->n_runs; i++) {
        const struct report_run *run = &r->runs[i];
        struct line l = {0};
        put_text(&l, r->targets[run->target].name, NULL);
        put_text(&l, run->point, run->arrival);
        put_text(&l, verdict_name(run->verdict.kind),
                 run->verdict.kind == VERDICT_VALID ? NULL : run->verdict.reason);
        l.cells[l.n - 1].tone = verdict_tone(run->verdict.kind);
        put_requests(&l, run);
        put_ci(&l, run->output_tokens_per_s, SHOW_PLAIN);
        put_ci(&l, run->goodput_per_s, SHOW_PER_S);
        put_ci(&l, run->goodput_share, SHOW_SHARE);
        put_ci(&l, run->usd_per_mtok, SHOW_USD);
        bool known = run->n_cached_prompt != STORE_NULL && run->n_prompt > 0;
        put_number(&l, known ? (double)run->n_cached_prompt / (double)run->n_prompt : (double)NAN,
                   SHOW_SHARE);
        doc_row(w->d, l.cells, l.n);
    }
    doc_table_end(w->d);
    doc_para(w->d, DOC_MUTED,
             "Output tokens of the steady window, requests begun or ended outside it included. "
             "Goodput: requests a second that succeeded within the limits. Cost: the machine's "
             "price at this load, idle time paid for.");
    for (int32_t i = 0; i < r->n_runs; i++) {
        const struct report_run *run = &r->runs[i];
        if (!run->steady.found) {
            doc_para(w->d, DOC_WARN,
                     "%s at %s: no steady window (%s); its rate is that of the whole measured "
                     "phase.",
                     r->targets[run->target].name, run->point, run->steady.reason);
        }
    }
}

static struct stat_ci limited(const struct report_run *run, const struct report_slo *o) {
    const struct report_dist *d = NULL;
    for (int32_t m = 0; m < SUMMARY_METRICS; m++) {
        d = str_eq(o->metric, summary_metric_name(m)) ? &run->dist[m] : d;
    }
    if (!d || str_eq(o->stat, "each")) {
        return stat_none();
    }
    if (str_eq(o->stat, "mean")) {
        return d->mean;
    }
    if (str_eq(o->stat, "p50")) {
        return d->p50;
    }
    if (str_eq(o->stat, "p90")) {
        return d->p90;
    }
    return str_eq(o->stat, "p95") ? d->p95 : d->p99;
}

static void put_limit(struct line *l, struct stat_ci ci, double limit) {
    put_ci(l, ci, SHOW_SECONDS);
    struct doc_cell *c = next(l);
    const char *word = "not measured";
    enum doc_tone tone = DOC_MUTED;
    if (ci.hi <= limit) {
        word = "held";
        tone = DOC_GOOD;
    } else if (ci.lo > limit) {
        word = "exceeded";
        tone = DOC_BAD;
    } else if (!isnan(ci.value)) {
        word = ci.value <= limit ? "held, within the noise" : "exceeded, within the noise";
        tone = DOC_WARN;
    }
    c->text = word;
    c->tone = tone;
}

void render_limits(const struct render *w) {
    static const char *const names[] = {"limit", "target", "load", ">measured", "verdict"};
    const struct report *r = w->r;
    if (r->n_slos == 0 || r->n_runs == 0) {
        return;
    }
    doc_section(w->d, "Service level");
    doc_table(w->d, names, ARRAY_LEN(names));
    for (int32_t i = 0; i < r->n_slos * r->n_runs; i++) {
        const struct report_slo *o = &r->slos[i / r->n_runs];
        const struct report_run *run = &r->runs[i % r->n_runs];
        char limit[SHOW_MAX];
        struct line l = {0};
        if (str_eq(o->stat, "each")) {
            continue;
        }
        put_text(&l, "limit", NULL);
        snprintf(l.text[0], SHOW_MAX, "%s %s at most %s", o->metric, o->stat,
                 show_value(limit, o->limit_s, SHOW_SECONDS));
        l.cells[0].text = l.text[0];
        put_text(&l, r->targets[run->target].name, NULL);
        put_text(&l, run->point, NULL);
        put_limit(&l, limited(run, o), o->limit_s);
        doc_row(w->d, l.cells, l.n);
    }
    doc_table_end(w->d);
}
