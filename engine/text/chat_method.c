/* Python's string methods. Those that are not here (encode, translate, ...) are undefined
 * attributes.
 *
 * src: CPython, Objects/unicodeobject.c */
#include <string.h>

#include "engine/text/chat_int.h"
#include "engine/text/utf8.h"

/* Methods: self is a string, a the bound arguments. */
static int opt_chars(struct rt *r, const struct val *a, struct chat_str *out) {
    *out = (struct chat_str){NULL, 0};
    return a->type == V_MISSING || a->type == V_NONE ? 0 : v_need_str(r, a, "strip", out);
}

static int strip(struct rt *r,
                 const struct val *self,
                 const struct val *a,
                 bool left,
                 bool right,
                 struct val *out) {
    struct chat_str chars;
    int rc = opt_chars(r, a, &chars);
    if (!rc) {
        struct chat_str s = str_trim(self->u.s, chars, left, right);
        *out = v_str(s.p, s.n);
        out->safe = self->safe;
    }
    return rc;
}

static int m_strip(struct rt *r, const struct val *self, const struct val *a, struct val *out) {
    return strip(r, self, a, true, true, out);
}

static int m_lstrip(struct rt *r, const struct val *self, const struct val *a, struct val *out) {
    return strip(r, self, a, true, false, out);
}

static int m_rstrip(struct rt *r, const struct val *self, const struct val *a, struct val *out) {
    return strip(r, self, a, false, true, out);
}

static int split_spaces(struct rt *r, struct chat_str s, int64_t max, struct seq *out) {
    struct chat_str none = {NULL, 0};
    int rc = 0;
    s = str_trim(s, none, true, false);
    while (s.n > 0 && !rc) {
        int64_t i = 0;
        if (max == 0) {
            return v_push(r, out, v_str(s.p, s.n));
        }
        while (i < s.n) {
            uint32_t cp;
            int32_t k = utf8_get((const uint8_t *)s.p + i, &cp);
            if (py_space(cp)) {
                break;
            }
            i += k;
        }
        rc = v_push(r, out, v_str(s.p, i));
        s = str_trim((struct chat_str){s.p + i, s.n - i}, none, true, false);
        max--;
    }
    return rc;
}

static int
split_by(struct rt *r, struct chat_str s, struct chat_str by, int64_t max, struct seq *out) {
    int64_t from = 0;
    int rc = by.n == 0 ? err_set(ERR_FORMAT, "split: empty separator") : 0;
    while (!rc) {
        int64_t hit = max == 0 ? -1 : str_find(s, from, by);
        if (hit < 0) {
            return v_push(r, out, v_str(s.p + from, s.n - from));
        }
        rc = v_push(r, out, v_str(s.p + from, hit - from));
        from = hit + by.n;
        max--;
    }
    return rc;
}

static int split_args(struct rt *r, const struct val *a, int64_t *max, struct val *out) {
    *max = -1;
    int rc = a[1].type == V_MISSING ? 0 : v_need_int(r, &a[1], "split", max);
    return rc ? rc : v_seq(r, SEQ_LIST, 8, out);
}

static int m_split(struct rt *r, const struct val *self, const struct val *a, struct val *out) {
    int64_t max;
    struct chat_str by;
    int rc = split_args(r, a, &max, out);
    if (rc || a[0].type == V_MISSING || a[0].type == V_NONE) {
        return rc ? rc : split_spaces(r, self->u.s, max, out->u.seq);
    }
    rc = v_need_str(r, &a[0], "split", &by);
    return rc ? rc : split_by(r, self->u.s, by, max, out->u.seq);
}

static void reverse(struct seq *s) {
    for (int64_t i = 0; i < s->n / 2; i++) {
        struct val v = s->v[i];
        s->v[i] = s->v[s->n - 1 - i];
        s->v[s->n - 1 - i] = v;
    }
}

