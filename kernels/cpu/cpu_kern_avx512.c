/* The kernels for AVX-512 F, BW, DQ and VL: 16 lanes, 32 registers. The law is in the template. */
#define VEC_W         16
#define CPU_KERN_NAME cpu_kern_avx512
#define CPU_KERN_TEXT "avx512"

#include "kernels/cpu/cpu_kern.inc.h"

const struct cpu_kern cpu_kern_avx512vnni = CPU_KERN_TABLE("avx512vnni", cpu_qmm_vnni, true);
