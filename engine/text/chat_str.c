/* Strings by characters, as Python's.
 *
 * Positions count characters, not bytes; strip and lines know Python's white space and line ends.
 * src: CPython, Objects/unicodeobject.c */
#include <string.h>

#include "engine/text/chat_int.h"
#include "engine/text/utf8.h"

bool py_space(uint32_t cp) {
    return utf8_is_space(cp) || (cp >= 0x1c && cp <= 0x1f);
}

static uint32_t first(struct chat_str s, int32_t *len) {
    uint32_t cp;
    *len = utf8_get((const uint8_t *)s.p, &cp);
    return cp;
}

static uint32_t last(struct chat_str s, int32_t *len) {
    uint32_t cp;
    int64_t i = s.n - 1;
    while (i > 0 && ((uint8_t)s.p[i] & 0xc0) == 0x80) {
        i--;
    }
    utf8_get((const uint8_t *)s.p + i, &cp);
    *len = (int32_t)(s.n - i);
    return cp;
}

static bool strippable(uint32_t cp, struct chat_str chars) {
    if (!chars.p) {
        return py_space(cp);
    }
    for (int64_t i = 0; i < chars.n;) {
        uint32_t c;
        i += utf8_get((const uint8_t *)chars.p + i, &c);
        if (c == cp) {
            return true;
        }
    }
    return false;
}

struct chat_str str_trim(struct chat_str s, struct chat_str chars, bool left, bool right) {
    int32_t k;
    while (left && s.n > 0 && strippable(first(s, &k), chars)) {
        s.p += k;
        s.n -= k;
    }
    while (right && s.n > 0 && strippable(last(s, &k), chars)) {
        s.n -= k;
    }
    return s;
}

/* Byte position of character i. */
static int64_t byte_at(struct chat_str s, int64_t i) {
    int64_t b = 0;
    while (b < s.n && (i > 0 || ((uint8_t)s.p[b] & 0xc0) == 0x80)) {
        i -= ((uint8_t)s.p[b] & 0xc0) != 0x80;
        b++;
    }
    return b;
}

int str_slice(
    struct rt *r, struct chat_str s, int64_t start, int64_t stop, int64_t step, struct val *out) {
    if (step == 1) {
        int64_t from = byte_at(s, start);
        struct chat_str rest = {s.p + from, s.n - from};
        *out = v_str(rest.p, stop > start ? byte_at(rest, stop - start) : 0);
        return 0;
    }
    struct buf b;
    text_buf(&b);
    struct seq *chars;
    struct val v = v_str(s.p, s.n);
    int rc = v_items(r, &v, &chars);
    for (int64_t i = start; !rc && (step > 0 ? i < stop : i > stop); i += step) {
        rc = buf_add(&b, chars->v[i].u.s.p, chars->v[i].u.s.n);
    }
    rc = rc ? rc : v_take(r, &b, out);
    buf_fini(&b);
    return rc;
}

static bool line_end(uint32_t cp) {
    return (cp >= 10 && cp <= 13) || (cp >= 0x1c && cp <= 0x1e) || cp == 0x85 || cp == 0x2028 ||
           cp == 0x2029;
}

int str_lines(struct rt *r, struct chat_str s, bool keep, struct seq *out) {
    int64_t start = 0;
    for (int64_t i = 0; i < s.n;) {
        uint32_t cp;
        int64_t end = i;
        i += utf8_get((const uint8_t *)s.p + i, &cp);
        if (!line_end(cp)) {
            continue;
        }
        i += cp == '\r' && i < s.n && s.p[i] == '\n';
        int rc = v_push(r, out, v_str(s.p + start, (keep ? i : end) - start));
        if (rc) {
            return rc;
        }
        start = i;
    }
    return start < s.n ? v_push(r, out, v_str(s.p + start, s.n - start)) : 0;
}

int64_t str_find(struct chat_str s, int64_t from, struct chat_str what) {
    if (what.n == 0) {
        return from;
    }
    const char *hit = s.n - from < what.n
                          ? NULL
                          : memmem(s.p + from, (size_t)(s.n - from), what.p, (size_t)what.n);
    return hit ? hit - s.p : -1;
}

