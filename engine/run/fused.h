/* The whole decoder as one operation of the backend, where it has that. */
#ifndef ENGINE_RUN_FUSED_H
#define ENGINE_RUN_FUSED_H

#include "engine/model/weights.h"
#include "engine/run/kvmem.h"
#include "kernels/decoder.h"

struct fused {
    struct decoder_dev *dev;     /* own; NULL: the single ops do the work */
    struct decoder_layer *layer; /* own, [L] */
    float *rope[2];              /* own, host [ctx_max, D] */
    float *logits;               /* own, host [host_rows, V] */
};

/* Sizes that an open decoder is made for, as in struct decoder. */
struct fused_max {
    int32_t tok;
    int32_t seq;
    int32_t out;
    int32_t host_rows; /* rows of logits that the host sees at once */
    int32_t ctx;
};

/* Opens the backend's decoder for these weights and this cache. out: dev NULL, with why as the
 * message, when the backend has none for them.
 * err: ERR_NOMEM, ERR_DEVICE. own: caller, fused_fini */
int fused_init(struct fused *f,
               const struct backend_ops *ops,
               struct backend *be,
               const struct weights *w,
               const struct kvmem *kv,
               const struct fused_max *max);
void fused_fini(struct fused *f, const struct backend_ops *ops, struct backend *be);

#endif
