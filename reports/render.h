/* Walks a report and writes it to a page; the same walk for HTML and terminal. */
#ifndef REPORTS_RENDER_H
#define REPORTS_RENDER_H

#include "reports/compare.h"
#include "reports/doc.h"
#include "reports/report.h"

struct render {
    const struct report *r;
    const struct compare *c;
    const struct report_opts *o;
    struct doc *d;
};

/* Writes all sections. err: sticks in d */
void render_report(const struct render *w);

/* Headlines and the comparison table alone. */
void render_compare(const struct render *w);

/* Sections, in the order of the page. */
void render_headlines(const struct render *w);
void render_glance(const struct render *w); /* one row a target, highest load */
void render_sizes(const struct render *w);
void render_quality(const struct render *w);
void render_latency(const struct render *w);
void render_load(const struct render *w);
void render_failures(const struct render *w); /* one row a class and run */
void render_limits(const struct render *w);
void render_points(const struct render *w); /* paired ratios at each point */
void render_plots(const struct render *w);
void render_answers(const struct render *w);
void render_quantization(const struct render *w);
void render_peers(const struct render *w);
void render_provenance(const struct render *w);

#endif
