/* Binding is driven by two tables of names (Hugging Face and GGUF) and one table of shapes; a
 * missing or misshapen tensor is an error that says what was found and what was wanted.
 *
 * src: q and k rows of llama.cpp files: convert_hf_to_gguf.py, LlamaModel.permute: stored row 2i of
 * a head is row i, stored row 2i+1 is row i + D/2. Undone here, so that one rotary form serves. */
#include "engine/model/weights.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/base/mem.h"
#include "engine/base/str.h"
#include "engine/model/arch.h"
#include "engine/model/finite.h"
#include "engine/model/qbind.h"

static const struct {
    const char *hf;
    const char *gguf;
} role_names[LINEAR_N] = {{"self_attn.q_proj", "attn_q"}, {"self_attn.k_proj", "attn_k"},
                          {"self_attn.v_proj", "attn_v"}, {"self_attn.o_proj", "attn_output"},
                          {"mlp.gate_proj", "ffn_gate"},  {"mlp.up_proj", "ffn_up"},
                          {"mlp.down_proj", "ffn_down"}};

/* Where the text model sits in a folder: alone, or inside a multimodal one, old and new names. */
static const struct {
    const char *root;
    const char *head;
} places[] = {{"model.", "lm_head"},
              {"language_model.model.", "language_model.lm_head"},
              {"model.language_model.", "lm_head"}};

struct loader {
    struct weights *w;
    const struct arch *arch;
    int32_t place; /* HF */
    bool check;
    struct qbind bind; /* of quantized modules */
};

char *weights_module_name(char *dst, int32_t layer, enum linear_role role) {
    snprintf(dst, TENSOR_NAME_MAX, "model.layers.%d.%s", layer, role_names[role].hf);
    return dst;
}

void weights_linear_shape(const struct model_cfg *c,
                          enum linear_role role,
                          int32_t *n,
                          int32_t *k) {
    const int32_t q = c->n_head * c->head_dim;
    const int32_t kv = c->n_kv_head * c->head_dim;
    const int32_t shape[LINEAR_N][2] = {
        {q, c->hidden},      {kv, c->hidden},     {kv, c->hidden},    {c->hidden, q},
        {c->ffn, c->hidden}, {c->ffn, c->hidden}, {c->hidden, c->ffn}};
    *n = shape[role][0];
    *k = shape[role][1];
}

/* Memory that lives as long as the weights. */
static void *own(void *ctx, int64_t bytes) {
    struct weights *w = ctx;
    void **list = mem_realloc(MEM_WEIGHTS, w->owned, (w->n_owned + 1) * (int64_t)sizeof *list);
    if (!list) {
        return NULL;
    }
    w->owned = list;
    void *p = mem_calloc(MEM_WEIGHTS, bytes);
    if (p) {
        w->owned[w->n_owned++] = p;
    }
    return p;
}

static const char *module_name(const struct loader *l,
                               int32_t layer,
                               enum linear_role role,
                               char dst[TENSOR_NAME_MAX]) {
    if (l->w->ckpt->kind == CKPT_GGUF) {
        snprintf(dst, TENSOR_NAME_MAX, "blk.%d.%s", layer, role_names[role].gguf);
        return dst;
    }
    snprintf(dst, TENSOR_NAME_MAX, "%slayers.%d.%s", places[l->place].root, layer,
             role_names[role].hf);
    return dst;
}

static int find(const struct loader *l, const char *name, const struct tensor **t) {
    *t = ckpt_find(l->w->ckpt, name);
    if (!*t) {
        return err_set(ERR_NOTFOUND, "%s: tensor \"%s\" is missing", l->w->ckpt->path, name);
    }
    return l->check ? finite_check(*t, l->w->ckpt->path) : 0;
}

