/* Products with few rows: y[t,n] = sum_k in[t,k] w[n,k], t < 16, read once at the speed of memory.
 *
 * A block takes TILES x 8 rows of w; its 8 warps cut k into steps of 32, step i to warp i % 8. A
 * lane (g, q) = (lane / 4, lane % 4) reads 16 bytes: w[n0 + g, 32 i + 8 q ..+7], and the same
 * columns of in's rows g and g + 8. Those are the fragments of two m16n8k16 products whose k is
 * taken in another order: a sum does not mind, as long as both sides agree.
 *
 * Law: a sum is its 8 warps' f32 accumulators, added in order of the warps. It depends on w's row
 * and in's row alone: not on T, not on TILES. */
#include "kernels/cuda/dec_ops.cuh"

enum { WARPS = 8, AHEAD = 4 };

/* 16 bytes that nobody reads again */
static __device__ __forceinline__ uint4 load_once(const bf16 *p) {
    uint4 v;
    asm volatile("ld.global.nc.L1::no_allocate.L2::256B.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(p));
    return v;
}

/* 1 / rms of each row from the parts of its squares. */
static __device__ void scales(const struct skinny &a, float *scale) {
    int warp = (int)threadIdx.x / 32;
    int lane = (int)threadIdx.x % 32;
    for (int t = warp; t < a.n_tok; t += WARPS) {
        float sum = 0;
        for (int i = lane; i < a.n_square; i += 32) {
            sum += a.square[(int64_t)t * a.n_square + i];
        }
        for (int d = 16; d > 0; d /= 2) {
            sum += __shfl_xor_sync(0xffffffffu, sum, d);
        }
        if (lane == 0) {
            scale[t] = rsqrtf(sum / (float)a.k + a.eps);
        }
    }
}

/* Finishes element (t, n) of the sums; lanes of a warp hold 4 rows t of 8 neighbours n. */
template <enum skinny_end END>
static __device__ void finish(const struct skinny &a, int t, int n, float v, float scale) {
    bool live = t < a.n_tok;
    v = v * scale + (a.bias && END != SKINNY_GLU ? a.bias[n] : 0.0f);
    if (END == SKINNY_STORE && live) {
        a.out[(int64_t)t * a.n + n] = __float2bfloat16(v);
    }
    if (END == SKINNY_LOGIT && live) {
        a.logit[(int64_t)t * a.n + n] = v;
    }
    if (END == SKINNY_LOGIT) {
        unsigned long long key = live ? dec_key(v, (unsigned)n) : 0ull;
        for (int d = 4; d > 0; d /= 2) {
            unsigned long long o = __shfl_xor_sync(0xffffffffu, key, d);
            key = o > key ? o : key;
        }
        if (live && n % 8 == 0) {
            atomicMax(&a.pick[t], key);
        }
    }
    if (END == SKINNY_GLU) {
        if (a.bias) {
            v += a.bias[n];
        }
        float up = __shfl_xor_sync(0xffffffffu, v, 1);
        if (live && n % 2 == 0) {
            a.out[(int64_t)t * (a.n / 2) + n / 2] = __float2bfloat16(dec_act(v, a.act) * up);
        }
    }
    if (END == SKINNY_ADD) {
        float x = 0;
        if (live) {
            x = a.x[(int64_t)t * a.n + n] + v;
            a.x[(int64_t)t * a.n + n] = x;
            a.h[(int64_t)t * a.n + n] = __float2bfloat16(x * a.next[n]);
        }
        float sq = x * x;
        for (int d = 4; d > 0; d /= 2) {
            sq += __shfl_xor_sync(0xffffffffu, sq, d);
        }
        if (live && n % 8 == 0) {
            a.part[(int64_t)t * (a.n / 8) + n / 8] = sq;
        }
    }
}

template <int TILES, int HALVES, enum skinny_end END>
__global__ void __launch_bounds__(WARPS * 32) skinny_kernel(const struct skinny a) {
    __shared__ float red[WARPS][TILES][16 * 8];
    __shared__ float scale[DEC_SKINNY];
    int warp = (int)threadIdx.x / 32;
    int lane = (int)threadIdx.x % 32;
    int g = lane / 4;
    int q = lane % 4;
    int n0 = (int)blockIdx.x * TILES * 8;
    int steps = a.k / 32;
    const bf16 *w = a.w + (int64_t)(n0 + g) * a.k + 8 * q;
    const bf16 *in0 = a.in + (int64_t)g * a.k + 8 * q;
    const bf16 *in1 = in0 + (int64_t)8 * a.k;
    bool live0 = g < a.n_tok;
    bool live1 = HALVES == 2 && g + 8 < a.n_tok;
    float acc[TILES][4] = {};
    uint4 wv[AHEAD][TILES];
    dec_release();
#pragma unroll
    for (int u = 0; u < AHEAD; u++) {
        int i = warp + u * WARPS;
#pragma unroll
        for (int j = 0; j < TILES; j++) {
            wv[u][j] =
                i < steps ? load_once(w + (int64_t)j * 8 * a.k + 32 * i) : make_uint4(0, 0, 0, 0);
        }
    }
    dec_wait(); /* weights were there before; all else is our predecessor's */
    if (a.square) {
        scales(a, scale);
    }
    for (int i0 = warp; i0 < steps; i0 += AHEAD * WARPS) {
        uint4 x0[AHEAD];
        uint4 x1[AHEAD];
        const uint4 zero = make_uint4(0, 0, 0, 0);
#pragma unroll
        for (int u = 0; u < AHEAD; u++) {
            int i = i0 + u * WARPS;
            x0[u] = live0 && i < steps ? *(const uint4 *)(in0 + 32 * i) : zero;
            x1[u] = live1 && i < steps ? *(const uint4 *)(in1 + 32 * i) : zero;
        }
#pragma unroll
        for (int u = 0; u < AHEAD; u++) {
            int next = i0 + (u + AHEAD) * WARPS;
#pragma unroll
            for (int j = 0; j < TILES; j++) {
                uint4 b = wv[u][j];
                wv[u][j] = next < steps ? load_once(w + (int64_t)j * 8 * a.k + 32 * next) : zero;
                dec_mma(acc[j], x0[u].x, x1[u].x, x0[u].y, x1[u].y, b.x, b.y);
                dec_mma(acc[j], x0[u].z, x1[u].z, x0[u].w, x1[u].w, b.z, b.w);
            }
        }
    }
#pragma unroll
    for (int j = 0; j < TILES; j++) {
        float *r = red[warp][j];
        r[g * 8 + 2 * q] = acc[j][0];
        r[g * 8 + 2 * q + 1] = acc[j][1];
        r[(g + 8) * 8 + 2 * q] = acc[j][2];
        r[(g + 8) * 8 + 2 * q + 1] = acc[j][3];
    }
    __syncthreads();
    for (int e = (int)threadIdx.x; e < TILES * HALVES * 64; e += WARPS * 32) {
        int j = e / (HALVES * 64);
        int at = e % (HALVES * 64);
        float v = 0;
#pragma unroll
        for (int i = 0; i < WARPS; i++) {
            v += red[i][j][at];
        }
        finish<END>(a, at / 8, n0 + j * 8 + at % 8, v,
                    a.square ? scale[at / 8 % DEC_SKINNY] : 1.0f);
    }
}

template <int TILES, enum skinny_end END>
static int launch(cudaStream_t s, const struct skinny *a) {
    dim3 grid((unsigned)(a->n / (8 * TILES)));
    if (a->n_tok <= 8) {
        return dec_launch(s, "skinny", skinny_kernel<TILES, 1, END>, grid, WARPS * 32, 0, *a);
    }
    return dec_launch(s, "skinny", skinny_kernel<TILES, 2, END>, grid, WARPS * 32, 0, *a);
}

template <enum skinny_end END> static int pick_tiles(cudaStream_t s, const struct skinny *a) {
    if (a->n >= 132 * 8 * 4 * 4 && a->n % 32 == 0) {
        return launch<4, END>(s, a);
    }
    if (a->n >= 132 * 8 * 2 * 3 && a->n % 16 == 0) {
        return launch<2, END>(s, a);
    }
    return launch<1, END>(s, a);
}

int dec_skinny(cudaStream_t s, enum skinny_end end, const struct skinny *a) {
    switch (end) {
    case SKINNY_STORE:
        return pick_tiles<SKINNY_STORE>(s, a);
    case SKINNY_ADD:
        return pick_tiles<SKINNY_ADD>(s, a);
    case SKINNY_GLU:
        return pick_tiles<SKINNY_GLU>(s, a);
    case SKINNY_LOGIT:
        return pick_tiles<SKINNY_LOGIT>(s, a);
    }
    return 0;
}
