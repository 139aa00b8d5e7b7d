/* Attention of one row and one head by one block, over the paged cache.
 *
 * Scores go to shared memory; threads take positions s = id, id + THREADS, ...; maximum and sum are
 * reduced by a fixed tree over the threads; then each thread owns dimensions d and walks s in
 * ascending order. Nothing depends on the batch or on how the sequence was cut. */
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernels/cuda/cuda_ops.h"

enum { THREADS = 128 };

__device__ static float kv_at(const void *p, enum dtype type, int64_t i) {
    if (type == DTYPE_BF16) {
        return __uint_as_float((unsigned)((const uint16_t *)p)[i] << 16);
    }
    return type == DTYPE_F16 ? __half2float(((const __half *)p)[i]) : ((const float *)p)[i];
}

__device__ static float reduce(float v, bool is_max, float *tree) {
    int32_t t = (int32_t)threadIdx.x;
    tree[t] = v;
    __syncthreads();
    for (int32_t d = THREADS / 2; d > 0; d /= 2) {
        if (t < d) {
            tree[t] = is_max ? fmaxf(tree[t], tree[t + d]) : __fadd_rn(tree[t], tree[t + d]);
        }
        __syncthreads();
    }
    v = tree[0];
    __syncthreads();
    return v;
}

__global__ static void attn_kernel(float *y,
                                   const float *q,
                                   struct kv_view kv,
                                   struct cuda_batch b,
                                   int32_t n_head,
                                   struct attn_args args) {
    extern __shared__ float score[];
    __shared__ float tree[THREADS];
    int32_t t = (int32_t)blockIdx.x;
    int32_t h = (int32_t)blockIdx.y;
    int32_t D = kv.head_dim;
    int32_t P = kv.block_tok;
    int32_t seq = b.seq_of[t];
    int32_t last = b.pos[t];
    int32_t first = args.window > 0 ? max(0, last - args.window + 1) : 0;
    int32_t g = h / (n_head / kv.n_kv_head);
    const int32_t *table = b.block_table + (int64_t)seq * b.table_stride;
    const float *query = q + ((int64_t)t * n_head + h) * D;
    float top = -INFINITY;
    for (int32_t s = first + (int32_t)threadIdx.x; s <= last; s += THREADS) {
        int64_t at = (((int64_t)table[s / P] * kv.n_kv_head + g) * P + s % P) * D;
        float v = 0;
        for (int32_t d = 0; d < D; d++) {
            v = __fmaf_rn(query[d], kv_at(kv.k, kv.type, at + d), v);
        }
        v = __fmul_rn(v, args.scale);
        v = args.softcap > 0 ? args.softcap * tanhf(v / args.softcap) : v;
        score[s - first] = v;
        top = fmaxf(top, v);
    }
    top = reduce(top, true, tree);
    float sum = 0;
    for (int32_t s = first + (int32_t)threadIdx.x; s <= last; s += THREADS) {
        float e = expf(score[s - first] - top);
        score[s - first] = e;
        sum = __fadd_rn(sum, e);
    }
    sum = reduce(sum, false, tree);
    for (int32_t d = (int32_t)threadIdx.x; d < D; d += THREADS) {
        float v = 0;
        for (int32_t s = first; s <= last; s++) {
            int64_t at = (((int64_t)table[s / P] * kv.n_kv_head + g) * P + s % P) * D;
            v = __fmaf_rn(score[s - first], kv_at(kv.v, kv.type, at + d), v);
        }
        y[((int64_t)t * n_head + h) * D + d] = __fdiv_rn(v, sum);
    }
}

int cuda_attn(cudaStream_t s,
              float *y,
              const float *q,
              const struct kv_view *kv,
              const struct cuda_batch *b,
              int32_t n_head,
              const struct attn_args *args) {
    size_t shared = (size_t)b->ctx_max * sizeof(float);
    int rc = CUDA_CHECK(cudaFuncSetAttribute(
        attn_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared));
    if (rc) {
        return rc;
    }
    dim3 grid((unsigned)b->n_tok, (unsigned)n_head);
    attn_kernel<<<grid, THREADS, shared, s>>>(y, q, *kv, *b, n_head, *args);
    return CUDA_LAUNCHED("attention");
}

__global__ static void
kv_write_kernel(struct kv_view kv, const float *k, const float *v, const int32_t *slot) {
    int32_t t = (int32_t)blockIdx.x;
    int32_t P = kv.block_tok;
    for (int32_t i = (int32_t)threadIdx.x; i < kv.n_kv_head * kv.head_dim;
         i += (int32_t)blockDim.x) {
        int32_t g = i / kv.head_dim;
        int64_t at = (((int64_t)(slot[t] / P) * kv.n_kv_head + g) * P + slot[t] % P) * kv.head_dim +
                     i % kv.head_dim;
        int64_t from = (int64_t)t * kv.n_kv_head * kv.head_dim + i;
        if (kv.type == DTYPE_BF16) {
            ((__nv_bfloat16 *)kv.k)[at] = __float2bfloat16_rn(k[from]);
            ((__nv_bfloat16 *)kv.v)[at] = __float2bfloat16_rn(v[from]);
        } else if (kv.type == DTYPE_F16) {
            ((__half *)kv.k)[at] = __float2half_rn(k[from]);
            ((__half *)kv.v)[at] = __float2half_rn(v[from]);
        } else {
            ((float *)kv.k)[at] = k[from];
            ((float *)kv.v)[at] = v[from];
        }
    }
}

int cuda_kv_write(cudaStream_t s,
                  const struct kv_view *kv,
                  const float *k,
                  const float *v,
                  const int32_t *slot,
                  int32_t n_tok) {
    kv_write_kernel<<<(unsigned)n_tok, 128, 0, s>>>(*kv, k, v, slot);
    return CUDA_LAUNCHED("kv write");
}