/* Binds a vector as f32. */
static int bind_vector(struct loader *l, const char *name, int32_t n, const float **out) {
    const struct tensor *t = NULL;
    char shape[TENSOR_SHAPE_TEXT];
    int rc = find(l, name, &t);
    if (rc) {
        return rc;
    }
    bool plain = t->type == DTYPE_F32 || t->type == DTYPE_F16 || t->type == DTYPE_BF16;
    if (!plain || t->n_dim != 1 || t->dim[0] != n) {
        return err_set(ERR_FORMAT, "%s: tensor \"%s\": %s %s, want F32, F16 or BF16 [%d]",
                       l->w->ckpt->path, name, dtype_info(t->type)->name,
                       tensor_shape_text(shape, t->dim, t->n_dim), n);
    }
    float *v = own(l->w, n * (int64_t)sizeof *v);
    if (!v) {
        return ERR_NOMEM;
    }
    for (int32_t i = 0; i < n; i++) {
        uint16_t h = 0;
        if (t->type == DTYPE_F32) {
            memcpy(&v[i], t->data + 4 * (int64_t)i, 4);
        } else {
            memcpy(&h, t->data + 2 * (int64_t)i, 2);
            v[i] = t->type == DTYPE_F16 ? f16_to_f32(h) : bf16_to_f32(h);
        }
    }
    l->w->n_param += n;
    l->w->bytes += t->bytes;
    *out = v;
    return 0;
}

/* Types that are whole in one tensor; scaled ones need more beside it. */
static bool multiplied(enum dtype t) {
    return dtype_info(t)->is_weight && !dtype_is_scaled(t);
}

/* Refuses scales beside the blocks of a GGUF matrix: they are not multiplied in. */
static int check_no_scale(const struct loader *l, const char *name) {
    static const char *const parts[] = {"scale", "input_scale"};
    char beside[TENSOR_NAME_MAX + 32];
    int stem = (int)strlen(name) - (int)sizeof "weight" + 1;
    for (int32_t i = 0; i < ARRAY_LEN(parts) && l->w->ckpt->kind == CKPT_GGUF; i++) {
        snprintf(beside, sizeof beside, "%.*s%s", stem, name, parts[i]);
        if (ckpt_find(l->w->ckpt, beside)) {
            return err_set(ERR_UNSUPPORTED,
                           "%s: tensor \"%s\": scales beside a block format are not computed",
                           l->w->ckpt->path, beside);
        }
    }
    return 0;
}

/* Finds plain or block-quantized matrices of a given shape. out: their type, and the first byte of
 * rows that may be used in place */
static int find_matrix(struct loader *l,
                       const char *name,
                       const int64_t *dim,
                       int32_t n_dim,
                       enum dtype *type,
                       const uint8_t **data) {
    const struct tensor *t = NULL;
    char shape[TENSOR_SHAPE_TEXT];
    char want[TENSOR_SHAPE_TEXT];
    int rc = find(l, name, &t);
    rc = rc ? rc : check_no_scale(l, name);
    if (rc) {
        return rc;
    }
    if (!multiplied(t->type)) {
        return err_set(ERR_UNSUPPORTED, "%s: tensor \"%s\": weights of type %s are not multiplied",
                       l->w->ckpt->path, name, dtype_info(t->type)->name);
    }
    if (t->n_dim != n_dim || memcmp(t->dim, dim, (size_t)n_dim * sizeof *dim) != 0) {
        return err_set(ERR_FORMAT, "%s: tensor \"%s\": shape %s, want %s", l->w->ckpt->path, name,
                       tensor_shape_text(shape, t->dim, t->n_dim),
                       tensor_shape_text(want, dim, n_dim));
    }
    *type = t->type;
    *data = t->data;
    if ((uintptr_t)t->data % (t->type == DTYPE_F32 ? 4 : 2) != 0) {
        void *copy = own(l->w, t->bytes); /* why: f32 rows are used in place */
        if (!copy) {
            return ERR_NOMEM;
        }
        memcpy(copy, t->data, (size_t)t->bytes);
        *data = copy;
    }
    l->w->n_param += dim[0] * dim[1] * (n_dim == 3 ? dim[2] : 1);
    l->w->bytes += t->bytes;
    return 0;
}

