/* Byte-pair merging of one piece.
 *
 * A piece becomes a list of symbols (bytes, or characters); of all neighbouring pairs that are
 * merges the one of the lowest rank is applied, of equal ones the leftmost, until none is left:
 *
 *     l o w e r   ->   lo w e r   ->   lo w er   ->   low er
 *
 * Up to SMALL symbols lie in two arrays that are looked through for the lowest rank; longer pieces
 * go to tok_window.c. src: Sennrich et al., arXiv:1508.07909; tokenizers, bpe/model.rs merge_word,
 * tokenize */
#include <string.h>

#include "engine/base/err.h"
#include "engine/text/tok_int.h"
#include "engine/text/utf8.h"

enum { SMALL = 48, NO_RANK = INT32_MAX };

static int reserve(struct tok_work *w, int64_t n) {
    if (n <= w->n_init) {
        return 0;
    }
    int64_t cap = i64_max(256, n);
    int32_t *init = mem_realloc(MEM_TEXT, w->init, cap * (int64_t)sizeof *init);
    if (!init) {
        return ERR_NOMEM;
    }
    w->init = init;
    w->n_init = cap;
    return 0;
}

/* A byte without a token becomes the unknown token, and is left out where there is none. */
static int64_t split_bytes(const struct tok *t, const uint8_t *p, int64_t n, int32_t *s) {
    int64_t k = 0;
    bool unk = false;
    for (int64_t i = 0; i < n; i++) {
        int32_t id = t->byte_id[p[i]];
        bool fused = id < 0 && unk && t->cfg.fuse_unk;
        unk = id < 0;
        id = unk ? t->cfg.unk : id;
        if (id >= 0 && !fused) {
            s[k++] = id;
        }
    }
    return k;
}

/* True when every byte of the character has a token <0xXX>. */
static bool fallback(const struct tok *t, const uint8_t *p, int64_t n) {
    bool all = t->cfg.byte_fallback;
    for (int64_t i = 0; i < n && all; i++) {
        all = t->byte_id[p[i]] >= 0;
    }
    return all;
}

/* The character at *p as the vocabulary writes it: decorated inside of a word and at its end. */
static int decorate(struct tok_work *w, bool first, bool last, const uint8_t **p, int64_t *n) {
    const struct tok_cfg *c = &w->tok->cfg;
    bool front = !first && c->sub_prefix.n > 0;
    bool back = last && c->word_end.n > 0;
    if (!front && !back) {
        return 0;
    }
    buf_clear(&w->key);
    int rc = front ? buf_add(&w->key, c->sub_prefix.p, c->sub_prefix.n) : 0;
    rc = rc ? rc : buf_add(&w->key, *p, *n);
    rc = rc || !back ? rc : buf_add(&w->key, c->word_end.p, c->word_end.n);
    *p = (const uint8_t *)buf_cstr(&w->key);
    *n = w->key.len;
    return rc;
}

/* Symbols that a piece of n bytes may need: a decorated character falls back to more bytes. */
static int64_t symbols_max(const struct tok *t, int64_t n) {
    return n * (1 + (t->cfg.byte_fallback ? t->cfg.sub_prefix.n : 0)) + t->cfg.word_end.n;
}

/* why: an unknown run is added when the next known character comes, not before byte tokens; the
 * order is that of tokenizers. */
static int split_chars(struct tok_work *w, const uint8_t *p, int64_t n, int64_t *n_sym) {
    const struct tok *t = w->tok;
    int32_t *s = w->init;
    int64_t k = 0;
    bool unk = false;
    for (int64_t i = 0; i < n;) {
        uint32_t cp;
        int64_t len = 0;
        int32_t user = tok_trie_longest(&t->user, p + i, n - i, &len);
        int64_t step = user >= 0 ? len : utf8_get(p + i, &cp);
        const uint8_t *q = p + i;
        len = step;
        int rc = user >= 0 ? 0 : decorate(w, i == 0, i + step == n, &q, &len);
        if (rc) {
            return rc;
        }
        int32_t id = user >= 0 ? user : tok_vocab_find(&t->vocab, q, len);
        if (id >= 0) {
            if (unk) {
                s[k++] = t->cfg.unk;
            }
            unk = false;
            s[k++] = id;
        } else if (fallback(t, q, len)) {
            for (int64_t j = 0; j < len; j++) {
                s[k++] = t->byte_id[q[j]];
            }
        } else if (t->cfg.unk >= 0) {
            if (unk && !t->cfg.fuse_unk) {
                s[k++] = t->cfg.unk;
            }
            unk = true;
        }
        i += step;
    }
    if (unk) {
        s[k++] = t->cfg.unk;
    }
    *n_sym = k;
    return 0;
}

static int32_t rank_of(const struct tok *t, int32_t left, int32_t right) {
    const struct tok_merge *m = tok_merges_find(&t->merges, left, right);
    return m ? m->rank : NO_RANK;
}

static int32_t merged(const struct tok *t, int32_t rank, int32_t left, int32_t right) {
    return t->rank_id ? t->rank_id[rank] : tok_merges_find(&t->merges, left, right)->id;
}

/* Merges id[0..n). out: the number of ids left */
static int32_t merge_small(struct tok_work *w, const int32_t *pair, int32_t *id, int32_t n) {
    const struct tok *t = w->tok;
    int32_t rank[SMALL];
    for (int32_t i = 0; i + 1 < n; i++) {
        rank[i] = pair ? pair[i] : rank_of(t, id[i], id[i + 1]);
    }
    w->n_ops += n;
    while (n > 1) {
        int32_t low = 0;
        for (int32_t i = 1; i + 1 < n; i++) {
            low = rank[i] < rank[low] ? i : low;
        }
        if (rank[low] == NO_RANK) {
            break;
        }
        w->n_ops += n;
        id[low] = merged(t, rank[low], id[low], id[low + 1]);
        n--;
        for (int32_t i = low + 1; i < n; i++) {
            id[i] = id[i + 1];
            rank[i - 1] = rank[i];
        }
        if (low > 0) {
            rank[low - 1] = rank_of(t, id[low - 1], id[low]);
        }
        if (low + 1 < n) {
            rank[low] = rank_of(t, id[low], id[low + 1]);
        }
    }
    return n;
}

/* The ranks of neighbouring bytes, from their own table. */
static void byte_pairs(const struct tok *t, const uint8_t *p, int64_t n, int32_t *pair) {
    for (int64_t i = 0; i + 1 < n; i++) {
        pair[i] = t->pair_rank[p[i] << 8 | p[i + 1]];
    }
}

int tok_bpe_word(struct tok_work *w, const uint8_t *p, int64_t n) {
    const struct tok *t = w->tok;
    int32_t pair[SMALL];
    int64_t k = 0;
    int rc = reserve(w, symbols_max(t, n));
    if (rc) {
        return rc;
    }
    if (t->byte_level) {
        k = split_bytes(t, p, n, w->init);
    } else {
        rc = split_chars(w, p, n, &k);
    }
    bool whole = t->byte_level && k == n;
    if (rc || k > SMALL) {
        return rc ? rc : tok_window_run(w, whole ? p : NULL, (int32_t)k);
    }
    if (whole) {
        byte_pairs(t, p, n, pair);
    }
    k = merge_small(w, whole ? pair : NULL, w->init, (int32_t)k);
    for (int64_t i = 0; i < k && !rc; i++) {
        rc = tok_ids_add(w->out, w->init[i]);
    }
    return rc;
}
