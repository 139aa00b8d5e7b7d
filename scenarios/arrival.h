/* When requests start: intended offsets in nanoseconds from the start of a run.
 *
 * Pure and seeded. The schedule is absolute: each offset follows from the draws alone, never from
 * what happened to earlier requests, so a slow server cannot thin the load. Only the closed loop
 * answers to completions, and says so by its own function. */
#ifndef SCENARIOS_ARRIVAL_H
#define SCENARIOS_ARRIVAL_H

#include "engine/base/rng.h"
#include "engine/base/types.h"

enum arrival_kind {
    ARRIVAL_UNSET,
    ARRIVAL_CONSTANT, /* request i at i / rate */
    ARRIVAL_POISSON,  /* exponential gaps; the count in a time is a true Poisson number */
    ARRIVAL_GAMMA,    /* gamma gaps of mean 1 / rate and coefficient of variation cv */
    ARRIVAL_CLOSED,   /* n users at once, each starts anew when its request is done */
    ARRIVAL_BURST,    /* n requests at offset 0 */
    ARRIVAL_TRACE,    /* recorded times divided by the speed */
    ARRIVAL_N
};

struct arrival_opts {
    enum arrival_kind kind;
    double value; /* rate per second, users, requests at once, or speed */
    double cv;    /* gamma only, > 0 */
    uint64_t seed;
    const int64_t *trace_ns; /* ref, [n_trace] ascending; trace only */
    int64_t n_trace;
};

struct arrival {
    struct arrival_opts o;
    struct rng rng;
    int64_t n_given; /* starts handed out */
    double t_s;      /* time of the last one, seconds */
};

/* Starts a process. err: ERR_CONFIG (rate, count, cv or speed out of range; trace not ascending) */
int arrival_init(struct arrival *a, const struct arrival_opts *o);

/* The next start that is known now. out: *start_ns >= the one before. Returns false when there is
 * none: the burst or trace is over, or all users of the closed loop are busy. */
bool arrival_next(struct arrival *a, int64_t *start_ns);

/* A request was done (or failed) at done_ns. Returns true when the loop is closed; then the same
 * user starts its next request at *start_ns = done_ns. */
bool arrival_done(struct arrival *a, int64_t done_ns, int64_t *start_ns);

/* "constant", "poisson", ...; "" for ARRIVAL_UNSET. */
const char *arrival_name(enum arrival_kind kind);

#endif
