/* Named fault points for tests: the n-th use of a point fails, once or for ever.
 *
 * Seams that exist anyway (allocation, read, write, rename, SQLite step, child process) call
 * fault_hit; outside tests every point is disarmed and the call costs one relaxed load. */
#ifndef ENGINE_BASE_FAULT_H
#define ENGINE_BASE_FAULT_H

#include "engine/base/types.h"

enum fault_point {
    FAULT_ALLOC,  /* mem_* returns NULL */
    FAULT_MMAP,   /* file_map fails */
    FAULT_READ,   /* a read fails with EIO */
    FAULT_RENAME, /* the final rename of an atomic write fails */
    FAULT_SPAWN,  /* a child process cannot be started */
    FAULT_SQL,    /* a database step fails */
    FAULT_WRITE,  /* a write fails with ENOSPC */
    FAULT_N
};

/* Arms a point. in: countdown n >= 1: the n-th hit fails; for_ever: every later hit fails too */
void fault_arm(enum fault_point p, int64_t n, bool for_ever);

/* Disarms all points. out: returns how many faults fired since the last fault_arm */
int64_t fault_disarm(void);

/* True when this use must fail. cost: one atomic load when disarmed */
bool fault_hit(enum fault_point p);

#endif
