/* Byte-pair merging of one piece.
 *
 * A piece becomes a list of symbols (bytes, or characters); of all neighbouring pairs that are
 * merges the one of the lowest rank is applied, of equal ones the leftmost, until none is left:
 *
 *     l o w e r   ->   lo w e r   ->   lo w er   ->   low er
 *
 * A short piece is merged in arrays (tok_small.c), a longer one window by window (tok_window.c).
 * src: Sennrich et al., arXiv:1508.07909; tokenizers, bpe/model.rs merge_word, tokenize */
#include <string.h>

#include "engine/base/err.h"
#include "engine/text/tok_int.h"
#include "engine/text/utf8.h"

enum { SYMBOLS_MAX = 1 << 30 }; /* places of tok_merge.c have 30 bits */

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
 * order is that of tokenizers. out: *ascii: every symbol is the token of one byte of p */
static int
split_chars(struct tok_work *w, const uint8_t *p, int64_t n, int64_t *n_sym, bool *ascii) {
    const struct tok *t = w->tok;
    int32_t *s = w->init;
    int64_t k = 0;
    bool unk = false;
    bool plain = t->cfg.sub_prefix.n == 0 && t->cfg.word_end.n == 0 && !t->user.unit;
    *ascii = plain;
    for (int64_t i = 0; i < n;) {
        if (plain && !unk && p[i] < 0x80 && t->sym_id[p[i]] >= 0) {
            s[k++] = t->sym_id[p[i++]];
            continue;
        }
        *ascii = false;
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

int tok_bpe_word(struct tok_work *w, const uint8_t *p, int64_t n) {
    const struct tok *t = w->tok;
    struct tok_small *s = &w->small;
    int64_t k = 0;
    bool ascii = false;
    int64_t most = symbols_max(t, n);
    if (most > SYMBOLS_MAX) {
        return err_set(ERR_LIMIT, "%s: a piece of %lld symbols, at most %d", t->cfg.where,
                       (long long)most, SYMBOLS_MAX);
    }
    int rc = reserve(w, most);
    if (rc) {
        return rc;
    }
    if (t->byte_level) {
        k = split_bytes(t, p, n, w->init);
    } else {
        rc = split_chars(w, p, n, &k, &ascii);
    }
    const uint8_t *bytes = ascii || (t->byte_level && k == n) ? p : NULL;
    if (rc || k > TOK_SMALL / 2) {
        return rc ? rc : tok_window_run(w, bytes, (int32_t)k);
    }
    s->n = (int32_t)k;
    memcpy(s->id, w->init, (size_t)k * sizeof *s->id);
    tok_small_merge(w, s, bytes);
    for (int32_t i = 0; i < s->n && !rc; i = s->next[i]) {
        rc = tok_ids_add(w->out, s->id[i]);
    }
    return rc;
}
