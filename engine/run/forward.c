/* src: the decoder of Llama (Touvron et al., 2023): pre-norm residual blocks, grouped-query
 * attention with rotary positions, gated MLP; Qwen3 adds an RMS norm on every q and k head; Gemma 3
 * norms what attention and MLP add, and caps the logits. Window, rotary table and experts are the
 * layer's. */
#include "engine/run/forward.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/base/mem.h"
#include "engine/base/str.h"
#include "engine/model/rope.h"

static void mark_layer(const struct layer_weights *lw, int32_t n_expert, bool used[DTYPE_N]) {
    for (int32_t r = 0; r < (lw->expert ? LINEAR_GATE : LINEAR_N); r++) {
        used[lw->lin[r].w.type] = true;
    }
    for (int32_t e = 0; e < n_expert && lw->expert; e++) {
        for (int32_t r = 0; r < ARRAY_LEN(lw->expert[e].lin); r++) {
            used[lw->expert[e].lin[r].w.type] = true;
        }
        used[lw->router.w.type] = true;
    }
}

/* Lists every weight format of the model that the backend cannot multiply. */
static int
check_support(const struct backend_ops *ops, struct backend *be, const struct weights *w) {
    bool used[DTYPE_N] = {false};
    char list[256] = "";
    used[w->embed.type] = true;
    used[w->head.w.type] = true;
    for (int32_t i = 0; i < w->cfg.n_layer; i++) {
        mark_layer(&w->layer[i], w->cfg.n_expert, used);
    }
    for (int32_t t = 0; t < DTYPE_N; t++) {
        size_t n = strlen(list);
        if (used[t] && !ops->supports_weight(be, (enum dtype)t)) {
            snprintf(list + n, sizeof list - n, " %s", dtype_info((enum dtype)t)->name);
        }
    }
    return list[0] ? err_set(ERR_UNSUPPORTED, "backend %s cannot multiply weights of type%s",
                             ops->name, list)
                   : 0;
}

/* Ops that only some models need. */
static int check_ops(const struct backend_ops *ops, const struct model_cfg *c) {
    bool experts = c->n_expert > 0 && !(ops->route && ops->scatter_add);
    bool cap = c->logit_softcap > 0 && !ops->softcap;
    return experts || cap ? err_set(ERR_UNSUPPORTED, "backend %s has no%s%s, which family %s needs",
                                    ops->name, experts ? " routing among experts" : "",
                                    cap ? " cap on logits" : "", c->family)
                          : 0;
}

int forward_buf(struct forward *f, int64_t rows, int64_t cols, float **out) {
    void *p = NULL;
    int64_t bytes = rows * cols * (int64_t)sizeof(float);
    int rc = f->ops->buf_alloc(f->be, bytes, &p);
    if (!rc) {
        *out = p;
        f->bytes += bytes;
    }
    return rc;
}

static int make_rope(const struct rope_cfg *c, int32_t head_dim, int32_t ctx_max, float **out) {
    float *table = mem_array(MEM_RUN, (int64_t)ctx_max * head_dim, (int64_t)sizeof *table);
    if (!table) {
        return ERR_NOMEM;
    }
    rope_table(c, head_dim, ctx_max, table);
    *out = table;
    return 0;
}

