/* UTF-8, character classes, normal forms.
 *
 *     0xxxxxxx                             U+0000..U+007F
 *     110xxxxx 10xxxxxx                    U+0080..U+07FF    first byte c2..df
 *     1110xxxx 10xxxxxx 10xxxxxx           U+0800..U+FFFF    e0 a0.., ed ..9f (no surrogates)
 *     11110xxx 10xxxxxx 10xxxxxx 10xxxxxx  U+10000..U+10FFFF f0 90.., f4 ..8f
 *
 * The second byte's range depends on the first; a broken sequence is cut at the first byte that
 * cannot follow, so that the number of replacement characters equals that of other programs.
 * src: The Unicode Standard 15.0, table 3-7; UAX #15 for normal forms; tables by utf8proc. */
#include "engine/text/utf8.h"

#include <string.h>
#include <utf8proc.h>

#include "engine/base/err.h"
#include "engine/text/utf8_int.h"

static int32_t expect(uint8_t c, uint8_t *lo, uint8_t *hi) {
    *lo = 0x80;
    *hi = 0xbf;
    if (c >= 0xc2 && c <= 0xdf) {
        return 2;
    }
    if (c >= 0xe0 && c <= 0xef) {
        *lo = c == 0xe0 ? 0xa0 : 0x80;
        *hi = c == 0xed ? 0x9f : 0xbf;
        return 3;
    }
    if (c >= 0xf0 && c <= 0xf4) {
        *lo = c == 0xf0 ? 0x90 : 0x80;
        *hi = c == 0xf4 ? 0x8f : 0xbf;
        return 4;
    }
    return 0;
}

int32_t utf8_next(const uint8_t *p, int64_t n, uint32_t *cp) {
    if (p[0] < 0x80) {
        *cp = p[0];
        return 1;
    }
    uint8_t lo;
    uint8_t hi;
    int32_t want = expect(p[0], &lo, &hi);
    if (want == 0) {
        return -1;
    }
    uint32_t v = p[0] & (0xffU >> (want + 1));
    for (int32_t i = 1; i < want; i++) {
        if (i >= n) {
            return 0;
        }
        if (p[i] < lo || p[i] > hi) {
            return -i;
        }
        v = v << 6 | (p[i] & 0x3fU);
        lo = 0x80;
        hi = 0xbf;
    }
    *cp = v;
    return want;
}

int32_t utf8_get(const uint8_t *p, uint32_t *cp) {
    if (p[0] < 0x80) {
        *cp = p[0];
        return 1;
    }
    if (p[0] < 0xe0) {
        *cp = (p[0] & 0x1fU) << 6 | (p[1] & 0x3fU);
        return 2;
    }
    if (p[0] < 0xf0) {
        *cp = (p[0] & 0x0fU) << 12 | (p[1] & 0x3fU) << 6 | (p[2] & 0x3fU);
        return 3;
    }
    *cp = (p[0] & 0x07U) << 18 | (p[1] & 0x3fU) << 12 | (p[2] & 0x3fU) << 6 | (p[3] & 0x3fU);
    return 4;
}

static bool ascii8(const uint8_t *p) {
    uint64_t w;
    memcpy(&w, p, sizeof w);
    return (w & 0x8080808080808080U) == 0;
}

int64_t utf8_valid(const uint8_t *p, int64_t n) {
    int64_t i = 0;
    while (i < n) {
        if (i + 8 <= n && ascii8(p + i)) {
            i += 8;
            continue;
        }
        uint32_t cp;
        int32_t k = utf8_next(p + i, n - i, &cp);
        if (k <= 0) {
            return i;
        }
        i += k;
    }
    return n;
}

int64_t utf8_count(const uint8_t *p, int64_t n) {
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++) {
        count += (p[i] & 0xc0) != 0x80;
    }
    return count;
}

int utf8_repair(const uint8_t *p, int64_t n, struct buf *out) {
    int64_t i = 0;
    while (i < n) {
        int64_t good = utf8_valid(p + i, n - i);
        int rc = buf_add(out, p + i, good);
        if (rc) {
            return rc;
        }
        i += good;
        if (i == n) {
            return 0;
        }
        uint32_t cp;
        int32_t k = utf8_next(p + i, n - i, &cp);
        rc = buf_utf8(out, UTF8_REPLACEMENT);
        if (rc) {
            return rc;
        }
        i = k == 0 ? n : i - k;
    }
    return 0;
}

