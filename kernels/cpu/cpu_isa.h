/* Which variants of the kernels this processor can run: the only place that asks it. */
#ifndef KERNELS_CPU_CPU_ISA_H
#define KERNELS_CPU_CPU_ISA_H

#include "kernels/cpu/cpu_kern.h"

/* The i-th variant this machine can run, best first; NULL past the last. */
const struct cpu_kern *cpu_isa_at(int32_t i);

/* The variant called name; NULL: the best. err: ERR_UNSUPPORTED naming those the machine has */
int cpu_isa_find(const char *name, const struct cpu_kern **out);

#endif
