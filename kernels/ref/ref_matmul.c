/* Products with a stored matrix, and the embedding rows: the truth.
 *
 * y[t,n] = f32( sum_k f64(x[t,k]) * f64(w[n,k]) + bias[n] + y[t,n] ), the sum in double, k
 * ascending, one rounding at the end; bias and old y only where asked for. Weight rows are decoded
 * by ref_decode, one at a time. A quantized input goes its own way (ref_actq.c). */
#include "engine/base/err.h"
#include "kernels/backend.h"
#include "kernels/host.h"
#include "kernels/ref/ref_int.h"

static double dot(const float *x, const float *w, int32_t k) {
    double sum = 0;
    for (int32_t i = 0; i < k; i++) {
        sum += (double)x[i] * (double)w[i];
    }
    return sum;
}

int ref_matmul(struct backend *be,
               float *y,
               const float *x,
               const struct wmat *w,
               const float *bias,
               int32_t n_tok,
               bool accumulate) {
    int rc = host_check_weight(w);
    if (rc) {
        return rc;
    }
    if (w->k > be->opts.k_max) {
        return err_set(ERR_RANGE, "weight with %d columns, opened for %d", w->k, be->opts.k_max);
    }
    if (w->act.type != ACTQ_NONE) {
        ref_actq_matmul(be, y, x, w, bias, n_tok, accumulate);
        return 0;
    }
    for (int32_t n = 0; n < w->n; n++) {
        ref_decode(w, n, 0, w->k, be->row);
        for (int32_t t = 0; t < n_tok; t++) {
            double sum = dot(x + (int64_t)t * w->k, be->row, w->k);
            float *out = &y[(int64_t)t * w->n + n];
            sum += bias ? (double)bias[n] : 0;
            sum += accumulate ? (double)*out : 0;
            *out = (float)sum;
        }
    }
    return 0;
}

int ref_embed(struct backend *be,
              float *y,
              const struct wmat *table,
              const int32_t *tok,
              int32_t n_tok,
              float scale) {
    (void)be;
    int rc = host_check_weight(table);
    if (rc) {
        return rc;
    }
    rc = host_check_tok(table, tok, n_tok);
    if (rc) {
        return rc;
    }
    for (int32_t t = 0; t < n_tok; t++) {
        float *row = y + (int64_t)t * table->k;
        ref_decode(table, tok[t], 0, table->k, row);
        for (int32_t i = 0; i < table->k; i++) {
            row[i] = row[i] * scale;
        }
    }
    return 0;
}
