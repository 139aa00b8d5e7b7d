/* One linear layer: decode, lay the grid, solve, measure, pack. */
#include <math.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/base/mem.h"
#include "engine/quant/quant_int.h"
#include "kernels/backend.h"

/* Working memory of one module. */
struct scratch {
    float *w;      /* [n,k] */
    float *delta;  /* [n,k] */
    float *column; /* [k] mean squares of the inputs */
    float *scale;  /* [n, groups] */
    int8_t *codes; /* [n,k] */
    int8_t *zero;  /* [n, groups] or NULL */
};

static void scratch_fini(struct scratch *s) {
    mem_free(s->w);
    mem_free(s->delta);
    mem_free(s->column);
    mem_free(s->scale);
    mem_free(s->codes);
    mem_free(s->zero);
}

static int scratch_init(struct scratch *s, const struct grid_opts *g, int64_t n, int64_t k) {
    *s = (struct scratch){0};
    s->w = mem_array(MEM_QUANT, n * k, (int64_t)sizeof *s->w);
    s->delta = mem_array(MEM_QUANT, n * k, (int64_t)sizeof *s->delta);
    s->column = mem_array(MEM_QUANT, k, (int64_t)sizeof *s->column);
    s->scale = mem_array(MEM_QUANT, n * k / g->group, (int64_t)sizeof *s->scale);
    s->codes = mem_array(MEM_QUANT, n * k, 1);
    s->zero = g->asymmetric ? mem_array(MEM_QUANT, n * k / g->group, 1) : NULL;
    bool ok = s->w && s->delta && s->column && s->scale && s->codes && (!g->asymmetric || s->zero);
    if (!ok) {
        scratch_fini(s);
        return ERR_NOMEM;
    }
    return 0;
}

static int
solve(struct quant_job *j, enum linear_role role, struct scratch *s, struct quant_module *rep) {
    const struct quant_opts *o = j->o;
    if (o->method == QUANT_RTN) {
        rep->method = "rtn";
        grid_round(&o->grid, s->w, rep->n, rep->k, s->scale, s->zero, s->codes);
        return 0;
    }
    struct gptq_result res;
    struct gptq_opts go = {.grid = o->grid,
                           .block = o->block ? o->block : 128,
                           .dampening = o->dampening > 0 ? o->dampening : 0.01,
                           .order = o->order,
                           .n_threads = o->n_threads};
    int rc = gptq_solve(&go, s->w, rep->n, rep->k, j->calib->h[calib_point(role)], s->scale,
                        s->zero, s->codes, &res);
    if (!rc) {
        rep->method = res.fell_back ? "rtn (gptq failed)" : "gptq";
        rep->logged = res.loss;
        rep->damp = res.damp;
        rep->n_dead = res.n_dead;
        rep->n_retry = res.n_retry;
    }
    return rc;
}

/* Errors of the codes against the original weight, which is decoded anew into s->w. */
static int measure(struct quant_job *j,
                   const struct linear *base,
                   enum linear_role role,
                   struct scratch *s,
                   struct quant_module *rep) {
    int32_t groups = rep->k / rep->group;
    double err = 0;
    double ref = 0;
    for (int32_t r = 0; r < rep->n; r++) {
        float *w = s->w + (int64_t)r * rep->k;
        ref_decode(&base->w, r, 0, rep->k, w);
        for (int32_t c = 0; c < rep->k; c++) {
            int64_t g = (int64_t)r * groups + c / rep->group;
            int64_t i = (int64_t)r * rep->k + c;
            s->delta[i] = grid_value(s->codes[i], s->scale[g], s->zero ? s->zero[g] : 0) - w[c];
            err += (double)s->delta[i] * (double)s->delta[i];
            ref += (double)w[c] * (double)w[c];
        }
    }
    rep->weight_error = ref > 0 ? err / ref : 0;
    if (!j->calib) {
        return 0;
    }
    int rc = calib_energy(j->calib, calib_point(role), s->delta, rep->n, &err);
    rc = rc ? rc : calib_energy(j->calib, calib_point(role), s->w, rep->n, &ref);
    rep->rel_error = ref > 0 ? err / ref : 0;
    return rc;
}