int forward_init(struct forward *f,
                 const struct backend_ops *ops,
                 struct backend *be,
                 const struct weights *w,
                 int32_t tok_max,
                 int32_t out_max,
                 int32_t ctx_max) {
    const struct model_cfg *c = &w->cfg;
    *f = (struct forward){.ops = ops, .be = be, .w = w, .tok_max = tok_max, .out_max = out_max};
    int rc = check_support(ops, be, w);
    rc = rc ? rc : check_ops(ops, c);
    if (rc) {
        return rc;
    }
    int32_t qd = c->n_head * c->head_dim;
    int32_t kd = c->n_kv_head * c->head_dim;
    int32_t ffn = i32_max(c->ffn, c->expert_ffn);
    rc = make_rope(&c->rope, c->head_dim, ctx_max, &f->rope[0]);
    if (!rc && c->has_rope_local) {
        rc = make_rope(&c->rope_local, c->head_dim, ctx_max, &f->rope[1]);
    }
    rc = rc ? rc : forward_buf(f, tok_max, c->hidden, &f->x);
    rc = rc ? rc : forward_buf(f, tok_max, c->hidden, &f->h);
    rc = rc ? rc : forward_buf(f, tok_max, qd, &f->q);
    rc = rc ? rc : forward_buf(f, tok_max, kd, &f->k);
    rc = rc ? rc : forward_buf(f, tok_max, kd, &f->v);
    rc = rc ? rc : forward_buf(f, tok_max, qd, &f->a);
    rc = rc ? rc : forward_buf(f, tok_max, ffn, &f->gate);
    rc = rc ? rc : forward_buf(f, tok_max, ffn, &f->up);
    rc = rc ? rc : forward_buf(f, out_max, c->hidden, &f->out);
    rc = rc ? rc : forward_buf(f, out_max, c->vocab, &f->logits);
    rc = rc || c->n_expert == 0 ? rc : moe_init(&f->moe, f);
    if (rc) {
        forward_fini(f);
    }
    return rc;
}

void forward_fini(struct forward *f) {
    float *const bufs[] = {f->x, f->h, f->q, f->k, f->v, f->a, f->gate, f->up, f->out, f->logits};
    for (int32_t i = 0; i < ARRAY_LEN(bufs); i++) {
        if (bufs[i]) {
            f->ops->buf_free(f->be, bufs[i]);
        }
    }
    moe_fini(&f->moe, f);
    mem_free(f->rope[0]);
    mem_free(f->rope[1]);
    *f = (struct forward){0};
}

int forward_embed(struct forward *f, const struct batch *b) {
    return f->ops->embed(f->be, f->x, &f->w->embed, b->tok, b->n_tok, f->w->cfg.embed_scale);
}

static int
see(const struct tap *tap, enum tap_point point, const float *x, int32_t n_tok, int32_t k) {
    return tap ? tap->see(tap->ctx, point, x, n_tok, k) : 0;
}

static int linear(struct forward *f,
                  float *y,
                  const float *x,
                  const struct linear *l,
                  int32_t T,
                  bool accumulate) {
    return f->ops->matmul(f->be, y, x, &l->w, l->bias, T, accumulate);
}

/* x += l(in), with the norm of what is added where there is one */
static int add_linear(struct forward *f,
                      float *x,
                      const float *in,
                      const struct linear *l,
                      const float *norm,
                      int32_t T) {
    const struct model_cfg *c = &f->w->cfg;
    if (!norm) {
        return linear(f, x, in, l, T, true);
    }
    int rc = linear(f, f->h, in, l, T, false);
    rc = rc ? rc
            : f->ops->rmsnorm(f->be, f->h, f->h, norm, T, c->hidden, c->rms_eps, c->norm_offset);
    return rc ? rc : f->ops->add(f->be, x, f->h, (int64_t)T * c->hidden);
}

