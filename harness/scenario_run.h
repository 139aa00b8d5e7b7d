/* A whole scenario: every target at every point of the sweep, then the evaluations, all into one
 * session of the results database. */
#ifndef HARNESS_SCENARIO_RUN_H
#define HARNESS_SCENARIO_RUN_H

#include "harness/cli.h"
#include "scenarios/scenario.h"

struct scenario_run_opts {
    const struct scenario *sc; /* ref */
    const struct cli_env *env; /* ref */
    const char *db;
    bool no_load;     /* skip the load, do the evaluations */
    bool no_evaluate; /* skip the evaluations */
    bool quiet;
};

struct scenario_run_result {
    int64_t session_id; /* 0: none was begun */
    int32_t n_runs;     /* points measured, also one that was cut short */
    bool interrupted;   /* Ctrl-C ended it early; what was measured is in the database */
};

/* Runs it. Targets, models, options and workload are checked before a session is begun; whatever
 * ends the session early leaves it "aborted" with all rows so far.
 * out: *res also on failure
 * err: ERR_UNSUPPORTED naming a kind of target or workload that is not driven; those of models,
 *      engines and store */
int scenario_run(const struct scenario_run_opts *o, struct scenario_run_result *res);

#endif
