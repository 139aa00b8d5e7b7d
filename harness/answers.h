/* Answers of one model to a few prompts, greedy, for reading side by side. */
#ifndef HARNESS_ANSWERS_H
#define HARNESS_ANSWERS_H

#include "engine/run/engine.h"
#include "engine/run/model.h"
#include "reports/store.h"

enum { ANSWERS_MAX = 256 };

struct answers_job {
    const struct model *model;  /* ref */
    struct engine *engine;      /* ref, the caller owns its thread */
    const char *const *prompts; /* ref, [n_prompts] */
    int32_t n_prompts;
    int32_t max_tokens;
    struct store *store; /* ref */
    int64_t target_id;
};

/* Answers all prompts in one batch and stores the texts.
 * err: ERR_NOTFOUND without tokenizer; those of engine and store */
int answers_run(const struct answers_job *a);

#endif
