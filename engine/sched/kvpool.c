#include "engine/sched/kvpool.h"

#include <string.h>

#include "engine/base/err.h"
#include "engine/base/mem.h"

int kvpool_init(struct kvpool *p, int32_t n_blocks, int32_t block_tok, uint64_t salt) {
    if (n_blocks < 1 || n_blocks > KVPOOL_BLOCKS_MAX || block_tok < 1 ||
        block_tok > KVPOOL_BLOCK_TOK_MAX) {
        return err_set(ERR_RANGE, "KV pool of %d blocks of %d tokens, want 1..%d of 1..%d",
                       n_blocks, block_tok, KVPOOL_BLOCKS_MAX, KVPOOL_BLOCK_TOK_MAX);
    }
    *p = (struct kvpool){.n_blocks = n_blocks, .block_tok = block_tok, .n_bucket = 1};
    while (p->n_bucket < 2 * n_blocks) {
        p->n_bucket *= 2;
    }
    p->block = mem_array(MEM_SCHED, n_blocks, (int64_t)sizeof *p->block);
    p->tok = mem_array(MEM_SCHED, (int64_t)n_blocks * block_tok, (int64_t)sizeof *p->tok);
    p->bucket = mem_array(MEM_SCHED, p->n_bucket, (int64_t)sizeof *p->bucket);
    if (!p->block || !p->tok || !p->bucket) {
        kvpool_fini(p);
        return ERR_NOMEM;
    }
    memset(p->bucket, 0xff, (size_t)p->n_bucket * sizeof *p->bucket);
    p->root = hash_chain((struct hash128){0}, &salt, (int64_t)sizeof salt);
    p->lru_head = p->lru_tail = -1;
    p->free_top = 0;
    p->n_free = n_blocks;
    for (int32_t i = 0; i < n_blocks; i++) {
        p->block[i] =
            (struct kvblock){.prev = -1, .next = i + 1 < n_blocks ? i + 1 : -1, .chain = -1};
    }
    return 0;
}

void kvpool_fini(struct kvpool *p) {
    mem_free(p->block);
    mem_free(p->tok);
    mem_free(p->bucket);
    *p = (struct kvpool){0};
}

int32_t kvpool_n_available(const struct kvpool *p) {
    return p->n_free + p->n_cached;
}

static int32_t *bucket_of(const struct kvpool *p, struct hash128 h) {
    return &p->bucket[h.lo & (uint64_t)(p->n_bucket - 1)];
}

static void unpublish(struct kvpool *p, int32_t id) {
    struct kvblock *b = &p->block[id];
    int32_t *link = bucket_of(p, b->hash);
    while (*link != id) {
        link = &p->block[*link].chain;
    }
    *link = b->chain;
    b->chain = -1;
    b->published = false;
}

static void lru_remove(struct kvpool *p, int32_t id) {
    struct kvblock *b = &p->block[id];
    *(b->prev >= 0 ? &p->block[b->prev].next : &p->lru_head) = b->next;
    *(b->next >= 0 ? &p->block[b->next].prev : &p->lru_tail) = b->prev;
    b->prev = b->next = -1;
    p->n_cached--;
}

static void lru_append(struct kvpool *p, int32_t id) {
    struct kvblock *b = &p->block[id];
    b->prev = p->lru_tail;
    b->next = -1;
    *(p->lru_tail >= 0 ? &p->block[p->lru_tail].next : &p->lru_head) = id;
    p->lru_tail = id;
    p->n_cached++;
}

static void free_push(struct kvpool *p, int32_t id) {
    p->block[id].state = KVBLOCK_FREE;
    p->block[id].prev = -1;
    p->block[id].next = p->free_top;
    p->free_top = id;
    p->n_free++;
}

static int32_t take_one(struct kvpool *p) {
    int32_t id = p->free_top;
    if (id >= 0) {
        p->free_top = p->block[id].next;
        p->n_free--;
    } else {
        id = p->lru_head;
        lru_remove(p, id);
        unpublish(p, id);
        p->n_evicted++;
    }
    struct kvblock *b = &p->block[id];
    b->state = KVBLOCK_ACTIVE;
    b->ref = 1;
    b->prev = b->next = -1;
    p->n_active++;
    return id;
}

int kvpool_take(struct kvpool *p, int32_t n, int32_t *ids) {
    if (n > kvpool_n_available(p)) {
        return ERR_BUSY;
    }
    for (int32_t i = 0; i < n; i++) {
        ids[i] = take_one(p);
    }
    return 0;
}

void kvpool_share(struct kvpool *p, int32_t id) {
    struct kvblock *b = &p->block[id];
    if (b->state == KVBLOCK_CACHED) {
        lru_remove(p, id);
        b->state = KVBLOCK_ACTIVE;
        p->n_active++;
    }
    b->ref++;
}

