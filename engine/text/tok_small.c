/* The merges of a short text, all in a few cache lines.
 *
 * Symbols are a linked list in arrays; the pair of a symbol and the next has the key
 *
 *     63 ........ 7 | 6 .. 0
 *         rank      | place       all ones: no merge, or merged away
 *
 * so the lowest key is the lowest rank, of equal ones the leftmost. It is looked for among all
 * places, in four strands. why: keys have 64 bits so that they are loaded as they were stored, one
 * by one; four at once would wait for the stores. Up to TOK_SMALL symbols that is faster than any
 * queue. */
#include "engine/base/err.h"
#include "engine/text/tok_int.h"

enum { PLACE_BITS = 7 };

#define NO_KEY UINT64_MAX

_Static_assert(TOK_SMALL == 1 << PLACE_BITS, "a place in PLACE_BITS bits");

static inline uint64_t min_u64(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

/* in: n is a multiple of 4 */
static uint64_t lowest(const uint64_t *key, int32_t n) {
    uint64_t a = NO_KEY;
    uint64_t b = NO_KEY;
    uint64_t c = NO_KEY;
    uint64_t d = NO_KEY;
    for (int32_t i = 0; i < n; i += 4) {
        a = min_u64(a, key[i]);
        b = min_u64(b, key[i + 1]);
        c = min_u64(c, key[i + 2]);
        d = min_u64(d, key[i + 3]);
    }
    return min_u64(min_u64(a, b), min_u64(c, d));
}

static uint64_t key_of(int32_t rank, int32_t place) {
    return (uint64_t)(uint32_t)rank << PLACE_BITS | (uint32_t)place;
}

/* The pair of places a and b, a symbol and its next.
 * why: whether a pair is a merge cannot be foretold, so a branch on it would cost more than the
 * look at slot 0 instead; only a collision in the table branches */
static inline void look_up(const struct tok *t, struct tok_small *s, int32_t a, int32_t b) {
    const struct tok_merges *m = &t->merges;
    uint64_t h = tok_merges_hash(s->id[a], s->id[b]);
    uint32_t bit = (uint32_t)(h >> 36) & m->filter_mask;
    uint32_t maybe = (uint32_t)(m->filter[bit >> 6] >> (bit & 63)) & 1;
    const struct tok_merge *e = &m->slot[(uint32_t)(h >> 32) & m->mask & (0U - maybe)];
    uint32_t hit = maybe & (uint32_t)(e->left == s->id[a]) & (uint32_t)(e->right == s->id[b]);
    if (__builtin_expect(maybe & ~hit & (uint32_t)(e->left >= 0), 0)) {
        e = &m->slot[tok_merges_slot(m, h, s->id[a], s->id[b])];
        hit = e->left >= 0;
    }
    s->key[a] = key_of(e->rank, a) | ((uint64_t)hit - 1);
    s->made[a] = e->id;
}

static void start(const struct tok *t, struct tok_small *s, const uint8_t *bytes) {
    int32_t n = s->n;
    for (int32_t i = 0; i < n; i++) {
        s->prev[i] = (uint8_t)(i - 1);
        s->next[i] = (uint8_t)(i + 1);
    }
    for (int32_t i = 0; i + 1 < n && bytes; i++) {
        int32_t rank = t->pair_rank[bytes[i] << 8 | bytes[i + 1]];
        s->key[i] = rank == TOK_NO_RANK ? NO_KEY : key_of(rank, i);
        s->made[i] = -1;
    }
    for (int32_t i = 0; i + 1 < n && !bytes; i++) {
        look_up(t, s, i, i + 1);
    }
    for (int32_t i = n - 1; i % 4 != 0 || i == n - 1; i++) {
        s->key[i] = NO_KEY;
    }
}

static int32_t
made(const struct tok *t, const struct tok_small *s, int32_t a, int32_t b, uint64_t rank) {
    if (s->made[a] >= 0) {
        return s->made[a];
    }
    return t->rank_id ? t->rank_id[rank] : tok_merges_find(&t->merges, s->id[a], s->id[b])->id;
}

void tok_small_merge(struct tok_work *w, struct tok_small *s, const uint8_t *bytes) {
    const struct tok *t = w->tok;
    int32_t n = s->n;
    if (n < 1) {
        return;
    }
    start(t, s, bytes);
    int32_t wide = (n + 3) / 4 * 4;
    w->n_ops += n;
    for (uint64_t low = lowest(s->key, wide); low != NO_KEY; low = lowest(s->key, wide)) {
        int32_t at = (int32_t)(low & (TOK_SMALL - 1));
        int32_t right = s->next[at];
        int32_t next = s->next[right];
        s->id[at] = made(t, s, at, right, low >> PLACE_BITS);
        s->key[right] = NO_KEY;
        s->key[at] = NO_KEY;
        s->next[at] = (uint8_t)next;
        if (at > 0) {
            look_up(t, s, s->prev[at], at);
        }
        if (next < n) {
            s->prev[next] = (uint8_t)at;
            look_up(t, s, at, next);
        }
        w->n_ops += 2;
    }
}
