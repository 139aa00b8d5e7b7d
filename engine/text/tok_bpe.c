/* Byte-pair merging of one piece.
 *
 * A piece becomes a list of symbols (bytes, or characters); every neighbouring pair that is a merge
 * is a candidate in a heap ordered by (rank, position). The smallest candidate is applied if the
 * pair at its position still merges to the same id; the merged symbol makes up to two new
 * candidates. At most one new pair is pushed for each side of each merge, so a piece of n symbols
 * costs O(n log n) whatever it holds.
 *
 *     l o w e r     heap: (lo) (we) (er)
 *     lo  w e r     (er) ...
 *     lo  w er  ->  lo wer
 *
 * A candidate that went stale is detected by its id only, as tokenizers does: two different pairs
 * can make the same token, and then the older rank decides. Results must be equal to theirs.
 *
 * Short pieces are remembered with their ids in a direct-mapped table of the scratch.
 * src: Sennrich et al., arXiv:1508.07909; tokenizers, bpe/word.rs merge_all, bpe/model.rs */
#include <string.h>

#include "engine/base/err.h"
#include "engine/text/tok_int.h"
#include "engine/text/utf8.h"

/* A candidate is one number, rank above position. Four children a node: half the depth, and a
 * node's children lie side by side. */
static uint64_t cand(int32_t rank, int32_t pos) {
    return (uint64_t)(uint32_t)rank << 32 | (uint32_t)pos;
}

static void sift_down(uint64_t *h, int64_t n, int64_t i) {
    uint64_t c = h[i];
    for (;;) {
        int64_t k = 4 * i + 1;
        int64_t end = i64_min(k + 4, n);
        if (k >= n) {
            break;
        }
        for (int64_t j = k + 1; j < end; j++) {
            k = h[j] < h[k] ? j : k;
        }
        if (h[k] >= c) {
            break;
        }
        h[i] = h[k];
        i = k;
    }
    h[i] = c;
}

static void push(uint64_t *h, int64_t *n, uint64_t c) {
    int64_t i = (*n)++;
    while (i > 0 && c < h[(i - 1) / 4]) {
        h[i] = h[(i - 1) / 4];
        i = (i - 1) / 4;
    }
    h[i] = c;
}

static uint64_t pop(uint64_t *h, int64_t *n) {
    uint64_t top = h[0];
    h[0] = h[--*n];
    if (*n > 0) {
        sift_down(h, *n, 0);
    }
    return top;
}

/* Room for n symbols. A piece of n symbols has at most n - 1 first candidates, and each of at most
 * n - 1 merges takes one and adds two. */
static int reserve(struct tok_work *w, int64_t n) {
    if (n > w->n_sym) {
        int64_t cap = i64_max(256, i64_max(n, 2 * w->n_sym));
        struct tok_sym *sym = mem_realloc(MEM_TEXT, w->sym, cap * (int64_t)sizeof *sym);
        if (!sym) {
            return ERR_NOMEM;
        }
        w->sym = sym;
        w->n_sym = cap;
    }
    if (2 * n > w->n_heap) {
        int64_t cap = i64_max(512, i64_max(2 * n, 2 * w->n_heap));
        uint64_t *heap = mem_realloc(MEM_TEXT, w->heap, cap * (int64_t)sizeof *heap);
        if (!heap) {
            return ERR_NOMEM;
        }
        w->heap = heap;
        w->n_heap = cap;
    }
    return 0;
}

static int64_t add_sym(struct tok_sym *s, int64_t n, int32_t id) {
    s[n] = (struct tok_sym){.id = id, .prev = (int32_t)n - 1, .next = (int32_t)n + 1};
    return n + 1;
}

/* A byte without a token becomes the unknown token, and is left out where there is none. */
static int64_t split_bytes(const struct tok *t, const uint8_t *p, int64_t n, struct tok_sym *s) {
    int64_t k = 0;
    bool unk = false;
    for (int64_t i = 0; i < n; i++) {
        int32_t id = t->byte_id[p[i]];
        bool fused = id < 0 && unk && t->cfg.fuse_unk;
        unk = id < 0;
        id = unk ? t->cfg.unk : id;
        if (id >= 0 && !fused) {
            k = add_sym(s, k, id);
        }
    }
    return k;
}

/* True when every byte of the character has a token <0xXX>. */
static bool fallback(const struct tok *t, const uint8_t *p, int32_t n) {
    bool all = t->cfg.byte_fallback;
    for (int32_t i = 0; i < n && all; i++) {
        all = t->byte_id[p[i]] >= 0;
    }
    return all;
}

/* why: an unknown run is added when the next known character comes, not before byte tokens; the
 * order is that of tokenizers. */
