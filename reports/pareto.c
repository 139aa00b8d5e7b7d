/* Dominance by definition; equal points leave each other on the front. */
#include "reports/pareto.h"

#include <math.h>

static bool is_measured(const struct pareto_point *p) {
    for (int32_t k = 0; k < PARETO_AXES; k++) {
        if (isnan(p->cost[k])) {
            return false;
        }
    }
    return true;
}

static bool dominates(const struct pareto_point *a, const struct pareto_point *b) {
    bool better = false;
    for (int32_t k = 0; k < PARETO_AXES; k++) {
        if (!(a->cost[k] <= b->cost[k])) {
            return false;
        }
        better = better || a->cost[k] < b->cost[k];
    }
    return better;
}

void pareto_mark(struct pareto_point *p, int32_t n) {
    for (int32_t i = 0; i < n; i++) {
        p[i].on_front = is_measured(&p[i]);
        for (int32_t k = 0; k < n && p[i].on_front; k++) {
            p[i].on_front = !(is_measured(&p[k]) && dominates(&p[k], &p[i]));
        }
    }
}
