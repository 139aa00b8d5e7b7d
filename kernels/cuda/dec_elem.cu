/* The small kernels between the products. A row's sum of squares: each thread's elements ascending,
 * then a fixed tree. */
#include "kernels/cuda/dec_turn.cuh"

enum { THREADS = 256 };

/* Sum over the block; every thread gets it. */
static __device__ float block_sum(float v) {
    __shared__ float part[THREADS / 32];
    int warp = (int)threadIdx.x / 32;
    for (int d = 16; d > 0; d /= 2) {
        v += __shfl_xor_sync(0xffffffffu, v, d);
    }
    if (threadIdx.x % 32 == 0) {
        part[warp] = v;
    }
    __syncthreads();
    v = 0;
    for (int i = 0; i < THREADS / 32; i++) {
        v += part[i];
    }
    __syncthreads();
    return v;
}

__global__ void embed_kernel(const struct dec_embedding a) {
    dec_release();
    dec_wait();
    int64_t t = blockIdx.x;
    const bf16 *row = a.table + (int64_t)a.tok[t] * a.dim;
    for (int i = (int)threadIdx.x; i < a.dim; i += THREADS) {
        float v = __bfloat162float(row[i]) * a.scale;
        a.x[t * a.dim + i] = v;
        if (a.next) {
            a.h[t * a.dim + i] = __float2bfloat16(v * a.next[i]);
            float sq = v * v;
            for (int d = 4; d > 0; d /= 2) {
                sq += __shfl_xor_sync(0xffffffffu, sq, d);
            }
            if (i % 8 == 0) {
                a.part[t * (a.dim / 8) + i / 8] = sq;
            }
        }
    }
}

int dec_embed(cudaStream_t s, const struct dec_embedding *a) {
    return dec_launch(s, "embed", embed_kernel, dim3((unsigned)a->n_tok), THREADS, 0, *a);
}

__global__ void norm_kernel(bf16 *h,
                            const float *x,
                            const float *w,
                            const int32_t *row,
                            int32_t dim,
                            float eps,
                            unsigned long long *pick) {
    dec_release();
    dec_wait();
    int64_t r = blockIdx.x;
    const float4 *in = (const float4 *)(x + (int64_t)(row ? row[r] : r) * dim);
    if (pick && threadIdx.x == 0) {
        pick[r] = 0;
    }
    float sum = 0;
    for (int i = (int)threadIdx.x; i < dim / 4; i += THREADS) {
        float4 v = in[i];
        sum += v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
    }
    float rs = rsqrtf(block_sum(sum) / (float)dim + eps);
    for (int i = (int)threadIdx.x; i < dim / 4; i += THREADS) {
        float4 v = in[i];
        float4 g = ((const float4 *)w)[i];
        __nv_bfloat162 a = __floats2bfloat162_rn(v.x * rs * g.x, v.y * rs * g.y);
        __nv_bfloat162 b = __floats2bfloat162_rn(v.z * rs * g.z, v.w * rs * g.w);
        uint2 o = make_uint2(*(unsigned *)&a, *(unsigned *)&b);
        ((uint2 *)(h + r * dim))[i] = o;
    }
}

int dec_norm(cudaStream_t s,
             bf16 *h,
             const float *x,
             const float *w,
             const int32_t *row,
             int32_t n_row,
             int32_t dim,
             float eps,
             unsigned long long *pick) {
    return dec_launch(s, "norm", norm_kernel, dim3((unsigned)n_row), THREADS, 0, h, x, w, row, dim,
                      eps, pick);
}

