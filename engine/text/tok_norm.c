/* The normaliser: a list of rewrites over the text between raw added tokens.
 *
 * Each step reads one text and appends another. Case is mapped character by character (the one
 * whose lower case is two characters is U+0130); marks are the general category M, for BERT only
 * Mn. SPM is SentencePiece's own: the longest rewriting of its charsmap at each place (user-defined
 * symbols stand as they are), blanks squeezed, a blank in front, blanks to U+2581:
 *
 *     "  a  b "  -->  "_a_b"
 *
 * src: tokenizers, normalizers/{unicode,strip,prepend,replace,bert,precompiled,byte_level}.rs;
 * google/sentencepiece, normalizer.cc Normalize, NormalizePrefix */
#include <string.h>
#include <utf8proc.h>

#include "engine/base/err.h"
#include "engine/text/tok_int.h"
#include "engine/text/utf8.h"

static const char mark[] = "\xe2\x96\x81"; /* U+2581 */

static int replace(const uint8_t *p, int64_t n, const struct tok_norm *s, struct buf *out) {
    int64_t from = 0;
    int rc = 0;
    while (from < n && !rc) {
        const uint8_t *hit = memmem(p + from, (size_t)(n - from), s->from.p, (size_t)s->from.n);
        int64_t at = hit ? hit - p : n;
        rc = buf_add(out, p + from, at - from);
        if (!rc && hit) {
            rc = buf_add(out, s->to.p, s->to.n);
        }
        from = hit ? at + s->from.n : n;
    }
    return rc;
}

/* replace of one byte, which may be in every place. */
static int replace_byte(const uint8_t *p, int64_t n, const struct tok_norm *s, struct buf *out) {
    char part[512];
    int64_t k = 0;
    int rc = 0;
    if (s->to.n >= (int32_t)sizeof part) {
        return replace(p, n, s, out);
    }
    for (int64_t i = 0; i < n && !rc; i++) {
        if (k + s->to.n + 1 > (int64_t)sizeof part) {
            rc = buf_add(out, part, k);
            k = 0;
        }
        if (p[i] != (uint8_t)s->from.p[0]) {
            part[k++] = (char)p[i];
            continue;
        }
        for (int32_t j = 0; j < s->to.n; j++) {
            part[k++] = s->to.p[j];
        }
    }
    return rc ? rc : buf_add(out, part, k);
}

static utf8proc_category_t category(uint32_t cp) {
    return utf8proc_category((utf8proc_int32_t)cp);
}

static bool is_mark(uint32_t cp) {
    utf8proc_category_t c = category(cp);
    return c == UTF8PROC_CATEGORY_MN || c == UTF8PROC_CATEGORY_MC || c == UTF8PROC_CATEGORY_ME;
}

static bool is_control(uint32_t cp) {
    utf8proc_category_t c = category(cp);
    bool other = c == UTF8PROC_CATEGORY_CC || c == UTF8PROC_CATEGORY_CF ||
                 c == UTF8PROC_CATEGORY_CO || c == UTF8PROC_CATEGORY_CN;
    return other && cp != '\t' && cp != '\n' && cp != '\r';
}

static bool in_ranges(uint32_t cp, const uint32_t (*range)[2], int32_t n) {
    for (int32_t i = 0; i < n; i++) {
        if (cp >= range[i][0] && cp <= range[i][1]) {
            return true;
        }
    }
    return false;
}

/* A map of one character: appends what becomes of it. */
typedef int (*char_map)(uint32_t cp, struct buf *out);

static int keep_lower(uint32_t cp, struct buf *out) {
    int rc = buf_utf8(out, cp == 0x130 ? 'i' : utf8_lower(cp));
    return rc || cp != 0x130 ? rc : buf_utf8(out, 0x307);
}

static int drop_marks(uint32_t cp, struct buf *out) {
    return cp >= 0x300 && is_mark(cp) ? 0 : buf_utf8(out, cp);
}

static int drop_nonspacing(uint32_t cp, struct buf *out) {
    return category(cp) == UTF8PROC_CATEGORY_MN ? 0 : buf_utf8(out, cp);
}

