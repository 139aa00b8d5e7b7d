/* Decoders of 32 stored weights to vectors, and what is built on them: a decoded row, and the fused
 * product of one row of x with up to four weight rows.
 *
 * Law: the values are bit-equal to ref_decode (multiply, round, add, round; never fused), and the
 * fused product adds them in the order of dot_tile: one accumulator of W lanes per output, k
 * ascending. So a product with T = 1 has the bits of the same row at T = 512. */
#ifndef KERNELS_CPU_CPU_DEC_INC_H
#define KERNELS_CPU_CPU_DEC_INC_H

#include "kernels/backend.h"
#include "kernels/cpu/cpu_vec.inc.h"
#include "kernels/scaled.h"

/* Formats with vector decoders: X(suffix, type, bytes of 32 weights). */
#define DEC_FORMATS(X)                                                                             \
    X(f32, DTYPE_F32, 128)                                                                         \
    X(f16, DTYPE_F16, 64)                                                                          \
    X(bf16, DTYPE_BF16, 64)                                                                        \
    X(q4_0, DTYPE_Q4_0, 18)                                                                        \
    X(q4_1, DTYPE_Q4_1, 20)                                                                        \
    X(q8_0, DTYPE_Q8_0, 34)                                                                        \
    X(w4, DTYPE_W4, 16)                                                                            \
    X(w8, DTYPE_W8, 32)                                                                            \
    X(i8, DTYPE_I8, 32)                                                                            \
    X(f8_e4m3, DTYPE_F8_E4M3, 32)                                                                  \
    X(f8_e5m2, DTYPE_F8_E5M2, 32)                                                                  \
    X(f4, DTYPE_F4, 16)

/* Scale and zero point of a group in every lane; unused by the formats that carry their own. */
struct dec_group {
    vf scale;
    vf zero;     /* offset of the type + zero point: what is subtracted from the stored number */
    vf scale_hi; /* F4 alone: the scale of the second 16 of 32 elements */
};

/* One E4M3, without a call: exponent and mantissa moved into place, times 2^120, which is exact. */
VEC_INLINE float dec_e4m3(uint8_t c) {
    uint32_t u = (uint32_t)(c & 127) << 20;
    float f;
    memcpy(&f, &u, sizeof(f));
    f = f * 0x1p120F;
    memcpy(&u, &f, sizeof(u));
    u = ((c & 127) == 127 ? 0x7fc00000U : u) | (uint32_t)(c & 128) << 24;
    memcpy(&f, &u, sizeof(f));
    return f;
}

/* scaled_scale, without a call. */
VEC_INLINE float dec_scale(const struct wmat *w, int64_t i) {
    const uint8_t *p = w->scale;
    float s;
    if (w->scale_type == DTYPE_F32) {
        memcpy(&s, p + i * 4, sizeof(s));
    } else if (w->scale_type == DTYPE_F16) {
        s = vf_f16_set1(p + i * 2)[0];
    } else if (w->scale_type == DTYPE_BF16) {
        s = vf_bf16_set1(p + i * 2)[0];
    } else {
        s = w->scale_type == DTYPE_F8_E4M3 ? dec_e4m3(p[i]) : f8_e8m0_to_f32(p[i]);
    }
    return w->global != 0 ? s / w->global : s;
}

/* The group of column c of the row whose first scale is number at. in: dec_whole(w), c of 32 */
VEC_INLINE struct dec_group
dec_group(enum dtype type, const struct wmat *w, int64_t at, int32_t c) {
    struct dec_group d = {0};
    if (!dtype_is_scaled(type)) {
        return d;
    }
    bool nv = type == DTYPE_F4 && w->group == 16; /* why: a division costs more than a group */
    int64_t g = at + (nv ? c / 16 : c / w->group);
    d.scale = vf_set1(dec_scale(w, g));
    if (type == DTYPE_F4) {
        int64_t hi = nv ? g + 1 : at + (c + 16) / w->group;
        d.scale_hi = hi == g ? d.scale : vf_set1(dec_scale(w, hi));
    } else if (type != DTYPE_F8_E4M3 && type != DTYPE_F8_E5M2) {
        d.zero = vf_set1((float)(scaled_offset(type) + (w->zero ? w->zero[g] : 0)));
    }
    return d;
}

VEC_INLINE void dec_plain(enum dtype type, const uint8_t *p, vf v[VEC_N32]) {
    VEC_UNROLL
    for (int32_t i = 0; i < VEC_N32; i++) {
        if (type == DTYPE_F32) {
            memcpy(&v[i], p + i * VEC_W * 4, sizeof(vf));
        } else {
            v[i] = type == DTYPE_F16 ? vf_f16(p + i * VEC_W * 2) : vf_bf16(p + i * VEC_W * 2);
        }
    }
}

