/* The normaliser: a short list of rewrites over the whole text between raw added tokens.
 *
 *     FORM     NFC, NFD, NFKC, NFKD
 *     PREPEND  puts a text in front, unless the segment is empty
 *     REPLACE  every occurrence of a text by another, left to right, not overlapping
 *
 * src: tokenizers, normalizers/{unicode,prepend,replace}.rs */
#include <string.h>

#include "engine/text/tok_int.h"
#include "engine/text/utf8.h"

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

static int step(const struct tok_norm *s, const uint8_t *p, int64_t n, struct buf *out) {
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
        return replace(p, n, s, out);
    }
    return 0;
}

int tok_norm_run(
    const struct tok *tok, const uint8_t *p, int64_t n, struct buf *out, struct buf *tmp) {
    const struct tok_cfg *c = &tok->cfg;
    int rc = c->n_norm == 0 ? buf_add(out, p, n) : 0;
    for (int32_t i = 0; i < c->n_norm && !rc; i++) {
        if (i > 0) {
            struct buf swap = *tmp;
            *tmp = *out;
            *out = swap;
            buf_clear(out);
            p = (const uint8_t *)buf_cstr(tmp);
            n = tmp->len;
        }
        rc = step(&c->norm[i], p, n, out);
    }
    return rc;
}
