/* What is in a checkpoint, as JSON: also of one that cannot be run. Keys: harness/README.md. */
#ifndef HARNESS_DESCRIBE_H
#define HARNESS_DESCRIBE_H

#include <jansson.h>

#include "engine/base/types.h"

/* Describes the checkpoint at path; tensors: with the list of all of them.
 * out: *j, also with an error other than the first: what could be read, and under "refusals" what
 *      could not. own: caller, json_decref
 * err: those of ckpt_open, with *j untouched; the first refusal that is no ERR_UNSUPPORTED;
 *      ERR_INTERNAL for texts that are no UTF-8 */
int describe_checkpoint(const char *path, bool tensors, json_t **j);

#endif
