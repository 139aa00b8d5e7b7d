/* The part of a configuration that all families share, from config.json and from GGUF metadata. */
#ifndef ENGINE_MODEL_HFCONFIG_H
#define ENGINE_MODEL_HFCONFIG_H

#include "engine/model/ckpt.h"
#include "engine/model/model_cfg.h"

/* Reads sizes, norms, rope, activation, special ids.
 * err: ERR_FORMAT, ERR_RANGE; ERR_UNSUPPORTED for an activation or rope type that is not known */
int hfconfig_common(const json_t *config, const char *where, struct model_cfg *out);

/* Adds the end-of-sequence ids of generation_config.json, if the folder has one. */
int hfconfig_generation(const char *dir, struct model_cfg *out);

/* The same from metadata under prefix ("llama"). */
int ggufconfig_common(const struct gguf *g, const char *prefix, struct model_cfg *out);

/* Adds one end-of-sequence id unless it is there. err: ERR_LIMIT past MODEL_EOS_MAX */
int hfconfig_add_eos(struct model_cfg *c, const char *where, int32_t id);

#endif
