/* Weights without a checkpoint: any shape with random values, to measure speed, which does not
 * depend on the values. */
#ifndef ENGINE_MODEL_RANDOM_H
#define ENGINE_MODEL_RANDOM_H

#include "engine/model/weights.h"

/* Makes BF16 weights for a configuration. Layers share one matrix of each shape, so the host holds
 * little; a backend that copies its weights reads each layer's from its own copy.
 * err: ERR_UNSUPPORTED (experts), ERR_NOMEM. own: caller, weights_free */
int weights_random(const struct model_cfg *c, uint64_t seed, struct weights **out);

#endif
