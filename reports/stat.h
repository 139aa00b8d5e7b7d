/* Estimates with 95 % intervals that respect autocorrelation.
 *
 * Samples come in the order in which they were taken. NaN means "none": an estimate without
 * samples, or a bound that the samples cannot give. No bound is ever made up: with too few
 * independent samples a mean has no bounds, and a far quantile has only the near one. */
#ifndef REPORTS_STAT_H
#define REPORTS_STAT_H

#include "engine/base/types.h"

struct stat_ci {
    double value;
    double lo; /* 95 % interval */
    double hi;
};

enum {
    STAT_N_MIN = 8,   /* fewer samples have no interval */
    STAT_BATCHES = 32 /* batch means that a variance is estimated from */
};

/* All three NaN. */
struct stat_ci stat_none(void);

/* Mean of x[n]. cost: O(n), no allocation */
struct stat_ci stat_mean(const double *x, int64_t n);

/* sum(num) / sum(den) of paired samples; the interval by the delta method on the same batches. */
struct stat_ci stat_ratio(const double *num, const double *den, int64_t n);

/* Quantile q, 0 < q < 1. in: x[n] in time order, sorted[n] the same values ascending.
 * out: the interpolated sample quantile; bounds are order statistics whose binomial ranks use the
 *      effective number of samples */
struct stat_ci stat_quantile(const double *x, const double *sorted, int64_t n, double q);

/* Share k of n, Wilson's interval; n may be an effective number. in: 0 <= k <= n */
struct stat_ci stat_share(double k, double n);

/* Effective number of independent samples in x[n] for its mean, 1..n; NaN when n < STAT_N_MIN. */
double stat_n_eff(const double *x, int64_t n);

/* Sorted copy's quantile alone (linear interpolation between order statistics, type 7). */
double stat_sorted_quantile(const double *sorted, int64_t n, double q);

/* Sorts x[n] ascending; NaN is not allowed. cost: O(n) where n doubles more can be had, else
 * O(n log n) in place */
void stat_sort(double *x, int64_t n);

/* Quantile p of Student's t with df > 0 degrees of freedom (df need not be whole). */
double stat_t_quantile(double p, double df);

/* Regularised incomplete beta function I_x(a, b). in: a, b > 0, 0 <= x <= 1 */
double stat_beta(double a, double b, double x);

#endif
