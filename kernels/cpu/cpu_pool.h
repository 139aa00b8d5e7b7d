/* A persistent pool of threads for ranges of independent items. */
#ifndef KERNELS_CPU_CPU_POOL_H
#define KERNELS_CPU_CPU_POOL_H

#include "engine/base/types.h"

struct cpu_pool;

enum { CPU_POOL_THREADS_MAX = 256 };

/* Does items i0..i1-1. in: thread 0..n_threads-1, different for ranges done at the same time */
typedef void cpu_pool_fn(const void *ctx, int64_t i0, int64_t i1, int32_t thread);

/* Starts n_threads - 1 threads; the caller of cpu_pool_run is the last one.
 * in:   n_threads 1..CPU_POOL_THREADS_MAX; 0: one per core this process may use
 * err:  ERR_RANGE, ERR_NOMEM, ERR_DEVICE when a thread cannot start; nothing is left behind
 * own:  caller, cpu_pool_destroy */
int cpu_pool_create(int32_t n_threads, struct cpu_pool **out);
void cpu_pool_destroy(struct cpu_pool *pool);

int32_t cpu_pool_threads(const struct cpu_pool *pool);

/* Calls fn on ranges of at most chunk items until 0..n_items-1 are done once each, on all threads.
 * in:   chunk >= 1; one caller at a time, not from inside fn
 * out:  every item done and its writes visible
 * cost: no allocation; a single chunk runs in the caller without waking anybody; idle threads spin
 *       for CPU_POOL_SPIN_NS, then sleep */
void cpu_pool_run(
    struct cpu_pool *pool, cpu_pool_fn *fn, const void *ctx, int64_t n_items, int64_t chunk);

#endif
