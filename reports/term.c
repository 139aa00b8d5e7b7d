/* Tables are kept until their end, when the widths are known: in doc.cells each cell is its text
 * behind one letter, l or r, its small print behind 0x1e, and ends in 0x1f. Widths count code
 * points. A cell takes as many lines as it needs: the text, wrapped at blanks, then the small print
 * in brackets. Where a table is wider than the terminal, its widest text columns give way. Control
 * characters of foreign text never reach the terminal. */
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
        rc = buf_str(&d->cells, "\x1e(");
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

/* A cell's text on its way out. */
struct rest {
    const char *p;
    bool is_number;
};

/* Bytes of the next line of a cell, at most wide code points if a blank allows it. */
static int64_t line_bytes(const char *p, int32_t wide) {
    int64_t end = (int64_t)strcspn(p, "\x1e\x1f");
    int64_t fit = -1;
    if (width(p, end) <= wide) {
        return end;
    }
    for (int64_t i = 0; i < end; i++) {
        if (p[i] == ' ' && (width(p, i) <= wide || fit < 0)) {
            fit = i;
        }
    }
    return fit < 0 ? end : fit;
}

/* Prints one line of a cell and steps over it and what separates it from the next. */
static int print_line(struct buf *b, struct rest *r, int32_t wide, bool last) {
    int64_t n = line_bytes(r->p, wide);
    int32_t pad = i32_max(0, wide - width(r->p, n));
    int rc = r->is_number ? repeat(b, ' ', pad) : 0;
    rc = rc ? rc : buf_add(b, r->p, n);
    rc = rc || r->is_number || last ? rc : repeat(b, ' ', pad);
    r->p += n + (r->p[n] == ' ' || r->p[n] == '\x1e' ? 1 : 0);
    return rc || last ? rc : buf_str(b, "  ");
}

/* Ends a line without blanks behind its last word. */
static int end_line(struct buf *b) {
    while (b->len > 0 && b->data[b->len - 1] == ' ') {
        b->len--;
    }
    return buf_str(b, "\n");
}

/* Prints a row; *c steps over it. */
static int print_row(struct doc *d, const char **c, const int32_t *wide) {
    struct rest rest[DOC_COLUMNS_MAX];
    bool more = true;
    int rc = 0;
    for (int32_t i = 0; i < d->n_columns; i++) {
        rest[i] = (struct rest){.p = *c + 1, .is_number = **c == 'r'};
        *c += strcspn(*c, "\x1f") + 1;
    }
    while (more && !rc) {
        more = false;
        for (int32_t i = 0; i < d->n_columns && !rc; i++) {
            rc = print_line(d->out, &rest[i], wide[i], i + 1 == d->n_columns);
            more = more || *rest[i].p != '\x1f';
        }
        rc = rc ? rc : end_line(d->out);
    }
    return rc;
}

/* Natural widths, and which columns hold text that can wrap. */
static void measure(const struct doc *d, int32_t *wide, bool *is_text) {
    int32_t column = 0;
    for (const char *c = buf_cstr(&d->cells); *c; column = (column + 1) % d->n_columns) {
        is_text[column] = *c == 'l';
        for (c++; *c != '\x1f'; c += *c == '\x1e' ? 1 : 0) {
            int64_t n = (int64_t)strcspn(c, "\x1e\x1f");
            wide[column] = i32_max(wide[column], width(c, n));
            c += n;
        }
        c++;
    }
}

/* Takes from the widest text column until the table fits or the columns are narrow. */
static void narrow(const struct doc *d, int32_t *wide, const bool *is_text) {
    enum { NARROW = 16 };
    for (;;) {
        int32_t total = 2 * (d->n_columns - 1);
        int32_t widest = -1;
        for (int32_t i = 0; i < d->n_columns; i++) {
            total += wide[i];
            if (is_text[i] && wide[i] > NARROW && (widest < 0 || wide[i] > wide[widest])) {
                widest = i;
            }
        }
        if (total <= TERM_WIDTH || widest < 0) {
            return;
        }
        wide[widest]--;
    }
}

static int table_end(struct doc *d) {
    int32_t wide[DOC_COLUMNS_MAX] = {0};
    bool is_text[DOC_COLUMNS_MAX] = {false};
    int rc = buf_str(d->out, "\n");
    measure(d, wide, is_text);
    narrow(d, wide, is_text);
    for (const char *c = buf_cstr(&d->cells); *c && !rc;) {
        rc = print_row(d, &c, wide);
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
