/* The kernels for AVX2, FMA and F16C: 8 lanes, 16 registers. The law is in the template. */
#define VEC_W         8
#define CPU_KERN_NAME cpu_kern_avx2
#define CPU_KERN_TEXT "avx2"

#include "kernels/cpu/cpu_kern.inc.h"
