/* Intervals for correlated samples.
 *
 * Mean. The samples are cut into k = 32 batches (k = n for n < 64). Let s^2 be the variance of the
 * batch means and r their lag-1 autocorrelation, freed of its bias -(1 + 4r)/k. What correlation is
 * left between batches is taken for AR(1): Var(mean) = s^2/k * (1+r)/(1-r) for r > 0, with
 * k (1-r)/(1+r) - 1 degrees of freedom of Student's t. Without correlation this is the plain
 * t interval of batch means; with it the interval widens before it becomes wrong. The third moment
 * of the batch means bends the two ends: waiting times are skewed, and so is their mean.
 *
 * Quantile q. The indicator [x <= x_q] is such a series; its variance gives the effective number of
 * samples m = q(1-q)/Var. The ranks r of the bounds solve I_q(r, m-r+1) = 0.975 and 0.025, the
 * distribution-free interval of order statistics in a sample of m, and are carried over to the n
 * samples at hand. A rank outside 1..m is no bound; where samples are correlated m is itself an
 * estimate, and an end with fewer than 12 independent samples beyond the quantile is no bound.
 *
 * src: Law and Kelton, "Simulation Modeling and Analysis", 9.5 (batch means); Willink 2005
 * (interval of a skewed mean); David and Nagaraja, "Order Statistics", 7.1; Wilson 1927; Politis
 * and Romano 1992 (circular block bootstrap); DLMF 8.17.22 (incomplete beta, continued fraction).
 */
#include "reports/stat.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"

static const double TAIL = 0.025;
static const double Z = 1.959963984540054;
static const double CORRELATED = 2; /* fewer than one in so many samples is independent */
static const double TAIL_MIN = 12;
static const double M_MAX = 1.5; /* the estimate of m may err upwards, as Student's t takes it to */

struct stat_ci stat_none(void) {
    return (struct stat_ci){(double)NAN, (double)NAN, (double)NAN};
}

/* Continued fraction of I_x(a, b) by the modified Lentz method. */
static double beta_fraction(double a, double b, double x) {
    enum { TERMS_MAX = 10000 };
    const double tiny = 1e-300;
    double c = 1;
    double d = 1 - (a + b) * x / (a + 1);
    d = 1 / (fabs(d) < tiny ? tiny : d);
    double h = d;
    for (int32_t m = 1; m < TERMS_MAX; m++) {
        double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
        double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
        double step = 1;
        for (int32_t k = 0; k < 2; k++) {
            double term = k ? odd : even;
            d = 1 + term * d;
            d = 1 / (fabs(d) < tiny ? tiny : d);
            c = 1 + term / c;
            c = fabs(c) < tiny ? tiny : c;
            step = c * d;
            h *= step;
        }
        if (fabs(step - 1) < 1e-15) {
            break;
        }
    }
    return h;
}

double stat_beta(double a, double b, double x) {
    if (x <= 0 || x >= 1) {
        return x <= 0 ? 0 : 1;
    }
    double front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x));
    if (x < (a + 1) / (a + b + 2)) {
        return front * beta_fraction(a, b, x) / a;
    }
    return 1 - front * beta_fraction(b, a, 1 - x) / b;
}

double stat_t_quantile(double p, double df) {
    if (p < 0.5) {
        return -stat_t_quantile(1 - p, df);
    }
    double lo = 0;
    double hi = 1;
    while (hi < 1e12 && 1 - stat_beta(df / 2, 0.5, df / (df + hi * hi)) / 2 < p) {
        hi *= 2;
    }
    for (int32_t i = 0; i < 100; i++) {
        double mid = (lo + hi) / 2;
        double cdf = 1 - stat_beta(df / 2, 0.5, df / (df + mid * mid)) / 2;
        lo = cdf < p ? mid : lo;
        hi = cdf < p ? hi : mid;
    }
    return (lo + hi) / 2;
}

/* A value of the series at i: the sample, the indicator, or the residual of a ratio. */
struct series {
    const double *x;
    const double *den; /* NULL unless a ratio */
    double limit;      /* indicator of x <= limit; NaN: none */
    double ratio;
};

static double at(const struct series *s, int64_t i) {
    if (s->den) {
        return s->x[i] - s->ratio * s->den[i];
    }
    return isnan(s->limit) ? s->x[i] : (s->x[i] <= s->limit ? 1.0 : 0.0);
}