/* Stored numbers to weights, each operation rounded. bias: m of Q4_1, else what is subtracted */
VEC_INLINE vf dec_value(enum dtype type, vf n, vf scale, vf bias) {
    return type == DTYPE_Q4_1 ? n * scale + bias : (n - bias) * scale;
}

/* 32 nibbles at p to weights. why: with 16 lanes all 16 possible weights of a block fit one
 * vector, so they are computed once and looked up */
VEC_INLINE void dec_nibbles(enum dtype type, const uint8_t *p, vf scale, vf bias, vf v[VEC_N32]) {
    vi n[VEC_N32];
    if (type == DTYPE_W4) {
        vi_pairs(p, n);
    } else {
        vi_halves(p, n);
    }
#if VEC_W == 16
    const vf all = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    vf table = dec_value(type, all, scale, bias);
    v[0] = vf_lookup(table, n[0]);
    v[1] = vf_lookup(table, n[1]);
#else
    const float two23 = 8388608.0F;
    VEC_UNROLL
    for (int32_t i = 0; i < VEC_N32; i++) {
        if (type == DTYPE_Q4_1) {
            v[i] = dec_value(type, __builtin_convertvector(n[i], vf), scale, bias);
        } else {
            /* why: n as the low bits of 2^23 + n needs no conversion, and 2^23 goes with bias;
             * every step but the product is exact */
            v[i] = dec_value(type, vf_bits(n[i] | 0x4b000000), scale, bias + two23);
        }
    }
#endif
}

VEC_INLINE void dec_q8(const uint8_t *p, vf scale, vf v[VEC_N32]) {
    vf_i8x16(p, v);
    vf_i8x16(p + 16, v + VEC_N16);
    VEC_UNROLL
    for (int32_t i = 0; i < VEC_N32; i++) {
        v[i] = v[i] * scale;
    }
}

/* 32 codes of a scaled type as they are stored, unsigned for W4 and W8. in: type a constant */
VEC_INLINE void dec_codes(enum dtype type, const uint8_t *p, vf v[VEC_N32]) {
    if (type == DTYPE_I8) {
        vf_i8x16(p, v);
        vf_i8x16(p + 16, v + VEC_N16);
        return;
    }
    if (type == DTYPE_W8) {
        vf_u8x16(p, v);
        vf_u8x16(p + 16, v + VEC_N16);
        return;
    }
    if (type == DTYPE_F8_E4M3 || type == DTYPE_F8_E5M2) {
        VEC_UNROLL
        for (int32_t i = 0; i < VEC_N32; i++) {
            v[i] = vf_f8(p + i * VEC_W, type == DTYPE_F8_E4M3);
        }
        return;
    }
    vi n[VEC_N32];
    vi_pairs(p, n);
    VEC_UNROLL
    for (int32_t i = 0; i < VEC_N32; i++) {
        v[i] = type == DTYPE_F4 ? vf_f4(n[i]) : __builtin_convertvector(n[i] & 15, vf);
    }
}

/* 32 weights of a scaled type. */
VEC_INLINE void
dec_scaled(enum dtype type, const uint8_t *p, const struct dec_group *g, vf v[VEC_N32]) {
    if (type == DTYPE_W4) {
        dec_nibbles(type, p, g->scale, g->zero, v);
        return;
    }
    dec_codes(type, p, v);
    VEC_UNROLL
    for (int32_t i = 0; i < VEC_N32; i++) {
        if (type == DTYPE_I8 || type == DTYPE_W8) {
            v[i] = (v[i] - g->zero) * g->scale;
        } else {
            v[i] = v[i] * (type == DTYPE_F4 && i >= VEC_N16 ? g->scale_hi : g->scale);
        }
    }
}

/* 32 weights at p. in: type a constant, so that one branch is left */
VEC_INLINE void dec32(enum dtype type, const uint8_t *p, const struct dec_group *g, vf v[VEC_N32]) {
    if (type == DTYPE_F32 || type == DTYPE_F16 || type == DTYPE_BF16) {
        dec_plain(type, p, v);
        return;
    }
    if (dtype_is_scaled(type)) {
        dec_scaled(type, p, g, v);
        return;
    }
    vf d;
    vf m;
    vf_f16_pair(p, &d, &m);
    if (type == DTYPE_Q8_0) {
        dec_q8(p + 2, d, v);
    } else if (type == DTYPE_Q4_0) {
        dec_nibbles(type, p + 2, d, vf_set1(8), v);
    } else {
        dec_nibbles(type, p + 4, d, m, v);
    }
}

/* Columns that share a struct dec_group, for the loops below: k where a format has no groups
 * outside its blocks, 32 where F4 has one scale for each 16. */
