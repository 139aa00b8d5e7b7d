/* The reference backend's own border: its state and its ops by family. Contracts: kernels/ops.h. */
#ifndef KERNELS_REF_REF_INT_H
#define KERNELS_REF_REF_INT_H

#include "kernels/ops.h"

enum { REF_ACT_ROWS = 8 }; /* input rows quantized at once */

struct backend {
    struct backend_opts opts;
    float *row;        /* own, [k_max] one decoded weight row, or codes of a row */
    double *score;     /* own, [ctx_max] scores of one (row, head) */
    double *wide;      /* own, [REF_ACT_ROWS + 1, k_max] quantized input rows, one weight row */
    float *act_scale;  /* own, [k_max] */
    int32_t *act_zero; /* own, [k_max] */
};

/* The product with a quantized input, w->act.type not ACTQ_NONE; else as matmul of struct
 * backend_ops. in: host_check_weight(w), w->k at most k_max */
void ref_actq_matmul(struct backend *be,
                     float *y,
                     const float *x,
                     const struct wmat *w,
                     const float *bias,
                     int32_t n_tok,
                     bool accumulate);

int ref_embed(struct backend *be,
              float *y,
              const struct wmat *table,
              const int32_t *tok,
              int32_t n_tok,
              float scale);
int ref_matmul(struct backend *be,
               float *y,
               const float *x,
               const struct wmat *w,
               const float *bias,
               int32_t n_tok,
               bool accumulate);
int ref_rmsnorm(struct backend *be,
                float *y,
                const float *x,
                const float *w,
                int32_t n_tok,
                int32_t dim,
                float eps,
                float w_offset);
int ref_norm_rope(struct backend *be,
                  float *x,
                  const float *w,
                  float eps,
                  float w_offset,
                  const float *cos_sin,
                  const int32_t *pos,
                  int32_t n_tok,
                  int32_t n_head,
                  int32_t head_dim);
int ref_kv_write(struct backend *be,
                 const struct kv_view *kv,
                 const float *k,
                 const float *v,
                 const struct batch *b);
int ref_attn(struct backend *be,
             float *y,
             const float *q,
             const struct kv_view *kv,
             const struct batch *b,
             int32_t n_head,
             const struct attn_args *args);
int ref_act_mul(
    struct backend *be, float *y, const float *gate, const float *up, int64_t n, enum act act);
int ref_add(struct backend *be, float *y, const float *x, int64_t n);
int ref_gather(
    struct backend *be, float *y, const float *x, const int32_t *row, int32_t n_row, int32_t dim);
int ref_softcap(struct backend *be, float *y, int64_t n, float cap);
int ref_scatter_add(struct backend *be,
                    float *y,
                    const float *x,
                    const int32_t *row,
                    const float *weight,
                    int32_t n_row,
                    int32_t dim);

#endif
