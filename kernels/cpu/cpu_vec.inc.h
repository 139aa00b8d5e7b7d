/* One vector of W floats for each instruction set: the intrinsics of the CPU backend, but for a few
 * of the quantized product.
 *
 * VEC_W (4, 8 or 16) is set by the file that includes this; 4 by default. Arithmetic is written
 * with
 * + - * on the vector types, multiply-adds with vf_fma. The files are compiled with contraction
 * off, so what is fused is what the code says, in every build.
 *
 * The tree over lanes, for every sum of the backend: halves are added until one lane is left,
 *   v[i] + v[i + W/2], then [i] + [i + W/4], ..., then [0] + [1].
 * vf_sum4 does four at once by blending before each addition; addition commutes, so the bits are
 * those of the tree. */
#ifndef KERNELS_CPU_CPU_VEC_INC_H
#define KERNELS_CPU_CPU_VEC_INC_H

#include <immintrin.h>
#include <string.h>

#include "kernels/dtype.h"

#ifndef VEC_W
#define VEC_W 4
#endif

#define VEC_BYTES (VEC_W * 4)
#define VEC_N32   (32 / VEC_W) /* vectors in 32 floats */
#define VEC_N16   (16 / VEC_W)

#define VEC_INLINE static inline __attribute__((always_inline))

#if defined(__clang__)
#define VEC_UNROLL _Pragma("unroll")
#else
#define VEC_UNROLL _Pragma("GCC unroll 32")
#endif

typedef float vf __attribute__((vector_size(VEC_BYTES)));
typedef int32_t vi __attribute__((vector_size(VEC_BYTES)));
typedef float v4f __attribute__((vector_size(16)));

VEC_INLINE vf vf_set1(float f) {
    return f - (vf){0};
}

VEC_INLINE vi vi_set1(int32_t i) {
    return i - (vi){0};
}

VEC_INLINE vf vf_load(const float *p) {
    vf v;
    memcpy(&v, p, sizeof(v));
    return v;
}

VEC_INLINE void vf_store(float *p, vf v) {
    memcpy(p, &v, sizeof(v));
}

VEC_INLINE vf vf_bits(vi v) {
    vf f;
    memcpy(&f, &v, sizeof(f));
    return f;
}

VEC_INLINE vi vi_bits(vf v) {
    vi i;
    memcpy(&i, &v, sizeof(i));
    return i;
}

/* mask ? a : b; the lanes of mask are 0 or -1 */
VEC_INLINE vf vf_sel(vi mask, vf a, vf b) {
    return vf_bits((vi_bits(a) & mask) | (vi_bits(b) & ~mask));
}

VEC_INLINE uint16_t load_half(const uint8_t *p) {
    uint16_t h;
    memcpy(&h, p, sizeof(h));
    return h;
}

VEC_INLINE int32_t load_word(const uint8_t *p) {
    int32_t w;
    memcpy(&w, p, sizeof(w));
    return w;
}

#if VEC_W == 16

VEC_INLINE __mmask16 vec_mask(int32_t n) {
    return (__mmask16)((1U << n) - 1U);
}

/* The first n lanes, the others zero; nothing behind them is read or written. in: n 1..W-1 */
VEC_INLINE vf vf_loadn(const float *p, int32_t n) {
    return (vf)_mm512_maskz_loadu_ps(vec_mask(n), p);
}

VEC_INLINE void vf_storen(float *p, vf v, int32_t n) {
    _mm512_mask_storeu_ps(p, vec_mask(n), (__m512)v);
}

VEC_INLINE vf vf_fma(vf a, vf b, vf c) {
    return (vf)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
}

/* a > b ? a : b; b when either is a NaN */
VEC_INLINE vf vf_max(vf a, vf b) {
    return (vf)_mm512_max_ps((__m512)a, (__m512)b);
}

VEC_INLINE vf vf_min(vf a, vf b) {
    return (vf)_mm512_min_ps((__m512)a, (__m512)b);
}

