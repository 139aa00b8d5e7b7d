/* The folder that is written: one safetensors file in the order of the layers, config.json with
 * quantization_config, and the tokenizer.
 *
 * src: compressed-tensors, quantization/quant_config.py; keys that released readers reject
 * (scale_dtype, zp_dtype) are left out. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/base/json.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/base/str.h"
#include "engine/quant/quant_int.h"
#include "kernels/backend.h"

static int declare(struct quant_job *j,
                   const char *name,
                   const char *part,
                   enum dtype type,
                   int64_t rows,
                   int64_t cols) {
    char full[TENSOR_NAME_MAX + 32];
    int64_t dim[2] = {rows, cols};
    snprintf(full, sizeof full, "%s.%s", name, part);
    return stwrite_declare(j->st, full, type, dim, cols > 0 ? 2 : 1);
}

static int declare_norms(struct quant_job *j, int32_t layer) {
    const struct model_cfg *c = &j->m->weights->cfg;
    int rc = 0;
    for (int32_t i = 0; i < NORM_N && !rc; i++) {
        char name[TENSOR_NAME_MAX];
        struct norm_name norm;
        if (weights_norm_name(c, (enum norm_role)i, &norm)) {
            snprintf(name, sizeof name, "model.layers.%d.%s", layer, norm.hf);
            rc = declare(j, name, "weight", j->o->dense_type, norm.n, 0);
        }
    }
    return rc;
}

static int declare_linear(struct quant_job *j, int32_t layer, enum linear_role role) {
    const struct quant_opts *o = j->o;
    const struct linear *lin = &j->m->weights->layer[layer].lin[role];
    int64_t n = lin->w.n;
    int64_t k = lin->w.k;
    char name[TENSOR_NAME_MAX];
    int rc;
    weights_module_name(name, layer, role);
    if (o->method == QUANT_NONE) {
        rc = declare(j, name, "weight", o->dense_type, n, k);
    } else {
        rc = declare(j, name, "weight_packed", DTYPE_I32, n, i64_div_up(k, 8));
        rc = rc ? rc : declare(j, name, "weight_scale", o->grid.scale_type, n, k / o->grid.group);
        rc = rc ? rc : declare(j, name, "weight_shape", DTYPE_I64, 2, 0);
        if (!rc && o->grid.asymmetric) {
            rc = declare(j, name, "weight_zero_point", DTYPE_I32, i64_div_up(n, 8),
                         k / o->grid.group);
        }
    }
    return rc || !lin->bias ? rc : declare(j, name, "bias", o->dense_type, n, 0);
}

int qout_declare_all(struct quant_job *j) {
    const struct model_cfg *c = &j->m->weights->cfg;
    enum dtype d = j->o->dense_type;
    int rc = declare(j, "model.embed_tokens", "weight", d, c->vocab, c->hidden);
    for (int32_t i = 0; i < c->n_layer && !rc; i++) {
        rc = declare_norms(j, i);
        for (int32_t r = 0; r < LINEAR_N && !rc; r++) {
            rc = declare_linear(j, i, (enum linear_role)r);
        }
    }
    rc = rc ? rc : declare(j, "model.norm", "weight", d, c->hidden, 0);
    return rc || c->tied ? rc : declare(j, "lm_head", "weight", d, c->vocab, c->hidden);
}

int qout_vector(struct quant_job *j, const float *v, int32_t n) {
    if (j->o->dense_type == DTYPE_F32) {
        return stwrite_data(j->st, v, n * (int64_t)sizeof *v);
    }
    uint16_t *h = mem_array(MEM_QUANT, n, (int64_t)sizeof *h);
    if (!h) {
        return ERR_NOMEM;
    }
    for (int32_t i = 0; i < n; i++) {
        h[i] = j->o->dense_type == DTYPE_F16 ? f32_to_f16(v[i]) : f32_to_bf16(v[i]);
    }
    int rc = stwrite_data(j->st, h, n * (int64_t)sizeof *h);
    mem_free(h);
    return rc;
}

int qout_matrix(struct quant_job *j, const struct wmat *w) {
    float *row = mem_array(MEM_QUANT, w->k, (int64_t)sizeof *row);
    int rc = row ? 0 : ERR_NOMEM;
    for (int32_t r = 0; r < w->n && !rc; r++) {
        ref_decode(w, r, 0, w->k, row);
        rc = qout_vector(j, row, w->k);
    }
    mem_free(row);
    return rc;
}

/* Zero points go down the rows: nibble i of word [j,c] is row 8j+i, stored z + 8. */
static int write_zero(struct quant_job *j, const int8_t *zero, int32_t n, int32_t groups) {
    int32_t rows = (int32_t)i64_div_up(n, 8);
    uint32_t *words = mem_array(MEM_QUANT, (int64_t)rows * groups, 4);
    if (!words) {
        return ERR_NOMEM;
    }
    for (int32_t r = 0; r < n; r++) {
        for (int32_t g = 0; g < groups; g++) {
            uint32_t u = (uint32_t)(zero[(int64_t)r * groups + g] + 8) & 15;
            words[(int64_t)(r / 8) * groups + g] |= u << (4 * (r % 8));
        }
    }
    int rc = stwrite_data(j->st, words, (int64_t)rows * groups * 4);
    mem_free(words);
    return rc;
}

