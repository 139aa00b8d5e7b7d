/* The CPU backend: SIMD chosen at run time, the same bits for any batch and any thread count. */
#ifndef KERNELS_CPU_BACKEND_CPU_H
#define KERNELS_CPU_BACKEND_CPU_H

#include "kernels/ops.h"

/* "cpu". Variants by name: "avx512vnni", "avx512", "avx2", "sse2"; the best one of the machine by
 * default. Weights: all that host_supports_weight knows; caches F32, F16, BF16, F8_E4M3; D up to
 * 512. Bits differ between variants (the number of lanes is part of the order of a sum), never
 * within one; avx512vnni has those of avx512. One caller at a time: an open backend belongs to one
 * thread. */
extern const struct backend_ops backend_cpu;

/* Names of the variants this machine can run, best first; NULL past the last. */
const char *backend_cpu_variant(int32_t i);

struct cpu_roof {
    double gflops; /* f32 multiply-adds of the open variant, all threads, registers only */
    double gbytes; /* GB/s read from memory, all threads */
};

/* Measures what the open variant could do at best. in: be opened through backend_cpu
 * err: ERR_NOMEM. cost: about a third of a second, 256 MiB */
int backend_cpu_roof(struct backend *be, struct cpu_roof *out);

#endif