/* What the batch means of a series say of its mean. */
struct spread {
    double var;  /* of the mean */
    double df;   /* degrees of freedom of that variance */
    double skew; /* of the mean, over 6: third moment of the batch means / s^3 / (6 sqrt(k)) */
};

/* out: false when too few samples */
static bool spread_of_mean(const struct series *s, int64_t n, struct spread *out) {
    double mean[2 * STAT_BATCHES];
    if (n < STAT_N_MIN) {
        return false;
    }
    int64_t k = n < 2 * STAT_BATCHES ? n : STAT_BATCHES;
    double all = 0;
    for (int64_t j = 0; j < k; j++) {
        int64_t from = j * n / k;
        int64_t to = (j + 1) * n / k;
        double sum = 0;
        for (int64_t i = from; i < to; i++) {
            sum += at(s, i);
        }
        mean[j] = sum / (double)(to - from);
        all += mean[j] / (double)k;
    }
    double c0 = 0;
    double c1 = 0;
    double c3 = 0;
    for (int64_t j = 0; j < k; j++) {
        c3 += pow(mean[j] - all, 3) / (double)k;
        c0 += (mean[j] - all) * (mean[j] - all);
        c1 += j > 0 ? (mean[j] - all) * (mean[j - 1] - all) : 0;
    }
    double r = c0 > 0 ? (c1 / c0 + 1 / (double)k) / (1 - 4 / (double)k) : 0;
    double spread = r > 0 ? (1 + r) / fmax(1 - r, 1e-3) : 1;
    double square = c0 / (double)(k - 1);
    out->var = square / (double)k * spread;
    out->df = (double)k / spread - 1;
    out->skew = square > 0 ? c3 / pow(square, 1.5) / 6 / sqrt((double)k) : 0;
    return out->df >= 2;
}

/* A quantile t of a symmetric mean carried over to a skewed one. */
static double skewed(double t, double skew) {
    return fabs(skew) < 1e-3 ? t : (cbrt(1 + 6 * skew * (t - skew)) - 1) / (2 * skew);
}

static struct stat_ci around(double value, const struct series *s, int64_t n, double scale) {
    struct stat_ci ci = {value, (double)NAN, (double)NAN};
    struct spread v;
    if (spread_of_mean(s, n, &v)) {
        double t = stat_t_quantile(1 - TAIL, v.df);
        double se = sqrt(v.var) * scale;
        ci.lo = value - skewed(t, v.skew) * se;
        ci.hi = value - skewed(-t, v.skew) * se;
    }
    return ci;
}

static double mean_of(const double *x, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        sum += x[i];
    }
    return sum / (double)n;
}

struct stat_ci stat_mean(const double *x, int64_t n) {
    if (n < 1) {
        return stat_none();
    }
    const struct series s = {.x = x, .limit = (double)NAN};
    return around(mean_of(x, n), &s, n, 1);
}

struct stat_ci stat_ratio(const double *num, const double *den, int64_t n) {
    double below = n > 0 ? mean_of(den, n) : 0;
    if (!(below > 0)) {
        return stat_none();
    }
    double value = mean_of(num, n) / below;
    const struct series s = {.x = num, .den = den, .ratio = value, .limit = (double)NAN};
    return around(value, &s, n, 1 / below);
}

double stat_n_eff(const double *x, int64_t n) {
    const struct series s = {.x = x, .limit = (double)NAN};
    struct spread v;
    if (!spread_of_mean(&s, n, &v)) {
        return (double)NAN;
    }
    double mean = mean_of(x, n);
    double square = 0;
    for (int64_t i = 0; i < n; i++) {
        square += (x[i] - mean) * (x[i] - mean);
    }
    double one = square / (double)(n - 1);
    return v.var > 0 ? fmin(fmax(one / v.var, 1), (double)n) : (double)n;
}

double stat_sorted_quantile(const double *sorted, int64_t n, double q) {
    if (n < 1) {
        return (double)NAN;
    }
    double pos = q * (double)(n - 1);
    int64_t i = i64_min((int64_t)pos, n - 1);
    int64_t j = i64_min(i + 1, n - 1);
    return sorted[i] + (pos - (double)i) * (sorted[j] - sorted[i]);
}

/* The real rank r in (0, m + 1) with I_q(r, m - r + 1) = p; the left side falls with r. */
static double rank_of(double q, double m, double p) {
    double lo = 1e-9;
    double hi = m + 1 - 1e-9;
    for (int32_t i = 0; i < 60; i++) {
        double mid = (lo + hi) / 2;
        bool above = stat_beta(mid, m - mid + 1, q) > p;
        lo = above ? mid : lo;
        hi = above ? hi : mid;
    }
    return (lo + hi) / 2;
}

