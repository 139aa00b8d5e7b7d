/* Qwen3 with mixtures of experts: qwen3 whose MLP, in all or some layers, is a set of small MLPs of
 * which a router picks a few for every token.
 * src: transformers, configuration_qwen3_moe.py and modeling_qwen3_moe.py; llama.cpp,
 * LLM_ARCH_QWEN3MOE, where every layer has experts and their weights are made to sum to 1 */
#include "engine/model/arch.h"

#include <math.h>

#include "engine/base/err.h"
#include "engine/base/json.h"

enum { SIZE_MAX_ANY = 1 << 24 };

static void common(struct model_cfg *c) {
    c->qk_norm = true;
    c->attn.scale = 1 / sqrtf((float)c->head_dim);
}

/* Marks the layers with experts: every step-th, but for those of mlp_only_layers. */
static int read_layers(const json_t *config, const char *where, struct model_cfg *c) {
    int32_t step = 1;
    const json_t *dense = json_object_get(config, "mlp_only_layers");
    int rc = json_opt_i32(config, where, "decoder_sparse_step", 1, MODEL_LAYERS_MAX, &step);
    if (rc) {
        return rc;
    }
    for (int32_t i = 0; i < c->n_layer; i++) {
        c->layer[i].moe = c->n_expert > 0 && (i + 1) % step == 0;
    }
    if (dense && !json_is_null(dense) && !json_is_array(dense)) {
        return err_set(ERR_FORMAT, "%s: mlp_only_layers is no list", where);
    }
    for (size_t j = 0; j < json_array_size(dense); j++) {
        const json_t *v = json_array_get(dense, j);
        json_int_t i = json_integer_value(v);
        if (!json_is_integer(v) || i < 0 || i >= c->n_layer) {
            return err_set(ERR_FORMAT, "%s: mlp_only_layers[%zu] is none of %d layers", where, j,
                           c->n_layer);
        }
        c->layer[i].moe = false;
    }
    return 0;
}

/* One window for all layers. */
static int read_window(const json_t *config, const char *where, struct model_cfg *c) {
    bool slides = false;
    int32_t window = 0;
    int rc = json_opt_bool(config, where, "use_sliding_window", &slides);
    rc = rc ? rc : json_opt_i32(config, where, "sliding_window", 1, SIZE_MAX_ANY, &window);
    if (!rc && slides && !json_object_get(config, "sliding_window")) {
        rc = err_set(ERR_FORMAT, "%s: use_sliding_window without sliding_window", where);
    }
    for (int32_t i = 0; i < c->n_layer && slides; i++) {
        c->layer[i].window = window;
    }
    return rc;
}

static int from_hf(const json_t *config, const char *where, struct model_cfg *c) {
    const char *count =
        json_object_get(config, "num_local_experts") ? "num_local_experts" : "num_experts";
    int rc = json_opt_bool(config, where, "attention_bias", &c->attn_bias);
    rc = rc ? rc : json_need_i32(config, where, count, 0, OPS_EXPERT_MAX, &c->n_expert);
    rc = rc ? rc
            : json_need_i32(config, where, "num_experts_per_tok", 1, OPS_EXPERT_MAX,
                            &c->n_expert_used);
    rc =
        rc ? rc
           : json_need_i32(config, where, "moe_intermediate_size", 1, SIZE_MAX_ANY, &c->expert_ffn);
    rc = rc ? rc : json_opt_bool(config, where, "norm_topk_prob", &c->expert_renorm);
    rc = rc ? rc : read_layers(config, where, c);
    c->o_bias = c->attn_bias;
    common(c);
    return rc ? rc : read_window(config, where, c);
}

static int from_gguf(const struct gguf *g, struct model_cfg *c) {
    double scale = 0;
    int32_t gating = 1; /* softmax */
    int rc = gguf_need_i32(g, "qwen3moe.expert_count", 1, OPS_EXPERT_MAX, &c->n_expert);
    rc = rc ? rc
            : gguf_need_i32(g, "qwen3moe.expert_used_count", 1, OPS_EXPERT_MAX, &c->n_expert_used);
    rc = rc ? rc
            : gguf_need_i32(g, "qwen3moe.expert_feed_forward_length", 1, SIZE_MAX_ANY,
                            &c->expert_ffn);
    rc = rc ? rc : gguf_opt_f64(g, "qwen3moe.expert_weights_scale", &scale);
    rc = rc ? rc : gguf_opt_i32(g, "qwen3moe.expert_gating_func", 0, 255, &gating);
    if (!rc && ((scale != 0 && scale != 1) || gating != 1)) {
        rc =
            err_set(ERR_UNSUPPORTED,
                    "%s: expert_weights_scale %g, expert_gating_func %d; computed is a softmax (1) "
                    "without scale",
                    g->where, scale, gating);
    }
    for (int32_t i = 0; i < c->n_layer; i++) {
        c->layer[i].moe = true;
    }
    c->expert_renorm = true;
    common(c);
    return rc;
}

const struct arch arch_qwen3_moe = {
    .family = "qwen3_moe", .gguf_name = "qwen3moe", .from_hf = from_hf, .from_gguf = from_gguf};
