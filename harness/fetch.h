/* trilemma fetch below the command line: a manifest's name becomes a folder in the cache. */
#ifndef HARNESS_FETCH_H
#define HARNESS_FETCH_H

#include "datasets/manifest.h"
#include "harness/cli.h"
#include "harness/fetchrec.h"
#include "harness/hub.h"

enum { FETCH_NOTES_MAX = 1024 };

/* Zero means default. */
struct fetch_opts {
    const struct cli_env *env; /* ref */
    const char *name;          /* of a manifest */
    const char *source;        /* NULL: any; "hub" (also means hub-zip), "pip", "shared", "hub-zip",
                                  "debian" */
    bool verify;               /* hash a cached copy instead of trusting its sizes */
    bool keep_stand_in; /* a cached text of type debian is good enough; else better is tried */
    bool quiet;         /* no progress line */
    const struct hub_net *net; /* ref; NULL: defaults */
};

struct fetch_result {
    char dir[FILE_PATH_MAX];     /* <cache>/<name> */
    bool cached;                 /* was there and whole; nothing was fetched */
    struct fetchrec rec;         /* label, type and files of what is there */
    char notes[FETCH_NOTES_MAX]; /* one line "type: sentence" for each source that failed */
};

/* Finds and reads the manifest of a name.
 * err: ERR_USAGE not a name; ERR_NOTFOUND no manifest, with the folder looked at; those of
 *      manifest_read. own: caller, manifest_destroy */
int fetch_manifest(const struct cli_env *env, const char *name, struct manifest **out);

/* Brings it: the cached copy when it is whole, else the first source that works, in the manifest's
 * order. The folder appears by one rename, with trilemma.json (the label) and fetch.json.
 * out:  r
 * err:  ERR_USAGE unknown source; ERR_CONFIG the folder is there and not of our making; ERR_NET,
 *       or the code of the last source, with one line a source; ERR_CANCELED; ERR_BUSY; ERR_IO;
 *       ERR_NOMEM. A folder that was there before stays as it is.
 * cost: blocks; none of the network when cached */
int fetch_run(const struct fetch_opts *o, struct fetch_result *r);

#endif
