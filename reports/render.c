/* The page from top to bottom: what was found, then what it is made of, then how to check it. */
#include "reports/render.h"

#include <math.h>
#include <stdio.h>

#include "engine/base/err.h"
#include "reports/html.h"
#include "reports/json_out.h"
#include "reports/show.h"
#include "reports/term.h"

static enum doc_tone tone_of(const struct report *r, const struct compare_target *c) {
    double increase = r->targets[c->target].perplexity_ratio.value - 1;
    if (c->failed) {
        return DOC_BAD;
    }
    if (isnan(increase)) {
        return DOC_WARN;
    }
    return increase <= 0.05 ? DOC_GOOD : (increase <= 0.15 ? DOC_WARN : DOC_BAD);
}

void render_headlines(const struct render *w) {
    char text[2 * COMPARE_TEXT_MAX + 32];
    for (int32_t i = 0; i < w->c->n; i++) {
        const struct compare_target *c = &w->c->items[i];
        snprintf(text, sizeof text, "%s%s%s", c->sentence, c->failed ? " Limit exceeded: " : "",
                 c->failures);
        doc_card(w->d, tone_of(w->r, c), c->title, text);
    }
    if (w->c->n == 0 && w->r->n_targets > 0) {
        doc_card(w->d, DOC_PLAIN, "One target, nothing to compare it with",
                 "Name a second target in the scenario to see the trade-off.");
    }
    for (int32_t i = 0; i < w->r->n_runs; i++) {
        const struct report_run *run = &w->r->runs[i];
        if (run->verdict.kind != VERDICT_VALID) {
            doc_para(w->d, DOC_WARN, "%s at %s is %s: %s.", w->r->targets[run->target].name,
                     run->point, verdict_name(run->verdict.kind), run->verdict.reason);
        }
    }
}

void render_report(const struct render *w) {
    render_headlines(w);
    render_glance(w);
    render_plots(w);
    render_sizes(w);
    render_quality(w);
    render_latency(w);
    render_points(w);
    render_load(w);
    render_limits(w);
    render_answers(w);
    render_quantization(w);
    render_peers(w);
    render_provenance(w);
}

void render_compare(const struct render *w) {
    render_headlines(w);
    render_sizes(w);
    render_quality(w);
    render_points(w);
}

static int to_page(struct store *s,
                   const struct report_opts *opts,
                   const struct doc_ops *ops,
                   struct buf *out) {
    struct report r;
    struct compare c;
    struct doc d;
    char title[256];
    char subtitle[256];
    char date[SHOW_MAX];
    int rc = summary_read(s, opts->session_id, &r);
    if (rc) {
        return rc;
    }
    rc = compare_make(&r, NULL, &c);
    if (rc) {
        summary_fini(&r);
        return rc;
    }
    snprintf(title, sizeof title, "%.200s", r.scenario_name ? r.scenario_name : "Trilemma results");
    snprintf(subtitle, sizeof subtitle, "%d target%s, %d run%s, session %lld of %s%s", r.n_targets,
             r.n_targets == 1 ? "" : "s", r.n_runs, r.n_runs == 1 ? "" : "s",
             (long long)r.session_id, show_date(date, r.start_wall_ns),
             r.status && r.status[0] == 'd' ? "" : " (not finished)");
    doc_begin(&d, ops, out, title, subtitle);
    render_report(&(struct render){.r = &r, .c = &c, .o = opts, .d = &d});
    rc = doc_end(&d);
    compare_fini(&c);
    summary_fini(&r);
    return rc;
}

int report_html(struct store *s, const struct report_opts *opts, struct buf *out) {
    return to_page(s, opts, &html_ops, out);
}

int report_text(struct store *s, const struct report_opts *opts, struct buf *out) {
    return to_page(s, opts, &term_ops, out);
}

int report_json(struct store *s, const struct report_opts *opts, struct buf *out) {
    struct report r;
    int rc = summary_read(s, opts->session_id, &r);
    if (rc) {
        return rc;
    }
    rc = json_out_report(&r, out);
    summary_fini(&r);
    return rc;
}

/* Reads and compares; own: caller, both fini. */
static int make(struct store *s,
                const struct report_opts *opts,
                const struct compare_limits *limits,
                struct report *r,
                struct compare *c) {
    int rc = summary_read(s, opts->session_id, r);
    if (rc) {
        return rc;
    }
    rc = compare_make(r, limits, c);
    if (!rc && c->n == 0) {
        compare_fini(c);
        rc = err_set(ERR_NOTFOUND, "session %lld has no base and other target to compare",
                     (long long)r->session_id);
    }
    if (rc) {
        summary_fini(r);
    }
    return rc;
}

int compare_text(struct store *s,
                 const struct report_opts *opts,
                 const struct compare_limits *limits,
                 struct buf *out,
                 bool *failed) {
    struct report r;
    struct compare c;
    struct doc d;
    char subtitle[128];
    int rc = make(s, opts, limits, &r, &c);
    if (rc) {
        return rc;
    }
    snprintf(subtitle, sizeof subtitle, "session %lld, base %.64s", (long long)r.session_id,
             r.targets[r.base].name);
    doc_begin(&d, &term_ops, out, "Base against the others", subtitle);
    render_compare(&(struct render){.r = &r, .c = &c, .o = opts, .limits = limits, .d = &d});
    rc = doc_end(&d);
    *failed = c.failed;
    compare_fini(&c);
    summary_fini(&r);
    return rc;
}

int compare_json(struct store *s,
                 const struct report_opts *opts,
                 const struct compare_limits *limits,
                 struct buf *out,
                 bool *failed) {
    struct report r;
    struct compare c;
    int rc = make(s, opts, limits, &r, &c);
    if (rc) {
        return rc;
    }
    rc = json_out_compare(&r, &c, out);
    *failed = c.failed;
    compare_fini(&c);
    summary_fini(&r);
    return rc;
}
