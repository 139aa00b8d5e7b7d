/* The decoder, written once over struct backend_ops.
 *
 * The arrow "logits" of the chain: batch in, rows of logits out. Letters as in kernels/ops.h. */
#ifndef ENGINE_RUN_FORWARD_H
#define ENGINE_RUN_FORWARD_H

#include "engine/model/weights.h"
#include "engine/run/kvmem.h"
#include "engine/run/moe.h"
#include "kernels/batch.h"

/* Where a tap looks: the input of a group of linear layers. */
enum tap_point {
    TAP_QKV,     /* [T,E] normed input of q, k, v */
    TAP_O,       /* [T,H*D] attention output, input of o */
    TAP_GATE_UP, /* [T,E] normed input of gate and up */
    TAP_DOWN     /* [T,F] input of down */
};

/* A look at activations, for calibration. x is a host-readable backend buffer. */
struct tap {
    int (*see)(void *ctx, enum tap_point point, const float *x, int32_t n_tok, int32_t k);
    void *ctx;
};

struct forward {
    const struct backend_ops *ops; /* ref */
    struct backend *be;            /* ref */
    const struct weights *w;       /* ref */
    int32_t tok_max;               /* largest T */
    int32_t out_max;               /* rows of logits computed at once */
    float *rope[2];                /* own, host [ctx_max, D]; the second only where layers use it */
    float *x;                      /* backend buffers: [T,E] residual stream */
    float *h;                      /* [T,E] normed */
    float *q;                      /* [T,H*D] */
    float *k;                      /* [T,K*D] */
    float *v;                      /* [T,K*D] */
    float *a;                      /* [T,H*D] attention output */
    float *gate;                   /* [T,F], F the larger of MLP and expert */
    float *up;                     /* [T,F] */
    float *out;                    /* [out_max,E] */
    float *logits;                 /* [out_max,V] */
    struct moe moe;                /* empty without experts */
    int64_t bytes;                 /* workspace */
};

/* Allocates the workspace for batches of up to tok_max tokens, contexts of up to ctx_max, and
 * out_max rows of logits at once.
 * err: ERR_UNSUPPORTED with the list of weight formats that the backend cannot multiply, or of ops
 * that it lacks; ERR_NOMEM.
 * own: caller, forward_fini */
int forward_init(struct forward *f,
                 const struct backend_ops *ops,
                 struct backend *be,
                 const struct weights *w,
                 int32_t tok_max,
                 int32_t out_max,
                 int32_t ctx_max);
void forward_fini(struct forward *f);

/* A backend buffer of rows x cols floats that counts as workspace. own: caller, ops->buf_free */
int forward_buf(struct forward *f, int64_t rows, int64_t cols, float **out);

/* f->x = embedding rows of the batch's tokens. */
int forward_embed(struct forward *f, const struct batch *b);

/* One decoder layer on x [T,E] in place, with the given weights (not necessarily f->w's: the
 * quantizer passes its own). tap may be NULL; it does not see a layer's experts. */
int forward_layer(struct forward *f,
                  const struct layer_weights *lw,
                  const struct kv_view *kv,
                  const struct batch *b,
                  float *x,
                  const struct tap *tap);

/* All layers of f->w: f->x holds the last hidden state of every row.
 * in: one batch for each group of kv, equal but for slot and block_table */
int forward_run(struct forward *f, struct kvmem *kv, const struct batch *group);

/* f->logits [n,V] = head(norm(x[row])) for n <= out_max rows of x [T,E]. */
int forward_logits(struct forward *f, const float *x, const int32_t *row, int32_t n);

#endif
