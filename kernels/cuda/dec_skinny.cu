/* Products with few rows: y[t,n] = sum_k in[t,k] w[n,k], t < 16, w read once at the speed of
 * memory.
 *
 * A block walks over tiles of 8 rows of w, in pieces of 512 columns. A warp of its own brings
 * pieces into a ring of shared memory by bulk copies, across tiles and, since weights are there
 * before the step begins, before the kernel in front has ended. Eight warps multiply: each takes 2
 * of a piece's 16 steps of 32 columns. A lane (g, q) = (lane / 4, lane % 4) reads 16 bytes: w[n0 +
 * g, 32 i + 8 q
 * ..+7], and the same columns of in's rows g and g + 8. Those are the fragments of two m16n8k16
 * products whose k is taken in another order: a sum does not mind, as long as both sides agree.
 *
 * Law: a sum is its 8 warps' f32 accumulators, added in order of the warps. It depends on w's row
 * and in's row alone, not on T. src: PTX ISA, cp.async.bulk and mbarrier */
#include "kernels/cuda/dec_ops.cuh"

enum {
    WARPS = 8,
    PIECE = 512,                /* columns */
    ROW_BYTES = PIECE * 2 + 16, /* why: 16 more, so that 8 rows lie in different banks */
    STAGE_BYTES = 8 * ROW_BYTES,
    STAGES = 8,
    BLOCKS_MAX = 264 /* two a multiprocessor */
};

struct ring {
    uint8_t stage[STAGES][STAGE_BYTES];
    float red[2][WARPS][16 * 8];
    float scale[DEC_SKINNY];
    unsigned long long full[STAGES];
    unsigned long long empty[STAGES];
};

static __device__ __forceinline__ unsigned address(const void *p) {
    return (unsigned)__cvta_generic_to_shared(p);
}

static __device__ __forceinline__ void bar_init(unsigned long long *b, int count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(address(b)), "r"(count));
}

static __device__ __forceinline__ void bar_arrive(unsigned long long *b) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(address(b)) : "memory");
}

static __device__ __forceinline__ void bar_expect(unsigned long long *b, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address(b)),
                 "r"(bytes)
                 : "memory");
}

static __device__ __forceinline__ void bar_wait(unsigned long long *b, int parity) {
    asm volatile("{\n"
                 ".reg .pred p;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
                 "@p bra done;\n"
                 "bra again;\n"
                 "done:\n"
                 "}" ::"r"(address(b)),
                 "r"(parity)
                 : "memory");
}

static __device__ __forceinline__ void
bulk(void *dst, const void *src, int bytes, unsigned long long *b) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1], %2, [%3];" ::"r"(address(dst)),
                 "l"(src), "r"(bytes), "r"(address(b))
                 : "memory");
}

/* A barrier of the eight multiplying warps. */
static __device__ __forceinline__ void sync_workers() {
    asm volatile("bar.sync 1, 256;" ::: "memory");
}

