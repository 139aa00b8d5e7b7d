/* One block at a time, by the byte tables of kernels/dtype.h. Every product and difference is an
 * f32 operation of its own, in the order given there, as in the format's own reader; this file is
 * compiled with contraction off.
 *
 * src: gguf-py, gguf/quants.py (dequantize_blocks of each format) and ggml, ggml-common.h
 * (layouts); Q8_K and Q8_1 from the latter alone. */
#include "kernels/ref/ref_blocks.h"

#include <string.h>

enum { SUPER = 256 };

static const float levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                 1,    13,   25,  38,  53,  69,  89,  113};

static uint16_t load_u16(const uint8_t *p) {
    return (uint16_t)(p[0] | (uint16_t)(p[1] << 8));
}

static uint32_t load_u32(const uint8_t *p) {
    return load_u16(p) | (uint32_t)load_u16(p + 2) << 16;
}

static float load_f16(const uint8_t *p) {
    return f16_to_f32(load_u16(p));
}

/* Element j of 32 nibbles: low halves first. */
static int nibble(const uint8_t *q, int32_t j) {
    return j < 16 ? q[j] & 15 : q[j - 16] >> 4;
}

/* Bit j of 32 as bit 4 of a number. */
static int fifth(uint32_t h, int32_t j) {
    return (int)((h >> j & 1) << 4);
}

static void block_q5_0(const uint8_t *b, float *out) {
    float d = load_f16(b);
    uint32_t h = load_u32(b + 2);
    for (int32_t j = 0; j < 32; j++) {
        out[j] = (float)((nibble(b + 6, j) | fifth(h, j)) - 16) * d;
    }
}

static void block_q5_1(const uint8_t *b, float *out) {
    float d = load_f16(b);
    float m = load_f16(b + 2);
    uint32_t h = load_u32(b + 4);
    for (int32_t j = 0; j < 32; j++) {
        float scaled = (float)(nibble(b + 8, j) | fifth(h, j)) * d;
        out[j] = scaled + m;
    }
}

static void block_iq4_nl(const uint8_t *b, float *out) {
    float d = load_f16(b);
    for (int32_t j = 0; j < 32; j++) {
        out[j] = levels[nibble(b + 2, j)] * d;
    }
}

static void block_mxfp4(const uint8_t *b, float *out) {
    static const float values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
    uint32_t bits = b[0] < 2 ? 0x00200000U << b[0] : (uint32_t)(b[0] - 1) << 23; /* 2^(e - 128) */
    float d;
    memcpy(&d, &bits, sizeof d);
    for (int32_t j = 0; j < 32; j++) {
        out[j] = values[nibble(b + 1, j)] * d;
    }
}

/* Where group j of 16 lies among 256 numbers of two bits: 32 bytes hold four runs of 32. */
static const uint8_t *two_bits(const uint8_t *q, int32_t j, int *shift) {
    *shift = 2 * (j / 2 % 4);
    return q + j / 8 * 32 + j % 2 * 16;
}

static void block_q2_k(const uint8_t *b, float *out) {
    float d = load_f16(b + 80);
    float m = load_f16(b + 82);
    for (int32_t j = 0; j < SUPER / 16; j++, out += 16) {
        int shift = 0;
        const uint8_t *q = two_bits(b + 16, j, &shift);
        float scale = d * (float)(b[j] & 15);
        float min = m * (float)(b[j] >> 4);
        for (int32_t i = 0; i < 16; i++) {
            float scaled = scale * (float)(q[i] >> shift & 3);
            out[i] = scaled - min;
        }
    }
}

static void block_q3_k(const uint8_t *b, float *out) {
    const uint8_t *s = b + 96;
    float d = load_f16(b + 108);
    for (int32_t j = 0; j < SUPER / 16; j++, out += 16) {
        int shift = 0;
        const uint8_t *q = two_bits(b + 32, j, &shift);
        const uint8_t *h = b + j % 2 * 16;
        int low = s[j % 8] >> (4 * (j / 8)) & 15;
        int high = s[8 + j % 4] >> (2 * (j / 4)) & 3;
        float scale = d * (float)((low | high << 4) - 32);
        for (int32_t i = 0; i < 16; i++) {
            int n = (q[i] >> shift & 3) + 4 * (h[i] >> (j / 2) & 1) - 4;
            out[i] = scale * (float)n;
        }
    }
}

/* Scale and minimum of group j of Q4_K and Q5_K. */
static void k_scales(const uint8_t *s, int32_t j, int *scale, int *min) {
    if (j < 4) {
        *scale = s[j] & 63;
        *min = s[j + 4] & 63;
    } else {
        *scale = (s[j + 4] & 15) | (s[j - 4] >> 6) << 4;
        *min = s[j + 4] >> 4 | (s[j] >> 6) << 4;
    }
}

/* high: 32 bytes of fifth bits, of which those in mask count */
static void
four_five(const uint8_t *b, const uint8_t *high, uint8_t mask, const uint8_t *q, float *out) {
    float d = load_f16(b);
    float m = load_f16(b + 2);
    for (int32_t j = 0; j < SUPER / 32; j++, out += 32) {
        const uint8_t *p = q + j / 2 * 32;
        int scale = 0;
        int min = 0;
        k_scales(b + 4, j, &scale, &min);
        float ds = d * (float)scale;
        float dm = m * (float)min;
        for (int32_t i = 0; i < 32; i++) {
            int n = (p[i] >> (4 * (j % 2)) & 15) | ((high[i] & mask) >> j & 1) << 4;
            float scaled = ds * (float)n;
            out[i] = scaled - dm;
        }
    }
}

