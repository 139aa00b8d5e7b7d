/* Whether a run's numbers may be read as the server's. */
#ifndef REPORTS_VERDICT_H
#define REPORTS_VERDICT_H

#include "engine/base/types.h"

enum verdict_kind {
    VERDICT_VALID,
    VERDICT_CLIENT_BOUND,   /* the load generator was late: the load was not the one ordered */
    VERDICT_SERVER_LIMITED, /* the server fell behind or refused: waiting grows with the run */
    VERDICT_INCONCLUSIVE,
    VERDICT_N
};

enum { VERDICT_REASON_MAX = 240, VERDICT_REQUESTS_MIN = 10 };

struct verdict {
    enum verdict_kind kind;
    char reason[VERDICT_REASON_MAX]; /* one sentence */
};

struct verdict_in {
    bool is_aborted;
    bool is_closed;    /* closed loop: a queue cannot grow */
    int64_t n_offered; /* measured requests */
    int64_t n_ok;
    int64_t n_failed;
    double send_lag_p99_s;  /* actual minus intended start; NaN unknown */
    double ttft_p50_s;      /* NaN unknown */
    double in_flight_first; /* mean requests in the house, first and last third of the phase */
    double in_flight_last;  /* NaN unknown */
    double in_flight_se;    /* standard error of their difference; NaN unknown */
};

/* Judges. out: *v with a reason in words and numbers */
void verdict_judge(const struct verdict_in *in, struct verdict *v);

/* "VALID", "CLIENT-BOUND", "SERVER-LIMITED", "INCONCLUSIVE". */
const char *verdict_name(enum verdict_kind kind);

#endif
