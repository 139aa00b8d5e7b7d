/* Norm and rotary embedding of one head by eight lanes: lane i owns elements N i.. and D / 2 + N
 * i.., which turn together. D = 16 N. */
#ifndef KERNELS_CUDA_DEC_TURN_CUH
#define KERNELS_CUDA_DEC_TURN_CUH

#include "kernels/cuda/dec_ops.cuh"

template <int N> static __device__ __forceinline__ void read_half(const bf16 *p, float *v) {
    unsigned w[N / 2];
    if (N == 8) {
        *(uint4 *)w = __ldcg((const uint4 *)p);
    } else {
        *(uint2 *)w = __ldcg((const uint2 *)p);
    }
#pragma unroll
    for (int i = 0; i < N / 2; i++) {
        v[2 * i] = __uint_as_float(w[i] << 16);
        v[2 * i + 1] = __uint_as_float(w[i] & 0xffff0000u);
    }
}

template <int N> static __device__ __forceinline__ void write_half(bf16 *p, const float *v) {
    unsigned w[N / 2];
#pragma unroll
    for (int i = 0; i < N / 2; i++) {
        __nv_bfloat162 b = __floats2bfloat162_rn(v[2 * i], v[2 * i + 1]);
        w[i] = *(unsigned *)&b;
    }
    if (N == 8) {
        *(uint4 *)p = *(const uint4 *)w;
    } else {
        *(uint2 *)p = *(const uint2 *)w;
    }
}

/* out = turned norm of in; without cos_sin a copy. All 32 lanes of a warp call it; live: this
 * lane's head is there. norm [D] or NULL, cos_sin [D] */
template <int N>
static __device__ __forceinline__ void turn_head(
    const bf16 *in, bf16 *out, const float *norm, const float *cos_sin, float eps, bool live) {
    const int D = 16 * N;
    int at = (int)threadIdx.x % 8 * N;
    float x[N] = {};
    float y[N] = {};
    if (live) {
        read_half<N>(in + at, x);
        read_half<N>(in + D / 2 + at, y);
    }
    float sum = 0;
#pragma unroll
    for (int i = 0; i < N; i++) {
        sum += x[i] * x[i] + y[i] * y[i];
    }
    for (int d = 4; d > 0; d /= 2) {
        sum += __shfl_xor_sync(0xffffffffu, sum, d);
    }
    if (!live) {
        return;
    }
    float rs = norm ? rsqrtf(sum / (float)D + eps) : 1.0f;
    if (cos_sin) {
#pragma unroll
        for (int i = 0; i < N; i++) {
            float u = x[i] * rs * (norm ? norm[at + i] : 1.0f);
            float w = y[i] * rs * (norm ? norm[D / 2 + at + i] : 1.0f);
            x[i] = u * cos_sin[at + i] - w * cos_sin[D / 2 + at + i];
            y[i] = w * cos_sin[at + i] + u * cos_sin[D / 2 + at + i];
        }
    }
    write_half<N>(out + at, x);
    write_half<N>(out + D / 2 + at, y);
}

#endif
