/* From logits to a token.
 *
 * Law 5: the token depends on (logits, parameters, seed, position) alone. A draw uses the
 * Gumbel-max form: argmax_i of logit_i / T + g(seed, position, i), where g is keyed by the token
 * id, so no state and no order is involved.  src: Gumbel 1954; Maddison et al., "A* sampling",
 * 2014, sec. 2 */
#ifndef ENGINE_RUN_SAMPLER_H
#define ENGINE_RUN_SAMPLER_H

#include "engine/base/types.h"

struct sampling {
    float temperature; /* 0: greedy, ties to the lowest id */
    int32_t top_k;     /* 0: all */
    float top_p;       /* 0 or 1: all; else the smallest set of mass >= top_p, ties by id */
    float min_p;       /* 0: none; else tokens of at least min_p times the largest probability */
    float presence;    /* -2..2: taken off a logit whose token was generated before */
    float frequency;   /* -2..2: taken off for each time it was generated */
    uint64_t seed;
};

/* Workspace for one vocabulary. own: caller, sampler_fini */
struct sampler {
    int32_t vocab;
    int32_t *order; /* own, [V] */
    float *prob;    /* own, [V] */
    float *logit;   /* own, [V] what sampler_adjust made */
};

int sampler_init(struct sampler *s, int32_t vocab);
void sampler_fini(struct sampler *s);

/* Demands sane numbers. err: ERR_RANGE naming the parameter */
int sampling_check(const struct sampling *p);

/* Picks one token. in: logits [V]; NaN counts as minus infinity
 * err: ERR_NUMERIC when no logit is finite */
int sampler_pick(struct sampler *s,
                 const float *logits,
                 const struct sampling *p,
                 int32_t position,
                 int32_t *token);

/* Does the choice depend on what was generated before? */
bool sampling_penalizes(const struct sampling *p);

/* Applies the penalties for n generated tokens, then forbids n_ban tokens (minus infinity).
 * in:  logits [V]; generated ids below V; a ban of no token is none
 * own: the answer [V] is the sampler's, valid until the next call
 * cost: O(V + n), no allocation
 * src: platform.openai.com, "Frequency and presence penalties": logit - count * frequency -
 *      (count > 0) * presence; as in vLLM the prompt does not count */
const float *sampler_adjust(struct sampler *s,
                            const float *logits,
                            const struct sampling *p,
                            const int32_t *generated,
                            int32_t n,
                            const int32_t *ban,
                            int32_t n_ban);

/* Natural log of the softmax denominator, double sum; NaN counts as minus infinity as above, and
 * NaN is the answer when all are. */
double sampler_logsumexp(const float *logits, int32_t vocab);

#endif
