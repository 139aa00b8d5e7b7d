/* The launches of the fused decoder. Activations are bf16, the residual stream f32, every sum f32.
 *
 * Two ways through a layer: up to DEC_SKINNY rows go through products of our own that norm their
 * input and finish their output in place; more rows go through cuBLASLt with kernels between. All
 * pointers are device memory; launches are ordered on the stream. Each returns 0 or ERR_DEVICE. */
#ifndef KERNELS_CUDA_DEC_OPS_CUH
#define KERNELS_CUDA_DEC_OPS_CUH

#include <cuda_bf16.h>

#include "kernels/cuda/cuda_check.h"
#include "kernels/decoder.h"

typedef __nv_bfloat16 bf16;

enum {
    DEC_SKINNY = 16,    /* most rows of a skinny product */
    DEC_GROUP_MAX = 8,  /* most query heads of a kv head */
    DEC_SPLIT_MAX = 64, /* most splits of a row of decode attention */
    DEC_PDL = 1
};

/* One step's arrays. Rows of decode sequences come first, one row each; rows that only pad have
 * position -1. */
struct dec_batch {
    int32_t n_tok;
    int32_t n_decode; /* leading rows that are sequences of one row */
    int32_t n_seq;
    int32_t stride;          /* columns of table */
    const int32_t *tok;      /* [T] */
    const int32_t *pos;      /* [T] */
    const int32_t *start;    /* [B + 1] */
    const int32_t *slot[2];  /* [T] of each cache group */
    const int32_t *table[2]; /* [B, stride] */
};

/* What a skinny product does with its sums. */
enum skinny_end {
    SKINNY_STORE, /* out[t,n] = scale[t] sum + bias */
    SKINNY_ADD, /* x[t,n] += sum + bias; then h[t,n] = x next[n], and a part of the row's squares */
    SKINNY_GLU, /* rows 2i and 2i + 1 are gate and up: out[t,i] = act(gate) up */
    SKINNY_LOGIT /* logit[t,n] = sum + bias, and the largest so far */
};

struct skinny {
    const bf16 *w;       /* [N,K] */
    const bf16 *in;      /* [T,K] */
    const float *square; /* [T, n_square] parts of the squares of in's row; NULL: scale 1 */
    int32_t n_square;
    float eps;
    int32_t n_tok;
    int32_t n;
    int32_t k;
    const float *bias;        /* [N] or NULL */
    bf16 *out;                /* STORE [T,N], GLU [T,N/2] */
    float *x;                 /* ADD [T,N] */
    bf16 *h;                  /* ADD [T,N] */
    const float *next;        /* ADD [N] weight of the norm that follows, offset added */
    float *part;              /* ADD [T, N/8] */
    float *logit;             /* LOGIT [T,N] */
    unsigned long long *pick; /* LOGIT [T] order(logit) << 32 | ~n */
    enum act act;
};

int dec_skinny(cudaStream_t s, enum skinny_end end, const struct skinny *a);

/* x[t,:] = scale table[tok[t],:]; with next also h and part as SKINNY_ADD leaves them. */
struct dec_embedding {
    float *x;
    bf16 *h;
    float *part;
    const float *next;
    const bf16 *table;
    const int32_t *tok;
    int32_t n_tok;
    int32_t dim;
    float scale;
};
int dec_embed(cudaStream_t s, const struct dec_embedding *a);

/* h[r,:] = norm(x[row ? row[r] : r,:]) w; clears pick[r] where pick is given. */
int dec_norm(cudaStream_t s,
             bf16 *h,
             const float *x,
             const float *w,
             const int32_t *row,
             int32_t n_row,
             int32_t dim,
             float eps,
             unsigned long long *pick);

