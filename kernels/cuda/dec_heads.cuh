/* Decode attention of one row, one kv head and one split of the positions, by W warps. The law is
 * that of dec_attn.cu. */
#ifndef KERNELS_CUDA_DEC_HEADS_CUH
#define KERNELS_CUDA_DEC_HEADS_CUH

#include "kernels/cuda/dec_ops.cuh"

enum { TILE = 16 };

/* A barrier of the W warps that share the work. */
template <int W> static __device__ __forceinline__ void sync_team() {
    asm volatile("bar.sync 1, %0;" ::"n"(W * 32) : "memory");
}

template <int D> struct shape {
    static constexpr int chunks = D / 8;      /* 16-byte pieces of a cache row */
    static constexpr int lines = 32 / chunks; /* cache rows that a warp reads at once */
    static constexpr int quads = D / 32;      /* pieces of a lane in a score tile */
};

/* What a block works on. */
struct work {
    const int32_t *table;
    int head; /* kv head */
    int group;
    int begin;
    int end;
    int split;
    int n_split; /* that are not empty */
};

template <int D, int G, int W> struct shared {
    float prob[W][TILE][G];
    float factor[W][G];
    float top[W][G];
    float den[W][G];
    float acc[W][G][D];
    bool last;
};

template <int D> struct tile {
    uint4 k[TILE / 8][shape<D>::quads];
    uint4 v[TILE / shape<D>::lines];
};

template <int G> struct sums {
    float m;
    float l;
    float o[G][8];
};

template <int G> static __device__ __forceinline__ struct sums<G> no_sums() {
    struct sums<G> s;
    s.m = -INFINITY;
    s.l = 0;
#pragma unroll
    for (int h = 0; h < G; h++) {
#pragma unroll
        for (int d = 0; d < 8; d++) {
            s.o[h][d] = 0;
        }
    }
    return s;
}

static __device__ __forceinline__ const bf16 *
cache_row(const struct kv_view &kv, const void *base, const struct work &w, int s, int D) {
    int P = kv.block_tok;
    s = min(max(s, w.begin), w.end - 1);
    return (const bf16 *)base + (((int64_t)w.table[s / P] * kv.n_kv_head + w.head) * P + s % P) * D;
}

template <int D>
static __device__ __forceinline__ void
load_k(const struct kv_view &kv, const struct work &w, int s0, struct tile<D> &t) {
    int lane = (int)threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < TILE / 8; i++) {
        const bf16 *row = cache_row(kv, kv.k, w, s0 + 8 * i + lane / 4, D) + lane % 4 * 8;
#pragma unroll
        for (int j = 0; j < shape<D>::quads; j++) {
            t.k[i][j] = *(const uint4 *)(row + 32 * j);
        }
    }
}

template <int D>
static __device__ __forceinline__ void
load_v(const struct kv_view &kv, const struct work &w, int s0, struct tile<D> &t) {
    typedef shape<D> S;
    int lane = (int)threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < TILE / S::lines; i++) {
        const bf16 *row = cache_row(kv, kv.v, w, s0 + S::lines * i + lane / S::chunks, D);
        t.v[i] = *(const uint4 *)(row + lane % S::chunks * 8);
    }
}

/* Scores of a tile: p[i][e] of head lane / 4 at position 8 i + 2 (lane % 4) + e, times log2(e). */
template <int D>
static __device__ __forceinline__ void scores(const uint4 *q,
                                              const struct tile<D> &t,
                                              const struct work &w,
                                              int s0,
                                              float scale,
                                              float p[TILE / 8][2]) {
    int quad = (int)threadIdx.x % 4;
#pragma unroll
    for (int i = 0; i < TILE / 8; i++) {
        float c[4] = {};
#pragma unroll
        for (int j = 0; j < shape<D>::quads; j++) {
            dec_mma(c, q[j].x, 0, q[j].y, 0, t.k[i][j].x, t.k[i][j].y);
            dec_mma(c, q[j].z, 0, q[j].w, 0, t.k[i][j].z, t.k[i][j].w);
        }
#pragma unroll
        for (int e = 0; e < 2; e++) {
            int s = s0 + 8 * i + 2 * quad + e;
            p[i][e] = s >= w.begin && s < w.end ? c[e] * scale : -INFINITY;
        }
    }
}

