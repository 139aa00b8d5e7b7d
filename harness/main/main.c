/* The only place that reads the environment. */
#include <stdlib.h>
#include <unistd.h>

#include "harness/cli.h"

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
                                .out_tty = isatty(STDOUT_FILENO) != 0,
                                .err_tty = isatty(STDERR_FILENO) != 0};
    return cli_main(&env, argc, argv);
}