/* 32 nibbles of 16 bytes, one a lane: low nibbles are elements 0..15, high ones 16..31.
 * out: bits above the low four are arbitrary with 16 lanes, zero otherwise */
VEC_INLINE void vi_halves(const uint8_t *p, vi out[VEC_N32]) {
    vi b = (vi)_mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)p));
    out[0] = b;
    out[1] = (vi)_mm512_srli_epi32((__m512i)b, 4);
}

/* 32 nibbles of 16 bytes: element i is at bit 4 * i. out: as vi_halves */
VEC_INLINE void vi_pairs(const uint8_t *p, vi out[VEC_N32]) {
    const __m512i shift =
        _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 0, 4, 8, 12, 16, 20, 24, 28);
    for (int32_t i = 0; i < 2; i++) {
        __m512i w = _mm512_mask_set1_epi32(_mm512_set1_epi32(load_word(p + i * 8)), 0xff00,
                                           load_word(p + i * 8 + 4));
        out[i] = (vi)_mm512_srlv_epi32(w, shift);
    }
}

/* table[n & 15] for the n of each lane. */
VEC_INLINE vf vf_lookup(vf table, vi n) {
    return (vf)_mm512_permutexvar_ps((__m512i)n, (__m512)table);
}

/* 16 signed bytes as floats. */
VEC_INLINE void vf_i8x16(const uint8_t *p, vf out[VEC_N16]) {
    __m128i b = _mm_loadu_si128((const void *)p);
    out[0] = (vf)_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(b));
}

/* 16 unsigned bytes as floats. */
VEC_INLINE void vf_u8x16(const uint8_t *p, vf out[VEC_N16]) {
    __m128i b = _mm_loadu_si128((const void *)p);
    out[0] = (vf)_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(b));
}

/* W bytes of E4M3 or E5M2. */
VEC_INLINE vf vf_f8(const uint8_t *p, bool e4m3) {
    __m256i h = _mm256_cvtepu8_epi16(_mm_loadu_si128((const void *)p));
    h = _mm256_slli_epi16(h, 8);
    if (!e4m3) {
        return (vf)_mm512_cvtph_ps(h);
    }
    const __m256i top = _mm256_set1_epi16(0x3f80);
    h = _mm256_and_si256(_mm256_srai_epi16(h, 1), _mm256_set1_epi16((short)0xbfff));
    __m256i nan = _mm256_cmpeq_epi16(_mm256_and_si256(h, top), top);
    h = _mm256_or_si256(h, _mm256_and_si256(nan, _mm256_set1_epi16(0x7c00)));
    return (vf)_mm512_cvtph_ps(h) * 0x1p8F;
}

/* acc + the product of two signed 16-bit numbers in each half of a lane, both summed. */
VEC_INLINE vi vi_madd(vi acc, vi a, vi b) {
    return acc + (vi)_mm512_madd_epi16((__m512i)a, (__m512i)b);
}

VEC_INLINE vf vf_f16(const uint8_t *p) {
    return (vf)_mm512_cvtph_ps(_mm256_loadu_si256((const void *)p));
}

VEC_INLINE void vf_to_f16(uint16_t *p, vf v) {
    __m256i h = _mm512_cvtps_ph((__m512)v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    _mm256_storeu_si256((void *)p, h);
}

VEC_INLINE vf vf_bf16(const uint8_t *p) {
    __m512i u = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)p));
    return (vf)_mm512_castsi512_ps(_mm512_slli_epi32(u, 16));
}

