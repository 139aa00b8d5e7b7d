/* The parts are opened one by one, each kept that opens:
 *
 *     container -> family and sizes -> quantization -> weights (checked) -> tokenizer, template
 *
 * Modules are told from the tensors' names, so that a checkpoint of any family has its list. */
#include "harness/describe.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/base/file.h"
#include "engine/base/str.h"
#include "engine/model/arch.h"
#include "engine/model/qbind.h"
#include "engine/run/model.h"

enum { ERROR_MAX = 512, HASH_SHOWN = 16, LINE_SHOWN = 120 };

struct describe {
    struct model m; /* own parts; weights NULL when they were refused */
    struct model_cfg cfg;
    struct qformat q; /* own */
    bool has_cfg;
    bool has_q;
    json_t *refusals; /* own */
    int rc;           /* the first refusal that is no ERR_UNSUPPORTED */
    char first[ERROR_MAX];
};

static bool ok(struct describe *d, const char *what, int rc) {
    if (!rc) {
        return true;
    }
    json_array_append_new(d->refusals, json_sprintf("%s: %s", what, err_msg()));
    if (!d->rc && rc != ERR_UNSUPPORTED) {
        d->rc = rc;
        str_copy(d->first, (int64_t)sizeof d->first, err_msg());
    }
    return false;
}

static void open_parts(struct describe *d, const char *path) {
    d->has_cfg = ok(d, "family", arch_read_cfg(d->m.ckpt, &d->cfg));
    d->has_q = ok(d, "quantization", qformat_open(d->m.ckpt, &d->q));
    if (d->has_cfg && d->has_q) {
        ok(d, "weights", weights_load(d->m.ckpt, NULL, &d->m.weights));
    }
    ok(d, "tokenizer", model_open_text(&d->m, path));
}

static json_t *tensor_list(const struct ckpt *c) {
    json_t *list = json_array();
    for (int32_t i = 0; i < c->dir.n; i++) {
        const struct tensor *t = &c->dir.items[i];
        json_t *shape = json_array();
        for (int32_t k = 0; k < t->n_dim; k++) {
            json_array_append_new(shape, json_integer(t->dim[k]));
        }
        json_array_append_new(list, json_pack("{s:s, s:s, s:o, s:I}", "name", t->name, "dtype",
                                              dtype_info(t->type)->name, "shape", shape, "bytes",
                                              (json_int_t)t->bytes));
    }
    return list;
}

static json_t *type_sums(const struct ckpt *c) {
    json_t *o = json_object();
    for (int32_t i = 0; i < c->dir.n; i++) {
        const struct tensor *t = &c->dir.items[i];
        const char *name = dtype_info(t->type)->name;
        json_int_t before = json_integer_value(json_object_get(o, name));
        json_object_set_new(o, name, json_integer(before + t->bytes));
    }
    return o;
}

/* "model.layers.7.mlp.experts.3.up_proj" becomes "mlp.experts.*.up_proj": numbers are stars, and
 * what is in front of the first goes with it. */
static void pattern_of(const char *module, char dst[TENSOR_NAME_MAX]) {
    const char *p = module;
    char *out = dst;
    bool cut = false;
    while (*p && out < dst + TENSOR_NAME_MAX - 2) {
        size_t n = strcspn(p, ".");
        bool number = n > 0 && strspn(p, "0123456789") == n;
        if (number && !cut && p[n] == '.') {
            out = dst;
            cut = true;
            p += n + 1;
            continue;
        }
        size_t room = (size_t)(dst + TENSOR_NAME_MAX - 2 - out);
        size_t take = number ? 1 : n < room ? n : room;
        memcpy(out, number ? "*" : p, take);
        out += take;
        p += n;
        if (*p == '.') {
            *out++ = *p++;
        }
    }
    *out = '\0';
}

/* The tensor that stands for its module. out: false for vectors, scales and the like */
static bool module_of(const struct tensor *t, char dst[TENSOR_NAME_MAX]) {
    static const char *const parts[] = {".weight_packed", ".qweight", ".weight"};
    for (int32_t i = 0; i < ARRAY_LEN(parts); i++) {
        if (t->n_dim >= 2 && str_ends(t->name, parts[i])) {
            size_t n = strlen(t->name) - strlen(parts[i]);
            str_copy(dst, TENSOR_NAME_MAX, t->name);
            dst[n < TENSOR_NAME_MAX ? n : TENSOR_NAME_MAX - 1] = '\0';
            return true;
        }
    }
    return false;
}