/* Binds a plain or block-quantized [n,k] matrix. */
static int bind_matrix(struct loader *l, const char *name, int32_t n, int32_t k, struct wmat *m) {
    const int64_t dim[2] = {n, k};
    enum dtype type = DTYPE_F32;
    const uint8_t *data = NULL;
    int rc = find_matrix(l, name, dim, 2, &type, &data);
    if (!rc) {
        *m = (struct wmat){
            .type = type, .n = n, .k = k, .data = data, .row_bytes = dtype_row_bytes(type, k)};
    }
    return rc;
}

/* Undoes llama.cpp's row order of q and k. */
static int unpermute(struct loader *l, struct linear *lin) {
    int32_t d = l->w->cfg.head_dim;
    int64_t row = lin->w.row_bytes;
    uint8_t *dst = own(l->w, lin->w.n * row);
    float *bias = lin->bias ? own(l->w, lin->w.n * (int64_t)sizeof *bias) : NULL;
    if (!dst || (lin->bias && !bias)) {
        return ERR_NOMEM;
    }
    for (int32_t r = 0; r < lin->w.n; r++) {
        int32_t i = r % d;
        int32_t from = r - i + (i < d / 2 ? 2 * i : 2 * (i - d / 2) + 1);
        memcpy(dst + r * row, (const uint8_t *)lin->w.data + from * row, (size_t)row);
        if (bias) {
            bias[r] = lin->bias[from];
        }
    }
    file_drop(lin->w.data, lin->w.n * row);
    lin->w.data = dst;
    lin->bias = bias;
    return 0;
}

/* Binds a matrix of a folder under its scheme. out: *scheme NULL when it is dense */
static int bind_scheme(struct loader *l,
                       const char *module,
                       const char *cls,
                       bool may_be_dense,
                       struct wmat *m,
                       const char **scheme) {
    const struct qscheme *s = NULL;
    int64_t params = (int64_t)m->n * m->k;
    int rc = 0;
    *scheme = NULL;
    if (l->w->ckpt->kind == CKPT_HF) {
        rc = qbind_module(&l->bind, module, cls, may_be_dense, m->n, m->k, &s, m);
    }
    if (!rc && s) {
        *scheme = s->text;
        l->w->n_param += params;
    }
    return rc;
}

/* A bias that the family does not have: old gptq files hold one of zeros for every module. */
static bool stray_bias(const struct loader *l, const char *name) {
    const struct tensor *t = ckpt_find(l->w->ckpt, name);
    bool found = false;
    for (int64_t i = 0; t && i < t->bytes && !found; i++) {
        found = t->data[i] != 0 && t->data[i] != 0x80; /* +0 and -0 */
    }
    return found;
}

static int bind_linear(
    struct loader *l, const char *module, int32_t n, int32_t k, bool bias, struct linear *lin) {
    char name[TENSOR_NAME_MAX + 32];
    bool router = str_ends(module, ".mlp.gate");
    lin->w = (struct wmat){.n = n, .k = k};
    int rc = bind_scheme(l, module, "Linear", router, &lin->w, &lin->scheme);
    if (!rc && !lin->scheme) {
        snprintf(name, sizeof name, "%s.weight", module);
        rc = bind_matrix(l, name, n, k, &lin->w);
        lin->scheme = dtype_info(lin->w.type)->name;
    }
    snprintf(name, sizeof name, "%s.bias", module);
    if (!bias && l->w->q.method != QMETHOD_NONE) {
        bias = stray_bias(l, name);
    }
    return rc || !bias ? rc : bind_vector(l, name, n, &lin->bias);
}

static bool has_bias(const struct model_cfg *c, enum linear_role role) {
    if (role == LINEAR_O) {
        return c->o_bias;
    }
    return role <= LINEAR_V ? c->attn_bias : c->mlp_bias;
}

