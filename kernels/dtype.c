/* Facts of the data types, and the scalar conversions every decoder is measured against.
 *
 * binary16 | s eeeee mmmmmmmmmm | bfloat16 | s eeeeeeee mmmmmmm | binary32 | s e8 m23 |
 *
 * 1. Widening is exact; a NaN keeps its payload, moved to the top of the wider mantissa.
 * 2. Narrowing rounds to nearest, ties to even; overflow gives infinity; a NaN stays a NaN and is
 *    made quiet; subnormals are kept.
 * src: IEEE 754-2019, 3.4 and 4.3.1. */
#include "kernels/dtype.h"

#include <assert.h>
#include <string.h>

static const struct dtype_info infos[DTYPE_N] = {
    [DTYPE_F32] = {"F32", 1, 4},         [DTYPE_F16] = {"F16", 1, 2},
    [DTYPE_BF16] = {"BF16", 1, 2},       [DTYPE_F64] = {"F64", 1, 8},
    [DTYPE_I8] = {"I8", 1, 1},           [DTYPE_U8] = {"U8", 1, 1},
    [DTYPE_I16] = {"I16", 1, 2},         [DTYPE_I32] = {"I32", 1, 4},
    [DTYPE_I64] = {"I64", 1, 8},         [DTYPE_BOOL] = {"BOOL", 1, 1},
    [DTYPE_F8_E4M3] = {"F8_E4M3", 1, 1}, [DTYPE_Q4_0] = {"Q4_0", 32, 18},
    [DTYPE_Q4_1] = {"Q4_1", 32, 20},     [DTYPE_Q8_0] = {"Q8_0", 32, 34},
    [DTYPE_W4] = {"W4", 8, 4},
};

const struct dtype_info *dtype_info(enum dtype t) {
    assert((unsigned)t < DTYPE_N);
    return &infos[t];
}

int64_t dtype_row_bytes(enum dtype t, int64_t n) {
    const struct dtype_info *d = dtype_info(t);
    /* why: a W4 row ends in a partly used word; every other format has whole blocks only */
    if (n < 0 || (n % d->block != 0 && t != DTYPE_W4)) {
        return -1;
    }
    int64_t bytes = 0;
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
