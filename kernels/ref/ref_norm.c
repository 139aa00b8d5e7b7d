/* Root-mean-square norm: the truth.
 *
 * y_i = x_i / sqrt( (1/E) sum_j x_j^2 + eps ) * (w_i + w_offset), all in double, one rounding.
 * src: Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019, eq. 4; eps inside the root
 * and w_offset = 1 for the Gemma family as in their published code. */
#include <math.h>

#include "kernels/ref/ref_int.h"

int ref_rmsnorm(struct backend *be,
                float *y,
                const float *x,
                const float *w,
                int32_t n_tok,
                int32_t dim,
                float eps,
                float w_offset) {
    (void)be;
    for (int32_t t = 0; t < n_tok; t++) {
        const float *in = x + (int64_t)t * dim;
        float *out = y + (int64_t)t * dim;
        double sum = 0;
        for (int32_t i = 0; i < dim; i++) {
            sum += (double)in[i] * (double)in[i];
        }
        double inv = 1 / sqrt(sum / dim + (double)eps);
        for (int32_t i = 0; i < dim; i++) {
            out[i] = (float)((double)in[i] * inv * ((double)w[i] + (double)w_offset));
        }
    }
    return 0;
}
