/* Values as text: Python's str() and repr(), json.dumps.
 *
 * A float is printed with the fewest digits that read back as the same number, in the form of
 * Python: at least one digit behind the point, an exponent below 1e-4 and from 1e16.
 * src: CPython, Python/pystrtod.c, Objects/unicodeobject.c unicode_repr, Lib/json/encoder.py */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/text/chat_int.h"
#include "engine/text/utf8.h"

enum { TEXT_DEPTH = 100, FLOAT_TEXT = 40 };

void text_buf(struct buf *b) {
    buf_init(b, MEM_TEXT, CHAT_OUTPUT_MAX);
}

static int fixed(struct buf *out, const char *digits, int32_t n, int32_t point) {
    int rc = point <= 0 ? buf_str(out, "0.") : 0;
    for (int32_t i = point; i < 0 && !rc; i++) {
        rc = buf_str(out, "0");
    }
    for (int32_t i = 0; i < i32_max(n, point) && !rc; i++) {
        rc = i == point && point > 0 ? buf_str(out, ".") : 0;
        rc = rc ? rc : buf_add(out, i < n ? digits + i : "0", 1);
    }
    return rc || point < n ? rc : buf_str(out, ".0");
}

static int text_float(double f, struct buf *out) {
    char t[FLOAT_TEXT];
    if (!isfinite(f)) {
        return buf_str(out, isnan(f) ? "nan" : f > 0 ? "inf" : "-inf");
    }
    for (int32_t p = 0; p < 17; p++) {
        snprintf(t, sizeof t, "%.*e", p, f);
        double back = strtod(t, NULL);
        if (back <= f && back >= f) {
            break;
        }
    }
    char digits[FLOAT_TEXT];
    int32_t n = 0;
    const char *e = strchr(t, 'e');
    for (const char *p = t; p < e; p++) {
        if (*p >= '0' && *p <= '9') {
            digits[n++] = *p;
        }
    }
    while (n > 1 && digits[n - 1] == '0') {
        n--;
    }
    int32_t exp = (int32_t)strtol(e + 1, NULL, 10);
    int rc = t[0] == '-' ? buf_str(out, "-") : 0;
    if (rc || (exp >= -4 && exp < 16)) {
        return rc ? rc : fixed(out, digits, n, exp + 1);
    }
    rc = buf_add(out, digits, 1);
    if (!rc && n > 1) {
        rc = buf_str(out, ".");
        rc = rc ? rc : buf_add(out, digits + 1, n - 1);
    }
    return rc ? rc : buf_fmt(out, "e%c%02d", exp < 0 ? '-' : '+', abs(exp));
}

/* Characters that repr() writes as escapes: controls and what has no picture. */
static bool printable(uint32_t cp) {
    if (cp < 0x7f) {
        return cp >= 0x20;
    }
    if (cp < 0xa1 || cp == 0xad) {
        return false;
    }
    return !(utf8_is_space(cp) || (cp >= 0x200b && cp <= 0x200f) ||
             (cp >= 0x202a && cp <= 0x202e) || (cp >= 0x2060 && cp <= 0x206f) || cp == 0xfeff ||
             (cp >= 0xe000 && cp <= 0xf8ff) || (cp >= 0xfff0 && cp <= 0xfffb) || cp >= 0xe0000);
}

static int repr_char(uint32_t cp, char quote, struct buf *out) {
    if (cp == (uint32_t)quote || cp == '\\') {
        return buf_fmt(out, "\\%c", (char)cp);
    }
    if (cp == '\n' || cp == '\r' || cp == '\t') {
        return buf_str(out, cp == '\n' ? "\\n" : cp == '\r' ? "\\r" : "\\t");
    }
    if (printable(cp)) {
        return buf_utf8(out, cp);
    }
    return cp < 0x100     ? buf_fmt(out, "\\x%02x", cp)
           : cp < 0x10000 ? buf_fmt(out, "\\u%04x", cp)
                          : buf_fmt(out, "\\U%08x", cp);
}

static int repr_str(struct chat_str s, struct buf *out) {
    bool single = s.n > 0 && memchr(s.p, '\'', (size_t)s.n);
    bool both = single && memchr(s.p, '"', (size_t)s.n);
    char quote = single && !both ? '"' : '\'';
    int rc = buf_add(out, &quote, 1);
    for (int64_t i = 0; i < s.n && !rc;) {
        uint32_t cp;
        i += utf8_get((const uint8_t *)s.p + i, &cp);
        rc = repr_char(cp, quote, out);
    }
    return rc ? rc : buf_add(out, &quote, 1);
}

static int repr(struct rt *r, const struct val *v, int32_t depth, struct buf *out);

