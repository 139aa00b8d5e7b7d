#include "engine/quant/grid.h"

#include <float.h>
#include <math.h>
#include <string.h>

static float rounded(float s, enum dtype t) {
    if (t == DTYPE_F16) {
        return f16_to_f32(f32_to_f16(s));
    }
    return t == DTYPE_BF16 ? bf16_to_f32(f32_to_bf16(s)) : s;
}

static float epsilon(enum dtype t) {
    if (t == DTYPE_F16) {
        return 0x1p-10f;
    }
    return t == DTYPE_BF16 ? 0x1p-7f : FLT_EPSILON;
}

void grid_scales(
    const struct grid_opts *o, const float *w, int32_t n, int32_t k, float *scale, int8_t *zero) {
    int32_t groups = k / o->group;
    float qmin = -ldexpf(1, o->bits - 1);
    float qmax = -qmin - 1;
    for (int64_t g = 0; g < (int64_t)n * groups; g++) {
        const float *p = w + g * o->group;
        float lo = 0;
        float hi = 0;
        for (int32_t i = 0; i < o->group; i++) {
            lo = fminf(lo, p[i]);
            hi = fmaxf(hi, p[i]);
        }
        float s = o->asymmetric ? (hi - lo) / (qmax - qmin) : fmaxf(-lo, hi) / ((qmax - qmin) / 2);
        s = rounded(s, o->scale_type);
        scale[g] = s == 0 ? epsilon(o->scale_type) : s;
        if (zero) {
            float z = o->asymmetric ? qmin - lo / scale[g] : 0;
            zero[g] = (int8_t)rintf(fminf(fmaxf(z, qmin), qmax));
        }
    }
}

int8_t grid_code(const struct grid_opts *o, float w, float scale, int32_t zero) {
    float qmin = -ldexpf(1, o->bits - 1);
    float qmax = -qmin - 1;
    float q = w / scale + (float)zero;
    return (int8_t)rintf(fminf(fmaxf(q, qmin), qmax));
}

float grid_value(int8_t q, float scale, int32_t zero) {
    return (float)(q - zero) * scale;
}

void grid_round(const struct grid_opts *o,
                const float *w,
                int32_t n,
                int32_t k,
                const float *scale,
                const int8_t *zero,
                int8_t *codes) {
    int32_t groups = k / o->group;
    for (int32_t r = 0; r < n; r++) {
        for (int32_t c = 0; c < k; c++) {
            int64_t g = (int64_t)r * groups + c / o->group;
            int64_t i = (int64_t)r * k + c;
            codes[i] = grid_code(o, w[i], scale[g], zero ? zero[g] : 0);
        }
    }
}

void grid_pack4(const int8_t *codes, int32_t n, int32_t k, uint32_t *words) {
    int32_t per_row = (int32_t)i64_div_up(k, 8);
    memset(words, 0, (size_t)n * (size_t)per_row * sizeof *words);
    for (int32_t r = 0; r < n; r++) {
        for (int32_t c = 0; c < k; c++) {
            uint32_t u = (uint32_t)(codes[(int64_t)r * k + c] + 8) & 15;
            words[(int64_t)r * per_row + c / 8] |= u << (4 * (c % 8));
        }
    }
}