int qout_linear(struct quant_job *j, const struct qlinear *q, const struct wmat *w) {
    int32_t groups = w->k / w->group;
    int64_t shape[2] = {w->n, w->k};
    int64_t scale_bytes = (int64_t)w->n * groups * dtype_info(w->scale_type)->block_bytes;
    int rc = stwrite_data(j->st, q->words, w->n * w->row_bytes);
    rc = rc ? rc : stwrite_data(j->st, q->scale, scale_bytes);
    rc = rc ? rc : stwrite_data(j->st, shape, (int64_t)sizeof shape);
    return rc || !q->zero ? rc : write_zero(j, q->zero, w->n, groups);
}

static json_t *quantization_config(const struct quant_opts *o) {
    json_t *weights =
        json_pack("{s:i, s:s, s:b, s:s, s:i, s:b, s:n, s:n, s:s}", "num_bits", o->grid.bits, "type",
                  "int", "symmetric", !o->grid.asymmetric, "strategy", "group", "group_size",
                  o->grid.group, "dynamic", 0, "actorder", "block_structure", "observer", "minmax");
    json_t *group =
        json_pack("{s:[s], s:o, s:n, s:n, s:s}", "targets", "Linear", "weights", weights,
                  "input_activations", "output_activations", "format", "pack-quantized");
    return json_pack("{s:s, s:s, s:s, s:n, s:n, s:[s], s:{s:o}}", "quant_method",
                     "compressed-tensors", "format", "pack-quantized", "quantization_status",
                     "compressed", "global_compression_ratio", "kv_cache_scheme", "ignore",
                     "lm_head", "config_groups", "group_0", group);
}

/* A Hugging Face configuration for a model that came without one (GGUF). */
/* The class of transformers that config_of is enough for; NULL: none. */
static const char *class_of(const struct model_cfg *c) {
    static const struct {
        const char *family;
        const char *name;
    } classes[] = {{"llama", "LlamaForCausalLM"},
                   {"qwen2", "Qwen2ForCausalLM"},
                   {"qwen3", "Qwen3ForCausalLM"}};
    for (int32_t i = 0; i < ARRAY_LEN(classes); i++) {
        if (str_eq(classes[i].family, c->family)) {
            return classes[i].name;
        }
    }
    return NULL;
}

static json_t *config_of(const struct model_cfg *c) {
    json_t *o = json_pack(
        "{s:[s], s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:f, s:f, s:n, s:s, s:b, s:b, s:b}",
        "architectures", class_of(c), "model_type", c->family, "hidden_size", c->hidden,
        "intermediate_size", c->ffn, "num_hidden_layers", c->n_layer, "num_attention_heads",
        c->n_head, "num_key_value_heads", c->n_kv_head, "head_dim", c->head_dim, "vocab_size",
        c->vocab, "max_position_embeddings", c->ctx_max, "rms_norm_eps", (double)c->rms_eps,
        "rope_theta", c->rope.theta, "rope_scaling", "hidden_act", "silu", "tie_word_embeddings",
        c->tied, "attention_bias", c->attn_bias, "mlp_bias", c->mlp_bias);
    if (o && c->bos >= 0) {
        json_object_set_new(o, "bos_token_id", json_integer(c->bos));
    }
    if (o && c->n_eos > 0) {
        json_object_set_new(o, "eos_token_id", json_integer(c->eos[0]));
    }
    return o;
}

