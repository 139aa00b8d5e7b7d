/* One point of a scenario against one target: an open or closed loop in its own thread, the target
 * in its own threads, and the recording in the caller's.
 *
 * The clock of a request starts at its intended time; when it was really handed over is kept beside
 * it. Every token event goes to the store as it happens. */
#ifndef HARNESS_REPLAY_H
#define HARNESS_REPLAY_H

#include "harness/load.h"
#include "harness/target.h"
#include "reports/store.h"

struct replay_opts {
    const struct scenario *sc;
    const struct load *load;
    struct target *target; /* ref, not started; the replay's while it runs */
    int32_t point;         /* index of the sweep point */
    struct store *store;   /* ref */
    int64_t session_id;    /* of notes */
    int64_t run_id;
    bool stop_on_error; /* a target that cannot be reached ends the run */
    /* Called some times a second with seconds gone and planned, requests done and offered; non-zero
     * stops the run. May be NULL. */
    int (*progress)(void *ctx, double t_s, double total_s, int64_t n_done, int64_t n_offered);
    void *ctx;
};

struct replay_result {
    bool aborted;  /* stopped by progress, or failed */
    double away_s; /* time for which the target could not be reached */
    int64_t measured_from_ns;
    int64_t measured_to_ns;
    int64_t end_ns;
};

/* Replays. A request has its row as soon as it was handed over, and again when it is over; measured
 * requests have the numbers 0, 1, ... of the store, those of the warm-up -1, -2, ... A request that
 * ended badly has an error class: refused_busy, refused, interrupted, drain_timeout, or one of the
 * target's. A target that gives no answer for a while is noted in the database; with stop_on_error
 * it ends the run.
 * out:  *out also on failure, as far as the run went
 * err:  ERR_DB, ERR_NOMEM, ERR_LIMIT (more requests than TARGET_REQUESTS_MAX), ERR_NET
 * (stop_on_error), errors of the target; what was recorded stays in the store */
int replay_run(const struct replay_opts *o, struct replay_result *out);

#endif
