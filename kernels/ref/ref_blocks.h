/* Decoders of the block formats of GGUF that have no faster form yet. */
#ifndef KERNELS_REF_REF_BLOCKS_H
#define KERNELS_REF_REF_BLOCKS_H

#include "kernels/dtype.h"

/* Decodes one block. in: block of dtype_info's block_bytes; out: its elements, f32 */
typedef void ref_block_fn(const uint8_t *block, float *out);

/* Formats with codebooks, and NVFP4 (ref_iq.c). */
ref_block_fn ref_block_iq2_xxs;
ref_block_fn ref_block_iq2_xs;
ref_block_fn ref_block_iq2_s;
ref_block_fn ref_block_iq3_xxs;
ref_block_fn ref_block_iq3_s;
ref_block_fn ref_block_iq1_s;
ref_block_fn ref_block_iq1_m;
ref_block_fn ref_block_nvfp4;

/* The decoder of a format; NULL: none here. */
ref_block_fn *ref_block_find(enum dtype type);

#endif
