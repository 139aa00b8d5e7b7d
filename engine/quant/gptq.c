/* For the columns j in visiting order, with U the upper factor of H^-1:
 *
 *     q_j = nearest grid value of w_j        e_j = (w_j - q_j) / U[j,j]
 *     w_m -= e_j U[j,m]  for every later column m
 *
 * done in blocks: inside a block at once, behind it after the block. Rows never meet, so threads
 * take rows. */
#include "engine/quant/gptq.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/base/mem.h"
#include "engine/base/par.h"
#include "engine/quant/linalg.h"

enum { ROWS = 8, BLOCK_MAX = 256, RETRIES = 5 };

struct column {
    float diag;
    int32_t index;
};

static int falling(const void *a, const void *b) {
    const struct column *x = a;
    const struct column *y = b;
    if (x->diag != y->diag) {
        return x->diag > y->diag ? -1 : 1;
    }
    return (x->index > y->index) - (x->index < y->index);
}

static void sort_columns(struct column *col, const float *h, int32_t k, int32_t *perm) {
    for (int32_t i = 0; i < k; i++) {
        col[i] = (struct column){h[(int64_t)i * k + i], i};
    }
    qsort(col, (size_t)k, sizeof *col, falling);
    for (int32_t i = 0; i < k; i++) {
        perm[i] = col[i].index;
    }
}

struct solver {
    const struct gptq_opts *o;
    float *w;           /* own, [n,k] in visiting order */
    float *h;           /* own, [k,k] in visiting order, dampened */
    float *u;           /* own, [k,k] */
    double *work;       /* own, [k,k] */
    int32_t *perm;      /* own, [k] */
    struct column *col; /* own, [k] */
    double *row_loss;   /* own, [n] */
    const float *scale;
    const int8_t *zero;
    int8_t *codes;
    int32_t n;
    int32_t k;
};

static int solver_init(struct solver *s) {
    int64_t n = s->n;
    int64_t k = s->k;
    s->w = mem_array(MEM_QUANT, n * k, (int64_t)sizeof *s->w);
    s->h = mem_array(MEM_QUANT, k * k, (int64_t)sizeof *s->h);
    s->u = mem_array(MEM_QUANT, k * k, (int64_t)sizeof *s->u);
    s->work = mem_array(MEM_QUANT, k * k, (int64_t)sizeof *s->work);
    s->perm = mem_array(MEM_QUANT, k, (int64_t)sizeof *s->perm);
    s->col = mem_array(MEM_QUANT, k, (int64_t)sizeof *s->col);
    s->row_loss = mem_array(MEM_QUANT, n, (int64_t)sizeof *s->row_loss);
    bool ok = s->w && s->h && s->u && s->work && s->perm && s->col && s->row_loss;
    return ok ? 0 : ERR_NOMEM;
}

static void solver_fini(struct solver *s) {
    mem_free(s->w);
    mem_free(s->h);
    mem_free(s->u);
    mem_free(s->work);
    mem_free(s->perm);
    mem_free(s->col);
    mem_free(s->row_loss);
}

/* Erases dead columns, orders, and copies weight and Hessian into visiting order. */
static int prepare(struct solver *s, float *w, const float *h, struct gptq_result *out) {
    int32_t k = s->k;
    double sum = 0;
    for (int64_t i = 0; i < (int64_t)k * k; i++) {
        if (!isfinite(h[i])) {
            return err_set(ERR_NUMERIC, "Hessian: element [%lld, %lld] is %g", (long long)(i / k),
                           (long long)(i % k), (double)h[i]);
        }
    }
    for (int32_t i = 0; i < k; i++) {
        float d = h[(int64_t)i * k + i];
        if (d == 0) {
            out->n_dead++;
            for (int32_t r = 0; r < s->n; r++) {
                w[(int64_t)r * k + i] = 0;
            }
        }
        sum += d == 0 ? 1 : (double)d;
    }
    sort_columns(s->col, h, k, s->perm);
    for (int32_t i = 0; i < k && s->o->order == GPTQ_ORDER_NONE; i++) {
        s->perm[i] = i;
    }
    for (int32_t r = 0; r < s->n; r++) {
        for (int32_t j = 0; j < k; j++) {
            s->w[(int64_t)r * k + j] = w[(int64_t)r * k + s->perm[j]];
        }
    }
    out->damp = s->o->dampening * sum / k;
    return 0;
}

