/* Facts of the data types, and the scalar conversions every decoder is measured against.
 *
 * binary16 | s eeeee mmmmmmmmmm | bfloat16 | s eeeeeeee mmmmmmm | binary32 | s e8 m23 |
 * E4M3 | s eeee mmm | E5M2 | s eeeee mm | E8M0 | eeeeeeee | E2M1 | s ee m |
 *
 * 1. Widening is exact; a NaN keeps its payload, moved to the top of the wider mantissa.
 * 2. Narrowing rounds to nearest, ties to even; overflow gives infinity; a NaN stays a NaN and is
 *    made quiet; subnormals are kept.
 * 3. E4M3 and E2M1 have no infinity: narrowing to them saturates.
 * 4. Below its smallest normal number a format is a multiple of one step: adding the power of two
 *    whose unit in the last place is that step lets the f32 addition round.
 * src: IEEE 754-2019, 3.4 and 4.3.1; OCP 8-bit Floating Point 1.0; OCP Microscaling 1.0, 5.3. */
#include "kernels/dtype.h"

#include <assert.h>
#include <string.h>

static const struct dtype_info infos[DTYPE_N] = {
    [DTYPE_F32] = {"F32", 1, 4, true},
    [DTYPE_F16] = {"F16", 1, 2, true},
    [DTYPE_BF16] = {"BF16", 1, 2, true},
    [DTYPE_F64] = {"F64", 1, 8, true},
    [DTYPE_I8] = {"I8", 1, 1, false},
    [DTYPE_U8] = {"U8", 1, 1, false},
    [DTYPE_I16] = {"I16", 1, 2, false},
    [DTYPE_I32] = {"I32", 1, 4, false},
    [DTYPE_I64] = {"I64", 1, 8, false},
    [DTYPE_BOOL] = {"BOOL", 1, 1, false},
    [DTYPE_F8_E4M3] = {"F8_E4M3", 1, 1, false},
    [DTYPE_F8_E5M2] = {"F8_E5M2", 1, 1, false},
    [DTYPE_F8_E8M0] = {"F8_E8M0", 1, 1, false},
    [DTYPE_F8_E4M3FNUZ] = {"F8_E4M3FNUZ", 1, 1, false},
    [DTYPE_F8_E5M2FNUZ] = {"F8_E5M2FNUZ", 1, 1, false},
    [DTYPE_F6_E2M3] = {"F6_E2M3", 4, 3, false},
    [DTYPE_F6_E3M2] = {"F6_E3M2", 4, 3, false},
    [DTYPE_F4] = {"F4", 2, 1, false},
    [DTYPE_U16] = {"U16", 1, 2, false},
    [DTYPE_U32] = {"U32", 1, 4, false},
    [DTYPE_U64] = {"U64", 1, 8, false},
    [DTYPE_C64] = {"C64", 1, 8, false},
    [DTYPE_Q4_0] = {"Q4_0", 32, 18, true},
    [DTYPE_Q4_1] = {"Q4_1", 32, 20, true},
    [DTYPE_Q8_0] = {"Q8_0", 32, 34, true},
    [DTYPE_Q5_0] = {"Q5_0", 32, 22, true},
    [DTYPE_Q5_1] = {"Q5_1", 32, 24, true},
    [DTYPE_Q2_K] = {"Q2_K", 256, 84, true},
    [DTYPE_Q3_K] = {"Q3_K", 256, 110, true},
    [DTYPE_Q4_K] = {"Q4_K", 256, 144, true},
    [DTYPE_Q5_K] = {"Q5_K", 256, 176, true},
    [DTYPE_Q6_K] = {"Q6_K", 256, 210, true},
    [DTYPE_Q8_K] = {"Q8_K", 256, 292, true},
    [DTYPE_IQ4_NL] = {"IQ4_NL", 32, 18, true},
    [DTYPE_IQ4_XS] = {"IQ4_XS", 256, 136, true},
    [DTYPE_TQ1_0] = {"TQ1_0", 256, 54, true},
    [DTYPE_TQ2_0] = {"TQ2_0", 256, 66, true},
    [DTYPE_MXFP4] = {"MXFP4", 32, 17, true},
    [DTYPE_NVFP4] = {"NVFP4", 64, 36, true},
    [DTYPE_Q8_1] = {"Q8_1", 32, 36, true},
    [DTYPE_IQ1_S] = {"IQ1_S", 256, 50, true},
    [DTYPE_IQ1_M] = {"IQ1_M", 256, 56, true},
    [DTYPE_IQ2_XXS] = {"IQ2_XXS", 256, 66, true},
    [DTYPE_IQ2_XS] = {"IQ2_XS", 256, 74, true},
    [DTYPE_IQ2_S] = {"IQ2_S", 256, 82, true},
    [DTYPE_IQ3_XXS] = {"IQ3_XXS", 256, 98, true},
    [DTYPE_IQ3_S] = {"IQ3_S", 256, 110, true},
    [DTYPE_W2] = {"W2", 16, 4, true},
    [DTYPE_W3] = {"W3", 32, 12, true},
    [DTYPE_W4] = {"W4", 8, 4, true},
    [DTYPE_W5] = {"W5", 32, 20, true},
    [DTYPE_W6] = {"W6", 16, 12, true},
    [DTYPE_W7] = {"W7", 32, 28, true},
    [DTYPE_W8] = {"W8", 4, 4, true},
};

const struct dtype_info *dtype_info(enum dtype t) {
    assert((unsigned)t < DTYPE_N);
    return &infos[t];
}