static void block_q4_k(const uint8_t *b, float *out) {
    four_five(b, b + 16, 0, b + 16, out);
}

static void block_q5_k(const uint8_t *b, float *out) {
    four_five(b, b + 16, 0xff, b + 48, out);
}

static void block_q6_k(const uint8_t *b, float *out) {
    float d = load_f16(b + 208);
    for (int32_t j = 0; j < SUPER / 16; j++, out += 16) {
        int shift = 0;
        const uint8_t *h = two_bits(b + 128, j, &shift);
        const uint8_t *l = b + j / 8 * 64 + j % 4 * 16;
        int8_t s;
        memcpy(&s, b + 192 + j, 1);
        float scale = d * (float)s;
        for (int32_t i = 0; i < 16; i++) {
            int n = (l[i] >> (4 * (j / 4 % 2)) & 15) | (h[i] >> shift & 3) << 4;
            out[i] = scale * (float)(n - 32);
        }
    }
}

static void block_q8_k(const uint8_t *b, float *out) {
    uint32_t bits = load_u32(b);
    float d;
    memcpy(&d, &bits, sizeof d);
    for (int32_t k = 0; k < SUPER; k++) {
        int8_t q;
        memcpy(&q, b + 4 + k, 1);
        out[k] = (float)q * d;
    }
}

static void block_iq4_xs(const uint8_t *b, float *out) {
    float d = load_f16(b);
    uint16_t t = load_u16(b + 2);
    for (int32_t j = 0; j < SUPER / 32; j++, out += 32) {
        int low = b[4 + j / 2] >> (4 * (j % 2)) & 15;
        int high = t >> (2 * j) & 3;
        float scale = d * (float)((low | high << 4) - 32);
        for (int32_t i = 0; i < 32; i++) {
            out[i] = scale * levels[nibble(b + 8 + j * 16, i)];
        }
    }
}

static void block_tq1_0(const uint8_t *b, float *out) {
    static const uint8_t power[5] = {1, 3, 9, 27, 81};
    static const struct {
        int32_t first; /* element of digit 0 of the first byte */
        int32_t byte;
        int32_t n_byte;
        int32_t n_digit;
    } parts[] = {{0, 0, 32, 5}, {160, 32, 16, 5}, {240, 48, 4, 4}};
    float d = load_f16(b + 52);
    for (int32_t a = 0; a < ARRAY_LEN(parts); a++) {
        for (int32_t i = 0; i < parts[a].n_byte * parts[a].n_digit; i++) {
            uint8_t v = b[parts[a].byte + i % parts[a].n_byte];
            uint8_t turned = (uint8_t)(v * power[i / parts[a].n_byte]);
            out[parts[a].first + i] = (float)((turned * 3 >> 8) - 1) * d;
        }
    }
}

static void block_tq2_0(const uint8_t *b, float *out) {
    float d = load_f16(b + 64);
    for (int32_t j = 0; j < SUPER / 16; j++, out += 16) {
        int shift = 0;
        const uint8_t *q = two_bits(b, j, &shift);
        for (int32_t i = 0; i < 16; i++) {
            out[i] = (float)((q[i] >> shift & 3) - 1) * d;
        }
    }
}

static void block_q8_1(const uint8_t *b, float *out) {
    float d = load_f16(b);
    for (int32_t j = 0; j < 32; j++) {
        int8_t q;
        memcpy(&q, b + 4 + j, 1);
        out[j] = (float)q * d;
    }
}

ref_block_fn *ref_block_find(enum dtype type) {
    static ref_block_fn *const table[DTYPE_N] = {
        [DTYPE_Q5_0] = block_q5_0,           [DTYPE_Q5_1] = block_q5_1,
        [DTYPE_Q2_K] = block_q2_k,           [DTYPE_Q3_K] = block_q3_k,
        [DTYPE_Q4_K] = block_q4_k,           [DTYPE_Q5_K] = block_q5_k,
        [DTYPE_Q6_K] = block_q6_k,           [DTYPE_Q8_K] = block_q8_k,
        [DTYPE_IQ4_NL] = block_iq4_nl,       [DTYPE_IQ4_XS] = block_iq4_xs,
        [DTYPE_TQ1_0] = block_tq1_0,         [DTYPE_TQ2_0] = block_tq2_0,
        [DTYPE_MXFP4] = block_mxfp4,         [DTYPE_Q8_1] = block_q8_1,
        [DTYPE_IQ2_XXS] = ref_block_iq2_xxs, [DTYPE_IQ2_XS] = ref_block_iq2_xs,
        [DTYPE_IQ2_S] = ref_block_iq2_s,     [DTYPE_IQ3_XXS] = ref_block_iq3_xxs,
        [DTYPE_IQ3_S] = ref_block_iq3_s,     [DTYPE_IQ1_S] = ref_block_iq1_s,
        [DTYPE_IQ1_M] = ref_block_iq1_m,     [DTYPE_NVFP4] = ref_block_nvfp4,
    };
    return table[type];
}
