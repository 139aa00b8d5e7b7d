/* y = x W^T (+ bias) (+ y). One warp takes one row of W and up to TOKENS rows of x: lane l sums
 * k = l, l + 32, ... in ascending order, then a fixed butterfly adds the lanes. The order of a sum
 * depends on k alone, so a row's bits do not depend on the batch. */
#include "kernels/cuda/cuda_decode.cuh"
#include "kernels/cuda/cuda_ops.h"

enum { TOKENS = 8, WARPS = 8 };

__device__ static float add_lanes(float v) {
    for (int32_t d = 16; d > 0; d /= 2) {
        v = __fadd_rn(v, __shfl_xor_sync(0xffffffffu, v, d));
    }
    return v;
}

__global__ static void matmul_kernel(
    float *y, const float *x, struct wmat w, const float *bias, int32_t n_tok, bool accumulate) {
    int32_t lane = (int32_t)threadIdx.x % 32;
    int32_t r = (int32_t)blockIdx.x * WARPS + (int32_t)threadIdx.x / 32;
    int32_t t0 = (int32_t)blockIdx.y * TOKENS;
    if (r >= w.n) {
        return;
    }
    const uint8_t *row = (const uint8_t *)w.data + (int64_t)r * w.row_bytes;
    float acc[TOKENS] = {0};
    int32_t n = min(TOKENS, n_tok - t0);
    for (int32_t k = lane; k < w.k; k += 32) {
        float v = decode_at(w, row, r, k);
#pragma unroll
        for (int32_t t = 0; t < TOKENS; t++) {
            if (t < n) {
                acc[t] = __fmaf_rn(v, x[(int64_t)(t0 + t) * w.k + k], acc[t]);
            }
        }
    }
#pragma unroll
    for (int32_t t = 0; t < TOKENS; t++) {
        float sum = add_lanes(acc[t]);
        if (lane == 0 && t < n) {
            float *o = y + (int64_t)(t0 + t) * w.n + r;
            sum = bias ? __fadd_rn(sum, bias[r]) : sum;
            *o = accumulate ? __fadd_rn(*o, sum) : sum;
        }
    }
}

int cuda_matmul(cudaStream_t s,
                float *y,
                const float *x,
                const struct wmat *w,
                const float *bias,
                int32_t n_tok,
                bool accumulate) {
    dim3 grid((unsigned)((w->n + WARPS - 1) / WARPS), (unsigned)((n_tok + TOKENS - 1) / TOKENS));
    matmul_kernel<<<grid, WARPS * 32, 0, s>>>(y, x, *w, bias, n_tok, accumulate);
    return CUDA_LAUNCHED("matmul");
}

__global__ static void embed_kernel(float *y, struct wmat table, const int32_t *tok, float scale) {
    int32_t r = tok[blockIdx.x];
    const uint8_t *row = (const uint8_t *)table.data + (int64_t)r * table.row_bytes;
    for (int32_t k = (int32_t)threadIdx.x; k < table.k; k += (int32_t)blockDim.x) {
        y[(int64_t)blockIdx.x * table.k + k] = __fmul_rn(decode_at(table, row, r, k), scale);
    }
}

int cuda_embed(cudaStream_t s,
               float *y,
               const struct wmat *table,
               const int32_t *tok,
               int32_t n_tok,
               float scale) {
    embed_kernel<<<(unsigned)n_tok, 256, 0, s>>>(y, *table, tok, scale);
    return CUDA_LAUNCHED("embed");
}
