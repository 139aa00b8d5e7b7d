/* Gemma 3, the text model (alone or inside the multimodal checkpoint): norms before and behind
 * attention and MLP, with weights stored as w - 1; sliding layers with a rotary base of their own,
 * every sixth layer full; scaled embeddings; gelu.
 *
 * The embedding's scale sqrt(E) is rounded to the type of the weights, as transformers does (the
 * models were trained so); llama.cpp does not round it, we round to bf16 for its files too.
 * src: Gemma Team, "Gemma 3 Technical Report", 2025; transformers, configuration_gemma3.py and
 * modeling_gemma3.py; llama.cpp, LLM_ARCH_GEMMA3, whose files store the norms with 1 added. The cap
 * on attention scores is Gemma 2's; published Gemma 3 files have none. */
#include "engine/model/arch.h"

#include <math.h>

#include "engine/base/err.h"
#include "engine/base/json.h"
#include "engine/base/str.h"
#include "engine/model/hfconfig.h"

enum { PATTERN_DEFAULT = 6, WINDOW_MAX = 1 << 24, LAYERS_27B = 62 };
static const double LOCAL_THETA_DEFAULT = 10000;

/* The text part. Published files leave out what equals the defaults of Gemma3TextConfig. */
static json_t *hf_text(const json_t *config) {
    static const char *const outer[] = {"eos_token_id", "bos_token_id", "dtype", "torch_dtype"};
    const json_t *part = json_object_get(config, "text_config");
    json_t *o = json_deep_copy(json_is_object(part) ? part : config);
    json_t *defaults = json_pack(
        "{s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:s, s:i, s:f, s:i, s:i, s:b, s:f, s:i, s:i}",
        "vocab_size", 262208, "hidden_size", 2304, "intermediate_size", 9216, "num_hidden_layers",
        26, "num_attention_heads", 8, "num_key_value_heads", 4, "head_dim", 256,
        "hidden_activation", "gelu_pytorch_tanh", "max_position_embeddings", 131072, "rms_norm_eps",
        1e-6, "eos_token_id", 1, "bos_token_id", 2, "tie_word_embeddings", 1, "rope_theta", 1e6,
        "query_pre_attn_scalar", 256, "sliding_window", 4096);
    int bad = !o || !defaults;
    for (int32_t i = 0; i < ARRAY_LEN(outer) && !bad && json_is_object(part); i++) {
        json_t *v = json_object_get(config, outer[i]);
        bad = v ? json_object_set(o, outer[i], v) : 0;
    }
    bad = bad || json_object_update_missing(o, defaults) ||
          json_object_set(o, "hidden_act", json_object_get(o, "hidden_activation"));
    json_decref(defaults);
    if (bad) {
        json_decref(o);
        return NULL;
    }
    return o;
}

static int read_cap(const json_t *o, const char *where, const char *key, float *out) {
    double cap = 0;
    int rc = json_opt_f64(o, where, key, &cap);
    const json_t *v = json_object_get(o, key);
    if (!rc && v && !json_is_null(v) && !(cap > 0)) {
        rc = err_set(ERR_RANGE, "%s: %s is %g, want > 0", where, key, cap);
    }
    *out = (float)cap;
    return rc;
}

/* sqrt(E) in the type that the file names for its weights. */
static int read_scale(const json_t *o, const char *where, struct model_cfg *c) {
    const char *type = "bfloat16";
    float scale = sqrtf((float)c->hidden);
    int rc = json_opt_str(o, where, "torch_dtype", &type);
    rc = rc ? rc : json_opt_str(o, where, "dtype", &type);
    if (str_eq(type, "float16")) {
        c->embed_scale = f16_to_f32(f32_to_f16(scale));
    } else {
        c->embed_scale = str_eq(type, "float32") ? scale : bf16_to_f32(f32_to_bf16(scale));
    }
    return rc;
}

/* Every pattern-th layer is full, the others slide. */
static void slide(struct model_cfg *c, int32_t window, int32_t pattern) {
    for (int32_t i = 0; i < c->n_layer; i++) {
        c->layer[i].window = (i + 1) % pattern != 0 ? window : 0;
    }
}

/* Sliding layers take the second rotary table; local is its base where the file has no more. */
static void turn(struct model_cfg *c, double local) {
    bool any = false;
    for (int32_t i = 0; i < c->n_layer; i++) {
        c->layer[i].rope = c->layer[i].window > 0;
        any = any || c->layer[i].rope;
    }
    if (!any || !c->has_rope_local) {
        c->rope_local = model_cfg_rope(local);
    } else if (c->rope_local.theta == 0) {
        c->rope_local.theta = local;
    }
    c->has_rope_local = any;
}

