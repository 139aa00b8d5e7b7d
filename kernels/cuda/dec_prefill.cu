/* Attention of sequences with more than one row in the step, in flash form.
 *
 * A block takes 64 rows of one sequence and one head; its 4 warps own 16 rows each. Keys and values
 * come in tiles of 64 positions through two stages of shared memory (cp.async); scores and values
 * by m16n8k16, the softmax online in registers.
 *
 * Law: a row's tiles begin at multiples of 64 positions and come in ascending order, so its sums do
 * not depend on the batch or on the chunk that it came in.
 * src: Dao, "FlashAttention-2", 2023 */
#include "kernels/cuda/dec_ops.cuh"

enum { ROWS = 64, TILE = 64, WARPS = 4, PAD = 8 };

static __device__ __forceinline__ void copy16(void *dst, const void *src) {
    unsigned d = (unsigned)__cvta_generic_to_shared(dst);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(d), "l"(src));
}

static __device__ __forceinline__ void load4(unsigned r[4], const void *p) {
    unsigned s = (unsigned)__cvta_generic_to_shared(p);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(s));
}

static __device__ __forceinline__ void load4t(unsigned r[4], const void *p) {
    unsigned s = (unsigned)__cvta_generic_to_shared(p);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(s));
}

static __device__ __forceinline__ unsigned pack(float a, float b) {
    __nv_bfloat162 v = __floats2bfloat162_rn(a, b);
    return *(unsigned *)&v;
}

template <int D> struct store {
    bf16 q[ROWS][D + PAD];
    bf16 k[2][TILE][D + PAD];
    bf16 v[2][TILE][D + PAD];
};

/* Starts the copy of a tile of cache rows from position s0 on; rows past end repeat the last. */
template <int D>
static __device__ void fetch(const struct dec_attn &a,
                             const int32_t *table,
                             int head,
                             int s0,
                             int end,
                             bf16 (*k)[D + PAD],
                             bf16 (*v)[D + PAD]) {
    int P = a.kv.block_tok;
    for (int i = (int)threadIdx.x; i < TILE * (D / 8); i += WARPS * 32) {
        int r = i / (D / 8);
        int c = i % (D / 8) * 8;
        int s = min(s0 + r, end - 1);
        int64_t row = ((int64_t)table[s / P] * a.kv.n_kv_head + head) * P + s % P;
        copy16(&k[r][c], (const bf16 *)a.kv.k + row * D + c);
        copy16(&v[r][c], (const bf16 *)a.kv.v + row * D + c);
    }
    asm volatile("cp.async.commit_group;");
}

/* A warp's 16 rows: the first of a lane's two, their sums and their softmax. */
template <int D> struct rows {
    unsigned q[D / 16][4];
    float o[D / 8][4];
    float top[2];
    float den[2];
    int pos; /* of the lane's first row; the second is 8 further */
};

/* s = q k^T of a tile, masked and times log2(e). */
template <int D>
static __device__ __forceinline__ void scores(const struct dec_attn &a,
                                              const struct rows<D> &r,
                                              const bf16 (*k)[D + PAD],
                                              int s0,
                                              float (*s)[4]) {
    int lane = (int)threadIdx.x % 32;
    float scale = a.scale * 1.4426950408889634f;
#pragma unroll
    for (int j = 0; j < D / 16; j++) {
#pragma unroll
        for (int i = 0; i < TILE / 16; i++) {
            unsigned b[4];
            load4(b, &k[i * 16 + lane / 16 * 8 + lane % 8][j * 16 + lane / 8 % 2 * 8]);
            dec_mma(s[2 * i], r.q[j][0], r.q[j][1], r.q[j][2], r.q[j][3], b[0], b[1]);
            dec_mma(s[2 * i + 1], r.q[j][0], r.q[j][1], r.q[j][2], r.q[j][3], b[2], b[3]);
        }
    }
#pragma unroll
    for (int i = 0; i < TILE / 8; i++) {
#pragma unroll
        for (int e = 0; e < 4; e++) {
            int at = s0 + 8 * i + 2 * (lane % 4) + e % 2;
            int p = r.pos + e / 2 * 8;
            bool seen = at <= p && (a.window == 0 || at > p - a.window);
            s[i][e] = seen ? s[i][e] * scale : -INFINITY;
        }
    }
}

/* Scores to weights; what was summed before is brought to the new maximum. */
template <int D> static __device__ __forceinline__ void soften(struct rows<D> &r, float (*s)[4]) {
#pragma unroll
    for (int h = 0; h < 2; h++) {
        float best = r.top[h];
#pragma unroll
        for (int i = 0; i < TILE / 8; i++) {
            best = fmaxf(best, fmaxf(s[i][2 * h], s[i][2 * h + 1]));
        }
        best = fmaxf(best, __shfl_xor_sync(0xffffffffu, best, 1));
        best = fmaxf(best, __shfl_xor_sync(0xffffffffu, best, 2));
        float f = r.top[h] == -INFINITY ? 0.0f : exp2f(r.top[h] - best);
        r.top[h] = best;
        r.den[h] *= f;
#pragma unroll
        for (int j = 0; j < D / 8; j++) {
            r.o[j][2 * h] *= f;
            r.o[j][2 * h + 1] *= f;
        }
#pragma unroll
        for (int i = 0; i < TILE / 8; i++) {
#pragma unroll
            for (int e = 2 * h; e < 2 * h + 2; e++) {
                s[i][e] = best == -INFINITY ? 0.0f : exp2f(s[i][e] - best);
                r.den[h] += s[i][e];
            }
        }
    }
}

