/* The formats with codebooks, and NVFP4. A super-block of 256 is cut into runs of 8 (IQ3: of 4),
 * each an index into a codebook; signs are stored beside it. Byte tables are in kernels/dtype.h.
 * Every operation is rounded to f32 on its own; this file is compiled with contraction off.
 *
 * src: gguf-py, gguf/quants.py (dequantize_blocks of each format) */
#include <math.h>

#include "kernels/ref/ref_blocks.h"
#include "kernels/ref/ref_iq_grid.h"

enum { SUPER = 256 };

static uint32_t load_le(const uint8_t *p, int32_t n) {
    uint32_t v = 0;
    for (int32_t i = n - 1; i >= 0; i--) {
        v = v << 8 | p[i];
    }
    return v;
}

static float load_f16(const uint8_t *p) {
    return f16_to_f32((uint16_t)load_le(p, 2));
}

/* Seven stored signs; the eighth makes the number of minus signs even. */
static uint32_t even_signs(uint32_t seven) {
    seven &= 127;
    return seven | (uint32_t)(__builtin_popcount(seven) & 1) << 7;
}

/* out[i] = (scale * level) with sign i, for a run of 8 */
static void run8(float scale, uint16_t entry, uint32_t signs, float *out) {
    static const float levels[4] = {8, 25, 43, 0};
    for (int32_t i = 0; i < 8; i++) {
        float v = scale * levels[entry >> (2 * i) & 3];
        out[i] = signs >> i & 1 ? -v : v;
    }
}

/* The same for a run of 4 with these levels. */
static void run4(float scale, const float *levels, uint16_t entry, uint32_t signs, float *out) {
    for (int32_t i = 0; i < 4; i++) {
        float v = scale * levels[entry >> (3 * i) & 7];
        out[i] = signs >> i & 1 ? -v : v;
    }
}

/* d (1/2 + n), then times by: a quarter (IQ2) or a half (IQ3) */
static float half_step(float d, uint32_t n, float by) {
    float s = d * (0.5F + (float)n);
    return s * by;
}

void ref_block_iq2_xxs(const uint8_t *b, float *out) {
    float d = load_f16(b);
    for (int32_t j = 0; j < SUPER / 32; j++) {
        const uint8_t *q = b + 2 + 8 * j;
        uint32_t aux = load_le(q + 4, 4);
        float s = half_step(d, aux >> 28, 0.25F);
        for (int32_t r = 0; r < 4; r++, out += 8) {
            run8(s, ref_grid_iq2_xxs[q[r]], even_signs(aux >> (7 * r)), out);
        }
    }
}

void ref_block_iq2_xs(const uint8_t *b, float *out) {
    float d = load_f16(b);
    for (int32_t r = 0; r < SUPER / 8; r++, out += 8) {
        uint32_t q = load_le(b + 2 + 2 * r, 2);
        uint32_t scale = b[66 + r / 4] >> (r / 2 % 2 * 4) & 15;
        run8(half_step(d, scale, 0.25F), ref_grid_iq2_xs[q & 511], even_signs(q >> 9), out);
    }
}

void ref_block_iq2_s(const uint8_t *b, float *out) {
    float d = load_f16(b);
    for (int32_t r = 0; r < SUPER / 8; r++, out += 8) {
        uint32_t high = b[66 + r / 4] >> (r % 4 * 2) & 3;
        uint32_t scale = b[74 + r / 4] >> (r / 2 % 2 * 4) & 15;
        run8(half_step(d, scale, 0.25F), ref_grid_iq2_s[b[2 + r] | high << 8], b[34 + r], out);
    }
}

void ref_block_iq3_xxs(const uint8_t *b, float *out) {
    static const float levels[8] = {4, 12, 20, 28, 36, 44, 52, 62};
    float d = load_f16(b);
    for (int32_t j = 0; j < SUPER / 32; j++) {
        uint32_t aux = load_le(b + 66 + 4 * j, 4);
        float s = half_step(d, aux >> 28, 0.5F);
        for (int32_t r = 0; r < 8; r++, out += 4) {
            uint32_t signs = even_signs(aux >> (7 * (r / 2))) >> (4 * (r % 2));
            run4(s, levels, ref_grid_iq3_xxs[b[2 + 8 * j + r]], signs, out);
        }
    }
}

void ref_block_iq3_s(const uint8_t *b, float *out) {
    static const float levels[8] = {1, 3, 5, 7, 9, 11, 13, 15};
    float d = load_f16(b);
    for (int32_t r = 0; r < SUPER / 4; r++, out += 4) {
        uint32_t high = b[66 + r / 8] >> (r % 8) & 1;
        uint32_t scale = b[106 + r / 16] >> (r / 8 % 2 * 4) & 15;
        uint32_t signs = (uint32_t)b[74 + r / 2] >> (4 * (r % 2));
        float s = d * (float)(1 + 2 * scale);
        run4(s, levels, ref_grid_iq3_s[b[2 + r] | high << 8], signs, out);
    }
}

/* scale (level + delta) for a run of 8 */
static void run1(float scale, uint16_t entry, bool minus, float *out) {
    const float delta = minus ? -0.125F : 0.125F;
    for (int32_t i = 0; i < 8; i++) {
        float level = (float)((int32_t)(entry >> (2 * i) & 3) - 1);
        out[i] = scale * (level + delta);
    }
}

void ref_block_iq1_s(const uint8_t *b, float *out) {
    float d = load_f16(b);
    for (int32_t r = 0; r < SUPER / 8; r++, out += 8) {
        uint32_t h = load_le(b + 34 + 2 * (r / 4), 2);
        uint32_t index = b[2 + r] | (h >> (3 * (r % 4)) & 7) << 8;
        float s = d * (float)(2 * (h >> 12 & 7) + 1);
        run1(s, ref_grid_iq1[index], h >> 15, out);
    }
}

void ref_block_iq1_m(const uint8_t *b, float *out) {
    uint32_t bits = 0;
    for (int32_t i = 0; i < 4; i++) {
        bits |= load_le(b + 48 + 2 * i, 2) >> 12 << (4 * i);
    }
    float d = f16_to_f32((uint16_t)bits);
    for (int32_t r = 0; r < SUPER / 8; r++, out += 8) {
        uint32_t h = b[32 + r / 2] >> (4 * (r % 2)) & 15;
        uint32_t scale = load_le(b + 48 + 2 * (r / 8), 2) >> (3 * (r / 2 % 4)) & 7;
        run1(d * (float)(2 * scale + 1), ref_grid_iq1[b[r] | (h & 7) << 8], h >> 3, out);
    }
}

/* An E4M3 without sign, halved; 0x7f, which would be NaN, is 0. */
static float half_e4m3(uint8_t v) {
    int32_t e = v >> 3 & 15;
    int32_t m = v & 7;
    if (v == 0x7f) {
        return 0;
    }
    return e == 0 ? ldexpf((float)m, -10) : ldexpf((float)(8 + m), e - 11);
}

void ref_block_nvfp4(const uint8_t *b, float *out) {
    static const float values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
    for (int32_t j = 0; j < 4; j++, out += 16) {
        float d = half_e4m3(b[j]);
        for (int32_t i = 0; i < 16; i++) {
            uint8_t q = b[4 + 8 * j + i % 8];
            out[i] = values[i < 8 ? q & 15 : q >> 4] * d;
        }
    }
}