static int read_layers(const json_t *o, const char *where, struct model_cfg *c) {
    int32_t window = 0;
    int32_t pattern = PATTERN_DEFAULT;
    double local = LOCAL_THETA_DEFAULT;
    int rc = json_need_i32(o, where, "sliding_window", 1, WINDOW_MAX, &window);
    rc = rc ? rc : json_opt_i32(o, where, "_sliding_window_pattern", 1, MODEL_LAYERS_MAX, &pattern);
    rc = rc ? rc : json_opt_i32(o, where, "sliding_window_pattern", 1, MODEL_LAYERS_MAX, &pattern);
    rc = rc ? rc : json_opt_f64(o, where, "rope_local_base_freq", &local);
    if (rc) {
        return rc;
    }
    slide(c, window, pattern);
    rc = hfconfig_layer_types(o, where, window, c);
    turn(c, local);
    return rc;
}

static int from_hf(const json_t *o, const char *where, struct model_cfg *c) {
    double scalar = 0;
    bool both_ways = false;
    int rc = json_opt_f64(o, where, "query_pre_attn_scalar", &scalar);
    rc = rc ? rc : json_opt_bool(o, where, "attention_bias", &c->attn_bias);
    rc = rc ? rc : json_opt_bool(o, where, "use_bidirectional_attention", &both_ways);
    if (!rc && both_ways) {
        rc = err_set(ERR_UNSUPPORTED, "%s: use_bidirectional_attention is true", where);
    }
    if (!rc && !(scalar > 0)) {
        rc = err_set(ERR_RANGE, "%s: query_pre_attn_scalar is %g, want > 0", where, scalar);
    }
    rc = rc ? rc : read_cap(o, where, "attn_logit_softcapping", &c->attn.softcap);
    rc = rc ? rc : read_cap(o, where, "final_logit_softcapping", &c->logit_softcap);
    rc = rc ? rc : read_scale(o, where, c);
    rc = rc ? rc : read_layers(o, where, c);
    c->o_bias = c->attn_bias;
    c->qk_norm = true;
    c->post_norm = true;
    c->norm_offset = 1;
    c->attn.scale = (float)(1 / sqrt(scalar));
    return rc;
}

static int from_gguf(const struct gguf *g, struct model_cfg *c) {
    int32_t window = 0;
    int32_t pattern = PATTERN_DEFAULT;
    double local = LOCAL_THETA_DEFAULT;
    double caps[2] = {0, 0};
    int rc = gguf_opt_i32(g, "gemma3.attention.sliding_window", 0, WINDOW_MAX, &window);
    rc = rc ? rc
            : gguf_opt_i32(g, "gemma3.attention.sliding_window_pattern", 1, MODEL_LAYERS_MAX,
                           &pattern);
    rc = rc ? rc : gguf_opt_f64(g, "gemma3.rope.freq_base_swa", &local);
    rc = rc ? rc : gguf_opt_f64(g, "gemma3.attn_logit_softcapping", &caps[0]);
    rc = rc ? rc : gguf_opt_f64(g, "gemma3.final_logit_softcapping", &caps[1]);
    if (!rc && !(caps[0] >= 0 && caps[1] >= 0)) {
        rc = err_set(ERR_RANGE, "%s: soft caps %g and %g, want >= 0", g->where, caps[0], caps[1]);
    }
    /* src: llama.cpp tells the 27B, whose scalar is E / H, by its layers */
    int32_t scalar = c->n_layer == LAYERS_27B ? c->hidden / c->n_head : c->head_dim;
    slide(c, window, pattern);
    turn(c, local);
    c->attn.softcap = (float)caps[0];
    c->logit_softcap = (float)caps[1];
    c->attn.scale = 1 / sqrtf((float)scalar);
    c->embed_scale = bf16_to_f32(f32_to_bf16(sqrtf((float)c->hidden)));
    c->act = ACT_GELU_TANH;
    c->qk_norm = true;
    c->post_norm = true;
    return rc;
}

const struct arch arch_gemma3 = {.family = "gemma3",
                                 .hf_alias = "gemma3_text",
                                 .gguf_name = "gemma3",
                                 .hf_text = hf_text,
                                 .from_hf = from_hf,
                                 .from_gguf = from_gguf};
