/* The one truth of every stored weight format.
 *
 * Byte tables are in kernels/dtype.h. Each value is a short chain of f32 operations, every one
 * rounded, in the order of the formats' own readers:
 *   Q4_0, Q8_0  f32(q) * f32(d)
 *   Q4_1        f32(q) * f32(d), rounded, then + f32(m)
 *   scaled      (f32(q) - f32(zero)) * s, the difference exact; s = f32(scale), / global
 *   F64         f32(w)
 * The other block formats are in ref_blocks.c.
 * This file is compiled with contraction off; a fused multiply-add would give other bits.
 *
 * src: gguf-py, gguf/quants.py (Q4_0, Q4_1, Q8_0 dequantize_blocks); compressed-tensors,
 * quantization/lifecycle/forward.py (dequantize). */
#include <assert.h>
#include <string.h>

#include "kernels/backend.h"
#include "kernels/ref/ref_blocks.h"
#include "kernels/scaled.h"

static uint16_t load_u16(const uint8_t *p) {
    return (uint16_t)(p[0] | (uint16_t)(p[1] << 8));
}

static void
decode_f32(const struct wmat *w, const uint8_t *row, int32_t k0, int32_t n, float *out) {
    (void)w;
    memcpy(out, row + (int64_t)k0 * 4, (size_t)n * 4);
}

static void
decode_f16(const struct wmat *w, const uint8_t *row, int32_t k0, int32_t n, float *out) {
    (void)w;
    for (int32_t i = 0; i < n; i++) {
        out[i] = f16_to_f32(load_u16(row + ((int64_t)k0 + i) * 2));
    }
}

static void
decode_bf16(const struct wmat *w, const uint8_t *row, int32_t k0, int32_t n, float *out) {
    (void)w;
    for (int32_t i = 0; i < n; i++) {
        out[i] = bf16_to_f32(load_u16(row + ((int64_t)k0 + i) * 2));
    }
}

static void
decode_f64(const struct wmat *w, const uint8_t *row, int32_t k0, int32_t n, float *out) {
    (void)w;
    for (int32_t i = 0; i < n; i++) {
        double d;
        memcpy(&d, row + ((int64_t)k0 + i) * 8, sizeof(d));
        out[i] = (float)d;
    }
}

/* The nibble of element j of 32: low halves first, then high halves. */
static int nibble(const uint8_t *q, int32_t j) {
    return j < 16 ? q[j] & 15 : q[j - 16] >> 4;
}

static void
decode_q4_0(const struct wmat *w, const uint8_t *row, int32_t k0, int32_t n, float *out) {
    (void)w;
    for (int32_t i = 0; i < n; i++) {
        const uint8_t *block = row + (int64_t)((k0 + i) / 32) * 18;
        float d = f16_to_f32(load_u16(block));
        out[i] = (float)(nibble(block + 2, (k0 + i) % 32) - 8) * d;
    }
}

static void
decode_q4_1(const struct wmat *w, const uint8_t *row, int32_t k0, int32_t n, float *out) {
    (void)w;
    for (int32_t i = 0; i < n; i++) {
        const uint8_t *block = row + (int64_t)((k0 + i) / 32) * 20;
        float d = f16_to_f32(load_u16(block));
        float m = f16_to_f32(load_u16(block + 2));
        float scaled = (float)nibble(block + 4, (k0 + i) % 32) * d;
        out[i] = scaled + m;
    }
}

static void
decode_q8_0(const struct wmat *w, const uint8_t *row, int32_t k0, int32_t n, float *out) {
    (void)w;
    for (int32_t i = 0; i < n; i++) {
        const uint8_t *block = row + (int64_t)((k0 + i) / 32) * 34;
        float d = f16_to_f32(load_u16(block));
        int8_t q;
        memcpy(&q, block + 2 + (k0 + i) % 32, 1);
        out[i] = (float)q * d;
    }
}

static void decode_scaled(const struct wmat *w, int32_t r, int32_t k0, int32_t n, float *out) {
    int64_t at = scaled_row(w, r);
    int32_t seen = -1;
    float scale = 0;
    float zero = 0;
    scaled_codes(w, r, k0, n, out);
    for (int32_t i = 0; i < n; i++) {
        int32_t g = scaled_group(w, k0 + i);
        if (g != seen) {
            scale = scaled_scale(w, at + g);
            zero = w->zero ? (float)w->zero[at + g] : 0;
            seen = g;
        }
        out[i] = (out[i] - zero) * scale;
    }
}

void ref_decode(const struct wmat *w, int32_t r, int32_t k0, int32_t n, float *out) {
    typedef void decode_fn(const struct wmat *, const uint8_t *, int32_t, int32_t, float *);
    static decode_fn *const table[DTYPE_N] = {
        [DTYPE_F32] = decode_f32,   [DTYPE_F16] = decode_f16,   [DTYPE_BF16] = decode_bf16,
        [DTYPE_Q4_0] = decode_q4_0, [DTYPE_Q4_1] = decode_q4_1, [DTYPE_Q8_0] = decode_q8_0,
        [DTYPE_F64] = decode_f64,
    };
    const uint8_t *row = (const uint8_t *)w->data + r * w->row_bytes;
    if (dtype_is_scaled(w->type)) {
        decode_scaled(w, r, k0, n, out);
        return;
    }
    if (table[w->type]) {
        table[w->type](w, row, k0, n, out);
        return;
    }
    const struct dtype_info *info = dtype_info(w->type);
    ref_block_fn *block = ref_block_find(w->type);
    assert(block);
    for (int32_t i = 0; i < n; i += info->block) {
        block(row + (int64_t)((k0 + i) / info->block) * info->block_bytes, out + i);
    }
}