static int pack(const struct quant_opts *o,
                const struct scratch *s,
                const struct quant_module *rep,
                struct qlinear *q) {
    int64_t n_scale = (int64_t)rep->n * (rep->k / rep->group);
    int64_t sb = dtype_info(o->grid.scale_type)->block_bytes;
    q->words = mem_array(MEM_QUANT, rep->n * i64_div_up(rep->k, 8), 4);
    q->scale = mem_array(MEM_QUANT, n_scale, sb);
    q->zero = s->zero ? mem_array(MEM_QUANT, n_scale, 1) : NULL;
    if (!q->words || !q->scale || (s->zero && !q->zero)) {
        return ERR_NOMEM;
    }
    grid_pack4(s->codes, rep->n, rep->k, q->words);
    for (int64_t i = 0; i < n_scale; i++) {
        uint16_t h =
            o->grid.scale_type == DTYPE_F16 ? f32_to_f16(s->scale[i]) : f32_to_bf16(s->scale[i]);
        if (o->grid.scale_type == DTYPE_F32) {
            memcpy((uint8_t *)q->scale + 4 * i, &s->scale[i], 4);
        } else {
            memcpy((uint8_t *)q->scale + 2 * i, &h, 2);
        }
    }
    if (q->zero) {
        memcpy(q->zero, s->zero, (size_t)n_scale);
    }
    return 0;
}

void qlinear_fini(struct qlinear *q) {
    mem_free(q->words);
    mem_free(q->scale);
    mem_free(q->zero);
    *q = (struct qlinear){0};
}

static void bind(const struct quant_opts *o,
                 const struct linear *base,
                 const struct quant_module *rep,
                 const struct qlinear *q,
                 struct linear *lin) {
    *lin = (struct linear){.bias = base->bias,
                           .w = {.type = DTYPE_W4,
                                 .n = rep->n,
                                 .k = rep->k,
                                 .data = q->words,
                                 .row_bytes = 4 * i64_div_up(rep->k, 8),
                                 .scale = q->scale,
                                 .scale_type = o->grid.scale_type,
                                 .zero = q->zero,
                                 .group = rep->group}};
}

int qmodule_run(struct quant_job *j,
                const struct linear *base,
                enum linear_role role,
                struct qlinear *q,
                struct linear *lin,
                struct quant_module *rep) {
    struct scratch s;
    const struct quant_opts *o = j->o;
    int64_t start_ns = clock_now_ns();
    rep->n = base->w.n;
    rep->k = base->w.k;
    rep->group = o->grid.group;
    rep->damp = rep->logged = rep->rel_error = (double)NAN;
    rep->n_sample = j->calib ? j->calib->n_sample : 0;
    rep->n_tok = j->calib ? (int64_t)j->calib->n_sample * j->calib->sample_tok : 0;
    *q = (struct qlinear){0};
    int rc = scratch_init(&s, &o->grid, rep->n, rep->k);
    if (rc) {
        return rc;
    }
    for (int32_t r = 0; r < rep->n; r++) {
        ref_decode(&base->w, r, 0, rep->k, s.w + (int64_t)r * rep->k);
    }
    if (j->calib) {
        const float *h = j->calib->h[calib_point(role)];
        for (int32_t c = 0; c < rep->k; c++) {
            s.column[c] = h[(int64_t)c * rep->k + c];
        }
    }
    grid_scales(&o->grid, s.w, rep->n, rep->k, j->calib ? s.column : NULL, s.scale, s.zero);
    rc = solve(j, role, &s, rep);
    rc = rc ? rc : measure(j, base, role, &s, rep);
    rc = rc ? rc : pack(o, &s, rep, q);
    scratch_fini(&s);
    if (rc) {
        qlinear_fini(q);
        return rc;
    }
    bind(o, base, rep, q, lin);
    int64_t n_scale = (int64_t)rep->n * (rep->k / rep->group);
    rep->bytes_before = base->w.n * base->w.row_bytes;
    rep->bytes_after = lin->w.n * lin->w.row_bytes +
                       n_scale * dtype_info(o->grid.scale_type)->block_bytes +
                       (q->zero ? i64_div_up(rep->n, 8) * (rep->k / rep->group) * 4 : 0);
    rep->seconds = (double)(clock_now_ns() - start_ns) * 1e-9;
    return 0;
}
