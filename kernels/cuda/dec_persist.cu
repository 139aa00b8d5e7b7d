/* A decode step of few rows as one kernel: no launches between its parts, and the weights of the
 * next parts are on their way while one is computed.
 *
 * One block a multiprocessor stays for the whole step. A warp of its own brings the block's tiles
 * of every matrix, layer after layer, into the ring, as far ahead as the ring is deep; it waits for
 * nobody but the ring. Eight warps compute, with a barrier over the grid behind each part:
 *   q, k, v | heads turned, attention, splits joined | o | gate, up | down        and last the head
 * Products are those of dec_skinny.cu, attention that of dec_attn.cu with 8 warps, so are the laws.
 *
 * What other blocks wrote is read past L1 (ld.cg). A block adds to the rows of x whose tiles are
 * its own, at every layer the same. src: the idea of one kernel a step: calm (A. Zeux), and Hazy
 * Research, "Look Ma, No Bubbles", 2025 */
#include "kernels/cuda/dec_persist.cuh"

#include "kernels/cuda/dec_heads.cuh"
#include "kernels/cuda/dec_ring.cuh"
#include "kernels/cuda/dec_turn.cuh"

enum {
    DEEP = 12,             /* pieces of the ring */
    PIECE = 512,           /* columns */
    STAGED_MAX = 40 * 1024 /* elements of input rows in shared memory */
};

template <int D, int G> struct room {
    struct ring<DEEP, PIECE> ring;
    struct shared<D, G, WARPS> sh;
    __align__(16) bf16 q[DEC_GROUP_MAX][D];
    __align__(16) bf16 in[STAGED_MAX + 8 * PERSIST_ROWS];
};

/* A barrier over the grid of the computing warps; turn counts them. */
static __device__ void grid_sync(const struct persist &p, unsigned &turn) {
    turn += gridDim.x;
    sync_workers();
    if (threadIdx.x == 0) {
        unsigned seen = 0;
        __threadfence();
        asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(p.barrier) : "memory");
        do {
            asm volatile("ld.acquire.gpu.global.u32 %0, [%1];"
                         : "=r"(seen)
                         : "l"(p.barrier)
                         : "memory");
        } while (seen < turn);
    }
    sync_workers();
}

/* The last block to end clears the barrier for the next launch. */
static __device__ void leave(const struct persist &p) {
    sync_workers();
    if (threadIdx.x == 0) {
        __threadfence();
        if (atomicAdd(&p.barrier[1], 1) == gridDim.x - 1) {
            p.barrier[0] = 0;
            p.barrier[1] = 0;
            __threadfence();
        }
    }
}

/* The residual stream of the block's own columns, as SKINNY_ADD leaves it. */
static __device__ void begin_rows(const struct persist &p) {
    int e = (int)threadIdx.x;
    int t = e / 8;
    bool live = e < PERSIST_ROWS * 8 && t < p.b.n_tok;
    if (blockIdx.x == 0 && e < p.b.n_tok) {
        p.pick[e] = 0;
    }
    if (e >= PERSIST_ROWS * 8) {
        return;
    }
    int64_t tok = live ? p.b.tok[t] : 0;
    for (int tile = (int)blockIdx.x; tile * 8 < p.hidden; tile += (int)gridDim.x) {
        int i = tile * 8 + e % 8;
        float v = __bfloat162float(p.embed[tok * p.hidden + i]) * p.embed_scale;
        float sq = v * v;
        for (int d = 4; d > 0; d /= 2) {
            sq += __shfl_xor_sync(0xffffffffu, sq, d);
        }
        if (live) {
            p.x[(int64_t)t * p.hidden + i] = v;
            p.h[(int64_t)t * p.hidden + i] = __float2bfloat16(v * p.layer[0].attn_norm[i]);
        }
        if (live && e % 8 == 0) {
            p.part[(int64_t)t * (p.hidden / 8) + tile] = sq;
        }
    }
}

static __device__ struct skinny product_of(const struct persist &p) {
    struct skinny a = {};
    a.eps = p.eps;
    a.n_tok = p.b.n_tok;
    a.n_square = p.hidden / 8;
    a.act = p.act;
    a.x = p.x;
    a.h = p.h;
    a.part = p.part;
    return a;
}

/* Turns the unit's q heads into shared memory and, where it has the row's own position, writes its
 * k and v to the cache. */
