/* Products with few rows: y[t,n] = sum_k in[t,k] w[n,k], t < 16, w read once at the speed of
 * memory.
 *
 * A block walks over tiles of 8 rows of w. Its warps cut k into steps of 32, step i to warp i %
 * WARPS, and each has AHEAD steps on their way while it multiplies the ones before, across tiles
 * too. A lane (g, q) = (lane / 4, lane % 4) reads 16 bytes: w[n0 + g, 32 i + 8 q ..+7], and the
 * same columns of in's rows g and g + 8. Those are the fragments of two m16n8k16 products whose k
 * is taken in another order: a sum does not mind, as long as both sides agree.
 *
 * Law: a sum is its warps' f32 accumulators, added in order of the warps. It depends on w's row and
 * in's row alone, not on T. */
#include "kernels/cuda/dec_ops.cuh"

enum { AHEAD = 4, BLOCKS_MAX = 264 /* two a multiprocessor, so that the next kernel finds room */ };

/* 16 bytes that nobody reads again */
static __device__ __forceinline__ uint4 load_once(const bf16 *p) {
    uint4 v;
    asm volatile("ld.global.nc.L1::no_allocate.L2::256B.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(p));
    return v;
}

/* 1 / rms of each row from the parts of its squares. */
template <int WARPS> static __device__ void scales(const struct skinny &a, float *scale) {
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

/* One step's weights of a lane; zeros behind the end. */
template <int WARPS>
static __device__ __forceinline__ void
load_batch(const struct skinny &a, int tile, int batch, uint4 w[AHEAD]) {
    int warp = (int)threadIdx.x / 32;
    int lane = (int)threadIdx.x % 32;
    const bf16 *row = a.w + (int64_t)(tile * 8 + lane / 4) * a.k + 8 * (lane % 4);
#pragma unroll
    for (int u = 0; u < AHEAD; u++) {
        int i = (batch * AHEAD + u) * WARPS + warp;
        bool live = tile * 8 < a.n && i * 32 < a.k;
        w[u] = live ? load_once(row + 32 * i) : make_uint4(0, 0, 0, 0);
    }
}

template <int WARPS>
static __device__ __forceinline__ void
load_input(const struct skinny &a, int half, int batch, uint4 x[AHEAD]) {
    int warp = (int)threadIdx.x / 32;
    int lane = (int)threadIdx.x % 32;
    int t = lane / 4 + 8 * half;
    const bf16 *row = a.in + (int64_t)t * a.k + 8 * (lane % 4);
#pragma unroll
    for (int u = 0; u < AHEAD; u++) {
        int i = (batch * AHEAD + u) * WARPS + warp;
        bool live = t < a.n_tok && i * 32 < a.k;
        x[u] = live ? *(const uint4 *)(row + 32 * i) : make_uint4(0, 0, 0, 0);
    }
}

/* Adds the warps' sums of a tile and finishes its elements. */
template <int WARPS, int HALVES, enum skinny_end END>
static __device__ __forceinline__ void finish_tile(
    const struct skinny &a, int tile, const float c[4], float (*red)[16 * 8], const float *scale) {
    int warp = (int)threadIdx.x / 32;
    int lane = (int)threadIdx.x % 32;
    float *r = red[warp] + lane / 4 * 8 + 2 * (lane % 4);
    r[0] = c[0];
    r[1] = c[1];
    r[64] = c[2];
    r[65] = c[3];
    __syncthreads();
    int e = (int)threadIdx.x;
    if (e < HALVES * 64) {
        float v = 0;
#pragma unroll
        for (int i = 0; i < WARPS; i++) {
            v += red[i][e];
        }
        finish<END>(a, e / 8, tile * 8 + e % 8, v, a.square ? scale[e / 8] : 1.0f);
    }
}

template <int WARPS, int HALVES, enum skinny_end END>
__global__ void __launch_bounds__(WARPS * 32) skinny_kernel(const struct skinny a) {
    __shared__ float red[2][WARPS][16 * 8];
    __shared__ float scale[DEC_SKINNY];
    int tiles = a.n / 8;
    int batches = (a.k / 32 + WARPS * AHEAD - 1) / (WARPS * AHEAD);
    int tile = (int)blockIdx.x;
    int batch = 0;
    int turn = 0;
    float acc[4] = {};
    uint4 w[AHEAD];
    dec_release();
    load_batch<WARPS>(a, tile, 0, w);
    dec_wait(); /* weights were there before; all else is our predecessor's */
    if (a.square) {
        scales<WARPS>(a, scale);
    }
    while (tile < tiles) {
        bool last = batch == batches - 1;
        int next_tile = last ? tile + (int)gridDim.x : tile;
        int next_batch = last ? 0 : batch + 1;
        uint4 x0[AHEAD];
        uint4 x1[AHEAD] = {};
        uint4 ahead[AHEAD];
        load_input<WARPS>(a, 0, batch, x0);
        if (HALVES == 2) {
            load_input<WARPS>(a, 1, batch, x1);
        }
        load_batch<WARPS>(a, next_tile, next_batch, ahead);
#pragma unroll
        for (int u = 0; u < AHEAD; u++) {
            dec_mma(acc, x0[u].x, x1[u].x, x0[u].y, x1[u].y, w[u].x, w[u].y);
            dec_mma(acc, x0[u].z, x1[u].z, x0[u].w, x1[u].w, w[u].z, w[u].w);
            w[u] = ahead[u];
        }
        if (last) {
            finish_tile<WARPS, HALVES, END>(a, tile, acc, red[turn], scale);
            acc[0] = acc[1] = acc[2] = acc[3] = 0;
            turn ^= 1;
        }
        tile = next_tile;
        batch = next_batch;
    }
}

template <int WARPS, enum skinny_end END>
static int launch(cudaStream_t s, const struct skinny *a) {
    int tiles = a->n / 8;
    int rounds = (tiles + BLOCKS_MAX - 1) / BLOCKS_MAX;
    dim3 grid((unsigned)((tiles + rounds - 1) / rounds));
    if (a->n_tok <= 8) {
        return dec_launch(s, "skinny", skinny_kernel<WARPS, 1, END>, grid, WARPS * 32, 0, *a);
    }
    return dec_launch(s, "skinny", skinny_kernel<WARPS, 2, END>, grid, WARPS * 32, 0, *a);
}

/* Few rows of w are cut into more warps. */
template <enum skinny_end END> static int by_size(cudaStream_t s, const struct skinny *a) {
    return a->n / 8 <= 132 ? launch<16, END>(s, a) : launch<8, END>(s, a);
}

int dec_skinny(cudaStream_t s, enum skinny_end end, const struct skinny *a) {
    switch (end) {
    case SKINNY_STORE:
        return by_size<SKINNY_STORE>(s, a);
    case SKINNY_ADD:
        return by_size<SKINNY_ADD>(s, a);
    case SKINNY_GLU:
        return by_size<SKINNY_GLU>(s, a);
    case SKINNY_LOGIT:
        return by_size<SKINNY_LOGIT>(s, a);
    }
    return 0;
}
