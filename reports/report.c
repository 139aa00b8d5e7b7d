/* store -> summary -> comparison -> page: the same walk for the browser and the terminal. */
#include "reports/report.h"

#include <stdio.h>

#include "reports/html.h"
#include "reports/json_out.h"
#include "reports/render.h"
#include "reports/show.h"
#include "reports/term.h"

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
