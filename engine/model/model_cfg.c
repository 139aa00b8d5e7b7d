#include "engine/model/model_cfg.h"

#include <math.h>

#include "engine/base/err.h"

int64_t model_cfg_kv_bytes_per_token(const struct model_cfg *c, enum dtype kv_type) {
    const struct dtype_info *t = dtype_info(kv_type);
    int64_t head = i64_div_up(c->head_dim, t->block) * t->block_bytes;
    return 2 * (int64_t)c->n_layer * c->n_kv_head * head;
}

void model_cfg_init(struct model_cfg *c) {
    *c = (struct model_cfg){.rms_eps = 1e-6f,
                            .embed_scale = 1,
                            .act = ACT_SILU,
                            .rope = {.theta = 10000, .beta_fast = 32, .beta_slow = 1, .factor = 1},
                            .bos = -1};
}

int model_cfg_check(const struct model_cfg *c, const char *where) {
    if (c->n_head % c->n_kv_head != 0) {
        return err_set(ERR_FORMAT, "%s: %d query heads are no multiple of %d kv heads", where,
                       c->n_head, c->n_kv_head);
    }
    if (c->head_dim % 2 != 0) {
        return err_set(ERR_FORMAT, "%s: head_dim %d is odd; rotary embedding needs pairs", where,
                       c->head_dim);
    }
    if (!(c->rms_eps > 0) || !isfinite(c->rms_eps) || !(c->rope.theta > 1) ||
        !(c->rope.factor > 0)) {
        return err_set(ERR_RANGE,
                       "%s: rms_norm_eps %g, rope theta %g, factor %g: want > 0 and finite, > 1, "
                       "> 0",
                       where, (double)c->rms_eps, c->rope.theta, c->rope.factor);
    }
    if ((c->rope.type == ROPE_LLAMA3 || c->rope.type == ROPE_YARN) && c->rope.original_ctx <= 0) {
        return err_set(ERR_FORMAT, "%s: rope scaling lacks original_max_position_embeddings",
                       where);
    }
    if (c->rope.type == ROPE_LLAMA3 &&
        !(c->rope.high_freq_factor > c->rope.low_freq_factor && c->rope.low_freq_factor > 0)) {
        return err_set(ERR_RANGE, "%s: rope low_freq_factor %g, high_freq_factor %g", where,
                       c->rope.low_freq_factor, c->rope.high_freq_factor);
    }
    return 0;
}
