/* Qwen2 and Qwen2.5: llama with biases on q, k and v; layers from max_window_layers on slide when
 * use_sliding_window says so.
 * src: transformers, configuration_qwen2.py and modeling_qwen2.py; llama.cpp, LLM_ARCH_QWEN2 */
#include "engine/model/arch.h"

#include <math.h>

#include "engine/base/err.h"
#include "engine/base/json.h"
#include "engine/model/hfconfig.h"

enum { WINDOW_DEFAULT = 4096, FULL_LAYERS_DEFAULT = 28, WINDOW_MAX = 1 << 24 };

static int from_hf(const json_t *config, const char *where, struct model_cfg *c) {
    bool slides = false;
    int32_t window = json_object_get(config, "sliding_window") ? 0 : WINDOW_DEFAULT;
    int32_t first = FULL_LAYERS_DEFAULT;
    int rc = json_opt_bool(config, where, "use_sliding_window", &slides);
    rc = rc ? rc : json_opt_i32(config, where, "sliding_window", 1, WINDOW_MAX, &window);
    rc = rc ? rc : json_opt_i32(config, where, "max_window_layers", 0, MODEL_LAYERS_MAX, &first);
    window = slides ? window : 0;
    for (int32_t i = first; i < c->n_layer; i++) {
        c->layer[i].window = window;
    }
    c->attn_bias = true;
    c->attn.scale = 1 / sqrtf((float)c->head_dim);
    return rc ? rc : hfconfig_layer_types(config, where, window, c);
}

static int from_gguf(const struct gguf *g, struct model_cfg *c) {
    int32_t window = 0;
    int rc = gguf_opt_i32(g, "qwen2.attention.sliding_window", 0, WINDOW_MAX, &window);
    if (!rc && window > 0) {
        rc = err_set(ERR_UNSUPPORTED,
                     "%s: a sliding window of %d; qwen2 from GGUF is computed "
                     "with full attention",
                     g->where, window);
    }
    c->attn_bias = true;
    c->attn.scale = 1 / sqrtf((float)c->head_dim);
    return rc;
}

const struct arch arch_qwen2 = {
    .family = "qwen2", .gguf_name = "qwen2", .from_hf = from_hf, .from_gguf = from_gguf};
