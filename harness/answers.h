/* Answers of one model to a few prompts, greedy, for reading side by side. */
#ifndef HARNESS_ANSWERS_H
#define HARNESS_ANSWERS_H

#include "engine/base/buf.h"
#include "engine/run/engine.h"
#include "engine/run/model.h"
#include "reports/store.h"

enum { ANSWERS_MAX = 256 };

/* The prompts of an evaluation: a list, or the lines of a file. */
struct answers_prompts {
    struct buf text;      /* own, the file */
    const char **prompts; /* own, [n]; the strings are ref */
    int32_t n;
};

/* in:  file NULL: prompts [n] are used. Blank lines of a file are left out
 * err: ERR_NOTFOUND, ERR_IO, ERR_LIMIT (more than ANSWERS_MAX), ERR_RANGE (none), ERR_NOMEM
 * own: caller, answers_prompts_fini, also after a failure */
int answers_prompts_init(struct answers_prompts *p,
                         const char *file,
                         const char *const *prompts,
                         int32_t n);
void answers_prompts_fini(struct answers_prompts *p);

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
 * err: ERR_NOTFOUND without tokenizer; ERR_CANCELED; those of engine (with the number of the
 * prompt) and store */
int answers_run(const struct answers_job *a);

#endif
