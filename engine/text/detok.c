/* Streaming decode.
 *
 * Byte-level vocabularies: the bytes of all tokens are one string, and every maximal broken part of
 * it becomes one U+FFFD. At most three bytes (the start of a character) wait for the next token.
 *
 * Character vocabularies: token texts follow each other; a run of byte tokens <0xXX> becomes text
 * if the whole run is UTF-8, else one U+FFFD for each byte of it. So a run is held until another
 * token ends it. A number of blanks is taken off the front of the whole. src: tokenizers,
 * decoders/{byte_fallback,strip}.rs, pre_tokenizers/byte_level.rs */
#include "engine/text/detok.h"

#include <string.h>

#include "engine/base/err.h"
#include "engine/text/tok_int.h"
#include "engine/text/utf8.h"

void detok_init(struct detok *d, const struct tok *tok, bool skip_special) {
    *d = (struct detok){.tok = tok, .skip_special = skip_special, .strip = tok->cfg.dec.strip};
    buf_init(&d->run, MEM_TEXT, DETOK_RUN_MAX);
}

void detok_fini(struct detok *d) {
    buf_fini(&d->run);
}

void detok_reset(struct detok *d) {
    d->n_part = 0;
    d->strip = d->tok->cfg.dec.strip;
    buf_clear(&d->run);
}

/* Takes blanks off the front of the stream, then passes text on. */
static int text(struct detok *d, const uint8_t *p, int64_t n, struct buf *out) {
    int64_t i = 0;
    while (i < n && d->strip > 0) {
        uint32_t cp;
        int32_t k = utf8_next(p + i, n - i, &cp);
        if (k <= 0 || cp != d->tok->cfg.dec.strip_cp) {
            d->strip = 0;
            break;
        }
        d->strip--;
        i += k;
    }
    return buf_add(out, p + i, n - i);
}

static int replacement(struct detok *d, struct buf *out) {
    static const uint8_t fffd[] = {0xef, 0xbf, 0xbd};
    return text(d, fffd, 3, out);
}

/* Completes the waiting character with the bytes of p. out: *used bytes of p */
static int complete(struct detok *d, const uint8_t *p, int32_t n, struct buf *out, int32_t *used) {
    uint8_t b[8];
    int32_t have = d->n_part;
    int32_t more = i32_min(n, 4 - have);
    memcpy(b, d->part, (size_t)have);
    memcpy(b + have, p, (size_t)more);
    uint32_t cp;
    int32_t k = utf8_next(b, have + more, &cp);
    if (k == 0) { /* still a start; four bytes never are */
        memcpy(d->part, b, (size_t)(have + more));
        d->n_part = have + more;
        *used = more;
        return 0;
    }
    d->n_part = 0;
    /* why: a start stays a start, so a break lies at or behind its end */
    *used = (k > 0 ? k : -k) - have;
    return k > 0 ? buf_add(out, b, k) : replacement(d, out);
}

static int push_bytes(struct detok *d, const uint8_t *p, int32_t n, struct buf *out) {
    int32_t i = 0;
    int rc = 0;
    if (d->n_part > 0 && n > 0) {
        rc = complete(d, p, n, out, &i);
    }
    while (i < n && !rc && d->n_part == 0) {
        int64_t good = utf8_valid(p + i, n - i);
        rc = buf_add(out, p + i, good);
        i += (int32_t)good;
        if (i == n || rc) {
            break;
        }
        uint32_t cp;
        int32_t k = utf8_next(p + i, n - i, &cp);
        if (k == 0) {
            d->n_part = n - i;
            memcpy(d->part, p + i, (size_t)d->n_part);
            break;
        }
        rc = replacement(d, out);
        i += -k;
    }
    return rc;
}

static int end_run(struct detok *d, struct buf *out) {
    struct buf *r = &d->run;
    const uint8_t *p = (const uint8_t *)buf_cstr(r);
    int rc = 0;
    if (utf8_valid(p, r->len) == r->len) {
        rc = text(d, p, r->len, out);
    } else {
        for (int64_t i = 0; i < r->len && !rc; i++) {
            rc = replacement(d, out);
        }
    }
    buf_clear(r);
    return rc;
}

int detok_push(struct detok *d, int32_t id, struct buf *out) {
    int32_t n;
    const uint8_t *p = tok_piece(d->tok, id, &n);
    if (!p || (d->skip_special && tok_is_special(d->tok, id))) {
        return 0;
    }
    if (d->tok->cfg.dec.kind == TOK_DEC_BYTE_LEVEL) {
        return push_bytes(d, p, n, out);
    }
    if (d->tok->flags[id] & TOK_F_BYTE) {
        return buf_add(&d->run, p, n);
    }
    int rc = end_run(d, out);
    return rc ? rc : text(d, p, n, out);
}

int detok_flush(struct detok *d, struct buf *out) {
    int rc = d->n_part > 0 ? replacement(d, out) : end_run(d, out);
    detok_reset(d);
    return rc;
}

int tok_decode(
    const struct tok *tok, const int32_t *ids, int64_t n, bool skip_special, struct buf *out) {
    struct detok d;
    detok_init(&d, tok, skip_special);
    int rc = 0;
    for (int64_t i = 0; i < n && !rc; i++) {
        rc = detok_push(&d, ids[i], out);
    }
    rc = rc ? rc : detok_flush(&d, out);
    detok_fini(&d);
    return rc;
}