static int repr_seq(struct rt *r, const struct seq *s, int32_t depth, struct buf *out) {
    static const char *const open[] = {"[",           "(", "", "dict_keys([", "dict_values([",
                                       "dict_items(["};
    static const char *const close[] = {"]", ")", "", "])", "])", "])"};
    if (s->kind == SEQ_GEN) {
        return buf_str(out, "<generator object>");
    }
    if (s->kind == SEQ_RANGE) {
        int rc = buf_fmt(out, "range(%lld, %lld", (long long)s->start, (long long)s->stop);
        rc = rc || s->step == 1 ? rc : buf_fmt(out, ", %lld", (long long)s->step);
        return rc ? rc : buf_str(out, ")");
    }
    int rc = buf_str(out, open[s->kind]);
    for (int64_t i = 0; i < s->n && !rc; i++) {
        rc = i > 0 ? buf_str(out, ", ") : 0;
        rc = rc ? rc : repr(r, &s->v[i], depth + 1, out);
    }
    if (!rc && s->kind == SEQ_TUPLE && s->n == 1) {
        rc = buf_str(out, ",");
    }
    return rc ? rc : buf_str(out, close[s->kind]);
}

static int repr_dict(struct rt *r, const struct dict *d, int32_t depth, struct buf *out) {
    int rc = buf_str(out, "{");
    for (int64_t i = 0; i < d->n && !rc; i++) {
        rc = i > 0 ? buf_str(out, ", ") : 0;
        rc = rc ? rc : repr(r, &d->e[i].key, depth + 1, out);
        rc = rc ? rc : buf_str(out, ": ");
        rc = rc ? rc : repr(r, &d->e[i].val, depth + 1, out);
    }
    return rc ? rc : buf_str(out, "}");
}

static int repr(struct rt *r, const struct val *v, int32_t depth, struct buf *out) {
    r->steps++;
    if (depth > TEXT_DEPTH) {
        return err_set(ERR_LIMIT, "a value nested over %d deep as text", TEXT_DEPTH);
    }
    switch (v->type) {
    case V_MISSING:
    case V_UNDEF:
        return buf_str(out, "Undefined");
    case V_NONE:
        return buf_str(out, "None");
    case V_BOOL:
        return buf_str(out, v->u.b ? "True" : "False");
    case V_INT:
        return buf_fmt(out, "%lld", (long long)v->u.i);
    case V_FLOAT:
        return text_float(v->u.f, out);
    case V_STR:
        return repr_str(v->u.s, out);
    case V_SEQ:
        return repr_seq(r, v->u.seq, depth, out);
    case V_DICT:
        return repr_dict(r, v->u.dict, depth, out);
    case V_NS: {
        int rc = buf_str(out, "<Namespace ");
        rc = rc ? rc : repr_dict(r, v->u.dict, depth, out);
        return rc ? rc : buf_str(out, ">");
    }
    case V_LOOP:
        return buf_fmt(out, "<LoopContext %lld/%lld>", (long long)v->u.loop->at + 1,
                       (long long)v->u.loop->items->n);
    case V_MACRO:
        return buf_fmt(out, "<Macro '%.*s'>", (int)v->u.macro->node->val.u.s.n,
                       v->u.macro->node->val.u.s.p);
    case V_FUNC:
        return buf_fmt(out, "<function %s>", v->u.fn->name);
    case V_METHOD:
        return buf_fmt(out, "<built-in method %s>", v->u.method->fn->name);
    }
    return 0;
}

int text_repr(struct rt *r, const struct val *v, struct buf *out) {
    return repr(r, v, 0, out);
}

int text_str(struct rt *r, const struct val *v, struct buf *out) {
    if (v->type == V_STR) {
        return buf_add(out, v->u.s.p, v->u.s.n);
    }
    return v->type == V_UNDEF ? 0 : repr(r, v, 0, out);
}

int text_val(struct rt *r, const struct val *v, struct val *out) {
    if (v->type == V_STR) {
        *out = *v;
        return 0;
    }
    struct buf b;
    text_buf(&b);
    int rc = text_str(r, v, &b);
    rc = rc ? rc : v_take(r, &b, out);
    buf_fini(&b);
    return rc;
}

static int json_char(uint32_t cp, bool ascii, struct buf *out) {
    static const char from[] = "\"\\\n\r\t\b\f";
    static const char to[] = "\"\\nrtbf";
    const char *hit = cp && cp < 0x80 ? strchr(from, (int)cp) : NULL;
    if (hit) {
        return buf_fmt(out, "\\%c", to[hit - from]);
    }
    if (cp >= 0x20 && (!ascii || cp < 0x7f)) {
        return buf_utf8(out, cp);
    }
    if (cp < 0x10000) {
        return buf_fmt(out, "\\u%04x", cp);
    }
    cp -= 0x10000;
    return buf_fmt(out, "\\u%04x\\u%04x", 0xd800 + (cp >> 10), 0xdc00 + (cp & 0x3ff));
}

