/* Streaming decode.
 *
 * Each step of the decoder is a stage that takes tokens, or parts of one token once they are fused,
 * and hands tokens or parts on; the last appends to the output. What a stage cannot decide yet it
 * holds back:
 *
 *     BYTES     all bytes are one string, every maximal broken part one U+FFFD: at most three bytes
 *     FALLBACK  a run of <0xXX> becomes text if the whole run is UTF-8, else one U+FFFD for each:
 *               the run
 *     SUFFIX    the last token differs: one token
 *     STRIP at the end, and REPLACE, REGEX, FALLBACK, BYTES, SUFFIX of what is fused: everything
 *
 * Other stages hold nothing. Leading steps are in the pieces already (tok_dec.c).
 * src: tokenizers, decoders/{byte_fallback,fuse,strip,bpe}.rs, pre_tokenizers/{byte_level,
 * metaspace}.rs, tokenizer/mod.rs decode */
#include "engine/text/detok.h"

#include <string.h>

#include "engine/base/err.h"
#include "engine/text/tok_int.h"
#include "engine/text/utf8.h"

_Static_assert((int)DETOK_STAGES_MAX == (int)TOK_DEC_MAX, "a stage for each step");

static void rewind_stages(struct detok *d) {
    d->any = false;
    for (int32_t i = 0; i < d->tok->cfg.n_dec; i++) {
        struct detok_stage *s = &d->stage[i];
        s->any = false;
        s->held = false;
        s->left = d->tok->cfg.dec[i].start;
        s->n_part = 0;
        buf_clear(&s->hold);
    }
}

void detok_init(struct detok *d, const struct tok *tok, bool skip_special) {
    *d = (struct detok){.tok = tok, .skip_special = skip_special};
    for (int32_t i = 0; i < DETOK_STAGES_MAX; i++) {
        buf_init(&d->stage[i].hold, MEM_TEXT, DETOK_HOLD_MAX);
    }
    rewind_stages(d);
}

void detok_fini(struct detok *d) {
    for (int32_t i = 0; i < DETOK_STAGES_MAX; i++) {
        buf_fini(&d->stage[i].hold);
    }
}

void detok_reset(struct detok *d) {
    rewind_stages(d);
}

static int emit(struct detok *d, int32_t k, const uint8_t *p, int64_t n, struct buf *out);

static int replacement(struct detok *d, int32_t k, struct buf *out) {
    static const uint8_t fffd[] = {0xef, 0xbf, 0xbd};
    return emit(d, k, fffd, 3, out);
}

/* Completes the waiting character with the bytes of p. out: *used bytes of p */
static int
complete(struct detok *d, int32_t k, const uint8_t *p, int64_t n, struct buf *out, int64_t *used) {
    struct detok_stage *s = &d->stage[k];
    uint8_t b[8];
    int32_t have = s->n_part;
    int32_t more = (int32_t)i64_min(n, 4 - have);
    memcpy(b, s->part, (size_t)have);
    memcpy(b + have, p, (size_t)more);
    uint32_t cp;
    int32_t len = utf8_next(b, have + more, &cp);
    if (len == 0) { /* still a start; four bytes never are */
        memcpy(s->part, b, (size_t)(have + more));
        s->n_part = have + more;
        *used = more;
        return 0;
    }
    s->n_part = 0;
    /* why: a start stays a start, so a break lies at or behind its end */
    *used = (len > 0 ? len : -len) - have;
    return len > 0 ? emit(d, k + 1, b, len, out) : replacement(d, k + 1, out);
}

/* BYTES: the next bytes of the one string. */
static int bytes(struct detok *d, int32_t k, const uint8_t *p, int64_t n, struct buf *out) {
    struct detok_stage *s = &d->stage[k];
    int64_t i = 0;
    int rc = 0;
    if (s->n_part > 0 && n > 0) {
        rc = complete(d, k, p, n, out, &i);
    }
    while (i < n && !rc && s->n_part == 0) {
        int64_t good = utf8_valid(p + i, n - i);
        rc = good > 0 ? emit(d, k + 1, p + i, good, out) : 0;
        i += good;
        if (i == n || rc) {
            break;
        }
        uint32_t cp;
        int32_t len = utf8_next(p + i, n - i, &cp);
        if (len == 0) {
            s->n_part = (int32_t)(n - i);
            memcpy(s->part, p + i, (size_t)s->n_part);
            break;
        }
        rc = replacement(d, k + 1, out);
        i += -len;
    }
    return rc;
}

