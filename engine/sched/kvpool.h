/* The pool of KV cache blocks: ids, reference counts, prefix cache. Pure bookkeeping; the memory
 * itself belongs to engine/run/kvmem.
 *
 * Numbered laws (kvpool_check proves 1 to 6):
 *  1. A block is in exactly one state: FREE (content worthless), CACHED (no reference, content is a
 *     known prefix), ACTIVE (one or more references).  n_free + n_cached + n_active = n_blocks.
 *  2. Only ACTIVE blocks have references; a reference count is the number of sequences that hold
 * it.
 *  3. CACHED blocks form one LRU list; FREE blocks form one stack.
 *  4. A block is found by hash only while it is published; FREE blocks are never published.
 *  5. No two published blocks have equal hash and tokens.
 *  6. The published map holds exactly the published blocks.
 *  7. A sequence gives its blocks back tail first, so that the head of a prefix is evicted last.
 *  8. A hit compares parent hash and tokens.
 *
 * src: block hash chain as in vLLM's prefix caching design document; the layout here is our own. */
#ifndef ENGINE_SCHED_KVPOOL_H
#define ENGINE_SCHED_KVPOOL_H

#include "engine/base/hash.h"
#include "engine/base/types.h"

enum kvblock_state { KVBLOCK_FREE, KVBLOCK_CACHED, KVBLOCK_ACTIVE };

struct kvblock {
    enum kvblock_state state;
    int32_t ref;   /* holders */
    int32_t prev;  /* LRU list (CACHED), -1 at the ends */
    int32_t next;  /* LRU list (CACHED) or stack (FREE), -1 at the end */
    int32_t chain; /* next block of the same bucket, -1 at the end */
    bool published;
    struct hash128 hash;   /* of the chain up to and including this block */
    struct hash128 parent; /* of the chain before it */
};

struct kvpool {
    int32_t n_blocks;
    int32_t block_tok;     /* P */
    struct kvblock *block; /* own, [n_blocks] */
    int32_t *tok;          /* own, [n_blocks, P] tokens of published blocks */
    int32_t *bucket;       /* own, [n_bucket] */
    int32_t n_bucket;      /* power of two */
    int32_t free_top;      /* stack of FREE blocks */
    int32_t lru_head;      /* evicted first */
    int32_t lru_tail;
    int32_t n_free;
    int32_t n_cached;
    int32_t n_active;
    struct hash128 root; /* parent of a first block: the salt */
    int64_t n_evicted;
};

enum { KVPOOL_BLOCKS_MAX = 1 << 24, KVPOOL_BLOCK_TOK_MAX = 256 };

/* in: n_blocks 1..KVPOOL_BLOCKS_MAX, block_tok 1..KVPOOL_BLOCK_TOK_MAX; salt separates tenants.
 * err: ERR_RANGE, ERR_NOMEM. own: caller, kvpool_fini */
int kvpool_init(struct kvpool *p, int32_t n_blocks, int32_t block_tok, uint64_t salt);
void kvpool_fini(struct kvpool *p);

/* Blocks that kvpool_take can give: FREE and CACHED ones. */
int32_t kvpool_n_available(const struct kvpool *p);

/* Takes n blocks, all or nothing, FREE ones first, then the least recently used CACHED ones.
 * out:  ids [n], each with one reference
 * err:  ERR_BUSY, pool unchanged, when fewer than n are available (no message: an ordinary answer)
 * own:  caller; give back with kvpool_release
 * cost: O(n), no allocation */
int kvpool_take(struct kvpool *p, int32_t n, int32_t *ids);

/* Adds a reference to a published or active block. */
void kvpool_share(struct kvpool *p, int32_t id);

/* Gives back n references, ids[n-1] first. A block without references becomes CACHED when it is
 * published, else FREE. cost: O(n), no allocation */
void kvpool_release(struct kvpool *p, const int32_t *ids, int32_t n);

/* Publishes a full block under its chain hash. in: id ACTIVE, tok [P].
 * out: the hash of the chain; when an equal block is published already, this one stays private */
struct hash128
kvpool_publish(struct kvpool *p, int32_t id, struct hash128 parent, const int32_t *tok);

/* The published block with this parent and these tokens [P], or -1. Takes no reference. */
int32_t kvpool_find(const struct kvpool *p,
                    struct hash128 parent,
                    const int32_t *tok,
                    struct hash128 *hash);

/* Forgets all cached content (the state of a cold start). */
void kvpool_flush(struct kvpool *p);

/* Verifies laws 1 to 6. err: ERR_INTERNAL naming the law and the block. cost: O(n_blocks) */
int kvpool_check(const struct kvpool *p);

#endif
