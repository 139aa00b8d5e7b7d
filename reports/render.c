/* The page from top to bottom: what was found, then what it is made of, then how to check it. */
#include "reports/render.h"

#include <math.h>
#include <stdio.h>

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
    render_failures(w);
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