static const char *scheme_of(struct describe *d, const char *module, const struct tensor *t) {
    const struct qscheme *s = NULL;
    const char *cls = str_ends(module, "embed_tokens") ? "Embedding" : "Linear";
    if (!d->has_q) {
        return "not read";
    }
    if (d->m.ckpt->kind != CKPT_HF) {
        return dtype_info(t->type)->name;
    }
    int rc = qbind_scheme(d->m.ckpt, &d->q, module, cls, str_ends(module, ".mlp.gate"), &s);
    return rc ? "not read" : s ? s->text : dtype_info(t->type)->name;
}

/* Modules of one place and scheme are counted together. */
static json_t *module_list(struct describe *d) {
    json_t *list = json_array();
    json_t *index = json_object();
    for (int32_t i = 0; i < d->m.ckpt->dir.n; i++) {
        const struct tensor *t = &d->m.ckpt->dir.items[i];
        char module[TENSOR_NAME_MAX];
        char pattern[TENSOR_NAME_MAX];
        char key[TENSOR_NAME_MAX + QSCHEME_TEXT];
        if (!module_of(t, module)) {
            continue;
        }
        const char *scheme = scheme_of(d, module, t);
        pattern_of(module, pattern);
        snprintf(key, sizeof key, "%s %s", pattern, scheme);
        json_t *one = json_object_get(index, key);
        if (one) {
            json_int_t n = json_integer_value(json_object_get(one, "count"));
            json_object_set_new(one, "count", json_integer(n + 1));
            continue;
        }
        one = json_pack("{s:s, s:i, s:s}", "modules", pattern, "count", 1, "scheme", scheme);
        json_object_set(index, key, one);
        json_array_append_new(list, one);
    }
    json_decref(index);
    return list;
}

/* Stored bytes of everything under a module. */
static int64_t module_bytes(const struct ckpt *c, const char *suffix) {
    int64_t sum = 0;
    for (int32_t i = 0; i < c->dir.n; i++) {
        const char *at = strstr(c->dir.items[i].name, suffix);
        sum += at && (at == c->dir.items[i].name || at[-1] == '.') ? c->dir.items[i].bytes : 0;
    }
    return sum;
}

/* Bits a weight without the embedding table and the head. */
static double bits_inside(const struct describe *d) {
    const struct weights *w = d->m.weights;
    bool gg = d->m.ckpt->kind == CKPT_GGUF;
    int64_t table = (int64_t)w->cfg.vocab * w->cfg.hidden;
    int64_t bytes = w->bytes - module_bytes(d->m.ckpt, gg ? "token_embd." : "embed_tokens.");
    int64_t params = w->n_param - table;
    if (w->head.w.data != w->embed.data) {
        bytes -= module_bytes(d->m.ckpt, gg ? "output.weight" : "lm_head.");
        params -= table;
    }
    return params > 0 ? 8.0 * (double)bytes / (double)params : 0;
}

static void put_sizes(const struct describe *d, json_t *o) {
    const struct model_cfg *c = &d->cfg;
    const struct {
        const char *key;
        int32_t value;
    } sizes[] = {{"layers", c->n_layer},
                 {"hidden", c->hidden},
                 {"ffn", c->ffn},
                 {"heads", c->n_head},
                 {"kv_heads", c->n_kv_head},
                 {"head_dim", c->head_dim},
                 {"vocab", c->vocab},
                 {"context", c->ctx_max},
                 {"experts", c->n_expert},
                 {"experts_used", c->n_expert_used}};
    json_object_set_new(o, "family", d->has_cfg ? json_string(c->family) : json_null());
    for (int32_t i = 0; i < ARRAY_LEN(sizes); i++) {
        json_object_set_new(o, sizes[i].key,
                            d->has_cfg ? json_integer(sizes[i].value) : json_null());
    }
    json_object_set_new(o, "tied", d->has_cfg ? json_boolean(c->tied) : json_null());
    json_object_set_new(o, "kv_bytes_per_token",
                        d->has_cfg ? json_integer(model_cfg_kv_bytes_per_token(c, DTYPE_F32))
                                   : json_null());
}

