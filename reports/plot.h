/* Plots by a child process gnuplot: data and style in on its standard input, SVG out.
 *
 * No shell and no start-up file is involved; labels are stripped of everything that is not plain
 * text. The SVG is made for embedding: no prologue, unique ids, the page's own text colour. */
#ifndef REPORTS_PLOT_H
#define REPORTS_PLOT_H

#include "engine/base/buf.h"

enum {
    PLOT_SERIES_MAX = 12,
    PLOT_LABEL_MAX = 64,
    PLOT_SVG_MAX = 1 << 19, /* bytes of one plot */
    PLOT_TIMEOUT_S = 30
};

enum plot_form {
    PLOT_LINES,
    PLOT_STEPS,
    PLOT_POINTS /* with 95 % bars in x and y where the bounds are numbers */
};

struct plot_series {
    char label[PLOT_LABEL_MAX];
    int32_t colour; /* index into the palette, taken modulo its size */
    int32_t dash;   /* 0 solid, 1 dashed, 2 dotted, ... */
    int32_t n;
    const double *x;    /* ref, [n] */
    const double *y;    /* ref, [n] */
    const double *x_lo; /* ref, [n], points only; NULL: no bars */
    const double *x_hi;
    const double *y_lo;
    const double *y_hi;
};

struct plot {
    const char *name; /* letters and digits: prefix of the ids */
    const char *x_label;
    const char *y_label;
    enum plot_form form;
    bool x_log;
    bool from_zero; /* y axis begins at 0 */
    bool is_wide;   /* takes the whole width of the page, else half of it */
    int32_t n_series;
    struct plot_series series[PLOT_SERIES_MAX];
};

/* Draws. out: appends "<svg ...>...</svg>" to svg
 * err:  ERR_NOTFOUND "gnuplot is not installed (Debian package gnuplot-nox)", ERR_IO (could not be
 *       run, said something wrong, took longer than PLOT_TIMEOUT_S), ERR_LIMIT, ERR_NOMEM
 * cost: one process, about 50 ms */
int plot_draw(const struct plot *p, struct buf *svg);

/* The script that plot_draw sends. err: ERR_LIMIT, ERR_NOMEM */
int plot_script(const struct plot *p, struct buf *script);

#endif
