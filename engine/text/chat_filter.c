/* Filters on one value (those on sequences are in chat_seqfilter.c).
 *
 * src: jinja2 3.1, filters.py; transformers, chat_template_utils.py (tojson) */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/text/chat_int.h"
#include "engine/text/utf8.h"

enum { NUMBER_TEXT = 320, FORMAT_MAX = 1 << 16 };

/* A filter that takes str(value). */
static int as_str(struct rt *r, const struct val *self, struct chat_str *out) {
    struct val v;
    int rc = text_val(r, self, &v);
    *out = rc ? (struct chat_str){"", 0} : v.u.s;
    return rc;
}

static int f_case(struct rt *r, const struct val *self, int mode, struct val *out) {
    struct chat_str s;
    int rc = as_str(r, self, &s);
    rc = rc ? rc : str_case(r, s, mode, out);
    out->safe = self->safe;
    return rc;
}

static int f_upper(struct rt *r, const struct val *self, const struct val *a, struct val *out) {
    (void)a;
    return f_case(r, self, 'u', out);
}

static int f_lower(struct rt *r, const struct val *self, const struct val *a, struct val *out) {
    (void)a;
    return f_case(r, self, 'l', out);
}

static int
f_capitalize(struct rt *r, const struct val *self, const struct val *a, struct val *out) {
    (void)a;
    return f_case(r, self, 'c', out);
}

/* Words of the title filter begin behind blanks, hyphens and opening brackets. */
static int f_title(struct rt *r, const struct val *self, const struct val *a, struct val *out) {
    struct chat_str s;
    struct buf b;
    bool start = true;
    (void)a;
    int rc = as_str(r, self, &s);
    text_buf(&b);
    for (int64_t i = 0; i < s.n && !rc;) {
        uint32_t cp;
        i += utf8_get((const uint8_t *)s.p + i, &cp);
        rc = buf_utf8(&b, start ? utf8_upper(cp) : utf8_lower(cp));
        start = py_space(cp) || (cp < 0x80 && cp && strchr("-([{<", (int)cp));
    }
    rc = rc ? rc : v_take(r, &b, out);
    buf_fini(&b);
    return rc;
}

static int f_string(struct rt *r, const struct val *self, const struct val *a, struct val *out) {
    (void)a;
    return text_val(r, self, out);
}

static int f_trim(struct rt *r, const struct val *self, const struct val *a, struct val *out) {
    struct chat_str s;
    struct chat_str chars = {NULL, 0};
    int rc = as_str(r, self, &s);
    if (!rc && a[0].type != V_MISSING && a[0].type != V_NONE) {
        rc = v_need_str(r, &a[0], "trim", &chars);
    }
    s = rc ? s : str_trim(s, chars, true, true);
    *out = v_str(s.p, s.n);
    out->safe = self->safe;
    return rc;
}

static int f_replace(struct rt *r, const struct val *self, const struct val *a, struct val *out) {
    struct chat_str s;
    struct chat_str from;
    struct chat_str to;
    int64_t count = -1;
    int rc = as_str(r, self, &s);
    rc = rc ? rc : as_str(r, &a[0], &from);
    rc = rc ? rc : as_str(r, &a[1], &to);
    if (!rc && a[2].type != V_MISSING && a[2].type != V_NONE) {
        rc = v_need_int(r, &a[2], "replace", &count);
    }
    return rc ? rc : str_replace(r, s, from, to, count, out);
}

static int
f_forceescape(struct rt *r, const struct val *self, const struct val *a, struct val *out) {
    struct chat_str s;
    (void)a;
    int rc = as_str(r, self, &s);
    return rc ? rc : str_escape(r, s, out);
}

static int f_escape(struct rt *r, const struct val *self, const struct val *a, struct val *out) {
    *out = *self;
    return self->type == V_STR && self->safe ? 0 : f_forceescape(r, self, a, out);
}

static int f_safe(struct rt *r, const struct val *self, const struct val *a, struct val *out) {
    (void)a;
    int rc = text_val(r, self, out);
    out->safe = true;
    return rc;
}

static int f_default(struct rt *r, const struct val *self, const struct val *a, struct val *out) {
    (void)r;
    bool use = self->type == V_UNDEF || (v_true(&a[1]) && !v_true(self));
    *out = use ? (a[0].type == V_MISSING ? v_str("", 0) : a[0]) : *self;
    return 0;
}

