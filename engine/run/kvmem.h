/* Memory of the KV pool on the backend: per layer K and V in blocks. */
#ifndef ENGINE_RUN_KVMEM_H
#define ENGINE_RUN_KVMEM_H

#include "engine/model/model_cfg.h"
#include "kernels/ops.h"

struct kvmem {
    const struct backend_ops *ops; /* ref */
    struct backend *be;            /* ref */
    struct kv_view *layer;         /* own, [L]; k and v [n_blocks, K, P, D] */
    int32_t n_layer;
    int64_t bytes;
};

/* err: ERR_NOMEM, ERR_LIMIT, ERR_UNSUPPORTED (cache type). own: caller, kvmem_fini */
int kvmem_init(struct kvmem *m,
               const struct backend_ops *ops,
               struct backend *be,
               const struct model_cfg *c,
               enum dtype type,
               int32_t n_blocks,
               int32_t block_tok);
void kvmem_fini(struct kvmem *m);

/* Copies one block in all layers. */
int kvmem_copy(struct kvmem *m, int32_t src, int32_t dst);

#endif