void kvpool_release(struct kvpool *p, const int32_t *ids, int32_t n) {
    for (int32_t i = n - 1; i >= 0; i--) {
        struct kvblock *b = &p->block[ids[i]];
        if (--b->ref > 0) {
            continue;
        }
        p->n_active--;
        if (b->published) {
            b->state = KVBLOCK_CACHED;
            lru_append(p, ids[i]);
        } else {
            free_push(p, ids[i]);
        }
    }
}

int32_t kvpool_find(const struct kvpool *p,
                    struct hash128 parent,
                    const int32_t *tok,
                    struct hash128 *hash) {
    int64_t bytes = p->block_tok * (int64_t)sizeof *tok;
    struct hash128 h = hash_chain(parent, tok, bytes);
    *hash = h;
    for (int32_t id = *bucket_of(p, h); id >= 0; id = p->block[id].chain) {
        const struct kvblock *b = &p->block[id];
        if (hash_eq(b->hash, h) && hash_eq(b->parent, parent) &&
            memcmp(p->tok + (int64_t)id * p->block_tok, tok, (size_t)bytes) == 0) {
            return id;
        }
    }
    return -1;
}

struct hash128
kvpool_publish(struct kvpool *p, int32_t id, struct hash128 parent, const int32_t *tok) {
    struct hash128 h;
    struct kvblock *b = &p->block[id];
    if (kvpool_find(p, parent, tok, &h) >= 0) {
        return h;
    }
    memcpy(p->tok + (int64_t)id * p->block_tok, tok, (size_t)p->block_tok * sizeof *tok);
    b->hash = h;
    b->parent = parent;
    b->published = true;
    int32_t *head = bucket_of(p, h);
    b->chain = *head;
    *head = id;
    return h;
}

void kvpool_flush(struct kvpool *p) {
    while (p->lru_head >= 0) {
        int32_t id = p->lru_head;
        lru_remove(p, id);
        unpublish(p, id);
        free_push(p, id);
    }
    for (int32_t i = 0; i < p->n_blocks; i++) {
        if (p->block[i].published) {
            unpublish(p, i);
        }
    }
}

static int broken(int32_t law, int32_t id, const char *what) {
    return err_set(ERR_INTERNAL, "KV pool law %d broken at block %d: %s", law, id, what);
}

static int check_lists(const struct kvpool *p) {
    int32_t n = 0;
    int32_t last = -1;
    for (int32_t id = p->free_top; id >= 0 && n <= p->n_blocks; id = p->block[id].next, n++) {
        if (p->block[id].state != KVBLOCK_FREE || p->block[id].published) {
            return broken(3, id, "on the free stack, but not FREE or still published");
        }
    }
    if (n != p->n_free) {
        return broken(1, n, "length of the free stack");
    }
    n = 0;
    for (int32_t id = p->lru_head; id >= 0 && n <= p->n_blocks; id = p->block[id].next, n++) {
        if (p->block[id].state != KVBLOCK_CACHED || p->block[id].prev != last) {
            return broken(3, id, "on the LRU list, but not CACHED or wrongly linked");
        }
        last = id;
    }
    if (n != p->n_cached || last != p->lru_tail) {
        return broken(1, n, "length of the LRU list");
    }
    return 0;
}

static int check_map(const struct kvpool *p) {
    int32_t n_published = 0;
    int32_t n_mapped = 0;
    for (int32_t i = 0; i < p->n_blocks; i++) {
        const struct kvblock *b = &p->block[i];
        struct hash128 h;
        n_published += b->published ? 1 : 0;
        if (b->published &&
            kvpool_find(p, b->parent, p->tok + (int64_t)i * p->block_tok, &h) != i) {
            return broken(5, i, "published twice or not found by its hash");
        }
    }
    for (int32_t i = 0; i < p->n_bucket; i++) {
        for (int32_t id = p->bucket[i]; id >= 0; id = p->block[id].chain) {
            if (!p->block[id].published || ++n_mapped > p->n_blocks) {
                return broken(6, id, "in the map, but not published");
            }
        }
    }
    return n_mapped == n_published ? 0 : broken(6, n_mapped, "size of the map");
}

int kvpool_check(const struct kvpool *p) {
    int32_t n_state[3] = {0};
    for (int32_t i = 0; i < p->n_blocks; i++) {
        const struct kvblock *b = &p->block[i];
        n_state[b->state]++;
        if ((b->ref > 0) != (b->state == KVBLOCK_ACTIVE)) {
            return broken(2, i, "references and state disagree");
        }
        if (b->state == KVBLOCK_CACHED && !b->published) {
            return broken(1, i, "CACHED, but not published");
        }
    }
    if (n_state[KVBLOCK_FREE] != p->n_free || n_state[KVBLOCK_CACHED] != p->n_cached ||
        n_state[KVBLOCK_ACTIVE] != p->n_active ||
        p->n_free + p->n_cached + p->n_active != p->n_blocks) {
        return broken(1, -1, "counts of the states");
    }
    int rc = check_lists(p);
    return rc ? rc : check_map(p);
}
