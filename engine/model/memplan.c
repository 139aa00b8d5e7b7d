/* Bytes follow from shapes alone. A quantized checkpoint is the dense one with every module that a
 * scheme names taken out and put back at its own size; routers stay dense. */
#include "engine/model/memplan.h"

#include <stdio.h>

#include "engine/model/weights.h"

int64_t memplan_n_param(const struct model_cfg *c) {
    int64_t norms = (c->post_norm ? 4 : 2) * (int64_t)c->hidden;
    int64_t attn = norms + (c->qk_norm ? 2 * (int64_t)c->head_dim : 0);
    int64_t mlp = 0;
    int64_t n_moe = 0;
    for (int32_t i = 0; i < c->n_layer; i++) {
        n_moe += c->layer[i].moe;
    }
    for (int32_t r = 0; r < LINEAR_N; r++) {
        int32_t n = 0;
        int32_t k = 0;
        weights_linear_shape(c, (enum linear_role)r, &n, &k);
        bool bias = r == LINEAR_O ? c->o_bias : (r <= LINEAR_V ? c->attn_bias : c->mlp_bias);
        *(r <= LINEAR_O ? &attn : &mlp) += (int64_t)n * k + (bias ? n : 0);
    }
    int64_t table = (int64_t)c->vocab * c->hidden;
    int64_t experts = ((int64_t)3 * c->expert_ffn + 1) * c->n_expert * c->hidden;
    return attn * c->n_layer + mlp * (c->n_layer - n_moe) + experts * n_moe + c->hidden +
           table * (c->tied ? 1 : 2);
}

static void fit(struct memplan *p) {
    p->kv_bytes_free = i64_max(0, p->memory_bytes - p->weight_bytes);
    p->n_tok_max = p->kv_bytes_free / p->kv_bytes_per_token;
    p->n_seq_max = p->kv_bytes_per_seq > 0 ? p->kv_bytes_free / p->kv_bytes_per_seq : 0;
}

void memplan_make(const struct model_cfg *c,
                  enum dtype weight_type,
                  enum dtype kv_type,
                  int32_t ctx,
                  int64_t memory_bytes,
                  struct memplan *out) {
    const struct dtype_info *t = dtype_info(weight_type);
    struct memplan p = {.n_param = memplan_n_param(c), .memory_bytes = memory_bytes};
    p.weight_bytes = (int64_t)((double)p.n_param * t->block_bytes / t->block);
    p.kv_bytes_per_token = model_cfg_kv_bytes_per_token(c, kv_type);
    p.kv_bytes_full = p.kv_bytes_per_token * ctx;
    for (int32_t i = 0; i < c->n_layer; i++) {
        int32_t w = c->layer[i].window;
        p.kv_bytes_per_seq += p.kv_bytes_per_token / c->n_layer * (w > 0 ? i32_min(w, ctx) : ctx);
    }
    if (memory_bytes > 0) {
        fit(&p);
    }
    *out = p;
}

/* Adds what a module of that name takes more than its dense form. */
static int add_module(const struct qformat *q,
                      const char *name,
                      const char *cls,
                      const int32_t shape[2],
                      const struct dtype_info *dense,
                      int64_t *more) {
    const struct qscheme *s = NULL;
    int64_t n = shape[0];
    int64_t k = shape[1];
    int rc = qformat_find(q, name, cls, &s);
    if (!rc && s) {
        *more += qscheme_bytes(s, n, k) -
                 (int64_t)((double)n * (double)k * dense->block_bytes / dense->block);
    }
    return rc;
}

static int add_layer(const struct model_cfg *c,
                     const struct qformat *q,
                     int32_t i,
                     const struct dtype_info *dense,
                     int64_t *more) {
    int rc = 0;
    for (int32_t r = 0; r < LINEAR_N && !rc; r++) {
        enum linear_role role = (enum linear_role)r;
        char name[TENSOR_NAME_MAX];
        char part[TENSOR_NAME_MAX + 64];
        int32_t shape[2];
        bool expert = c->layer[i].moe && r >= LINEAR_GATE;
        weights_linear_shape(c, role, &shape[0], &shape[1]);
        weights_module_name(name, i, role);
        if (!expert) {
            rc = add_module(q, name, "Linear", shape, dense, more);
        }
        if (expert) {
            shape[role == LINEAR_DOWN ? 1 : 0] = c->expert_ffn;
        }
        for (int32_t e = 0; expert && e < c->n_expert && !rc; e++) {
            const char *leaf = role == LINEAR_GATE ? "gate" : role == LINEAR_UP ? "up" : "down";
            snprintf(part, sizeof part, "model.layers.%d.mlp.experts.%d.%s_proj", i, e, leaf);
            rc = add_module(q, part, "Linear", shape, dense, more);
        }
    }
    return rc;
}

int memplan_quantize(const struct model_cfg *c,
                     enum dtype dense,
                     const struct qformat *q,
                     struct memplan *p) {
    const struct dtype_info *t = dtype_info(dense);
    const int32_t table[2] = {c->vocab, c->hidden};
    int64_t more = 0;
    int rc = add_module(q, "model.embed_tokens", "Embedding", table, t, &more);
    if (!rc && !c->tied) {
        rc = add_module(q, "lm_head", "Linear", table, t, &more);
    }
    for (int32_t i = 0; i < c->n_layer && !rc; i++) {
        rc = add_layer(c, q, i, t, &more);
    }
    if (rc) {
        return rc;
    }
    p->weight_bytes += more;
    if (p->memory_bytes > 0) {
        fit(p);
    }
    return 0;
}
