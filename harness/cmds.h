/* The verbs. Each lives in cmd_<verb>.c; the order here is that of the help. */
#ifndef HARNESS_CMDS_H
#define HARNESS_CMDS_H

#include "harness/cli.h"

#define CMD_MAP(X)                                                                                 \
    X(run)                                                                                         \
    X(quantize)                                                                                    \
    X(eval)                                                                                        \
    X(compare)                                                                                     \
    X(report)                                                                                      \
    X(fetch)                                                                                       \
    X(generate)                                                                                    \
    X(serve)                                                                                       \
    X(plan)                                                                                        \
    X(inspect)                                                                                     \
    X(bench)                                                                                       \
    X(selftest)                                                                                    \
    X(tokenize)                                                                                    \
    X(score)                                                                                       \
    X(render)

#define CMD_DECLARE(name) extern const struct cmd cmd_##name;
CMD_MAP(CMD_DECLARE)
#undef CMD_DECLARE

#endif