VEC_INLINE v4f vf_sum4(vf a, vf b, vf c, vf d) {
    vf x =
        __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 24, 25, 26, 27, 28, 29, 30, 31) +
        __builtin_shufflevector(a, b, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23);
    vf y =
        __builtin_shufflevector(c, d, 0, 1, 2, 3, 4, 5, 6, 7, 24, 25, 26, 27, 28, 29, 30, 31) +
        __builtin_shufflevector(c, d, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23);
    vf z =
        __builtin_shufflevector(x, y, 0, 1, 2, 3, 20, 21, 22, 23, 8, 9, 10, 11, 28, 29, 30, 31) +
        __builtin_shufflevector(x, y, 4, 5, 6, 7, 16, 17, 18, 19, 12, 13, 14, 15, 24, 25, 26, 27);
    __m256 ac = _mm512_castps512_ps256((__m512)z);
    __m256 bd = _mm512_extractf32x8_ps((__m512)z, 1);
    __m256 u = _mm256_add_ps(_mm256_blend_ps(ac, bd, 0xcc), _mm256_shuffle_ps(ac, bd, 0x4e));
    __m128 lo = _mm256_castps256_ps128(u);
    __m128 hi = _mm256_extractf128_ps(u, 1);
    return (v4f)_mm_add_ps(_mm_shuffle_ps(lo, hi, 0x88), _mm_shuffle_ps(lo, hi, 0xdd));
}

#elif VEC_W == 8

VEC_INLINE __m256i vec_mask(int32_t n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

VEC_INLINE vf vf_loadn(const float *p, int32_t n) {
    return (vf)_mm256_maskload_ps(p, vec_mask(n));
}

VEC_INLINE void vf_storen(float *p, vf v, int32_t n) {
    _mm256_maskstore_ps(p, vec_mask(n), (__m256)v);
}

VEC_INLINE vf vf_fma(vf a, vf b, vf c) {
    return (vf)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
}

VEC_INLINE vf vf_max(vf a, vf b) {
    return (vf)_mm256_max_ps((__m256)a, (__m256)b);
}

VEC_INLINE vf vf_min(vf a, vf b) {
    return (vf)_mm256_min_ps((__m256)a, (__m256)b);
}

VEC_INLINE void vi_halves(const uint8_t *p, vi out[VEC_N32]) {
    for (int32_t i = 0; i < 2; i++) {
        __m256i b = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)(p + i * 8)));
        out[i] = (vi)_mm256_and_si256(b, _mm256_set1_epi32(15));
        out[2 + i] = (vi)_mm256_srli_epi32(b, 4);
    }
}

VEC_INLINE void vi_pairs(const uint8_t *p, vi out[VEC_N32]) {
    const __m256i shift = _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28);
    for (int32_t i = 0; i < 4; i++) {
        __m256i w = _mm256_srlv_epi32(_mm256_set1_epi32(load_word(p + i * 4)), shift);
        out[i] = (vi)_mm256_and_si256(w, _mm256_set1_epi32(15));
    }
}

VEC_INLINE void vf_i8x16(const uint8_t *p, vf out[VEC_N16]) {
    __m128i lo = _mm_loadl_epi64((const void *)p);
    __m128i hi = _mm_loadl_epi64((const void *)(p + 8));
    out[0] = (vf)_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(lo));
    out[1] = (vf)_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(hi));
}

VEC_INLINE void vf_u8x16(const uint8_t *p, vf out[VEC_N16]) {
    __m128i lo = _mm_loadl_epi64((const void *)p);
    __m128i hi = _mm_loadl_epi64((const void *)(p + 8));
    out[0] = (vf)_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(lo));
    out[1] = (vf)_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(hi));
}

VEC_INLINE vf vf_f8(const uint8_t *p, bool e4m3) {
    __m128i h = _mm_cvtepu8_epi16(_mm_loadl_epi64((const void *)p));
    h = _mm_slli_epi16(h, 8);
    if (!e4m3) {
        return (vf)_mm256_cvtph_ps(h);
    }
    const __m128i top = _mm_set1_epi16(0x3f80);
    h = _mm_and_si128(_mm_srai_epi16(h, 1), _mm_set1_epi16((short)0xbfff));
    __m128i nan = _mm_cmpeq_epi16(_mm_and_si128(h, top), top);
    h = _mm_or_si128(h, _mm_and_si128(nan, _mm_set1_epi16(0x7c00)));
    return (vf)_mm256_cvtph_ps(h) * 0x1p8F;
}

