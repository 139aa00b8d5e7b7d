/* Mistral 7B and its kin: llama whose layers all slide when sliding_window is a number. Its GGUF
 * files are written as "llama".
 * src: transformers, configuration_mistral.py and modeling_mistral.py */
#include "engine/model/arch.h"

#include <math.h>

#include "engine/base/err.h"
#include "engine/base/json.h"
#include "engine/model/hfconfig.h"

enum { WINDOW_DEFAULT = 4096, WINDOW_MAX = 1 << 24 };

static int from_hf(const json_t *config, const char *where, struct model_cfg *c) {
    int32_t window = json_object_get(config, "sliding_window") ? 0 : WINDOW_DEFAULT;
    int rc = json_opt_i32(config, where, "sliding_window", 1, WINDOW_MAX, &window);
    for (int32_t i = 0; i < c->n_layer; i++) {
        c->layer[i].window = window;
    }
    c->attn.scale = 1 / sqrtf((float)c->head_dim);
    return rc ? rc : hfconfig_layer_types(config, where, window, c);
}

const struct arch arch_mistral = {.family = "mistral", .from_hf = from_hf};
