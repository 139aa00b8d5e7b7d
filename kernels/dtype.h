/* Data types, stored weight formats with their bits, and the view of a weight matrix.
 *
 * Weights stay in the format in which the checkpoint stores them; a kernel decodes rows on the fly.
 *
 * Block formats (32 elements along the input dimension k, little-endian):
 *
 *   Q4_0  18 bytes | f16 d | 16 x u8: low nibble = element j, high nibble = element j+16 |
 *         w = (n - 8) * d
 *   Q4_1  20 bytes | f16 d | f16 m | 16 x u8 as Q4_0 |              w = n * d + m
 *   Q5_0  22 bytes | f16 d | u32 h | 16 x u8 as Q4_0 |  bit j of h is bit 4 of element j
 *         w = (n - 16) * d
 *   Q5_1  24 bytes | f16 d | f16 m | u32 h | 16 x u8 |              w = n * d + m
 *   Q8_0  34 bytes | f16 d | 32 x i8 |                              w = q * d
 *   IQ4_NL 18 bytes | f16 d | 16 x u8 as Q4_0 |                     w = level[n] * d
 *         level = -127 -104 -83 -65 -49 -35 -22 -10 1 13 25 38 53 69 89 113
 *   MXFP4 17 bytes | u8 e | 16 x u8 as Q4_0 |   w = v[n] * 2^(e - 128), bit 3 of n is the sign
 *         v = 0 1 2 3 4 6 8 12: twice an E2M1
 *
 *   NVFP4 36 bytes | 4 x u8 e | 32 x u8 q |  64 elements, groups of 16: element i of group j is the
 *         low nibble of q[8j + i], i < 8, or the high one of q[8j + i - 8]
 *         w = v[n] * E4M3(e[j]) / 2, v as MXFP4; e without sign, 0x7f is 0
 *   Q8_1  36 bytes | f16 d | f16 sum, not read | 32 x i8 |          w = q * d
 *
 * Super-blocks of 256 elements; group j is 16 or 32 of them in order:
 *
 *   Q2_K   84 bytes | 16 x u8 s | 64 x u8 q | f16 d | f16 m |
 *          element 128a + 32b + i is bits 2b, 2b+1 of q[32a + i]; groups of 16:
 *          w = (d * (s[j] & 15)) * n - m * (s[j] >> 4)
 *   Q3_K  110 bytes | 32 x u8 h | 64 x u8 q | 12 x u8 s | f16 d |
 *          n as Q2_K, less 4 where bit c of h[i] is clear for element 32c + i; groups of 16, scale:
 *          nibble j/8 of s[j % 8], above it bits 2(j/4), 2(j/4)+1 of s[8 + j % 4], less 32
 *          w = (d * scale) * n
 *   Q4_K  144 bytes | f16 d | f16 m | 12 x u8 s | 128 x u8 q |
 *          element 64a + 32b + i is nibble b of q[32a + i]; groups of 32:
 *          j < 4:  scale s[j] & 63,                            min s[j + 4] & 63
 *          else:   scale s[j + 4] & 15 | (s[j - 4] >> 6) << 4, min s[j + 4] >> 4 | (s[j] >> 6) << 4
 *          w = (d * scale) * n - m * min
 *   Q5_K  176 bytes | f16 d | f16 m | 12 x u8 s | 32 x u8 h | 128 x u8 q |
 *          as Q4_K; bit c of h[i] is bit 4 of element 32c + i
 *   Q6_K  210 bytes | 128 x u8 l | 64 x u8 h | 16 x i8 s | f16 d |
 *          element 128a + 64b + i: nibble b of l[64a + i]; element 128a + 32c + i: above it bits
 *          2c, 2c+1 of h[32a + i]; groups of 16: w = (d * s[j]) * (n - 32)
 *   Q8_K  292 bytes | f32 d | 256 x i8 | 16 x i16 sums, not read |  w = q * d
 *   IQ4_XS 136 bytes | f16 d | u16 t | 4 x u8 s | 128 x u8 q |  groups of 32, each as IQ4_NL;
 *          scale: nibble j % 2 of s[j / 2], above it bits 2j, 2j+1 of t, less 32
 *          w = (d * scale) * level[n]
 *   TQ1_0  54 bytes | 48 x u8 q | 4 x u8 h | f16 d |
 *          a byte v is a fraction v/256 in base 3: digit p is ((v * 3^p mod 256) * 3) >> 8. Element
 *          32p + i is digit p of q[i], i < 32; 160 + 16p + i that of q[32 + i], i < 16;
 *          240 + 4p + i that of h[i], i < 4.                      w = (digit - 1) * d
 *   TQ2_0  66 bytes | 64 x u8 q | f16 d |  n as Q2_K              w = (n - 1) * d
 *
 * Codebooks (kernels/ref/ref_iq_grid.h): run r is 8 elements (IQ3: 4), an entry of levels; signs
 * have bit i for element i; s(r) is nibble r % 2 of byte r / 2:
 *
 *   IQ2_XXS 66 bytes | f16 d | 8 x (4 x u8 q, u32 a) |
 *           a holds 4 x 7 signs, the eighth makes them even, and 4 bits n
 *           w = d * (1/2 + n) * 1/4 * level
 *   IQ2_XS  74 bytes | f16 d | 32 x u16 q | 8 x u8 s |
 *           entry q & 511, 7 signs q >> 9;  w = d * (1/2 + s(r / 2)) * 1/4 * level
 *   IQ2_S   82 bytes | f16 d | 32 x u8 q | 32 x u8 signs | 8 x u8 h | 8 x u8 s |
 *           entry q[r] with bits 2(r % 4), +1 of h[r / 4] above;  w as IQ2_XS
 *   IQ3_XXS 98 bytes | f16 d | 64 x u8 q | 8 x u32 a |
 *           a as IQ2_XXS;  w = d * (1/2 + n) * 1/2 * level
 *   IQ3_S  110 bytes | f16 d | 64 x u8 q | 8 x u8 h | 32 x u8 signs | 4 x u8 s |
 *           entry q[r] with bit r % 8 of h[r / 8] above;  w = d * (1 + 2 s(r / 8)) * level
 *   IQ1_S   50 bytes | f16 d | 32 x u8 q | 8 x u16 h |
 *           entry q[r] with bits 3(r % 4).. of h[r / 4] above; of h bits 12..14 n, bit 15 the sign
 *           of 1/8;  w = d * (2 n + 1) * (level +- 1/8)
 *   IQ1_M   56 bytes | 32 x u8 q | 16 x u8 h | 4 x u16 s |
 *           d: the upper nibbles of s, lowest first; nibble r of h: 3 bits above q[r], then the
 * sign of 1/8; n: 3 bits 3(r / 2 % 4).. of s[r / 8];  w as IQ1_S
 *
 * In safetensors alone: F6_E2M3 and F6_E3M2 four elements in three bytes, C64 a pair of F32. Small
 * floats, s sign, then exponent and mantissa; subnormals as in IEEE 754:
 *   F8_E4M3  | s eeee mmm |   bias 7, largest 448, no infinity, 0x7f and 0xff NaN
 *   F8_E5M2  | s eeeee mm |   the upper byte of an f16
 *   F8_E8M0  | eeeeeeee |     2^(e - 127), 255 NaN
 *   F4       | s ee m |       E2M1: 0 0.5 1 1.5 2 3 4 6; two elements a byte, low nibble first
 *
 * DTYPE_W2 to DTYPE_W8 are the dense integer rows of compressed-tensors "pack-quantized" with b
 * bits: element i of a row sits at bits b*i .. b*i + b-1 of the row, counted from the lowest bit of
 * the first little-endian u32 word, across word borders; stored as q + 2^(b-1). A row ends in a
 * whole word.
 *
 * Scaled matrices (dtype_is_scaled; struct wmat with a scale): W2 to W8, I8, F8_E4M3, F8_E5M2, F4.
 * w = (q - zero) * s, product in f32; s = scale of the element's group, as f32, divided in f32 by
 * global where global is not 0 (NVFP4).
 *
 * src: GGUF specification, docs/gguf.md of ggml, and gguf-py, gguf/quants.py; OCP Microscaling
 * Formats (MX) 1.0; compressed-tensors, compressors/pack_quantized; safetensors, Dtype.
 * This header is valid C17 and C++17. */
