/* The instrument measures itself: clock, schedule, latencies against the truth server, speed, and
 * the corpus of answers. */
#ifndef HARNESS_SELFTEST_H
#define HARNESS_SELFTEST_H

#include "engine/base/types.h"

enum { SELFTEST_ROWS_MAX = 24, SELFTEST_NOTE_MAX = 120 };

struct selftest_row {
    const char *name; /* literal */
    const char *unit; /* literal: "s", "1/s", "of n" */
    double value;
    double limit;
    bool is_floor; /* value must reach the limit; else must not exceed it */
    bool is_ok;
    char note[SELFTEST_NOTE_MAX]; /* what went wrong, or under which load */
};

struct selftest {
    struct selftest_row row[SELFTEST_ROWS_MAX];
    int32_t n;
    int32_t n_bad;
};

/* Runs everything. in: stop: asked now and then; tell: called with the name of each part
 * err:  ERR_NET, ERR_IO, ERR_NOMEM, ERR_CANCELED; rows so far stay
 * cost: about fifteen seconds and two cores */
int selftest_run(bool (*stop)(void), void (*tell)(const char *part), struct selftest *t);

#endif