static int m_rsplit(struct rt *r, const struct val *self, const struct val *a, struct val *out) {
    int64_t max;
    struct chat_str by;
    struct chat_str s = self->u.s;
    int rc = split_args(r, a, &max, out);
    if (rc || max < 0) { /* without a limit the direction makes no difference */
        return rc ? rc : m_split(r, self, a, out);
    }
    bool spaces = a[0].type == V_MISSING || a[0].type == V_NONE;
    rc = spaces ? 0 : v_need_str(r, &a[0], "rsplit", &by);
    if (spaces || (!rc && by.n == 0)) {
        return rc ? rc : err_set(ERR_UNSUPPORTED, "rsplit with a limit and without a separator");
    }
    for (; !rc && max > 0; max--) {
        int64_t hit = str_rfind(s, by);
        if (hit < 0) {
            break;
        }
        rc = v_push(r, out->u.seq, v_str(s.p + hit + by.n, s.n - hit - by.n));
        s.n = hit;
    }
    rc = rc ? rc : v_push(r, out->u.seq, v_str(s.p, s.n));
    reverse(out->u.seq);
    return rc;
}

static int partition(
    struct rt *r, const struct val *self, const struct val *a, bool from_right, struct val *out) {
    struct chat_str by;
    struct chat_str s = self->u.s;
    int rc = v_need_str(r, a, "partition", &by);
    if (!rc && by.n == 0) {
        rc = err_set(ERR_FORMAT, "partition: empty separator");
    }
    rc = rc ? rc : v_seq(r, SEQ_TUPLE, 3, out);
    if (rc) {
        return rc;
    }
    int64_t hit = from_right ? str_rfind(s, by) : str_find(s, 0, by);
    int64_t cut = hit < 0 ? (from_right ? 0 : s.n) : hit;
    int64_t end = hit < 0 ? cut : hit + by.n;
    rc = v_push(r, out->u.seq, v_str(s.p, cut));
    rc = rc ? rc : v_push(r, out->u.seq, v_str(s.p + cut, end - cut));
    return rc ? rc : v_push(r, out->u.seq, v_str(s.p + end, s.n - end));
}

static int m_partition(struct rt *r, const struct val *self, const struct val *a, struct val *out) {
    return partition(r, self, a, false, out);
}

static int
m_rpartition(struct rt *r, const struct val *self, const struct val *a, struct val *out) {
    return partition(r, self, a, true, out);
}

static int
m_splitlines(struct rt *r, const struct val *self, const struct val *a, struct val *out) {
    int rc = v_seq(r, SEQ_LIST, 8, out);
    return rc ? rc : str_lines(r, self->u.s, v_true(a), out->u.seq);
}

static bool affix_is(struct chat_str s, struct chat_str x, bool front) {
    return x.n <= s.n && memcmp(front ? s.p : s.p + s.n - x.n, x.p, (size_t)x.n) == 0;
}

/* startswith and endswith take a string or a tuple of them. */
static int
affix(struct rt *r, const struct val *self, const struct val *a, bool front, struct val *out) {
    struct chat_str x;
    bool tuple = a->type == V_SEQ && a->u.seq->kind == SEQ_TUPLE;
    bool hit = false;
    int rc = 0;
    for (int64_t i = 0; i < (tuple ? a->u.seq->n : 1) && !rc; i++) {
        rc = v_need_str(r, tuple ? &a->u.seq->v[i] : a, front ? "startswith" : "endswith", &x);
        hit = hit || (!rc && affix_is(self->u.s, x, front));
    }
    *out = v_bool(hit);
    return rc;
}

static int
m_startswith(struct rt *r, const struct val *self, const struct val *a, struct val *out) {
    return affix(r, self, a, true, out);
}

static int m_endswith(struct rt *r, const struct val *self, const struct val *a, struct val *out) {
    return affix(r, self, a, false, out);
}

static int remove_affix(
    struct rt *r, const struct val *self, const struct val *a, bool front, struct val *out) {
    struct chat_str x;
    struct chat_str s = self->u.s;
    int rc = v_need_str(r, a, front ? "removeprefix" : "removesuffix", &x);
    if (!rc && affix_is(s, x, front)) {
        s.p += front ? x.n : 0;
        s.n -= x.n;
    }
    *out = v_str(s.p, s.n);
    return rc;
}

static int
m_removeprefix(struct rt *r, const struct val *self, const struct val *a, struct val *out) {
    return remove_affix(r, self, a, true, out);
}

static int
m_removesuffix(struct rt *r, const struct val *self, const struct val *a, struct val *out) {
    return remove_affix(r, self, a, false, out);
}

