/* Streaming writer of one safetensors file: declare all tensors, then give their bytes in order.
 * src: https://github.com/huggingface/safetensors, "Format" */
#ifndef ENGINE_MODEL_STWRITE_H
#define ENGINE_MODEL_STWRITE_H

#include "engine/base/file.h"
#include "engine/model/tensor.h"

struct stwrite;

/* Starts a file; nothing is under its final name before stwrite_commit.
 * err: ERR_IO, ERR_NOMEM. own: caller, stwrite_commit or stwrite_abort */
int stwrite_open(const char *path, struct stwrite **out);

/* Declares the next tensor. in: before stwrite_begin; dims outermost first
 * err: ERR_UNSUPPORTED for a type the format does not have; ERR_INTERNAL for a name that is there
 * already; ERR_NOMEM */
int stwrite_declare(
    struct stwrite *w, const char *name, enum dtype type, const int64_t *dim, int32_t n_dim);

/* Writes the header. */
int stwrite_begin(struct stwrite *w);

/* Appends bytes: first those of the first declared tensor, and so on.
 * err: ERR_IO (disk full); ERR_INTERNAL past the declared end */
int stwrite_data(struct stwrite *w, const void *data, int64_t n);

/* Finishes. err: ERR_INTERNAL when bytes are missing, ERR_IO; the writer is freed either way */
int stwrite_commit(struct stwrite *w);
void stwrite_abort(struct stwrite *w);

#endif
