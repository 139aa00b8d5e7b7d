#include "engine/model/memplan.h"

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
    p.kv_bytes_per_seq = p.kv_bytes_per_token * ctx;
    if (memory_bytes > 0) {
        p.kv_bytes_free = i64_max(0, memory_bytes - p.weight_bytes);
        p.n_tok_max = p.kv_bytes_free / p.kv_bytes_per_token;
        p.n_seq_max = ctx > 0 ? p.kv_bytes_free / p.kv_bytes_per_seq : 0;
    }
    *out = p;
}
