/* The embedded engine as a target: its steps run in a thread of their own. */
#ifndef HARNESS_TARGET_ENGINE_H
#define HARNESS_TARGET_ENGINE_H

#include "engine/run/engine.h"
#include "harness/target.h"

/* Makes a target of an engine without requests in flight; between start and stop it is the
 * target's. in: e outlives it. err: ERR_NOMEM. own: caller, target_close */
int target_engine_open(struct engine *e, struct target **out);

#endif
