/* The CUDA backend.
 *
 * Present only in builds with TRILEMMA_CUDA. This header is valid C17 and C++17. */
#ifndef KERNELS_CUDA_BACKEND_CUDA_H
#define KERNELS_CUDA_BACKEND_CUDA_H

#include "kernels/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

/* "cuda". Weights F32, F16, BF16, Q4_0, Q4_1, Q8_0, W4; caches F32, F16, BF16; D up to 512.
 * Variants: the default fuses decoders of BF16 weights with a BF16 cache; "f32" computes everything
 * in f32. open: ERR_DEVICE naming what is missing when there is no card or no driver. Buffers are
 * managed memory, so the host may read them after sync. One caller at a time. */
extern const struct backend_ops backend_cuda;

#ifdef __cplusplus
}
#endif
#endif
