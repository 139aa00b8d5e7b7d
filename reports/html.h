/* The HTML writer of struct doc: one offline page with its style inside, no script, no network. */
#ifndef REPORTS_HTML_H
#define REPORTS_HTML_H

#include "reports/doc.h"

extern const struct doc_ops html_ops;

/* Appends s with & < > " ' escaped, broken UTF-8 and control characters replaced.
 * err: ERR_LIMIT, ERR_NOMEM */
int html_escape(struct buf *b, const char *s);

#endif
