/* The sticky error and the hand-over to a writer; nothing else. */
#include "reports/doc.h"

#include <stdarg.h>
#include <stdio.h>

#include "engine/base/err.h"

enum { PARA_MAX = 4096, TABLE_BYTES_MAX = 1 << 24 };

void doc_begin(struct doc *d,
               const struct doc_ops *ops,
               struct buf *out,
               const char *title,
               const char *subtitle) {
    *d = (struct doc){.ops = ops, .out = out};
    buf_init(&d->cells, MEM_REPORT, TABLE_BYTES_MAX);
    d->rc = ops->begin(d, title, subtitle);
}

int doc_end(struct doc *d) {
    d->rc = d->rc ? d->rc : d->ops->end(d);
    buf_fini(&d->cells);
    return d->rc;
}

static bool skips(const struct doc *d) {
    return d->rc != 0 || d->is_hidden;
}

void doc_section(struct doc *d, const char *title) {
    d->rc = skips(d) ? d->rc : d->ops->section(d, title);
}

void doc_para(struct doc *d, enum doc_tone tone, const char *fmt, ...) {
    char text[PARA_MAX];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    d->rc = skips(d) ? d->rc : d->ops->para(d, text, tone);
}

void doc_card(struct doc *d, enum doc_tone tone, const char *title, const char *text) {
    d->rc = skips(d) ? d->rc : d->ops->card(d, title, text, tone);
}

void doc_table(struct doc *d, const char *const *names, int32_t n) {
    if (!d->rc && (n < 1 || n > DOC_COLUMNS_MAX)) {
        d->rc = err_set(ERR_INTERNAL, "a table of %d columns", n);
    }
    d->n_columns = n;
    d->rc = skips(d) ? d->rc : d->ops->table(d, names, n);
}

void doc_row(struct doc *d, const struct doc_cell *cells, int32_t n) {
    if (!d->rc && n != d->n_columns) {
        d->rc = err_set(ERR_INTERNAL, "a row of %d cells in a table of %d", n, d->n_columns);
    }
    d->rc = skips(d) ? d->rc : d->ops->row(d, cells, n);
}

void doc_table_end(struct doc *d) {
    d->rc = skips(d) ? d->rc : d->ops->table_end(d);
}

void doc_fold(struct doc *d, const char *title) {
    d->is_hidden = d->ops->hides_folds;
    d->rc = skips(d) ? d->rc : d->ops->fold(d, title);
}

void doc_fold_end(struct doc *d) {
    d->is_hidden = false;
    d->rc = skips(d) ? d->rc : d->ops->fold_end(d);
}

void doc_pre(struct doc *d, const char *text) {
    d->rc = skips(d) ? d->rc : d->ops->pre(d, text);
}

void doc_plots(struct doc *d) {
    d->rc = skips(d) ? d->rc : d->ops->plots(d);
}

void doc_plots_end(struct doc *d) {
    d->rc = skips(d) ? d->rc : d->ops->plots_end(d);
}

void doc_svg(struct doc *d, const char *caption, const char *svg) {
    d->rc = skips(d) ? d->rc : d->ops->svg(d, caption, svg);
}