bool weights_norm_name(const struct model_cfg *c, enum norm_role role, struct norm_name *out) {
    static const struct norm_name names[NORM_N] = {
        [NORM_ATTN] = {"input_layernorm", "attn_norm", 0},
        [NORM_MLP] = {"post_attention_layernorm", "ffn_norm", 0},
        [NORM_Q] = {"self_attn.q_norm", "attn_q_norm", 0},
        [NORM_K] = {"self_attn.k_norm", "attn_k_norm", 0},
        [NORM_ATTN_POST] = {"post_attention_layernorm", "post_attention_norm", 0},
        [NORM_MLP_POST] = {"post_feedforward_layernorm", "post_ffw_norm", 0}};
    bool head = role == NORM_Q || role == NORM_K;
    if ((head && !c->qk_norm) || (role >= NORM_ATTN_POST && !c->post_norm)) {
        return false;
    }
    *out = names[role];
    out->n = head ? c->head_dim : c->hidden;
    if (role == NORM_MLP && c->post_norm) {
        out->hf = "pre_feedforward_layernorm";
    }
    return true;
}

static int bind_norms(struct loader *l, int32_t i, struct layer_weights *lw) {
    const float **dst[NORM_N] = {&lw->attn_norm, &lw->mlp_norm,       &lw->q_norm,
                                 &lw->k_norm,    &lw->attn_post_norm, &lw->mlp_post_norm};
    int rc = 0;
    for (int32_t j = 0; j < NORM_N && !rc; j++) {
        char name[TENSOR_NAME_MAX];
        struct norm_name norm;
        if (!weights_norm_name(&l->w->cfg, (enum norm_role)j, &norm)) {
            continue;
        }
        if (l->w->ckpt->kind == CKPT_GGUF) {
            snprintf(name, sizeof name, "blk.%d.%s.weight", i, norm.gguf);
        } else {
            snprintf(name, sizeof name, "%slayers.%d.%s.weight", places[l->place].root, i, norm.hf);
        }
        rc = bind_vector(l, name, norm.n, dst[j]);
    }
    return rc;
}

static void expert_shape(const struct model_cfg *c, enum linear_role role, int32_t *n, int32_t *k) {
    *n = role == LINEAR_DOWN ? c->hidden : c->expert_ffn;
    *k = role == LINEAR_DOWN ? c->expert_ffn : c->hidden;
}

/* GGUF: one tensor [n_expert,n,k] holds one matrix of all experts. */
static int bind_stacked(struct loader *l, int32_t i, enum linear_role role, struct expert *e) {
    const struct model_cfg *c = &l->w->cfg;
    char name[TENSOR_NAME_MAX];
    int32_t n = 0;
    int32_t k = 0;
    enum dtype type = DTYPE_F32;
    const uint8_t *data = NULL;
    expert_shape(c, role, &n, &k);
    snprintf(name, sizeof name, "blk.%d.%s_exps.weight", i, role_names[role].gguf);
    int rc = find_matrix(l, name, (const int64_t[]){c->n_expert, n, k}, 3, &type, &data);
    for (int32_t j = 0; j < c->n_expert && !rc; j++) {
        int64_t row = dtype_row_bytes(type, k);
        e[j].lin[role - LINEAR_GATE].w = (struct wmat){
            .type = type, .n = n, .k = k, .data = data + j * (n * row), .row_bytes = row};
        e[j].lin[role - LINEAR_GATE].scheme = dtype_info(type)->name;
    }
    return rc;
}

/* A folder: every matrix of every expert is a module. */
static int bind_separate(struct loader *l, int32_t i, enum linear_role role, struct expert *e) {
    const struct model_cfg *c = &l->w->cfg;
    int32_t n = 0;
    int32_t k = 0;
    int rc = 0;
    expert_shape(c, role, &n, &k);
    for (int32_t j = 0; j < c->n_expert && !rc; j++) {
        char module[TENSOR_NAME_MAX];
        const char *part = role_names[role].hf + sizeof "mlp." - 1;
        snprintf(module, sizeof module, "%slayers.%d.mlp.experts.%d.%s", places[l->place].root, i,
                 j, part);
        rc = bind_linear(l, module, n, k, false, &e[j].lin[role - LINEAR_GATE]);
        if (!rc && e[j].lin[role - LINEAR_GATE].bias) {
            rc = err_set(ERR_UNSUPPORTED, "%s: module \"%s\": a bias of an expert is not added",
                         l->w->ckpt->path, module);
        }
    }
    return rc;
}