#ifndef KERNELS_DTYPE_H
#define KERNELS_DTYPE_H

#include "engine/base/types.h"

enum dtype {
    DTYPE_F32,
    DTYPE_F16,
    DTYPE_BF16,
    DTYPE_F64,
    DTYPE_I8,
    DTYPE_U8,
    DTYPE_I16,
    DTYPE_I32,
    DTYPE_I64,
    DTYPE_BOOL,
    DTYPE_F8_E4M3,
    DTYPE_F8_E5M2,
    DTYPE_F8_E8M0,
    DTYPE_F8_E4M3FNUZ,
    DTYPE_F8_E5M2FNUZ,
    DTYPE_F6_E2M3,
    DTYPE_F6_E3M2,
    DTYPE_F4,
    DTYPE_U16,
    DTYPE_U32,
    DTYPE_U64,
    DTYPE_C64,
    DTYPE_Q4_0,
    DTYPE_Q4_1,
    DTYPE_Q8_0,
    DTYPE_Q5_0,
    DTYPE_Q5_1,
    DTYPE_Q2_K,
    DTYPE_Q3_K,
    DTYPE_Q4_K,
    DTYPE_Q5_K,
    DTYPE_Q6_K,
    DTYPE_Q8_K,
    DTYPE_IQ4_NL,
    DTYPE_IQ4_XS,
    DTYPE_TQ1_0,
    DTYPE_TQ2_0,
    DTYPE_MXFP4,
    DTYPE_NVFP4,
    DTYPE_Q8_1,
    DTYPE_IQ1_S,
    DTYPE_IQ1_M,
    DTYPE_IQ2_XXS,
    DTYPE_IQ2_XS,
    DTYPE_IQ2_S,
    DTYPE_IQ3_XXS,
    DTYPE_IQ3_S,
    DTYPE_W2,
    DTYPE_W3,
    DTYPE_W4,
    DTYPE_W5,
    DTYPE_W6,
    DTYPE_W7,
    DTYPE_W8,
    DTYPE_N
};