static int m_replace(struct rt *r, const struct val *self, const struct val *a, struct val *out) {
    struct chat_str from;
    struct chat_str to;
    int64_t count = -1;
    int rc = v_need_str(r, &a[0], "replace", &from);
    rc = rc ? rc : v_need_str(r, &a[1], "replace", &to);
    rc = rc || a[2].type == V_MISSING ? rc : v_need_int(r, &a[2], "replace", &count);
    return rc ? rc : str_replace(r, self->u.s, from, to, count, out);
}

static int
position(struct rt *r, const struct val *self, const struct val *a, bool right, int64_t *out) {
    struct chat_str x;
    int rc = v_need_str(r, a, "find", &x);
    if (!rc) {
        int64_t hit = right ? str_rfind(self->u.s, x) : str_find(self->u.s, 0, x);
        *out = hit < 0 ? -1 : utf8_count((const uint8_t *)self->u.s.p, hit);
    }
    return rc;
}

static int m_find(struct rt *r, const struct val *self, const struct val *a, struct val *out) {
    int64_t i = 0;
    int rc = position(r, self, a, false, &i);
    *out = v_int(i);
    return rc;
}

static int m_rfind(struct rt *r, const struct val *self, const struct val *a, struct val *out) {
    int64_t i = 0;
    int rc = position(r, self, a, true, &i);
    *out = v_int(i);
    return rc;
}

static int m_index(struct rt *r, const struct val *self, const struct val *a, struct val *out) {
    int64_t i = 0;
    int rc = position(r, self, a, false, &i);
    if (!rc && i < 0) {
        rc = err_set(ERR_FORMAT, "index: substring not found");
    }
    *out = v_int(i);
    return rc;
}

static int m_count(struct rt *r, const struct val *self, const struct val *a, struct val *out) {
    struct chat_str x;
    struct chat_str s = self->u.s;
    int64_t n = 0;
    int rc = v_need_str(r, a, "count", &x);
    if (!rc && x.n == 0) {
        n = utf8_count((const uint8_t *)s.p, s.n) + 1;
    }
    for (int64_t i = rc || x.n == 0 ? -1 : str_find(s, 0, x); i >= 0; i = str_find(s, i + x.n, x)) {
        n++;
    }
    *out = v_int(n);
    return rc;
}

static int m_join(struct rt *r, const struct val *self, const struct val *a, struct val *out) {
    struct seq *items;
    struct buf b;
    text_buf(&b);
    int rc = v_items(r, a, &items);
    for (int64_t i = 0; !rc && i < items->n; i++) {
        struct chat_str s;
        rc = v_need_str(r, &items->v[i], "join", &s);
        rc = rc || i == 0 ? rc : buf_add(&b, self->u.s.p, self->u.s.n);
        rc = rc ? rc : buf_add(&b, s.p, s.n);
    }
    rc = rc ? rc : v_take(r, &b, out);
    buf_fini(&b);
    return rc;
}

/* ljust, rjust, center, zfill */
static int
pad(struct rt *r, const struct val *self, const struct val *a, char mode, struct val *out) {
    int64_t width = 0;
    struct chat_str s = self->u.s;
    struct chat_str fill = {mode == 'z' ? "0" : " ", 1};
    struct buf b;
    int rc = v_need_int(r, &a[0], "width", &width);
    rc = rc || a[1].type == V_MISSING || mode == 'z' ? rc : v_need_str(r, &a[1], "fill", &fill);
    if (rc) {
        return rc;
    }
    int64_t more = i64_max(0, width - utf8_count((const uint8_t *)s.p, s.n));
    int64_t left = mode == 'l' ? 0 : mode == 'c' ? more / 2 + (more & width & 1) : more;
    int64_t sign = mode == 'z' && s.n > 0 && (s.p[0] == '-' || s.p[0] == '+');
    text_buf(&b);
    rc = buf_add(&b, s.p, sign);
    for (int64_t i = 0; i < more && !rc; i++) {
        rc = i == left ? buf_add(&b, s.p + sign, s.n - sign) : 0;
        rc = rc ? rc : buf_add(&b, fill.p, fill.n);
    }
    rc = rc || left < more ? rc : buf_add(&b, s.p + sign, s.n - sign);
    rc = rc ? rc : v_take(r, &b, out);
    buf_fini(&b);
    return rc;
}