/* BYTES of a token that is still text. */
static int letters(struct detok *d, int32_t k, struct tok_str s, struct buf *out) {
    struct buf b;
    bool ok = false;
    buf_init(&b, MEM_TEXT, DETOK_HOLD_MAX);
    int rc = tok_alpha_bytes(s, &b, &ok);
    if (!rc) {
        rc = ok ? bytes(d, k, (const uint8_t *)buf_cstr(&b), b.len, out)
                : bytes(d, k, (const uint8_t *)s.p, s.n, out);
    }
    buf_fini(&b);
    return rc;
}

/* FALLBACK: the run of bytes is over. */
static int end_run(struct detok *d, int32_t k, struct buf *out) {
    struct buf *r = &d->stage[k].hold;
    const uint8_t *p = (const uint8_t *)buf_cstr(r);
    int rc = 0;
    if (r->len == 0) {
        return 0;
    }
    if (utf8_valid(p, r->len) == r->len) {
        rc = emit(d, k + 1, p, r->len, out);
    } else {
        for (int64_t i = 0; i < r->len && !rc; i++) {
            rc = replacement(d, k + 1, out);
        }
    }
    buf_clear(r);
    return rc;
}

static int fallback(struct detok *d, int32_t k, struct tok_str s, struct buf *out) {
    int32_t byte = tok_alpha_fallback(s);
    if (byte >= 0) {
        uint8_t b = (uint8_t)byte;
        return buf_add(&d->stage[k].hold, &b, 1);
    }
    int rc = end_run(d, k, out);
    return rc ? rc : emit(d, k + 1, (const uint8_t *)s.p, s.n, out);
}

/* REPLACE, REGEX, META, SUFFIX, STRIP of one whole token. */
static int
rewrite(struct detok *d, int32_t k, struct tok_str s, struct tok_str to, struct buf *out) {
    const struct tok_dec *step = &d->tok->cfg.dec[k];
    struct tok_work *w = NULL;
    struct buf b;
    buf_init(&b, MEM_TEXT, DETOK_HOLD_MAX);
    int rc = step->kind == TOK_DEC_REGEX ? tok_work_take(d->tok, &w) : 0;
    if (w) {
        rc = tok_regex_replace(w, d->tok->dec_regex[k], (const uint8_t *)s.p, s.n, to, &b);
        tok_work_give(d->tok, w);
    } else if (!rc) {
        rc = step->kind == TOK_DEC_STRIP ? tok_dec_strip(s, step, &b)
                                         : tok_dec_replace(s, step->from, to, &b);
    }
    rc = rc ? rc : emit(d, k + 1, (const uint8_t *)buf_cstr(&b), b.len, out);
    buf_fini(&b);
    return rc;
}

/* STRIP at the front of what is fused. */
static int strip_front(struct detok *d, int32_t k, const uint8_t *p, int64_t n, struct buf *out) {
    struct detok_stage *s = &d->stage[k];
    int64_t i = 0;
    while (i < n && s->left > 0) {
        uint32_t cp;
        int32_t len = utf8_get(p + i, &cp);
        if (cp != d->tok->cfg.dec[k].cp) {
            s->left = 0;
            break;
        }
        s->left--;
        i += len;
    }
    return emit(d, k + 1, p + i, n - i, out);
}

/* SUFFIX: the token held is not the last. */
static int pass_held(struct detok *d, int32_t k, struct tok_str to, struct buf *out) {
    struct detok_stage *s = &d->stage[k];
    struct buf b = s->hold;
    bool held = s->held;
    s->held = false;
    buf_init(&s->hold, MEM_TEXT, DETOK_HOLD_MAX);
    int rc = held ? rewrite(d, k, (struct tok_str){buf_cstr(&b), (int32_t)b.len}, to, out) : 0;
    buf_fini(&b);
    return rc;
}

static const struct tok_str blank = {" ", 1};
static const struct tok_str none = {"", 0};

/* True when the step can only begin once all is there. */
static bool waits(const struct tok_dec *s) {
    return s->fused && (s->kind == TOK_DEC_REPLACE || s->kind == TOK_DEC_REGEX ||
                        s->kind == TOK_DEC_FALLBACK || s->kind == TOK_DEC_BYTES ||
                        s->kind == TOK_DEC_SUFFIX || (s->kind == TOK_DEC_STRIP && s->stop > 0));
}

