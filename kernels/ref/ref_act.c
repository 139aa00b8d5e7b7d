/* Elementwise ops and row copies: the truth.
 *
 * silu(g) = g / (1 + e^-g);  gelu_tanh(g) = g/2 (1 + tanh(sqrt(2/pi) (g + 0.044715 g^3)));
 * softcap(y) = c tanh(y / c);  scatter_add: y + w x; in double, one rounding of the whole result.
 * src: Hendrycks and Gimpel, "Gaussian Error Linear Units", 2016, section 2; Shazeer, "GLU Variants
 * Improve Transformer", 2020. */
#include <math.h>
#include <string.h>

#include "kernels/ref/ref_int.h"

static double silu(double g) {
    return g / (1 + exp(-g));
}

static double gelu_tanh(double g) {
    return 0.5 * g * (1 + tanh(sqrt(2 / M_PI) * (g + 0.044715 * g * g * g)));
}

int ref_act_mul(
    struct backend *be, float *y, const float *gate, const float *up, int64_t n, enum act act) {
    (void)be;
    for (int64_t i = 0; i < n; i++) {
        double g = (double)gate[i];
        g = act == ACT_SILU ? silu(g) : gelu_tanh(g);
        y[i] = (float)(g * (double)up[i]);
    }
    return 0;
}

int ref_add(struct backend *be, float *y, const float *x, int64_t n) {
    (void)be;
    for (int64_t i = 0; i < n; i++) {
        y[i] += x[i];
    }
    return 0;
}

int ref_gather(
    struct backend *be, float *y, const float *x, const int32_t *row, int32_t n_row, int32_t dim) {
    (void)be;
    for (int32_t r = 0; r < n_row; r++) {
        memmove(y + (int64_t)r * dim, x + (int64_t)row[r] * dim, (size_t)dim * sizeof(float));
    }
    return 0;
}

int ref_softcap(struct backend *be, float *y, int64_t n, float cap) {
    (void)be;
    for (int64_t i = 0; i < n; i++) {
        y[i] = (float)((double)cap * tanh((double)y[i] / (double)cap));
    }
    return 0;
}

int ref_scatter_add(struct backend *be,
                    float *y,
                    const float *x,
                    const int32_t *row,
                    const float *weight,
                    int32_t n_row,
                    int32_t dim) {
    (void)be;
    for (int32_t r = 0; r < n_row; r++) {
        float *out = y + (int64_t)row[r] * dim;
        const float *in = x + (int64_t)r * dim;
        for (int32_t i = 0; i < dim; i++) {
            out[i] = (float)((double)out[i] + (double)weight[r] * (double)in[i]);
        }
    }
    return 0;
}
