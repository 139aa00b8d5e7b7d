/* The table of one SIMD variant: jobs and the functions that do a range of them.
 *
 * A job is described once and handed to all threads; each does ranges [i0, i1) of its items with
 * scratch of its own. Every function keeps the order of sums of kernels/README.md, so a result does
 * not depend on how items are split. */
#ifndef KERNELS_CPU_CPU_KERN_H
#define KERNELS_CPU_CPU_KERN_H

#include "kernels/ops.h"

/* y[t,n] = x[t,:] . w[n,:] (+ bias[n]) (+ y[t,n]) */
struct cpu_mm {
    float *y;             /* [T,N] */
    const float *x;       /* [T,nk] */
    const struct wmat *w; /* [N,nk] */
    const float *bias;    /* [N] or NULL */
    int32_t n_tok;        /* T */
    bool accumulate;
    int32_t tile_rows;   /* weight rows decoded at once, a multiple of 4 */
    int64_t tile_stride; /* floats between decoded rows in the scratch, >= nk */
};

struct cpu_norm {
    float *y;       /* [T,E], may be x */
    const float *x; /* [T,E] */
    const float *w; /* [E] */
    int32_t dim;    /* E */
    float eps;
    float w_offset;
};

struct cpu_rope {
    float *x;             /* [T,n_head,D] in place */
    const float *w;       /* [D] or NULL */
    const float *cos_sin; /* [ctx_max,D] */
    const int32_t *pos;   /* [T] */
    int32_t n_head;
    int32_t head_dim; /* D */
    float eps;
    float w_offset;
};

/* An item is one tile of (row, head) pairs of one sequence and one kv head. Pair i of a sequence
 * and kv head is row i / group, head i % group of the kv head's group. */
struct cpu_attn {
    float *y;       /* [T,H,D] */
    const float *q; /* [T,H,D] */
    const struct kv_view *kv;
    const struct batch *b;
    const struct attn_args *args;
    int32_t n_head;       /* H */
    int32_t pair_tile;    /* pairs in a full tile */
    int64_t score_stride; /* floats between the scores of two pairs */
};

struct cpu_act {
    float *y;
    const float *gate;
    const float *up;
    enum act act;
};

enum {
    CPU_POS_TILE = 16,      /* positions of the cache decoded at once */
    CPU_PAIR_TILE_MAX = 48, /* most (row, head) pairs in a tile */
    CPU_VEC_FLOATS = 16     /* widest vector; scratch rows are padded to it */
};

/* Floats of attention scratch: scores, packed queries, accumulators, decoded cache rows. */
static inline int64_t
cpu_attn_scratch(int32_t pair_tile, int64_t score_stride, int64_t dim_stride) {
    return pair_tile * (score_stride + 2 * dim_stride) + CPU_POS_TILE * dim_stride;
}

struct cpu_kern {
    const char *name;
    int32_t n_lane; /* W: floats in a vector */

    /* Rows n0..n1-1 of w for all T. scratch [tile_rows * tile_stride] */
    void (*matmul)(const struct cpu_mm *job, int32_t n0, int32_t n1, float *scratch);
    /* Row r of w as f32, bit-equal to ref_decode. out [nk] */
    void (*decode)(const struct wmat *w, int32_t r, float *out);
    void (*rmsnorm)(const struct cpu_norm *job, int64_t row0, int64_t row1);
    /* Items are heads: (t, h) = (i / n_head, i % n_head). */
    void (*norm_rope)(const struct cpu_rope *job, int64_t i0, int64_t i1);
    /* Tile number tile of sequence seq and kv head head. scratch of cpu_attn_scratch floats */
    void (*attn)(
        const struct cpu_attn *job, int32_t seq, int32_t head, int32_t tile, float *scratch);
    void (*act_mul)(const struct cpu_act *job, int64_t i0, int64_t i1);
    void (*add)(float *y, const float *x, int64_t i0, int64_t i1);
    void (*softcap)(float *y, float cap, int64_t i0, int64_t i1);
    /* y += factor x, the product rounded first */
    void (*add_scaled)(float *y, const float *x, float factor, int64_t n);
    void (*scale)(float *y, float factor, int64_t n);
    void (*exp)(float *y, const float *x, int64_t n);
    void (*to_f16)(uint16_t *y, const float *x, int64_t n);
    void (*from_f16)(float *y, const uint16_t *x, int64_t n);
    /* The roof: n rounds of independent multiply-adds, the flops done; the sum of n floats. */
    double (*spin)(int64_t n, float *sink);
    float (*read)(const float *x, int64_t n);
};

extern const struct cpu_kern cpu_kern_sse2;
extern const struct cpu_kern cpu_kern_avx2;
extern const struct cpu_kern cpu_kern_avx512;

#endif