static int f_length(struct rt *r, const struct val *self, const struct val *a, struct val *out) {
    int64_t n = 0;
    (void)a;
    int rc = v_len(r, self, &n);
    *out = v_int(n);
    return rc;
}

static int f_abs(struct rt *r, const struct val *self, const struct val *a, struct val *out) {
    (void)r;
    (void)a;
    if (!v_is_num(self)) {
        return v_bad(self, "abs");
    }
    if (self->type == V_FLOAT) {
        *out = v_float(fabs(self->u.f));
        return 0;
    }
    int64_t i = self->type == V_INT ? self->u.i : self->u.b;
    if (i == INT64_MIN) {
        return err_set(ERR_RANGE, "abs of %lld", (long long)i);
    }
    *out = v_int(i < 0 ? -i : i);
    return 0;
}

/* The text of a number without blanks around and without underscores. out: false when too long */
static bool number_text(struct chat_str s, char *t) {
    s = str_trim(s, (struct chat_str){NULL, 0}, true, true);
    int32_t n = 0;
    for (int64_t i = 0; i < s.n; i++) {
        if (n == NUMBER_TEXT - 1 || s.p[i] == '\0') {
            return false;
        }
        if (s.p[i] != '_') {
            t[n++] = s.p[i];
        }
    }
    t[n] = '\0';
    return n > 0;
}

static bool parse_float(struct chat_str s, double *out) {
    char t[NUMBER_TEXT];
    char *end = NULL;
    if (!number_text(s, t) || strpbrk(t, "xXpP(")) {
        return false;
    }
    *out = strtod(t, &end);
    return *end == '\0';
}

static bool parse_int(struct chat_str s, int32_t base, int64_t *out) {
    char t[NUMBER_TEXT];
    char *end = NULL;
    if (!number_text(s, t)) {
        return false;
    }
    const char *p = t;
    bool neg = *p == '-';
    p += *p == '-' || *p == '+';
    bool prefix = p[0] == '0' && ((base == 16 && (p[1] == 'x' || p[1] == 'X')) ||
                                  (base == 8 && (p[1] == 'o' || p[1] == 'O')) ||
                                  (base == 2 && (p[1] == 'b' || p[1] == 'B')));
    p += prefix ? 2 : 0;
    long long v = strtoll(p, &end, base);
    if (end == p || *end || *p == '-' || *p == '+' || *p == ' ' || v == INT64_MAX) {
        return false;
    }
    *out = neg ? -v : v;
    return true;
}

static bool float_to_int(double f, int64_t *out) {
    bool fits = isfinite(f) && fabs(f) < 0x1p62;
    *out = fits ? (int64_t)f : 0;
    return fits;
}

static int f_int(struct rt *r, const struct val *self, const struct val *a, struct val *out) {
    int64_t v = 0;
    int64_t base = 10;
    double f = 0;
    int rc = a[1].type == V_MISSING ? 0 : v_need_int(r, &a[1], "int", &base);
    if (!rc && (base < 2 || base > 36)) {
        rc = err_set(ERR_FORMAT, "int: base %lld", (long long)base);
    }
    bool ok = !rc && self->type == V_STR &&
              (parse_int(self->u.s, (int32_t)base, &v) ||
               (parse_float(self->u.s, &f) && float_to_int(f, &v)));
    ok = ok || (v_is_num(self) &&
                (self->type == V_INT ? (v = self->u.i, true) : float_to_int(v_num(self), &v)));
    *out = ok ? v_int(v) : a[0].type == V_MISSING ? v_int(0) : a[0];
    return rc;
}

static int f_float(struct rt *r, const struct val *self, const struct val *a, struct val *out) {
    double f = 0;
    (void)r;
    bool ok = self->type == V_STR && parse_float(self->u.s, &f);
    if (v_is_num(self)) {
        f = v_num(self);
        ok = true;
    }
    *out = ok ? v_float(f) : a[0].type == V_MISSING ? v_float(0) : a[0];
    return 0;
}

