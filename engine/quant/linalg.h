/* The dense algebra that GPTQ needs. Matrices are row-major, square [k,k], f64. */
#ifndef ENGINE_QUANT_LINALG_H
#define ENGINE_QUANT_LINALG_H

#include "engine/base/types.h"

/* Lower Cholesky factor in place: a = l l^T; the strict upper part is left as it was.
 * in:   a symmetric; only its lower part is read
 * err:  ERR_NUMERIC at the first pivot that is not positive (no message: the caller decides); a is
 *       then destroyed
 * cost: k^3/3 multiply-adds in blocks, on n_threads threads; the result does not depend on them */
int linalg_cholesky(double *a, int32_t k, int32_t n_threads);

/* Inverse of a lower triangle in place. in: diagonal not zero. err: ERR_NOMEM, l unchanged.
 * cost: k^3/3 multiply-adds */
int linalg_invert_lower(double *l, int32_t k, int32_t n_threads);

/* u = upper Cholesky factor of h^-1 (h^-1 = u^T u), as GPTQ uses it, f32.
 * in:   h [k,k] symmetric positive definite; work [k,k] f64
 * err:  ERR_NUMERIC when h is not positive definite
 * src:  h = r r^T with r upper is the Cholesky factorization of h turned by 180 degrees, and then
 *       u = r^-1: one factorization and one triangular inverse instead of three factorizations */
int linalg_inverse_factor(const float *h, int32_t k, double *work, float *u, int32_t n_threads);

#endif
