/* trilemma compare: base against quantized, as a table with a verdict and an exit code. */
#include <math.h>
#include <stdio.h>

#include "engine/base/err.h"
#include "engine/base/file.h"
#include "engine/base/str.h"
#include "harness/cmds.h"
#include "harness/scenario_run.h"
#include "reports/compare.h"
#include "reports/report.h"

enum { SCENARIO_TEXT_MAX = 1 << 16 };

struct compare_cmd {
    const char *db;
    int64_t session;
    double ppl_pct;
    double kl;
    double top1;
    double ttft;
    double tpot;
    int64_t tokens;
    int64_t duration_ns;
    double rate;
    int32_t window;
    bool json;
};

/* A word of the command line as a YAML string. */
static int add_quoted(struct buf *b, const char *s) {
    int rc = buf_str(b, "\"");
    for (; *s && !rc; s++) {
        if ((unsigned char)*s < 0x20) {
            return err_set(ERR_USAGE, "a model's name holds a control character");
        }
        rc = *s == '"' || *s == '\\' ? buf_str(b, "\\") : 0;
        rc = rc ? rc : buf_add(b, s, 1);
    }
    return rc ? rc : buf_str(b, "\"");
}

/* A scenario for checkpoints named on the command line: a short load and the scoring. */
static int
make_scenario(const struct compare_cmd *c, const struct cli_args *a, struct scenario *sc) {
    struct buf b;
    buf_init(&b, MEM_HARNESS, SCENARIO_TEXT_MAX);
    int rc = buf_str(&b, "scenario: compare\nseed: 1\ntargets:\n");
    for (int32_t i = 0; i < a->n_pos && !rc; i++) {
        rc = i == 0 ? buf_str(&b, "  base: {engine: {model: ")
                    : buf_fmt(&b, "  q%d: {engine: {model: ", i);
        rc = rc ? rc : add_quoted(&b, a->pos[i]);
        rc = rc ? rc : buf_str(&b, "}}\n");
    }
    rc = rc ? rc
            : buf_fmt(&b,
                      "workload: {synthetic: {input: {lognormal: {mean: 96, cv: 0.6, max: 256}}, "
                      "output: {fixed: 32}}}\narrival: {poisson: {rate: %.6g/s}}\n"
                      "duration: %.3fs\nwarmup: 2s\ndrain: 60s\nevaluate:\n"
                      "  - kl: {base: base, dataset: wikitext2, window: %d, tokens: %lld}\n",
                      c->rate, (double)c->duration_ns * 1e-9, c->window, (long long)c->tokens);
    rc = rc ? rc : scenario_parse("compare", buf_cstr(&b), b.len, sc);
    buf_fini(&b);
    return rc;
}

/* Measures when checkpoints are named; with a database alone, compares what is in it. */
static int
measure(const struct compare_cmd *c, const struct cli_env *env, const struct cli_args *a) {
    struct scenario sc;
    struct scenario_run_result res;
    struct scenario_run_opts o = {.env = env, .db = c->db, .quiet = c->json, .sc = &sc};
    int rc = make_scenario(c, a, &sc);
    if (rc) {
        return rc;
    }
    rc = scenario_run(&o, &res);
    scenario_fini(&sc);
    return rc || !res.interrupted
               ? rc
               : err_set(ERR_CANCELED, "interrupted; %s has what was measured", c->db);
}

static int show(const struct compare_cmd *c, const char *db, bool *failed) {
    struct store *s = NULL;
    struct buf out;
    struct compare_limits limits = {.perplexity_increase_pct = c->ppl_pct,
                                    .kl = c->kl,
                                    .top1_min_pct = c->top1,
                                    .ttft_increase_pct = c->ttft,
                                    .tpot_increase_pct = c->tpot};
    struct report_opts o = {.session_id = c->session, .database = db};
    buf_init(&out, MEM_HARNESS, REPORT_BYTES_MAX);
    int rc = store_open(db, STORE_READ, &s);
    if (!rc) {
        rc = c->json ? compare_json(s, &o, &limits, &out, failed)
                     : compare_text(s, &o, &limits, &out, failed);
    }
    if (!rc) {
        fwrite(buf_cstr(&out), 1, (size_t)out.len, stdout);
    }
    int rc2 = s ? store_close(s) : 0;
    buf_fini(&out);
    return rc ? rc : rc2;
}

static int run(const struct cmd *self, const struct cli_env *env, int argc, char **argv) {
    double nan = (double)NAN;
    struct compare_cmd c = {.db = "results.db",
                            .ppl_pct = nan,
                            .kl = nan,
                            .top1 = nan,
                            .ttft = nan,
                            .tpot = nan,
                            .tokens = 8192,
                            .window = 1024,
                            .rate = 1,
                            .duration_ns = 20000000000};
    struct cli_args args;
    bool failed = false;
    const struct cli_opt opts[] = {
        {"db", CLI_STR, &c.db, "FILE", "database to write to [results.db]", 0, 0},
        {"session", CLI_I64, &c.session, "ID", "session to compare [the newest]", 0, 0},
        {"tokens", CLI_I64, &c.tokens, "N", "tokens of WikiText-2 to score [8192]", 2, 0},
        {"window", CLI_I32, &c.window, "N", "tokens of a window [1024]", 2, 1 << 24},
        {"rate", CLI_F64, &c.rate, "R", "requests a second [1]", 0, 0},
        {"duration", CLI_DURATION, &c.duration_ns, "T", "of the load, e.g. 20s [20s]", 0, 0},
        {"max-perplexity-increase", CLI_F64, &c.ppl_pct, "PCT", "limit, percent of the base", 0, 0},
        {"max-kl", CLI_F64, &c.kl, "NATS", "limit, mean KL divergence", 0, 0},
        {"min-agreement", CLI_F64, &c.top1, "PCT", "limit, top-1 agreement", 0, 0},
        {"max-ttft-increase", CLI_F64, &c.ttft, "PCT", "limit, mean time to first token", 0, 0},
        {"max-tpot-increase", CLI_F64, &c.tpot, "PCT", "limit, mean time per output token", 0, 0},
        {"json", CLI_FLAG, &c.json, NULL, "JSON instead of text", 0, 0}};
    int rc = cli_parse(self, opts, ARRAY_LEN(opts), argc, argv, 1, SCENARIO_TARGETS_MAX, &args);
    if (rc || args.help) {
        return rc;
    }
    bool is_db = args.n_pos == 1;
    if (is_db && (!file_exists(args.pos[0]) || file_is_dir(args.pos[0]))) {
        return err_set(ERR_NOTFOUND,
                       "%s: no results database; give one, or BASE and at least one QUANT",
                       args.pos[0]);
    }
    if (!is_db) {
        rc = measure(&c, env, &args);
    }
    rc = rc ? rc : show(&c, is_db ? args.pos[0] : c.db, &failed);
    return rc ? rc : (failed ? CLI_CHECK_FAILED : 0);
}

const struct cmd cmd_compare = {
    .name = "compare",
    .summary = "Base against quantized: a table, a verdict, an exit code for CI.",
    .usage = "(BASE QUANT... | DB) [limits] [options]",
    .example = "trilemma compare results.db --max-perplexity-increase 50 --max-kl 0.5",
    .run = run};
