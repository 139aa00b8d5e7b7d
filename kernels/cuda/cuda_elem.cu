/* Norms, rotary embedding, activation, sums and gathers. A row is reduced by one block with a fixed
 * tree over its threads. */
#include "kernels/cuda/cuda_ops.h"

enum { THREADS = 128 };

__device__ static float sum_threads(float v, float *tree) {
    int32_t t = (int32_t)threadIdx.x;
    tree[t] = v;
    __syncthreads();
    for (int32_t d = THREADS / 2; d > 0; d /= 2) {
        if (t < d) {
            tree[t] = __fadd_rn(tree[t], tree[t + d]);
        }
        __syncthreads();
    }
    v = tree[0];
    __syncthreads();
    return v;
}

/* 1 / sqrt(mean(x^2) + eps) of a row that the whole block shares. */
__device__ static float inv_rms(const float *x, int32_t n, float eps, float *tree) {
    float sum = 0;
    for (int32_t i = (int32_t)threadIdx.x; i < n; i += THREADS) {
        sum = __fmaf_rn(x[i], x[i], sum);
    }
    return rsqrtf(__fadd_rn(__fdiv_rn(sum_threads(sum, tree), (float)n), eps));
}

__global__ static void
rmsnorm_kernel(float *y, const float *x, const float *w, int32_t dim, float eps, float offset) {
    __shared__ float tree[THREADS];
    const float *row = x + (int64_t)blockIdx.x * dim;
    float r = inv_rms(row, dim, eps, tree);
    for (int32_t i = (int32_t)threadIdx.x; i < dim; i += THREADS) {
        y[(int64_t)blockIdx.x * dim + i] = __fmul_rn(__fmul_rn(row[i], r), w[i] + offset);
    }
}

int cuda_rmsnorm(cudaStream_t s,
                 float *y,
                 const float *x,
                 const float *w,
                 int32_t n_tok,
                 int32_t dim,
                 float eps,
                 float offset) {
    rmsnorm_kernel<<<(unsigned)n_tok, THREADS, 0, s>>>(y, x, w, dim, eps, offset);
    return CUDA_LAUNCHED("rmsnorm");
}

__global__ static void norm_rope_kernel(float *x,
                                        const float *w,
                                        float eps,
                                        float offset,
                                        const float *cos_sin,
                                        const int32_t *pos,
                                        int32_t n_head,
                                        int32_t D) {
    __shared__ float tree[THREADS];
    float *row = x + ((int64_t)blockIdx.x * n_head + blockIdx.y) * D;
    const float *cs = cos_sin + (int64_t)pos[blockIdx.x] * D;
    float r = w ? inv_rms(row, D, eps, tree) : 1;
    for (int32_t i = (int32_t)threadIdx.x; i < D / 2; i += THREADS) {
        float a = row[i];
        float b = row[i + D / 2];
        if (w) {
            a = __fmul_rn(__fmul_rn(a, r), w[i] + offset);
            b = __fmul_rn(__fmul_rn(b, r), w[i + D / 2] + offset);
        }
        row[i] = __fsub_rn(__fmul_rn(a, cs[i]), __fmul_rn(b, cs[D / 2 + i]));
        row[i + D / 2] = __fadd_rn(__fmul_rn(b, cs[i]), __fmul_rn(a, cs[D / 2 + i]));
    }
}

int cuda_norm_rope(cudaStream_t s,
                   float *x,
                   const float *w,
                   float eps,
                   float offset,
                   const float *cos_sin,
                   const int32_t *pos,
                   int32_t n_tok,
                   int32_t n_head,
                   int32_t D) {
    dim3 grid((unsigned)n_tok, (unsigned)n_head);
    norm_rope_kernel<<<grid, THREADS, 0, s>>>(x, w, eps, offset, cos_sin, pos, n_head, D);
    return CUDA_LAUNCHED("norm and rope");
}

__device__ static float activate(float x, enum act act) {
    if (act == ACT_SILU) {
        return x / (1 + expf(-x));
    }
    float u = 0.7978845608028654f * (x + 0.044715f * x * x * x);
    return 0.5f * x * (1 + tanhf(u));
}

__global__ static void
act_mul_kernel(float *y, const float *gate, const float *up, int64_t n, enum act act) {
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = activate(gate[i], act) * up[i];
    }
}

int cuda_act_mul(
    cudaStream_t s, float *y, const float *gate, const float *up, int64_t n, enum act act) {
    act_mul_kernel<<<(unsigned)((n + 255) / 256), 256, 0, s>>>(y, gate, up, n, act);
    return CUDA_LAUNCHED("activation");
}

__global__ static void add_kernel(float *y, const float *x, int64_t n) {
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = __fadd_rn(y[i], x[i]);
    }
}

int cuda_add(cudaStream_t s, float *y, const float *x, int64_t n) {
    add_kernel<<<(unsigned)((n + 255) / 256), 256, 0, s>>>(y, x, n);
    return CUDA_LAUNCHED("add");
}

__global__ static void gather_kernel(float *y, const float *x, const int32_t *row, int32_t dim) {
    for (int32_t i = (int32_t)threadIdx.x; i < dim; i += (int32_t)blockDim.x) {
        y[(int64_t)blockIdx.x * dim + i] = x[(int64_t)row[blockIdx.x] * dim + i];
    }
}

int cuda_gather(
    cudaStream_t s, float *y, const float *x, const int32_t *row, int32_t n_row, int32_t dim) {
    gather_kernel<<<(unsigned)n_row, 128, 0, s>>>(y, x, row, dim);
    return CUDA_LAUNCHED("gather");
}
