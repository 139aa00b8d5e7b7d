/* src: ggml, docs/gguf.md, "LLM" keys; a key is "<architecture>.<name>". */
#include "engine/model/hfconfig.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/err.h"

enum { KEY_TEXT = 128, SIZE_MAX_ANY = 1 << 24 };

static const char *key_of(char dst[KEY_TEXT], const char *prefix, const char *name) {
    snprintf(dst, KEY_TEXT, "%s.%s", prefix, name);
    return dst;
}

static int read_scaling(const struct gguf *g, const char *p, struct rope_cfg *r) {
    char k[KEY_TEXT];
    struct gguf_str type = {0};
    int rc = gguf_opt_str(g, key_of(k, p, "rope.scaling.type"), &type);
    rc = rc ? rc : gguf_opt_f64(g, key_of(k, p, "rope.scaling.factor"), &r->factor);
    rc = rc ? rc
            : gguf_opt_i32(g, key_of(k, p, "rope.scaling.original_context_length"), 1, SIZE_MAX_ANY,
                           &r->original_ctx);
    if (rc || !type.data || (type.len == 4 && memcmp(type.data, "none", 4) == 0)) {
        return rc;
    }
    if (type.len == 6 && memcmp(type.data, "linear", 6) == 0) {
        r->type = ROPE_LINEAR;
        return 0;
    }
    if (type.len == 4 && memcmp(type.data, "yarn", 4) == 0) {
        r->type = ROPE_YARN;
        return 0;
    }
    return err_set(ERR_UNSUPPORTED,
                   "%s: rope scaling \"%.*s\" is not known; known are none, "
                   "linear, yarn",
                   g->where, (int)type.len, type.data);
}

/* rope_freqs.weight divides the inverse frequencies (Llama 3.1 files carry it). */
static int read_freqs(const struct gguf *g, struct model_cfg *c) {
    const struct tensor *t = tensor_dir_find(&g->dir, "rope_freqs.weight");
    if (!t) {
        return 0;
    }
    if (t->type != DTYPE_F32 || t->n_dim != 1 || t->dim[0] != c->head_dim / 2 ||
        (uintptr_t)t->data % sizeof(float) != 0) {
        return err_set(ERR_FORMAT, "%s: rope_freqs.weight is no F32 vector of %d", g->where,
                       c->head_dim / 2);
    }
    c->rope.freq_factor = (const float *)(const void *)t->data;
    return 0;
}

static int read_ids(const struct gguf *g, struct model_cfg *c) {
    static const char *const keys[] = {"tokenizer.ggml.eos_token_id",
                                       "tokenizer.ggml.eot_token_id"};
    int rc = gguf_opt_i32(g, "tokenizer.ggml.bos_token_id", 0, MODEL_VOCAB_MAX, &c->bos);
    for (int32_t i = 0; i < ARRAY_LEN(keys) && !rc; i++) {
        int32_t id = -1;
        rc = gguf_opt_i32(g, keys[i], 0, MODEL_VOCAB_MAX, &id);
        rc = rc || id < 0 ? rc : hfconfig_add_eos(c, g->where, id);
    }
    return rc;
}

/* The vocabulary size: the key, else the rows of the embedding table. */
static int read_vocab(const struct gguf *g, const char *p, struct model_cfg *c) {
    char k[KEY_TEXT];
    const struct tensor *t = tensor_dir_find(&g->dir, "token_embd.weight");
    if (t && t->n_dim == 2 && t->dim[0] > 0 && t->dim[0] <= MODEL_VOCAB_MAX) {
        c->vocab = (int32_t)t->dim[0];
        return 0;
    }
    return gguf_need_i32(g, key_of(k, p, "vocab_size"), 1, MODEL_VOCAB_MAX, &c->vocab);
}

int ggufconfig_common(const struct gguf *g, const char *p, struct model_cfg *c) {
    char k[KEY_TEXT];
    double eps = (double)c->rms_eps;
    int rc = gguf_need_i32(g, key_of(k, p, "block_count"), 1, MODEL_LAYERS_MAX, &c->n_layer);
    rc = rc ? rc : gguf_need_i32(g, key_of(k, p, "attention.head_count"), 1, 4096, &c->n_head);
    rc = rc ? rc : gguf_need_i32(g, key_of(k, p, "embedding_length"), 1, SIZE_MAX_ANY, &c->hidden);
    rc = rc ? rc : gguf_need_i32(g, key_of(k, p, "feed_forward_length"), 1, SIZE_MAX_ANY, &c->ffn);
    rc = rc ? rc : gguf_need_i32(g, key_of(k, p, "context_length"), 1, SIZE_MAX_ANY, &c->ctx_max);
    if (rc) {
        return rc;
    }
    c->n_kv_head = c->n_head;
    c->head_dim = c->hidden / c->n_head;
    rc = gguf_opt_i32(g, key_of(k, p, "attention.head_count_kv"), 1, 4096, &c->n_kv_head);
    rc = rc ? rc : gguf_opt_i32(g, key_of(k, p, "attention.key_length"), 1, 4096, &c->head_dim);
    rc = rc ? rc : gguf_opt_f64(g, key_of(k, p, "attention.layer_norm_rms_epsilon"), &eps);
    rc = rc ? rc : gguf_opt_f64(g, key_of(k, p, "rope.freq_base"), &c->rope.theta);
    rc = rc ? rc : read_scaling(g, p, &c->rope);
    rc = rc ? rc : read_vocab(g, p, c);
    rc = rc ? rc : read_ids(g, c);
    rc = rc ? rc : read_freqs(g, c);
    c->rms_eps = (float)eps;
    c->tied = !tensor_dir_find(&g->dir, "output.weight");
    return rc;
}
