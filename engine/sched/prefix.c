/* Laws:
 *  1. A prefix of L blocks serves a sequence that goes on at position c when every group has all
 *     blocks from the first that a row at c sees up to L. A full group sees block 0.
 *  2. At least one token is computed, since its logits are wanted: c = min(L P, n_known - 1).
 *  3. A shared block is never written: when c lies inside the last one, it is copied first.
 *  4. Blocks of a windowed group in front of the window are neither shared nor compared: that they
 *     belong to this prefix is known by the 128-bit hash of the chain alone. */
#include "engine/sched/prefix.h"

#include "engine/base/mem.h"

int32_t prefix_first_seen(const struct sched *s, int32_t g, int32_t pos) {
    int32_t window = s->opts.group[g].window;
    return window == 0 ? 0 : i32_max(0, pos - window + 1) / s->opts.block_tok;
}

static int32_t go_on_at(const struct sched *s, const struct seq *q, int32_t n_block) {
    return i32_min(n_block * s->opts.block_tok, q->n_known - 1);
}

static bool all_seen(const struct sched *s, const struct seq *q, int32_t L, const int32_t *run) {
    for (int32_t g = 0; g < s->opts.n_group; g++) {
        if (run[g] < L - prefix_first_seen(s, g, go_on_at(s, q, L))) {
            return false;
        }
    }
    return true;
}

/* What a search found: L blocks, the hash of their chain and of the chain without the last. */
struct found {
    int32_t n_block;
    struct hash128 chain;
    struct hash128 parent;
};

/* Looks up to limit blocks far. out: ids in q->held[].id, -1 where the cache has none */
static struct found search(const struct sched *s, struct seq *q, int32_t limit) {
    struct found best = {.chain = s->pool[0].root};
    struct hash128 chain = best.chain;
    int32_t run[KVGROUP_MAX] = {0}; /* found blocks in a row, up to here */
    for (int32_t i = 0; i < limit; i++) {
        const int32_t *tok = q->tok + (int64_t)i * s->opts.block_tok;
        struct hash128 h = chain;
        for (int32_t g = 0; g < s->opts.n_group; g++) {
            int32_t id = kvpool_find(&s->pool[g], chain, tok, &h);
            q->held[g].id[i] = id;
            run[g] = id >= 0 ? run[g] + 1 : 0;
            if (id < 0 && s->opts.group[g].window == 0) {
                return best;
            }
        }
        if (all_seen(s, q, i + 1, run)) {
            best = (struct found){.n_block = i + 1, .chain = h, .parent = chain};
        }
        chain = h;
    }
    return best;
}

static struct found share(struct sched *s, struct seq *q, int32_t limit) {
    struct found f = search(s, q, limit);
    q->chain = f.chain;
    q->n_published = f.n_block;
    for (int32_t g = 0; g < s->opts.n_group; g++) {
        struct kvheld *held = &q->held[g];
        held->n = f.n_block;
        held->first = f.n_block ? prefix_first_seen(s, g, go_on_at(s, q, f.n_block)) : 0;
        for (int32_t i = 0; i < f.n_block; i++) {
            if (i < held->first) {
                held->id[i] = -1;
            } else {
                kvpool_share(&s->pool[g], held->id[i]);
            }
        }
    }
    return f;
}

/* Puts a private copy in the place of the last shared block of every group.
 * out: false, nothing changed, when a pool has no block for it */
static bool copy_last(struct sched *s, struct seq *q, struct prefix_copy *copy) {
    int32_t g = 0;
    while (g < s->opts.n_group && kvpool_take(&s->pool[g], 1, &copy->dst[g]) == 0) {
        g++;
    }
    if (g < s->opts.n_group) {
        while (g-- > 0) {
            kvpool_release(&s->pool[g], &copy->dst[g], 1);
        }
        return false;
    }
    for (g = 0; g < s->opts.n_group; g++) {
        int32_t *last = &q->held[g].id[q->held[g].n - 1];
        /* why: the source may be evicted and written later in this very plan; copies are executed
         * in plan order ahead of all writes, so its content is still there */
        copy->src[g] = *last;
        kvpool_release(&s->pool[g], last, 1);
        *last = copy->dst[g];
    }
    return true;
}

int32_t prefix_share(struct sched *s, struct seq *q, struct prefix_copy *copy) {
    const struct prefix_copy none = {.src = {-1, -1}, .dst = {-1, -1}};
    int32_t P = s->opts.block_tok;
    int32_t limit = s->opts.no_prefix_cache || q->score ? 0 : q->n_known / P;
    *copy = none;
    struct found f = share(s, q, limit);
    if (f.n_block * P < q->n_known) {
        return f.n_block * P;
    }
    if (copy_last(s, q, copy)) {
        q->n_published--;
        q->chain = f.parent;
        return q->n_known - 1;
    }
    *copy = none;
    prefix_drop(s, q);
    return share(s, q, f.n_block - 1).n_block * P;
}

void prefix_drop(struct sched *s, struct seq *q) {
    for (int32_t g = 0; g < s->opts.n_group; g++) {
        struct kvheld *held = &q->held[g];
        kvpool_release(&s->pool[g], held->id + held->first, held->n - held->first);
        held->first = held->n = 0;
    }
    q->n_published = 0;
}
