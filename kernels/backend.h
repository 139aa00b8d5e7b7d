/* The registry of backends. */
#ifndef KERNELS_BACKEND_H
#define KERNELS_BACKEND_H

#include "kernels/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Finds a backend: "ref", "cpu", "null". err: ERR_UNSUPPORTED naming those that are built in */
int backend_find(const char *name, const struct backend_ops **out);

/* The i-th backend of this build, NULL past the last. */
const struct backend_ops *backend_at(int32_t i);

/* Decodes n elements of row r of w, starting at column k0, to f32: the one truth of every stored
 * format (kernels/ref/ref_decode.c).
 * in:  host_check_weight(w); k0 and n multiples of the block, or any for a scaled type */
void ref_decode(const struct wmat *w, int32_t r, int32_t k0, int32_t n, float *out);

#ifdef __cplusplus
}
#endif
#endif
