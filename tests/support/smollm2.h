/* SmolLM2-135M-Instruct, opened for the tests that hold it against its golden figures. */
#ifndef TESTS_SUPPORT_SMOLLM2_H
#define TESTS_SUPPORT_SMOLLM2_H

#include <jansson.h>

#include "engine/run/engine.h"
#include "engine/run/model.h"
#include "tests/support/support.h"

/* Opens the model from the cache; skips the test with a reason where it is not there. */
void smollm2_open(struct model **m);

/* An engine on it with room for 4,096 tokens. */
void smollm2_engine(const struct model *m, const char *backend, struct engine **e);

/* Runs one request greedily. out: tokens [n] */
void smollm2_greedy(
    struct engine *e, const int32_t *ids, int32_t n_ids, int32_t n, int32_t *tokens);

/* Holds one entry of smollm2/prompts.json: top-20 logits within 2e-3 at every listed position, the
 * sum of log-probabilities within 1e-3, and, when asked, the 48 greedy ids. */
void smollm2_check_prompt(struct engine *e, const json_t *prompt, bool greedy);

#endif
