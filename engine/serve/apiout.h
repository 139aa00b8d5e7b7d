/* Answers as the OpenAI API spells them: whole objects and the chunks of a stream. */
#ifndef ENGINE_SERVE_APIOUT_H
#define ENGINE_SERVE_APIOUT_H

#include "engine/serve/apierr.h"
#include "engine/serve/lpout.h"

enum { APIOUT_ID_MAX = 48 };

struct apiout_usage {
    int64_t n_prompt;
    int64_t n_new;
    int64_t n_cached; /* of the prompt */
};

/* What every object of one answer says. */
struct apiout {
    bool chat;               /* else a completion */
    bool usage;              /* chunks: "usage": null until the last */
    bool each;               /* chunks: usage so far, from now */
    struct apiout_usage now; /* of the choice that is written next; n_cached is not known yet */
    char id[APIOUT_ID_MAX];
    int64_t created_s;
    const char *model; /* ref */
};

/* All append to out. err: ERR_NOMEM, ERR_LIMIT; out may have got a part. */

/* The first chunk of a chat's choice: the role. */
int apiout_role(const struct apiout *o, int32_t index, struct buf *out);
/* A chunk of n bytes of text. lp: its tokens, emptied. */
int apiout_delta(const struct apiout *o,
                 int32_t index,
                 const char *text,
                 int64_t n,
                 struct lpout *lp,
                 struct buf *out);
/* The last chunk of a choice. */
int apiout_finish(const struct apiout *o, int32_t index, const char *reason, struct buf *out);
/* The chunk behind all choices, when usage was asked for. */
int apiout_stream_usage(const struct apiout *o, const struct apiout_usage *u, struct buf *out);
/* An error in mid-stream. */
int apiout_stream_error(const struct apierr *e, struct buf *out);
int apiout_done(struct buf *out);

/* A whole answer: begin, its choices in order, end. */
int apiout_begin(const struct apiout *o, struct buf *out);
int apiout_choice(const struct apiout *o,
                  int32_t index,
                  const char *text,
                  int64_t n,
                  struct lpout *lp,
                  const char *reason,
                  struct buf *out);
int apiout_end(const struct apiout_usage *u, struct buf *out);

/* GET /v1/models. */
int apiout_models(const char *model, int64_t created_s, int32_t ctx_max, struct buf *out);
/* POST /tokenize and /detokenize. */
int apiout_tokens(const struct tok_ids *ids, int32_t ctx_max, struct buf *out);
int apiout_text(const char *text, int64_t n, struct buf *out);

#endif
