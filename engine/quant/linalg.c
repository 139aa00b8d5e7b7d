/* Blocked and left to the compiler's vectorizer: inner loops run over contiguous columns and do not
 * re-order sums, so results are the same for any number of threads. */
#include "engine/quant/linalg.h"

#include <math.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/base/mem.h"
#include "engine/base/par.h"

enum { NB = 64, ROWS = 16, COLS = 16 /* accumulators that stay in registers */ };

struct job {
    double *a;
    const double *panel_t; /* [NB, k] transposed panel: panel_t[c][i] = a[i][j0 + c] */
    int32_t k;
    int32_t j0;
    int32_t nb;
    int32_t first; /* first row of the trailing part */
};

/* Factors the diagonal block in place. */
static int factor_diag(double *a, int32_t k, int32_t j0, int32_t nb) {
    for (int32_t j = j0; j < j0 + nb; j++) {
        double d = a[(int64_t)j * k + j];
        if (!(d > 0) || !isfinite(d)) {
            return ERR_NUMERIC;
        }
        d = sqrt(d);
        a[(int64_t)j * k + j] = d;
        for (int32_t i = j + 1; i < j0 + nb; i++) {
            a[(int64_t)i * k + j] /= d;
        }
        for (int32_t i = j + 1; i < j0 + nb; i++) {
            double f = a[(int64_t)i * k + j];
            for (int32_t c = j + 1; c <= i; c++) {
                a[(int64_t)i * k + c] -= f * a[(int64_t)c * k + j];
            }
        }
    }
    return 0;
}

/* Rows below the diagonal block: x L_diag^T = a. */
static void solve_rows(void *ctx, int64_t chunk) {
    struct job *j = ctx;
    int32_t from = j->first + (int32_t)chunk * ROWS;
    int32_t to = i32_min(from + ROWS, j->k);
    for (int32_t i = from; i < to; i++) {
        double *row = j->a + (int64_t)i * j->k + j->j0;
        for (int32_t c = 0; c < j->nb; c++) {
            const double *l = j->a + (int64_t)(j->j0 + c) * j->k + j->j0;
            double s = row[c];
            for (int32_t m = 0; m < c; m++) {
                s -= row[m] * l[m];
            }
            row[c] = s / l[c];
        }
    }
}

/* Trailing update: a[i][first..i] -= sum_c a[i][j0+c] * panel_t[c][first..i]. */
static void update_rows(void *ctx, int64_t chunk) {
    struct job *j = ctx;
    int32_t from = j->first + (int32_t)chunk * ROWS;
    int32_t to = i32_min(from + ROWS, j->k);
    for (int32_t i = from; i < to; i++) {
        double *row = j->a + (int64_t)i * j->k;
        for (int32_t c = 0; c < j->nb; c++) {
            double f = row[j->j0 + c];
            const double *p = j->panel_t + (int64_t)c * j->k;
            for (int32_t m = j->first; m <= i; m++) {
                row[m] -= f * p[m];
            }
        }
    }
}

int linalg_cholesky(double *a, int32_t k, int32_t n_threads) {
    double *panel_t = mem_array(MEM_QUANT, (int64_t)NB * k, (int64_t)sizeof *panel_t);
    if (!panel_t) {
        return ERR_NOMEM;
    }
    int rc = 0;
    for (int32_t j0 = 0; j0 < k && !rc; j0 += NB) {
        struct job j = {.a = a, .panel_t = panel_t, .k = k, .j0 = j0, .nb = i32_min(NB, k - j0)};
        j.first = j0 + j.nb;
        int64_t chunks = i64_div_up(k - j.first, ROWS);
        rc = factor_diag(a, k, j0, j.nb);
        if (rc) {
            break;
        }
        par_for(n_threads, chunks, solve_rows, &j);
        for (int32_t i = j.first; i < k; i++) {
            for (int32_t c = 0; c < j.nb; c++) {
                panel_t[(int64_t)c * k + i] = a[(int64_t)i * k + j0 + c];
            }
        }
        par_for(n_threads, chunks, update_rows, &j);
    }
    mem_free(panel_t);
    return rc;
}

struct invert {
    const double *l;
    double *x; /* [k,stride] the inverse; stride is k in whole blocks of COLS */
    int32_t k;
    int32_t stride;
};

/* Columns [c0, c0 + COLS) of the inverse by forward substitution, all of them at once; those past
 * k stay zero. */
static void invert_columns(void *ctx, int64_t block) {
    const struct invert *v = ctx;
    int32_t k = v->k;
    int32_t c0 = (int32_t)block * COLS;
    for (int32_t i = c0; i < k; i++) {
        double *xi = v->x + (int64_t)i * v->stride + c0;
        const double *li = v->l + (int64_t)i * k;
        double acc[COLS] = {0};
        for (int32_t m = c0; m < i; m++) {
            const double *xm = v->x + (int64_t)m * v->stride + c0;
            double f = li[m];
            for (int32_t c = 0; c < COLS; c++) {
                acc[c] -= f * xm[c];
            }
        }
        if (i < c0 + COLS) {
            acc[i - c0] += 1;
        }
        for (int32_t c = 0; c < COLS; c++) {
            xi[c] = c0 + c <= i ? acc[c] / li[i] : 0;
        }
    }
}

int linalg_invert_lower(double *l, int32_t k, int32_t n_threads) {
    int64_t blocks = i64_div_up(k, COLS);
    double *x = mem_array(MEM_QUANT, k * blocks * COLS, (int64_t)sizeof *x);
    if (!x) {
        return ERR_NOMEM;
    }
    struct invert v = {.l = l, .x = x, .k = k, .stride = (int32_t)blocks * COLS};
    par_for(n_threads, blocks, invert_columns, &v);
    for (int64_t i = 0; i < k; i++) {
        memcpy(l + i * k, x + i * v.stride, (size_t)k * sizeof *l);
    }
    mem_free(x);
    return 0;
}

int linalg_inverse_factor(const float *h, int32_t k, double *work, float *u, int32_t n_threads) {
    for (int32_t i = 0; i < k; i++) {
        for (int32_t j = 0; j < k; j++) {
            work[(int64_t)(k - 1 - i) * k + (k - 1 - j)] = (double)h[(int64_t)i * k + j];
        }
    }
    int rc = linalg_cholesky(work, k, n_threads);
    if (rc) {
        return rc;
    }
    rc = linalg_invert_lower(work, k, n_threads);
    if (rc) {
        return rc;
    }
    for (int32_t i = 0; i < k; i++) {
        for (int32_t j = 0; j < k; j++) {
            u[(int64_t)i * k + j] = j < i ? 0 : (float)work[(int64_t)(k - 1 - i) * k + (k - 1 - j)];
        }
    }
    return 0;
}
