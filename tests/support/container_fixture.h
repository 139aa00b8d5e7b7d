/* Pieces of safetensors and GGUF files, made in memory by hand, so that any of them can be wrong.
 * All functions append to b and fail the test when memory is short. */
#ifndef TESTS_SUPPORT_CONTAINER_FIXTURE_H
#define TESTS_SUPPORT_CONTAINER_FIXTURE_H

#include "engine/base/buf.h"

/* A safetensors container: u64 length of the header, the header as given, the data. */
void container_st(struct buf *b, const char *header, const void *data, int64_t n);

/* GGUF, in file order: head, metadata, tensor entries, padding, data. Strings go with length. */
void container_head(struct buf *b, uint32_t version, uint64_t n_tensor, uint64_t n_kv);
void container_u32(struct buf *b, uint32_t v);
void container_u64(struct buf *b, uint64_t v);
void container_str(struct buf *b, const char *s);

/* One metadata entry: key, type, and its bytes as they are. */
void container_kv(struct buf *b, const char *key, uint32_t type, const void *value, int64_t n);
void container_kv_u32(struct buf *b, const char *key, uint32_t v);
void container_kv_f32(struct buf *b, const char *key, float v);
void container_kv_str(struct buf *b, const char *key, const char *s);

/* One tensor entry. in: dim innermost first, type in ggml's numbers */
void container_tensor(struct buf *b,
                      const char *name,
                      uint32_t n_dim,
                      const uint64_t *dim,
                      uint32_t type,
                      uint64_t offset);

/* Zeros up to the next multiple of align. */
void container_pad(struct buf *b, int64_t align);

/* Memory that ends at a page nobody may touch: one byte read too far is a crash in every build. */
struct container_edge {
    uint8_t *map; /* own */
    int64_t room; /* bytes in front of the guard page */
};

void container_edge_init(struct container_edge *e, int64_t max);
void container_edge_fini(struct container_edge *e);

/* Copies n <= max bytes so that the last one is the last before the guard. own: the edge's, until
 * the next call */
const uint8_t *container_edge_put(struct container_edge *e, const void *data, int64_t n);

#endif
