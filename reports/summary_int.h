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

/* Everything of run, whose run_id, target and point are set. err: as summary_read */
int summary_run(struct store *s, struct report *r, struct report_run *run);

#endif