/* A token, or a part of the fused one, enters stage k. */
static int emit(struct detok *d, int32_t k, const uint8_t *p, int64_t n, struct buf *out) {
    if (k == d->tok->cfg.n_dec) {
        return buf_add(out, p, n);
    }
    const struct tok_dec *step = &d->tok->cfg.dec[k];
    struct detok_stage *s = &d->stage[k];
    struct tok_str text = {(const char *)p, (int32_t)n};
    bool first = !s->any;
    s->any = true;
    if (waits(step)) {
        return buf_add(&s->hold, p, n);
    }
    switch (step->kind) {
    case TOK_DEC_BYTES:
        return letters(d, k, text, out);
    case TOK_DEC_REPLACE:
    case TOK_DEC_REGEX:
        return rewrite(d, k, text, step->to, out);
    case TOK_DEC_FALLBACK:
        return fallback(d, k, text, out);
    case TOK_DEC_FUSE:
        return emit(d, k + 1, p, n, out);
    case TOK_DEC_STRIP:
        return step->fused ? strip_front(d, k, p, n, out) : rewrite(d, k, text, none, out);
    case TOK_DEC_META:
        return rewrite(d, k, text, (first || step->fused) && step->prefix ? none : blank, out);
    case TOK_DEC_SUFFIX: {
        int rc = pass_held(d, k, blank, out);
        s->held = !rc;
        return rc ? rc : buf_add(&s->hold, p, n);
    }
    case TOK_DEC_BLANKS: {
        int rc = first ? 0 : emit(d, k + 1, (const uint8_t *)" ", 1, out);
        return rc ? rc : emit(d, k + 1, p, n, out);
    }
    }
    return 0;
}

/* Everything has entered stage k. */
static int finish(struct detok *d, int32_t k, struct buf *out) {
    const struct tok_dec *step = &d->tok->cfg.dec[k];
    struct detok_stage *s = &d->stage[k];
    struct tok_str all = {buf_cstr(&s->hold), (int32_t)s->hold.len};
    bool whole = waits(step) && s->hold.len > 0;
    int rc = 0;
    switch (step->kind) {
    case TOK_DEC_BYTES:
        rc = whole ? letters(d, k, all, out) : 0;
        rc = rc || s->n_part == 0 ? rc : replacement(d, k + 1, out);
        break;
    case TOK_DEC_FALLBACK:
        if (whole && tok_alpha_fallback(all) < 0) {
            rc = emit(d, k + 1, (const uint8_t *)all.p, all.n, out);
        } else if (whole) {
            uint8_t b = (uint8_t)tok_alpha_fallback(all);
            rc = b < 0x80 ? emit(d, k + 1, &b, 1, out) : replacement(d, k + 1, out);
        } else {
            rc = end_run(d, k, out);
        }
        break;
    case TOK_DEC_SUFFIX:
        rc = whole ? rewrite(d, k, all, none, out) : pass_held(d, k, none, out);
        break;
    case TOK_DEC_REPLACE:
    case TOK_DEC_REGEX:
    case TOK_DEC_STRIP:
        rc = whole ? rewrite(d, k, all, step->to, out) : 0;
        break;
    case TOK_DEC_FUSE:
    case TOK_DEC_META:
    case TOK_DEC_BLANKS:
        break;
    }
    return rc;
}

int detok_push(struct detok *d, int32_t id, struct buf *out) {
    const struct tok *t = d->tok;
    int32_t n;
    const uint8_t *p = tok_piece(t, id, &n);
    if (!p || (d->skip_special && tok_is_special(t, id))) {
        return 0;
    }
    int32_t k = t->n_folded;
    bool first = !d->any;
    d->any = true;
    enum tok_dec_kind kind = k < t->cfg.n_dec ? t->cfg.dec[k].kind : TOK_DEC_FUSE;
    if (kind == TOK_DEC_BYTES) {
        return bytes(d, k, p, n, out);
    }
    if (kind == TOK_DEC_META && first) {
        p = (const uint8_t *)buf_cstr(&t->piece_bytes) + t->first[id].at;
        return emit(d, k + 1, p, t->first[id].n, out);
    }
    if (kind == TOK_DEC_META) {
        return emit(d, k + 1, p, n, out);
    }
    if (kind != TOK_DEC_FALLBACK) {
        return emit(d, k, p, n, out);
    }
    if (t->flags[id] & TOK_F_BYTE) {
        return buf_add(&d->stage[k].hold, p, n);
    }
    int rc = end_run(d, k, out);
    return rc ? rc : emit(d, k + 1, p, n, out);
}

int detok_flush(struct detok *d, struct buf *out) {
    int rc = 0;
    for (int32_t k = d->tok->n_folded; k < d->tok->cfg.n_dec && !rc; k++) {
        rc = finish(d, k, out);
    }
    rewind_stages(d);
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
