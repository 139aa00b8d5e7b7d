/* The table of model families: which names and numbers a family has in each container.
 *
 * A family joins by one row here and one file arch_<family>.c; the forward pass reads struct
 * model_cfg alone and never asks which family it runs. */
#ifndef ENGINE_MODEL_ARCH_H
#define ENGINE_MODEL_ARCH_H

#include "engine/model/ckpt.h"
#include "engine/model/model_cfg.h"

struct arch {
    const char *family;    /* model_type of config.json and our name */
    const char *hf_alias;  /* another model_type of the family; NULL: none */
    const char *gguf_name; /* general.architecture; NULL: written under another family's name */
    bool gguf_permutes_qk; /* llama.cpp stores q and k rows for adjacent-pair rotation */

    /* The part of config.json that is about text, with the family's defaults filled in.
     * NULL: the file as it is. own: caller, json_decref. err: NULL without memory */
    json_t *(*hf_text)(const json_t *config);

    /* Family-specific part of the configuration, after the common part was read.
     * err: ERR_UNSUPPORTED naming a field that would change the result and is not known */
    int (*from_hf)(const json_t *config, const char *where, struct model_cfg *out);
    int (*from_gguf)(const struct gguf *g, struct model_cfg *out);
};

extern const struct arch arch_llama;
extern const struct arch arch_qwen3;
extern const struct arch arch_qwen2;
extern const struct arch arch_mistral;
extern const struct arch arch_qwen3_moe;
extern const struct arch arch_gemma3;

/* Finds the family of a checkpoint. err: ERR_UNSUPPORTED naming it and those that are known */
int arch_find(const struct ckpt *c, const struct arch **out);

/* The i-th family, NULL past the last. */
const struct arch *arch_at(int32_t i);

/* Reads the whole configuration of a checkpoint: common part, then the family's.
 * err: ERR_FORMAT, ERR_RANGE, ERR_UNSUPPORTED, each naming file and field */
int arch_read_cfg(const struct ckpt *c, struct model_cfg *out);

/* The same from a bare config.json (for planning without weights). */
int arch_read_hf_cfg(const json_t *config, const char *where, struct model_cfg *out);

#endif
