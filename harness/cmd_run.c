/* trilemma run: replay a scenario into a results database. */
#include <stdio.h>

#include <jansson.h>

#include "engine/base/err.h"
#include "engine/base/str.h"
#include "harness/cmds.h"
#include "harness/interrupt.h"
#include "harness/paths.h"
#include "harness/scenario_run.h"

/* A scenario's path as it is, else one that came with the program ("scenarios/demo.yaml"). */
static int find(const struct cli_env *env, const char *name, char path[FILE_PATH_MAX]) {
    if (!file_exists(name)) {
        return paths_share(env, name, path);
    }
    return str_copy(path, FILE_PATH_MAX, name)
               ? 0
               : err_set(ERR_LIMIT, "path of more than %d bytes", FILE_PATH_MAX - 1);
}

static int print_back(const struct scenario *sc) {
    struct buf text;
    buf_init(&text, MEM_HARNESS, 1 << 20);
    int rc = scenario_format(sc, &text);
    if (!rc) {
        printf("%s", buf_cstr(&text));
    }
    buf_fini(&text);
    return rc;
}

static int print_json(const char *db, const struct scenario_run_result *res) {
    json_t *o =
        json_pack("{s:s, s:I, s:i, s:b}", "db", db, "session_id", (json_int_t)res->session_id,
                  "runs", res->n_runs, "interrupted", (int)res->interrupted);
    if (!o) {
        return err_set(ERR_FORMAT, "%s: the path is no valid UTF-8", db);
    }
    json_dumpf(o, stdout, JSON_COMPACT);
    printf("\n");
    json_decref(o);
    return 0;
}

static int run(const struct cmd *self, const struct cli_env *env, int argc, char **argv) {
    struct scenario_run_opts o = {.env = env, .db = "results.db"};
    struct cli_args args;
    struct scenario sc;
    bool print = false;
    bool json = false;
    struct scenario_run_result res;
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
    rc = find(env, args.pos[0], path);
    rc = rc ? rc : scenario_read(path, &sc);
    if (rc) {
        return rc;
    }
    if (print) {
        rc = print_back(&sc);
        scenario_fini(&sc);
        return rc;
    }
    interrupt_install();
    o.sc = &sc;
    o.quiet = json;
    rc = scenario_run(&o, &res);
    scenario_fini(&sc);
    if (!rc && json) {
        rc = print_json(o.db, &res);
    }
    return rc || !res.interrupted
               ? rc
               : err_set(ERR_CANCELED, "interrupted; what was measured is in %s", o.db);
}

const struct cmd cmd_run = {
    .name = "run",
    .summary = "Replay a scenario: load, events, evaluations, all into results.db.",
    .usage = "SCENARIO.yaml [--db FILE] [options]",
    .example = "trilemma run scenarios/demo.yaml --db results.db",
    .run = run};