static int json_str(struct chat_str s, bool ascii, struct buf *out) {
    int rc = buf_str(out, "\"");
    for (int64_t i = 0; i < s.n && !rc;) {
        uint32_t cp;
        i += utf8_get((const uint8_t *)s.p + i, &cp);
        rc = json_char(cp, ascii, out);
    }
    return rc ? rc : buf_str(out, "\"");
}

/* What stands before an element (at > 0: behind a comma) or before the closing bracket (at < 0). */
static int json_break(const struct json_style *s, int64_t at, int32_t depth, struct buf *out) {
    int rc = at > 0 ? buf_add(out, s->comma.p, s->comma.n) : 0;
    if (rc || !s->indent.p) {
        return rc;
    }
    rc = buf_str(out, "\n");
    for (int32_t i = 0; i < depth && !rc; i++) {
        rc = buf_add(out, s->indent.p, s->indent.n);
    }
    return rc;
}

static int
json_key(struct rt *r, const struct val *k, const struct json_style *s, struct buf *out) {
    struct val text = *k;
    int rc = 0;
    if (k->type == V_NONE || k->type == V_BOOL) {
        text = v_cstr(k->type == V_NONE ? "null" : k->u.b ? "true" : "false");
    } else if (v_is_num(k)) {
        rc = text_val(r, k, &text);
    } else if (k->type != V_STR) {
        return v_bad(k, "a key in JSON");
    }
    return rc ? rc : json_str(text.u.s, s->ascii, out);
}

static int by_key(struct rt *r, struct entry *e, int64_t n) {
    for (int64_t i = 1; i < n; i++) {
        struct entry x = e[i];
        int64_t k = i;
        for (; k > 0; k--) {
            int32_t c = 0;
            int rc = v_cmp(r, &x.key, &e[k - 1].key, &c);
            rc = rc ? rc : eval_step(r, NULL);
            if (rc) {
                return rc;
            }
            if (c >= 0) {
                break;
            }
            e[k] = e[k - 1];
        }
        e[k] = x;
    }
    return 0;
}

static int json_dict(struct rt *r,
                     const struct dict *d,
                     const struct json_style *s,
                     int32_t depth,
                     struct buf *out) {
    struct entry *e = d->e;
    int rc = buf_str(out, "{");
    if (s->sort_keys && d->n > 1) {
        e = arena_get(&r->arena, d->n * (int64_t)sizeof *e);
        if (!e) {
            return arena_rc(&r->arena);
        }
        memcpy(e, d->e, (size_t)d->n * sizeof *e);
        rc = rc ? rc : by_key(r, e, d->n);
    }
    for (int64_t i = 0; i < d->n && !rc; i++) {
        rc = json_break(s, i, depth + 1, out);
        rc = rc ? rc : json_key(r, &e[i].key, s, out);
        rc = rc ? rc : buf_add(out, s->colon.p, s->colon.n);
        rc = rc ? rc : text_json(r, &e[i].val, s, depth + 1, out);
    }
    if (!rc && d->n > 0) {
        rc = json_break(s, -1, depth, out);
    }
    return rc ? rc : buf_str(out, "}");
}

static int json_seq(
    struct rt *r, const struct seq *q, const struct json_style *s, int32_t depth, struct buf *out) {
    int rc = buf_str(out, "[");
    for (int64_t i = 0; i < q->n && !rc; i++) {
        rc = json_break(s, i, depth + 1, out);
        rc = rc ? rc : text_json(r, &q->v[i], s, depth + 1, out);
    }
    if (!rc && q->n > 0) {
        rc = json_break(s, -1, depth, out);
    }
    return rc ? rc : buf_str(out, "]");
}

int text_json(
    struct rt *r, const struct val *v, const struct json_style *s, int32_t depth, struct buf *out) {
    int rc = eval_step(r, NULL);
    if (rc || depth > TEXT_DEPTH) {
        return rc ? rc : err_set(ERR_LIMIT, "a value nested over %d deep as JSON", TEXT_DEPTH);
    }
    if (v->type == V_NONE || v->type == V_BOOL) {
        return buf_str(out, v->type == V_NONE ? "null" : v->u.b ? "true" : "false");
    }
    if (v->type == V_FLOAT && !isfinite(v->u.f)) {
        return buf_str(out, isnan(v->u.f) ? "NaN" : v->u.f > 0 ? "Infinity" : "-Infinity");
    }
    if (v_is_num(v)) {
        return repr(r, v, 0, out);
    }
    if (v->type == V_STR) {
        return json_str(v->u.s, s->ascii, out);
    }
    if (v->type == V_DICT) {
        return json_dict(r, v->u.dict, s, depth, out);
    }
    if (v->type == V_SEQ && v->u.seq->kind <= SEQ_TUPLE) {
        return json_seq(r, v->u.seq, s, depth, out);
    }
    return err_set(ERR_FORMAT, "an object of type %s is not JSON serializable", v_type(v));
}
