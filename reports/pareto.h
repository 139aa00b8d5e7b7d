/* The front of a trade-off: who is not beaten in everything. */
#ifndef REPORTS_PARETO_H
#define REPORTS_PARETO_H

#include "engine/base/types.h"

enum { PARETO_AXES = 3 };

struct pareto_point {
    double cost[PARETO_AXES]; /* lower is better; NaN: not measured */
    bool on_front;
};

/* Marks the points that no other point dominates (no worse on every axis, better on one). A point
 * with an unmeasured axis is never on the front and dominates nobody. cost: O(n^2) */
void pareto_mark(struct pareto_point *p, int32_t n);

#endif
