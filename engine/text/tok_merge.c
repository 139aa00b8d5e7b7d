/* The merges of a long piece, in linear space and near linear time whatever the piece holds.
 *
 * Law: of all neighbouring pairs that are merges the one of the lowest rank is applied, of equal
 * ones the leftmost; a merge may make new pairs on both of its sides.
 *
 * A heap of all candidates would do it, at log n a step. But ranks are few and places come in
 * order, so candidates lie in a bucket for each rank, in the order of their making:
 *
 *     rank 0  [ 3 17 40 ]        bits: which buckets hold something, 64 to a word, with three
 *     rank 1  [ ]                summaries over it: the lowest is found in four steps
 *     rank 7  [ 0 2 4 6 8 ... ]
 *
 * The lowest bucket is taken out whole and swept from left to right. Sweeping makes new candidates
 * at the place of the merge and before it: those of higher rank go to their buckets (nearly in
 * order; a bucket that is not is sorted when taken), the others to a small heap `now` that is
 * emptied before the sweep goes on. A candidate is stale when the pair at its place has another
 * rank by now, which each symbol carries, so that no table is asked.
 *
 * A bucket is a list of chunks of one cache line; chunks that are done go to a free list.
 * src: the law is Sennrich et al., arXiv:1508.07909, as in tokenizers, bpe/word.rs merge_all */
#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/text/tok_int.h"

enum { CHUNK_POS = 14, SMALL_SORT = 48, AHEAD = 12 };

struct tok_chunk {
    int32_t next; /* -1 none */
    int32_t n;
    int32_t pos[CHUNK_POS];
};

struct tok_bucket {
    int32_t head; /* -1 empty */
    int32_t tail;
    int32_t n;
    int32_t last;  /* place added last */
    bool unsorted; /* a place was added that is below the one before */
};

void tok_queue_fini(struct tok_queue *q) {
    mem_free(q->chunk);
    mem_free(q->bucket);
    mem_free(q->bits[0]);
    mem_free(q->now);
    mem_free(q->sort);
    *q = (struct tok_queue){.free = -1};
}

static int64_t words_of(int64_t n) {
    return (n + 63) / 64;
}

/* Buckets for all ranks, once. */
static int open_queue(struct tok_queue *q, int32_t n_rank) {
    if (q->bucket) {
        return 0;
    }
    int64_t words[4];
    int64_t total = 0;
    int64_t n = i32_max(1, n_rank);
    for (int32_t i = 0; i < 4; i++) {
        n = words_of(n);
        words[i] = n;
        total += n;
    }
    struct tok_bucket *bucket = mem_array(MEM_TEXT, i32_max(1, n_rank), (int64_t)sizeof *bucket);
    uint64_t *bits = mem_array(MEM_TEXT, total, (int64_t)sizeof *bits);
    if (!bucket || !bits || words[3] != 1) {
        mem_free(bucket);
        mem_free(bits);
        return words[3] != 1 ? err_set(ERR_LIMIT, "%d ranks are too many", n_rank) : ERR_NOMEM;
    }
    for (int32_t i = 0; i < n_rank; i++) {
        bucket[i].head = -1;
    }
    for (int32_t i = 0; i < 4; i++) {
        q->bits[i] = bits;
        bits += words[i];
    }
    q->bucket = bucket;
    q->n_bucket = n_rank;
    q->free = -1;
    return 0;
}

static void mark(struct tok_queue *q, int32_t rank) {
    for (int32_t i = 0; i < 4; i++) {
        q->bits[i][rank >> 6] |= 1ULL << (rank & 63);
        rank >>= 6;
    }
}

static void unmark(struct tok_queue *q, int32_t rank) {
    for (int32_t i = 0; i < 4; i++) {
        q->bits[i][rank >> 6] &= ~(1ULL << (rank & 63));
        if (q->bits[i][rank >> 6]) {
            break;
        }
        rank >>= 6;
    }
}

/* The lowest rank whose bucket holds something, -1 none. */
static int32_t lowest(const struct tok_queue *q) {
    int32_t at = 0;
    if (!q->bits[3][0]) {
        return -1;
    }
    for (int32_t i = 3; i >= 0; i--) {
        at = at * 64 + __builtin_ctzll(q->bits[i][at]);
    }
    return at;
}

