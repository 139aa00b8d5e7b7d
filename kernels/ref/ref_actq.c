/* The quantized input and its product: the truth.
 *
 * A row's codes and scales are the f32 chains of kernels/dtype.h (struct actq), each operation
 * rounded, in the order of the source:
 *   I8       v = x / s;  asymmetric v = v + z;  clamp to -128..127;  half to even
 *   F8_E4M3  v = x / s;  clamp to +-448;        to E4M3
 *   F4       v = x / s;  clamp to +-6;          to E2M1
 * The product is exact but for its last steps: (code - z) * s of either side has at most 33 bits
 * and so is exact in double, and y[t,n] = f32( sum_k x'[t,k] * w'[n,k] + bias[n] + y[t,n] ) in
 * double, k ascending, one rounding. So integer sums, zero points and groups on either side, with
 * act-order or without, all mean the same here, and a faster kernel may take them apart.
 * src: compressed-tensors, quantization/utils/helpers.py (calculate_qparams) and
 * quantization/lifecycle/forward_helpers.py (_quantize). */
#include <float.h>
#include <math.h>

#include "kernels/backend.h"
#include "kernels/ref/ref_int.h"
#include "kernels/scaled.h"

/* Scale and zero point of n columns under a dynamic scheme. */
static float find_scale(const struct actq *q, const float *x, int32_t n, int32_t *zero) {
    float min = 0;
    float max = 0;
    for (int32_t i = 0; i < n; i++) {
        min = x[i] < min ? x[i] : min;
        max = x[i] > max ? x[i] : max;
    }
    float absmax = -min > max ? -min : max;
    *zero = 0;
    if (q->type == ACTQ_F4) {
        float s = absmax / 6 * q->global;
        s = f8_e4m3_to_f32(f32_to_f8_e4m3(s));
        return (s == 0 ? 0.125F : s) / q->global;
    }
    float s = q->type == ACTQ_F8_E4M3 ? absmax / 448 : absmax / 127.5F;
    if (q->asymmetric) {
        s = (max - min) / 255;
        float z = -128 - min / s;
        z = z < -128 ? -128 : z;
        z = z > 127 ? 127 : z;
        *zero = isnan(z) ? 0 : (int32_t)rintf(z);
    }
    return s == 0 ? FLT_EPSILON : s;
}

/* One quotient, zero point added, to its code. in: no NaN */
static float to_code(enum actq_type type, float v) {
    if (type == ACTQ_F8_E4M3) {
        return f8_e4m3_to_f32(f32_to_f8_e4m3(v));
    }
    if (type == ACTQ_F4) {
        return f4_to_f32(f32_to_f4(v));
    }
    v = v < -128 ? -128 : v;
    return rintf(v > 127 ? 127 : v);
}

void ref_actq(
    const struct actq *q, int32_t k, const float *x, float *code, float *scale, int32_t *zero) {
    int32_t group = q->group > 0 && !q->is_static ? q->group : k;
    int32_t n_group = (int32_t)i64_div_up(k, group);
    for (int32_t g = 0; g < n_group; g++) {
        int32_t c0 = g * group;
        int32_t n = i32_min(group, k - c0);
        float s = q->scale;
        int32_t z = q->zero;
        if (!q->is_static) {
            s = find_scale(q, x + c0, n, &z);
        }
        scale[g] = s;
        zero[g] = z;
        for (int32_t c = c0; c < c0 + n; c++) {
            float v = x[c] / s;
            if (isnan(v)) {
                scale[g] = NAN;
                v = 0;
            }
            code[c] = to_code(q->type, q->asymmetric ? v + (float)z : v);
        }
    }
}

/* Row t of x, quantized and multiplied out again. out: [k], exact */
static void input_row(struct backend *be, const struct wmat *w, const float *x, double *out) {
    int32_t group = w->act.group > 0 && !w->act.is_static ? w->act.group : w->k;
    ref_actq(&w->act, w->k, x, be->row, be->act_scale, be->act_zero);
    for (int32_t c = 0; c < w->k; c++) {
        int32_t g = c / group;
        out[c] = ((double)be->row[c] - be->act_zero[g]) * (double)be->act_scale[g];
    }
}

/* Row r of w, exact. */
static void weight_row(struct backend *be, const struct wmat *w, int32_t r, double *out) {
    int64_t at = scaled_row(w, r);
    scaled_codes(w, r, 0, w->k, be->row);
    for (int32_t c = 0; c < w->k; c++) {
        int64_t g = at + scaled_group(w, c);
        double zero = w->zero ? (double)w->zero[g] : 0;
        out[c] = ((double)be->row[c] - zero) * (double)scaled_scale(w, g);
    }
}

static double dot(const double *x, const double *w, int32_t k) {
    double sum = 0;
    for (int32_t i = 0; i < k; i++) {
        sum += x[i] * w[i];
    }
    return sum;
}

void ref_actq_matmul(struct backend *be,
                     float *y,
                     const float *x,
                     const struct wmat *w,
                     const float *bias,
                     int32_t n_tok,
                     bool accumulate) {
    double *row = be->wide + (int64_t)REF_ACT_ROWS * w->k;
    for (int32_t t0 = 0; t0 < n_tok; t0 += REF_ACT_ROWS) {
        int32_t n_row = i32_min(REF_ACT_ROWS, n_tok - t0);
        for (int32_t i = 0; i < n_row; i++) {
            input_row(be, w, x + (int64_t)(t0 + i) * w->k, be->wide + (int64_t)i * w->k);
        }
        for (int32_t n = 0; n < w->n; n++) {
            weight_row(be, w, n, row);
            for (int32_t i = 0; i < n_row; i++) {
                double sum = dot(be->wide + (int64_t)i * w->k, row, w->k);
                float *out = &y[(int64_t)(t0 + i) * w->n + n];
                sum += bias ? (double)bias[n] : 0;
                sum += accumulate ? (double)*out : 0;
                *out = (float)sum;
            }
        }
    }
}