static int nmt(uint32_t cp, struct buf *out) {
    static const uint32_t gone[][2] = {{1, 8},       {0xb, 0xb},   {0xe, 0x1f},
                                       {0x7f, 0x7f}, {0x8f, 0x8f}, {0x9f, 0x9f}};
    static const uint32_t blank[][2] = {{9, 0xa},         {0xc, 0xd},       {0x1680, 0x1680},
                                        {0x200b, 0x200f}, {0x2028, 0x2029}, {0x2581, 0x2581},
                                        {0xfeff, 0xfeff}, {0xfffd, 0xfffd}};
    if (in_ranges(cp, gone, ARRAY_LEN(gone))) {
        return 0;
    }
    return buf_utf8(out, in_ranges(cp, blank, ARRAY_LEN(blank)) ? ' ' : cp);
}

static int clean(uint32_t cp, struct buf *out) {
    if (cp == 0 || cp == UTF8_REPLACEMENT || is_control(cp)) {
        return 0;
    }
    return buf_utf8(out, utf8_is_space(cp) ? ' ' : cp);
}

static int chinese(uint32_t cp, struct buf *out) {
    static const uint32_t han[][2] = {{0x3400, 0x4dbf},   {0x4e00, 0x9fff},   {0xf900, 0xfaff},
                                      {0x20000, 0x2a6df}, {0x2a700, 0x2b73f}, {0x2b740, 0x2b81f},
                                      {0x2b920, 0x2ceaf}, {0x2f800, 0x2fa1f}};
    bool is = in_ranges(cp, han, ARRAY_LEN(han));
    int rc = is ? buf_str(out, " ") : 0;
    rc = rc ? rc : buf_utf8(out, cp);
    return rc || !is ? rc : buf_str(out, " ");
}

static int map_chars(const uint8_t *p, int64_t n, char_map f, struct buf *out) {
    int rc = 0;
    for (int64_t i = 0; i < n && !rc;) {
        uint32_t cp;
        i += utf8_get(p + i, &cp);
        rc = f(cp, out);
    }
    return rc;
}

static int strip(const struct tok_norm *s, const uint8_t *p, int64_t n, struct buf *out) {
    int64_t start = 0;
    int64_t end = n;
    uint32_t cp;
    while (s->left && start < n) {
        int32_t k = utf8_get(p + start, &cp);
        if (!utf8_is_space(cp)) {
            break;
        }
        start += k;
    }
    while (s->right && end > start) {
        int64_t k = end - 1;
        while ((p[k] & 0xc0) == 0x80) {
            k--;
        }
        utf8_get(p + k, &cp);
        if (!utf8_is_space(cp)) {
            break;
        }
        end = k;
    }
    return buf_add(out, p + start, end - start);
}

/* The four passes of BERT; a and b are scratch. */
static int
bert(struct tok_work *w, const struct tok_norm *s, const uint8_t *p, int64_t n, struct buf *out) {
    struct buf *to = &w->tmp[0];
    struct buf *from = &w->tmp[1];
    buf_clear(from);
    int rc = buf_add(from, p, n);
    for (int32_t pass = 0; pass < 5 && !rc; pass++) {
        const bool on[] = {s->clean, s->chinese, s->marks, s->marks, s->lower};
        static const char_map map[] = {clean, chinese, NULL, drop_nonspacing, keep_lower};
        if (!on[pass]) {
            continue;
        }
        buf_clear(to);
        const uint8_t *q = (const uint8_t *)buf_cstr(from);
        rc = map[pass] ? map_chars(q, from->len, map[pass], to)
                       : utf8_normalize(UTF8_NFD, q, from->len, to);
        struct buf *swap = from;
        from = to;
        to = swap;
    }
    return rc ? rc : buf_add(out, buf_cstr(from), from->len);
}

/* What the text at p becomes first, and how many bytes that is about. */
static const uint8_t *spm_prefix(const struct tok *t,
                                 const struct tok_norm *s,
                                 const uint8_t *p,
                                 int64_t n,
                                 int64_t *used,
                                 int64_t *len) {
    if (tok_trie_longest(&t->user, p, n, used) >= 0) {
        *len = *used;
        return p;
    }
    const uint8_t *q = tok_charsmap_find(&s->map, p, n, true, used, len);
    if (!q) {
        uint32_t cp;
        *used = utf8_get(p, &cp);
        *len = *used;
        q = p;
    }
    return q;
}

static int spm_text(const uint8_t *p, int64_t n, struct buf *out) {
    int rc = 0;
    for (int64_t i = 0; i < n && !rc;) {
        const uint8_t *blank = memchr(p + i, ' ', (size_t)(n - i));
        int64_t end = blank ? blank - p : n;
        rc = buf_add(out, p + i, end - i);
        rc = rc || !blank ? rc : buf_add(out, mark, 3);
        i = end + 1;
    }
    return rc;
}

