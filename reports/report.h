/* The ways out: page, text, JSON, and the comparison with its verdict. */
#ifndef REPORTS_REPORT_H
#define REPORTS_REPORT_H

#include "engine/base/buf.h"
#include "reports/compare.h"
#include "reports/store.h"

enum { REPORT_BYTES_MAX = 2 << 20 /* of a page */ };

struct report_opts {
    int64_t session_id;   /* 0: the newest session with targets */
    const char *database; /* name shown in the recipes for recomputing; NULL: "results.db" */
    bool without_plots;
};

/* Appends a whole page / the text twin / the JSON document to out (a buffer of at least
 * REPORT_BYTES_MAX). A missing gnuplot is said in the plots' place and is no error.
 * err: as summary_read; ERR_LIMIT when out is too small */
int report_html(struct store *s, const struct report_opts *opts, struct buf *out);
int report_text(struct store *s, const struct report_opts *opts, struct buf *out);
int report_json(struct store *s, const struct report_opts *opts, struct buf *out);

/* The comparison alone. out: *failed tells whether a limit was exceeded (limits may be NULL)
 * err: as summary_read; ERR_NOTFOUND when there is no base or nothing to compare it with */
int compare_text(struct store *s,
                 const struct report_opts *opts,
                 const struct compare_limits *limits,
                 struct buf *out,
                 bool *failed);
int compare_json(struct store *s,
                 const struct report_opts *opts,
                 const struct compare_limits *limits,
                 struct buf *out,
                 bool *failed);

#endif
