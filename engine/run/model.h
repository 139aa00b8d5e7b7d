/* A model ready to run: checkpoint, weights, tokenizer and chat template. */
#ifndef ENGINE_RUN_MODEL_H
#define ENGINE_RUN_MODEL_H

#include <jansson.h>

#include "engine/model/weights.h"
#include "engine/text/chat.h"
#include "engine/text/tok.h"

struct model {
    struct ckpt *ckpt;       /* own */
    struct weights *weights; /* own */
    struct tok *tok;         /* own; NULL when the checkpoint has none */
    struct chat *chat;       /* own; NULL when there is no template */
    char tok_error[256];     /* why tok is NULL */
    char chat_error[256];    /* why chat is NULL */
};

/* Opens a checkpoint with all that goes with it. A missing or unreadable tokenizer or template is
 * noted, not fatal: token ids still work.
 * err: those of ckpt_open and weights_load; ERR_NOMEM. own: caller, model_close */
int model_open(const char *path, const struct weights_opts *opts, struct model **out);
/* A model of random weights, without checkpoint, tokenizer or template. own: caller, model_close */
int model_random(const struct model_cfg *c, struct model **out);

void model_close(struct model *m);

/* Opens tokenizer and template of m->ckpt, as model_open does; path: the checkpoint's.
 * err: ERR_NOMEM; all else is noted in tok_error and chat_error */
int model_open_text(struct model *m, const char *path);

/* Demands the tokenizer. err: ERR_NOTFOUND or ERR_UNSUPPORTED with the reason */
int model_need_tok(const struct model *m);

/* Renders messages (a JSON array of {role, content}) with the template and tokenizes the result;
 * special tokens in the template's output are recognised and BOS is there at most once.
 * in:  now_s: the clock for templates that print the date
 * err: ERR_NOTFOUND without template or tokenizer; those of chat_render
 * own: ids initialised by the caller */
int model_chat_ids(const struct model *m, json_t *messages, int64_t now_s, struct tok_ids *ids);

/* Variables of a template: messages and the tokenizer's special tokens. own: caller, json_decref */
json_t *model_chat_vars(const struct tok *tok, json_t *messages, bool add_generation_prompt);

#endif
