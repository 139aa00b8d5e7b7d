/* Runs the program as a child: arguments, surroundings and limits in, output and exit code out. */
#ifndef TESTS_SUPPORT_CLI_H
#define TESTS_SUPPORT_CLI_H

#include "tests/support/support.h"

struct cli_opts {
    const char *cwd;        /* NULL: the test's own */
    const char *const *env; /* "NAME=VALUE", ended by NULL, on top of the test's; may be NULL */
    int64_t file_bytes_max; /* no file may grow beyond it, as on a full disk; 0: no limit */
    const char *out_path;   /* standard output goes there; NULL: captured */
    bool out_closed;        /* standard output is closed */
    bool err_tty;           /* standard error is a terminal */
    /* A signal is sent once when() is true. It is asked whenever output comes and whenever a file
     * in the folder watch (NULL: none) changes. */
    int signal;
    bool (*when)(void *ctx, const char *out, const char *err);
    void *ctx;
    const char *watch;
};

struct cli_result {
    int code; /* exit code, or 128 + signal */
    struct buf out;
    struct buf err;
};

enum { CLI_TIMEOUT_MS = 120000, CLI_OUTPUT_MAX = 1 << 26, CLI_WORDS_MAX = 64 };

/* Runs $TRILEMMA_BIN with args (ended by NULL) to its end; fails the test when it takes longer than
 * CLI_TIMEOUT_MS. in: o may be NULL. own: r of the caller, cli_fini */
void cli_run(const struct cli_opts *o, const char *const *args, struct cli_result *r);
void cli_fini(struct cli_result *r);

/* Runs a command line of words between blanks in the folder cwd and fails the test unless it exits
 * with the code. own: as cli_run */
void cli_line(const char *cwd, int code, struct cli_result *r, const char *fmt, ...)
    PRINTF_LIKE(4, 5);

/* The same; the output is dropped, but for the demand that standard error is one line that begins
 * with "trilemma" and holds part (NULL: no demand). */
void cli_says(const char *cwd, int code, const char *part, const char *fmt, ...) PRINTF_LIKE(4, 5);

/* Fails unless err is one whole line "trilemma ...: ..." that holds part. */
void cli_check_error(const struct cli_result *r, const char *part);

#endif
