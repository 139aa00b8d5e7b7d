/* Two-sided MSER, then proof.
 *
 * Among all windows of at least three fifths of the series, take the one with the smallest SSE /
 * m^2 (m bins, SSE about their mean): cutting a ramp pays, cutting level data does not. The winner
 * is then cut into 8 blocks and must show
 *   1. no drift: the regression of the block means on time has |t| < 3.71 (99 % at 6 degrees of
 *      freedom), or the drift over the window is under 10 % of the mean;
 *   2. one level: the block means spread by at most a quarter of the mean beyond what the scatter
 *      inside the blocks explains.
 *
 * src: White, "An effective truncation heuristic for bias reduction in simulation output",
 * Simulation 1997 (MSER); ours cuts both ends and may refuse. */
#include "reports/steady.h"

#include <math.h>
#include <stdio.h>

enum { BLOCKS = 8 };

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
};

static void cut(const double *x, const struct steady *s, struct blocks *b) {
    double within = 0;
    int32_t m = s->to - s->from;
    b->all = 0;
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
        }
    }
    b->scatter = sqrt(within / fmax(1, m - BLOCKS) / ((double)m / BLOCKS));
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

void steady_find(const double *x, int32_t n, struct steady *s) {
    const double t_limit = 3.707;
    struct blocks b;
    double t = 0;
    *s = (struct steady){0};
    if (n < STEADY_BINS_MIN || n > STEADY_BINS_MAX) {
        snprintf(s->reason, sizeof s->reason, "%d time bins, want %d to %d", n,
                 (int)STEADY_BINS_MIN, (int)STEADY_BINS_MAX);
        return;
    }
    best_window(x, n, s);
    cut(x, s, &b);
    if (!(b.all > 0)) {
        snprintf(s->reason, sizeof s->reason, "nothing was produced");
        return;
    }
    double share = drift(&b, &t);
    if (fabs(t) > t_limit && fabs(share) > 0.1) {
        snprintf(s->reason, sizeof s->reason, "the rate drifts by %+.0f %% over its best window",
                 share * 100);
        return;
    }
    double lo = b.mean[0];
    double hi = b.mean[0];
    for (int32_t k = 1; k < BLOCKS; k++) {
        lo = fmin(lo, b.mean[k]);
        hi = fmax(hi, b.mean[k]);
    }
    if (hi - lo > 0.25 * b.all + 4 * b.scatter) {
        snprintf(s->reason, sizeof s->reason,
                 "the rate changes its level (%.3g to %.3g) within its best window", lo, hi);
        return;
    }
    s->found = true;
}
