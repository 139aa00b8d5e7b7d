/* The JSON documents of a report and of a comparison (keys: README.md here). */
#ifndef REPORTS_JSON_OUT_H
#define REPORTS_JSON_OUT_H

#include "engine/base/buf.h"
#include "reports/compare.h"

/* Appends the document and a line break. err: ERR_LIMIT, ERR_NOMEM */
int json_out_report(const struct report *r, struct buf *out);
int json_out_compare(const struct report *r, const struct compare *c, struct buf *out);

#endif
