/* Texts by name or path, with their hash: what is scored, and what calibrates. */
#ifndef HARNESS_TEXTDATA_H
#define HARNESS_TEXTDATA_H

#include "engine/base/buf.h"
#include "engine/base/file.h"
#include "engine/text/tok.h"
#include "harness/cli.h"

struct textdata {
    struct buf text; /* own */
    char label[128]; /* what it is, for reports */
    char sha256[FILE_SHA256_HEX];
};

/* Reads a text: a path as it is, else a name that a manifest in datasets/ knows ("wikitext2",
 * "calibration"): from TRILEMMA_DATA, TRILEMMA_SHARED, the cache, or the manifest's sources.
 * err: ERR_NOTFOUND naming what was looked at; ERR_CHECKSUM. own: caller, textdata_fini */
int textdata_open(const struct cli_env *env, const char *name, struct textdata *t);
void textdata_fini(struct textdata *t);

/* Token ids of the whole text, no special token added; at most limit of them (0: all). */
int textdata_ids(const struct textdata *t,
                 const struct tok *tok,
                 int64_t limit,
                 struct tok_ids *ids);

#endif