struct dtype_info {
    const char *name;    /* "BF16", "Q4_1" */
    int32_t block;       /* elements a block along k; 1 for plain types */
    int32_t block_bytes; /* bytes of one block */
    bool is_weight;      /* may be the type of a struct wmat */
};

#ifdef __cplusplus
extern "C" {
#endif

/* Facts of one type. in: t < DTYPE_N */
const struct dtype_info *dtype_info(enum dtype t);

/* Bytes of n elements stored in a row; DTYPE_W2 to DTYPE_W8 round up to whole words.
 * err: -1 when n is negative or no multiple of the block, or when the product overflows */
int64_t dtype_row_bytes(enum dtype t, int64_t n);

/* Scalar conversions, exact or round-half-to-even. A NaN stays a NaN; narrowing makes it quiet. */
float f16_to_f32(uint16_t h);
uint16_t f32_to_f16(float f);
float bf16_to_f32(uint16_t h);
uint16_t f32_to_bf16(float f);
float f8_e4m3_to_f32(uint8_t c);
uint8_t f32_to_f8_e4m3(float f); /* beyond 448, infinity too: +-448 */
float f8_e5m2_to_f32(uint8_t c);
float f8_e8m0_to_f32(uint8_t c);
float f4_to_f32(uint8_t c); /* bits above the low four are ignored */
uint8_t f32_to_f4(float f); /* beyond 6: +-6, a NaN too, since F4 has none */

#ifdef __cplusplus
}
#endif

