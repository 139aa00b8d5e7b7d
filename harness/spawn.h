/* Runs another program without a shell and waits for it. */
#ifndef HARNESS_SPAWN_H
#define HARNESS_SPAWN_H

#include "engine/base/file.h"

enum { SPAWN_TAIL_MAX = 512 };

struct spawn_opts {
    const char *const *argv; /* ref, NULL-terminated; argv[0] is looked up in PATH */
    struct filew *out;       /* ref; takes standard output; NULL: thrown away */
    int64_t out_max;         /* most bytes for out */
    int64_t limit_ns;        /* longest run; 0: SPAWN_LIMIT_S */
    bool (*stop)(void);      /* asked ten times a second; true kills the program; NULL: never */
};

enum { SPAWN_LIMIT_S = 3600 };

/* Runs the program; its standard input is empty, its surroundings are ours.
 * out:  tail: the end of what it wrote to standard error, one line, printable, also on failure
 * err:  ERR_NOTFOUND no such program; ERR_IO it cannot be started, ends with another status than 0
 *       (the sentence holds the tail), or its output cannot be written; ERR_LIMIT output past
 *       out_max; ERR_TIMEOUT; ERR_CANCELED. No child is left behind.
 * cost: blocks until it ends */
int spawn_run(const struct spawn_opts *o, char tail[SPAWN_TAIL_MAX]);

#endif