int64_t str_rfind(struct chat_str s, struct chat_str what) {
    for (int64_t i = s.n - what.n; i >= 0; i--) {
        if (memcmp(s.p + i, what.p, (size_t)what.n) == 0) {
            return i;
        }
    }
    return -1;
}

/* An empty `from` stands between all characters, and at both ends. */
static int replace_empty(struct chat_str s, struct chat_str to, int64_t count, struct buf *b) {
    int rc = 0;
    for (int64_t i = 0; i <= s.n && !rc;) {
        uint32_t cp;
        int32_t k = i < s.n ? utf8_get((const uint8_t *)s.p + i, &cp) : 1;
        if (count-- != 0) {
            rc = buf_add(b, to.p, to.n);
        }
        rc = rc || i == s.n ? rc : buf_add(b, s.p + i, k);
        i += k;
        count = count < -1 ? -1 : count;
    }
    return rc;
}

int str_replace(struct rt *r,
                struct chat_str s,
                struct chat_str from,
                struct chat_str to,
                int64_t count,
                struct val *out) {
    struct buf b;
    text_buf(&b);
    int rc = 0;
    if (from.n == 0) {
        rc = replace_empty(s, to, count < 0 ? -1 : count, &b);
    }
    for (int64_t i = 0; i < s.n && !rc && from.n > 0;) {
        int64_t hit = count == 0 ? -1 : str_find(s, i, from);
        rc = buf_add(&b, s.p + i, (hit < 0 ? s.n : hit) - i);
        if (hit < 0 || rc) {
            break;
        }
        rc = buf_add(&b, to.p, to.n);
        i = hit + from.n;
        count--;
    }
    rc = rc ? rc : v_take(r, &b, out);
    buf_fini(&b);
    return rc;
}

static uint32_t change(uint32_t cp, int mode, bool start) {
    switch (mode) {
    case 'u':
        return utf8_upper(cp);
    case 'l':
        return utf8_lower(cp);
    case 's':
        return utf8_is_lower(cp) ? utf8_upper(cp) : utf8_lower(cp);
    default: /* c: first of the string; t: first of each word */
        return start ? utf8_title(cp) : utf8_lower(cp);
    }
}

int str_case(struct rt *r, struct chat_str s, int mode, struct val *out) {
    struct buf b;
    text_buf(&b);
    int rc = 0;
    bool start = true;
    for (int64_t i = 0; i < s.n && !rc;) {
        uint32_t cp;
        i += utf8_get((const uint8_t *)s.p + i, &cp);
        if (cp == 0xdf && (mode == 'u' || (start && mode != 'l'))) {
            rc = buf_str(&b, mode == 'u' ? "SS" : "Ss"); /* the one common letter that grows */
        } else {
            rc = buf_utf8(&b, change(cp, mode, start));
        }
        start = mode == 't' && !utf8_is_letter(cp);
    }
    rc = rc ? rc : v_take(r, &b, out);
    buf_fini(&b);
    return rc;
}

int str_escape(struct rt *r, struct chat_str s, struct val *out) {
    static const char from[] = "&<>'\"";
    static const char *const to[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
    struct buf b;
    text_buf(&b);
    int rc = 0;
    for (int64_t i = 0; i < s.n && !rc; i++) {
        const char *hit = s.p[i] ? strchr(from, s.p[i]) : NULL;
        rc = hit ? buf_str(&b, to[hit - from]) : buf_add(&b, s.p + i, 1);
    }
    rc = rc ? rc : v_take(r, &b, out);
    out->safe = true;
    buf_fini(&b);
    return rc;
}

bool str_all(struct chat_str s, char what) {
    bool any = false;
    for (int64_t i = 0; i < s.n;) {
        uint32_t cp;
        i += utf8_get((const uint8_t *)s.p + i, &cp);
        bool upper = utf8_is_upper(cp);
        bool lower = utf8_is_lower(cp);
        bool fits = what == 's'   ? py_space(cp)
                    : what == 'd' ? utf8_is_number(cp)
                    : what == 'a' ? utf8_is_letter(cp)
                    : what == 'n' ? utf8_is_letter(cp) || utf8_is_number(cp)
                    : what == 'u' ? !lower
                                  : !upper;
        if (!fits) {
            return false;
        }
        any = any || (what != 'u' && what != 'l') || (what == 'u' ? upper : lower);
    }
    return any;
}
