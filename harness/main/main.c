/* The only place that reads the environment, and that looks after the process as a whole:
 *
 *  1. Descriptors 0, 1, 2 are open before anything else is, so that no database or checkpoint can
 *     become standard output. A closed one is opened for reading, and writing to it is an error.
 *  2. A reader that goes away is an error of the write, not the end of the process: a run is stored
 *     to its end. */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "harness/cli.h"

static void hold_standard_descriptors(void) {
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDONLY) != fd) {
            _exit(4); /* why: there is no place left to say it */
        }
    }
}

/* For keys, whose variable a scenario names. */
static const char *lookup(const char *name) {
    return getenv(name);
}

int main(int argc, char **argv) {
    const struct cli_env env = {.home = getenv("HOME"),
                                .xdg_cache = getenv("XDG_CACHE_HOME"),
                                .cache = getenv("TRILEMMA_CACHE"),
                                .data = getenv("TRILEMMA_DATA"),
                                .shared = getenv("TRILEMMA_SHARED"),
                                .share_dir = getenv("TRILEMMA_SHARE"),
                                .hf_token = getenv("HF_TOKEN"),
                                .hf_endpoint = getenv("HF_ENDPOINT"),
                                .no_color = getenv("NO_COLOR"),
                                .tmpdir = getenv("TMPDIR"),
                                .lookup = lookup,
                                .out_tty = isatty(STDOUT_FILENO) != 0,
                                .err_tty = isatty(STDERR_FILENO) != 0};
    hold_standard_descriptors();
    signal(SIGPIPE, SIG_IGN);
    return cli_main(&env, argc, argv);
}
