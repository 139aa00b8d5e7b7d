/* The integer grid of a group: scale and rounding, as compressed-tensors defines them.
 *
 * b-bit signed integers, qmin = -2^(b-1), qmax = 2^(b-1) - 1. Symmetric: scale = max|w| / 7.5 for 4
 * bits, i.e. max|w| / ((qmax - qmin) / 2), no zero point. Codes: clamp(w / scale) first, then round
 * half to even.
 * src: compressed-tensors, quantization/utils/helpers.py, calculate_qparams; lifecycle/forward.py
 */
#ifndef ENGINE_QUANT_GRID_H
#define ENGINE_QUANT_GRID_H

#include "kernels/dtype.h"

/* How a group's scale is chosen. */
enum grid_observer {
    GRID_MINMAX, /* from the largest magnitude */
    GRID_MSE     /* the range is shrunk in steps of 2 % down to 60 %, the least squared error wins;
                  * columns are weighted by the calibration's mean square (diagonal of the Hessian)
                  * where there is one. src: llm-compressor, observers/mse.py and imatrix.py; we
                  * differ: exponent 2, a wider range, each group for itself */
};

struct grid_opts {
    enum grid_observer observer;
    int32_t bits;          /* 4 */
    int32_t group;         /* columns that share a scale, divides k */
    bool asymmetric;       /* scale = (max - min) / (qmax - qmin), with a zero point */
    enum dtype scale_type; /* F32, F16 or BF16: scales are rounded to it before they are used */
};

/* Scales [n, k/group] (and zero points, when asymmetric) of the observer on w [n,k].
 * in:   column [k] weights of the columns' errors for GRID_MSE, NULL: all alike
 * out:  a group of zeros gets the type's epsilon, so that it stays zero */
void grid_scales(const struct grid_opts *o,
                 const float *w,
                 int32_t n,
                 int32_t k,
                 const float *column,
                 float *scale,
                 int8_t *zero);

/* Nearest code of w on the grid. */
int8_t grid_code(const struct grid_opts *o, float w, float scale, int32_t zero);

/* Value of a code: (q - zero) * scale in f32. */
float grid_value(int8_t q, float scale, int32_t zero);

/* Round-to-nearest codes of a whole matrix. */
void grid_round(const struct grid_opts *o,
                const float *w,
                int32_t n,
                int32_t k,
                const float *scale,
                const int8_t *zero,
                int8_t *codes);

/* Packs signed 4-bit codes [n,k] as compressed-tensors' pack-quantized: u32 [n, ceil(k/8)], element
 * i of a row at bit 4*(i%8) of word i/8, stored q + 8. */
void grid_pack4(const int8_t *codes, int32_t n, int32_t k, uint32_t *words);

#endif
