/* What a server of a kind understands beyond the common part of the OpenAI API, and the request
 * made for it. Pure. */
#ifndef HARNESS_DIALECT_H
#define HARNESS_DIALECT_H

#include <jansson.h>

#include "harness/chunk.h"

struct dialect {
    const char *name;
    const char *chat_max;   /* field that limits the answer of chat */
    const char *ignore_eos; /* NULL: no such field */
    const char *min_tokens; /* NULL: no such field */
    bool running_usage;     /* stream_options.continuous_usage_stats */
    bool takes_ids;         /* completions: a prompt may be a list of token ids */
};

/* The kind of that name; NULL: none. NULL names the first, openai. */
const struct dialect *dialect_of(const char *name);

struct dialect_request {
    enum chunk_api api;
    bool stream;
    const char *model;
    const char *text;   /* the prompt; NULL: ids */
    const int32_t *ids; /* [n_ids] */
    int32_t n_ids;
    int32_t max_new;
    double temperature;
    double top_p; /* 0: 1 */
    uint64_t seed;
    const json_t *more; /* fields on top, which win; NULL: none */
};

/* Appends the body of a request as JSON. The answer is asked to have max_new tokens, no fewer where
 * the server can be told so. err: ERR_FORMAT (text that is no UTF-8), ERR_LIMIT, ERR_NOMEM */
int dialect_body(const struct dialect *d, const struct dialect_request *q, struct buf *out);

/* Appends text for n ids when no tokenizer is known: one common word an id, which most vocabularies
 * hold as one token. err: ERR_LIMIT, ERR_NOMEM */
int dialect_words(const int32_t *ids, int32_t n, struct buf *out);

#endif
