/* Work spread over a few threads for jobs that take milliseconds or more: threads are started and
 * joined by each call. */
#ifndef ENGINE_BASE_PAR_H
#define ENGINE_BASE_PAR_H

#include "engine/base/types.h"

/* Number of processors that are online, at least 1. */
int32_t par_n_cpu(void);

/* Calls fn(ctx, i) for i = 0..n-1, each once, on up to n_threads threads (0: one per processor);
 * the caller takes part. fn must not depend on the order or on the thread. When a thread cannot be
 * started, the others do its share. */
void par_for(int32_t n_threads, int64_t n, void (*fn)(void *ctx, int64_t i), void *ctx);

#endif
