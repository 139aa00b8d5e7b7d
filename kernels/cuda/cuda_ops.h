/* The launches behind the CUDA backend. All pointers are device-readable; launches are ordered on
 * the stream. Each returns 0 or ERR_DEVICE. Shapes and meaning as in kernels/ops.h. */
#ifndef KERNELS_CUDA_CUDA_OPS_H
#define KERNELS_CUDA_CUDA_OPS_H

#include "kernels/cuda/cuda_check.h"
#include "kernels/ops.h"

/* The batch's arrays on the device. */
struct cuda_batch {
    int32_t n_tok;
    int32_t ctx_max; /* longest ctx_len of the batch */
    int32_t table_stride;
    const int32_t *pos;         /* [T] */
    const int32_t *seq_of;      /* [T] sequence of each row */
    const int32_t *block_table; /* [B, table_stride] */
};

int cuda_matmul(cudaStream_t s,
                float *y,
                const float *x,
                const struct wmat *w,
                const float *bias,
                int32_t n_tok,
                bool accumulate);
int cuda_embed(cudaStream_t s,
               float *y,
               const struct wmat *table,
               const int32_t *tok,
               int32_t n_tok,
               float scale);
int cuda_attn(cudaStream_t s,
              float *y,
              const float *q,
              const struct kv_view *kv,
              const struct cuda_batch *b,
              int32_t n_head,
              const struct attn_args *args);
int cuda_kv_write(cudaStream_t s,
                  const struct kv_view *kv,
                  const float *k,
                  const float *v,
                  const int32_t *slot,
                  int32_t n_tok);
int cuda_rmsnorm(cudaStream_t s,
                 float *y,
                 const float *x,
                 const float *w,
                 int32_t n_tok,
                 int32_t dim,
                 float eps,
                 float offset);
int cuda_norm_rope(cudaStream_t s,
                   float *x,
                   const float *w,
                   float eps,
                   float offset,
                   const float *cos_sin,
                   const int32_t *pos,
                   int32_t n_tok,
                   int32_t n_head,
                   int32_t D);
int cuda_act_mul(
    cudaStream_t s, float *y, const float *gate, const float *up, int64_t n, enum act act);
int cuda_add(cudaStream_t s, float *y, const float *x, int64_t n);
int cuda_gather(
    cudaStream_t s, float *y, const float *x, const int32_t *row, int32_t n_row, int32_t dim);

#endif
