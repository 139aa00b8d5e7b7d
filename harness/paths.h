/* Where things are: the cache, models by name, data, installed files. */
#ifndef HARNESS_PATHS_H
#define HARNESS_PATHS_H

#include "engine/base/file.h"
#include "harness/cli.h"

/* The cache folder: $TRILEMMA_CACHE, else $XDG_CACHE_HOME/trilemma, else ~/.cache/trilemma.
 * err: ERR_CONFIG when none of them is set; ERR_LIMIT */
int paths_cache(const struct cli_env *env, char dst[FILE_PATH_MAX]);

/* A model argument: an existing path as it is, else a fetched name in the cache.
 * err: ERR_NOTFOUND with the command that would fetch it */
int paths_model(const struct cli_env *env, const char *name, char dst[FILE_PATH_MAX]);

/* A data file by its path under $TRILEMMA_DATA, else under $TRILEMMA_SHARED (default
 * ../shared/data). err: ERR_NOTFOUND naming the places looked at */
int paths_data(const struct cli_env *env, const char *rel, char dst[FILE_PATH_MAX]);

/* A file that is installed with the program ("scenarios/demo.yaml"): under $TRILEMMA_SHARE, else
 * the installation's data folder, else the source tree. err: ERR_NOTFOUND */
int paths_share(const struct cli_env *env, const char *rel, char dst[FILE_PATH_MAX]);

#endif