/* Scores to weights in shared memory; sums on the way. */
template <int D, int G, int W>
static __device__ __forceinline__ void
soften(float p[TILE / 8][2], struct sums<G> &a, struct shared<D, G, W> &sh) {
    int warp = (int)threadIdx.x / 32;
    int lane = (int)threadIdx.x % 32;
    int g = lane / 4;
    float best = a.m;
#pragma unroll
    for (int i = 0; i < TILE / 8; i++) {
        best = fmaxf(best, fmaxf(p[i][0], p[i][1]));
    }
    best = fmaxf(best, __shfl_xor_sync(0xffffffffu, best, 1));
    best = fmaxf(best, __shfl_xor_sync(0xffffffffu, best, 2));
    float f = a.m == -INFINITY ? 0.0f : exp2f(a.m - best);
    float sum = 0;
#pragma unroll
    for (int i = 0; i < TILE / 8; i++) {
#pragma unroll
        for (int e = 0; e < 2; e++) {
            float v = best == -INFINITY ? 0.0f : exp2f(p[i][e] - best);
            sum += v;
            if (g < G) {
                sh.prob[warp][8 * i + 2 * (lane % 4) + e][g] = v;
            }
        }
    }
    sum += __shfl_xor_sync(0xffffffffu, sum, 1);
    sum += __shfl_xor_sync(0xffffffffu, sum, 2);
    a.l = a.l * f + sum;
    a.m = best;
    if (g < G && lane % 4 == 0) {
        sh.factor[warp][g] = f;
    }
    __syncwarp();
}

template <int D, int G, int W>
static __device__ __forceinline__ void
add_values(const struct tile<D> &t, struct sums<G> &a, const struct shared<D, G, W> &sh) {
    typedef shape<D> S;
    int warp = (int)threadIdx.x / 32;
    int line = (int)threadIdx.x % 32 / S::chunks;
#pragma unroll
    for (int h = 0; h < G; h++) {
        float f = sh.factor[warp][h];
#pragma unroll
        for (int d = 0; d < 8; d++) {
            a.o[h][d] *= f;
        }
    }
#pragma unroll
    for (int i = 0; i < TILE / S::lines; i++) {
        const unsigned w[4] = {t.v[i].x, t.v[i].y, t.v[i].z, t.v[i].w};
#pragma unroll
        for (int h = 0; h < G; h++) {
            float p = sh.prob[warp][S::lines * i + line][h];
#pragma unroll
            for (int d = 0; d < 4; d++) {
                a.o[h][2 * d] += p * __uint_as_float(w[d] << 16);
                a.o[h][2 * d + 1] += p * __uint_as_float(w[d] & 0xffff0000u);
            }
        }
    }
    __syncwarp();
}

/* One warp's share of the block's positions. */
template <int D, int G, int W>
static __device__ __forceinline__ void walk(const struct dec_attn &a,
                                            const struct work &w,
                                            const uint4 *q,
                                            struct sums<G> &sum,
                                            struct shared<D, G, W> &sh) {
    float scale = a.scale * 1.4426950408889634f;
    int s0 = w.begin / TILE * TILE + (int)threadIdx.x / 32 * TILE;
    struct tile<D> t;
    if (s0 < w.end) {
        load_k<D>(a.kv, w, s0, t);
        load_v<D>(a.kv, w, s0, t);
    }
    for (; s0 < w.end; s0 += W * TILE) {
        float p[TILE / 8][2];
        bool more = s0 + W * TILE < w.end;
        scores<D>(q, t, w, s0, scale, p);
        if (more) {
            load_k<D>(a.kv, w, s0 + W * TILE, t);
        }
        soften<D, G, W>(p, sum, sh);
        add_values<D, G, W>(t, sum, sh);
        if (more) {
            load_v<D>(a.kv, w, s0 + W * TILE, t);
        }
    }
}

/* The warps' sums to shared memory. */
template <int D, int G, int W>
static __device__ __forceinline__ void hand_in(const struct sums<G> &a,
                                               struct shared<D, G, W> &sh) {
    typedef shape<D> S;
    int warp = (int)threadIdx.x / 32;
    int lane = (int)threadIdx.x % 32;
#pragma unroll
    for (int h = 0; h < G; h++) {
#pragma unroll
        for (int d = 0; d < 8; d++) {
            float v = a.o[h][d];
            for (int x = 16; x >= S::chunks; x /= 2) {
                v += __shfl_xor_sync(0xffffffffu, v, x);
            }
            if (lane < S::chunks) {
                sh.acc[warp][h][8 * lane + d] = v;
            }
        }
    }
    if (lane / 4 < G && lane % 4 == 0) {
        sh.top[warp][lane / 4] = a.m;
        sh.den[warp][lane / 4] = a.l;
    }
    sync_team<W>();
}

