/* Tables are kept until their end, when the widths are known: in doc.cells each cell is its text
 * behind one letter, l or r, and ends in 0x1f. Widths count code points. Long first columns wrap
 * nowhere: a wide table is wide. Control characters of foreign text never reach the terminal. */
#include "reports/term.h"

#include <string.h>

#include "engine/base/err.h"
#include "reports/show.h"

enum { TEXT_MAX = 1 << 22 };

/* Code points of n bytes of valid UTF-8. */
static int32_t width(const char *s, int64_t n) {
    int32_t w = 0;
    for (int64_t i = 0; i < n; i++) {
        w += ((unsigned char)s[i] & 0xc0) != 0x80 ? 1 : 0;
    }
    return w;
}

static int repeat(struct buf *b, char c, int32_t n) {
    int rc = 0;
    for (int32_t i = 0; i < n && !rc; i++) {
        rc = buf_add(b, &c, 1);
    }
    return rc;
}

/* Breaks at blanks so that no line is longer than TERM_WIDTH. */
static int wrapped(struct buf *b, const char *text, int32_t indent) {
    int32_t at = 0;
    int rc = 0;
    for (const char *w = text; *w && !rc;) {
        int64_t n = (int64_t)strcspn(w, " \n");
        int32_t len = width(w, n);
        if (at > 0 && at + 1 + len > TERM_WIDTH) {
            rc = buf_str(b, "\n");
            at = 0;
        }
        rc = rc ? rc : (at == 0 ? repeat(b, ' ', indent) : buf_str(b, " "));
        at += at == 0 ? indent + len : 1 + len;
        rc = rc ? rc : buf_add(b, w, n);
        w += n + (w[n] ? 1 : 0);
    }
    return rc ? rc : buf_str(b, "\n");
}

static int clean_wrapped(struct buf *b, const char *text, int32_t indent) {
    struct buf clean;
    buf_init(&clean, MEM_REPORT, TEXT_MAX);
    int rc = show_clean(&clean, text);
    rc = rc ? rc : wrapped(b, buf_cstr(&clean), indent);
    buf_fini(&clean);
    return rc;
}

static int section(struct doc *d, const char *title) {
    int rc = buf_fmt(d->out, "\n%s\n", title);
    rc = rc ? rc : repeat(d->out, '-', width(title, (int64_t)strlen(title)));
    return rc ? rc : buf_str(d->out, "\n");
}

static int begin(struct doc *d, const char *title, const char *subtitle) {
    int rc = clean_wrapped(d->out, title, 0);
    rc = rc ? rc : repeat(d->out, '=', width(title, (int64_t)strlen(title)));
    rc = rc ? rc : buf_str(d->out, "\n");
    return rc ? rc : clean_wrapped(d->out, subtitle, 0);
}

static int end(struct doc *d) {
    (void)d;
    return 0;
}

static int para(struct doc *d, const char *text, enum doc_tone tone) {
    (void)tone;
    return clean_wrapped(d->out, text, 0);
}

static int card(struct doc *d, const char *title, const char *text, enum doc_tone tone) {
    static const char *const marks[DOC_TONE_N] = {"  ", "+ ", "! ", "? ", "  "};
    int rc = buf_fmt(d->out, "\n%s", marks[tone]);
    rc = rc ? rc : clean_wrapped(d->out, title, 0);
    return rc ? rc : clean_wrapped(d->out, text, 2);
}

static int keep(struct doc *d, const struct doc_cell *c) {
    int rc = buf_str(&d->cells, c->is_number ? "r" : "l");
    int64_t from = d->cells.len;
    rc = rc ? rc : show_clean(&d->cells, c->text);
    if (!rc && c->sub && c->sub[0]) {
        rc = buf_str(&d->cells, " (");
        rc = rc ? rc : show_clean(&d->cells, c->sub);
        rc = rc ? rc : buf_str(&d->cells, ")");
    }
    for (int64_t i = from; i < d->cells.len && !rc; i++) {
        bool is_break = d->cells.data[i] == '\n' || d->cells.data[i] == '\t';
        d->cells.data[i] = is_break ? ' ' : d->cells.data[i];
    }
    return rc ? rc : buf_str(&d->cells, "\x1f");
}

static int table(struct doc *d, const char *const *names, int32_t n) {
    int rc = 0;
    for (int32_t i = 0; i < n && !rc; i++) {
        bool is_number = names[i][0] == '>';
        rc = keep(
            d, &(struct doc_cell){.text = names[i] + (is_number ? 1 : 0), .is_number = is_number});
    }
    return rc;
}

static int row(struct doc *d, const struct doc_cell *cells, int32_t n) {
    int rc = 0;
    for (int32_t i = 0; i < n && !rc; i++) {
        rc = keep(d, &cells[i]);
    }
    return rc;
}

static int print_cell(struct buf *b, const char *c, int64_t n, int32_t wide, bool last) {
    int32_t pad = wide - width(c + 1, n - 1);
    int rc = c[0] == 'r' ? repeat(b, ' ', pad) : 0;
    rc = rc ? rc : buf_add(b, c + 1, n - 1);
    rc = rc || c[0] == 'r' || last ? rc : repeat(b, ' ', pad);
    return rc ? rc : buf_str(b, last ? "\n" : "  ");
}

static int table_end(struct doc *d) {
    int32_t wide[DOC_COLUMNS_MAX] = {0};
    int32_t column = 0;
    int rc = buf_str(d->out, "\n");
    for (const char *c = buf_cstr(&d->cells); *c; column = (column + 1) % d->n_columns) {
        int64_t n = (int64_t)strcspn(c, "\x1f");
        wide[column] = i32_max(wide[column], width(c + 1, n - 1));
        c += n + 1;
    }
    int32_t i = 0;
    for (char *c = d->cells.data; c && *c && !rc; i++) {
        int64_t n = (int64_t)strcspn(c, "\x1f");
        column = i % d->n_columns;
        rc = print_cell(d->out, c, n, wide[column], column + 1 == d->n_columns);
        c += n + 1;
    }
    buf_clear(&d->cells);
    return rc;
}

static int pre(struct doc *d, const char *text) {
    int rc = show_clean(d->out, text);
    return rc ? rc : buf_str(d->out, "\n");
}

/* Folds are left out by doc.c, so these are never reached with anything to say. */
static int no_fold(struct doc *d, const char *title) {
    (void)d;
    (void)title;
    return 0;
}

static int no_svg(struct doc *d, const char *caption, const char *svg) {
    (void)d;
    (void)caption;
    (void)svg;
    return 0;
}

const struct doc_ops term_ops = {.hides_folds = true,
                                 .begin = begin,
                                 .end = end,
                                 .section = section,
                                 .para = para,
                                 .card = card,
                                 .table = table,
                                 .row = row,
                                 .table_end = table_end,
                                 .fold = no_fold,
                                 .fold_end = end,
                                 .pre = pre,
                                 .plots = end,
                                 .plots_end = end,
                                 .svg = no_svg};
