/* Log-probabilities of the tokens of one choice, in the two forms of the OpenAI API. */
#ifndef ENGINE_SERVE_LPOUT_H
#define ENGINE_SERVE_LPOUT_H

#include "engine/text/tok.h"

enum { LPOUT_PARTS = 4 };

/* One alternative at a position. */
struct lpout_top {
    int32_t id; /* -1: none */
    float logprob;
};

struct lpout {
    const struct tok *tok;        /* ref; NULL: nobody asked */
    bool chat;                    /* content list; else four parallel lists */
    int32_t n_top;                /* alternatives of each token */
    int32_t n;                    /* tokens held */
    struct buf part[LPOUT_PARTS]; /* own; chat: entries; else tokens, logprobs, tops, offsets */
};

/* in: tok NULL when nobody asked: then all else does nothing. own: caller, lpout_fini */
void lpout_init(struct lpout *l, const struct tok *tok, bool chat, int32_t n_top);
void lpout_fini(struct lpout *l);

/* Appends a token. in: top [n_top], best first; offset: characters of the text before it
 * err: ERR_NOMEM, ERR_LIMIT */
int lpout_add(
    struct lpout *l, int32_t id, float logprob, const struct lpout_top *top, int64_t offset);

/* Appends the value of "logprobs" (null when nobody asked) and forgets the tokens. */
int lpout_format(struct lpout *l, struct buf *out);

#endif
