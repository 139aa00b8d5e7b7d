/* Data types, stored weight formats with their bits, and the view of a weight matrix.
 *
 * Weights stay in the format in which the checkpoint stores them; a kernel decodes rows on the fly.
 *
 * Block formats (32 elements along the input dimension k, little-endian):
 *
 *   Q4_0  18 bytes | f16 d | 16 x u8: low nibble = element j, high nibble = element j+16 |
 *         w = (n - 8) * d
 *   Q4_1  20 bytes | f16 d | f16 m | 16 x u8 as Q4_0 |              w = n * d + m
 *   Q8_0  34 bytes | f16 d | 32 x i8 |                              w = q * d
 *
 * DTYPE_W4 is compressed-tensors "pack-quantized" with 4 bits: element i of a row sits at bit
 * 4*(i%8) of the little-endian u32 word i/8, stored as q + 8; scales [N, K/group] beside it, and
 * optional zero points.  w = (q - zero) * scale, product in f32.
 *
 * src: GGUF specification, docs/gguf.md of ggml; compressed-tensors, compressors/pack_quantized.
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
    DTYPE_Q4_0,
    DTYPE_Q4_1,
    DTYPE_Q8_0,
    DTYPE_W4,
    DTYPE_N
};

struct dtype_info {
    const char *name;    /* "BF16", "Q4_1" */
    int32_t block;       /* elements a block along k; 1 for plain types */
    int32_t block_bytes; /* bytes of one block */
};

#ifdef __cplusplus
extern "C" {
#endif

/* Facts of one type. in: t < DTYPE_N */
const struct dtype_info *dtype_info(enum dtype t);

/* Bytes of n elements stored in a row; DTYPE_W4 rounds up to whole words.
 * err: -1 when n is negative or no multiple of the block, or when the product overflows */
int64_t dtype_row_bytes(enum dtype t, int64_t n);

/* Scalar conversions, exact or round-half-to-even. A NaN stays a NaN; narrowing makes it quiet. */
float f16_to_f32(uint16_t h);
uint16_t f32_to_f16(float f);
float bf16_to_f32(uint16_t h);
uint16_t f32_to_bf16(float f);

#ifdef __cplusplus
}
#endif

/* One weight matrix [n,k] row-major in its stored format; y = x W^T.
 * All pointers are borrowed (the checkpoint's map or the weights' memory). */
struct wmat {
    enum dtype type;
    int32_t n;        /* rows = output features */
    int32_t k;        /* columns = input features */
    const void *data; /* ref, [n] rows of row_bytes bytes; DTYPE_W4: u32 [n, ceil(k/8)] */
    int64_t row_bytes;
    /* DTYPE_W4 alone: */
    const void *scale;     /* ref, [n, k/group] of scale_type; NULL otherwise */
    enum dtype scale_type; /* F32, F16 or BF16 */
    const int8_t *zero;    /* ref, [n, k/group] signed; NULL: symmetric */
    int32_t group;         /* columns that share a scale; k for per-channel */
};

#endif
