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

/* Columns that share scales on both sides of a quantized product, at most CPU_PIECE_MAX. */
struct cpu_piece {
    int32_t at;      /* first column in product order */
    int32_t n;       /* columns, padded */
    int32_t w_group; /* scale of the weight row */
    int32_t x_group; /* scale of the input row */
};

/* How both sides of a quantized product are laid out: columns in product order, each piece padded
 * with zeros where col is -1. Integer forms are read as 32-bit words of 2 or 4 codes. */
enum cpu_form {
    CPU_FORM_F32,  /* codes less zero points as f32; pieces not padded */
    CPU_FORM_I16,  /* codes less zero points, pieces of whole 4 columns */
    CPU_FORM_BYTE, /* input: code + 128, unsigned; weight: code, signed, no zero points; as I16 */
};

struct cpu_plan {
    const struct wmat *w;
    enum cpu_form form;
    int32_t n_piece;
    int32_t n_col; /* columns in product order, with padding */
    bool is_plain; /* product order is the stored order, without padding */
    struct cpu_piece *piece;
    int32_t *col; /* [n_col] stored column, -1: padding */
};

/* Input rows in product order. */
struct cpu_qx {
    uint8_t *code;   /* rows of stride bytes in plan->form */
    int64_t stride;  /* whole words, the last filled with zeros */
    float *scale;    /* [rows, n_group] */
    int32_t *zero;   /* [rows, n_group] */
    int32_t n_group; /* of the input */
};

/* y[t,n] = sum over pieces of (sum of code products) * scales, for the rows of x */
struct cpu_qmm {
    const struct cpu_plan *plan;
    struct cpu_qx x;
    float *y;          /* [T,N] */
    const float *bias; /* [N] or NULL */
    int32_t n_tok;     /* T */
    bool accumulate;
    int64_t floats; /* scratch of a thread */
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
    CPU_VEC_FLOATS = 16,    /* widest vector; scratch rows are padded to it */
    CPU_PIECE_MAX = 4096,   /* an integer sum of so many products of 9 bits fits 32 bits */
    CPU_PIECE_EXACT = 256   /* and of so many is exact in f32 */
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
    /* Quantizes one row as ref_actq does, with the same bits. code [k], scale, zero [G] */
    void (*actq)(
        const struct actq *q, int32_t k, const float *x, float *code, float *scale, int32_t *zero);
    /* Codes of input row t to plan->form. in: code [k], zero [G] from actq */
    void (*pack)(const struct cpu_plan *plan, const struct cpu_qx *x, int32_t t, const float *code);
    /* Rows n0..n1-1 of a quantized product, integer forms and f32. scratch [floats]
     * in:  n0 a multiple of n_lane, of 4 for CPU_FORM_F32; scratch of at least cpu_qmm_rows and one
     *      cpu_qmm_strip */
    void (*qmm)(const struct cpu_qmm *job, int32_t n0, int32_t n1, float *scratch);
    bool has_bytes; /* qmm takes CPU_FORM_BYTE */
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
extern const struct cpu_kern cpu_kern_avx512vnni;

/* The product of CPU_FORM_BYTE by VNNI, for cpu_kern_avx512vnni. */
void cpu_qmm_vnni(const struct cpu_qmm *job, int32_t n0, int32_t n1, float *scratch);

/* 32-bit words of a row of integer codes, a whole number of 16 bytes. */
static inline int64_t cpu_plan_words(const struct cpu_plan *plan) {
    return i64_div_up(plan->n_col, plan->form == CPU_FORM_BYTE ? 16 : 8) * 4;
}

/* Floats of scratch qmm needs beside its strips: rows on their way there. */
static inline int64_t cpu_qmm_rows(const struct cpu_plan *plan) {
    int64_t stored = i64_div_up(plan->w->k, CPU_VEC_FLOATS) * CPU_VEC_FLOATS;
    return plan->form == CPU_FORM_F32 ? stored : 4 * cpu_plan_words(plan) + stored;
}

/* Floats of scratch of one strip: n_lane weight rows, 4 in CPU_FORM_F32, with their scales. */
static inline int64_t cpu_qmm_strip(const struct cpu_plan *plan, int32_t n_lane) {
    if (plan->form == CPU_FORM_F32) {
        int64_t row = i64_div_up(plan->n_col, CPU_VEC_FLOATS) * CPU_VEC_FLOATS;
        return 4 * (row + i64_div_up(plan->n_piece, 4) * 4);
    }
    return n_lane * (cpu_plan_words(plan) + 2 * (int64_t)plan->n_piece);
}

#endif
