/* struct backend_ops: the whole border between the engine and a machine's arithmetic.
 *
 * One const instance per backend (ref, cpu, null, cuda), found by name through
 * kernels/backend.h. Activations are row-major, innermost dimension last, in the backend's
 * activation type (f32 for ref, cpu and null). Pointers named x, y, q, ... are backend buffers from
 * buf_alloc; batch arrays and weights' small vectors are host memory that the backend may copy.
 *
 * Letters: T tokens in batch, B sequences, R output rows, H query heads, K kv heads (nk below is
 * the input size of a product), D head dim, E hidden, F ffn, V vocab, P tokens a block, S cached
 * length.
 *
 * Law 5: the value of an output row depends only on that row's inputs: never on T, on the other
 * rows, on the number of threads, or on how a sequence was cut into chunks. Each backend fixes the
 * order of every sum.
 *
 * Errors: 0 or a negative ERR_*; outputs are undefined after an error. No op allocates: workspace
 * is sized by open(). Every op blocks until its result is there (ref, cpu, null) or is ordered
 * behind the earlier ones of the same backend (cuda); sync() waits. This header is valid C17 and
 * C++17. */
#ifndef KERNELS_OPS_H
#define KERNELS_OPS_H

#include "kernels/batch.h"
#include "kernels/dtype.h"

struct backend; /* one open backend; layout private to each implementation */
struct decoder; /* kernels/decoder.h */
struct decoder_dev;

/* Limits the workspace is sized for; all but n_threads at least 1. */
struct backend_opts {
    int32_t n_threads;   /* 0: one per core this process may use */
    int32_t n_tok_max;   /* largest T of any op */
    int32_t k_max;       /* largest input size of any matmul */
    int32_t ctx_max;     /* largest S */
    int32_t n_head_max;  /* largest H */
    const char *variant; /* cpu only: "sse2", "avx2", "avx512", "avx512vnni"; NULL: the best */
};

enum act { ACT_SILU, ACT_GELU_TANH };

enum { OPS_EXPERT_MAX = 1024 }; /* most experts a row is routed among */

/* The paged cache of one layer. Layout of k and v: [n_blocks][K][P][D] in type. */
struct kv_view {
    void *k;           /* backend buffer */
    void *v;           /* backend buffer */
    enum dtype type;   /* F32, F16, BF16, F8_E4M3 */
    int32_t n_kv_head; /* K */
    int32_t head_dim;  /* D */
    int32_t block_tok; /* P */
    float k_scale;     /* F8_E4M3: the value is code * scale in f32; 0: 1 */
    float v_scale;
};

struct attn_args {
    float scale;    /* usually 1/sqrt(D) */
    int32_t window; /* a row at position p sees positions > p - window; 0: all */
    float softcap;  /* 0: none; else s = softcap * tanh(s / softcap) before the softmax */
};

struct backend_ops {
    const char *name;

    /* Opens the machine. err: ERR_NOMEM, ERR_UNSUPPORTED (with what is missing), ERR_DEVICE.
     * own: caller, close */
    int (*open)(const struct backend_opts *opts, struct backend **out);
    void (*close)(struct backend *be);

    /* One line for reports: instruction set, threads ("avx512, 2 threads"). own: the backend */
    const char *(*describe)(struct backend *be);

    /* Can this weight format be multiplied / this cache type be used? */
    bool (*supports_weight)(struct backend *be, enum dtype type);
    bool (*supports_kv)(struct backend *be, enum dtype type);

    /* Buffers; zeroed. own: caller, buf_free. cache_alloc: memory that ops alone touch; NULL:
     * buf_alloc serves */
    int (*buf_alloc)(struct backend *be, int64_t bytes, void **out);
    int (*cache_alloc)(struct backend *be, int64_t bytes, void **out);
    void (*buf_free)(struct backend *be, void *p);
    int (*copy_in)(struct backend *be, void *dst, const void *host, int64_t bytes);
    int (*copy_out)(struct backend *be, void *host, const void *src, int64_t bytes);
    int (*sync)(struct backend *be);

    /* y[t,:] = row tok[t] of table, times scale. table [V,E], tok host [T], y [T,E] */
    int (*embed)(struct backend *be,
                 float *y,
                 const struct wmat *table,
                 const int32_t *tok,
                 int32_t n_tok,
                 float scale);

    /* y = x / sqrt(mean(x^2) + eps) * (w + w_offset), row by row. x, y [T,E], may be equal;
     * w host [E] f32 */
    int (*rmsnorm)(struct backend *be,
                   float *y,
                   const float *x,
                   const float *w,
                   int32_t n_tok,
                   int32_t dim,
                   float eps,
                   float w_offset);

    /* y = x W^T (+ bias) (+ y when accumulate). x [T,nk], y [T,n], bias host [n] or NULL */
    int (*matmul)(struct backend *be,
                  float *y,
                  const float *x,
                  const struct wmat *w,
                  const float *bias,
                  int32_t n_tok,
                  bool accumulate);

