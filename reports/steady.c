/* The best window of the series by two-sided MSER if it is level, else the whole series if that is.
 *
 * MSER: among all windows of at least three fifths of the series, take the one with the smallest
 * SSE / m^2 (m bins, SSE about their mean): cutting a ramp pays, cutting level data does not.
 *
 * Level is what shows
 *   1. no random walk: cut into k <= 64 parts of at least 4 bins, sum of squared steps between
 *      neighbours / sum of squares about their mean is above 20/k, which 95 of 100 walks stay below
 *      (noise has 2); a window chosen for its levelness must also have 1 in parts of 2 bins. Blocks
 * that differ by less than a twentieth of the mean pass;
 *   2. no drift: cut into 8 blocks, the regression of their means on time has |t| < 3.71 (99 % at 6
 *      degrees of freedom), or the drift over the window is under 10 % of the mean;
 *   3. one level: the block means spread by at most a quarter of the mean beyond what the scatter
 *      inside the blocks explains, correlated as its neighbours are.
 *
 * src: White, "An effective truncation heuristic for bias reduction in simulation output",
 * Simulation 1997 (MSER); ours cuts both ends and may refuse. Sargan and Bhargava 1983 (1). */
#include "reports/steady.h"

#include <math.h>
#include <stdio.h>

enum { BLOCKS = 8, PARTS = 64 };

static const double WALK = 20;
static const double CHOSEN = 1;

static void best_window(const double *x, int32_t n, struct steady *s) {
    double sum[STEADY_BINS_MAX + 1] = {0};
    double square[STEADY_BINS_MAX + 1] = {0};
    double best = (double)INFINITY;
    int32_t m_min = i32_max(STEADY_BINS_MIN, n - 2 * n / 5);
    for (int32_t i = 0; i < n; i++) {
        sum[i + 1] = sum[i] + x[i];
        square[i + 1] = square[i] + x[i] * x[i];
    }
    for (int32_t from = 0; from + m_min <= n; from++) {
        for (int32_t to = from + m_min; to <= n; to++) {
            double m = to - from;
            double total = sum[to] - sum[from];
            double sse = square[to] - square[from] - total * total / m;
            double score = fmax(sse, 0) / (m * m);
            if (score < best || (score <= best && m > s->to - s->from)) {
                best = score;
                s->from = from;
                s->to = to;
            }
        }
    }
}

struct blocks {
    double mean[BLOCKS];
    double all;     /* mean of the window */
    double scatter; /* standard error of one block mean, from inside the blocks */
    double lo;      /* lowest and highest block mean */
    double hi;
};

static void cut(const double *x, const struct steady *s, struct blocks *b) {
    double within = 0;
    double beside = 0;
    int32_t m = s->to - s->from;
    *b = (struct blocks){.lo = HUGE_VAL, .hi = -HUGE_VAL};
    for (int32_t k = 0; k < BLOCKS; k++) {
        int32_t from = s->from + k * m / BLOCKS;
        int32_t to = s->from + (k + 1) * m / BLOCKS;
        double total = 0;
        for (int32_t i = from; i < to; i++) {
            total += x[i];
        }
        b->mean[k] = total / (to - from);
        b->all += total / m;
        for (int32_t i = from; i < to; i++) {
            within += (x[i] - b->mean[k]) * (x[i] - b->mean[k]);
            beside += i > from ? (x[i] - b->mean[k]) * (x[i - 1] - b->mean[k]) : 0;
        }
        b->lo = fmin(b->lo, b->mean[k]);
        b->hi = fmax(b->hi, b->mean[k]);
    }
    double r = within > 0 ? fmin(fmax(beside / within, 0), 0.9) : 0;
    b->scatter = sqrt(within / fmax(1, m - BLOCKS) / ((double)m / BLOCKS) * (1 + r) / (1 - r));
}

