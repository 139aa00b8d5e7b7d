/* A ring of weight pieces in shared memory, and what skinny products do with their sums. The law is
 * that of dec_skinny.cu. src: PTX ISA, cp.async.bulk and mbarrier */
#ifndef KERNELS_CUDA_DEC_RING_CUH
#define KERNELS_CUDA_DEC_RING_CUH

#include "kernels/cuda/dec_ops.cuh"

enum {
    WARPS = 8,    /* that multiply */
    BRINGERS = 4, /* warps that bring weights: issuing a copy takes its time */
    ROW_GAP = 64  /* bytes more, so that neighbouring rows lie in other banks */
};

/* STAGES pieces of PIECE columns of 8 rows. */
template <int STAGES, int PIECE> struct ring {
    static constexpr int row_bytes = PIECE * 2 + ROW_GAP;
    __align__(16) uint8_t stage[STAGES][8 * row_bytes];
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

/* Makes the ring's barriers, before anyone else uses them. in: called by one thread */
template <int STAGES, int PIECE> static __device__ void ring_init(struct ring<STAGES, PIECE> &r) {
    for (int i = 0; i < STAGES; i++) {
        bar_init(&r.full[i], BRINGERS);
        bar_init(&r.empty[i], WARPS);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

/* Brings the block's tiles of one matrix; n counts pieces over all matrices. Called by the bringing
 * warps, each for its rows. */
template <int STAGES, int PIECE>
static __device__ void
bring(const bf16 *weights, int rows, int k, int &n, struct ring<STAGES, PIECE> &r) {
    int lane = (int)threadIdx.x % 32;
    int pieces = (k + PIECE - 1) / PIECE;
    int mine = ((int)threadIdx.x / 32 - WARPS) * (8 / BRINGERS);
    for (int tile = (int)blockIdx.x; tile * 8 < rows; tile += (int)gridDim.x) {
        for (int p = 0; p < pieces; p++, n++) {
            int s = n % STAGES;
            int columns = min(PIECE, k - p * PIECE);
            if (n >= STAGES) {
                bar_wait(&r.empty[s], (n / STAGES - 1) & 1);
            }
            if (lane == 0) {
                bar_expect(&r.full[s], 8 / BRINGERS * columns * 2);
            }
            __syncwarp();
            if (lane < 8 / BRINGERS) {
                int row = mine + lane;
                bulk(r.stage[s] + row * (ring<STAGES, PIECE>::row_bytes),
                     weights + (int64_t)(tile * 8 + row) * k + p * PIECE, columns * 2, &r.full[s]);
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
            sum += __ldcg(&a.square[(int64_t)t * a.n_square + i]);
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

/* Where the rows of in are read from. */
enum input {
    INPUT_OLD,   /* written before this launch */
    INPUT_LIVE,  /* written by other blocks of this very launch: past L1 */
    INPUT_STAGED /* in shared memory, rows stride elements apart */
};

struct rows_in {
    const bf16 *p;
    int64_t stride;
};

/* The steps of a piece that are this warp's, of rows g + 8 half. */
template <int PIECE, enum input FROM>
static __device__ __forceinline__ void load_input(const struct skinny &a,
                                                  const struct rows_in &in,
                                                  int half,
                                                  int piece,
                                                  uint4 x[PIECE / 32 / WARPS]) {
    const int STEPS = PIECE / 32 / WARPS;
    int warp = (int)threadIdx.x / 32;
    int lane = (int)threadIdx.x % 32;
    int t = lane / 4 + 8 * half;
    const bf16 *row = in.p + t * in.stride + 8 * (lane % 4);
#pragma unroll
    for (int u = 0; u < STEPS; u++) {
        int k = piece * PIECE + (STEPS * warp + u) * 32;
        x[u] = make_uint4(0, 0, 0, 0);
        if (t < a.n_tok && k < a.k) {
            x[u] =
                FROM == INPUT_LIVE ? __ldcg((const uint4 *)(row + k)) : *(const uint4 *)(row + k);
        }
    }
}

/* Adds the warps' sums of a tile and finishes its elements. */
template <int STAGES, int PIECE, int HALVES, enum skinny_end END>
static __device__ __forceinline__ void finish_tile(
    const struct skinny &a, int tile, const float c[4], struct ring<STAGES, PIECE> &r, int turn) {
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

/* Multiplies the block's tiles of one matrix; n and turn go on over all matrices. Called by eight
 * warps. in: what the rows of in and their squares need is there */
template <int STAGES, int PIECE, int HALVES, enum input FROM, enum skinny_end END>
static __device__ void multiply(const struct skinny &a,
                                const struct rows_in &in,
                                int &n,
                                int &turn,
                                struct ring<STAGES, PIECE> &r) {
    int warp = (int)threadIdx.x / 32;
    int lane = (int)threadIdx.x % 32;
    int pieces = (a.k + PIECE - 1) / PIECE;
    const int STEPS = PIECE / 32 / WARPS;
    uint4 x0[STEPS];
    uint4 x1[STEPS] = {};
    if (a.square) {
        scales(a, r.scale);
    }
    load_input<PIECE, FROM>(a, in, 0, 0, x0);
    if (HALVES == 2) {
        load_input<PIECE, FROM>(a, in, 1, 0, x1);
    }
    for (int tile = (int)blockIdx.x; tile * 8 < a.n; tile += (int)gridDim.x, turn ^= 1) {
        float acc[4] = {};
        for (int p = 0; p < pieces; p++, n++) {
            int s = n % STAGES;
            int next = p + 1 < pieces ? p + 1 : 0;
            const uint8_t *row =
                r.stage[s] + lane / 4 * (ring<STAGES, PIECE>::row_bytes) + lane % 4 * 16;
            bar_wait(&r.full[s], n / STAGES & 1);
#pragma unroll
            for (int u = 0; u < STEPS; u++) {
                int step = STEPS * warp + u;
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
                load_input<PIECE, FROM>(a, in, 0, next, x0);
                if (HALVES == 2) {
                    load_input<PIECE, FROM>(a, in, 1, next, x1);
                }
            }
        }
        finish_tile<STAGES, PIECE, HALVES, END>(a, tile, acc, r, turn);
    }
}

#endif
