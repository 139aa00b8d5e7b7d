/* Unigram language model: the cut of a piece into tokens with the highest sum of scores.
 *
 * best[i] is the best way to reach byte i. From every character's start all tokens that begin there
 * are found with one walk down the trie; where none is as long as the character itself, the
 * character may be unknown, at 10 below the lowest score. A tie keeps the way found first. So a
 * piece of n bytes costs n times the longest token at most.
 *
 *     _ h u g s        best: 0 -_hug-> 4 -s-> 5
 *
 * Unknown characters beside each other are one unknown token, or their bytes <0xXX> when the
 * vocabulary falls back to bytes and has them all. USER tokens score their length times the highest
 * score less 0.1, as SentencePiece does it, whose sums are floats (spm).
 * src: Kudo, arXiv:1804.10959; tokenizers, unigram/model.rs encode_optimized;
 * google/sentencepiece, unigram_model.cc EncodeOptimized */
#include <string.h>

#include "engine/base/err.h"
#include "engine/text/tok_int.h"
#include "engine/text/utf8.h"

enum { UNKNOWN = -2 };

static int reserve(struct tok_work *w, int64_t n) {
    if (n <= w->n_best) {
        return 0;
    }
    int64_t cap = i64_max(256, n);
    struct tok_best *best = mem_realloc(MEM_TEXT, w->best, cap * (int64_t)sizeof *best);
    if (!best) {
        return ERR_NOMEM;
    }
    w->best = best;
    w->n_best = cap;
    return 0;
}

static void reach(const struct tok *t,
                  struct tok_best *to,
                  const struct tok_best *from,
                  int32_t at,
                  int32_t id,
                  double score) {
    double sum = from->score + score;
    if (to->from < 0 || sum > to->score) {
        sum = t->cfg.spm ? (double)(float)sum : sum;
        *to = (struct tok_best){.score = sum, .from = at, .id = id};
    }
}

/* All tokens that begin at i. */
static void forward(struct tok_work *w, const uint8_t *p, int64_t n, int64_t i) {
    const struct tok *t = w->tok;
    struct tok_best *best = w->best;
    uint32_t cp;
    int32_t one = utf8_get(p + i, &cp);
    bool single = false;
    int32_t at = t->pieces.unit ? 0 : -1;
    for (int64_t k = i; k < n && at >= 0; k++) {
        at = tok_trie_child(&t->pieces, at, p[k]);
        int32_t id = at < 0 ? -1 : t->pieces.unit[at].value;
        w->n_ops++;
        if (id >= 0) {
            single = single || k + 1 - i == one;
            reach(t, &best[k + 1], &best[i], (int32_t)i, id, t->score[id]);
        }
    }
    if (!single) {
        reach(t, &best[i + one], &best[i], (int32_t)i, UNKNOWN, t->unk_score);
    }
}

/* An unknown stretch. */
static int unknown(struct tok_work *w, const uint8_t *p, int64_t n) {
    const struct tok *t = w->tok;
    bool bytes = t->cfg.byte_fallback;
    for (int64_t i = 0; i < n && bytes; i++) {
        bytes = t->byte_id[p[i]] >= 0;
    }
    int rc = 0;
    for (int64_t i = 0; i < n && bytes && !rc; i++) {
        rc = tok_ids_add(w->out, t->byte_id[p[i]]);
    }
    if (bytes) {
        return rc;
    }
    if (t->cfg.unk < 0) {
        return err_set(ERR_UNSUPPORTED,
                       "%s: \"%.*s\" is in no token, and there is no unknown token", t->cfg.where,
                       (int)i64_min(n, 32), (const char *)p);
    }
    return tok_ids_add(w->out, t->cfg.unk);
}

/* why: tokenizers asks for the fused text's id first, which may be a token after all */
static int emit(struct tok_work *w, const uint8_t *p, int64_t from, int64_t to, int32_t id) {
    if (id != UNKNOWN && id != w->tok->cfg.unk) {
        return tok_ids_add(w->out, id);
    }
    int32_t whole = w->tok->cfg.spm ? -1 : tok_vocab_find(&w->tok->vocab, p + from, to - from);
    return whole >= 0 ? tok_ids_add(w->out, whole) : unknown(w, p + from, to - from);
}

int tok_unigram_word(struct tok_work *w, const uint8_t *p, int64_t n) {
    int rc = reserve(w, n + 1);
    if (rc) {
        return rc;
    }
    struct tok_best *best = w->best;
    for (int64_t i = 0; i <= n; i++) {
        best[i].from = -1;
    }
    best[0].score = 0;
    for (int64_t i = 0; i < n;) {
        uint32_t cp;
        forward(w, p, n, i);
        i += utf8_get(p + i, &cp);
    }
    /* the way back, with links turned round: best[i].from becomes the next place behind i */
    int64_t to = n;
    int32_t id = UNKNOWN;
    int32_t next = -1;
    while (to > 0) {
        int32_t from = best[to].from;
        int32_t here = best[to].id;
        best[to].from = next;
        best[to].id = id;
        next = (int32_t)to;
        id = here;
        to = from;
    }
    best[0].from = next;
    best[0].id = id;
    bool is_unk = false;
    int64_t start = 0;
    for (int64_t i = 0; i < n && !rc; i = best[i].from) {
        bool unk = best[i].id == UNKNOWN || best[i].id == w->tok->cfg.unk;
        if (is_unk && !unk) {
            rc = emit(w, p, start, i, UNKNOWN);
        }
        start = unk && is_unk ? start : i;
        is_unk = unk;
        rc = rc || unk ? rc : emit(w, p, i, best[i].from, best[i].id);
    }
    return rc || !is_unk ? rc : emit(w, p, start, n, UNKNOWN);
}