/* Norms of q and k heads, rotary embedding, and the cache write. qkv [T, (H + 2K) D] in place. */
struct dec_rope {
    bf16 *qkv;
    const float *q_norm; /* [D], offset added, or NULL */
    const float *k_norm;
    const float *cos_sin; /* [ctx_max, D] */
    struct kv_view kv;
    const int32_t *pos;
    const int32_t *slot;
    int32_t n_tok;
    int32_t n_head;
    float eps;
};
int dec_rope(cudaStream_t s, const struct dec_rope *a);

/* Attention of the decode rows (split over the cache) and of the other sequences. */
struct dec_attn {
    const bf16 *qkv;
    bf16 *out; /* [T, H D] */
    struct kv_view kv;
    struct dec_batch b;
    int32_t kv_group;
    int32_t n_head;
    int32_t window;
    float scale;
    int32_t n_split;  /* splits of the longest decode row */
    float *partial;   /* [n_decode, H, n_split, D + 2] */
    int32_t *count;   /* [n_decode, K] zero between launches */
    int32_t rows_max; /* longest chunk of a sequence that is no decode row */
};
int dec_attn_decode(cudaStream_t s, const struct dec_attn *a);
int dec_attn_prefill(cudaStream_t s, const struct dec_attn *a);

/* out[t,i] = act(in[t,2i]) in[t,2i+1] */
int dec_glu(cudaStream_t s, bf16 *out, const bf16 *in, int64_t n, enum act act);

/* pick[r] as SKINNY_LOGIT, over finished rows of logits. */
int dec_argmax(
    cudaStream_t s, unsigned long long *pick, const float *logit, int32_t n, int32_t vocab);

/* cuBLASLt with plans kept by shape. */
struct dec_gemm;
int dec_gemm_open(struct dec_gemm **out);
void dec_gemm_close(struct dec_gemm *g);

/* y [T,N] = in [T,K] w^T [N,K], or added to y */
struct dec_product {
    void *y; /* f32 or bf16 */
    bool f32;
    bool add;
    const bf16 *in;
    const bf16 *w;
    int32_t n_tok;
    int32_t n;
    int32_t k;
};
int dec_gemm_run(struct dec_gemm *g, cudaStream_t s, const struct dec_product *p);

/* y[t,n] += bias[n] */
int dec_bias(cudaStream_t s, bf16 *y, const float *bias, int32_t n_tok, int32_t n);

#ifdef __CUDACC__
/* A launch that may begin before its predecessor ends: kernels wait with dec_wait() ahead of the
 * first access to what others write. src: CUDA programming guide, programmatic dependent launch */
template <typename... P, typename... A>
static int dec_launch(cudaStream_t s,
                      const char *name,
                      void (*kernel)(P...),
                      dim3 grid,
                      int threads,
                      size_t shared,
                      A... args) {
    cudaLaunchConfig_t c = {};
    cudaLaunchAttribute attr[1];
    attr[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attr[0].val.programmaticStreamSerializationAllowed = DEC_PDL;
    c.gridDim = grid;
    c.blockDim = dim3((unsigned)threads);
    c.dynamicSmemBytes = shared;
    c.stream = s;
    c.attrs = attr;
    c.numAttrs = 1;
    return cuda_status(cudaLaunchKernelEx(&c, kernel, P(args)...), name);
}

static __device__ __forceinline__ void dec_release() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");
#endif
}

static __device__ __forceinline__ void dec_wait() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

static __device__ __forceinline__ float dec_act(float v, enum act act) {
    if (act == ACT_SILU) {
        return v / (1 + __expf(-v));
    }
    float inner = 0.7978845608f * (v + 0.044715f * v * v * v);
    return 0.5f * v * (1 + tanhf(inner));
}

/* Larger keys are larger logits; of equal ones the lower index. NaN is below all. */
static __device__ __forceinline__ unsigned long long dec_key(float v, unsigned n) {
    unsigned u = __float_as_uint(v);
    u = u >> 31 ? ~u : u | 0x80000000u;
    return v == v ? (unsigned long long)u << 32 | (0xffffffffu - n) : 0ull;
}

static __device__ __forceinline__ void
dec_mma(float c[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}
#endif

#endif