template <int D>
static __device__ void turn_heads(const struct persist &p,
                                  const struct persist_layer &l,
                                  const struct dec_attn &a,
                                  const struct work &w,
                                  int row,
                                  bf16 (*q)[D]) {
    const int N = D / 16;
    int K = a.kv.n_kv_head;
    int P = a.kv.block_tok;
    int job = (int)threadIdx.x / 8;
    int pos = a.b.pos[row];
    bool own = w.end == pos + 1;
    bool is_q = job < w.group;
    bool is_v = job == w.group + 1;
    bool live = is_q || (own && job <= w.group + 1);
    int head = is_q ? w.head * w.group + job : a.n_head + w.head + (is_v ? K : 0);
    const bf16 *in = a.qkv + ((int64_t)row * (a.n_head + 2 * K) + (live ? head : 0)) * D;
    int64_t slot = a.b.slot[a.kv_group][row];
    bf16 *cache = (bf16 *)(is_v ? a.kv.v : a.kv.k);
    bf16 *out = is_q ? q[job] : cache + ((slot / P * K + w.head) * P + slot % P) * D;
    if (threadIdx.x / 32 <= (DEC_GROUP_MAX + 1) / 4) {
        turn_head<N>(in, out,
                     is_q   ? l.q_norm
                     : is_v ? NULL
                            : l.k_norm,
                     is_v ? NULL : l.cos_sin + (int64_t)pos * D, p.eps, live);
    }
    sync_workers();
}

template <int D, int G>
static __device__ void
attend(const struct persist &p, const struct persist_layer &l, struct room<D, G> &m) {
    struct dec_attn a = {};
    a.qkv = p.qkv;
    a.out = p.att;
    a.kv = p.kv;
    a.kv.k = l.k;
    a.kv.v = l.v;
    a.b = p.b;
    a.kv_group = l.kv_group;
    a.n_head = p.n_head;
    a.window = l.window;
    a.scale = p.attn_scale;
    a.n_split = p.n_split;
    a.partial = p.partial;
    a.count = p.count;
    int lane = (int)threadIdx.x % 32;
    int K = a.kv.n_kv_head;
    int units = p.b.n_tok * K * p.n_split;
    for (int unit = (int)blockIdx.x; unit < units; unit += (int)gridDim.x) {
        struct work w;
        int row = unit / (K * p.n_split);
        if (!find_work<WARPS>(a, row, unit / p.n_split % K, unit % p.n_split, w)) {
            continue;
        }
        turn_heads<D>(p, l, a, w, row, m.q);
        uint4 qf[shape<D>::quads];
#pragma unroll
        for (int j = 0; j < shape<D>::quads; j++) {
            qf[j] = lane / 4 < w.group ? *(const uint4 *)&m.q[lane / 4][32 * j + 8 * (lane % 4)]
                                       : make_uint4(0, 0, 0, 0);
        }
        struct sums<G> sum = no_sums<G>();
        walk<D, G, WARPS>(a, w, qf, sum, m.sh);
        join<D, G, WARPS>(a, w, row, sum, m.sh);
        sync_workers();
    }
}

/* A product whose input rows are brought to shared memory first, where they fit. */
template <int D, int G, enum skinny_end END>
static __device__ void
run_product(const struct skinny &a, int &n, int &turn, struct room<D, G> &m) {
    struct rows_in in = {a.in, a.k};
    if ((int64_t)a.n_tok * a.k > STAGED_MAX) {
        multiply<DEEP, PIECE, 1, INPUT_LIVE, END>(a, in, n, turn, m.ring);
        return;
    }
    in.p = m.in;
    in.stride = a.k + 8; /* why: 8 more, so that rows lie in different banks */
    int chunks = a.k / 8;
    for (int i = (int)threadIdx.x; i < a.n_tok * chunks; i += WARPS * 32) {
        int t = i / chunks;
        int c = i % chunks * 8;
        *(uint4 *)(m.in + t * in.stride + c) = __ldcg((const uint4 *)(a.in + (int64_t)t * a.k + c));
    }
    sync_workers();
    multiply<DEEP, PIECE, 1, INPUT_STAGED, END>(a, in, n, turn, m.ring);
}

