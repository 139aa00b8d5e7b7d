/* Head norm and rotary embedding, "half rotation" form: the truth.
 *
 * For each head, optionally the RMS norm over D, then with (c, s) = row pos[t] of cos_sin:
 *   x_i       <- x_i c_i - x_{i+D/2} s_i
 *   x_{i+D/2} <- x_{i+D/2} c_i + x_i s_i        i = 0 .. D/2 - 1
 * all in double, one rounding.
 * src: Su et al., "RoFormer", 2021, eq. 34, with pairs (i, i + D/2) as in the Llama code of Hugging
 * Face. */
#include <math.h>

#include "kernels/host.h"
#include "kernels/ref/ref_int.h"

static void rope_head(
    float *x, const float *w, double eps, double w_offset, const float *cos_sin, int32_t head_dim) {
    double v[HOST_HEAD_DIM_MAX];
    double sum = 0;
    for (int32_t i = 0; i < head_dim; i++) {
        v[i] = (double)x[i];
        sum += v[i] * v[i];
    }
    double inv = 1 / sqrt(sum / head_dim + eps);
    for (int32_t i = 0; w && i < head_dim; i++) {
        v[i] = v[i] * inv * ((double)w[i] + w_offset);
    }
    int32_t half = head_dim / 2;
    for (int32_t i = 0; i < half; i++) {
        double c = (double)cos_sin[i];
        double s = (double)cos_sin[half + i];
        x[i] = (float)(v[i] * c - v[half + i] * s);
        x[half + i] = (float)(v[half + i] * c + v[i] * s);
    }
}

int ref_norm_rope(struct backend *be,
                  float *x,
                  const float *w,
                  float eps,
                  float w_offset,
                  const float *cos_sin,
                  const int32_t *pos,
                  int32_t n_tok,
                  int32_t n_head,
                  int32_t head_dim) {
    int rc = host_check_rope(pos, n_tok, head_dim, be->opts.ctx_max);
    if (rc) {
        return rc;
    }
    for (int32_t t = 0; t < n_tok; t++) {
        const float *angle = cos_sin + (int64_t)pos[t] * head_dim;
        for (int32_t h = 0; h < n_head; h++) {
            float *head = x + ((int64_t)t * n_head + h) * head_dim;
            rope_head(head, w, (double)eps, (double)w_offset, angle, head_dim);
        }
    }
    return 0;
}