VEC_INLINE vi vi_madd(vi acc, vi a, vi b) {
    return acc + (vi)_mm256_madd_epi16((__m256i)a, (__m256i)b);
}

VEC_INLINE vf vf_f16(const uint8_t *p) {
    return (vf)_mm256_cvtph_ps(_mm_loadu_si128((const void *)p));
}

VEC_INLINE void vf_to_f16(uint16_t *p, vf v) {
    __m128i h = _mm256_cvtps_ph((__m256)v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    _mm_storeu_si128((void *)p, h);
}

VEC_INLINE vf vf_bf16(const uint8_t *p) {
    __m256i u = _mm256_cvtepu16_epi32(_mm_loadu_si128((const void *)p));
    return (vf)_mm256_castsi256_ps(_mm256_slli_epi32(u, 16));
}

VEC_INLINE v4f vf_sum4(vf a, vf b, vf c, vf d) {
    vf x = __builtin_shufflevector(a, c, 0, 1, 2, 3, 12, 13, 14, 15) +
           __builtin_shufflevector(a, c, 4, 5, 6, 7, 8, 9, 10, 11);
    vf y = __builtin_shufflevector(b, d, 0, 1, 2, 3, 12, 13, 14, 15) +
           __builtin_shufflevector(b, d, 4, 5, 6, 7, 8, 9, 10, 11);
    __m256 u = _mm256_add_ps(_mm256_blend_ps((__m256)x, (__m256)y, 0xcc),
                             _mm256_shuffle_ps((__m256)x, (__m256)y, 0x4e));
    __m128 lo = _mm256_castps256_ps128(u);
    __m128 hi = _mm256_extractf128_ps(u, 1);
    return (v4f)_mm_add_ps(_mm_shuffle_ps(lo, hi, 0x88), _mm_shuffle_ps(lo, hi, 0xdd));
}

#else

VEC_INLINE vf vf_loadn(const float *p, int32_t n) {
    return n == 1 ? (vf){p[0]} : n == 2 ? (vf){p[0], p[1]} : (vf){p[0], p[1], p[2]};
}

VEC_INLINE void vf_storen(float *p, vf v, int32_t n) {
    for (int32_t i = 0; i < n; i++) {
        p[i] = v[i];
    }
}

/* why: no fused operation here; product and sum are both rounded */
VEC_INLINE vf vf_fma(vf a, vf b, vf c) {
    return a * b + c;
}

VEC_INLINE vf vf_max(vf a, vf b) {
    return (vf)_mm_max_ps((__m128)a, (__m128)b);
}

VEC_INLINE vf vf_min(vf a, vf b) {
    return (vf)_mm_min_ps((__m128)a, (__m128)b);
}

/* 16 unsigned bytes, one a lane. */
VEC_INLINE void vi_u8x16(__m128i b, vi out[VEC_N16]) {
    __m128i zero = _mm_setzero_si128();
    __m128i lo = _mm_unpacklo_epi8(b, zero);
    __m128i hi = _mm_unpackhi_epi8(b, zero);
    out[0] = (vi)_mm_unpacklo_epi16(lo, zero);
    out[1] = (vi)_mm_unpackhi_epi16(lo, zero);
    out[2] = (vi)_mm_unpacklo_epi16(hi, zero);
    out[3] = (vi)_mm_unpackhi_epi16(hi, zero);
}

VEC_INLINE void vi_halves(const uint8_t *p, vi out[VEC_N32]) {
    __m128i b = _mm_loadu_si128((const void *)p);
    __m128i mask = _mm_set1_epi8(15);
    vi_u8x16(_mm_and_si128(b, mask), out);
    vi_u8x16(_mm_and_si128(_mm_srli_epi16(b, 4), mask), out + VEC_N16);
}

VEC_INLINE void vi_pairs(const uint8_t *p, vi out[VEC_N32]) {
    __m128i b = _mm_loadu_si128((const void *)p);
    __m128i mask = _mm_set1_epi8(15);
    __m128i even = _mm_and_si128(b, mask);
    __m128i odd = _mm_and_si128(_mm_srli_epi16(b, 4), mask);
    vi_u8x16(_mm_unpacklo_epi8(even, odd), out);
    vi_u8x16(_mm_unpackhi_epi8(even, odd), out + VEC_N16);
}

VEC_INLINE void vf_i8x16(const uint8_t *p, vf out[VEC_N16]) {
    __m128i b = _mm_loadu_si128((const void *)p);
    __m128i lo = _mm_srai_epi16(_mm_unpacklo_epi8(b, b), 8);
    __m128i hi = _mm_srai_epi16(_mm_unpackhi_epi8(b, b), 8);
    out[0] = (vf)_mm_cvtepi32_ps(_mm_srai_epi32(_mm_unpacklo_epi16(lo, lo), 16));
    out[1] = (vf)_mm_cvtepi32_ps(_mm_srai_epi32(_mm_unpackhi_epi16(lo, lo), 16));
    out[2] = (vf)_mm_cvtepi32_ps(_mm_srai_epi32(_mm_unpacklo_epi16(hi, hi), 16));
    out[3] = (vf)_mm_cvtepi32_ps(_mm_srai_epi32(_mm_unpackhi_epi16(hi, hi), 16));
}

VEC_INLINE void vf_u8x16(const uint8_t *p, vf out[VEC_N16]) {
    vi u[VEC_N16];
    vi_u8x16(_mm_loadu_si128((const void *)p), u);
    for (int32_t i = 0; i < VEC_N16; i++) {
        out[i] = __builtin_convertvector(u[i], vf);
    }
}

/* E4M3 by moving exponent and mantissa into place and multiplying by 2^120, which is exact; E5M2 by
 * 2^112, as the upper byte of an f16. */
VEC_INLINE vf vf_f8(const uint8_t *p, bool e4m3) {
    __m128i b = _mm_unpacklo_epi8(_mm_cvtsi32_si128(load_word(p)), _mm_setzero_si128());
    vi u = (vi)_mm_unpacklo_epi16(b, _mm_setzero_si128());
    vi mag = u & 0x7f;
    vi special = e4m3 ? mag == 0x7f : mag >= 0x7c;
    vf f = e4m3 ? vf_bits(mag << 20) * 0x1p120F : vf_bits(mag << 21) * 0x1p112F;
    vi top = e4m3 ? vi_set1(0x7fc00000) : (mag << 21) | 0x7f800000;
    vi bits = (vi_bits(f) & ~special) | (top & special);
    return vf_bits(bits | (vi)_mm_slli_epi32((__m128i)(u & 0x80), 24));
}

VEC_INLINE vi vi_madd(vi acc, vi a, vi b) {
    return acc + (vi)_mm_madd_epi16((__m128i)a, (__m128i)b);
}

/* Widens by moving exponent and mantissa into place and multiplying by 2^112, which is exact and
 * puts subnormals right; infinity and NaN get the top exponent by hand. */
VEC_INLINE vf vf_f16(const uint8_t *p) {
    __m128i h = _mm_unpacklo_epi16(_mm_loadl_epi64((const void *)p), _mm_setzero_si128());
    vi u = (vi)h;
    vi mag = (u & 0x7fff) << 13;
    vf f = vf_bits(mag) * 0x1p112F;
    vi special = (u & 0x7c00) == 0x7c00;
    vi bits = (vi_bits(f) & ~special) | ((mag | 0x7f800000) & special);
    return vf_bits(bits | (vi)_mm_slli_epi32((__m128i)(u & 0x8000), 16));
}

VEC_INLINE void vf_to_f16(uint16_t *p, vf v) {
    for (int32_t i = 0; i < VEC_W; i++) {
        p[i] = f32_to_f16(v[i]);
    }
}

VEC_INLINE vf vf_bf16(const uint8_t *p) {
    __m128i h = _mm_loadl_epi64((const void *)p);
    return (vf)_mm_castsi128_ps(_mm_unpacklo_epi16(_mm_setzero_si128(), h));
}

VEC_INLINE v4f vf_sum4(vf a, vf b, vf c, vf d) {
    vf x = __builtin_shufflevector(a, b, 0, 1, 6, 7) + __builtin_shufflevector(a, b, 2, 3, 4, 5);
    vf y = __builtin_shufflevector(c, d, 0, 1, 6, 7) + __builtin_shufflevector(c, d, 2, 3, 4, 5);
    return __builtin_shufflevector(x, y, 0, 2, 4, 6) + __builtin_shufflevector(x, y, 1, 3, 5, 7);
}

#endif

/* E2M1 codes, one a lane. in: bits above the low four arbitrary */
VEC_INLINE vf vf_f4(vi n) {
#if VEC_W == 16
    const vf value = {0, 0.5F, 1, 1.5F, 2, 3, 4, 6, -0.0F, -0.5F, -1, -1.5F, -2, -3, -4, -6};
    return vf_lookup(value, n);
#else
    vi mag = n & 7;
    vi tiny = (0 - (mag & 1)) & 0x3f000000; /* 0 or 1/2, below the normal numbers */
    vi bits = (mag << 22) + 0x3f000000;
    vi is_tiny = mag < 2;
    bits = (bits & ~is_tiny) | (tiny & is_tiny);
    vi sign = ((n & 8) == 8) & (int32_t)0x80000000;
    return vf_bits(bits | sign);
#endif
}

/* One f16 or bf16 in every lane. */
VEC_INLINE vf vf_f16_set1(const uint8_t *p) {
#if VEC_W >= 8
    __m128 f = _mm_cvtph_ps(_mm_cvtsi32_si128(load_half(p)));
    return vf_set1(_mm_cvtss_f32(f));
#else
    return vf_set1(f16_to_f32(load_half(p)));
#endif
}

/* Two f16 at the head of a block of at least 8 bytes, each in every lane. */
VEC_INLINE void vf_f16_pair(const uint8_t *p, vf *a, vf *b) {
#if VEC_W == 16
    __m128 f = _mm_cvtph_ps(_mm_loadl_epi64((const void *)p));
    *a = (vf)_mm512_broadcastss_ps(f);
    *b = (vf)_mm512_permutexvar_ps(_mm512_set1_epi32(1), _mm512_castps128_ps512(f));
#elif VEC_W == 8
    __m128 f = _mm_cvtph_ps(_mm_loadl_epi64((const void *)p));
    *a = (vf)_mm256_broadcastss_ps(f);
    *b = (vf)_mm256_permutevar8x32_ps(_mm256_castps128_ps256(f), _mm256_set1_epi32(1));
#else
    *a = vf_set1(f16_to_f32(load_half(p)));
    *b = vf_set1(f16_to_f32(load_half(p + 2)));
#endif
}

VEC_INLINE vf vf_bf16_set1(const uint8_t *p) {
    return vf_bits(vi_set1((int32_t)((uint32_t)load_half(p) << 16)));
}

/* The tree over the lanes of one vector. */
VEC_INLINE float vf_sum(vf v) {
    return vf_sum4(v, v, v, v)[0];
}

VEC_INLINE float vf_max_lane(vf v) {
    float m = v[0];
    for (int32_t i = 1; i < VEC_W; i++) {
        m = v[i] > m ? v[i] : m;
    }
    return m;
}

#endif
