/* An engine's options made whole: defaults, limits, and the cache's memory shared out. */
#ifndef ENGINE_RUN_ENGINE_OPTS_H
#define ENGINE_RUN_ENGINE_OPTS_H

#include "engine/run/engine.h"

/* Checks the options as given and fills in the defaults.
 * out:  o whole; n_blocks [groups->n] cache blocks of each group of layers, each at least 1
 * err:  ERR_RANGE naming the option and its limits */
int engine_opts_fill(const struct model_cfg *c,
                     const struct kv_groups *groups,
                     struct engine_opts *o,
                     int32_t *n_blocks);

#endif
