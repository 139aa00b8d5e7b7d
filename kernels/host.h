/* What the backends share whose buffers are ordinary memory (ref, cpu, null): buffers, copies, and
 * the checks of arguments that come from a checkpoint or from the scheduler. */
#ifndef KERNELS_HOST_H
#define KERNELS_HOST_H

#include "kernels/ops.h"

enum { HOST_HEAD_DIM_MAX = 512 }; /* largest D any backend here takes */

/* Buffers of struct backend_ops for host memory. err: ERR_NOMEM */
int host_buf_alloc(struct backend *be, int64_t bytes, void **out);
void host_buf_free(struct backend *be, void *p);
int host_copy(struct backend *be, void *dst, const void *src, int64_t bytes);
int host_sync(struct backend *be);

/* kv_copy of struct backend_ops. err: ERR_UNSUPPORTED, ERR_RANGE */
int host_kv_copy(struct backend *be, const struct kv_view *kv, int32_t src, int32_t dst);

/* route of struct backend_ops, in double. err: ERR_RANGE */
int host_route(struct backend *be,
               const float *logits,
               int32_t n_tok,
               int32_t n_expert,
               int32_t n_used,
               bool renorm,
               int32_t *expert,
               float *weight);

/* Can ref_decode, and so every backend here, decode the format? */
bool host_supports_weight(struct backend *be, enum dtype type);
bool host_supports_kv(struct backend *be, enum dtype type);

/* Are the limits of an open usable? err: ERR_RANGE naming the field */
int host_check_opts(const struct backend_opts *opts);

/* Is w a matrix that can be read without leaving its rows?
 * err: ERR_UNSUPPORTED for the format, ERR_RANGE for sizes, row bytes, and what scaled_check
 * refuses cost: O(k) with act-order, else O(1) */
int host_check_weight(const struct wmat *w);

/* Is the cache of a type with kernels, and are its scales usable?
 * err: ERR_UNSUPPORTED; ERR_RANGE for a scale that is not finite and above 0, or 0 */
int host_check_kv(const struct kv_view *kv);

/* Is every token a row of table? err: ERR_RANGE with the place */
int host_check_tok(const struct wmat *table, const int32_t *tok, int32_t n_tok);

/* Are the positions inside 0..ctx_max-1, and is head_dim even and at most HOST_HEAD_DIM_MAX?
 * err: ERR_RANGE, ERR_UNSUPPORTED */
int host_check_rope(const int32_t *pos, int32_t n_tok, int32_t head_dim, int32_t ctx_max);

/* Can the cache and the batch be walked? Heads divide evenly, positions lie below ctx_max and below
 * the end of the sequence's row of the block table. err: ERR_RANGE, ERR_UNSUPPORTED */
int host_check_attn(const struct kv_view *kv,
                    const struct batch *b,
                    int32_t n_head,
                    int32_t ctx_max);

#endif