/* Bits of a dense integer row; 0 when t is none of DTYPE_W2 to DTYPE_W8. */
static inline int32_t dtype_packed_bits(enum dtype t) {
    return t >= DTYPE_W2 && t <= DTYPE_W8 ? 2 + (int32_t)t - (int32_t)DTYPE_W2 : 0;
}

/* Is t a type of bare codes, a weight with the scales of a struct wmat only? */
static inline bool dtype_is_scaled(enum dtype t) {
    return dtype_packed_bits(t) > 0 || t == DTYPE_I8 || t == DTYPE_F8_E4M3 || t == DTYPE_F8_E5M2 ||
           t == DTYPE_F4;
}

/* How the input of a product with a scaled matrix is quantized before it. A row is cut into groups
 * of columns; each has a scale s and a zero point z, in f32 throughout:
 *   code = x / s + z, clamped to the type's range, then rounded half to even;  x' = (code - z) * s
 * The product is one of codes: exact integers, or f32 sums where a side is fp8, a partial sum for
 * the columns that share scales on both sides, each times both scales in f32.
 *   I8       -128..127. Dynamic: s = absmax / 127.5, z = 0; asymmetric s = (max - min) / 255,
 *            z = -128 - min / s, clamped and rounded, min and max widened to hold 0
 *   F8_E4M3  clamped to +-448. Dynamic: s = absmax / 448
 *   F4       E2M1, s = e4m3(absmax / 6 * global) / global, e4m3 clamped to +-448 and 0 become 1/8
 * A dynamic s of 0 becomes 2^-23, but for F4. A quotient x / s that is no number makes s NaN, and
 * so the row's result. Integers and F4 are summed exactly, F4 as twice its value.
 * src: compressed-tensors, quantization/utils/helpers.py (calculate_qparams) and
 * quantization/lifecycle/forward_helpers.py (_quantize) */
enum actq_type { ACTQ_NONE, ACTQ_I8, ACTQ_F8_E4M3, ACTQ_F4 };

struct actq {
    enum actq_type type; /* ACTQ_NONE: the input is multiplied as it is */
    bool is_static;      /* scale and zero below, one group; else found for each row and group */
    bool asymmetric;     /* I8 alone */
    int32_t group;       /* columns that share a scale, the last group may be short; 0: all k */
    float scale;         /* is_static: finite, above 0 */
    int32_t zero;        /* is_static, asymmetric: -128..127; else 0 */
    float global;        /* F4: 448 * 6 / absmax of the calibration, finite, above 0; else 0 */
};

/* One weight matrix [n,k] row-major in its stored format; y = x W^T.
 * All pointers are borrowed (the checkpoint's map or the weights' memory). */
struct wmat {
    enum dtype type;
    int32_t n;        /* rows = output features */
    int32_t k;        /* columns = input features */
    const void *data; /* ref, [n] rows of row_bytes bytes */
    int64_t row_bytes;
    /* Scaled types alone; NG = ceil(n / row_group), KG = ceil(k / group): */
    const void *scale;     /* ref, [NG, KG] of scale_type; NULL otherwise */
    enum dtype scale_type; /* F32, F16, BF16, F8_E4M3 (NVFP4) or F8_E8M0 (MX) */
    const int8_t *zero;    /* ref, [NG, KG] signed, integer types alone; NULL: symmetric */
    int32_t group;         /* columns that share a scale, 1..k; k for per-channel and per-tensor */
    int32_t row_group;     /* rows that share a scale; 0: each row has its own; n for per-tensor */
    float global;          /* divides every scale; 0: none */
    const int32_t *g_idx;  /* ref, [k] group of each column (act-order), 0..KG-1; NULL: k / group */
    struct actq act;
};

#endif
