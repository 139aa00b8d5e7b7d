#include "engine/base/hash.h"

#include <xxhash.h>

struct hash128 hash_chain(struct hash128 parent, const void *data, int64_t n) {
    XXH128_hash_t h = XXH3_128bits_withSeed(data, (size_t)n, parent.lo ^ (parent.hi * 3));
    /* why: the seed has 64 bits only; mixing the parent in again keeps 128 bits of chain */
    return (struct hash128){.lo = h.low64 ^ (parent.hi >> 7), .hi = h.high64 + parent.lo * 5};
}

bool hash_eq(struct hash128 a, struct hash128 b) {
    return a.lo == b.lo && a.hi == b.hi;
}
