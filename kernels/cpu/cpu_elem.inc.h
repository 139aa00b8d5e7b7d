/* Elementwise ops, norms and the exponential.
 *
 * exp(x): n = round(x / ln 2), r = x - n ln 2 in two steps, e^r by its Taylor polynomial of degree
 * 7
 * (|r| <= 0.347: truncation below 6e-9), times 2^n in two steps so that subnormal results are
 * rounded once. Error at most 1.5 ulp without and 1.25 ulp with fused multiply-add (test_cpu_math).
 * NaN stays NaN, -inf gives 0, +inf gives +inf.
 *
 * tanh(x): an odd polynomial below 1/4, else 1 - 2 / (e^2|x| + 1) with the sign of x.
 * src: Cody and Waite, "Software Manual for the Elementary Functions", 1980, chapter 6. */
#ifndef KERNELS_CPU_CPU_ELEM_INC_H
#define KERNELS_CPU_CPU_ELEM_INC_H

#include <math.h>

#include "kernels/cpu/cpu_kern.h"
#include "kernels/cpu/cpu_vec.inc.h"

VEC_INLINE vf vf_pow2(vi n) {
    return vf_bits((n + 127) << 23);
}

VEC_INLINE vf vf_exp(vf x) {
    const float magic = 12582912.0F; /* 1.5 * 2^23: adding it rounds to an integer */
    vf c = vf_min(vf_max(x, vf_set1(-104.0F)), vf_set1(89.0F));
    vf big = vf_fma(c, vf_set1(1.44269504F), vf_set1(magic));
    vi n = vi_bits(big) - vi_bits(vf_set1(magic));
    vf nf = big - magic;
    vf r = vf_fma(nf, vf_set1(-0.693359375F), c);
    r = vf_fma(nf, vf_set1(2.12194440e-4F), r);
    vf p = vf_set1(1.0F / 5040);
    p = vf_fma(p, r, vf_set1(1.0F / 720));
    p = vf_fma(p, r, vf_set1(1.0F / 120));
    p = vf_fma(p, r, vf_set1(1.0F / 24));
    p = vf_fma(p, r, vf_set1(1.0F / 6));
    p = vf_fma(p, r, vf_set1(0.5F));
    p = vf_fma(p * r, r, r) + 1.0F;
    vi half = n >> 1;
    vf y = p * vf_pow2(half) * vf_pow2(n - half);
    return vf_sel(x == x, y, x);
}

VEC_INLINE vf vf_tanh(vf x) {
    vf a = vf_bits(vi_bits(x) & 0x7fffffff);
    vf q = a * a;
    vf p = vf_set1(62.0F / 2835);
    p = vf_fma(p, q, vf_set1(-17.0F / 315));
    p = vf_fma(p, q, vf_set1(2.0F / 15));
    p = vf_fma(p, q, vf_set1(-1.0F / 3));
    p = vf_fma(p * q, a, a);
    vf e = 1.0F - 2.0F / (vf_exp(a + a) + 1.0F);
    vf y = vf_sel(a < 0.25F, p, e);
    return vf_bits(vi_bits(y) | (vi_bits(x) & (int32_t)0x80000000));
}

VEC_INLINE vf vf_silu(vf g) {
    return g / (1.0F + vf_exp(-g));
}

/* 1 + tanh(u) = 2 / (1 + e^-2u) */
VEC_INLINE vf vf_gelu_tanh(vf g) {
    vf u = 0.797884561F * (g + 0.044715F * g * g * g);
    return g / (1.0F + vf_exp(-2.0F * u));
}

VEC_INLINE vf act_one(const struct cpu_act *job, vf g, vf up) {
    return (job->act == ACT_SILU ? vf_silu(g) : vf_gelu_tanh(g)) * up;
}

static inline void kern_act_mul(const struct cpu_act *job, int64_t i0, int64_t i1) {
    int64_t i = i0;
    for (; i + VEC_W <= i1; i += VEC_W) {
        vf_store(job->y + i, act_one(job, vf_load(job->gate + i), vf_load(job->up + i)));
    }
    if (i < i1) {
        int32_t n = (int32_t)(i1 - i);
        vf_storen(job->y + i, act_one(job, vf_loadn(job->gate + i, n), vf_loadn(job->up + i, n)),
                  n);
    }
}

