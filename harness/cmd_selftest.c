/* trilemma selftest: how exact is this instrument, on this machine, now? And, with --serve, the
 * truth server alone. */
#include <math.h>
#include <stdio.h>

#include <jansson.h>

#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/base/str.h"
#include "harness/cmds.h"
#include "harness/interrupt.h"
#include "harness/selftest.h"
#include "harness/truth.h"

static void tell(const char *part) {
    fprintf(stderr, "selftest: %s\n", part);
}

static void no_tell(const char *part) {
    (void)part;
}

static void show(char dst[STR_NUM_MAX], const char *unit, double v) {
    if (str_eq(unit, "s")) {
        str_show_seconds(dst, v);
    } else {
        snprintf(dst, STR_NUM_MAX, "%.6g", v);
    }
}

static void print_table(const struct selftest *t) {
    printf("%-42s %12s   %-14s %s\n", "", "measured", "limit", "");
    for (int32_t i = 0; i < t->n; i++) {
        const struct selftest_row *r = &t->row[i];
        char value[STR_NUM_MAX];
        char limit[STR_NUM_MAX];
        show(value, r->unit, r->value);
        show(limit, r->unit, r->limit);
        printf("%-42s %12s   %-8s %-5s %s %s\n", r->name, value,
               r->is_floor ? "at least" : "at most", limit, r->is_ok ? "ok" : "BROKEN", r->note);
    }
}

static int print_json(const struct selftest *t) {
    json_t *rows = json_array();
    for (int32_t i = 0; i < t->n; i++) {
        const struct selftest_row *r = &t->row[i];
        json_array_append_new(
            rows, json_pack("{s:s, s:s, s:o, s:f, s:b, s:b, s:s}", "name", r->name, "unit", r->unit,
                            "value", isfinite(r->value) ? json_real(r->value) : json_null(),
                            "limit", r->limit, "is_floor", (int)r->is_floor, "ok", (int)r->is_ok,
                            "note", r->note));
    }
    json_t *o = json_pack("{s:o, s:b}", "rows", rows, "ok", (int)(t->n_bad == 0));
    if (!o) {
        return err_set(ERR_NOMEM, "no memory for the result");
    }
    json_dumpf(o, stdout, JSON_COMPACT);
    printf("\n");
    json_decref(o);
    return 0;
}

/* The truth server until Ctrl-C. */
static int serve(const struct truth_opts *o) {
    struct truth *t = NULL;
    int rc = truth_open(o, &t);
    if (rc) {
        return rc;
    }
    printf("%s/v1\n", truth_url(t));
    fflush(stdout);
    while (!interrupt_seen()) {
        clock_sleep_until(clock_now_ns() + 100000000);
    }
    truth_close(t);
    return 0;
}

static int run(const struct cmd *self, const struct cli_env *env, int argc, char **argv) {
    struct truth_opts to = {.port = -1, .ttft_ns = 50000000, .itl_ns = 10000000};
    struct cli_args args;
    struct selftest t;
    bool json = false;
    const struct cli_opt opts[] = {
        {"json", CLI_FLAG, &json, NULL, "one JSON line", 0, 0},
        {"serve", CLI_I32, &to.port, "PORT",
         "only the truth server, on 127.0.0.1, until Ctrl-C (0: any port)", 0, 65535},
        {"ttft", CLI_DURATION, &to.ttft_ns, "TIME", "with --serve: time to first token [50ms]", 0,
         0},
        {"itl", CLI_DURATION, &to.itl_ns, "TIME", "with --serve: time from token to token [10ms]",
         0, 0},
        {"tokens", CLI_I32, &to.tokens, "N", "with --serve: tokens of an answer [as asked]", 1,
         1 << 20}};
    (void)env;
    int rc = cli_parse(self, opts, ARRAY_LEN(opts), argc, argv, 0, 0, &args);
    if (rc || args.help) {
        return rc;
    }
    interrupt_install();
    if (to.port >= 0) {
        return serve(&to);
    }
    rc = selftest_run(interrupt_seen, json ? no_tell : tell, &t);
    if (rc) {
        return rc;
    }
    if (json) {
        rc = print_json(&t);
    } else {
        print_table(&t);
    }
    return rc ? rc : (t.n_bad > 0 ? CLI_CHECK_FAILED : 0);
}

const struct cmd cmd_selftest = {
    .name = "selftest",
    .summary = "Measure the load generator itself against a server whose times are known.",
    .usage = "[--json] | --serve PORT [--ttft TIME] [--itl TIME] [--tokens N]",
    .example = "trilemma selftest\n  trilemma selftest --serve 8000 --ttft 200ms --itl 20ms",
    .run = run};