    /* Optional RMS norm of each head (w host [D] or NULL), then rotary embedding in the "half
     * rotation" form: pair (i, i + D/2) turned by the angle of row pos[t] of cos_sin
     * [ctx_max, D] f32 host (D/2 cosines, then D/2 sines). x [T,n_head,D], in place. */
    int (*norm_rope)(struct backend *be,
                     float *x,
                     const float *w,
                     float eps,
                     float w_offset,
                     const float *cos_sin,
                     const int32_t *pos,
                     int32_t n_tok,
                     int32_t n_head,
                     int32_t head_dim);

    /* Writes k, v [T,K,D] into the cache slots batch->slot[t]. F8_E4M3: k / k_scale, v / v_scale,
     * rounded half to even, +-448 at most. */
    int (*kv_write)(struct backend *be,
                    const struct kv_view *kv,
                    const float *k,
                    const float *v,
                    const struct batch *b);

    /* Copies block src of the cache to block dst (copy on write). in: src != dst */
    int (*kv_copy)(struct backend *be, const struct kv_view *kv, int32_t src, int32_t dst);

    /* Causal attention of each row over its sequence's cache (its own k, v already written):
     * y[t,h,:] = sum_s softmax_s(scale * q[t,h,:] . k[s,h/(H/K),:]) v[s,...], s = 0..pos[t].
     * q, y [T,H,D] */
    int (*attn)(struct backend *be,
                float *y,
                const float *q,
                const struct kv_view *kv,
                const struct batch *b,
                int32_t n_head,
                const struct attn_args *args);

    /* y = act(gate) * up, elementwise. gate, up, y [T,F]; y may be gate */
    int (*act_mul)(
        struct backend *be, float *y, const float *gate, const float *up, int64_t n, enum act act);

    /* y += x */
    int (*add)(struct backend *be, float *y, const float *x, int64_t n);

    /* y[r,:] = x[row[r],:]. row host [R] */
    int (*gather)(struct backend *be,
                  float *y,
                  const float *x,
                  const int32_t *row,
                  int32_t n_row,
                  int32_t dim);

    /* The three below may be NULL in a backend that lacks them; forward_init refuses a model that
     * needs one. */

    /* y = cap tanh(y / cap), elementwise in place. in: cap > 0 */
    int (*softcap)(struct backend *be, float *y, int64_t n, float cap);

    /* Chooses the experts of each row: p = softmax of its logits, then the n_used largest p in
     * descending order, equal ones by ascending index. Waits for the result.
     * in:  logits [T,n_expert]; 1 <= n_used <= n_expert <= OPS_EXPERT_MAX
     * out: expert host [T,n_used], distinct in a row; weight host [T,n_used]: their p, divided by
     *      the sum of the chosen ones when renorm
     * err: ERR_RANGE. src: Shazeer et al., "Outrageously Large Neural Networks", 2017, section 2 */
    int (*route)(struct backend *be,
                 const float *logits,
                 int32_t n_tok,
                 int32_t n_expert,
                 int32_t n_used,
                 bool renorm,
                 int32_t *expert,
                 float *weight);

    /* y[row[r],:] += weight[r] x[r,:]: what gather took apart, put together again. x [R,dim];
     * row host [R], distinct; weight host [R] */
    int (*scatter_add)(struct backend *be,
                       float *y,
                       const float *x,
                       const int32_t *row,
                       const float *weight,
                       int32_t n_row,
                       int32_t dim);

    /* The four below fuse a whole decoder (kernels/decoder.h); all NULL in a backend that does not.
     *
     * Takes the decoder's weights to where they are multiplied. The pointers in d are borrowed
     * until decoder_close; the cache views stay the caller's.
     * err: ERR_UNSUPPORTED with the reason (weight format, cache type, head size): the caller goes
     * through the single ops instead. own: caller, decoder_close */
    int (*decoder_open)(struct backend *be, const struct decoder *d, struct decoder_dev **out);
    void (*decoder_close)(struct backend *be, struct decoder_dev *dev);

    /* Runs a step through all layers; the last hidden state of every row is kept inside.
     * in: group[g] the batch as cache group g sees it, T <= tok_max */
    int (*decoder_run)(struct backend *be,
                       struct decoder_dev *dev,
                       const struct batch *group,
                       int32_t n_group);

    /* Head and final norm over n <= out_max rows of the step. out: logits host [n,V] or NULL; pick
     * host [n] or NULL: the largest logit's index, the lowest of equals, -1 when all are NaN. Waits
     * for the result. */
    int (*decoder_logits)(struct backend *be,
                          struct decoder_dev *dev,
                          const int32_t *row,
                          int32_t n,
                          float *logits,
                          int32_t *pick);
};

#endif
