/* What the two halves of the summary share: rows by callback, kept strings, growing arrays. */
#ifndef REPORTS_SUMMARY_INT_H
#define REPORTS_SUMMARY_INT_H

#include "reports/summary.h"

typedef int (*summary_row)(void *ctx, const struct store_rows *row);

/* Calls f for each row of a view (store_rows_open's arguments). err: those of the store and of f */
int summary_each(struct store *s,
                 const char *view,
                 const char *columns,
                 const char *key,
                 int64_t id,
                 const char *order,
                 summary_row f,
                 void *ctx);

/* Copies a string into the report; NULL stays NULL. err: ERR_NOMEM */
int summary_keep(struct report *r, const char *s, const char **out);

/* Makes room for one more zeroed element at the end of an array of *n. err: ERR_NOMEM, ERR_LIMIT */
int summary_grow(void *array, int32_t n, int64_t size);

/* Samples in the order in which they were taken. */
struct summary_values {
    double *x; /* own, mem_free */
    int64_t n;
    int64_t cap;
};

/* Appends x so many times. err: ERR_NOMEM, ERR_LIMIT (SUMMARY_SAMPLES_MAX) */
int summary_push(struct summary_values *v, double x, int64_t times);

/* Mean, percentiles and curve of samples; all "none" without any. err: ERR_NOMEM */
int summary_describe(const struct summary_values *v, struct report_dist *d);

#define SUMMARY_BIN_NS INT64_C(250000000) /* of v_tokens_per_bin */

/* Tokens of all requests in bins of group * SUMMARY_BIN_NS, from first to before last. */
struct summary_bins {
    int64_t first; /* in bins of SUMMARY_BIN_NS from run start */
    int64_t last;
    int64_t group;
    double sums[SUMMARY_BINS_MAX];
};

/* Means of the gaps of successful measured requests; NaN without any. */
struct summary_gap_means {
    double token_s; /* over tokens */
    double event_s; /* over events */
};

/* One pass over the token events of a run.
 * in:   run with its samples, ascending by seq; bins with first, last and group
 * out:  run->dist[1] (gaps), run->samples[].good (limits on itl), bins->sums, *means
 * err:  as summary_read
 * cost: 16 bytes a token for the time of the call */
int summary_gaps(struct store *s,
                 const struct report *r,
                 struct report_run *run,
                 struct summary_bins *bins,
                 struct summary_gap_means *means);

/* Everything of run, whose run_id, target and point are set. err: as summary_read */
int summary_run(struct store *s, struct report *r, struct report_run *run);

#endif
