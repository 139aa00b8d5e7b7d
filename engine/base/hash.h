/* 128-bit hash of bytes (xxHash XXH3). src: https://github.com/Cyan4973/xxHash, xxhash.h */
#ifndef ENGINE_BASE_HASH_H
#define ENGINE_BASE_HASH_H

#include "engine/base/types.h"

struct hash128 {
    uint64_t lo;
    uint64_t hi;
};

/* Hash of n bytes chained to parent: equal inputs give equal hashes on every machine. */
struct hash128 hash_chain(struct hash128 parent, const void *data, int64_t n);

bool hash_eq(struct hash128 a, struct hash128 b);

#endif
