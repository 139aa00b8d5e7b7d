#include "engine/base/clock.h"

#include <time.h>

static int64_t read_clock(clockid_t id) {
    struct timespec ts;
    clock_gettime(id, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

int64_t clock_now_ns(void) {
    return read_clock(CLOCK_MONOTONIC);
}

int64_t clock_wall_ns(void) {
    return read_clock(CLOCK_REALTIME);
}

void clock_sleep_until(int64_t t_ns) {
    struct timespec ts = {.tv_sec = t_ns / 1000000000, .tv_nsec = t_ns % 1000000000};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL);
}
