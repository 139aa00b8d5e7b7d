/* Time in nanoseconds. Only the ends of the house read a clock; the scheduler is given now_ns. */
#ifndef ENGINE_BASE_CLOCK_H
#define ENGINE_BASE_CLOCK_H

#include "engine/base/types.h"

int64_t clock_now_ns(void);  /* monotonic */
int64_t clock_wall_ns(void); /* since 1970 UTC */

/* Sleeps until the monotonic time t_ns, or until a signal arrives. */
void clock_sleep_until(int64_t t_ns);

#endif
