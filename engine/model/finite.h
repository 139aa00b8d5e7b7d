/* Scan of stored weights for NaN and infinity. */
#ifndef ENGINE_MODEL_FINITE_H
#define ENGINE_MODEL_FINITE_H

#include "engine/model/tensor.h"

/* err: ERR_NUMERIC naming file, tensor and the first bad element (for block formats: the block's
 * scale). Integer tensors pass. cost: reads the tensor once */
int finite_check(const struct tensor *t, const char *where);

#endif