static inline void kern_add(float *y, const float *x, int64_t i0, int64_t i1) {
    for (int64_t i = i0; i < i1; i++) {
        y[i] += x[i];
    }
}

static inline void kern_softcap(float *y, float cap, int64_t i0, int64_t i1) {
    int64_t i = i0;
    for (; i + VEC_W <= i1; i += VEC_W) {
        vf_store(y + i, cap * vf_tanh(vf_load(y + i) / cap));
    }
    if (i < i1) {
        int32_t n = (int32_t)(i1 - i);
        vf_storen(y + i, cap * vf_tanh(vf_loadn(y + i, n) / cap), n);
    }
}

static inline void kern_add_scaled(float *y, const float *x, float factor, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        y[i] += factor * x[i];
    }
}

static inline void kern_scale(float *y, float factor, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        y[i] *= factor;
    }
}

static inline void kern_exp(float *y, const float *x, int64_t n) {
    int64_t i = 0;
    for (; i + VEC_W <= n; i += VEC_W) {
        vf_store(y + i, vf_exp(vf_load(x + i)));
    }
    if (i < n) {
        vf_storen(y + i, vf_exp(vf_loadn(x + i, (int32_t)(n - i))), (int32_t)(n - i));
    }
}

static inline void kern_to_f16(uint16_t *y, const float *x, int64_t n) {
    int64_t i = 0;
    for (; i + VEC_W <= n; i += VEC_W) {
        vf_to_f16(y + i, vf_load(x + i));
    }
    for (; i < n; i++) {
        y[i] = f32_to_f16(x[i]);
    }
}

static inline void kern_from_f16(float *y, const uint16_t *x, int64_t n) {
    int64_t i = 0;
    for (; i + VEC_W <= n; i += VEC_W) {
        vf_store(y + i, vf_f16((const uint8_t *)(x + i)));
    }
    for (; i < n; i++) {
        y[i] = f16_to_f32(x[i]);
    }
}

/* n cache elements from number at, as f32. scale: of F8_E4M3 alone, 0: none */
static inline void
kern_widen(enum dtype type, const void *base, int64_t at, int64_t n, float scale, float *y) {
    if (type == DTYPE_F16) {
        kern_from_f16(y, (const uint16_t *)base + at, n);
        return;
    }
    int64_t i = 0;
    if (type == DTYPE_BF16) {
        const uint16_t *h = (const uint16_t *)base + at;
        for (; i + VEC_W <= n; i += VEC_W) {
            vf_store(y + i, vf_bf16((const uint8_t *)(h + i)));
        }
        for (; i < n; i++) {
            y[i] = bf16_to_f32(h[i]);
        }
        return;
    }
    const uint8_t *c = (const uint8_t *)base + at;
    float s = scale != 0 ? scale : 1;
    for (; i + VEC_W <= n; i += VEC_W) {
        vf_store(y + i, vf_f8(c + i, true) * s);
    }
    for (; i < n; i++) {
        y[i] = f8_e4m3_to_f32(c[i]) * s;
    }
}

/* Sum of squares: one accumulator of W lanes, ascending, then the tree. */
VEC_INLINE float sum_squares(const float *x, int32_t n) {
    vf acc = vf_set1(0);
    int32_t i = 0;
    for (; i + VEC_W <= n; i += VEC_W) {
        vf v = vf_load(x + i);
        acc = vf_fma(v, v, acc);
    }
    if (i < n) {
        vf v = vf_loadn(x + i, n - i);
        acc = vf_fma(v, v, acc);
    }
    return vf_sum(acc);
}

VEC_INLINE float norm_factor(const float *x, int32_t n, float eps) {
    return 1.0F / sqrtf(sum_squares(x, n) / (float)n + eps);
}

