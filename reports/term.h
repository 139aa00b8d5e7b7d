/* The terminal writer of struct doc: aligned tables, wrapped paragraphs, nothing but text. */
#ifndef REPORTS_TERM_H
#define REPORTS_TERM_H

#include "reports/doc.h"

enum { TERM_WIDTH = 100 };

extern const struct doc_ops term_ops;

#endif
