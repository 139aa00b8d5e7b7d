/* Quantized inputs by vectors: the codes and scales of ref_actq, bit for bit.
 *
 * Every step is an f32 operation of its own, as in the truth: maximum and minimum are exact in any
 * order, the quotient is a true division, and rounding half to even is the addition of the power of
 * two whose unit in the last place is the step, or an addition in the mantissa's bits. */
#ifndef KERNELS_CPU_CPU_ACTQ_INC_H
#define KERNELS_CPU_CPU_ACTQ_INC_H

#include <float.h>
#include <math.h>

#include "kernels/cpu/cpu_elem.inc.h"
#include "kernels/cpu/cpu_kern.h"
#include "kernels/scaled.h"

/* Extremes of n columns, 0 included; a NaN is passed over. */
static inline void actq_extremes(const float *x, int32_t n, float *min, float *max) {
    vf lo = vf_set1(0);
    vf hi = vf_set1(0);
    for (int32_t i = 0; i < n; i += VEC_W) {
        vf v = vf_load_upto(x + i, n - i);
        lo = vf_min(v, lo);
        hi = vf_max(v, hi);
    }
    *min = -vf_max_lane(-lo);
    *max = vf_max_lane(hi);
}

static inline float actq_scale(const struct actq *q, const float *x, int32_t n, int32_t *zero) {
    float min;
    float max;
    actq_extremes(x, n, &min, &max);
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

/* v to a number of man mantissa bits, below 2^low to a multiple of 2^(low - man). in: no NaN, type
 * a constant */
VEC_INLINE vf actq_small_float(vf v, int32_t man, int32_t low) {
    vi sign = vi_bits(v) & (int32_t)0x80000000;
    vi mag = vi_bits(v) & 0x7fffffff;
    int32_t drop = 23 - man;
    vi odd = (mag >> drop) & 1;
    vi half = vi_set1((1 << (drop - 1)) - 1);
    vi near = (mag + half + odd) & vi_set1(-(1 << drop));
    vf step = vf_bits(vi_set1((127 + low - man + 23) << 23)); /* its last place is the step */
    vi tiny = vi_bits((vf_bits(mag) + step) - step);
    vi is_tiny = mag < ((127 + low) << 23);
    return vf_bits((tiny & is_tiny) | (near & ~is_tiny) | sign);
}

/* Quotients, zero point added, to codes. in: no NaN; type a constant */
VEC_INLINE vf actq_code(enum actq_type type, vf v) {
    float lo = type == ACTQ_I8 ? -128 : type == ACTQ_F4 ? -6 : -448;
    float hi = type == ACTQ_I8 ? 127 : -lo;
    v = vf_min(vf_max(v, vf_set1(lo)), vf_set1(hi));
    if (type == ACTQ_I8) {
        return (v + 0x1.8p23F) - 0x1.8p23F;
    }
    return type == ACTQ_F4 ? actq_small_float(v, 1, 0) : actq_small_float(v, 3, -6);
}

/* Codes of n columns under one scale; lanes behind the end hold 0 / s, which is a number.
 * out: is there a quotient that is none? */
VEC_INLINE bool
actq_group(enum actq_type type, const float *x, int32_t n, float s, float zero, float *code) {
    vi nan = vi_set1(0);
    for (int32_t i = 0; i < n; i += VEC_W) {
        vf v = vf_load_upto(x + i, n - i) / s;
        vi bad = v != v;
        nan |= bad;
        v = vf_bits(vi_bits(v) & ~bad);
        v = actq_code(type, type == ACTQ_I8 ? v + zero : v);
        vf_store_upto(code + i, v, n - i);
    }
    for (int32_t i = 0; i < VEC_W; i++) {
        if (nan[i]) {
            return true;
        }
    }
    return false;
}

static inline void kern_actq(
    const struct actq *q, int32_t k, const float *x, float *code, float *scale, int32_t *zero) {
    int32_t group = q->group > 0 && !q->is_static ? q->group : k;
    int32_t n_group = (int32_t)i64_div_up(k, group);
    for (int32_t g = 0; g < n_group; g++) {
        int32_t c = g * group;
        int32_t n = i32_min(group, k - c);
        float s = q->scale;
        int32_t z = q->zero;
        if (!q->is_static) {
            s = actq_scale(q, x + c, n, &z);
        }
        bool bad;
        if (q->type == ACTQ_I8) {
            bad = actq_group(ACTQ_I8, x + c, n, s, (float)z, code + c);
        } else if (q->type == ACTQ_F4) {
            bad = actq_group(ACTQ_F4, x + c, n, s, 0, code + c);
        } else {
            bad = actq_group(ACTQ_F8_E4M3, x + c, n, s, 0, code + c);
        }
        scale[g] = bad ? NAN : s;
        zero[g] = z;
    }
}

/* Code of column i in product order; padding is 0. */
VEC_INLINE float pack_at(const struct cpu_plan *plan, const float *code, int32_t i) {
    int32_t c = plan->is_plain ? i : plan->col[i];
    return c < 0 ? 0 : code[c];
}

static inline void
pack_i16(const struct cpu_plan *plan, const float *code, const int32_t *zero, int16_t *dst) {
    float twice = plan->w->act.type == ACTQ_F4 ? 2 : 1;
    for (int32_t p = 0; p < plan->n_piece; p++) {
        const struct cpu_piece *s = &plan->piece[p];
        float z = (float)zero[s->x_group];
        if (plan->is_plain) {
            for (int32_t i = s->at; i < s->at + s->n; i++) {
                dst[i] = (int16_t)(code[i] * twice - z);
            }
            continue;
        }
        for (int32_t i = s->at; i < s->at + s->n; i++) {
            dst[i] = plan->col[i] < 0 ? 0 : (int16_t)(pack_at(plan, code, i) * twice - z);
        }
    }
}

static inline void pack_byte(const struct cpu_plan *plan, const float *code, uint8_t *dst) {
    float twice = plan->w->act.type == ACTQ_F4 ? 2 : 1;
    if (plan->is_plain) {
        for (int32_t i = 0; i < plan->n_col; i++) {
            dst[i] = (uint8_t)(int32_t)(code[i] * twice + 128);
        }
        return;
    }
    for (int32_t i = 0; i < plan->n_col; i++) {
        dst[i] = (uint8_t)(int32_t)(pack_at(plan, code, i) * twice + 128);
    }
}

static inline void
pack_f32(const struct cpu_plan *plan, const float *code, const int32_t *zero, float *dst) {
    for (int32_t p = 0; p < plan->n_piece; p++) {
        const struct cpu_piece *s = &plan->piece[p];
        float z = (float)zero[s->x_group];
        for (int32_t i = s->at; i < s->at + s->n; i++) {
            dst[i] = pack_at(plan, code, i) - z;
        }
    }
}

static inline void
kern_pack(const struct cpu_plan *plan, const struct cpu_qx *x, int32_t t, const float *code) {
    void *dst = x->code + t * x->stride;
    int32_t *zero = x->zero + (int64_t)t * x->n_group;
    float *scale = x->scale + (int64_t)t * x->n_group;
    if (plan->form == CPU_FORM_F32) {
        pack_f32(plan, code, zero, dst);
        return;
    }
    if (plan->form == CPU_FORM_I16) {
        pack_i16(plan, code, zero, dst);
    } else {
        pack_byte(plan, code, dst);
    }
    for (int32_t g = 0; g < x->n_group; g++) {
        scale[g] = plan->w->act.type == ACTQ_F4 ? scale[g] * 0.5F : scale[g];
        zero[g] += 128;
    }
}

#endif
