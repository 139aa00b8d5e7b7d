/* Rotary position embedding tables.
 * src: Su et al., "RoFormer", 2021, eq. 34; Llama 3.1 frequency scaling (modeling_rope_utils of
 * transformers, llama3); Peng et al., "YaRN", 2023, eqs. 17-23 */
#ifndef ENGINE_MODEL_ROPE_H
#define ENGINE_MODEL_ROPE_H

#include "engine/model/model_cfg.h"

/* Fills table [n_pos, head_dim] f32: row p holds D/2 cosines, then D/2 sines of p * freq_i, both
 * times the attention factor. Frequencies and angles are f32, as the reference computes them. */
void rope_table(const struct rope_cfg *c, int32_t head_dim, int32_t n_pos, float *table);

/* The D/2 inverse frequencies, f32. out: the factor on cosines and sines is returned */
float rope_frequencies(const struct rope_cfg *c, int32_t head_dim, float *freq);

#endif
