/* The steady window of a run: where its rate is level, found and not guessed. */
#ifndef REPORTS_STEADY_H
#define REPORTS_STEADY_H

#include "engine/base/types.h"

enum { STEADY_BINS_MIN = 16, STEADY_BINS_MAX = 512, STEADY_REASON_MAX = 160 };

struct steady {
    bool found;
    int32_t from; /* bins [from, to) when found */
    int32_t to;
    char reason[STEADY_REASON_MAX]; /* why not, else "" */
};

/* Finds the level part of x[n], values of equal bins of time in order.
 * in:   n <= STEADY_BINS_MAX
 * out:  *s; refused when there are too few bins, or the best window still drifts or changes level
 * cost: O(n^2), no allocation */
void steady_find(const double *x, int32_t n, struct steady *s);

#endif