static int64_t split_chars(const struct tok *t, const uint8_t *p, int64_t n, struct tok_sym *s) {
    int64_t k = 0;
    bool unk = false;
    for (int64_t i = 0; i < n;) {
        uint32_t cp;
        int32_t len = utf8_get(p + i, &cp);
        int32_t id = tok_vocab_find(&t->vocab, p + i, len);
        if (id >= 0) {
            k = unk ? add_sym(s, k, t->cfg.unk) : k;
            unk = false;
            k = add_sym(s, k, id);
        } else if (fallback(t, p + i, len)) {
            for (int32_t j = 0; j < len; j++) {
                k = add_sym(s, k, t->byte_id[p[i + j]]);
            }
        } else if (t->cfg.unk >= 0) {
            k = unk && !t->cfg.fuse_unk ? add_sym(s, k, t->cfg.unk) : k;
            unk = true;
        }
        i += len;
    }
    return unk ? add_sym(s, k, t->cfg.unk) : k;
}

static void
offer(const struct tok *t, const struct tok_sym *s, int32_t pos, uint64_t *h, int64_t *n) {
    const struct tok_merge *m = tok_merges_find(&t->merges, s[pos].id, s[s[pos].next].id);
    if (m) {
        push(h, n, cand(m->rank, pos));
    }
}

/* Is the pair that stands there now still the candidate's? Scores share ranks, merges do not. */
static bool current(const struct tok *t, const struct tok_merge *m, int32_t rank) {
    return m && (t->rank_id ? m->id == t->rank_id[rank] : m->rank == rank);
}

static void merge(const struct tok *t, struct tok_sym *s, int32_t n, uint64_t *h) {
    int64_t n_heap = 0;
    for (int32_t i = 0; i + 1 < n; i++) {
        const struct tok_merge *m = tok_merges_find(&t->merges, s[i].id, s[i + 1].id);
        if (m) {
            h[n_heap++] = cand(m->rank, i);
        }
    }
    for (int64_t i = (n_heap - 2) / 4; i >= 0 && n_heap > 1; i--) {
        sift_down(h, n_heap, i);
    }
    while (n_heap > 0) {
        uint64_t c = pop(h, &n_heap);
        int32_t pos = (int32_t)(c & UINT32_MAX);
        int32_t right = s[pos].next;
        if (s[pos].id < 0 || right >= n) {
            continue;
        }
        const struct tok_merge *m = tok_merges_find(&t->merges, s[pos].id, s[right].id);
        if (!current(t, m, (int32_t)(c >> 32))) {
            continue;
        }
        s[pos].id = m->id;
        s[pos].next = s[right].next;
        s[right].id = -1;
        if (s[right].next < n) {
            s[s[right].next].prev = pos;
            offer(t, s, pos, h, &n_heap);
        }
        if (s[pos].prev >= 0) {
            offer(t, s, s[pos].prev, h, &n_heap);
        }
    }
}

static int emit(struct tok_work *w, const struct tok_sym *s, int32_t n) {
    for (int32_t i = 0; i < n; i = s[i].next) {
        int rc = tok_ids_add(w->out, s[i].id);
        if (rc) {
            return rc;
        }
    }
    return 0;
}

static int slow(struct tok_work *w, const uint8_t *p, int64_t n) {
    const struct tok *t = w->tok;
    if (t->cfg.ignore_merges) {
        int32_t id = tok_vocab_find(&t->vocab, p, n);
        if (id >= 0) {
            return tok_ids_add(w->out, id);
        }
    }
    int rc = reserve(w, n);
    if (rc) {
        return rc;
    }
    int64_t k = t->byte_level ? split_bytes(t, p, n, w->sym) : split_chars(t, p, n, w->sym);
    merge(t, w->sym, (int32_t)k, w->heap);
    return emit(w, w->sym, (int32_t)k);
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

int tok_bpe_piece(struct tok_work *w, const uint8_t *p, int64_t n) {
    if (n <= 0) {
        return 0;
    }
    if (n > TOK_CACHE_KEY) {
        return slow(w, p, n);
    }
    struct tok_cached *c = &w->cache[tok_hash(p, n) & (TOK_CACHE_SLOTS - 1)];
    int32_t at = w->out->n;
    if (c->n_key == n && memcmp(c->key, p, (size_t)n) == 0) {
        int rc = 0;
        for (int32_t i = 0; i < c->n_id && !rc; i++) {
            rc = tok_ids_add(w->out, c->id[i]);
        }
        return rc;
    }
    int rc = slow(w, p, n);
    if (!rc && w->out->n > at) {
        remember(c, p, n, w->out->v + at, w->out->n - at);
    }
    return rc;
}