/* Value at a rank in 1..m of an imagined sample of m, read from n sorted values. */
static double at_rank(const double *sorted, int64_t n, double rank, double m) {
    if (rank < 1 || rank > m) {
        return (double)NAN;
    }
    double pos = rank / (m + 1) * (double)(n + 1) - 1;
    if (pos < -0.5 || pos > (double)n - 0.5) {
        return (double)NAN;
    }
    pos = fmin(fmax(pos, 0), (double)(n - 1));
    int64_t i = (int64_t)pos;
    int64_t j = i64_min(i + 1, n - 1);
    return sorted[i] + (pos - (double)i) * (sorted[j] - sorted[i]);
}

struct stat_ci stat_quantile(const double *x, const double *sorted, int64_t n, double q) {
    struct stat_ci ci = stat_none();
    struct spread v;
    if (n < 1) {
        return ci;
    }
    ci.value = stat_sorted_quantile(sorted, n, q);
    const struct series s = {.x = x, .limit = ci.value};
    if (!spread_of_mean(&s, n, &v)) {
        return ci;
    }
    double widen = stat_t_quantile(1 - TAIL, v.df) / Z;
    double m = v.var > 0 ? q * (1 - q) / (v.var * widen * widen) : (double)n;
    m = fmin(m, M_MAX * (double)n);
    bool is_free = m >= (double)n / CORRELATED;
    double few = is_free ? m : fmin(m, stat_n_eff(x, n));
    double tail = is_free ? 0 : TAIL_MIN;
    if (m >= 1) {
        ci.lo = few * q >= tail ? at_rank(sorted, n, rank_of(q, m, 1 - TAIL), m) : ci.lo;
        ci.hi = few * (1 - q) >= tail ? at_rank(sorted, n, rank_of(q, m, TAIL), m) : ci.hi;
    }
    return ci;
}

struct stat_ci stat_share(double k, double n) {
    if (!(n > 0)) {
        return stat_none();
    }
    double p = k / n;
    double z2 = Z * Z;
    double mid = (p + z2 / (2 * n)) / (1 + z2 / n);
    double half = Z / (1 + z2 / n) * sqrt(p * (1 - p) / n + z2 / (4 * n * n));
    return (struct stat_ci){p, fmax(0, mid - half), fmin(1, mid + half)};
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a;
    double y = *(const double *)b;
    return x < y ? -1 : (x > y ? 1 : 0);
}

/* The bits of a double as a number that orders like it. */
static uint64_t order_of(double x) {
    uint64_t u = 0;
    memcpy(&u, &x, sizeof u);
    return u >> 63 ? ~u : u | UINT64_C(1) << 63;
}

/* Least significant digit first; a digit that all share takes no pass. */
static void radix_sort(double *x, double *spare, int64_t n) {
    enum { DIGIT = 11, DIGITS = 6, VALUES = 1 << DIGIT };
    int64_t count[DIGITS][VALUES] = {{0}};
    double *from = x;
    double *to = spare;
    for (int64_t i = 0; i < n; i++) {
        uint64_t u = order_of(x[i]);
        for (int32_t d = 0; d < DIGITS; d++) {
            count[d][u >> (DIGIT * d) & (VALUES - 1)]++;
        }
    }
    for (int32_t d = 0; d < DIGITS; d++) {
        if (count[d][order_of(x[0]) >> (DIGIT * d) & (VALUES - 1)] == n) {
            continue;
        }
        int64_t at = 0;
        for (int32_t v = 0; v < VALUES; v++) {
            int64_t here = count[d][v];
            count[d][v] = at;
            at += here;
        }
        for (int64_t i = 0; i < n; i++) {
            to[count[d][order_of(from[i]) >> (DIGIT * d) & (VALUES - 1)]++] = from[i];
        }
        double *swap = from;
        from = to;
        to = swap;
    }
    if (from != x) {
        memcpy(x, from, (size_t)n * sizeof *x);
    }
}

void stat_sort(double *x, int64_t n) {
    enum { RADIX_MIN = 4096 };
    double *spare = n >= RADIX_MIN ? mem_array(MEM_REPORT, n, (int64_t)sizeof *spare) : NULL;
    if (spare) {
        radix_sort(x, spare, n);
        mem_free(spare);
    } else {
        qsort(x, (size_t)n, sizeof *x, ascending);
    }
}