static int new_chunk(struct tok_queue *q, int32_t *out) {
    if (q->free >= 0) {
        *out = q->free;
        q->free = q->chunk[q->free].next;
    } else {
        if (q->n_chunk == q->cap) {
            int64_t cap = i64_max(256, q->cap + q->cap / 2);
            struct tok_chunk *chunk =
                cap > INT32_MAX ? NULL
                                : mem_realloc(MEM_TEXT, q->chunk, cap * (int64_t)sizeof *chunk);
            if (!chunk) {
                return cap > INT32_MAX ? err_set(ERR_LIMIT, "a piece with too many merges")
                                       : ERR_NOMEM;
            }
            q->chunk = chunk;
            q->cap = (int32_t)cap;
        }
        *out = q->n_chunk++;
    }
    q->chunk[*out].next = -1;
    q->chunk[*out].n = 0;
    return 0;
}

static int put(struct tok_queue *q, int32_t rank, int32_t pos) {
    struct tok_bucket *b = &q->bucket[rank];
    if (b->head < 0 || q->chunk[b->tail].n == CHUNK_POS) {
        int32_t c;
        int rc = new_chunk(q, &c);
        if (rc) {
            return rc;
        }
        if (b->head < 0) {
            *b = (struct tok_bucket){.head = c, .last = -1};
            mark(q, rank);
        } else {
            q->chunk[b->tail].next = c;
        }
        b->tail = c;
    }
    struct tok_chunk *c = &q->chunk[b->tail];
    c->pos[c->n++] = pos;
    b->unsorted = b->unsorted || pos < b->last;
    b->last = pos;
    b->n++;
    return 0;
}

/* Gives all chunks of a chain back. */
static void release(struct tok_queue *q, int32_t head, int32_t tail) {
    q->chunk[tail].next = q->free;
    q->free = head;
}

static void small_sort(int32_t *v, int64_t n) {
    for (int64_t i = 1; i < n; i++) {
        int32_t x = v[i];
        int64_t k = i;
        while (k > 0 && v[k - 1] > x) {
            v[k] = v[k - 1];
            k--;
        }
        v[k] = x;
    }
}

/* Places are below 2^30: three passes of ten bits. */
static void radix_sort(int32_t *v, int32_t *tmp, int64_t n) {
    for (int32_t shift = 0; shift < 30; shift += 10) {
        int64_t start[1025] = {0};
        for (int64_t i = 0; i < n; i++) {
            start[((v[i] >> shift) & 1023) + 1]++;
        }
        for (int32_t k = 0; k < 1024; k++) {
            start[k + 1] += start[k];
        }
        for (int64_t i = 0; i < n; i++) {
            tmp[start[(v[i] >> shift) & 1023]++] = v[i];
        }
        memcpy(v, tmp, (size_t)n * sizeof *v);
    }
}

/* Takes the places of a bucket out in order. out: q->sort[0..*n) */
static int take(struct tok_queue *q, int32_t rank, int32_t *n) {
    struct tok_bucket b = q->bucket[rank];
    if (b.n > q->cap_sort) {
        int64_t cap = i64_max(1024, b.n);
        int32_t *sort = mem_realloc(MEM_TEXT, q->sort, 2 * cap * (int64_t)sizeof *sort);
        if (!sort) {
            return ERR_NOMEM;
        }
        q->sort = sort;
        q->cap_sort = cap;
    }
    int32_t k = 0;
    for (int32_t c = b.head; c >= 0; c = q->chunk[c].next) {
        memcpy(q->sort + k, q->chunk[c].pos, (size_t)q->chunk[c].n * sizeof *q->sort);
        k += q->chunk[c].n;
    }
    release(q, b.head, b.tail);
    q->bucket[rank].head = -1;
    unmark(q, rank);
    if (b.unsorted && k <= SMALL_SORT) {
        small_sort(q->sort, k);
    } else if (b.unsorted) {
        radix_sort(q->sort, q->sort + q->cap_sort, k);
    }
    *n = k;
    return 0;
}

