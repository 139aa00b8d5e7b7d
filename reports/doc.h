/* A page of headings, tables and plots, written to HTML or to a terminal by the same calls.
 *
 * Errors stick: after the first one every call does nothing, and doc_end returns it. All strings
 * are foreign text and are escaped or cleaned by the writer. */
#ifndef REPORTS_DOC_H
#define REPORTS_DOC_H

#include "engine/base/buf.h"

enum doc_tone { DOC_PLAIN, DOC_GOOD, DOC_BAD, DOC_WARN, DOC_MUTED, DOC_TONE_N };

enum { DOC_COLUMNS_MAX = 16 };

struct doc_cell {
    const char *text;
    const char *sub; /* small print below: the interval; NULL: none */
    enum doc_tone tone;
    bool is_number; /* to the right */
};

struct doc;

struct doc_ops {
    bool hides_folds; /* nothing between fold and fold_end is written */
    int (*begin)(struct doc *d, const char *title, const char *subtitle);
    int (*end)(struct doc *d);
    int (*section)(struct doc *d, const char *title);
    int (*para)(struct doc *d, const char *text, enum doc_tone tone);
    int (*card)(struct doc *d, const char *title, const char *text, enum doc_tone tone);
    int (*table)(struct doc *d, const char *const *names, int32_t n);
    int (*row)(struct doc *d, const struct doc_cell *cells, int32_t n);
    int (*table_end)(struct doc *d);
    int (*fold)(struct doc *d, const char *title);
    int (*fold_end)(struct doc *d);
    int (*pre)(struct doc *d, const char *text);
    int (*plots)(struct doc *d);
    int (*plots_end)(struct doc *d);
    int (*svg)(struct doc *d, const char *caption, const char *svg);
};

struct doc {
    const struct doc_ops *ops;
    struct buf *out; /* ref */
    int rc;          /* the first error */
    bool is_hidden;  /* inside a fold that is left out */
    int32_t n_columns;
    struct buf cells; /* own: a terminal table waits here for its widths */
};

/* Starts a page that is appended to out. own: caller, doc_end */
void doc_begin(struct doc *d,
               const struct doc_ops *ops,
               struct buf *out,
               const char *title,
               const char *subtitle);

/* Ends the page and frees what d holds. err: the first error of any call */
int doc_end(struct doc *d);

void doc_section(struct doc *d, const char *title);
void doc_para(struct doc *d, enum doc_tone tone, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* A framed headline with its sentence. */
void doc_card(struct doc *d, enum doc_tone tone, const char *title, const char *text);

/* A table: names[n] head it, then rows of n cells. n <= DOC_COLUMNS_MAX. A name that begins with
 * ">" heads numbers and stands to the right, without that mark. */
void doc_table(struct doc *d, const char *const *names, int32_t n);
void doc_row(struct doc *d, const struct doc_cell *cells, int32_t n);
void doc_table_end(struct doc *d);

/* What is between is folded away in HTML and left out on a terminal. */
void doc_fold(struct doc *d, const char *title);
void doc_fold_end(struct doc *d);

/* Text with its own line breaks. */
void doc_pre(struct doc *d, const char *text);

/* Plots between the two stand side by side. */
void doc_plots(struct doc *d);
void doc_plots_end(struct doc *d);

/* An SVG of plot_draw with a caption; nothing on a terminal. */
void doc_svg(struct doc *d, const char *caption, const char *svg);

#endif
