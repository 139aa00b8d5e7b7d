/* CUDA status codes as errors of ours. */
#ifndef KERNELS_CUDA_CUDA_CHECK_H
#define KERNELS_CUDA_CUDA_CHECK_H

#include <cuda_runtime.h>

#include "engine/base/err.h"

/* 0, or ERR_DEVICE with the call's name and CUDA's own text. */
static inline int cuda_status(cudaError_t e, const char *what) {
    return e == cudaSuccess ? 0 : err_set(ERR_DEVICE, "CUDA: %s: %s", what, cudaGetErrorString(e));
}

#define CUDA_CHECK(call) cuda_status((call), #call)

/* The status of the launch just made. */
#define CUDA_LAUNCHED(name) cuda_status(cudaGetLastError(), name)

#endif