static int bind_experts(struct loader *l, int32_t i, struct layer_weights *lw) {
    const struct model_cfg *c = &l->w->cfg;
    bool gg = l->w->ckpt->kind == CKPT_GGUF;
    char module[TENSOR_NAME_MAX];
    if (gg) {
        snprintf(module, sizeof module, "blk.%d.ffn_gate_inp", i);
    } else {
        snprintf(module, sizeof module, "%slayers.%d.mlp.gate", places[l->place].root, i);
    }
    int rc = bind_linear(l, module, c->n_expert, c->hidden, false, &lw->router);
    lw->expert = rc ? NULL : own(l->w, c->n_expert * (int64_t)sizeof *lw->expert);
    if (!lw->expert) {
        return rc ? rc : ERR_NOMEM;
    }
    for (int32_t r = LINEAR_GATE; r < LINEAR_N && !rc; r++) {
        enum linear_role role = (enum linear_role)r;
        rc = gg ? bind_stacked(l, i, role, lw->expert) : bind_separate(l, i, role, lw->expert);
    }
    return rc;
}

/* Scales of a static cache. */
static int bind_kv(struct loader *l, int32_t i, struct layer_weights *lw) {
    char module[TENSOR_NAME_MAX];
    lw->k_scale = lw->v_scale = 1;
    if (!l->w->q.kv_f8) {
        return 0;
    }
    snprintf(module, sizeof module, "%slayers.%d.self_attn", places[l->place].root, i);
    int rc = qbind_kv_scale(&l->bind, module, "k_scale", &lw->k_scale);
    return rc ? rc : qbind_kv_scale(&l->bind, module, "v_scale", &lw->v_scale);
}

static int bind_layer(struct loader *l, int32_t i) {
    struct layer_weights *lw = &l->w->layer[i];
    lw->cfg = l->w->cfg.layer[i];
    int rc = bind_norms(l, i, lw);
    for (int32_t r = 0; r < (lw->cfg.moe ? LINEAR_GATE : LINEAR_N) && !rc; r++) {
        char module[TENSOR_NAME_MAX];
        int32_t n = 0;
        int32_t k = 0;
        enum linear_role role = (enum linear_role)r;
        weights_linear_shape(&l->w->cfg, role, &n, &k);
        rc = bind_linear(l, module_name(l, i, role, module), n, k, has_bias(&l->w->cfg, role),
                         &lw->lin[r]);
        if (!rc && l->w->ckpt->kind == CKPT_GGUF && l->arch->gguf_permutes_qk && r <= LINEAR_K) {
            rc = unpermute(l, &lw->lin[r]);
        }
    }
    rc = rc ? rc : bind_kv(l, i, lw);
    return rc || !lw->cfg.moe ? rc : bind_experts(l, i, lw);
}

/* Which of the places holds the embedding table; the first when none does. */
static void find_place(struct loader *l) {
    for (int32_t i = ARRAY_LEN(places) - 1; i >= 0; i--) {
        char name[TENSOR_NAME_MAX];
        snprintf(name, sizeof name, "%sembed_tokens", places[i].root);
        if (qbind_stored(l->w->ckpt, name) != QLAYOUT_N) {
            l->place = i;
        }
    }
}

static int bind_embed(struct loader *l, const char *module) {
    char name[TENSOR_NAME_MAX + 32];
    struct weights *w = l->w;
    w->embed = (struct wmat){.n = w->cfg.vocab, .k = w->cfg.hidden};
    int rc = bind_scheme(l, module, "Embedding", false, &w->embed, &w->embed_scheme);
    if (rc || w->embed_scheme) {
        return rc;
    }
    snprintf(name, sizeof name, "%s.weight", module);
    rc = bind_matrix(l, name, w->cfg.vocab, w->cfg.hidden, &w->embed);
    w->embed_scheme = dtype_info(w->embed.type)->name;
    return rc;
}

