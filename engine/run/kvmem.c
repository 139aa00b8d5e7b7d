#include "engine/run/kvmem.h"

#include "engine/base/err.h"
#include "engine/base/mem.h"

int kvmem_init(struct kvmem *m,
               const struct backend_ops *ops,
               struct backend *be,
               const struct model_cfg *c,
               enum dtype type,
               int32_t n_blocks,
               int32_t block_tok) {
    int64_t bytes = (int64_t)c->n_kv_head * c->head_dim * dtype_info(type)->block_bytes;
    int64_t all = 0;
    *m = (struct kvmem){.ops = ops, .be = be};
    if (!ops->supports_kv(be, type)) {
        return err_set(ERR_UNSUPPORTED, "backend %s has no KV cache of type %s", ops->name,
                       dtype_info(type)->name);
    }
    if (!i64_mul(bytes, (int64_t)n_blocks * block_tok, &bytes) ||
        !i64_mul(bytes, 2 * (int64_t)c->n_layer, &all)) {
        return err_set(ERR_LIMIT, "KV cache of %d blocks of %d tokens cannot be addressed",
                       n_blocks, block_tok);
    }
    m->layer = mem_array(MEM_RUN, c->n_layer, (int64_t)sizeof *m->layer);
    if (!m->layer) {
        return ERR_NOMEM;
    }
    m->n_layer = c->n_layer;
    for (int32_t i = 0; i < c->n_layer; i++) {
        struct kv_view *v = &m->layer[i];
        *v = (struct kv_view){.type = type,
                              .n_kv_head = c->n_kv_head,
                              .head_dim = c->head_dim,
                              .block_tok = block_tok};
        int rc = ops->buf_alloc(be, bytes, &v->k);
        rc = rc ? rc : ops->buf_alloc(be, bytes, &v->v);
        if (rc) {
            kvmem_fini(m);
            return err_ctx(rc, "KV cache of %lld bytes", (long long)all);
        }
    }
    m->bytes = all;
    return 0;
}

void kvmem_fini(struct kvmem *m) {
    for (int32_t i = 0; i < m->n_layer; i++) {
        m->ops->buf_free(m->be, m->layer[i].k);
        m->ops->buf_free(m->be, m->layer[i].v);
    }
    mem_free(m->layer);
    *m = (struct kvmem){0};
}

int kvmem_copy(struct kvmem *m, int32_t src, int32_t dst) {
    for (int32_t i = 0; i < m->n_layer; i++) {
        int rc = m->ops->kv_copy(m->be, &m->layer[i], src, dst);
        if (rc) {
            return rc;
        }
    }
    return 0;
}