VEC_INLINE int32_t dec_span(enum dtype type, const struct wmat *w) {
    if (type == DTYPE_F4 && w->group % 32 != 0) {
        return 32;
    }
    return dtype_is_scaled(type) ? w->group : w->k;
}

VEC_INLINE int64_t dec_first_scale(enum dtype type, const struct wmat *w, int32_t r) {
    return dtype_is_scaled(type) ? scaled_row(w, r) : 0;
}

/* Has the format vector decoders, and can every group be cut into whole pieces of 32, or 16 for F4?
 * Then a row is decoded by vectors alone. */
VEC_INLINE bool dec_whole(const struct wmat *w) {
#define DEC_HAS(suffix, type, piece) [(type)] = true,
    static const bool has[DTYPE_N] = {DEC_FORMATS(DEC_HAS)};
#undef DEC_HAS
    if (!has[w->type] || w->k % 32 != 0) {
        return false;
    }
    return !dtype_is_scaled(w->type) ||
           (!w->g_idx && w->group % (w->type == DTYPE_F4 ? 16 : 32) == 0);
}

/* Row r to f32. in: dec_whole(w) */
VEC_INLINE void
dec_row(enum dtype type, int32_t piece, const struct wmat *w, int32_t r, float *out) {
    const uint8_t *p = (const uint8_t *)w->data + r * w->row_bytes;
    int32_t span = dec_span(type, w);
    int64_t at = dec_first_scale(type, w, r);
    for (int32_t c = 0; c < w->k; c += span) {
        struct dec_group group = dec_group(type, w, at, c);
        int32_t n = i32_min(span, w->k - c);
        for (int32_t i = 0; i < n; i += 32) {
            vf v[VEC_N32];
            dec32(type, p, &group, v);
            VEC_UNROLL
            for (int32_t j = 0; j < VEC_N32; j++) {
                vf_store(out + j * VEC_W, v[j]);
            }
            p += piece;
            out += 32;
        }
    }
}

/* acc[i] += x[0..k) times row r + i, for nr rows. in: dec_whole(w); nr 1, 2 or 4, a constant */
VEC_INLINE void dec_add(enum dtype type,
                        int32_t piece,
                        const struct wmat *w,
                        int32_t r,
                        const float *x,
                        const int32_t nr,
                        vf *acc) {
    const uint8_t *p = (const uint8_t *)w->data + r * w->row_bytes;
    int32_t span = dec_span(type, w);
    int64_t at[4] = {0};
    VEC_UNROLL
    for (int32_t i = 0; i < nr; i++) {
        at[i] = dec_first_scale(type, w, r + i);
    }
    for (int32_t c = 0; c < w->k; c += span) {
        struct dec_group group[4] = {0};
        VEC_UNROLL
        for (int32_t i = 0; i < nr; i++) {
            group[i] = dec_group(type, w, at[i], c);
        }
        int32_t n = i32_min(span, w->k - c);
        for (int32_t k = 0; k < n; k += 32) {
            VEC_UNROLL
            for (int32_t i = 0; i < nr; i++) {
                vf v[VEC_N32];
                dec32(type, p + i * w->row_bytes, &group[i], v);
                VEC_UNROLL
                for (int32_t j = 0; j < VEC_N32; j++) {
                    acc[i] = vf_fma(vf_load(x + j * VEC_W), v[j], acc[i]);
                }
            }
            p += piece;
            x += 32;
        }
    }
}

VEC_INLINE v4f
dec_dot1(enum dtype type, int32_t piece, const struct wmat *w, int32_t r, const float *x) {
    vf acc[4] = {0};
    dec_add(type, piece, w, r, x, 1, acc);
    return vf_sum4(acc[0], acc[0], acc[0], acc[0]);
}

VEC_INLINE v4f
dec_dot4(enum dtype type, int32_t piece, const struct wmat *w, int32_t r, const float *x) {
    vf acc[4] = {0};
    if (dtype_is_scaled(type) && VEC_W < 16) {
        /* why: scales and zero points of four rows leave no register for the sums */
        dec_add(type, piece, w, r, x, 2, acc);
        dec_add(type, piece, w, r + 2, x, 2, acc + 2);
    } else {
        dec_add(type, piece, w, r, x, 4, acc);
    }
    return vf_sum4(acc[0], acc[1], acc[2], acc[3]);
}

typedef void dec_row_fn(const struct wmat *w, int32_t r, float *out);
typedef v4f dec_dot_fn(const struct wmat *w, int32_t r, const float *x);