static void load_hessian(struct solver *s, const float *h, double damp) {
    int32_t k = s->k;
    for (int32_t i = 0; i < k; i++) {
        for (int32_t j = 0; j < k; j++) {
            s->h[(int64_t)i * k + j] = h[(int64_t)s->perm[i] * k + s->perm[j]];
        }
        float *d = &s->h[(int64_t)i * k + i];
        *d = (*d == 0 ? 1 : *d) + (float)damp;
    }
}

/* Factors, raising the dampening tenfold while the matrix is not positive definite. */
static int factor(struct solver *s, const float *h, struct gptq_result *out) {
    double damp = out->damp;
    int rc = ERR_NUMERIC;
    for (int32_t i = 0; i <= RETRIES && rc == ERR_NUMERIC; i++) {
        load_hessian(s, h, damp);
        rc = linalg_inverse_factor(s->h, s->k, s->work, s->u, s->o->n_threads);
        out->n_retry = i;
        out->damp = damp;
        damp *= 10;
    }
    if (rc == ERR_NUMERIC) {
        out->fell_back = true;
        memset(s->u, 0, (size_t)s->k * (size_t)s->k * sizeof *s->u);
        for (int32_t i = 0; i < s->k; i++) {
            s->u[(int64_t)i * s->k + i] = 1;
        }
        rc = 0;
    }
    return rc;
}

/* One row through one block of columns; err [nb] is left for the columns behind. */
static double row_block(const struct solver *s, int32_t r, int32_t b0, int32_t nb, float *err) {
    const struct grid_opts *g = &s->o->grid;
    float *w = s->w + (int64_t)r * s->k + b0;
    int32_t groups = s->k / g->group;
    double loss = 0;
    for (int32_t i = 0; i < nb; i++) {
        const float *u = s->u + (int64_t)(b0 + i) * s->k + b0;
        int32_t c = s->perm[b0 + i];
        int64_t gi = (int64_t)r * groups + c / g->group;
        int32_t z = s->zero ? s->zero[gi] : 0;
        int8_t q = grid_code(g, w[i], s->scale[gi], z);
        float e = (w[i] - grid_value(q, s->scale[gi], z)) / u[i];
        s->codes[(int64_t)r * s->k + c] = q;
        err[i] = e;
        loss += (double)e * (double)e / 2;
        for (int32_t j = i + 1; j < nb; j++) {
            w[j] -= e * u[j];
        }
    }
    return loss;
}

static void solve_rows(void *ctx, int64_t chunk) {
    const struct solver *s = ctx;
    int32_t r0 = (int32_t)chunk * ROWS;
    int32_t r1 = i32_min(r0 + ROWS, s->n);
    for (int32_t b0 = 0; b0 < s->k; b0 += s->o->block) {
        int32_t nb = i32_min(s->o->block, s->k - b0);
        float err[ROWS][BLOCK_MAX];
        for (int32_t r = r0; r < r1; r++) {
            s->row_loss[r] += row_block(s, r, b0, nb, err[r - r0]);
        }
        for (int32_t i = 0; i < nb; i++) { /* why: a row of u serves all rows of the chunk */
            const float *u = s->u + (int64_t)(b0 + i) * s->k;
            for (int32_t r = r0; r < r1; r++) {
                float *w = s->w + (int64_t)r * s->k;
                float e = err[r - r0][i];
                for (int32_t j = b0 + nb; j < s->k; j++) {
                    w[j] -= e * u[j];
                }
            }
        }
    }
}

int gptq_solve(const struct gptq_opts *o,
               float *w,
               int32_t n,
               int32_t k,
               const float *h,
               const float *scale,
               const int8_t *zero,
               int8_t *codes,
               struct gptq_result *out) {
    struct solver s = {.o = o, .scale = scale, .zero = zero, .codes = codes, .n = n, .k = k};
    struct gptq_result res = {0};
    if (o->block < 1 || o->block > BLOCK_MAX || k % o->grid.group != 0) {
        return err_set(ERR_RANGE, "GPTQ: block of %d columns (at most %d), group %d for %d columns",
                       o->block, BLOCK_MAX, o->grid.group, k);
    }
    int rc = solver_init(&s);
    rc = rc ? rc : prepare(&s, w, h, &res);
    rc = rc ? rc : factor(&s, h, &res);
    if (!rc) {
        par_for(o->n_threads, i64_div_up(n, ROWS), solve_rows, &s);
        for (int32_t r = 0; r < n; r++) {
            res.loss += s.row_loss[r];
        }
        *out = res;
    }
    solver_fini(&s);
    return rc;
}
