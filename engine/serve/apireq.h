/* The bodies of requests: strict JSON in, a checked struct out, or the field that is wrong. */
#ifndef ENGINE_SERVE_APIREQ_H
#define ENGINE_SERVE_APIREQ_H

#include "engine/run/model.h"
#include "engine/run/sampler.h"
#include "engine/sched/seq.h"
#include "engine/serve/apierr.h"
#include "engine/serve/stopword.h"

enum apireq_kind {
    APIREQ_CHAT = 1,
    APIREQ_COMPLETION = 2,
    APIREQ_TOKENIZE = 4,
    APIREQ_DETOKENIZE = 8
};

enum {
    APIREQ_CHOICES_MAX = 128, /* prompts times n */
    APIREQ_TOP_MAX = 20,      /* alternatives of a token */
    APIREQ_MESSAGES_MAX = 4096,
    APIREQ_TOKENIZE_BYTES = 1 << 20, /* that TOKENIZE takes whatever the context is */
    APIREQ_COMPLETION_TOK = 16       /* new tokens when a completion does not say */
};

/* What a body is read against. */
struct apireq_env {
    const struct model *model; /* ref; its tokenizer and template */
    const char *name;          /* ref; the one model that is served */
    int32_t vocab;
    int32_t ctx_max;
    int64_t text_max;   /* bytes of a longer text make more tokens than the context; 0: not known */
    const int32_t *eos; /* ref, [n_eos] tokens that end an answer */
    int32_t n_eos;
    int64_t now_s; /* for templates that print the date */
};

struct apireq {
    enum apireq_kind kind;
    struct tok_ids prompt[APIREQ_CHOICES_MAX]; /* own, [n_prompt] */
    int32_t n_prompt;
    int32_t n;       /* choices a prompt */
    int32_t max_new; /* 1..; fits the context with every prompt */
    int32_t min_new;
    bool ignore_eos;
    bool seeded; /* sampling.seed was given */
    bool stream;
    bool usage; /* stream_options.include_usage */
    bool each;  /* stream_options.continuous_usage_stats: vLLM's, in every chunk */
    bool logprobs;
    int32_t n_top; /* alternatives wanted of each token */
    struct sampling sampling;
    struct stopwords stop;
    int32_t stop_id[SEQ_STOP_MAX]; /* the model's, then those asked for */
    int32_t n_stop_id;
    bool no_special;       /* TOKENIZE: add_special_tokens false */
    struct tok_ids tokens; /* own; DETOKENIZE */
};

/* Reads a body of n bytes. On failure e says what is wrong and r is empty.
 * err:  ERR_FORMAT for all that a client can mend, ERR_NOMEM; e->status tells the client
 * own:  caller, apireq_fini
 * cost: renders and tokenizes the prompts */
int apireq_parse(enum apireq_kind kind,
                 const struct apireq_env *env,
                 const char *body,
                 int64_t n,
                 struct apireq *r,
                 struct apierr *e);
void apireq_fini(struct apireq *r);

#endif
