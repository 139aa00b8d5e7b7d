/* The verdict, first match wins:
 *
 *   INCONCLUSIVE    the run was aborted, or has fewer than 10 finished requests
 *   CLIENT-BOUND    p99 of the send lag is above 5 ms and above a tenth of the median TTFT
 *   SERVER-LIMITED  more than 1 % of the requests failed; or, in an open loop, the number in the
 *                   house grew from the first to the last third by half and by more than two
 *                   requests, beyond three standard errors
 *   VALID           otherwise */
#include "reports/verdict.h"

#include <math.h>
#include <stdio.h>

static const double LAG_S = 5e-3;
static const double LAG_SHARE = 0.1;
static const double FAILED_SHARE = 0.01;
static const double GROWTH_MIN = 2;
static const double GROWTH_RATIO = 1.5;
static const double GROWTH_SIGMAS = 3;

const char *verdict_name(enum verdict_kind kind) {
    static const char *const names[VERDICT_N] = {"VALID", "CLIENT-BOUND", "SERVER-LIMITED",
                                                 "INCONCLUSIVE"};
    return names[kind];
}

static bool queue_grew(const struct verdict_in *in) {
    double grown = in->in_flight_last - in->in_flight_first;
    double noise = isnan(in->in_flight_se) ? 0 : GROWTH_SIGMAS * in->in_flight_se;
    return !in->is_closed && grown > GROWTH_MIN && grown > noise &&
           in->in_flight_last > GROWTH_RATIO * in->in_flight_first;
}

void verdict_judge(const struct verdict_in *in, struct verdict *v) {
    char *why = v->reason;
    const size_t cap = sizeof v->reason;
    long long offered = (long long)in->n_offered;
    double failed = offered > 0 ? (double)in->n_failed / (double)offered : 0;
    bool late = in->send_lag_p99_s > LAG_S && !(in->send_lag_p99_s <= LAG_SHARE * in->ttft_p50_s);
    if (in->is_aborted) {
        v->kind = VERDICT_INCONCLUSIVE;
        snprintf(why, cap, "the run was aborted after %lld requests", offered);
    } else if (in->n_ok + in->n_failed < VERDICT_REQUESTS_MIN) {
        v->kind = VERDICT_INCONCLUSIVE;
        snprintf(why, cap, "only %lld requests were measured, want at least %d",
                 (long long)(in->n_ok + in->n_failed), (int)VERDICT_REQUESTS_MIN);
    } else if (late) {
        v->kind = VERDICT_CLIENT_BOUND;
        snprintf(why, cap,
                 "1 %% of the requests were sent %.1f ms late or more, the load was not "
                 "the one ordered",
                 in->send_lag_p99_s * 1e3);
    } else if (failed > FAILED_SHARE) {
        v->kind = VERDICT_SERVER_LIMITED;
        snprintf(why, cap, "%lld of %lld requests failed", (long long)in->n_failed, offered);
    } else if (queue_grew(in)) {
        v->kind = VERDICT_SERVER_LIMITED;
        snprintf(why, cap,
                 "the queue grew: %.1f requests in the house in the first third, %.1f in "
                 "the last; latency depends on how long the run is",
                 in->in_flight_first, in->in_flight_last);
    } else {
        v->kind = VERDICT_VALID;
        snprintf(why, cap,
                 "%lld of %lld requests succeeded, the load was sent on time and the "
                 "server kept up",
                 (long long)in->n_ok, offered);
    }
}
