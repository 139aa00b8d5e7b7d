/* src: the configuration classes of transformers (LlamaConfig, Qwen3Config), both the old keys
 * (rope_theta, rope_scaling) and those of version 5 (rope_parameters). */
#include "engine/model/hfconfig.h"

#include <string.h>

#include "engine/base/err.h"
#include "engine/base/json.h"
#include "engine/base/str.h"

enum { SIZE_MAX_ANY = 1 << 24 };

int hfconfig_add_eos(struct model_cfg *c, const char *where, int32_t id) {
    for (int32_t i = 0; i < c->n_eos; i++) {
        if (c->eos[i] == id) {
            return 0;
        }
    }
    if (c->n_eos == MODEL_EOS_MAX) {
        return err_set(ERR_LIMIT, "%s: more than %d end-of-sequence ids", where, MODEL_EOS_MAX);
    }
    c->eos[c->n_eos++] = id;
    return 0;
}

/* eos_token_id is a number or a list of numbers. */
static int read_eos(const json_t *o, const char *where, struct model_cfg *c) {
    const json_t *v = json_object_get(o, "eos_token_id");
    if (!json_is_array(v)) {
        int32_t id = -1;
        int rc = json_opt_i32(o, where, "eos_token_id", 0, MODEL_VOCAB_MAX, &id);
        return rc || id < 0 ? rc : hfconfig_add_eos(c, where, id);
    }
    for (size_t i = 0; i < json_array_size(v); i++) {
        const json_t *e = json_array_get(v, i);
        if (!json_is_integer(e) || json_integer_value(e) < 0 ||
            json_integer_value(e) > MODEL_VOCAB_MAX) {
            return err_set(ERR_FORMAT, "%s: eos_token_id[%zu] is no token id", where, i);
        }
        int rc = hfconfig_add_eos(c, where, (int32_t)json_integer_value(e));
        if (rc) {
            return rc;
        }
    }
    return 0;
}

int hfconfig_generation(const char *dir, struct model_cfg *out) {
    char path[FILE_PATH_MAX];
    json_t *o = NULL;
    int rc = file_join(path, dir, "generation_config.json");
    if (rc || !file_exists(path)) {
        return rc;
    }
    rc = json_read(path, &o);
    if (!rc) {
        rc = read_eos(o, path, out);
    }
    json_decref(o);
    return rc;
}

static int read_rope_type(const json_t *o, const char *where, struct rope_cfg *r) {
    static const char *const names[] = {"default", "linear", "llama3", "yarn"};
    const char *type = NULL;
    int rc = json_opt_str(o, where, "type", &type); /* the key of old files */
    if (!rc) {
        rc = json_opt_str(o, where, "rope_type", &type);
    }
    if (rc || !type) {
        return rc;
    }
    for (int32_t i = 0; i < ARRAY_LEN(names); i++) {
        if (str_eq(names[i], type)) {
            r->type = (enum rope_type)i;
            return 0;
        }
    }
    return err_set(ERR_UNSUPPORTED,
                   "%s: rope type \"%s\" is not known; known are default, linear, llama3, yarn",
                   where, type);
}

/* A parameter that we do not know may change the result: refuse it by name. */
static int check_rope_keys(const json_t *o, const char *where) {
    static const char *const known[] = {"type",
                                        "rope_type",
                                        "rope_theta",
                                        "factor",
                                        "low_freq_factor",
                                        "high_freq_factor",
                                        "original_max_position_embeddings",
                                        "beta_fast",
                                        "beta_slow",
                                        "attention_factor",
                                        "partial_rotary_factor"};
    const char *key = NULL;
    json_t *value = NULL;
    json_object_foreach((json_t *)(uintptr_t)o, key, value) {
        bool found = false;
        for (int32_t i = 0; i < ARRAY_LEN(known); i++) {
            found = found || str_eq(known[i], key);
        }
        if (!found) {
            return err_set(ERR_UNSUPPORTED, "%s: rope parameter \"%s\" is not known", where, key);
        }
    }
    return 0;
}

