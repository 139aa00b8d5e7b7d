/* The comparison alone, as text or JSON, with the flag that becomes an exit code. */
#include <stdio.h>

#include "engine/base/err.h"
#include "reports/json_out.h"
#include "reports/render.h"
#include "reports/term.h"

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
    render_compare(&(struct render){.r = &r, .c = &c, .o = opts, .d = &d});
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