static int m_ljust(struct rt *r, const struct val *self, const struct val *a, struct val *out) {
    return pad(r, self, a, 'l', out);
}

static int m_rjust(struct rt *r, const struct val *self, const struct val *a, struct val *out) {
    return pad(r, self, a, 'r', out);
}

static int m_center(struct rt *r, const struct val *self, const struct val *a, struct val *out) {
    return pad(r, self, a, 'c', out);
}

static int m_zfill(struct rt *r, const struct val *self, const struct val *a, struct val *out) {
    return pad(r, self, a, 'z', out);
}

#define CASE_METHOD(name, mode)                                                                    \
    static int m_##name(struct rt *r, const struct val *self, const struct val *a,                 \
                        struct val *out) {                                                         \
        (void)a;                                                                                   \
        int rc = str_case(r, self->u.s, mode, out);                                                \
        out->safe = self->safe;                                                                    \
        return rc;                                                                                 \
    }
CASE_METHOD(upper, 'u')
CASE_METHOD(lower, 'l')
CASE_METHOD(title, 't')
CASE_METHOD(capitalize, 'c')
CASE_METHOD(swapcase, 's')

#define IS_METHOD(name, what)                                                                      \
    static int m_##name(struct rt *r, const struct val *self, const struct val *a,                 \
                        struct val *out) {                                                         \
        (void)r;                                                                                   \
        (void)a;                                                                                   \
        *out = v_bool(str_all(self->u.s, what));                                                   \
        return 0;                                                                                  \
    }
IS_METHOD(isspace, 's')
IS_METHOD(isdigit, 'd')
IS_METHOD(isalpha, 'a')
IS_METHOD(isalnum, 'n')
IS_METHOD(isupper, 'u')
IS_METHOD(islower, 'l')

const struct chat_fn *str_method(struct chat_str name) {
    static const struct chat_fn methods[] = {
        {"capitalize", "", 0, m_capitalize, NULL},
        {"casefold", "", 0, m_lower, NULL},
        {"center", "width fillchar", 1, m_center, NULL},
        {"count", "sub", 1, m_count, NULL},
        {"endswith", "suffix", 1, m_endswith, NULL},
        {"find", "sub", 1, m_find, NULL},
        {"index", "sub", 1, m_index, NULL},
        {"isalnum", "", 0, m_isalnum, NULL},
        {"isalpha", "", 0, m_isalpha, NULL},
        {"isdecimal", "", 0, m_isdigit, NULL},
        {"isdigit", "", 0, m_isdigit, NULL},
        {"islower", "", 0, m_islower, NULL},
        {"isnumeric", "", 0, m_isdigit, NULL},
        {"isspace", "", 0, m_isspace, NULL},
        {"isupper", "", 0, m_isupper, NULL},
        {"join", "iterable", 1, m_join, NULL},
        {"ljust", "width fillchar", 1, m_ljust, NULL},
        {"lower", "", 0, m_lower, NULL},
        {"lstrip", "chars", 0, m_lstrip, NULL},
        {"partition", "sep", 1, m_partition, NULL},
        {"removeprefix", "prefix", 1, m_removeprefix, NULL},
        {"removesuffix", "suffix", 1, m_removesuffix, NULL},
        {"replace", "old new count", 2, m_replace, NULL},
        {"rfind", "sub", 1, m_rfind, NULL},
        {"rjust", "width fillchar", 1, m_rjust, NULL},
        {"rpartition", "sep", 1, m_rpartition, NULL},
        {"rsplit", "sep maxsplit", 0, m_rsplit, NULL},
        {"rstrip", "chars", 0, m_rstrip, NULL},
        {"split", "sep maxsplit", 0, m_split, NULL},
        {"splitlines", "keepends", 0, m_splitlines, NULL},
        {"startswith", "prefix", 1, m_startswith, NULL},
        {"strip", "chars", 0, m_strip, NULL},
        {"swapcase", "", 0, m_swapcase, NULL},
        {"title", "", 0, m_title, NULL},
        {"upper", "", 0, m_upper, NULL},
        {"zfill", "width", 1, m_zfill, NULL},
    };
    return fn_find(methods, ARRAY_LEN(methods), name);
}