static utf8proc_category_t category(uint32_t cp) {
    return utf8proc_category((utf8proc_int32_t)cp);
}

bool utf8_is_digit(uint32_t cp) {
    return category(cp) == UTF8PROC_CATEGORY_ND;
}

bool utf8_is_number(uint32_t cp) {
    utf8proc_category_t c = category(cp);
    return c == UTF8PROC_CATEGORY_ND || c == UTF8PROC_CATEGORY_NL || c == UTF8PROC_CATEGORY_NO;
}

bool utf8_is_space(uint32_t cp) {
    if (cp < 0x80) {
        return cp == ' ' || (cp >= 9 && cp <= 13);
    }
    return cp == 0x85 || cp == 0xa0 || cp == 0x1680 || (cp >= 0x2000 && cp <= 0x200a) ||
           cp == 0x2028 || cp == 0x2029 || cp == 0x202f || cp == 0x205f || cp == 0x3000;
}

bool utf8_is_letter(uint32_t cp) {
    utf8proc_category_t c = category(cp);
    return c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_LO;
}

bool utf8_is_upper(uint32_t cp) {
    utf8proc_category_t c = category(cp);
    return c == UTF8PROC_CATEGORY_LU || c == UTF8PROC_CATEGORY_LT;
}

bool utf8_is_lower(uint32_t cp) {
    return category(cp) == UTF8PROC_CATEGORY_LL;
}

/* Signs that are Alphabetic: circled, squared and negative letters. */
static bool is_letter_sign(uint32_t cp) {
    return (cp >= 0x24b6 && cp <= 0x24e9) || (cp >= 0x1f130 && cp <= 0x1f149) ||
           (cp >= 0x1f150 && cp <= 0x1f169) || (cp >= 0x1f170 && cp <= 0x1f189);
}

bool utf8_is_word(uint32_t cp) {
    utf8proc_category_t c = category(cp);
    return (c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_ND) || c == UTF8PROC_CATEGORY_NL ||
           c == UTF8PROC_CATEGORY_PC || cp == 0x200c || cp == 0x200d || is_letter_sign(cp);
}

bool utf8_is_punct(uint32_t cp) {
    if (cp < 0x80) {
        return (cp >= '!' && cp <= '/') || (cp >= ':' && cp <= '@') || (cp >= '[' && cp <= '`') ||
               (cp >= '{' && cp <= '~');
    }
    utf8proc_category_t c = category(cp);
    return c >= UTF8PROC_CATEGORY_PC && c <= UTF8PROC_CATEGORY_PO;
}

uint32_t utf8_upper(uint32_t cp) {
    return (uint32_t)utf8proc_toupper((utf8proc_int32_t)cp);
}

uint32_t utf8_lower(uint32_t cp) {
    return (uint32_t)utf8proc_tolower((utf8proc_int32_t)cp);
}

uint32_t utf8_title(uint32_t cp) {
    return (uint32_t)utf8proc_totitle((utf8proc_int32_t)cp);
}

/* A growing run of code points that ends before the next starter. */
struct run {
    utf8proc_int32_t *cp;  /* own, [cap] */
    utf8proc_int32_t *tmp; /* own, [cap] */
    int64_t n;
    int64_t cap;
};

static int run_reserve(struct run *r, int64_t need) {
    if (need <= r->cap) {
        return 0;
    }
    int64_t cap = i64_max(64, i64_max(need, r->cap * 2));
    utf8proc_int32_t *cp = mem_realloc(MEM_TEXT, r->cp, cap * (int64_t)sizeof *cp);
    if (!cp) {
        return ERR_NOMEM;
    }
    r->cp = cp;
    utf8proc_int32_t *tmp = mem_realloc(MEM_TEXT, r->tmp, cap * (int64_t)sizeof *tmp);
    if (!tmp) {
        return ERR_NOMEM;
    }
    r->tmp = tmp;
    r->cap = cap;
    return 0;
}

static int32_t combining(utf8proc_int32_t cp) {
    return utf8proc_get_property(cp)->combining_class;
}

/* Stable counting sort of a run of marks by combining class. why: utf8proc's own ordering is
 * quadratic, and the text is a stranger's. */
