/* GPT-2's alphabet: every byte is written as one printable character, so that a vocabulary of byte
 * strings can live in a JSON file.
 *
 *     bytes 21..7e, a1..ac, ae..ff        the character of the same number
 *     the other 68 bytes, in order        U+0100, U+0101, ... U+0143   (20 -> U+0120, 0a -> U+010A)
 *
 * src: openai/gpt-2, encoder.py, bytes_to_unicode */
#include "engine/base/err.h"
#include "engine/text/tok_int.h"
#include "engine/text/utf8.h"

enum { N_MOVED = 68 };

/* The byte of U+0100 + k. */
static int32_t moved(uint32_t k) {
    if (k < 33) {
        return (int32_t)k; /* 00..20 */
    }
    if (k < 67) {
        return (int32_t)k - 33 + 0x7f; /* 7f..a0 */
    }
    return k < N_MOVED ? 0xad : -1;
}

static int32_t byte_of(uint32_t cp) {
    if (cp >= 0x100) {
        return moved(cp - 0x100);
    }
    bool same = (cp >= 0x21 && cp <= 0x7e) || (cp >= 0xa1 && cp != 0xad);
    return same ? (int32_t)cp : -1;
}

int tok_alpha_bytes(struct tok_str text, struct buf *out, bool *ok) {
    int64_t before = out->len;
    const uint8_t *p = (const uint8_t *)text.p;
    for (int32_t i = 0; i < text.n;) {
        uint32_t cp;
        int32_t k = utf8_next(p + i, text.n - i, &cp);
        int32_t b = k > 0 ? byte_of(cp) : -1;
        if (b < 0) {
            out->len = before;
            *ok = false;
            return 0;
        }
        uint8_t byte = (uint8_t)b;
        int rc = buf_add(out, &byte, 1);
        if (rc) {
            return rc;
        }
        i += k;
    }
    *ok = true;
    return 0;
}

uint32_t tok_alpha_letter(uint8_t b) {
    if ((b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b != 0xad)) {
        return b;
    }
    if (b < 0x21) {
        return 0x100U + b;
    }
    return b == 0xad ? 0x143U : 0x100U + 33U + (uint32_t)(b - 0x7f);
}

int tok_alpha_text(const uint8_t *p, int64_t n, struct buf *out) {
    int rc = 0;
    for (int64_t i = 0; i < n && !rc; i++) {
        rc = buf_utf8(out, tok_alpha_letter(p[i]));
    }
    return rc;
}

static int32_t hex(char c) {
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    if (c >= 'A' && c <= 'F') {
        return c - 'A' + 10;
    }
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int32_t tok_alpha_fallback(struct tok_str text) {
    const char *p = text.p;
    if (text.n != 6 || p[0] != '<' || p[1] != '0' || p[2] != 'x' || p[5] != '>') {
        return -1;
    }
    int32_t hi = hex(p[3]);
    int32_t lo = hex(p[4]);
    return hi < 0 || lo < 0 ? -1 : hi * 16 + lo;
}
