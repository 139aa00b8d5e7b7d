/* why: the counters are the one process-wide mutable state of this folder beside the memory
 * accounts; both exist for tests and are atomic. */
#include "engine/base/fault.h"

#include <stdatomic.h>

struct point {
    _Atomic int64_t countdown; /* 0 = disarmed, n > 0 = the n-th hit fails, -1 = every hit fails */
    _Atomic bool for_ever;
};

static struct point points[FAULT_N];
static _Atomic int64_t n_fired;

void fault_arm(enum fault_point p, int64_t n, bool for_ever) {
    atomic_store(&n_fired, 0);
    atomic_store(&points[p].for_ever, for_ever);
    atomic_store(&points[p].countdown, n);
}

int64_t fault_disarm(void) {
    for (int32_t i = 0; i < FAULT_N; i++) {
        atomic_store(&points[i].countdown, 0);
    }
    return atomic_exchange(&n_fired, 0);
}

bool fault_hit(enum fault_point p) {
    struct point *pt = &points[p];
    if (atomic_load_explicit(&pt->countdown, memory_order_relaxed) == 0) {
        return false;
    }
    int64_t seen = atomic_load(&pt->countdown);
    while (seen > 0) {
        int64_t next = seen > 1 ? seen - 1 : (atomic_load(&pt->for_ever) ? -1 : 0);
        if (atomic_compare_exchange_weak(&pt->countdown, &seen, next)) {
            if (seen > 1) {
                return false;
            }
            atomic_fetch_add(&n_fired, 1);
            return true;
        }
    }
    if (seen < 0) {
        atomic_fetch_add(&n_fired, 1);
        return true;
    }
    return false;
}