static int f_round(struct rt *r, const struct val *self, const struct val *a, struct val *out) {
    int64_t digits = 0;
    struct chat_str method = {"common", 6};
    int rc = v_is_num(self) ? 0 : v_bad(self, "round");
    rc = rc || a[0].type == V_MISSING ? rc : v_need_int(r, &a[0], "round", &digits);
    rc = rc || a[1].type == V_MISSING ? rc : v_need_str(r, &a[1], "round", &method);
    if (rc) {
        return rc;
    }
    if (digits < -300 || digits > 300) {
        return err_set(ERR_RANGE, "round to %lld digits", (long long)digits);
    }
    double f = v_num(self);
    double scale = pow(10, (double)digits);
    bool common = str_is(method, "common");
    if (common && self->type != V_FLOAT && digits >= 0) {
        *out = *self;
        return 0;
    }
    if (common && digits >= 0) {
        char t[NUMBER_TEXT + 320];
        snprintf(t, sizeof t, "%.*f", (int)digits, f);
        *out = v_float(strtod(t, NULL));
        return 0;
    }
    if (!common && !str_is(method, "ceil") && !str_is(method, "floor")) {
        return err_set(ERR_FORMAT, "round: method must be common, ceil or floor");
    }
    double x = f * scale;
    *out = v_float((common ? rint(x) : str_is(method, "ceil") ? ceil(x) : floor(x)) / scale);
    return 0;
}

static int f_indent(struct rt *r, const struct val *self, const struct val *a, struct val *out) {
    struct val pad = v_str("    ", 4);
    struct val lines;
    struct val text;
    struct buf b;
    text_buf(&b);
    int rc = text_val(r, self, &text);
    if (!rc && a[0].type == V_STR) {
        pad = a[0];
    } else if (!rc && a[0].type != V_MISSING) {
        struct val blank = v_str(" ", 1);
        rc = eval_binary(r, OP_MUL, &blank, &a[0], &pad);
    }
    /* why: jinja2 adds a newline first, so that a last empty line is one */
    struct val nl = v_str("\n", 1);
    rc = rc ? rc : eval_binary(r, OP_ADD, &text, &nl, &text);
    rc = rc ? rc : v_seq(r, SEQ_LIST, 8, &lines);
    rc = rc ? rc : str_lines(r, text.u.s, false, lines.u.seq);
    for (int64_t i = 0; !rc && i < lines.u.seq->n; i++) {
        struct chat_str s = lines.u.seq->v[i].u.s;
        bool indent = i == 0 ? v_true(&a[1]) : s.n > 0 || v_true(&a[2]);
        rc = i > 0 ? buf_str(&b, "\n") : 0;
        rc = rc || !indent ? rc : buf_add(&b, pad.u.s.p, pad.u.s.n);
        rc = rc ? rc : buf_add(&b, s.p, s.n);
    }
    rc = rc ? rc : v_take(r, &b, out);
    buf_fini(&b);
    return rc;
}

static int f_truncate(struct rt *r, const struct val *self, const struct val *a, struct val *out) {
    int64_t length = 255;
    int64_t leeway = 5;
    struct val s = *self;
    struct val end = a[2].type == V_MISSING ? v_cstr("...") : a[2];
    struct chat_str e;
    int rc = self->type == V_STR ? 0 : v_bad(self, "truncate");
    rc = rc || a[0].type == V_MISSING ? rc : v_need_int(r, &a[0], "truncate", &length);
    rc = rc || a[3].type == V_MISSING || a[3].type == V_NONE
             ? rc
             : v_need_int(r, &a[3], "truncate", &leeway);
    rc = rc ? rc : v_need_str(r, &end, "truncate", &e);
    if (rc) {
        return rc;
    }
    int64_t n_end = utf8_count((const uint8_t *)e.p, e.n);
    if (length < n_end || leeway < 0) {
        return err_set(ERR_FORMAT, "truncate: length %lld, leeway %lld", (long long)length,
                       (long long)leeway);
    }
    if (utf8_count((const uint8_t *)s.u.s.p, s.u.s.n) <= length + leeway) {
        *out = s;
        return 0;
    }
    rc = str_slice(r, s.u.s, 0, length - n_end, 1, &s);
    for (int64_t i = s.u.s.n - 1; !rc && !v_true(&a[1]) && i >= 0; i--) {
        if (s.u.s.p[i] == ' ') {
            s.u.s.n = i;
            break;
        }
    }
    return rc ? rc : eval_binary(r, OP_ADD, &s, &end, out);
}

