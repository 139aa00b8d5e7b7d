/* Brings the files of one source of a manifest into a folder. */
#ifndef HARNESS_FETCHSRC_H
#define HARNESS_FETCHSRC_H

#include "harness/cli.h"
#include "harness/fetchrec.h"
#include "harness/hub.h"

struct fetchsrc_opts {
    const struct cli_env *env;         /* ref */
    const struct hub_net *net;         /* ref; NULL: defaults */
    const struct manifest_source *src; /* ref */
    const char *dir;                   /* exists; files land here; ours alone */
    bool quiet;                        /* no progress line */
};

/* Brings all files; each is complete and of the manifest's size and SHA-256 when its final name
 * appears. What a cut transfer left stays in dir for the next call.
 * out:  files and n_files of r
 * err:  one line that begins with what was asked (a host, a program, a path); ERR_CANCELED
 * cost: blocks; network or a child program, by type */
int fetchsrc_get(const struct fetchsrc_opts *o, struct fetchrec *r);

/* Removes a folder with all that is in it; false when something would not go. */
bool fetchsrc_remove(const char *dir);

#endif
