/* plan -> batch: the flat arrays that the forward pass takes (struct batch of kernels/batch.h). */
#ifndef ENGINE_SCHED_BATCH_H
#define ENGINE_SCHED_BATCH_H

#include "engine/sched/sched.h"
#include "kernels/batch.h"

/* Storage for the largest batch. err: ERR_NOMEM. own: caller, batch_fini */
int batch_init(struct batch *b, int32_t tok_max, int32_t seq_max, int32_t blocks_per_seq_max);
void batch_fini(struct batch *b);

/* Fills the arrays from a plan: rows in plan order, each sequence's rows ascending. out_row lists
 * the last row of each item that samples, and the rows of a scoring item from score_from on.
 * cost: O(T + blocks), no allocation */
void batch_build(struct batch *b, const struct plan *p, int32_t block_tok);

#endif
