/* Llama 2, 3, 3.1, 3.2, SmolLM2; in GGUF also Mistral. src: transformers, modeling_llama.py;
 * llama.cpp, LLM_ARCH_LLAMA */
#include "engine/model/arch.h"

#include <math.h>

#include "engine/base/err.h"
#include "engine/base/json.h"

static int from_hf(const json_t *config, const char *where, struct model_cfg *c) {
    int rc = json_opt_bool(config, where, "attention_bias", &c->attn_bias);
    rc = rc ? rc : json_opt_bool(config, where, "mlp_bias", &c->mlp_bias);
    c->o_bias = c->attn_bias;
    c->attn.scale = 1 / sqrtf((float)c->head_dim);
    return rc;
}

static int from_gguf(const struct gguf *g, struct model_cfg *c) {
    int32_t n_rot = c->head_dim;
    int32_t n_expert = 0;
    int32_t window = 0;
    int rc = gguf_opt_i32(g, "llama.attention.sliding_window", 0, INT32_MAX, &window);
    if (!rc && window > 0) {
        rc = err_set(ERR_UNSUPPORTED,
                     "%s: llama.attention.sliding_window is %d; llama from GGUF is computed with "
                     "full attention",
                     g->where, window);
    }
    rc = rc ? rc : gguf_opt_i32(g, "llama.rope.dimension_count", 1, 4096, &n_rot);
    rc = rc ? rc : gguf_opt_i32(g, "llama.expert_count", 0, 4096, &n_expert);
    if (!rc && (n_rot != c->head_dim || n_expert > 0)) {
        rc = err_set(ERR_UNSUPPORTED,
                     "%s: rope over %d of %d dimensions and %d experts; computed is the dense form "
                     "with all dimensions turned",
                     g->where, n_rot, c->head_dim, n_expert);
    }
    c->attn_bias = tensor_dir_find(&g->dir, "blk.0.attn_q.bias") != NULL;
    c->o_bias = tensor_dir_find(&g->dir, "blk.0.attn_output.bias") != NULL;
    c->attn.scale = 1 / sqrtf((float)c->head_dim);
    return rc;
}

const struct arch arch_llama = {.family = "llama",
                                .gguf_name = "llama",
                                .gguf_permutes_qk = true,
                                .from_hf = from_hf,
                                .from_gguf = from_gguf};
