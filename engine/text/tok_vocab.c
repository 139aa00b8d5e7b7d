/* The two tables of BPE: text -> id, and (left id, right id) -> (rank, merged id).
 *
 * Open addressing with linear probing, a power of two of slots; built once, then read only. At most
 * half are full; of merges four fifths, since a filter turns most pairs away and the table's size
 * is what counts: it should stay in the cache. Invariant: every slot holds -1 or an id whose key
 * hashes to a run of used slots that ends there. */
#include <string.h>

#include "engine/base/err.h"
#include "engine/text/tok_int.h"

enum { SLOTS_MIN = 64, MERGE_SLOTS_MAX = 1 << 28, FILTER_TIMES = 8, FILTER_MAX = 1 << 28 };

static uint64_t mix(uint64_t h, uint64_t w) {
    h = (h ^ w) * 0x9e3779b97f4a7c15U;
    return h ^ (h >> 29);
}

uint64_t tok_hash(const uint8_t *p, int64_t n) {
    uint64_t h = 0x243f6a8885a308d3U ^ (uint64_t)n;
    uint64_t w;
    while (n >= 8) {
        memcpy(&w, p, 8);
        h = mix(h, w);
        p += 8;
        n -= 8;
    }
    w = 0;
    for (int64_t i = 0; i < n; i++) {
        w |= (uint64_t)p[i] << (8 * i);
    }
    h = mix(h, w);
    return h ^ (h >> 32);
}

/* in: least: slots wanted */
static int64_t slots_for(int64_t least) {
    int64_t s = SLOTS_MIN;
    while (s < least) {
        s *= 2;
    }
    return s;
}

int tok_vocab_init(struct tok_vocab *v, int32_t n_vocab) {
    int64_t slots = slots_for(2 * (int64_t)n_vocab);
    *v = (struct tok_vocab){.mask = (uint32_t)(slots - 1), .n = n_vocab};
    buf_init(&v->bytes, MEM_TEXT, INT32_MAX);
    v->key = mem_array(MEM_TEXT, n_vocab, sizeof *v->key);
    v->slot = mem_array(MEM_TEXT, slots, sizeof *v->slot);
    if (!v->key || !v->slot) {
        return ERR_NOMEM;
    }
    memset(v->slot, 0xff, (size_t)slots * sizeof *v->slot);
    for (int32_t i = 0; i < n_vocab; i++) {
        v->key[i].n = -1;
    }
    return 0;
}

void tok_vocab_fini(struct tok_vocab *v) {
    mem_free(v->key);
    mem_free(v->slot);
    buf_fini(&v->bytes);
}

static bool key_is(const struct tok_vocab *v, int32_t id, const uint8_t *key, int64_t n) {
    const struct tok_span *k = &v->key[id];
    return k->n == n && memcmp(v->bytes.data + k->at, key, (size_t)n) == 0;
}

int tok_vocab_add(struct tok_vocab *v, int32_t id, const uint8_t *key, int32_t n) {
    uint32_t i = (uint32_t)tok_hash(key, n) & v->mask;
    while (v->slot[i] >= 0) {
        if (key_is(v, v->slot[i], key, n)) {
            return 0;
        }
        i = (i + 1) & v->mask;
    }
    struct tok_span span = {.at = v->bytes.len, .n = n};
    int rc = buf_add(&v->bytes, key, n);
    if (rc) {
        return rc;
    }
    v->key[id] = span;
    v->slot[i] = id;
    return 0;
}

int32_t tok_vocab_find(const struct tok_vocab *v, const uint8_t *key, int64_t n) {
    uint32_t i = (uint32_t)tok_hash(key, n) & v->mask;
    while (v->slot[i] >= 0) {
        if (key_is(v, v->slot[i], key, n)) {
            return v->slot[i];
        }
        i = (i + 1) & v->mask;
    }
    return -1;
}

int tok_merges_init(struct tok_merges *m, int64_t n) {
    int64_t slots = slots_for(n + n / 4);
    if (slots > MERGE_SLOTS_MAX) {
        return err_set(ERR_LIMIT, "%lld merges are too many", (long long)n);
    }
    int64_t bits = i64_min(slots * FILTER_TIMES, FILTER_MAX);
    *m = (struct tok_merges){.mask = (uint32_t)(slots - 1), .filter_mask = (uint32_t)(bits - 1)};
    m->slot = mem_array(MEM_TEXT, slots, sizeof *m->slot);
    m->filter = mem_array(MEM_TEXT, bits / 64, sizeof *m->filter);
    if (!m->slot || !m->filter) {
        return ERR_NOMEM;
    }
    for (int64_t i = 0; i < slots; i++) {
        m->slot[i].left = -1;
    }
    return 0;
}

void tok_merges_fini(struct tok_merges *m) {
    mem_free(m->slot);
    mem_free(m->filter);
}

void tok_merges_add(struct tok_merges *m, struct tok_merge e) {
    uint64_t h = tok_merges_hash(e.left, e.right);
    uint32_t bit = (uint32_t)(h >> 36) & m->filter_mask;
    m->filter[bit >> 6] |= 1ULL << (bit & 63);
    m->slot[tok_merges_slot(m, h, e.left, e.right)] = e;
}
