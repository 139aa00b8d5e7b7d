/* Qwen3 dense: llama with an RMS norm on every q and k head.
 * src: transformers, modeling_qwen3.py; llama.cpp, LLM_ARCH_QWEN3 */
#include "engine/model/arch.h"

#include <math.h>

#include "engine/base/err.h"
#include "engine/base/json.h"

static int from_hf(const json_t *config, const char *where, struct model_cfg *c) {
    bool sliding = false;
    int rc = json_opt_bool(config, where, "attention_bias", &c->attn_bias);
    rc = rc ? rc : json_opt_bool(config, where, "use_sliding_window", &sliding);
    if (!rc && sliding) {
        rc = err_set(ERR_UNSUPPORTED,
                     "%s: use_sliding_window is true; qwen3 is computed with full "
                     "attention",
                     where);
    }
    c->o_bias = c->attn_bias;
    c->qk_norm = true;
    c->attn.scale = 1 / sqrtf((float)c->head_dim);
    return rc;
}

static int from_gguf(const struct gguf *g, struct model_cfg *c) {
    (void)g;
    c->qk_norm = true;
    c->attn.scale = 1 / sqrtf((float)c->head_dim);
    return 0;
}

const struct arch arch_qwen3 = {.family = "qwen3",
                                .gguf_name = "qwen3",
                                .gguf_permutes_qk = false,
                                .from_hf = from_hf,
                                .from_gguf = from_gguf};
