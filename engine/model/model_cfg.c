#include "engine/model/model_cfg.h"

#include <math.h>

#include "engine/base/err.h"

int32_t model_cfg_kv_group_of(const struct kv_groups *g, const struct layer_cfg *layer) {
    return layer->window > 0 ? g->n - 1 : 0;
}

void model_cfg_kv_groups(const struct model_cfg *c, struct kv_groups *out) {
    struct kv_groups g = {0};
    int32_t n_full = 0;
    int32_t window = 0;
    for (int32_t i = 0; i < c->n_layer; i++) {
        n_full += c->layer[i].window == 0;
        window = i32_max(window, c->layer[i].window);
    }
    if (n_full > 0) {
        g.n_layer[g.n++] = n_full;
    }
    if (n_full < c->n_layer) {
        g.window[g.n] = window;
        g.n_layer[g.n++] = c->n_layer - n_full;
    }
    *out = g;
}

int64_t model_cfg_kv_bytes_per_token(const struct model_cfg *c, enum dtype kv_type) {
    const struct dtype_info *t = dtype_info(kv_type);
    int64_t head = i64_div_up(c->head_dim, t->block) * t->block_bytes;
    return 2 * (int64_t)c->n_layer * c->n_kv_head * head;
}

struct rope_cfg model_cfg_rope(double theta) {
    return (struct rope_cfg){.theta = theta, .beta_fast = 32, .beta_slow = 1, .factor = 1};
}

void model_cfg_init(struct model_cfg *c) {
    *c = (struct model_cfg){.rms_eps = 1e-6f,
                            .embed_scale = 1,
                            .act = ACT_SILU,
                            .rope = model_cfg_rope(10000),
                            .bos = -1};
}

/* The second rotary table, and whether it is asked for where it is given. */
static int check_rope_local(const struct model_cfg *c, const char *where) {
    const struct rope_cfg *r = &c->rope_local;
    bool used = false;
    for (int32_t i = 0; i < c->n_layer; i++) {
        used = used || c->layer[i].rope == 1;
    }
    if (used != c->has_rope_local) {
        return err_set(ERR_UNSUPPORTED, "%s: rope parameters by layer type, family %s has %s",
                       where, c->family, used ? "none for sliding layers" : "one kind of layer");
    }
    if (used && (!(r->theta > 1) || !(r->factor > 0) ||
                 (r->type != ROPE_DEFAULT && r->type != ROPE_LINEAR))) {
        return err_set(ERR_UNSUPPORTED,
                       "%s: rope of the sliding layers: type %d, theta %g, factor %g; computed are "
                       "default and linear, theta > 1, factor > 0",
                       where, (int)r->type, r->theta, r->factor);
    }
    return 0;
}

static int check_experts(const struct model_cfg *c, const char *where) {
    bool used = false;
    for (int32_t i = 0; i < c->n_layer; i++) {
        used = used || c->layer[i].moe;
    }
    if (used && (c->n_expert > OPS_EXPERT_MAX || c->n_expert_used < 1 ||
                 c->n_expert_used > c->n_expert || c->expert_ffn < 1)) {
        return err_set(ERR_RANGE, "%s: %d of %d experts of %d, at most %d experts are routed",
                       where, c->n_expert_used, c->n_expert, c->expert_ffn, (int)OPS_EXPERT_MAX);
    }
    if (used && c->post_norm) {
        return err_set(ERR_UNSUPPORTED, "%s: experts with a norm behind them are not computed",
                       where);
    }
    return 0;
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
    int rc = check_rope_local(c, where);
    return rc ? rc : check_experts(c, where);
}
