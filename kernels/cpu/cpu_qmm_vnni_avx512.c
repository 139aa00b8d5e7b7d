/* The quantized product with the VNNI instructions: four products of bytes, or two of 16 bits, a
 * lane and an instruction. The law and the code are the template's; integer sums are exact, so the
 * bits are those of every other variant. */
#define VEC_W 16
#define QMM_VNNI

#include "kernels/cpu/cpu_qmm.inc.h"

void cpu_qmm_vnni(const struct cpu_qmm *job, int32_t n0, int32_t n1, float *scratch) {
    kern_qmm(job, n0, n1, scratch);
}
