/* The whole template: one instance per SIMD variant, named by CPU_KERN_NAME and CPU_KERN_TEXT.
 *
 * A file cpu_kern_<variant>.c defines VEC_W and the two names, then includes this; all code is
 * static there, compiled with that variant's flags (cmake/kernels.cmake). */
#ifndef KERNELS_CPU_CPU_KERN_INC_H
#define KERNELS_CPU_CPU_KERN_INC_H

#include "kernels/cpu/cpu_actq.inc.h"
#include "kernels/cpu/cpu_attn.inc.h"
#include "kernels/cpu/cpu_qmm.inc.h"

#ifdef CPU_KERN_NAME
/* One table; the variants of a file differ in the quantized product alone. */
#define CPU_KERN_TABLE(text, product, bytes)                                                       \
    {                                                                                              \
        .name = (text), .n_lane = VEC_W, .matmul = kern_matmul, .actq = kern_actq,                 \
        .pack = kern_pack, .qmm = (product), .has_bytes = (bytes), .decode = dec_any_row,          \
        .rmsnorm = kern_rmsnorm, .norm_rope = kern_norm_rope, .attn = kern_attn,                   \
        .act_mul = kern_act_mul, .add = kern_add, .softcap = kern_softcap,                         \
        .add_scaled = kern_add_scaled, .scale = kern_scale, .exp = kern_exp,                       \
        .to_f16 = kern_to_f16, .from_f16 = kern_from_f16, .spin = kern_spin, .read = kern_read,    \
    }

const struct cpu_kern CPU_KERN_NAME = CPU_KERN_TABLE(CPU_KERN_TEXT, kern_qmm, QMM_HAS_BYTES);
#endif

#endif
