/* The CPU backend's own border: its state, and the ops that have a file of their own. */
#ifndef KERNELS_CPU_CPU_INT_H
#define KERNELS_CPU_CPU_INT_H

#include "kernels/cpu/cpu_kern.h"
#include "kernels/cpu/cpu_pool.h"

enum { CPU_DESCRIBE_MAX = 64 };

struct backend {
    const struct cpu_kern *kern; /* ref */
    struct cpu_pool *pool;       /* own */
    struct backend_opts opts;
    float *scratch;         /* own, [n_threads, scratch_stride] */
    int64_t scratch_stride; /* floats a thread, whole cache lines */
    int64_t mm_floats;      /* of them usable for decoded weight rows */
    int64_t qmm_floats;     /* of them usable for weight rows of a quantized product */
    int32_t pair_tile_max;  /* attention pairs in a tile */
    int64_t score_stride;   /* floats between the scores of two pairs */
    uint8_t *act;           /* own, [act_bytes] quantized input rows with their scales */
    int64_t act_bytes;
    struct cpu_piece *plan_piece; /* own, [k_max] */
    int32_t *plan_col;            /* own, [4 k_max] */
    int32_t *plan_order;          /* own, [k_max] columns by group */
    int32_t *plan_count;          /* own, [k_max + 1] */
    char text[CPU_DESCRIBE_MAX];
};

static inline float *cpu_scratch(const struct backend *be, int32_t thread) {
    return be->scratch + thread * be->scratch_stride;
}

/* Floats between two decoded rows of k columns: whole cache lines, one line more than needed so
 * that rows of a power of two do not fall on the same cache sets. */
static inline int64_t cpu_row_stride(int64_t k) {
    return i64_div_up(k, CPU_VEC_FLOATS) * CPU_VEC_FLOATS + CPU_VEC_FLOATS;
}

/* matmul with a quantized input, w->act.type not ACTQ_NONE. in: checked, within the limits of open
 */
void cpu_actq_matmul(struct backend *be,
                     float *y,
                     const float *x,
                     const struct wmat *w,
                     const float *bias,
                     int32_t n_tok,
                     bool accumulate);

/* Contracts: kernels/ops.h. */
int cpu_kv_write(struct backend *be,
                 const struct kv_view *kv,
                 const float *k,
                 const float *v,
                 const struct batch *b);
int cpu_attn(struct backend *be,
             float *y,
             const float *q,
             const struct kv_view *kv,
             const struct batch *b,
             int32_t n_head,
             const struct attn_args *args);
int cpu_matmul(struct backend *be,
               float *y,
               const float *x,
               const struct wmat *w,
               const float *bias,
               int32_t n_tok,
               bool accumulate);

#endif