static int f_center(struct rt *r, const struct val *self, const struct val *a, struct val *out) {
    struct val text;
    struct val width[FN_ARGS_MAX] = {a[0].type == V_MISSING ? v_int(80) : a[0]};
    int rc = text_val(r, self, &text);
    const struct chat_fn *center = str_method((struct chat_str){"center", 6});
    return rc ? rc : center->bound(r, &text, width, out);
}

static int f_wordcount(struct rt *r, const struct val *self, const struct val *a, struct val *out) {
    struct chat_str s;
    int64_t n = 0;
    bool in = false;
    (void)a;
    int rc = as_str(r, self, &s);
    for (int64_t i = 0; i < s.n && !rc;) {
        uint32_t cp;
        i += utf8_get((const uint8_t *)s.p + i, &cp);
        bool word = utf8_is_word(cp);
        n += word && !in;
        in = word;
    }
    *out = v_int(n);
    return rc;
}

static int f_urlencode(struct rt *r, const struct val *self, const struct val *a, struct val *out) {
    struct chat_str s;
    struct buf b;
    (void)a;
    if (self->type == V_DICT || self->type == V_SEQ) {
        return err_set(ERR_UNSUPPORTED, "urlencode of a %s", v_type(self));
    }
    int rc = as_str(r, self, &s);
    text_buf(&b);
    for (int64_t i = 0; i < s.n && !rc; i++) {
        uint8_t c = (uint8_t)s.p[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                     (c && strchr("_.-~/", c));
        rc = plain ? buf_add(&b, s.p + i, 1) : buf_fmt(&b, "%%%02X", c);
    }
    rc = rc ? rc : v_take(r, &b, out);
    buf_fini(&b);
    return rc;
}

/* One conversion of "%": s, r, d, i, f, %, with flags, width and precision. */
static int convert(struct rt *r, struct chat_str spec, const struct val *v, struct buf *b) {
    char fmt[32];
    struct buf text;
    char kind = spec.p[spec.n - 1];
    if (spec.n >= (int64_t)sizeof fmt - 4 || memchr(spec.p, '*', (size_t)spec.n)) {
        return err_set(ERR_UNSUPPORTED, "format: \"%.*s\"", (int)spec.n, spec.p);
    }
    memcpy(fmt, spec.p, (size_t)spec.n - 1);
    int64_t n = spec.n - 1;
    int rc = 0;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    if (kind == 'd' || kind == 'i') {
        memcpy(fmt + n, "lld", 4);
        rc = v_is_num(v) ? buf_fmt(b, fmt, (long long)v_num(v)) : v_bad(v, "%d");
    } else if (kind == 'f') {
        memcpy(fmt + n, "f", 2);
        rc = v_is_num(v) ? buf_fmt(b, fmt, v_num(v)) : v_bad(v, "%f");
    } else {
        memcpy(fmt + n, "s", 2);
        text_buf(&text);
        rc = kind == 's' ? text_str(r, v, &text) : text_repr(r, v, &text);
        rc = rc ? rc : buf_fmt(b, fmt, buf_cstr(&text));
        buf_fini(&text);
    }
#pragma GCC diagnostic pop
    return rc;
}

static int f_format(struct rt *r, const struct val *self, const struct args *a, struct val *out) {
    struct chat_str s;
    struct buf b;
    int32_t k = 0;
    int rc = as_str(r, self, &s);
    buf_init(&b, MEM_TEXT, FORMAT_MAX);
    for (int64_t i = 0; i < s.n && !rc; i++) {
        if (s.p[i] != '%') {
            rc = buf_add(&b, s.p + i, 1);
            continue;
        }
        int64_t from = i++;
        while (i < s.n && strchr("-+ #0123456789.", s.p[i]) && s.p[i]) {
            i++;
        }
        if (i < s.n && s.p[i] == '%') {
            rc = buf_str(&b, "%");
        } else if (i >= s.n || !strchr("srdif", s.p[i]) || i - from > 8 || k >= a->n) {
            rc = err_set(ERR_FORMAT, "format: conversion \"%.*s\" of %d values",
                         (int)i64_min(i - from + 1, 20), s.p + from, a->n);
        } else {
            rc = convert(r, (struct chat_str){s.p + from, i - from + 1}, &a->v[k++], &b);
        }
    }
    if (!rc && (k < a->n || a->n_kw > 0)) {
        rc = err_set(ERR_FORMAT, "format: %d values, %d conversions", a->n + a->n_kw, k);
    }
    rc = rc ? rc : v_take(r, &b, out);
    buf_fini(&b);
    return rc;
}

static int json_indent(struct rt *r, const struct val *v, struct json_style *s) {
    static const struct chat_str colon = {": ", 2};
    struct val blank = v_str(" ", 1);
    struct val pad = *v;
    if (v->type == V_MISSING || v->type == V_NONE) {
        return 0;
    }
    int rc = v->type == V_STR ? 0 : eval_binary(r, OP_MUL, &blank, v, &pad);
    if (!rc) {
        s->indent = pad.u.s;
        s->comma = (struct chat_str){",", 1};
        s->colon = colon;
    }
    return rc;
}

static int f_tojson(struct rt *r, const struct val *self, const struct val *a, struct val *out) {
    struct json_style s = {.comma = {", ", 2}, .colon = {": ", 2}};
    struct buf b;
    struct seq *sep;
    s.ascii = v_true(&a[0]);
    s.sort_keys = v_true(&a[3]);
    text_buf(&b);
    int rc = json_indent(r, &a[1], &s);
    if (!rc && a[2].type != V_MISSING && a[2].type != V_NONE) {
        rc = v_items(r, &a[2], &sep);
        if (!rc && sep->n != 2) {
            rc = err_set(ERR_FORMAT, "tojson: %lld separators, want 2", (long long)sep->n);
        }
        rc = rc ? rc : v_need_str(r, &sep->v[0], "tojson", &s.comma);
        rc = rc ? rc : v_need_str(r, &sep->v[1], "tojson", &s.colon);
    }
    rc = rc ? rc : text_json(r, self, &s, 0, &b);
    rc = rc ? rc : v_take(r, &b, out);
    buf_fini(&b);
    return rc;
}

static int f_attr(struct rt *r, const struct val *self, const struct val *a, struct val *out) {
    struct chat_str name;
    int rc = v_need_str(r, &a[0], "attr", &name);
    if (!rc && self->type == V_DICT && !call_method(self, name)) {
        return v_undef(r, out, "'dict object' has no attribute '%.*s'", (int)name.n, name.p);
    }
    return rc ? rc : eval_getattr(r, self, name, out);
}

const struct chat_fn *filter_find(struct chat_str name) {
    static const struct chat_fn filters[] = {
        {"abs", "", 0, f_abs, NULL},
        {"attr", "name", 1, f_attr, NULL},
        {"capitalize", "", 0, f_capitalize, NULL},
        {"center", "width", 0, f_center, NULL},
        {"count", "", 0, f_length, NULL},
        {"d", "default_value boolean", 0, f_default, NULL},
        {"default", "default_value boolean", 0, f_default, NULL},
        {"e", "", 0, f_escape, NULL},
        {"escape", "", 0, f_escape, NULL},
        {"float", "default", 0, f_float, NULL},
        {"forceescape", "", 0, f_forceescape, NULL},
        {"format", "", 0, NULL, f_format},
        {"indent", "width first blank", 0, f_indent, NULL},
        {"int", "default base", 0, f_int, NULL},
        {"length", "", 0, f_length, NULL},
        {"lower", "", 0, f_lower, NULL},
        {"replace", "old new count", 2, f_replace, NULL},
        {"round", "precision method", 0, f_round, NULL},
        {"safe", "", 0, f_safe, NULL},
        {"string", "", 0, f_string, NULL},
        {"title", "", 0, f_title, NULL},
        {"tojson", "ensure_ascii indent separators sort_keys", 0, f_tojson, NULL},
        {"trim", "chars", 0, f_trim, NULL},
        {"truncate", "length killwords end leeway", 0, f_truncate, NULL},
        {"upper", "", 0, f_upper, NULL},
        {"urlencode", "", 0, f_urlencode, NULL},
        {"wordcount", "", 0, f_wordcount, NULL},
    };
    const struct chat_fn *fn = fn_find(filters, ARRAY_LEN(filters), name);
    return fn ? fn : filter_seq_find(name);
}
