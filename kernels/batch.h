/* The batch: flat arrays that say what one step computes. Made by engine/sched/batch.c, taken by
 * the forward pass and by every op that needs to know about sequences.
 *
 * Letters: T tokens in the batch, B sequences, R rows whose logits are wanted, P tokens a block.
 * Rows of one sequence are contiguous and in ascending position; decode rows come first.
 * This header is valid C17 and C++17. */
#ifndef KERNELS_BATCH_H
#define KERNELS_BATCH_H

#include "engine/base/types.h"

struct batch {
    int32_t n_tok;        /* T */
    int32_t n_seq;        /* B */
    int32_t n_out;        /* R */
    int32_t table_stride; /* columns of block_table */
    int32_t *tok;         /* [T] token ids */
    int32_t *pos;         /* [T] absolute positions, 0-based */
    int32_t *slot;        /* [T] KV slot = block * P + offset in the block */
    int32_t *seq_start;   /* [B+1] first row of each sequence; seq_start[B] = T */
    int32_t *ctx_len;     /* [B] tokens in the cache once this step's rows are written */
    int32_t *block_table; /* [B, table_stride] block ids */
    int32_t *out_row;     /* [R] rows of the batch whose logits are wanted, ascending */
};

#endif