static void order_marks(utf8proc_int32_t *cp, utf8proc_int32_t *tmp, int64_t n) {
    int64_t start[257] = {0};
    for (int64_t i = 0; i < n; i++) {
        start[combining(cp[i]) + 1]++;
    }
    for (int32_t c = 0; c < 256; c++) {
        start[c + 1] += start[c];
    }
    for (int64_t i = 0; i < n; i++) {
        tmp[start[combining(cp[i])]++] = cp[i];
    }
    memcpy(cp, tmp, (size_t)n * sizeof *cp);
}

static void order(struct run *r) {
    int64_t i = 0;
    while (i < r->n) {
        int64_t end = i;
        while (end < r->n && combining(r->cp[end]) > 0) {
            end++;
        }
        if (end > i + 1) {
            order_marks(r->cp + i, r->tmp, end - i);
        }
        i = end + (end == i);
    }
}

static int decompose(const uint8_t *p, int64_t n, utf8proc_option_t opt, struct run *r) {
    int last_class = 0;
    for (int64_t i = 0; i < n;) {
        uint32_t cp;
        i += utf8_get(p + i, &cp);
        for (;;) {
            utf8proc_ssize_t k = utf8proc_decompose_char(
                (utf8proc_int32_t)cp, r->cp ? r->cp + r->n : NULL, r->cap - r->n, opt, &last_class);
            if (k < 0) {
                return err_set(ERR_INTERNAL, "normal form of U+%04X: %s", cp, utf8proc_errmsg(k));
            }
            if (r->n + k <= r->cap) {
                r->n += k;
                break;
            }
            int rc = run_reserve(r, r->n + k);
            if (rc) {
                return rc;
            }
        }
    }
    return 0;
}

static int
normalize(enum utf8_form form, const uint8_t *p, int64_t n, struct buf *out, struct run *r) {
    bool compose = form == UTF8_NFC || form == UTF8_NFKC;
    int opt = UTF8PROC_STABLE | (compose ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE);
    if (form == UTF8_NFKC || form == UTF8_NFKD) {
        opt |= UTF8PROC_COMPAT;
    }
    int rc = decompose(p, n, (utf8proc_option_t)opt, r);
    if (rc) {
        return rc;
    }
    order(r);
    int64_t len = r->n;
    if (compose) {
        len = utf8proc_normalize_utf32(r->cp, r->n, (utf8proc_option_t)opt);
    }
    for (int64_t i = 0; i < len && !rc; i++) {
        rc = buf_utf8(out, (uint32_t)r->cp[i]);
    }
    return rc;
}

/* End of the stretch of plain characters at p[i]. out: *last is where its last character begins */
static int64_t plain_end(const uint8_t *p, int64_t n, int64_t i, int64_t *last) {
    *last = i;
    while (i < n) {
        uint32_t cp;
        if (p[i] < 0xcc) { /* cc 80 is U+0300 */
            *last = i;
            i += p[i] < 0x80 ? 1 : 2;
            continue;
        }
        int32_t k = utf8_get(p + i, &cp);
        if (!utf8_nfc_plain(cp)) {
            break;
        }
        *last = i;
        i += k;
    }
    return i;
}

static int64_t strange_end(const uint8_t *p, int64_t n, int64_t i) {
    while (i < n) {
        uint32_t cp;
        int32_t k = utf8_get(p + i, &cp);
        if (utf8_nfc_plain(cp)) {
            break;
        }
        i += k;
    }
    return i;
}

/* NFC by stretches: plain text is copied; a strange stretch is normalised together with the plain
 * character before it, which a mark may join. */
static int compose(const uint8_t *p, int64_t n, struct buf *out, struct run *r) {
    int64_t i = 0;
    int rc = 0;
    while (i < n && !rc) {
        int64_t last;
        int64_t end = plain_end(p, n, i, &last);
        int64_t keep = end == n ? n : last;
        rc = buf_add(out, p + i, keep - i);
        i = keep;
        if (i < n && !rc) {
            end = strange_end(p, n, end);
            r->n = 0;
            rc = normalize(UTF8_NFC, p + i, end - i, out, r);
            i = end;
        }
    }
    return rc;
}

int utf8_normalize(enum utf8_form form, const uint8_t *p, int64_t n, struct buf *out) {
    struct run r = {0};
    int rc = form == UTF8_NFC ? compose(p, n, out, &r) : normalize(form, p, n, out, &r);
    mem_free(r.cp);
    mem_free(r.tmp);
    return rc;
}