/* Eight lanes are one head of one row: q heads, then k, then v. in: D = 16 N */
template <int N> __global__ void rope_kernel(const struct dec_rope a) {
    const int D = 16 * N;
    dec_release();
    dec_wait();
    int K = a.kv.n_kv_head;
    int P = a.kv.block_tok;
    int heads = a.n_head + 2 * K;
    int64_t job = (int64_t)blockIdx.x * (THREADS / 8) + threadIdx.x / 8;
    int64_t t = job / heads;
    int head = (int)(job % heads);
    bool live = t < a.n_tok && a.pos[t] >= 0;
    t = live ? t : 0;
    bool is_q = head < a.n_head;
    bool is_v = head >= a.n_head + K;
    int kv_head = is_v ? head - a.n_head - K : head - a.n_head;
    int64_t slot = live ? a.slot[t] : 0;
    bf16 *v = a.qkv + (t * heads + head) * D;
    bf16 *cache = (bf16 *)(is_v ? a.kv.v : a.kv.k);
    bf16 *out = is_q ? v : cache + ((slot / P * K + kv_head) * P + slot % P) * D;
    const float *cs = is_v || !live ? NULL : a.cos_sin + (int64_t)a.pos[t] * D;
    turn_head<N>(v, out, is_v ? NULL : is_q ? a.q_norm : a.k_norm, cs, a.eps, live);
}

int dec_rope(cudaStream_t s, const struct dec_rope *a) {
    int64_t jobs = (int64_t)a->n_tok * (a->n_head + 2 * a->kv.n_kv_head);
    dim3 grid((unsigned)((jobs + THREADS / 8 - 1) / (THREADS / 8)));
    return a->kv.head_dim == 128 ? dec_launch(s, "rope", rope_kernel<8>, grid, THREADS, 0, *a)
                                 : dec_launch(s, "rope", rope_kernel<4>, grid, THREADS, 0, *a);
}

__global__ void glu_kernel(uint2 *out, const uint4 *in, int64_t n, enum act act) {
    dec_release();
    dec_wait();
    int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= n) {
        return;
    }
    uint4 v = in[i];
    const unsigned w[4] = {v.x, v.y, v.z, v.w};
    float y[4];
    for (int j = 0; j < 4; j++) {
        float g = __uint_as_float(w[j] << 16);
        float u = __uint_as_float(w[j] & 0xffff0000u);
        y[j] = dec_act(g, act) * u;
    }
    __nv_bfloat162 a = __floats2bfloat162_rn(y[0], y[1]);
    __nv_bfloat162 b = __floats2bfloat162_rn(y[2], y[3]);
    out[i] = make_uint2(*(unsigned *)&a, *(unsigned *)&b);
}

int dec_glu(cudaStream_t s, bf16 *out, const bf16 *in, int64_t n, enum act act) {
    return dec_launch(s, "glu", glu_kernel, dim3((unsigned)((n / 4 + THREADS - 1) / THREADS)),
                      THREADS, 0, (uint2 *)out, (const uint4 *)in, n / 4, act);
}

__global__ void bias_kernel(bf16 *y, const float *bias, int32_t n, int64_t all) {
    dec_release();
    dec_wait();
    int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i < all) {
        y[i] = __float2bfloat16(__bfloat162float(y[i]) + bias[i % n]);
    }
}

int dec_bias(cudaStream_t s, bf16 *y, const float *bias, int32_t n_tok, int32_t n) {
    int64_t all = (int64_t)n_tok * n;
    return dec_launch(s, "bias", bias_kernel, dim3((unsigned)((all + THREADS - 1) / THREADS)),
                      THREADS, 0, y, bias, n, all);
}

__global__ void argmax_kernel(unsigned long long *pick, const float *logit, int32_t vocab) {
    dec_release();
    dec_wait();
    unsigned long long key = 0;
    const float *row = logit + (int64_t)blockIdx.y * vocab;
    for (int i = (int)(blockIdx.x * THREADS + threadIdx.x); i < vocab;
         i += (int)(gridDim.x * THREADS)) {
        unsigned long long k = dec_key(row[i], (unsigned)i);
        key = k > key ? k : key;
    }
    for (int d = 16; d > 0; d /= 2) {
        unsigned long long o = __shfl_xor_sync(0xffffffffu, key, d);
        key = o > key ? o : key;
    }
    if (threadIdx.x % 32 == 0 && key) {
        atomicMax(&pick[blockIdx.y], key);
    }
}

int dec_argmax(
    cudaStream_t s, unsigned long long *pick, const float *logit, int32_t n, int32_t vocab) {
    return dec_launch(s, "argmax", argmax_kernel, dim3(16, (unsigned)n), THREADS, 0, pick, logit,
                      vocab);
}