/* GGUF files may carry a rope scaling that has no place in config_of. */
int qout_check_config(const struct model *m) {
    const struct model_cfg *c = &m->weights->cfg;
    if (m->ckpt->config) {
        return 0;
    }
    if (!class_of(c)) {
        return err_set(ERR_UNSUPPORTED, "family %s from GGUF cannot be written to config.json",
                       c->family);
    }
    if (c->rope.type == ROPE_DEFAULT && !c->rope.freq_factor) {
        return 0;
    }
    return err_set(ERR_UNSUPPORTED,
                   "the GGUF file's rope scaling cannot be written to config.json");
}

static int write_json(const char *dir, const char *name, const json_t *o) {
    char path[FILE_PATH_MAX];
    int rc = file_join(path, dir, name);
    char *text = rc ? NULL : json_dumps(o, JSON_INDENT(2));
    if (!rc && !text) {
        rc = err_set(ERR_NOMEM, "%s: cannot format", path);
    }
    rc = rc ? rc : file_write(path, text, (int64_t)strlen(text));
    free(text); /* why: memory of jansson, not of mem_* */
    return rc;
}

int qout_config(const struct quant_job *j, const char *dir) {
    static const char *const names[DTYPE_N] = {
        [DTYPE_F32] = "float32", [DTYPE_F16] = "float16", [DTYPE_BF16] = "bfloat16"};
    const struct ckpt *c = j->m->ckpt;
    int rc;
    json_t *o = c->config ? json_deep_copy(c->config) : config_of(&j->m->weights->cfg);
    if (!o) {
        return err_set(ERR_NOMEM, "config.json cannot be made");
    }
    json_object_del(o, "quantization_config");
    json_object_del(o, "dtype");
    json_object_set_new(o, "torch_dtype", json_string(names[j->o->dense_type]));
    if (j->o->method != QUANT_NONE) {
        json_object_set_new(o, "quantization_config", quantization_config(j->o));
    }
    rc = write_json(dir, "config.json", o);
    json_decref(o);
    return rc;
}

static int copy_file(const char *from_dir, const char *to_dir, const char *name) {
    char from[FILE_PATH_MAX];
    char to[FILE_PATH_MAX];
    struct buf b;
    int rc = file_join(from, from_dir, name);
    rc = rc ? rc : file_join(to, to_dir, name);
    if (rc || !file_exists(from)) {
        return rc;
    }
    buf_init(&b, MEM_QUANT, JSON_FILE_MAX);
    rc = file_read(from, &b);
    rc = rc ? rc : file_write(to, buf_cstr(&b), b.len);
    buf_fini(&b);
    return rc;
}

static int write_generation(const struct quant_job *j, const char *dir) {
    const struct model_cfg *c = &j->m->weights->cfg;
    json_t *eos = json_array();
    for (int32_t i = 0; i < c->n_eos; i++) {
        json_array_append_new(eos, json_integer(c->eos[i]));
    }
    json_t *o = json_pack("{s:o}", "eos_token_id", eos);
    if (o && c->bos >= 0) {
        json_object_set_new(o, "bos_token_id", json_integer(c->bos));
    }
    int rc = write_json(dir, "generation_config.json", o);
    json_decref(o);
    return rc;
}

int qout_text(const struct quant_job *j, const char *dir) {
    static const char *const files[] = {"generation_config.json",
                                        "tokenizer.json",
                                        "tokenizer_config.json",
                                        "special_tokens_map.json",
                                        "added_tokens.json",
                                        "vocab.json",
                                        "merges.txt",
                                        "chat_template.jinja",
                                        "tokenizer.model"};
    const struct ckpt *c = j->m->ckpt;
    if (c->gguf) {
        int rc = write_generation(j, dir);
        rc = rc || !j->m->tok ? rc : tok_save(j->m->tok, dir);
        if (rc == ERR_UNSUPPORTED) {
            log_warn("%s", err_msg()); /* the weights are whole without it */
            rc = 0;
        }
        return rc;
    }
    int rc = 0;
    for (int32_t i = 0; i < ARRAY_LEN(files) && !rc; i++) {
        rc = copy_file(c->path, dir, files[i]);
    }
    return rc;
}