static int
spm(const struct tok *t, const struct tok_norm *s, const uint8_t *p, int64_t n, struct buf *out) {
    int64_t i = 0;
    int64_t used;
    int64_t len;
    while (i < n && s->squeeze) {
        const uint8_t *q = spm_prefix(t, s, p + i, n - i, &used, &len);
        if (len != 1 || *q != ' ') {
            break;
        }
        i += used;
    }
    if (i == n) {
        return 0;
    }
    int64_t floor = out->len;
    int rc = s->prefix && !s->suffix ? buf_add(out, mark, 3) : 0;
    bool after_blank = s->squeeze;
    int64_t kept = i; /* what is from here to i stands as it is */
    while (i < n && !rc) {
        const uint8_t *q = spm_prefix(t, s, p + i, n - i, &used, &len);
        if (q == p + i && len == used && (len == 1 ? *q != ' ' : !memchr(q, ' ', (size_t)len))) {
            after_blank = false;
            i += used;
            continue;
        }
        rc = buf_add(out, p + kept, i - kept);
        while (after_blank && len > 0 && *q == ' ') {
            q++;
            len--;
        }
        if (len > 0) {
            rc = rc ? rc : spm_text(q, len, out);
            after_blank = q[len - 1] == ' ';
        }
        after_blank = after_blank && s->squeeze;
        i += used;
        kept = i;
    }
    rc = rc ? rc : buf_add(out, p + kept, n - kept);
    while (!rc && s->squeeze && out->len - floor >= 3 &&
           memcmp(out->data + out->len - 3, mark, 3) == 0) {
        out->len -= 3;
    }
    return rc || !s->suffix || !s->prefix ? rc : buf_add(out, mark, 3);
}

static int step(struct tok_work *w, int32_t i, const uint8_t *p, int64_t n, struct buf *out) {
    const struct tok_norm *s = &w->tok->cfg.norm[i];
    if (n == 0) {
        return 0;
    }
    switch (s->kind) {
    case TOK_NORM_FORM:
        return utf8_normalize((enum utf8_form)s->form, p, n, out);
    case TOK_NORM_PREPEND: {
        int rc = buf_add(out, s->to.p, s->to.n);
        return rc ? rc : buf_add(out, p, n);
    }
    case TOK_NORM_REPLACE:
        return s->from.n == 1 ? replace_byte(p, n, s, out) : replace(p, n, s, out);
    case TOK_NORM_REGEX:
        return tok_regex_replace(w, w->tok->norm_regex[i], p, n, s->to, out);
    case TOK_NORM_LOWER:
        return map_chars(p, n, keep_lower, out);
    case TOK_NORM_STRIP:
        return strip(s, p, n, out);
    case TOK_NORM_MARKS:
        return map_chars(p, n, drop_marks, out);
    case TOK_NORM_NMT:
        return map_chars(p, n, nmt, out);
    case TOK_NORM_BERT:
        return bert(w, s, p, n, out);
    case TOK_NORM_CHARSMAP:
        return tok_charsmap_run(&s->map, p, n, out);
    case TOK_NORM_BYTES:
        return tok_alpha_text(p, n, out);
    case TOK_NORM_SPM:
        return spm(w->tok, s, p, n, out);
    }
    return 0;
}

int tok_norm_run(struct tok_work *w, const uint8_t *p, int64_t n, struct buf *out) {
    const struct tok_cfg *c = &w->tok->cfg;
    int rc = c->n_norm == 0 ? buf_add(out, p, n) : 0;
    for (int32_t i = 0; i < c->n_norm && !rc; i++) {
        if (i > 0) {
            struct buf swap = w->between;
            w->between = *out;
            *out = swap;
            buf_clear(out);
            p = (const uint8_t *)buf_cstr(&w->between);
            n = w->between.len;
        }
        rc = step(w, i, p, n, out);
    }
    return rc;
}

int tok_norm_compile(struct tok *tok) {
    int rc = 0;
    for (int32_t i = 0; i < tok->cfg.n_norm && !rc; i++) {
        struct tok_norm *s = &tok->cfg.norm[i];
        if (s->kind == TOK_NORM_REGEX) {
            rc = tok_regex_compile(tok, s->from, &tok->norm_regex[i]);
        } else if (s->kind == TOK_NORM_CHARSMAP || s->kind == TOK_NORM_SPM) {
            rc = tok_charsmap_parse((const uint8_t *)s->from.p, s->from.n, &s->map);
        }
    }
    return rc;
}