/* The warp that brings the weights. */
static __device__ void bring(const struct skinny &a, struct ring &r) {
    int lane = (int)threadIdx.x % 32;
    int pieces = (a.k + PIECE - 1) / PIECE;
    int n = 0;
    for (int tile = (int)blockIdx.x; tile * 8 < a.n; tile += (int)gridDim.x) {
        for (int p = 0; p < pieces; p++, n++) {
            int s = n % STAGES;
            int columns = min(PIECE, a.k - p * PIECE);
            if (n >= STAGES) {
                bar_wait(&r.empty[s], (n / STAGES - 1) & 1);
            }
            if (lane == 0) {
                bar_expect(&r.full[s], 8 * columns * 2);
            }
            __syncwarp();
            if (lane < 8) {
                bulk(r.stage[s] + lane * ROW_BYTES,
                     a.w + (int64_t)(tile * 8 + lane) * a.k + p * PIECE, columns * 2, &r.full[s]);
            }
        }
    }
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

/* The two steps of a piece that are this warp's, of rows g + 8 half of in. */
static __device__ __forceinline__ void
load_input(const struct skinny &a, int half, int piece, uint4 x[2]) {
    int warp = (int)threadIdx.x / 32;
    int lane = (int)threadIdx.x % 32;
    int t = lane / 4 + 8 * half;
    const bf16 *row = a.in + (int64_t)t * a.k + 8 * (lane % 4);
#pragma unroll
    for (int u = 0; u < 2; u++) {
        int k = piece * PIECE + (2 * warp + u) * 32;
        x[u] = t < a.n_tok && k < a.k ? *(const uint4 *)(row + k) : make_uint4(0, 0, 0, 0);
    }
}

/* Adds the warps' sums of a tile and finishes its elements. */
template <int HALVES, enum skinny_end END>
static __device__ __forceinline__ void
finish_tile(const struct skinny &a, int tile, const float c[4], struct ring &r, int turn) {
    int warp = (int)threadIdx.x / 32;
    int lane = (int)threadIdx.x % 32;
    float *mine = r.red[turn][warp] + lane / 4 * 8 + 2 * (lane % 4);
    mine[0] = c[0];
    mine[1] = c[1];
    mine[64] = c[2];
    mine[65] = c[3];
    sync_workers();
    int e = (int)threadIdx.x;
    if (e < HALVES * 64) {
        float v = 0;
#pragma unroll
        for (int i = 0; i < WARPS; i++) {
            v += r.red[turn][i][e];
        }
        finish<END>(a, e / 8, tile * 8 + e % 8, v, a.square ? r.scale[e / 8] : 1.0f);
    }
}

/* A warp that multiplies. */
template <int HALVES, enum skinny_end END>
static __device__ void multiply(const struct skinny &a, struct ring &r) {
    int warp = (int)threadIdx.x / 32;
    int lane = (int)threadIdx.x % 32;
    int pieces = (a.k + PIECE - 1) / PIECE;
    int n = 0;
    int turn = 0;
    uint4 x0[2];
    uint4 x1[2] = {};
    dec_wait();
    if (a.square) {
        scales(a, r.scale);
    }
    load_input(a, 0, 0, x0);
    if (HALVES == 2) {
        load_input(a, 1, 0, x1);
    }
    for (int tile = (int)blockIdx.x; tile * 8 < a.n; tile += (int)gridDim.x, turn ^= 1) {
        float acc[4] = {};
        for (int p = 0; p < pieces; p++, n++) {
            int s = n % STAGES;
            int next = p + 1 < pieces ? p + 1 : 0;
            const uint8_t *row = r.stage[s] + lane / 4 * ROW_BYTES + lane % 4 * 16;
            bar_wait(&r.full[s], n / STAGES & 1);
#pragma unroll
            for (int u = 0; u < 2; u++) {
                int step = 2 * warp + u;
                uint4 w = p * PIECE + step * 32 < a.k ? *(const uint4 *)(row + step * 64)
                                                      : make_uint4(0, 0, 0, 0);
                dec_mma(acc, x0[u].x, x1[u].x, x0[u].y, x1[u].y, w.x, w.y);
                dec_mma(acc, x0[u].z, x1[u].z, x0[u].w, x1[u].w, w.z, w.w);
            }
            __syncwarp();
            if (lane == 0) {
                bar_arrive(&r.empty[s]);
            }
            if (pieces > 1) {
                load_input(a, 0, next, x0);
                if (HALVES == 2) {
                    load_input(a, 1, next, x1);
                }
            }
        }
        finish_tile<HALVES, END>(a, tile, acc, r, turn);
    }
}

template <int HALVES, enum skinny_end END>
__global__ void __launch_bounds__((WARPS + 1) * 32) skinny_kernel(const struct skinny a) {
    extern __shared__ uint4 raw[];
    struct ring &r = *(struct ring *)raw;
    dec_release();
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; i++) {
            bar_init(&r.full[i], 1);
            bar_init(&r.empty[i], WARPS);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    if (threadIdx.x / 32 == WARPS) {
        bring(a, r); /* weights were there before; all else is our predecessor's */
    } else {
        multiply<HALVES, END>(a, r);
    }
}

template <int HALVES, enum skinny_end END>
static int launch(cudaStream_t s, const struct skinny *a) {
    int tiles = a->n / 8;
    int rounds = (tiles + BLOCKS_MAX - 1) / BLOCKS_MAX;
    dim3 grid((unsigned)((tiles + rounds - 1) / rounds));
    int shared = (int)sizeof(struct ring);
    int rc = CUDA_CHECK(cudaFuncSetAttribute(skinny_kernel<HALVES, END>,
                                             cudaFuncAttributeMaxDynamicSharedMemorySize, shared));
    return rc ? rc
              : dec_launch(s, "skinny", skinny_kernel<HALVES, END>, grid, (WARPS + 1) * 32,
                           (size_t)shared, *a);
}

template <enum skinny_end END> static int by_rows(cudaStream_t s, const struct skinny *a) {
    return a->n_tok <= 8 ? launch<1, END>(s, a) : launch<2, END>(s, a);
}

int dec_skinny(cudaStream_t s, enum skinny_end end, const struct skinny *a) {
    switch (end) {
    case SKINNY_STORE:
        return by_rows<SKINNY_STORE>(s, a);
    case SKINNY_ADD:
        return by_rows<SKINNY_ADD>(s, a);
    case SKINNY_GLU:
        return by_rows<SKINNY_GLU>(s, a);
    case SKINNY_LOGIT:
        return by_rows<SKINNY_LOGIT>(s, a);
    }
    return 0;
}
