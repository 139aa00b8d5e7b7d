/* The reference backend: the truth every other backend is measured against. */
#ifndef KERNELS_REF_BACKEND_REF_H
#define KERNELS_REF_BACKEND_REF_H

#include "kernels/ops.h"

/* "ref": plain loops, one thread, sums in double, one rounding per result. Supports every weight
 * format of ref_decode and F32 and F16 caches. cost: slow on purpose */
extern const struct backend_ops backend_ref;

#endif
