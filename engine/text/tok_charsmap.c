/* SentencePiece's precompiled rewriting table.
 *
 *     u32 bytes of the trie (little-endian) | trie: u32 units of Darts-clone | strings, each NUL
 *
 *     unit   31         30..10    9         8          7..0
 *            no label   offset    offset*   a value    label: the byte that
 *                                 256       hangs here leads here
 *
 * Node x goes to y = x ^ offset(x) ^ byte when label(y) = byte; the value that hangs at y is unit
 * y ^ offset(y), its low 31 bits a place in the strings. All places are checked: the blob is a
 * stranger's.
 *
 * tokenizers rewrites by grapheme clusters: a cluster below six bytes as a whole when any prefix of
 * it has a rewriting (the shortest such decides, whatever is left over is lost), else each
 * character likewise. SentencePiece takes the longest prefix of what is left (tok_norm.c).
 * src: google/sentencepiece, normalizer.cc and third_party/darts_clone; spm_precompiled 0.1;
 * tokenizers, normalizers/precompiled.rs; UAX #29 by utf8proc */
#include <string.h>
#include <utf8proc.h>

#include "engine/base/err.h"
#include "engine/text/tok_int.h"
#include "engine/text/utf8.h"

enum { CLUSTER_MAX = 6 };

static uint32_t u32_at(const uint8_t *p) {
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static uint32_t offset(uint32_t unit) {
    return (unit >> 10) << ((unit & 0x200U) >> 6);
}

int tok_charsmap_parse(const uint8_t *p, int64_t n, struct tok_charsmap *m) {
    *m = (struct tok_charsmap){0};
    if (n == 0) {
        return 0;
    }
    int64_t trie = n >= 4 ? (int64_t)u32_at(p) : 0;
    if (n < 4 || trie > n - 4 || trie % 4 != 0 || trie == 0) {
        return err_set(ERR_FORMAT,
                       "charsmap of %lld bytes: a trie of %lld, want a multiple of 4 that fits",
                       (long long)n, (long long)trie);
    }
    const uint8_t *text = p + 4 + trie;
    int64_t n_text = n - 4 - trie;
    int64_t good = utf8_valid(text, n_text);
    if (good != n_text) {
        return err_set(ERR_FORMAT, "charsmap: byte %lld of the strings is no UTF-8",
                       (long long)good);
    }
    *m = (struct tok_charsmap){.unit = p + 4, .n_unit = trie / 4, .text = text, .n_text = n_text};
    return 0;
}

/* The string at a place; NULL when the place is none. */
static const uint8_t *string_at(const struct tok_charsmap *m, uint32_t at, int64_t *n) {
    if (at >= m->n_text || (m->text[at] & 0xc0) == 0x80) {
        return NULL;
    }
    const uint8_t *s = m->text + at;
    const uint8_t *end = memchr(s, 0, (size_t)(m->n_text - at));
    *n = end ? end - s : m->n_text - at;
    return s;
}

const uint8_t *tok_charsmap_find(const struct tok_charsmap *m,
                                 const uint8_t *p,
                                 int64_t n,
                                 bool longest,
                                 int64_t *used,
                                 int64_t *n_out) {
    const uint8_t *found = NULL;
    if (m->n_unit == 0) {
        return NULL;
    }
    uint32_t at = offset(u32_at(m->unit));
    for (int64_t i = 0; i < n && p[i]; i++) {
        at ^= p[i];
        if (at >= m->n_unit) {
            break;
        }
        uint32_t unit = u32_at(m->unit + 4 * (int64_t)at);
        if ((unit & 0x800000ffU) != p[i]) {
            break;
        }
        at ^= offset(unit);
        if (unit & 0x100U && at < m->n_unit) {
            int64_t len = 0;
            uint32_t value = u32_at(m->unit + 4 * (int64_t)at) & 0x7fffffffU;
            const uint8_t *s = string_at(m, value, &len);
            if (s) {
                found = s;
                *n_out = len;
                *used = i + 1;
            }
            if (!longest) {
                break;
            }
        }
    }
    return found;
}

/* End of the grapheme cluster at p[i]. */
static int64_t cluster_end(const uint8_t *p, int64_t n, int64_t i) {
    utf8proc_int32_t state = 0;
    uint32_t before;
    uint32_t cp;
    i += utf8_get(p + i, &before);
    while (i < n) {
        if (before < 0x80 && p[i] < 0x80 && !(before == '\r' && p[i] == '\n')) {
            break;
        }
        int32_t k = utf8_get(p + i, &cp);
        if (utf8proc_grapheme_break_stateful((utf8proc_int32_t)before, (utf8proc_int32_t)cp,
                                             &state)) {
            break;
        }
        before = cp;
        i += k;
    }
    return i;
}

int tok_charsmap_run(const struct tok_charsmap *m, const uint8_t *p, int64_t n, struct buf *out) {
    int rc = 0;
    for (int64_t i = 0; i < n && !rc;) {
        int64_t end = cluster_end(p, n, i);
        int64_t used;
        int64_t len;
        const uint8_t *s =
            end - i < CLUSTER_MAX ? tok_charsmap_find(m, p + i, end - i, false, &used, &len) : NULL;
        if (s) {
            rc = buf_add(out, s, len);
            i = end;
        }
        while (i < end && !rc) {
            uint32_t cp;
            int32_t k = utf8_get(p + i, &cp);
            s = tok_charsmap_find(m, p + i, k, false, &used, &len);
            rc = s ? buf_add(out, s, len) : buf_add(out, p + i, k);
            i += k;
        }
    }
    return rc;
}

static int32_t digit64(char c) {
    if (c >= 'A' && c <= 'Z') {
        return c - 'A';
    }
    if (c >= 'a' && c <= 'z') {
        return c - 'a' + 26;
    }
    if (c >= '0' && c <= '9') {
        return c - '0' + 52;
    }
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

int tok_base64(const char *p, int64_t n, struct buf *out) {
    while (n > 0 && p[n - 1] == '=') {
        n--;
    }
    uint32_t bits = 0;
    for (int64_t i = 0; i < n; i++) {
        int32_t d = digit64(p[i]);
        if (d < 0 || (n % 4 == 1 && i + 1 == n)) {
            return err_set(ERR_FORMAT, "base64: byte %lld of %lld is out of place", (long long)i,
                           (long long)n);
        }
        bits = bits << 6 | (uint32_t)d;
        if (i % 4 != 0) {
            uint8_t byte = (uint8_t)(bits >> (6 - 2 * (i % 4)));
            int rc = buf_add(out, &byte, 1);
            if (rc) {
                return rc;
            }
        }
    }
    return 0;
}
