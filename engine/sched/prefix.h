/* The cached prefix of a sequence: which blocks it may share, and giving them back. Called by
 * engine/sched/sched.c alone. */
#ifndef ENGINE_SCHED_PREFIX_H
#define ENGINE_SCHED_PREFIX_H

#include "engine/sched/sched.h"

/* Block copies that a hit of every known token asks for; -1: none. */
struct prefix_copy {
    int32_t src[KVGROUP_MAX];
    int32_t dst[KVGROUP_MAX];
};

/* The first logical block that a row at position pos sees in group g. */
int32_t prefix_first_seen(const struct sched *s, int32_t g, int32_t pos);

/* Shares the longest cached prefix of q's known tokens that every group can go on from.
 * in:  q holds no blocks
 * out: tokens that need not be computed, less than q->n_known; when the cache has all of them the
 *      last one is computed again, into private copies of its blocks (copy says which)
 * cost: O(n_known), no allocation */
int32_t prefix_share(struct sched *s, struct seq *q, struct prefix_copy *copy);

/* Gives all blocks of q back. */
void prefix_drop(struct sched *s, struct seq *q);

#endif
