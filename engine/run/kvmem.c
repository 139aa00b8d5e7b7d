#include "engine/run/kvmem.h"

#include "engine/base/err.h"
#include "engine/base/mem.h"

static int make_layer(struct kvmem *m, struct kv_view *v, int32_t n_blocks) {
    int64_t row = (int64_t)v->n_kv_head * v->head_dim * dtype_info(v->type)->block_bytes;
    int64_t bytes = 0;
    if (!i64_mul(row, (int64_t)n_blocks * v->block_tok, &bytes) || bytes > INT64_MAX / 4 ||
        m->bytes > INT64_MAX / 2) {
        return err_set(ERR_LIMIT, "KV cache of %d blocks of %d tokens cannot be addressed",
                       n_blocks, v->block_tok);
    }
    int (*get)(struct backend *, int64_t, void **) =
        m->ops->cache_alloc ? m->ops->cache_alloc : m->ops->buf_alloc;
    int rc = get(m->be, bytes, &v->k);
    rc = rc ? rc : get(m->be, bytes, &v->v);
    if (rc) {
        return err_ctx(rc, "KV cache of %d blocks, %lld bytes so far", n_blocks,
                       (long long)m->bytes);
    }
    m->bytes += 2 * bytes;
    return 0;
}

int kvmem_init(struct kvmem *m,
               const struct backend_ops *ops,
               struct backend *be,
               const struct model_cfg *c,
               enum dtype type,
               const int32_t *n_blocks,
               int32_t block_tok) {
    struct kv_groups groups;
    int rc = 0;
    model_cfg_kv_groups(c, &groups);
    *m = (struct kvmem){.ops = ops, .be = be};
    if (!ops->supports_kv(be, type)) {
        return err_set(ERR_UNSUPPORTED, "backend %s has no KV cache of type %s", ops->name,
                       dtype_info(type)->name);
    }
    m->layer = mem_array(MEM_RUN, c->n_layer, (int64_t)sizeof *m->layer);
    m->group = mem_array(MEM_RUN, c->n_layer, 1);
    if (!m->layer || !m->group) {
        kvmem_fini(m);
        return ERR_NOMEM;
    }
    m->n_layer = c->n_layer;
    for (int32_t i = 0; i < c->n_layer && !rc; i++) {
        m->group[i] = (uint8_t)model_cfg_kv_group_of(&groups, &c->layer[i]);
        m->layer[i] = (struct kv_view){.type = type,
                                       .n_kv_head = c->n_kv_head,
                                       .head_dim = c->head_dim,
                                       .block_tok = block_tok};
        rc = make_layer(m, &m->layer[i], n_blocks[m->group[i]]);
    }
    if (rc) {
        kvmem_fini(m);
    }
    return rc;
}

void kvmem_fini(struct kvmem *m) {
    for (int32_t i = 0; i < m->n_layer; i++) {
        m->ops->buf_free(m->be, m->layer[i].k);
        m->ops->buf_free(m->be, m->layer[i].v);
    }
    mem_free(m->layer);
    mem_free(m->group);
    *m = (struct kvmem){0};
}

int kvmem_copy(struct kvmem *m, int32_t group, int32_t src, int32_t dst) {
    for (int32_t i = 0; i < m->n_layer; i++) {
        int rc = m->group[i] == group ? m->ops->kv_copy(m->be, &m->layer[i], src, dst) : 0;
        if (rc) {
            return rc;
        }
    }
    return 0;
}
