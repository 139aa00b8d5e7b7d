/* plan -> batch: the flat arrays that the forward pass takes (struct batch of kernels/batch.h). */
#ifndef ENGINE_SCHED_BATCH_H
#define ENGINE_SCHED_BATCH_H

#include "engine/sched/sched.h"
#include "kernels/batch.h"

/* One step as each group of layers sees it: equal but for slot and block_table. Those of blocks
 * that have left a group's window are -1; no row sees them. */
struct batch_set {
    struct batch
        group[KVGROUP_MAX]; /* [n_group]; all but slot and block_table belong to the first */
    int32_t n_group;
};

/* Storage for the largest batch. in: n_group 1..KVGROUP_MAX. err: ERR_NOMEM.
 * own: caller, batch_fini */
int batch_init(struct batch_set *s,
               int32_t n_group,
               int32_t tok_max,
               int32_t seq_max,
               int32_t blocks_per_seq_max);
void batch_fini(struct batch_set *s);

/* Fills the arrays from a plan: rows in plan order, each sequence's rows ascending. out_row lists
 * the last row of each item that samples, and the rows of a scoring item from score_from on.
 * cost: O(T + blocks), no allocation */
void batch_build(struct batch_set *s, const struct plan *p, int32_t block_tok);

#endif