/* Drift over the window as a share of the mean, and its t value. */
static double drift(const struct blocks *b, double *t) {
    double sxx = 0;
    double sxy = 0;
    double residual = 0;
    const double middle = (BLOCKS - 1) / 2.0;
    for (int32_t k = 0; k < BLOCKS; k++) {
        sxx += (k - middle) * (k - middle);
        sxy += (k - middle) * (b->mean[k] - b->all);
    }
    double slope = sxy / sxx;
    for (int32_t k = 0; k < BLOCKS; k++) {
        double e = b->mean[k] - b->all - slope * (k - middle);
        residual += e * e;
    }
    double se = sqrt(residual / (BLOCKS - 2) / sxx);
    *t = se > 0 ? slope / se : (fabs(slope) > 0 ? (double)INFINITY : 0);
    return slope * (BLOCKS - 1) / b->all;
}

/* Steps between neighbouring parts against their spread: 2 for noise, near 0 for a walk. */
static double restlessness(const double *x, const struct steady *s, int32_t n) {
    double mean[PARTS];
    double all = 0;
    double steps = 0;
    double spread = 0;
    int32_t m = s->to - s->from;
    for (int32_t k = 0; k < n; k++) {
        int32_t from = s->from + k * m / n;
        int32_t to = s->from + (k + 1) * m / n;
        mean[k] = 0;
        for (int32_t i = from; i < to; i++) {
            mean[k] += x[i] / (to - from);
        }
        all += mean[k] / n;
    }
    for (int32_t k = 0; k < n; k++) {
        spread += (mean[k] - all) * (mean[k] - all);
        steps += k ? (mean[k] - mean[k - 1]) * (mean[k] - mean[k - 1]) : 0;
    }
    return spread > 0 ? steps / spread : 2;
}

static bool wanders(const double *x, const struct steady *s, bool is_chosen) {
    int32_t m = s->to - s->from;
    int32_t n = i32_max(BLOCKS, i32_min(m / 4, PARTS));
    return restlessness(x, s, n) < WALK / n ||
           (is_chosen && restlessness(x, s, i32_min(m / 2, PARTS)) < CHOSEN);
}

/* out: s->reason when it is not level */
static bool is_level(const double *x, struct steady *s, bool is_chosen) {
    const double t_limit = 3.707;
    const double same = 0.1;
    struct blocks b;
    double t = 0;
    cut(x, s, &b);
    if (!(b.all > 0)) {
        snprintf(s->reason, sizeof s->reason, "nothing was produced");
        return false;
    }
    double share = drift(&b, &t);
    if (fabs(t) > t_limit && fabs(share) > same) {
        snprintf(s->reason, sizeof s->reason, "the rate drifts by %+.0f %% over its best window",
                 share * 100);
        return false;
    }
    if (b.hi - b.lo > 0.25 * b.all + 4 * b.scatter) {
        snprintf(s->reason, sizeof s->reason,
                 "the rate changes its level (%.3g to %.3g) within its best window", b.lo, b.hi);
        return false;
    }
    if (b.hi - b.lo > same / 2 * b.all && wanders(x, s, is_chosen)) {
        snprintf(s->reason, sizeof s->reason,
                 "the rate wanders (%.3g to %.3g) within its best window and may wander on", b.lo,
                 b.hi);
        return false;
    }
    return true;
}

void steady_find(const double *x, int32_t n, struct steady *s) {
    *s = (struct steady){0};
    if (n < STEADY_BINS_MIN || n > STEADY_BINS_MAX) {
        snprintf(s->reason, sizeof s->reason, "%d time bins, want %d to %d", n,
                 (int)STEADY_BINS_MIN, (int)STEADY_BINS_MAX);
        return;
    }
    best_window(x, n, s);
    s->found = is_level(x, s, s->to - s->from < n);
    if (!s->found) {
        struct steady whole = {.to = n};
        if (is_level(x, &whole, false)) {
            *s = whole;
            s->found = true;
        }
    }
    if (s->found) {
        s->reason[0] = 0;
    }
}