template <int D>
static __device__ __forceinline__ void
add_values(struct rows<D> &r, const bf16 (*v)[D + PAD], const float (*s)[4]) {
    int lane = (int)threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < TILE / 16; i++) {
        unsigned p0 = pack(s[2 * i][0], s[2 * i][1]);
        unsigned p1 = pack(s[2 * i][2], s[2 * i][3]);
        unsigned p2 = pack(s[2 * i + 1][0], s[2 * i + 1][1]);
        unsigned p3 = pack(s[2 * i + 1][2], s[2 * i + 1][3]);
#pragma unroll
        for (int j = 0; j < D / 16; j++) {
            unsigned b[4];
            load4t(b, &v[i * 16 + lane % 16][j * 16 + lane / 16 * 8]);
            dec_mma(r.o[2 * j], p0, p1, p2, p3, b[0], b[1]);
            dec_mma(r.o[2 * j + 1], p0, p1, p2, p3, b[2], b[3]);
        }
    }
}

/* Writes the rows below n_row; row0 is the lane's first in the sequence. */
template <int D>
static __device__ __forceinline__ void
put_rows(const struct dec_attn &a, struct rows<D> &r, int base, int row0, int n_row) {
    int quad = (int)threadIdx.x % 4;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        r.den[h] += __shfl_xor_sync(0xffffffffu, r.den[h], 1);
        r.den[h] += __shfl_xor_sync(0xffffffffu, r.den[h], 2);
        int row = row0 + 8 * h;
        if (row >= n_row) {
            continue;
        }
        unsigned *out = (unsigned *)(a.out + ((int64_t)(base + row) * a.n_head + blockIdx.y) * D);
#pragma unroll
        for (int j = 0; j < D / 8; j++) {
            out[j * 4 + quad] = pack(r.o[j][2 * h] / r.den[h], r.o[j][2 * h + 1] / r.den[h]);
        }
    }
}

/* Starts the copy of the block's query rows. */
template <int D>
static __device__ void
fetch_q(const struct dec_attn &a, int base, int r0, int n_row, bf16 (*q)[D + PAD]) {
    int heads = a.n_head + 2 * a.kv.n_kv_head;
    for (int i = (int)threadIdx.x; i < ROWS * (D / 8); i += WARPS * 32) {
        int r = min(r0 + i / (D / 8), n_row - 1);
        copy16(&q[i / (D / 8)][i % (D / 8) * 8],
               a.qkv + ((int64_t)(base + r) * heads + blockIdx.y) * D + i % (D / 8) * 8);
    }
}

template <int D>
__global__ void __launch_bounds__(WARPS * 32) prefill_kernel(const struct dec_attn a) {
    extern __shared__ uint4 raw[];
    struct store<D> &m = *(struct store<D> *)raw;
    dec_release();
    dec_wait();
    int seq = a.b.n_decode + (int)blockIdx.z;
    int base = a.b.start[seq];
    int n_row = a.b.start[seq + 1] - base;
    int r0 = (int)(gridDim.x - 1 - blockIdx.x) * ROWS; /* the longest first */
    if (r0 >= n_row) {
        return;
    }
    int head = (int)blockIdx.y / (a.n_head / a.kv.n_kv_head);
    const int32_t *table = a.b.table[a.kv_group] + (int64_t)seq * a.b.stride;
    int warp = (int)threadIdx.x / 32;
    int lane = (int)threadIdx.x % 32;
    int pos0 = a.b.pos[base + r0];
    int last = pos0 + min(ROWS, n_row - r0) - 1;
    int lo = a.window > 0 ? max(0, pos0 - a.window + 1) : 0;
    int s0 = lo / TILE * TILE;
    fetch_q<D>(a, base, r0, n_row, m.q);
    fetch<D>(a, table, head, s0, last + 1, m.k[0], m.v[0]);
    struct rows<D> r = {};
    r.top[0] = r.top[1] = -INFINITY;
    r.pos = pos0 + warp * 16 + lane / 4;
    for (int n = 0; s0 <= last; s0 += TILE, n ^= 1) {
        if (s0 + TILE <= last) {
            fetch<D>(a, table, head, s0 + TILE, last + 1, m.k[n ^ 1], m.v[n ^ 1]);
            asm volatile("cp.async.wait_group 1;");
        } else {
            asm volatile("cp.async.wait_group 0;");
        }
        __syncthreads();
        if (s0 <= lo) { /* the first tile: the queries are there */
#pragma unroll
            for (int j = 0; j < D / 16; j++) {
                load4(r.q[j], &m.q[warp * 16 + lane % 16][j * 16 + lane / 16 * 8]);
            }
        }
        float s[TILE / 8][4] = {};
        scores<D>(a, r, m.k[n], s0, s);
        soften<D>(r, s);
        add_values<D>(r, m.v[n], s);
        __syncthreads();
    }
    put_rows<D>(a, r, base, r0 + warp * 16 + lane / 4, n_row);
}

template <int D> static int launch(cudaStream_t s, const struct dec_attn *a) {
    int shared = (int)sizeof(struct store<D>);
    dim3 grid((unsigned)((a->rows_max + ROWS - 1) / ROWS), (unsigned)a->n_head,
              (unsigned)(a->b.n_seq - a->b.n_decode));
    int rc = CUDA_CHECK(cudaFuncSetAttribute(prefill_kernel<D>,
                                             cudaFuncAttributeMaxDynamicSharedMemorySize, shared));
    return rc ? rc
              : dec_launch(s, "prefill attention", prefill_kernel<D>, grid, WARPS * 32,
                           (size_t)shared, *a);
}

int dec_attn_prefill(cudaStream_t s, const struct dec_attn *a) {
    return a->kv.head_dim == 64 ? launch<64>(s, a) : launch<128>(s, a);
}
