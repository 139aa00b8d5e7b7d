/* Memory of the KV pool on the backend: per layer K and V in blocks. */
#ifndef ENGINE_RUN_KVMEM_H
#define ENGINE_RUN_KVMEM_H

#include "engine/model/model_cfg.h"
#include "kernels/ops.h"

struct kvmem {
    const struct backend_ops *ops; /* ref */
    struct backend *be;            /* ref */
    struct kv_view *layer;         /* own, [L]; k and v [blocks of the layer's group, K, P, D] */
    uint8_t *group;                /* own, [L] group of each layer */
    int32_t n_layer;
    int64_t bytes;
};

/* in:  n_blocks of each group of model_cfg_kv_groups
 * err: ERR_NOMEM, ERR_LIMIT, ERR_UNSUPPORTED (cache type). own: caller, kvmem_fini */
int kvmem_init(struct kvmem *m,
               const struct backend_ops *ops,
               struct backend *be,
               const struct model_cfg *c,
               enum dtype type,
               const int32_t *n_blocks,
               int32_t block_tok);
void kvmem_fini(struct kvmem *m);

/* Copies one block in all layers of a group. */
int kvmem_copy(struct kvmem *m, int32_t group, int32_t src, int32_t dst);

#endif
