/* The merges of a short text, all in a few cache lines.
 *
 * Symbols are a linked list in arrays; the pair of a symbol and the next has the key
 *
 *     31 ........ 7 | 6 .. 0
 *         rank      | place       all ones: no merge, or merged away
 *
 * so the lowest key is the lowest rank, of equal ones the leftmost. It is looked for among all
 * places, in four strands. Up to TOK_SMALL symbols that is faster than any queue. */
#include "engine/base/err.h"
#include "engine/text/tok_int.h"

enum { PLACE_BITS = 7 };

#define NO_KEY UINT32_MAX

_Static_assert(TOK_SMALL == 1 << PLACE_BITS, "a place in PLACE_BITS bits");

static uint32_t min_u32(uint32_t a, uint32_t b) {
    return a < b ? a : b;
}

/* in: n is a multiple of 4 */
static uint32_t lowest(const uint32_t *key, int32_t n) {
    uint32_t a = NO_KEY;
    uint32_t b = NO_KEY;
    uint32_t c = NO_KEY;
    uint32_t d = NO_KEY;
    for (int32_t i = 0; i < n; i += 4) {
        a = min_u32(a, key[i]);
        b = min_u32(b, key[i + 1]);
        c = min_u32(c, key[i + 2]);
        d = min_u32(d, key[i + 3]);
    }
    return min_u32(min_u32(a, b), min_u32(c, d));
}

static uint32_t key_of(int32_t rank, int32_t place) {
    return (uint32_t)rank << PLACE_BITS | (uint32_t)place;
}

/* The pair of places a and b, a symbol and its next. */
static void look_up(const struct tok *t, struct tok_small *s, int32_t a, int32_t b) {
    const struct tok_merge *m = tok_merges_find(&t->merges, s->id[a], s->id[b]);
    s->key[a] = m ? key_of(m->rank, a) : NO_KEY;
    s->made[a] = m ? m->id : -1;
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
made(const struct tok *t, const struct tok_small *s, int32_t a, int32_t b, uint32_t rank) {
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
    for (uint32_t low = lowest(s->key, wide); low != NO_KEY; low = lowest(s->key, wide)) {
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
