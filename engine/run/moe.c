/* Rows are sorted by expert, so that an expert's matrices are read once for all its rows:
 *
 *     route -> count, sort -> for each expert: gather rows, gate and up, act, down, scatter
 *
 * A row's sum takes its experts in ascending order, and each product depends on its row alone, so
 * law 5 of kernels/ops.h holds for the layer.
 * src: Shazeer et al., "Outrageously Large Neural Networks", 2017; the loop over experts of
 * transformers, modeling_qwen3_moe.py. */
#include "engine/run/moe.h"

#include <string.h>

#include "engine/base/err.h"
#include "engine/base/mem.h"
#include "engine/run/forward.h"

int moe_init(struct moe *m, struct forward *f) {
    const struct model_cfg *c = &f->w->cfg;
    int64_t picks = (int64_t)f->tok_max * c->n_expert_used;
    int rc = forward_buf(f, f->tok_max, c->n_expert, &m->logits);
    rc = rc ? rc : forward_buf(f, f->tok_max, c->hidden, &m->x);
    rc = rc ? rc : forward_buf(f, f->tok_max, c->hidden, &m->y);
    if (rc) {
        return rc;
    }
    m->expert = mem_array(MEM_RUN, picks, (int64_t)sizeof *m->expert);
    m->weight = mem_array(MEM_RUN, picks, (int64_t)sizeof *m->weight);
    m->first = mem_array(MEM_RUN, c->n_expert + 1, (int64_t)sizeof *m->first);
    m->row = mem_array(MEM_RUN, picks, (int64_t)sizeof *m->row);
    m->share = mem_array(MEM_RUN, picks, (int64_t)sizeof *m->share);
    return m->expert && m->weight && m->first && m->row && m->share ? 0 : ERR_NOMEM;
}

void moe_fini(struct moe *m, struct forward *f) {
    float *const bufs[] = {m->logits, m->x, m->y};
    for (int32_t i = 0; i < ARRAY_LEN(bufs); i++) {
        if (bufs[i]) {
            f->ops->buf_free(f->be, bufs[i]);
        }
    }
    mem_free(m->expert);
    mem_free(m->weight);
    mem_free(m->first);
    mem_free(m->row);
    mem_free(m->share);
    *m = (struct moe){0};
}

/* Counting sort of the picks by expert; rows stay ascending. */
static void sort_picks(struct moe *m, int32_t n_tok, int32_t n_expert, int32_t n_used) {
    memset(m->first, 0, (size_t)(n_expert + 1) * sizeof *m->first);
    for (int32_t i = 0; i < n_tok * n_used; i++) {
        m->first[m->expert[i] + 1]++;
    }
    for (int32_t e = 0; e < n_expert; e++) {
        m->first[e + 1] += m->first[e];
    }
    for (int32_t i = 0; i < n_tok * n_used; i++) {
        int32_t at = m->first[m->expert[i]]++;
        m->row[at] = i / n_used;
        m->share[at] = m->weight[i];
    }
    /* each first has moved to the next expert's */
    memmove(m->first + 1, m->first, (size_t)n_expert * sizeof *m->first);
    m->first[0] = 0;
}

static int run_expert(struct forward *f,
                      const struct expert *e,
                      const int32_t *row,
                      const float *share,
                      int32_t n,
                      float *x) {
    const struct backend_ops *o = f->ops;
    const struct model_cfg *c = &f->w->cfg;
    const struct wmat *gate = &e->lin[0].w;
    const struct wmat *up = &e->lin[LINEAR_UP - LINEAR_GATE].w;
    const struct wmat *down = &e->lin[LINEAR_DOWN - LINEAR_GATE].w;
    int rc = o->gather(f->be, f->moe.x, f->h, row, n, c->hidden);
    rc = rc ? rc : o->matmul(f->be, f->gate, f->moe.x, gate, NULL, n, false);
    rc = rc ? rc : o->matmul(f->be, f->up, f->moe.x, up, NULL, n, false);
    rc = rc ? rc : o->act_mul(f->be, f->gate, f->gate, f->up, (int64_t)n * c->expert_ffn, c->act);
    rc = rc ? rc : o->matmul(f->be, f->moe.y, f->gate, down, NULL, n, false);
    return rc ? rc : o->scatter_add(f->be, x, f->moe.y, row, share, n, c->hidden);
}

int moe_run(struct forward *f, const struct layer_weights *lw, int32_t n_tok, float *x) {
    const struct model_cfg *c = &f->w->cfg;
    struct moe *m = &f->moe;
    int rc = f->ops->matmul(f->be, m->logits, f->h, &lw->router.w, NULL, n_tok, false);
    rc = rc ? rc
            : f->ops->route(f->be, m->logits, n_tok, c->n_expert, c->n_expert_used,
                            c->expert_renorm, m->expert, m->weight);
    if (rc) {
        return rc;
    }
    sort_picks(m, n_tok, c->n_expert, c->n_expert_used);
    for (int32_t e = 0; e < c->n_expert && !rc; e++) {
        int32_t at = m->first[e];
        int32_t n = m->first[e + 1] - at;
        rc = n > 0 ? run_expert(f, &lw->expert[e], m->row + at, m->share + at, n, x) : 0;
    }
    return rc;
}
