#include "engine/run/fused.h"

#include <string.h>

#include "engine/base/err.h"
#include "engine/base/mem.h"
#include "engine/model/rope.h"

static int make_rope(const struct rope_cfg *c, int32_t head_dim, int32_t ctx_max, float **out) {
    float *table = mem_array(MEM_RUN, (int64_t)ctx_max * head_dim, (int64_t)sizeof *table);
    if (!table) {
        return ERR_NOMEM;
    }
    rope_table(c, head_dim, ctx_max, table);
    *out = table;
    return 0;
}

static void fill_layer(const struct layer_weights *lw,
                       const struct kv_view *kv,
                       int32_t group,
                       struct decoder_layer *out) {
    *out = (struct decoder_layer){.attn_norm = lw->attn_norm,
                                  .mlp_norm = lw->mlp_norm,
                                  .q_norm = lw->q_norm,
                                  .k_norm = lw->k_norm,
                                  .kv = *kv,
                                  .kv_group = group,
                                  .window = lw->cfg.window,
                                  .rope = lw->cfg.rope};
    for (int32_t r = 0; r < LINEAR_N; r++) {
        out->lin[r] = (struct decoder_linear){.w = lw->lin[r].w, .bias = lw->lin[r].bias};
    }
}

/* Models whose decoder has parts that struct decoder does not name. */
static bool has_more(const struct weights *w) {
    bool more = w->cfg.post_norm;
    for (int32_t i = 0; i < w->cfg.n_layer; i++) {
        more = more || w->layer[i].expert;
    }
    return more;
}

static int open_decoder(struct fused *f,
                        const struct backend_ops *ops,
                        struct backend *be,
                        const struct weights *w,
                        const struct fused_max *max) {
    const struct model_cfg *c = &w->cfg;
    struct decoder d = {.n_layer = c->n_layer,
                        .n_head = c->n_head,
                        .n_kv_head = c->n_kv_head,
                        .head_dim = c->head_dim,
                        .hidden = c->hidden,
                        .ffn = c->ffn,
                        .vocab = c->vocab,
                        .ctx_max = max->ctx,
                        .tok_max = max->tok,
                        .seq_max = max->seq,
                        .out_max = max->out,
                        .rms_eps = c->rms_eps,
                        .norm_offset = c->norm_offset,
                        .embed_scale = c->embed_scale,
                        .logit_softcap = c->logit_softcap,
                        .act = c->act,
                        .attn = c->attn,
                        .rope = {f->rope[0], f->rope[1]},
                        .embed = w->embed,
                        .head = {.w = w->head.w, .bias = w->head.bias},
                        .final_norm = w->final_norm,
                        .layer = f->layer};
    int rc = ops->decoder_open(be, &d, &f->dev);
    return rc == ERR_UNSUPPORTED ? 0 : rc;
}

int fused_init(struct fused *f,
               const struct backend_ops *ops,
               struct backend *be,
               const struct weights *w,
               const struct kvmem *kv,
               const struct fused_max *max) {
    const struct model_cfg *c = &w->cfg;
    *f = (struct fused){0};
    if (!ops->decoder_open || has_more(w)) {
        return 0;
    }
    f->layer = mem_array(MEM_RUN, c->n_layer, (int64_t)sizeof *f->layer);
    int rc = f->layer ? make_rope(&c->rope, c->head_dim, max->ctx, &f->rope[0]) : ERR_NOMEM;
    if (!rc && c->has_rope_local) {
        rc = make_rope(&c->rope_local, c->head_dim, max->ctx, &f->rope[1]);
    }
    for (int32_t i = 0; i < c->n_layer && !rc; i++) {
        fill_layer(&w->layer[i], &kv->layer[i], kv->group[i], &f->layer[i]);
    }
    rc = rc ? rc : open_decoder(f, ops, be, w, max);
    if (!rc && f->dev) {
        f->logits = mem_array(MEM_RUN, (int64_t)max->host_rows * c->vocab, 4);
        rc = f->logits ? 0 : ERR_NOMEM;
    }
    if (rc || !f->dev) {
        fused_fini(f, ops, be);
    }
    return rc;
}

void fused_fini(struct fused *f, const struct backend_ops *ops, struct backend *be) {
    if (f->dev) {
        ops->decoder_close(be, f->dev);
    }
    mem_free(f->layer);
    mem_free(f->rope[0]);
    mem_free(f->rope[1]);
    mem_free(f->logits);
    *f = (struct fused){0};
}