static int push_now(struct tok_queue *q, uint64_t c) {
    if (q->n_now == q->cap_now) {
        int64_t cap = i64_max(64, 2 * q->cap_now);
        uint64_t *now = mem_realloc(MEM_TEXT, q->now, cap * (int64_t)sizeof *now);
        if (!now) {
            return ERR_NOMEM;
        }
        q->now = now;
        q->cap_now = cap;
    }
    int64_t i = q->n_now++;
    while (i > 0 && c < q->now[(i - 1) / 2]) {
        q->now[i] = q->now[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    q->now[i] = c;
    return 0;
}

static uint64_t pop_now(struct tok_queue *q) {
    uint64_t top = q->now[0];
    uint64_t c = q->now[--q->n_now];
    int64_t i = 0;
    for (int64_t k = 1; k < q->n_now; k = 2 * i + 1) {
        k += k + 1 < q->n_now && q->now[k + 1] < q->now[k];
        if (q->now[k] >= c) {
            break;
        }
        q->now[i] = q->now[k];
        i = k;
    }
    q->now[i] = c;
    return top;
}

/* Looks up the pair at pos and files it. level: the rank at work */
static int offer(struct tok_work *w, int32_t pos, int32_t level) {
    struct tok_sym *s = w->sym;
    const struct tok_merge *m = tok_merges_find(&w->tok->merges, s[pos].id, s[s[pos].next].id);
    w->n_ops++;
    s[pos].rank = m ? m->rank : -1;
    if (!m) {
        return 0;
    }
    return m->rank > level ? put(&w->queue, m->rank, pos)
                           : push_now(&w->queue, (uint64_t)(uint32_t)m->rank << 32 | (uint32_t)pos);
}

/* Applies candidate (rank, pos) unless it is stale. n: symbols of the piece */
static int apply(struct tok_work *w, int32_t n, int32_t rank, int32_t pos, int32_t level) {
    struct tok_sym *s = w->sym;
    w->n_ops++;
    if (s[pos].rank != rank) {
        return 0;
    }
    int32_t right = s[pos].next;
    int32_t next = s[right].next;
    s[pos].id = w->tok->rank_id ? w->tok->rank_id[rank]
                                : tok_merges_find(&w->tok->merges, s[pos].id, s[right].id)->id;
    s[pos].next = next;
    s[pos].rank = -1;
    s[right].rank = -1;
    int rc = s[pos].prev >= 0 ? offer(w, s[pos].prev, level) : 0;
    if (!rc && next < n) {
        s[next].prev = pos;
        rc = offer(w, pos, level);
    }
    return rc;
}

static int sweep(struct tok_work *w, int32_t n, int32_t rank) {
    struct tok_queue *q = &w->queue;
    int32_t n_pos = 0;
    int rc = take(q, rank, &n_pos);
    for (int32_t i = 0; i < n_pos && !rc; i++) {
        if (i + AHEAD < n_pos) {
            __builtin_prefetch(&w->sym[q->sort[i + AHEAD]]);
        }
        rc = apply(w, n, rank, q->sort[i], rank);
        while (q->n_now > 0 && !rc) {
            uint64_t c = pop_now(q);
            rc = apply(w, n, (int32_t)(c >> 32), (int32_t)(c & UINT32_MAX), rank);
        }
    }
    return rc;
}

/* in: w->sym[0..n) with ids, links and the ranks of neighbours */
int tok_merge_all(struct tok_work *w, int32_t n) {
    struct tok_queue *q = &w->queue;
    int rc = open_queue(q, w->tok->n_rank);
    for (int32_t i = 0; i + 1 < n && !rc; i++) {
        rc = w->sym[i].rank >= 0 ? put(q, w->sym[i].rank, i) : 0;
    }
    for (int32_t rank = rc ? -1 : lowest(q); rank >= 0 && !rc; rank = lowest(q)) {
        rc = sweep(w, n, rank);
    }
    if (rc) { /* why: buckets must be empty when the next piece comes */
        tok_queue_fini(q);
    }
    return rc;
}
