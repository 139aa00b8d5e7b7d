/* The null backend: no arithmetic, deterministic logits. Prices scheduler, server and harness. */
#ifndef KERNELS_NULL_BACKEND_NULL_H
#define KERNELS_NULL_BACKEND_NULL_H

#include "kernels/ops.h"

/* "null". A row's state is a number below 2^24 in its first element; the rest of a row is never
 * read nor written:
 *   embed      state = token;  the table's row count is remembered as the vocabulary V
 *   norm_rope  state = mix(state, position), on queries and keys
 *   matmul     state moves from x to y; accumulate: y = mix(y, x)
 *   route      experts 0, 1, ... for every row;  scatter_add: y = mix(y, x)
 *   matmul with n = V rows (the head): the row is zero but for NULL_PEAK at mix(state) % V
 * so logits depend on (token, position) and the order of ops alone. Every weight and cache type is
 * supported; weights are not read.
 * cost: O(1) per row and op, but add and an act_mul that is not in place (O(n) copies) and the head
 * (one fill of V floats per row) */
extern const struct backend_ops backend_null;

#define NULL_PEAK 16.0F

#endif