static void put_weights(const struct describe *d, json_t *o) {
    const struct weights *w = d->m.weights;
    const char *scheme = w ? w->scheme : d->has_q && d->q.n_scheme > 0 ? d->q.text : NULL;
    json_object_set_new(o, "scheme", scheme ? json_string(scheme) : json_null());
    json_object_set_new(o, "parameters", w ? json_integer(w->n_param) : json_null());
    json_object_set_new(o, "weight_bytes", w ? json_integer(w->bytes) : json_null());
    json_object_set_new(o, "bits_per_weight",
                        w ? json_real(8.0 * (double)w->bytes / (double)w->n_param) : json_null());
    json_object_set_new(o, "bits_per_weight_inside", w ? json_real(bits_inside(d)) : json_null());
    json_object_set_new(o, "note", w && w->note[0] ? json_string(w->note) : json_null());
}

/* The cache that the checkpoint asks for, and its scales by layer. */
static json_t *kv_cache(const struct describe *d) {
    if (!d->has_q || !d->q.kv_f8) {
        return json_null();
    }
    json_t *k = json_array();
    json_t *v = json_array();
    for (int32_t i = 0; d->m.weights && i < d->cfg.n_layer; i++) {
        json_array_append_new(k, json_real((double)d->m.weights->layer[i].k_scale));
        json_array_append_new(v, json_real((double)d->m.weights->layer[i].v_scale));
    }
    return json_pack("{s:s, s:o, s:o}", "type", "F8_E4M3", "k_scale", k, "v_scale", v);
}

static json_t *chat_template(const struct model *m) {
    char hash[FILE_SHA256_HEX];
    const char *src = m->tok ? tok_chat_template(m->tok) : NULL;
    if (!src || mem_sha256(src, (int64_t)strlen(src), hash)) {
        return json_null();
    }
    size_t n = strcspn(src, "\r\n");
    size_t shown = n < LINE_SHOWN ? n : LINE_SHOWN;
    while (shown < n && shown > 0 && ((unsigned char)src[shown] & 0xc0) == 0x80) {
        shown--; /* not inside a character */
    }
    return json_pack("{s:s#, s:s#, s:I}", "sha256", hash, HASH_SHOWN, "first_line", src, (int)shown,
                     "bytes", (json_int_t)strlen(src));
}

static void put_text(const struct describe *d, json_t *o) {
    const struct model *m = &d->m;
    const char *kind = m->tok && tok_is_byte_level(m->tok) ? "byte-level BPE" : "character BPE";
    json_object_set_new(o, "tokenizer", m->tok ? json_string(kind) : json_null());
    json_object_set_new(o, "tokenizer_vocab",
                        m->tok ? json_integer(tok_n_vocab(m->tok)) : json_null());
    json_object_set_new(o, "tokenizer_error", m->tok ? json_null() : json_string(m->tok_error));
    json_object_set_new(o, "chat_template", chat_template(m));
    json_object_set_new(o, "chat_template_error",
                        m->chat ? json_null() : json_string(m->chat_error));
}

static json_t *make(struct describe *d, bool tensors) {
    const struct ckpt *c = d->m.ckpt;
    json_t *o = json_pack("{s:s, s:s, s:I, s:i, s:i}", "path", c->path, "container",
                          c->gguf ? "gguf" : "safetensors", "file_bytes", (json_int_t)c->file_bytes,
                          "n_files", c->n_file, "n_tensors", c->dir.n);
    if (!o) {
        return NULL;
    }
    put_sizes(d, o);
    put_weights(d, o);
    json_object_set_new(o, "modules", module_list(d));
    json_object_set_new(o, "kv_cache", kv_cache(d));
    json_object_set_new(o, "bytes_by_dtype", type_sums(c));
    put_text(d, o);
    json_object_set(o, "refusals", d->refusals);
    if (tensors) {
        json_object_set_new(o, "tensors", tensor_list(c));
    }
    return o;
}

int describe_checkpoint(const char *path, bool tensors, json_t **j) {
    struct describe d = {.refusals = json_array()};
    int rc = ckpt_open(path, &d.m.ckpt);
    if (rc) {
        json_decref(d.refusals);
        return rc;
    }
    open_parts(&d, path);
    *j = make(&d, tensors);
    if (!*j) {
        d.rc = ERR_INTERNAL;
        snprintf(d.first, sizeof d.first, "%.400s: a text in the checkpoint is no valid UTF-8",
                 path);
    }
    rc = d.rc ? err_set(d.rc, "%s", d.first) : 0;
    chat_free(d.m.chat);
    tok_destroy(d.m.tok);
    weights_free(d.m.weights);
    ckpt_close(d.m.ckpt);
    qformat_fini(&d.q);
    json_decref(d.refusals);
    return rc;
}