/* The block's sums: to out when it is alone, else to its place among the splits. */
template <int D, int G, int W>
static __device__ __forceinline__ void join_warps(
    const struct work &w, const struct shared<D, G, W> &sh, bf16 *out, float *part, int stride) {
    for (int e = (int)threadIdx.x; e < w.group * D; e += W * 32) {
        int h = e / D;
        float M = -INFINITY;
        float sum = 0;
        float v = 0;
        for (int i = 0; i < W; i++) {
            M = fmaxf(M, sh.top[i][h]);
        }
        for (int i = 0; i < W; i++) {
            float r = sh.top[i][h] == -INFINITY ? 0.0f : exp2f(sh.top[i][h] - M);
            sum += r * sh.den[i][h];
            v += r * sh.acc[i][h][e % D];
        }
        if (w.n_split == 1) {
            out[e] = __float2bfloat16(v / sum);
        } else {
            float *p = part + ((int64_t)h * stride + w.split) * (D + 2);
            p[e % D] = v;
            if (e % D == 0) {
                p[D] = M;
                p[D + 1] = sum;
            }
        }
    }
}

/* The splits' sums, in order. */
template <int D, int W>
static __device__ __forceinline__ void
join_splits(const struct work &w, bf16 *out, const float *part, int stride) {
    for (int e = (int)threadIdx.x; e < w.group * D; e += W * 32) {
        const float *p = part + (int64_t)(e / D) * stride * (D + 2);
        float M = -INFINITY;
        float sum = 0;
        float v = 0;
        for (int i = 0; i < w.n_split; i++) {
            M = fmaxf(M, __ldcg(p + (int64_t)i * (D + 2) + D));
        }
        for (int i = 0; i < w.n_split; i++) {
            const float *r = p + (int64_t)i * (D + 2);
            float f = exp2f(__ldcg(r + D) - M);
            sum += f * __ldcg(r + D + 1);
            v += f * __ldcg(r + e % D);
        }
        out[e] = __float2bfloat16(v / sum);
    }
}

/* Adds the team's sums to the row's, and writes the row when it is the last split to come. */
template <int D, int G, int W>
static __device__ __forceinline__ void join(const struct dec_attn &a,
                                            const struct work &w,
                                            int row,
                                            const struct sums<G> &sum,
                                            struct shared<D, G, W> &sh) {
    int64_t head0 = (int64_t)row * a.n_head + w.head * w.group;
    float *part = a.partial + head0 * a.n_split * (D + 2);
    hand_in<D, G, W>(sum, sh);
    join_warps<D, G, W>(w, sh, a.out + head0 * D, part, a.n_split);
    if (w.n_split == 1) {
        return;
    }
    __threadfence();
    sync_team<W>();
    if (threadIdx.x == 0) {
        int32_t *count = &a.count[(int64_t)row * a.kv.n_kv_head + w.head];
        sh.last = atomicAdd(count, 1) == w.n_split - 1;
        if (sh.last) {
            *count = 0;
        }
    }
    sync_team<W>();
    if (sh.last) {
        __threadfence();
        join_splits<D, W>(w, a.out + head0 * D, part, a.n_split);
    }
}

/* The block's part of its row. out: false when it is empty */
template <int W>
static __device__ __forceinline__ bool
find_work(const struct dec_attn &a, int t, int head, int split, struct work &w) {
    int pos = a.b.pos[t];
    int lo = a.window > 0 ? max(0, pos - a.window + 1) : 0;
    int n = pos + 1 - lo;
    int len = (n + a.n_split - 1) / a.n_split;
    len = (len + W * TILE - 1) / (W * TILE) * (W * TILE);
    w.split = split;
    w.n_split = (n + len - 1) / len;
    w.begin = lo + w.split * len;
    w.end = min(pos + 1, w.begin + len);
    w.head = head;
    w.group = a.n_head / a.kv.n_kv_head;
    w.table = a.b.table[a.kv_group] + (int64_t)t * a.b.stride;
    return pos >= 0 && w.begin < w.end;
}

#endif
