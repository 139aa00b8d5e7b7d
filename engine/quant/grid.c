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

/* The grid of a range. */
struct span {
    float scale;
    float zero;
};

static struct span span_of(const struct grid_opts *o, float lo, float hi) {
    float qmin = -ldexpf(1, o->bits - 1);
    float qmax = -qmin - 1;
    float s = o->asymmetric ? (hi - lo) / (qmax - qmin) : fmaxf(-lo, hi) / ((qmax - qmin) / 2);
    s = rounded(s, o->scale_type);
    struct span g = {.scale = s == 0 ? epsilon(o->scale_type) : s};
    g.zero = o->asymmetric ? rintf(fminf(fmaxf(qmin - lo / g.scale, qmin), qmax)) : 0;
    return g;
}

enum { LANES = 8 };

/* Weighted squared error of a group on a grid. why: lanes keep the order of the sum fixed and let
 * the compiler vectorize; adding and taking away 1.5 * 2^23 rounds half to even */
static float
error_of(const struct grid_opts *o, struct span g, const float *w, const float *column, int32_t n) {
    const float magic = 12582912.0f;
    float qmin = -ldexpf(1, o->bits - 1);
    float qmax = -qmin - 1;
    float inv = 1 / g.scale;
    float acc[LANES] = {0};
    for (int32_t i = 0; i + LANES <= n; i += LANES) {
        for (int32_t j = 0; j < LANES; j++) {
            float q = w[i + j] * inv + g.zero;
            q = q < qmin ? qmin : (q > qmax ? qmax : q);
            q = (q + magic) - magic;
            float d = (q - g.zero) * g.scale - w[i + j];
            acc[j] += d * d * (column ? column[i + j] : 1);
        }
    }
    float sum = 0;
    for (int32_t j = 0; j < LANES; j++) {
        sum += acc[j];
    }
    for (int32_t i = n / LANES * LANES; i < n; i++) {
        float q = rintf(fminf(fmaxf(w[i] * inv + g.zero, qmin), qmax));
        float d = (q - g.zero) * g.scale - w[i];
        sum += d * d * (column ? column[i] : 1);
    }
    return sum;
}

/* Shrinks the range while the error falls to a new least. */
static struct span
search(const struct grid_opts *o, const float *w, const float *column, float lo, float hi) {
    enum { STEPS = 20 };
    struct span best = span_of(o, lo, hi);
    float least = error_of(o, best, w, column, o->group);
    for (int32_t i = 1; i <= STEPS; i++) {
        float p = 1 - 0.02f * (float)i;
        struct span g = span_of(o, lo * p, hi * p);
        float e = error_of(o, g, w, column, o->group);
        if (e < least) {
            least = e;
            best = g;
        }
    }
    return best;
}

void grid_scales(const struct grid_opts *o,
                 const float *w,
                 int32_t n,
                 int32_t k,
                 const float *column,
                 float *scale,
                 int8_t *zero) {
    int32_t groups = k / o->group;
    for (int64_t g = 0; g < (int64_t)n * groups; g++) {
        const float *p = w + g * o->group;
        const float *c = column ? column + g % groups * o->group : NULL;
        float lo = 0;
        float hi = 0;
        for (int32_t i = 0; i < o->group; i++) {
            lo = fminf(lo, p[i]);
            hi = fmaxf(hi, p[i]);
        }
        struct span best = o->observer == GRID_MSE ? search(o, p, c, lo, hi) : span_of(o, lo, hi);
        scale[g] = best.scale;
        if (zero) {
            zero[g] = (int8_t)best.zero;
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