/* A tied head may still be stored, quantized. out: *own */
static int tied_head(struct loader *l, bool *own_head) {
    const struct qscheme *s = NULL;
    const char *head = places[l->place].head;
    *own_head = false;
    if (l->w->ckpt->kind != CKPT_HF) {
        return 0;
    }
    int rc = qformat_find(&l->w->q, head, "Linear", &s);
    enum qlayout stored = qbind_stored(l->w->ckpt, head);
    *own_head = s && stored != QLAYOUT_N && stored != QLAYOUT_DENSE;
    return rc;
}

static int bind_ends(struct loader *l) {
    bool own_head = !l->w->cfg.tied;
    char embed[TENSOR_NAME_MAX];
    char norm[TENSOR_NAME_MAX];
    bool gg = l->w->ckpt->kind == CKPT_GGUF;
    const struct model_cfg *c = &l->w->cfg;
    snprintf(embed, sizeof embed, "%sembed_tokens", places[l->place].root);
    snprintf(norm, sizeof norm, "%snorm.weight", places[l->place].root);
    int rc = bind_embed(l, gg ? "token_embd" : embed);
    rc = rc ? rc : bind_vector(l, gg ? "output_norm.weight" : norm, c->hidden, &l->w->final_norm);
    if (!rc && c->tied) {
        rc = tied_head(l, &own_head);
    }
    if (!rc && !own_head) {
        l->w->head = (struct linear){.w = l->w->embed, .scheme = l->w->embed_scheme};
    } else if (!rc) {
        rc = bind_linear(l, gg ? "output" : places[l->place].head, c->vocab, c->hidden, false,
                         &l->w->head);
    }
    return rc;
}

static int load_all(struct loader *l) {
    struct weights *w = l->w;
    int rc = arch_find(w->ckpt, &l->arch);
    rc = rc ? rc : arch_read_cfg(w->ckpt, &w->cfg);
    rc = rc ? rc : qformat_open(w->ckpt, &w->q);
    if (rc) {
        return rc;
    }
    l->bind = (struct qbind){.c = w->ckpt, .q = &w->q, .alloc = own, .ctx = w, .check = l->check};
    w->layer = mem_array(MEM_WEIGHTS, w->cfg.n_layer, (int64_t)sizeof *w->layer);
    if (!w->layer) {
        return ERR_NOMEM;
    }
    find_place(l);
    rc = bind_ends(l);
    for (int32_t i = 0; i < w->cfg.n_layer && !rc; i++) {
        rc = bind_layer(l, i);
    }
    if (!rc) {
        const struct layer_weights *lw = &w->layer[0];
        const struct linear *up =
            lw->expert ? &lw->expert[0].lin[LINEAR_UP - LINEAR_GATE] : &lw->lin[LINEAR_UP];
        str_copy(w->scheme, (int64_t)sizeof w->scheme, w->q.n_scheme > 0 ? w->q.text : up->scheme);
        str_copy(w->note, (int64_t)sizeof w->note, l->bind.note);
        w->bytes += l->bind.bytes;
    }
    return rc;
}

int weights_load(const struct ckpt *c, const struct weights_opts *opts, struct weights **out) {
    struct weights *w = mem_calloc(MEM_WEIGHTS, (int64_t)sizeof *w);
    if (!w) {
        return ERR_NOMEM;
    }
    w->ckpt = c;
    struct loader l = {.w = w, .check = !(opts && opts->no_finite_check)};
    int rc = load_all(&l);
    if (rc) {
        weights_free(w);
        return rc;
    }
    *out = w;
    return 0;
}

void weights_free(struct weights *w) {
    if (!w) {
        return;
    }
    for (int32_t i = 0; i < w->n_owned; i++) {
        mem_free(w->owned[i]);
    }
    mem_free(w->owned);
    mem_free(w->layer);
    qformat_fini(&w->q);
    mem_free(w);
}
