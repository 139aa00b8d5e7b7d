#include "engine/quant/calib.h"

#include <math.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/base/mem.h"
#include "kernels/backend.h"

enum { BLOCK_TOK = 16, ROWS_AT_ONCE = 256 };

enum tap_point calib_point(enum linear_role role) {
    static const enum tap_point points[LINEAR_N] = {TAP_QKV,     TAP_QKV,     TAP_QKV, TAP_O,
                                                    TAP_GATE_UP, TAP_GATE_UP, TAP_DOWN};
    return points[role];
}

/* The batch of one sample: T rows of one sequence in blocks 0, 1, 2, ... */
static struct batch batch_of(struct calib *c, int32_t sample) {
    int32_t T = c->sample_tok;
    int32_t n_block = (int32_t)i64_div_up(T, BLOCK_TOK);
    int32_t *r = c->rows;
    struct batch b = {.n_tok = T,
                      .n_seq = 1,
                      .n_out = 0,
                      .table_stride = n_block,
                      .tok = r,
                      .pos = r + T,
                      .slot = r + 2 * T,
                      .seq_start = r + 3 * T,
                      .ctx_len = r + 3 * T + 2,
                      .out_row = r,
                      .block_table = r + 3 * T + 3};
    for (int32_t t = 0; t < T; t++) {
        b.tok[t] = c->ids[(int64_t)sample * T + t];
        b.pos[t] = t;
        b.slot[t] = t;
    }
    for (int32_t i = 0; i < n_block; i++) {
        b.block_table[i] = i;
    }
    b.seq_start[0] = 0;
    b.seq_start[1] = T;
    b.ctx_len[0] = T;
    return b;
}

static int
open_machine(struct calib *c, const struct weights *w, const char *backend, int32_t n_threads) {
    const struct model_cfg *m = &w->cfg;
    int32_t k_max = i32_max(i32_max(m->hidden, m->ffn), m->n_head * m->head_dim);
    struct backend_opts o = {.n_threads = n_threads,
                             .n_tok_max = i32_max(i32_max(c->sample_tok, k_max), ROWS_AT_ONCE),
                             .k_max = i32_max(k_max, c->sample_tok),
                             .ctx_max = c->sample_tok,
                             .n_head_max = m->n_head};
    int32_t n = (int32_t)i64_div_up(c->sample_tok, BLOCK_TOK);
    const int32_t n_blocks[MODEL_KV_GROUPS] = {n, n};
    int rc = backend_find(backend ? backend : "cpu", &c->ops);
    rc = rc ? rc : c->ops->open(&o, &c->be);
    c->one = *m;
    c->one.n_layer = 1;
    rc = rc ? rc : kvmem_init(&c->kv, c->ops, c->be, &c->one, DTYPE_F32, n_blocks, BLOCK_TOK);
    return rc ? rc : forward_init(&c->fw, c->ops, c->be, w, c->sample_tok, 1, c->sample_tok);
}

static int alloc_all(struct calib *c, const struct model_cfg *m) {
    int64_t f = (int64_t)sizeof(float);
    int64_t T = c->sample_tok;
    int32_t k_max = 0;
    const int32_t k[CALIB_POINTS] = {m->hidden, m->n_head * m->head_dim, m->hidden, m->ffn};
    for (int32_t p = 0; p < CALIB_POINTS; p++) {
        c->k[p] = k[p];
        k_max = i32_max(k_max, k[p]);
        c->h[p] = mem_array(MEM_QUANT, (int64_t)k[p] * k[p], f);
        if (!c->h[p]) {
            return ERR_NOMEM;
        }
    }
    c->hidden = mem_array(MEM_QUANT, c->n_sample * T * m->hidden, f);
    c->xt = mem_array(MEM_QUANT, T * k_max, f);
    c->rows = mem_array(MEM_QUANT, 4 * T + 4, (int64_t)sizeof *c->rows);
    return c->hidden && c->xt && c->rows ? 0 : ERR_NOMEM;
}

static int embed_all(struct calib *c, const struct model_cfg *m) {
    int64_t row = (int64_t)c->sample_tok * m->hidden;
    int rc = 0;
    for (int32_t s = 0; s < c->n_sample && !rc; s++) {
        struct batch b = batch_of(c, s);
        rc = forward_embed(&c->fw, &b);
        rc = rc ? rc : c->ops->copy_out(c->be, c->hidden + s * row, c->fw.x, row * 4);
    }
    return rc;
}

int calib_open(const struct weights *w,
               const char *backend,
               int32_t n_threads,
               const int32_t *ids,
               int32_t n_sample,
               int32_t sample_tok,
               struct calib **out) {
    if (n_sample < 1 || sample_tok < 1 || sample_tok > w->cfg.ctx_max) {
        return err_set(ERR_RANGE, "calibration with %d samples of %d tokens (context %d)", n_sample,
                       sample_tok, w->cfg.ctx_max);
    }
    for (int64_t i = 0; i < (int64_t)n_sample * sample_tok; i++) {
        if (ids[i] < 0 || ids[i] >= w->cfg.vocab) {
            return err_set(ERR_RANGE, "calibration token %d is outside the vocabulary of %d",
                           ids[i], w->cfg.vocab);
        }
    }
    struct calib *c = mem_calloc(MEM_QUANT, (int64_t)sizeof *c);
    if (!c) {
        return ERR_NOMEM;
    }
    c->ids = ids;
    c->n_sample = n_sample;
    c->sample_tok = sample_tok;
    int rc = open_machine(c, w, backend, n_threads);
    rc = rc ? rc : alloc_all(c, &w->cfg);
    rc = rc ? rc : embed_all(c, &w->cfg);
    if (rc) {
        calib_close(c);
        return rc;
    }
    *out = c;
    return 0;
}

