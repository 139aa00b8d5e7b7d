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

/* Runs it. out: *interrupted when Ctrl-C ended it early; what was measured is in the database
 * err: ERR_UNSUPPORTED naming a target kind that is not driven; those of models, engines, store */
int scenario_run(const struct scenario_run_opts *o, bool *interrupted);

#endif