/* x += o(attention(norm(x))) */
static int attention(struct forward *f,
                     const struct layer_weights *lw,
                     const struct kv_view *kv,
                     const struct batch *b,
                     float *x,
                     const struct tap *tap) {
    const struct backend_ops *o = f->ops;
    const struct model_cfg *c = &f->w->cfg;
    const float *rope = f->rope[lw->cfg.rope];
    struct attn_args args = c->attn;
    int32_t T = b->n_tok;
    args.window = lw->cfg.window;
    int rc = o->rmsnorm(f->be, f->h, x, lw->attn_norm, T, c->hidden, c->rms_eps, c->norm_offset);
    rc = rc ? rc : see(tap, TAP_QKV, f->h, T, c->hidden);
    rc = rc ? rc : linear(f, f->q, f->h, &lw->lin[LINEAR_Q], T, false);
    rc = rc ? rc : linear(f, f->k, f->h, &lw->lin[LINEAR_K], T, false);
    rc = rc ? rc : linear(f, f->v, f->h, &lw->lin[LINEAR_V], T, false);
    rc = rc ? rc
            : o->norm_rope(f->be, f->q, lw->q_norm, c->rms_eps, c->norm_offset, rope, b->pos, T,
                           c->n_head, c->head_dim);
    rc = rc ? rc
            : o->norm_rope(f->be, f->k, lw->k_norm, c->rms_eps, c->norm_offset, rope, b->pos, T,
                           c->n_kv_head, c->head_dim);
    rc = rc ? rc : o->kv_write(f->be, kv, f->k, f->v, b);
    rc = rc ? rc : o->attn(f->be, f->a, f->q, kv, b, c->n_head, &args);
    rc = rc ? rc : see(tap, TAP_O, f->a, T, c->n_head * c->head_dim);
    return rc ? rc : add_linear(f, x, f->a, &lw->lin[LINEAR_O], lw->attn_post_norm, T);
}

/* x += down(act(gate(norm(x))) * up(norm(x))), or the chosen experts' weighted sum of it */
static int mlp(struct forward *f,
               const struct layer_weights *lw,
               const struct batch *b,
               float *x,
               const struct tap *tap) {
    const struct backend_ops *o = f->ops;
    const struct model_cfg *c = &f->w->cfg;
    int32_t T = b->n_tok;
    int rc = o->rmsnorm(f->be, f->h, x, lw->mlp_norm, T, c->hidden, c->rms_eps, c->norm_offset);
    if (lw->expert) {
        return rc ? rc : moe_run(f, lw, T, x);
    }
    rc = rc ? rc : see(tap, TAP_GATE_UP, f->h, T, c->hidden);
    rc = rc ? rc : linear(f, f->gate, f->h, &lw->lin[LINEAR_GATE], T, false);
    rc = rc ? rc : linear(f, f->up, f->h, &lw->lin[LINEAR_UP], T, false);
    rc = rc ? rc : o->act_mul(f->be, f->gate, f->gate, f->up, (int64_t)T * c->ffn, c->act);
    rc = rc ? rc : see(tap, TAP_DOWN, f->gate, T, c->ffn);
    return rc ? rc : add_linear(f, x, f->gate, &lw->lin[LINEAR_DOWN], lw->mlp_post_norm, T);
}

int forward_layer(struct forward *f,
                  const struct layer_weights *lw,
                  const struct kv_view *kv,
                  const struct batch *b,
                  float *x,
                  const struct tap *tap) {
    int rc = attention(f, lw, kv, b, x, tap);
    return rc ? rc : mlp(f, lw, b, x, tap);
}

int forward_run(struct forward *f, struct kvmem *kv, const struct batch *group) {
    int rc = forward_embed(f, &group[0]);
    for (int32_t i = 0; i < f->w->cfg.n_layer && !rc; i++) {
        rc = forward_layer(f, &f->w->layer[i], &kv->layer[i], &group[kv->group[i]], f->x, NULL);
    }
    return rc;
}

int forward_logits(struct forward *f, const float *x, const int32_t *row, int32_t n) {
    const struct backend_ops *o = f->ops;
    const struct model_cfg *c = &f->w->cfg;
    int rc = o->gather(f->be, f->out, x, row, n, c->hidden);
    rc = rc ? rc
            : o->rmsnorm(f->be, f->out, f->out, f->w->final_norm, n, c->hidden, c->rms_eps,
                         c->norm_offset);
    rc = rc ? rc : linear(f, f->logits, f->out, &f->w->head, n, false);
    if (!rc && c->logit_softcap > 0) {
        rc = o->softcap(f->be, f->logits, (int64_t)n * c->vocab, c->logit_softcap);
    }
    return rc ? rc : o->sync(f->be);
}