int64_t dtype_row_bytes(enum dtype t, int64_t n) {
    const struct dtype_info *d = dtype_info(t);
    int32_t bits = dtype_packed_bits(t);
    int64_t bytes = 0;
    /* why: a packed row ends in a partly used word; every other format has whole blocks only */
    if (n < 0 || (n % d->block != 0 && !bits)) {
        return -1;
    }
    if (bits) {
        return i64_mul(n, bits, &bytes) ? 4 * i64_div_up(bytes, 32) : -1;
    }
    return i64_mul(i64_div_up(n, d->block), d->block_bytes, &bytes) ? bytes : -1;
}

static float from_bits(uint32_t u) {
    float f;
    memcpy(&f, &u, sizeof(f));
    return f;
}

static uint32_t to_bits(float f) {
    uint32_t u;
    memcpy(&u, &f, sizeof(u));
    return u;
}

float f16_to_f32(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000U) << 16;
    uint32_t exp = (h >> 10) & 0x1fU;
    uint32_t man = h & 0x3ffU;
    if (exp == 0x1f) {
        return from_bits(sign | 0x7f800000U | (man << 13));
    }
    if (exp != 0) {
        return from_bits(sign | ((exp + 112) << 23) | (man << 13));
    }
    float f = (float)man * 0x1p-24f;
    return sign ? -f : f;
}

uint16_t f32_to_f16(float f) {
    uint32_t u = to_bits(f);
    uint32_t sign = (u >> 16) & 0x8000U;
    uint32_t mag = u & 0x7fffffffU;
    if (mag > 0x7f800000U) {
        return (uint16_t)(sign | 0x7e00U | ((mag >> 13) & 0x3ffU));
    }
    if (mag >= 0x477ff000U) { /* 65520 and above round to infinity */
        return (uint16_t)(sign | 0x7c00U);
    }
    if (mag < 0x38800000U) { /* below 2^-14: a multiple of 2^-24, rounded by the f32 addition */
        float r = from_bits(mag) + 0.5F;
        return (uint16_t)(sign | (to_bits(r) - 0x3f000000U));
    }
    uint32_t odd = (mag >> 13) & 1U;
    return (uint16_t)(sign | ((mag - 0x38000000U + 0xfffU + odd) >> 13));
}

float bf16_to_f32(uint16_t h) {
    return from_bits((uint32_t)h << 16);
}

uint16_t f32_to_bf16(float f) {
    uint32_t u = to_bits(f);
    if ((u & 0x7fffffffU) > 0x7f800000U) {
        return (uint16_t)((u >> 16) | 0x40U);
    }
    return (uint16_t)((u + 0x7fffU + ((u >> 16) & 1U)) >> 16);
}

float f8_e4m3_to_f32(uint8_t c) {
    uint32_t sign = (uint32_t)(c & 0x80U) << 24;
    uint32_t exp = (c >> 3) & 15U;
    uint32_t man = c & 7U;
    if ((c & 0x7fU) == 0x7f) {
        return from_bits(sign | 0x7fc00000U);
    }
    if (exp != 0) {
        return from_bits(sign | ((exp + 120) << 23) | (man << 20));
    }
    float f = (float)man * 0x1p-9f;
    return sign ? -f : f;
}

uint8_t f32_to_f8_e4m3(float f) {
    uint32_t u = to_bits(f);
    uint32_t sign = (u >> 24) & 0x80U;
    uint32_t mag = u & 0x7fffffffU;
    if (mag > 0x7f800000U) {
        return (uint8_t)(sign | 0x7fU);
    }
    if (mag >= 0x43e00000U) { /* 448 */
        return (uint8_t)(sign | 0x7eU);
    }
    if (mag < 0x3c800000U) { /* below 2^-6: a multiple of 2^-9 */
        float r = from_bits(mag) + 0x1p14f;
        return (uint8_t)(sign | (to_bits(r) - 0x46800000U));
    }
    uint32_t odd = (mag >> 20) & 1U;
    return (uint8_t)(sign | ((mag - 0x3c000000U + 0x7ffffU + odd) >> 20));
}

float f8_e5m2_to_f32(uint8_t c) {
    return f16_to_f32((uint16_t)(c << 8));
}

float f8_e8m0_to_f32(uint8_t c) {
    if (c == 255) {
        return from_bits(0x7fc00000U);
    }
    return from_bits(c == 0 ? 0x00400000U : (uint32_t)c << 23);
}

float f4_to_f32(uint8_t c) {
    static const float value[16] = {0,     0.5F,  1,  1.5F,  2,  3,  4,  6,
                                    -0.0F, -0.5F, -1, -1.5F, -2, -3, -4, -6};
    return value[c & 15];
}

uint8_t f32_to_f4(float f) {
    uint32_t u = to_bits(f);
    uint32_t sign = (u >> 28) & 8U;
    uint32_t mag = u & 0x7fffffffU;
    if (mag >= 0x40c00000U) { /* 6 */
        return (uint8_t)(sign | 7U);
    }
    if (mag < 0x3f800000U) { /* below 1: a multiple of 1/2 */
        float r = from_bits(mag) + 0x1p22f;
        return (uint8_t)(sign | (to_bits(r) - 0x4a800000U));
    }
    uint32_t odd = (mag >> 22) & 1U;
    return (uint8_t)(sign | ((mag - 0x3f000000U + 0x1fffffU + odd) >> 22));
}
