/* The kernels for SSE2: 4 lanes, no fused multiply-add, what every x86-64 has. The law is in the
 * template. */
#define VEC_W         4
#define CPU_KERN_NAME cpu_kern_sse2
#define CPU_KERN_TEXT "sse2"

#include "kernels/cpu/cpu_kern.inc.h"
