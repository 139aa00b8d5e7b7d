/* Ids -> text: what is done once, when a tokenizer is made.
 *
 * A decoder is a list of steps over the list of tokens. Leading steps that look at one token alone
 * (REPLACE, REGEX, STRIP; then one BYTES, FALLBACK or META) are applied to every token here, and
 * give its piece; detok.c does the others, and those that need to know the place of a token.
 *
 *     "Ġhello"    BYTES                     " hello"
 *     "▁hello"    REPLACE ▁ by a blank, FALLBACK, FUSE, STRIP       " hello"; "hello" in front
 *     "<0xE4>"    FALLBACK                  the byte e4
 *
 * src: tokenizers, decoders/ */
#include <string.h>

#include "engine/base/err.h"
#include "engine/text/tok_int.h"
#include "engine/text/utf8.h"

static bool alone(enum tok_dec_kind kind) {
    return kind == TOK_DEC_REPLACE || kind == TOK_DEC_REGEX || kind == TOK_DEC_STRIP;
}

int tok_dec_compile(struct tok *tok) {
    struct tok_cfg *c = &tok->cfg;
    bool fused = false;
    int rc = 0;
    tok->n_folded = 0;
    for (int32_t i = 0; i < c->n_dec && !rc; i++) {
        struct tok_dec *d = &c->dec[i];
        bool pattern = d->kind == TOK_DEC_REPLACE || d->kind == TOK_DEC_REGEX ||
                       d->kind == TOK_DEC_META || d->kind == TOK_DEC_SUFFIX;
        if (pattern && d->from.n == 0) {
            return err_set(ERR_FORMAT, "%s: decoder %d looks for an empty text", c->where, i);
        }
        d->fused = fused;
        fused = fused || d->kind == TOK_DEC_FUSE || d->kind == TOK_DEC_BYTES;
        tok->n_folded += i == tok->n_folded && alone(d->kind);
        rc = d->kind == TOK_DEC_REGEX ? tok_regex_compile(tok, d->from, &tok->dec_regex[i]) : 0;
    }
    return rc;
}

int tok_dec_replace(struct tok_str s, struct tok_str from, struct tok_str to, struct buf *out) {
    int64_t done = 0;
    int rc = 0;
    while (done < s.n && !rc) {
        const char *hit = memmem(s.p + done, (size_t)(s.n - done), from.p, (size_t)from.n);
        int64_t at = hit ? hit - s.p : s.n;
        rc = buf_add(out, s.p + done, at - done);
        rc = rc || !hit ? rc : buf_add(out, to.p, to.n);
        done = hit ? at + from.n : s.n;
    }
    return rc;
}

/* why: where tokenizers would strip one end into the other it panics; here nothing is left */
int tok_dec_strip(struct tok_str s, const struct tok_dec *d, struct buf *out) {
    const uint8_t *p = (const uint8_t *)s.p;
    int64_t start = 0;
    int64_t end = s.n;
    uint32_t cp;
    for (int32_t i = 0; i < d->start && start < s.n; i++) {
        int32_t k = utf8_get(p + start, &cp);
        if (cp != d->cp) {
            break;
        }
        start += k;
    }
    for (int32_t i = 0; i < d->stop && end > start; i++) {
        int64_t k = end - 1;
        while (k > start && (p[k] & 0xc0) == 0x80) {
            k--;
        }
        utf8_get(p + k, &cp);
        if (cp != d->cp) {
            break;
        }
        end = k;
    }
    return buf_add(out, p + start, end - start);
}

/* Applies the leading steps. out: w->tmp[0] */
static int fold(struct tok_work *w, struct tok_str text) {
    const struct tok *t = w->tok;
    struct buf *to = &w->tmp[0];
    struct buf *from = &w->tmp[1];
    buf_clear(to);
    int rc = buf_add(to, text.p, text.n);
    for (int32_t i = 0; i < t->n_folded && !rc; i++) {
        const struct tok_dec *d = &t->cfg.dec[i];
        struct buf swap = *to;
        *to = *from;
        *from = swap;
        buf_clear(to);
        struct tok_str s = {buf_cstr(from), (int32_t)from->len};
        rc = d->kind == TOK_DEC_REPLACE ? tok_dec_replace(s, d->from, d->to, to)
             : d->kind == TOK_DEC_STRIP
                 ? tok_dec_strip(s, d, to)
                 : tok_regex_replace(w, t->dec_regex[i], (const uint8_t *)s.p, s.n, d->to, to);
    }
    return rc;
}

/* Appends a piece to the arena. */
static int store(struct tok *t, int32_t id, int64_t at, struct tok_span *out) {
    int64_t n = t->piece_bytes.len - at;
    if (n > TOK_TOKEN_MAX) {
        return err_set(ERR_LIMIT, "token %d has %lld bytes, at most %d", id, (long long)n,
                       TOK_TOKEN_MAX);
    }
    *out = (struct tok_span){.at = at, .n = (int32_t)n};
    return 0;
}

/* META: one piece for the front, one for elsewhere. */
static int meta(struct tok *t, const struct tok_dec *d, int32_t id, struct tok_str s) {
    static const struct tok_str blank = {" ", 1};
    static const struct tok_str none = {"", 0};
    int64_t at = t->piece_bytes.len;
    int rc = tok_dec_replace(s, d->from, blank, &t->piece_bytes);
    rc = rc ? rc : store(t, id, at, &t->piece[id]);
    at = t->piece_bytes.len;
    rc = rc ? rc : tok_dec_replace(s, d->from, d->prefix ? none : blank, &t->piece_bytes);
    return rc ? rc : store(t, id, at, &t->first[id]);
}

int tok_dec_piece(struct tok_work *w, int32_t id, struct tok_str text) {
    /* why: the tokenizer is still being made, by its one owner */
    struct tok *t = (struct tok *)(uintptr_t)w->tok;
    const struct tok_dec *d = t->n_folded < t->cfg.n_dec ? &t->cfg.dec[t->n_folded] : NULL;
    if (text.n > TOK_TOKEN_MAX) {
        return err_set(ERR_LIMIT, "token %d has %d bytes, at most %d", id, text.n, TOK_TOKEN_MAX);
    }
    int rc = fold(w, text);
    if (rc) {
        return rc;
    }
    struct tok_str s = {buf_cstr(&w->tmp[0]), (int32_t)w->tmp[0].len};
    struct buf *b = &t->piece_bytes;
    int64_t at = b->len;
    t->flags[id] |= TOK_F_HAVE;
    if (d && d->kind == TOK_DEC_META) {
        return meta(t, d, id, s);
    }
    if (d && d->kind == TOK_DEC_BYTES) {
        bool ok = t->cfg.byte_text;
        rc = ok ? 0 : tok_alpha_bytes(s, b, &ok);
        rc = rc || (ok && !t->cfg.byte_text) ? rc : buf_add(b, s.p, s.n);
        return rc ? rc : store(t, id, at, &t->piece[id]);
    }
    int32_t byte = d && d->kind == TOK_DEC_FALLBACK ? tok_alpha_fallback(s) : -1;
    uint8_t c = (uint8_t)byte;
    t->flags[id] &= (uint8_t)~TOK_F_BYTE;
    t->flags[id] |= byte >= 0 ? TOK_F_BYTE : 0;
    rc = byte >= 0 ? buf_add(b, &c, 1) : buf_add(b, s.p, s.n);
    return rc ? rc : store(t, id, at, &t->piece[id]);
}
