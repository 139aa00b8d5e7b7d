/* Every string from outside passes html_escape; only SVG made by plot.c goes in as it is, and the
 * labels inside it were stripped there and escaped by gnuplot. */
#include "reports/html.h"

#include <string.h>

#include "reports/show.h"

static const char page_css[] = {
#include "page.css.inc"
    0};

enum { TEXT_MAX = 1 << 22 };

static const char *const tone_class[DOC_TONE_N] = {"", "good", "bad", "warn", "muted"};

int html_escape(struct buf *b, const char *s) {
    struct buf clean;
    buf_init(&clean, MEM_REPORT, TEXT_MAX);
    int rc = show_clean(&clean, s);
    for (const char *c = buf_cstr(&clean); *c && !rc; c++) {
        switch (*c) {
        case '&':
            rc = buf_str(b, "&amp;");
            break;
        case '<':
            rc = buf_str(b, "&lt;");
            break;
        case '>':
            rc = buf_str(b, "&gt;");
            break;
        case '"':
            rc = buf_str(b, "&quot;");
            break;
        case '\'':
            rc = buf_str(b, "&#39;");
            break;
        default:
            rc = buf_add(b, c, 1);
            break;
        }
    }
    buf_fini(&clean);
    return rc;
}

/* before, the escaped text, after */
static int wrap(struct buf *b, const char *before, const char *text, const char *after) {
    int rc = buf_str(b, before);
    rc = rc ? rc : html_escape(b, text);
    return rc ? rc : buf_str(b, after);
}

static int begin(struct doc *d, const char *title, const char *subtitle) {
    int rc =
        wrap(d->out,
             "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
             "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<title>",
             title, "</title>\n<style>\n");
    rc = rc ? rc : buf_str(d->out, page_css);
    rc = rc ? rc
            : wrap(d->out, "</style>\n</head>\n<body>\n<main>\n<header>\n<h1>", title, "</h1>\n");
    return rc ? rc : wrap(d->out, "<p>", subtitle, "</p>\n</header>\n");
}

static int end(struct doc *d) {
    return buf_str(d->out, "</main>\n</body>\n</html>\n");
}

static int section(struct doc *d, const char *title) {
    return wrap(d->out, "<h2>", title, "</h2>\n");
}

static int para(struct doc *d, const char *text, enum doc_tone tone) {
    int rc = buf_fmt(d->out, "<p class=\"%s\">", tone_class[tone]);
    return rc ? rc : wrap(d->out, "", text, "</p>\n");
}

static int card(struct doc *d, const char *title, const char *text, enum doc_tone tone) {
    int rc = buf_fmt(d->out, "<div class=\"card %s\">", tone_class[tone]);
    rc = rc ? rc : wrap(d->out, "<b>", title, "</b>");
    return rc ? rc : wrap(d->out, "<p>", text, "</p></div>\n");
}

static int table(struct doc *d, const char *const *names, int32_t n) {
    int rc = buf_str(d->out, "<div class=\"wide\"><table>\n<tr>");
    for (int32_t i = 0; i < n && !rc; i++) {
        bool is_number = names[i][0] == '>';
        rc = wrap(d->out, is_number ? "<th class=\"n\">" : "<th>", names[i] + (is_number ? 1 : 0),
                  "</th>");
    }
    return rc ? rc : buf_str(d->out, "</tr>\n");
}

static int row(struct doc *d, const struct doc_cell *cells, int32_t n) {
    int rc = buf_str(d->out, "<tr>");
    for (int32_t i = 0; i < n && !rc; i++) {
        const char *tone = tone_class[cells[i].tone];
        bool is_number = cells[i].is_number;
        if (is_number || tone[0]) {
            rc = buf_fmt(d->out, "<td class=\"%s%s%s\">", is_number ? "n" : "",
                         is_number && tone[0] ? " " : "", tone);
        } else {
            rc = buf_str(d->out, "<td>");
        }
        rc = rc ? rc : html_escape(d->out, cells[i].text);
        if (!rc && cells[i].sub && cells[i].sub[0]) {
            rc = wrap(d->out, "<small>", cells[i].sub, "</small>");
        }
        rc = rc ? rc : buf_str(d->out, "</td>");
    }
    return rc ? rc : buf_str(d->out, "</tr>\n");
}

static int table_end(struct doc *d) {
    return buf_str(d->out, "</table></div>\n");
}

static int fold(struct doc *d, const char *title) {
    return wrap(d->out, "<details><summary>", title, "</summary>\n");
}

static int fold_end(struct doc *d) {
    return buf_str(d->out, "</details>\n");
}

static int pre(struct doc *d, const char *text) {
    return wrap(d->out, "<pre>", text, "</pre>\n");
}

static int svg(struct doc *d, const char *caption, const char *text) {
    int rc = wrap(d->out, "<figure><figcaption>", caption, "</figcaption>\n");
    rc = rc ? rc : buf_str(d->out, text);
    return rc ? rc : buf_str(d->out, "</figure>\n");
}

static int plots(struct doc *d) {
    return buf_str(d->out, "<div class=\"plots\">\n");
}

static int plots_end(struct doc *d) {
    return buf_str(d->out, "</div>\n");
}

const struct doc_ops html_ops = {.begin = begin,
                                 .end = end,
                                 .section = section,
                                 .para = para,
                                 .card = card,
                                 .table = table,
                                 .row = row,
                                 .table_end = table_end,
                                 .fold = fold,
                                 .fold_end = fold_end,
                                 .pre = pre,
                                 .plots = plots,
                                 .plots_end = plots_end,
                                 .svg = svg};
