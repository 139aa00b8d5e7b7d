/* Command line: verbs, options, help, and the facts of the surroundings.
 *
 * Only harness/main/main.c reads the environment; everything below gets struct cli_env. */
#ifndef HARNESS_CLI_H
#define HARNESS_CLI_H

#include <stdio.h>

#include "engine/base/types.h"

/* What main.c read from the environment. Strings are NULL when unset. */
struct cli_env {
    const char *home;
    const char *xdg_cache;
    const char *cache;  /* TRILEMMA_CACHE */
    const char *data;   /* TRILEMMA_DATA */
    const char *shared; /* TRILEMMA_SHARED */
    const char
        *share_dir; /* TRILEMMA_SHARE: scenarios and manifests; default: installed, else source */
    const char *hf_token;    /* HF_TOKEN; never printed */
    const char *hf_endpoint; /* HF_ENDPOINT */
    const char *no_color;    /* NO_COLOR */
    const char *tmpdir;      /* TMPDIR */
    /* Value of a variable that a scenario names; NULL: unset. The pointer itself may be NULL. */
    const char *(*lookup)(const char *name);
    bool out_tty; /* standard output is a terminal */
    bool err_tty; /* standard error is a terminal */
};

enum cli_type { CLI_FLAG, CLI_STR, CLI_I32, CLI_I64, CLI_F64, CLI_BYTES, CLI_DURATION };

/* One option. dst by type: bool, const char *, int32_t, int64_t, double, int64_t bytes,
 * int64_t nanoseconds. lo and hi bound the whole numbers (both 0: 0..INT32_MAX). */
struct cli_opt {
    const char *name; /* without dashes; a one-letter alias after a comma: "prompt,p" */
    enum cli_type type;
    void *dst;
    const char *arg; /* what the help calls the value; NULL for a flag */
    const char *help;
    int64_t lo;
    int64_t hi;
};

enum { CLI_POS_MAX = 64 };

struct cli_args {
    const char *pos[CLI_POS_MAX]; /* positional arguments */
    int32_t n_pos;
    bool help; /* --help was given and has been printed */
};

struct cmd {
    const char *name;
    const char *summary; /* one line */
    const char *usage;   /* "MODEL (-p TEXT | --ids FILE) [options]" */
    const char *example; /* one or more whole command lines */
    int (*run)(const struct cmd *self, const struct cli_env *env, int argc, char **argv);
};

/* The verbs of this build. */
const struct cmd *cmd_at(int32_t i);

/* Finds a verb and runs it. returns the process's exit code: 0 ok, 1 the check failed, 2 usage,
 * 3 input, 4 runtime; errors are printed on standard error as "trilemma VERB: sentence" */
int cli_main(const struct cli_env *env, int argc, char **argv);

/* Parses argv behind the verb. "--name value" and "--name=value"; "--" ends the options. With
 * --help prints usage, options and example and sets args->help.
 * in:  pos_min..pos_max positional arguments are wanted
 * err: ERR_USAGE: unknown option (with the nearest known), missing value, bad value, wrong count */
int cli_parse(const struct cmd *self,
              const struct cli_opt *opts,
              int32_t n_opts,
              int argc,
              char **argv,
              int32_t pos_min,
              int32_t pos_max,
              struct cli_args *args);

/* Returned by a command whose check failed (exit code 1) without an error. */
enum { CLI_CHECK_FAILED = 1 };

#endif