static inline void kern_rmsnorm(const struct cpu_norm *job, int64_t row0, int64_t row1) {
    int32_t n = job->dim;
    vf offset = vf_set1(job->w_offset);
    for (int64_t t = row0; t < row1; t++) {
        const float *x = job->x + t * n;
        float *y = job->y + t * n;
        vf inv = vf_set1(norm_factor(x, n, job->eps));
        int32_t i = 0;
        for (; i + VEC_W <= n; i += VEC_W) {
            vf_store(y + i, vf_load(x + i) * inv * (vf_load(job->w + i) + offset));
        }
        if (i < n) {
            vf v = vf_loadn(x + i, n - i) * inv * (vf_loadn(job->w + i, n - i) + offset);
            vf_storen(y + i, v, n - i);
        }
    }
}

/* Loads min(W, n) lanes. */
VEC_INLINE vf vf_load_upto(const float *p, int32_t n) {
    return n >= VEC_W ? vf_load(p) : vf_loadn(p, n);
}

VEC_INLINE void vf_store_upto(float *p, vf v, int32_t n) {
    if (n >= VEC_W) {
        vf_store(p, v);
    } else {
        vf_storen(p, v, n);
    }
}

/* Turns the pairs (i, i + half) of one head; w and inv apply the norm where w is given. */
VEC_INLINE void rope_head(const struct cpu_rope *job, float *x, const float *angle) {
    int32_t half = job->head_dim / 2;
    vf inv = vf_set1(job->w ? norm_factor(x, job->head_dim, job->eps) : 1.0F);
    vf offset = vf_set1(job->w_offset);
    for (int32_t i = 0; i < half; i += VEC_W) {
        int32_t n = half - i;
        vf a = vf_load_upto(x + i, n);
        vf b = vf_load_upto(x + half + i, n);
        if (job->w) {
            a = a * inv * (vf_load_upto(job->w + i, n) + offset);
            b = b * inv * (vf_load_upto(job->w + half + i, n) + offset);
        }
        vf c = vf_load_upto(angle + i, n);
        vf s = vf_load_upto(angle + half + i, n);
        vf_store_upto(x + i, a * c - b * s, n);
        vf_store_upto(x + half + i, b * c + a * s, n);
    }
}

static inline void kern_norm_rope(const struct cpu_rope *job, int64_t i0, int64_t i1) {
    for (int64_t i = i0; i < i1; i++) {
        const float *angle = job->cos_sin + (int64_t)job->pos[i / job->n_head] * job->head_dim;
        rope_head(job, job->x + i * job->head_dim, angle);
    }
}

/* Twelve or 24 independent chains of multiply-adds: the arithmetic roof. */
static inline double kern_spin(int64_t n, float *sink) {
    enum { CHAINS = VEC_W == 16 ? 24 : 12 };
    vf acc[CHAINS];
    vf m = vf_set1(0.999F);
    vf a = vf_set1(0.001F);
    VEC_UNROLL
    for (int32_t i = 0; i < CHAINS; i++) {
        acc[i] = vf_set1((float)i);
    }
    for (int64_t j = 0; j < n; j++) {
        VEC_UNROLL
        for (int32_t i = 0; i < CHAINS; i++) {
            acc[i] = vf_fma(acc[i], m, a);
        }
    }
    vf sum = acc[0];
    for (int32_t i = 1; i < CHAINS; i++) {
        sum += acc[i];
    }
    *sink = vf_sum(sum);
    return (double)n * CHAINS * VEC_W * 2;
}

static inline float kern_read(const float *x, int64_t n) {
    enum { CHAINS = 8 };
    vf acc[CHAINS] = {0};
    for (int64_t i = 0; i + CHAINS * VEC_W <= n; i += CHAINS * VEC_W) {
        VEC_UNROLL
        for (int32_t j = 0; j < CHAINS; j++) {
            acc[j] += vf_load(x + i + j * VEC_W);
        }
    }
    vf sum = acc[0];
    for (int32_t i = 1; i < CHAINS; i++) {
        sum += acc[i];
    }
    return vf_sum(sum);
}

#endif
