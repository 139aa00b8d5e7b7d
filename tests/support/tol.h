/* Tolerances of the ops against kernels/ref, each with its reason. A value is a fraction of the
 * natural size of the result (struct case_data, size); loosening one needs a line in the commit. */
#ifndef TESTS_SUPPORT_TOL_H
#define TESTS_SUPPORT_TOL_H

#include <math.h>
#include <stdint.h>

/* One f32 rounding. */
#define TOL_U 0x1p-24

/* A sum of k products in f32 lanes, measured by the size sqrt(k) rms(x) rms(w). Each of k/W partial
 * sums is rounded once: a random walk of sqrt(k/W) roundings of at most that size, W >= 4, taken
 * at four standard deviations; 8 for the tree, bias and old value. */
static inline double tol_dot(int64_t k) {
    return TOL_U * (8 + 2 * sqrt((double)k));
}

/* A product of codes. Integer sums are exact, fp8 ones as tol_dot; each piece of columns that
 * shares scales is then rounded three times (to f32, by either scale), which is relative to a part
 * of the result, and added in order: at worst one piece a column, a random walk of sqrt(k)
 * roundings of at most half a unit of a partial sum, again at four standard deviations. */
static inline double tol_actq(int64_t k) {
    return tol_dot(k) + 4 * TOL_U;
}

/* Attention over s positions of d-sized heads: a score of size one carries tol_dot(d), which exp
 * passes on as a relative error; the weighted sum walks over s positions, each weight with 4
 * roundings of exp and normalisation. */
static inline double tol_attn(int64_t d, int64_t s) {
    return 2 * tol_dot(d) + TOL_U * (16 + sqrt((double)s));
}

/* Root-mean-square norm of n: the sum of squares has one sign, so its relative error is at most the
 * n/W + log2(W) roundings of a lane and halves under the root; W >= 4; 6 for the products. */
static inline double tol_norm(int64_t n) {
    return TOL_U * (6 + (double)n / 8);
}

/* Activations: exp within 2 ulp, three more roundings, and the cubic argument of gelu, whose error
 * is multiplied by its own size (at most 12 where the result is not yet constant). */
static inline double tol_act(void) {
    return TOL_U * 48;
}

/* One product and one sum. */
static inline double tol_elem(void) {
    return TOL_U * 2;
}

#endif
