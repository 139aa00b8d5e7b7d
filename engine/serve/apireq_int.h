/* Between the fields of a body and its prompts. */
#ifndef ENGINE_SERVE_APIREQ_INT_H
#define ENGINE_SERVE_APIREQ_INT_H

#include <jansson.h>

#include "engine/serve/apireq.h"

/* A body on its way. */
struct apibody {
    const struct apireq_env *env; /* ref */
    struct apireq *r;             /* ref */
    struct apierr *e;             /* ref */
    const json_t *messages;       /* ref; NULL: not given */
    const json_t *prompt;
    const json_t *tokens;
    bool has_max;   /* max_tokens was given */
    int64_t n_text; /* bytes of the messages' contents */
};

/* Makes the prompts' ids of what the fields hold. err: as apireq_parse */
int apiprompt_make(struct apibody *b);

#endif