static int read_rope(const json_t *config, const char *where, struct rope_cfg *r) {
    double partial = 1;
    const json_t *o = json_object_get(config, "rope_parameters");
    int rc = json_opt_f64(config, where, "rope_theta", &r->theta);
    if (!json_is_object(o)) {
        o = json_object_get(config, "rope_scaling");
    }
    if (rc || !json_is_object(o)) {
        return rc;
    }
    rc = check_rope_keys(o, where);
    rc = rc ? rc : read_rope_type(o, where, r);
    rc = rc ? rc : json_opt_f64(o, where, "rope_theta", &r->theta);
    rc = rc ? rc : json_opt_f64(o, where, "factor", &r->factor);
    rc = rc ? rc : json_opt_f64(o, where, "low_freq_factor", &r->low_freq_factor);
    rc = rc ? rc : json_opt_f64(o, where, "high_freq_factor", &r->high_freq_factor);
    rc = rc ? rc
            : json_opt_i32(o, where, "original_max_position_embeddings", 1, SIZE_MAX_ANY,
                           &r->original_ctx);
    rc = rc ? rc : json_opt_f64(o, where, "beta_fast", &r->beta_fast);
    rc = rc ? rc : json_opt_f64(o, where, "beta_slow", &r->beta_slow);
    rc = rc ? rc : json_opt_f64(o, where, "attention_factor", &r->attention_factor);
    rc = rc ? rc : json_opt_f64(o, where, "partial_rotary_factor", &partial);
    if (!rc && partial != 1) {
        rc = err_set(ERR_UNSUPPORTED, "%s: partial_rotary_factor %g, only 1 is computed", where,
                     partial);
    }
    return rc;
}

static int read_act(const json_t *config, const char *where, struct model_cfg *c) {
    const char *act = "silu";
    int rc = json_opt_str(config, where, "hidden_act", &act);
    if (rc) {
        return rc;
    }
    if (str_eq(act, "silu") || str_eq(act, "swish")) {
        c->act = ACT_SILU;
        return 0;
    }
    return err_set(ERR_UNSUPPORTED, "%s: hidden_act \"%s\" is not known; known is silu", where,
                   act);
}

static int read_sizes(const json_t *o, const char *where, struct model_cfg *c) {
    int rc = json_need_i32(o, where, "num_hidden_layers", 1, MODEL_LAYERS_MAX, &c->n_layer);
    rc = rc ? rc : json_need_i32(o, where, "num_attention_heads", 1, 4096, &c->n_head);
    rc = rc ? rc : json_need_i32(o, where, "hidden_size", 1, SIZE_MAX_ANY, &c->hidden);
    rc = rc ? rc : json_need_i32(o, where, "intermediate_size", 1, SIZE_MAX_ANY, &c->ffn);
    rc = rc ? rc : json_need_i32(o, where, "vocab_size", 1, MODEL_VOCAB_MAX, &c->vocab);
    if (rc) {
        return rc;
    }
    c->n_kv_head = c->n_head;
    c->head_dim = c->hidden / c->n_head;
    c->ctx_max = 2048;
    rc = json_opt_i32(o, where, "num_key_value_heads", 1, 4096, &c->n_kv_head);
    rc = rc ? rc : json_opt_i32(o, where, "head_dim", 1, 4096, &c->head_dim);
    rc = rc ? rc : json_opt_i32(o, where, "max_position_embeddings", 1, SIZE_MAX_ANY, &c->ctx_max);
    if (!rc && c->head_dim < 1) {
        rc = err_set(ERR_RANGE, "%s: hidden_size %d for %d heads and no head_dim", where, c->hidden,
                     c->n_head);
    }
    return rc;
}

int hfconfig_common(const json_t *config, const char *where, struct model_cfg *c) {
    double eps = (double)c->rms_eps;
    double partial = 1;
    int rc = read_sizes(config, where, c);
    rc = rc ? rc : json_opt_f64(config, where, "rms_norm_eps", &eps);
    rc = rc ? rc : json_opt_bool(config, where, "tie_word_embeddings", &c->tied);
    rc = rc ? rc : json_opt_i32(config, where, "bos_token_id", 0, MODEL_VOCAB_MAX, &c->bos);
    rc = rc ? rc : read_eos(config, where, c);
    rc = rc ? rc : read_act(config, where, c);
    rc = rc ? rc : read_rope(config, where, &c->rope);
    rc = rc ? rc : json_opt_f64(config, where, "partial_rotary_factor", &partial);
    if (!rc && partial != 1) {
        rc = err_set(ERR_UNSUPPORTED, "%s: partial_rotary_factor %g, only 1 is computed", where,
                     partial);
    }
    c->rms_eps = (float)eps;
    return rc;
}
