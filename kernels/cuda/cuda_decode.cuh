/* One element of a stored weight row, with the arithmetic of kernels/ref/ref_decode.c: product and
 * sum each rounded to f32 (no contraction). */
#ifndef KERNELS_CUDA_CUDA_DECODE_CUH
#define KERNELS_CUDA_CUDA_DECODE_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernels/dtype.h"

__device__ inline float half_at(const uint8_t *p) {
    return __half2float(__ushort_as_half((unsigned short)(p[0] | p[1] << 8)));
}

__device__ inline float scale_at(const struct wmat &w, int64_t i) {
    const uint8_t *s = (const uint8_t *)w.scale;
    if (w.scale_type == DTYPE_F32) {
        return ((const float *)w.scale)[i];
    }
    if (w.scale_type == DTYPE_F16) {
        return half_at(s + 2 * i);
    }
    return __uint_as_float((unsigned)(s[2 * i] | s[2 * i + 1] << 8) << 16);
}

__device__ inline float decode_at(const struct wmat &w, const uint8_t *row, int32_t r, int32_t k) {
    switch (w.type) {
    case DTYPE_F32:
        return ((const float *)row)[k];
    case DTYPE_F16:
        return __half2float(((const __half *)row)[k]);
    case DTYPE_BF16:
        return __uint_as_float((unsigned)((const uint16_t *)row)[k] << 16);
    case DTYPE_Q8_0: {
        const uint8_t *b = row + (int64_t)(k / 32) * 34;
        return __fmul_rn((float)(int8_t)b[2 + k % 32], half_at(b));
    }
    case DTYPE_Q4_0: {
        const uint8_t *b = row + (int64_t)(k / 32) * 18;
        int32_t j = k % 32;
        int32_t n = j < 16 ? b[2 + j] & 15 : b[2 + j - 16] >> 4;
        return __fmul_rn((float)(n - 8), half_at(b));
    }
    case DTYPE_Q4_1: {
        const uint8_t *b = row + (int64_t)(k / 32) * 20;
        int32_t j = k % 32;
        int32_t n = j < 16 ? b[4 + j] & 15 : b[4 + j - 16] >> 4;
        return __fadd_rn(__fmul_rn((float)n, half_at(b)), half_at(b + 2));
    }
    case DTYPE_W4: {
        uint32_t word = ((const uint32_t *)row)[k / 8];
        int64_t g = (int64_t)r * (w.k / w.group) + k / w.group;
        int32_t q = (int32_t)(word >> (4 * (k % 8)) & 15) - 8;
        return __fmul_rn((float)(q - (w.zero ? w.zero[g] : 0)), scale_at(w, g));
    }
    default:
        return 0;
    }
}

#endif