template <int D, int G>
static __device__ void compute(const struct persist &p, struct room<D, G> &m) {
    int n = 0;
    int turn = 0;
    unsigned barrier = 0;
    int qkv = (p.n_head + 2 * p.kv.n_kv_head) * D;
    begin_rows(p);
    grid_sync(p, barrier);
    for (int i = 0; i < p.n_layer; i++) {
        const struct persist_layer &l = p.layer[i];
        struct skinny a = product_of(p);
        a.in = p.h;
        a.square = p.part;
        a.k = p.hidden;
        a.n = qkv;
        a.bias = l.bias;
        a.out = p.qkv;
        run_product<D, G, SKINNY_STORE>(a, n, turn, m);
        grid_sync(p, barrier);
        attend<D, G>(p, l, m);
        grid_sync(p, barrier);
        a = product_of(p);
        a.in = p.att;
        a.k = p.n_head * D;
        a.n = p.hidden;
        a.next = l.mlp_norm;
        run_product<D, G, SKINNY_ADD>(a, n, turn, m);
        grid_sync(p, barrier);
        a = product_of(p);
        a.in = p.h;
        a.square = p.part;
        a.k = p.hidden;
        a.n = 2 * p.ffn;
        a.out = p.act_out;
        run_product<D, G, SKINNY_GLU>(a, n, turn, m);
        grid_sync(p, barrier);
        a = product_of(p);
        a.in = p.act_out;
        a.k = p.ffn;
        a.n = p.hidden;
        a.next = i + 1 < p.n_layer ? p.layer[i + 1].attn_norm : p.final_norm;
        run_product<D, G, SKINNY_ADD>(a, n, turn, m);
        grid_sync(p, barrier);
    }
    struct skinny a = product_of(p);
    a.in = p.h;
    a.square = p.part;
    a.k = p.hidden;
    a.n = p.vocab;
    a.bias = p.head_bias;
    a.logit = p.logit;
    a.pick = p.pick;
    run_product<D, G, SKINNY_LOGIT>(a, n, turn, m);
    leave(p);
}

/* The warp that brings weights: the same matrices in the same order. */
template <int D>
static __device__ void supply(const struct persist &p, struct ring<DEEP, PIECE> &r) {
    int n = 0;
    for (int i = 0; i < p.n_layer; i++) {
        const struct persist_layer &l = p.layer[i];
        bring(l.qkv, (p.n_head + 2 * p.kv.n_kv_head) * D, p.hidden, n, r);
        bring(l.o, p.hidden, p.n_head * D, n, r);
        bring(l.gate_up, 2 * p.ffn, p.hidden, n, r);
        bring(l.down, p.hidden, p.ffn, n, r);
    }
    bring(p.head, p.vocab, p.hidden, n, r);
}

template <int D, int G>
__global__ void __launch_bounds__((WARPS + BRINGERS) * 32, 1)
    persist_kernel(const __grid_constant__ struct persist p) {
    extern __shared__ uint4 raw[];
    struct room<D, G> &m = *(struct room<D, G> *)raw;
    if (threadIdx.x == 0) {
        ring_init(m.ring);
    }
    __syncthreads();
    if (threadIdx.x / 32 >= WARPS) {
        supply<D>(p, m.ring);
    } else {
        compute<D, G>(p, m);
    }
}

template <int D, int G> static int launch(cudaStream_t s, const struct persist *p, int32_t blocks) {
    cudaLaunchConfig_t c = {};
    cudaLaunchAttribute attr[1];
    attr[0].id = cudaLaunchAttributeCooperative;
    attr[0].val.cooperative = 1; /* all blocks at once, or an error */
    c.gridDim = dim3((unsigned)blocks);
    c.blockDim = dim3((WARPS + BRINGERS) * 32);
    c.dynamicSmemBytes = sizeof(struct room<D, G>);
    c.stream = s;
    c.attrs = attr;
    c.numAttrs = 1;
    int rc = CUDA_CHECK(cudaFuncSetAttribute(persist_kernel<D, G>,
                                             cudaFuncAttributeMaxDynamicSharedMemorySize,
                                             (int)sizeof(struct room<D, G>)));
    return rc ? rc : cuda_status(cudaLaunchKernelEx(&c, persist_kernel<D, G>, *p), "decode step");
}

template <int D> static int by_group(cudaStream_t s, const struct persist *p, int32_t blocks) {
    int group = p->n_head / p->kv.n_kv_head;
    if (group <= 2) {
        return launch<D, 2>(s, p, blocks);
    }
    return group <= 4 ? launch<D, 4>(s, p, blocks) : launch<D, 8>(s, p, blocks);
}

int dec_persist(cudaStream_t s, const struct persist *p, int32_t blocks) {
    return p->kv.head_dim == 64 ? by_group<64>(s, p, blocks) : by_group<128>(s, p, blocks);
}

int dec_persist_blocks(int32_t head_dim, int32_t *blocks) {
    cudaDeviceProp prop;
    int rc = CUDA_CHECK(cudaGetDeviceProperties(&prop, 0));
    size_t need = head_dim == 64 ? sizeof(struct room<64, 8>) : sizeof(struct room<128, 8>);
    *blocks = !rc && prop.major >= 9 && need <= prop.sharedMemPerBlockOptin
                  ? prop.multiProcessorCount
                  : 0;
    return rc;
}
