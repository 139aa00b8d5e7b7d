/* Reader of safetensors containers.
 * src: https://github.com/huggingface/safetensors, "Format" */
#ifndef ENGINE_MODEL_SAFETENSORS_H
#define ENGINE_MODEL_SAFETENSORS_H

#include "engine/model/tensor.h"

/* Parses the directory of a container in memory and appends its tensors to dir (unsorted; their
 * data points into data).
 * in:   where names the source in errors
 * err:  ERR_EOF (cut), ERR_FORMAT (header, offsets, overlap, holes), ERR_UNSUPPORTED (dtype),
 *       ERR_NOMEM; dir may hold some tensors and is finishable */
int safetensors_parse(const char *where, const uint8_t *data, int64_t size, struct tensor_dir *dir);

#endif