#define DEC_DEFINE(suffix, type, piece)                                                            \
    static inline void dec_row_##suffix(const struct wmat *w, int32_t r, float *out) {             \
        dec_row((type), (piece), w, r, out);                                                       \
    }                                                                                              \
    static inline v4f dec_dot1_##suffix(const struct wmat *w, int32_t r, const float *x) {         \
        return dec_dot1((type), (piece), w, r, x);                                                 \
    }                                                                                              \
    static inline v4f dec_dot4_##suffix(const struct wmat *w, int32_t r, const float *x) {         \
        return dec_dot4((type), (piece), w, r, x);                                                 \
    }
DEC_FORMATS(DEC_DEFINE)
#undef DEC_DEFINE

struct dec_fns {
    dec_row_fn *row;
    dec_dot_fn *dot1; /* one row in every lane */
    dec_dot_fn *dot4; /* four rows */
};

/* The functions of a format. in: a type of DEC_FORMATS */
static inline const struct dec_fns *dec_find(enum dtype type) {
#define DEC_ENTRY(suffix, type, piece)                                                             \
    [(type)] = {dec_row_##suffix, dec_dot1_##suffix, dec_dot4_##suffix},
    static const struct dec_fns table[DTYPE_N] = {DEC_FORMATS(DEC_ENTRY)};
#undef DEC_ENTRY
    return &table[type];
}

/* Codes of n columns from the start of a row, less the offset of the type, as f32. in: type a
 * constant of DEC_FORMATS. out: how many were done, the whole pieces */
VEC_INLINE int32_t
dec_stored(enum dtype type, int32_t piece, const uint8_t *p, int32_t n, float *out) {
    float offset = (float)scaled_offset(type);
    int32_t i = 0;
    for (; i + 32 <= n; i += 32) {
        vf v[VEC_N32];
        dec_codes(type, p, v);
        VEC_UNROLL
        for (int32_t j = 0; j < VEC_N32; j++) {
            vf_store(out + i + j * VEC_W, v[j] - offset);
        }
        p += piece;
    }
    return i;
}

/* scaled_codes of a whole row. */
static inline void dec_row_codes(const struct wmat *w, int32_t r, float *out) {
    const uint8_t *p = (const uint8_t *)w->data + r * w->row_bytes;
    int32_t done = 0;
    if (w->type == DTYPE_W4) {
        done = dec_stored(DTYPE_W4, 16, p, w->k, out);
    } else if (w->type == DTYPE_W8) {
        done = dec_stored(DTYPE_W8, 32, p, w->k, out);
    } else if (w->type == DTYPE_I8) {
        done = dec_stored(DTYPE_I8, 32, p, w->k, out);
    } else if (w->type == DTYPE_F4) {
        done = dec_stored(DTYPE_F4, 16, p, w->k, out);
    } else if (w->type == DTYPE_F8_E4M3) {
        done = dec_stored(DTYPE_F8_E4M3, 32, p, w->k, out);
    } else if (w->type == DTYPE_F8_E5M2) {
        done = dec_stored(DTYPE_F8_E5M2, 32, p, w->k, out);
    }
    if (done < w->k) {
        scaled_codes(w, r, done, w->k - done, out + done);
    }
}

enum { DEC_GROUPS = 512 }; /* scales of a row kept on the stack */

/* Row r of a scaled matrix whose groups are no whole pieces, or in any order: codes first, then
 * each column's zero point and scale. in: at most DEC_GROUPS groups */
static inline void dec_mixed_row(const struct wmat *w, int32_t r, float *out) {
    float scale[DEC_GROUPS];
    float zero[DEC_GROUPS];
    int64_t at = scaled_row(w, r);
    int32_t n_group = scaled_n_group(w);
    for (int32_t g = 0; g < n_group; g++) {
        scale[g] = dec_scale(w, at + g);
        zero[g] = w->zero ? (float)w->zero[at + g] : 0;
    }
    dec_row_codes(w, r, out);
    if (w->g_idx) {
        for (int32_t c = 0; c < w->k; c++) {
            out[c] = (out[c] - zero[w->g_idx[c]]) * scale[w->g_idx[c]];
        }
        return;
    }
    for (int32_t g = 0; g < n_group; g++) {
        int32_t end = i32_min(w->group, w->k - g * w->group);
        float *v = out + (int64_t)g * w->group;
        for (int32_t c = 0; c < end; c++) {
            v[c] = (v[c] - zero[g]) * scale[g];
        }
    }
}

/* Row r of any supported matrix to f32; odd sizes of blocks and formats without vector decoders go
 * through the truth itself. */
static inline void dec_any_row(const struct wmat *w, int32_t r, float *out) {
    if (dec_whole(w)) {
        dec_find(w->type)->row(w, r, out);
    } else if (dtype_is_scaled(w->type) && scaled_n_group(w) <= DEC_GROUPS) {
        dec_mixed_row(w, r, out);
    } else {
        ref_decode(w, r, 0, w->k, out);
    }
}

#endif
