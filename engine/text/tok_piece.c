/* Pieces -> ids: what every model shares.
 *
 * Pieces of up to TOK_CACHE_KEY bytes are remembered with their ids in a direct-mapped table of the
 * scratch.
 *
 * Character vocabularies often come without a pre-tokenizer: the whole text is one piece. For BPE
 * it is cut in front of a U+2581 when no token holds that mark behind the byte before it, for then
 * no merge can cross; so words are pieces, and remembered. The ids are the same. (Not for UNIGRAM,
 * whose sums would be rounded in another order.) */
#include <string.h>

#include "engine/base/err.h"
#include "engine/text/tok_int.h"

static const uint8_t mark[] = {0xe2, 0x96, 0x81}; /* U+2581 */

static int slow(struct tok_work *w, const uint8_t *p, int64_t n) {
    return w->tok->cfg.model == TOK_IS_UNIGRAM ? tok_unigram_word(w, p, n) : tok_bpe_word(w, p, n);
}

static void
remember(struct tok_cached *c, const uint8_t *p, int64_t n, const int32_t *id, int32_t n_id) {
    if (n_id <= TOK_CACHE_IDS) {
        memcpy(c->key, p, (size_t)n);
        memcpy(c->id, id, (size_t)n_id * sizeof *id);
        c->n_key = (uint8_t)n;
        c->n_id = (uint8_t)n_id;
    }
}

static int recall(struct tok_work *w, const struct tok_cached *c) {
    int rc = 0;
    w->n_ops++;
    for (int32_t i = 0; i < c->n_id && !rc; i++) {
        rc = tok_ids_add(w->out, c->id[i]);
    }
    return rc;
}

static int word(struct tok_work *w, const uint8_t *p, int64_t n) {
    if (n > TOK_CACHE_KEY) {
        return slow(w, p, n);
    }
    struct tok_cached *c = &w->cache[tok_hash(p, n) & (TOK_CACHE_SLOTS - 1)];
    int32_t at = w->out->n;
    if (c->n_key == n && memcmp(c->key, p, (size_t)n) == 0) {
        return recall(w, c);
    }
    int rc = slow(w, p, n);
    if (!rc && w->out->n > at) {
        remember(c, p, n, w->out->v + at, w->out->n - at);
    }
    return rc;
}

/* Where the piece may be cut first behind its beginning; n when nowhere. */
static int64_t cut(const struct tok *t, const uint8_t *p, int64_t n) {
    for (int64_t i = 1; i + 2 < n; i++) {
        if (p[i] == mark[0] && p[i + 1] == mark[1] && p[i + 2] == mark[2] && !t->glue[p[i - 1]]) {
            return i;
        }
    }
    return n;
}

int tok_piece_run(struct tok_work *w, const uint8_t *p, int64_t n) {
    const struct tok *t = w->tok;
    if (t->cfg.ignore_merges && n <= TOK_TOKEN_MAX) {
        int32_t id = tok_vocab_find(&t->vocab, p, n);
        if (id >= 0) {
            w->n_ops++;
            return tok_ids_add(w->out, id);
        }
    }
    int rc = 0;
    while (n > 0 && !rc) {
        int64_t end = t->cut_marks ? cut(t, p, n) : n;
        rc = word(w, p, end);
        p += end;
        n -= end;
    }
    return rc;
}