void calib_close(struct calib *c) {
    if (!c) {
        return;
    }
    for (int32_t p = 0; p < CALIB_POINTS; p++) {
        mem_free(c->h[p]);
    }
    mem_free(c->hidden);
    mem_free(c->xt);
    mem_free(c->rows);
    if (c->be) {
        if (c->fw.ops) {
            forward_fini(&c->fw);
        }
        if (c->kv.ops) {
            kvmem_fini(&c->kv);
        }
        c->ops->close(c->be);
    }
    mem_free(c);
}

/* h += x^T x, as a product of the transposed activations with themselves. */
static int see(void *ctx, enum tap_point p, const float *x, int32_t n_tok, int32_t k) {
    struct calib *c = ctx;
    for (int32_t i = 0; i < k; i++) {
        for (int32_t t = 0; t < n_tok; t++) {
            c->xt[(int64_t)i * n_tok + t] = x[(int64_t)t * k + i];
        }
    }
    struct wmat w = {.type = DTYPE_F32,
                     .n = k,
                     .k = n_tok,
                     .data = c->xt,
                     .row_bytes = n_tok * (int64_t)sizeof(float)};
    return c->ops->matmul(c->be, c->h[p], c->xt, &w, NULL, k, true);
}

static int canceled(int (*progress)(void *ctx), void *ctx) {
    return progress && progress(ctx) ? err_set(ERR_CANCELED, "interrupted") : 0;
}

int calib_observe(struct calib *c,
                  const struct layer_weights *lw,
                  int (*progress)(void *ctx),
                  void *ctx) {
    struct tap tap = {.see = see, .ctx = c};
    int64_t row = (int64_t)c->sample_tok * c->one.hidden;
    int rc = 0;
    for (int32_t p = 0; p < CALIB_POINTS; p++) {
        memset(c->h[p], 0, (size_t)c->k[p] * (size_t)c->k[p] * sizeof(float));
    }
    for (int32_t s = 0; s < c->n_sample && !rc; s++) {
        struct batch b = batch_of(c, s);
        rc = c->ops->copy_in(c->be, c->fw.x, c->hidden + s * row, row * 4);
        rc = rc ? rc : forward_layer(&c->fw, lw, &c->kv.layer[0], &b, c->fw.x, &tap);
        rc = rc ? rc : canceled(progress, ctx);
    }
    float scale = 2.0f / (float)c->n_sample;
    for (int32_t p = 0; p < CALIB_POINTS; p++) {
        for (int64_t i = 0; i < (int64_t)c->k[p] * c->k[p]; i++) {
            c->h[p][i] *= scale;
        }
    }
    return rc;
}

int calib_advance(struct calib *c,
                  const struct layer_weights *lw,
                  int (*progress)(void *ctx),
                  void *ctx) {
    int64_t row = (int64_t)c->sample_tok * c->one.hidden;
    int rc = 0;
    for (int32_t s = 0; s < c->n_sample && !rc; s++) {
        struct batch b = batch_of(c, s);
        rc = c->ops->copy_in(c->be, c->fw.x, c->hidden + s * row, row * 4);
        rc = rc ? rc : forward_layer(&c->fw, lw, &c->kv.layer[0], &b, c->fw.x, NULL);
        rc = rc ? rc : c->ops->copy_out(c->be, c->hidden + s * row, c->fw.x, row * 4);
        rc = rc ? rc : canceled(progress, ctx);
    }
    return rc;
}

int calib_energy(struct calib *c, enum tap_point p, const float *d, int32_t n, double *out) {
    int32_t k = c->k[p];
    double sum = 0;
    float *y = mem_array(MEM_QUANT, (int64_t)ROWS_AT_ONCE * k, (int64_t)sizeof *y);
    if (!y) {
        return ERR_NOMEM;
    }
    struct wmat w = {.type = DTYPE_F32,
                     .n = k,
                     .k = k,
                     .data = c->h[p],
                     .row_bytes = k * (int64_t)sizeof(float)};
    int rc = 0;
    for (int32_t r = 0; r < n && !rc; r += ROWS_AT_ONCE) {
        int32_t m = i32_min(ROWS_AT_ONCE, n - r);
        const float *x = d + (int64_t)r * k;
        rc = c->ops->matmul(c->be, y, x, &w, NULL, m, false);
        for (int64_t i = 0; i < (int64_t)m * k && !rc; i++) {
            sum += (double)y[i] * (double)x[i];
        }
    }
    mem_free(y);
    if (!rc) {
        *out = sum;
    }
    return rc;
}
