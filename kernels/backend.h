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

/* Quantizes one row of a product's input: the one truth of struct actq (kernels/ref/ref_actq.c).
 * in:   q checked by host_check_weight, type not ACTQ_NONE; x [k]
 * out:  code [k] as f32: integers, or values of E4M3 or E2M1; scale, zero [G], G = 1 or
 *       ceil(k / group): x is about (code - zero) * scale. scale of F4 has global in it */
void ref_actq(
    const struct actq *q, int32_t k, const float *x, float *code, float *scale, int32_t *zero);

#ifdef __cplusplus
}
#endif
#endif
