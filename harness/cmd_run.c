/* trilemma run: replay a scenario into a results database. */
#include <stdio.h>

#include "engine/base/err.h"
#include "harness/cmds.h"
#include "harness/interrupt.h"
#include "harness/paths.h"
#include "harness/scenario_run.h"

static int run(const struct cmd *self, const struct cli_env *env, int argc, char **argv) {
    struct scenario_run_opts o = {.env = env, .db = "results.db"};
    struct cli_args args;
    struct scenario sc;
    bool print = false;
    bool json = false;
    bool interrupted = false;
    char path[FILE_PATH_MAX];
    const struct cli_opt opts[] = {
        {"db", CLI_STR, &o.db, "FILE", "results database [results.db]", 0, 0},
        {"no-load", CLI_FLAG, &o.no_load, NULL, "only the evaluations", 0, 0},
        {"no-evaluate", CLI_FLAG, &o.no_evaluate, NULL, "only the load", 0, 0},
        {"print", CLI_FLAG, &print, NULL, "check the scenario, print it back and stop", 0, 0},
        {"json", CLI_FLAG, &json, NULL, "one JSON line at the end", 0, 0}};
    int rc = cli_parse(self, opts, ARRAY_LEN(opts), argc, argv, 1, 1, &args);
    if (rc || args.help) {
        return rc;
    }
    rc = file_exists(args.pos[0]) ? file_join(path, ".", args.pos[0])
                                  : paths_share(env, args.pos[0], path);
    rc = rc ? rc : scenario_read(args.pos[0][0] == '/' ? args.pos[0] : path, &sc);
    if (rc) {
        return rc;
    }
    if (print) {
        struct buf text;
        buf_init(&text, MEM_HARNESS, 1 << 20);
        rc = scenario_format(&sc, &text);
        printf("%s", buf_cstr(&text));
        buf_fini(&text);
        scenario_fini(&sc);
        return rc;
    }
    interrupt_install();
    o.sc = &sc;
    o.quiet = json;
    rc = scenario_run(&o, &interrupted);
    scenario_fini(&sc);
    if (!rc && json) {
        printf("{\"db\":\"%s\",\"interrupted\":%s}\n", o.db, interrupted ? "true" : "false");
    } else if (!rc && interrupted) {
        fprintf(stderr, "interrupted; what was measured is in %s\n", o.db);
    }
    return rc ? rc : (interrupted ? CLI_CHECK_FAILED : 0);
}

const struct cmd cmd_run = {
    .name = "run",
    .summary = "Replay a scenario: load, events, evaluations, all into results.db.",
    .usage = "SCENARIO.yaml [--db FILE] [options]",
    .example = "trilemma run scenarios/demo.yaml --db results.db",
    .run = run};
