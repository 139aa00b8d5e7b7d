/* One answer in the making: tokens of the engine in, text that may be sent out. */
#ifndef ENGINE_SERVE_CHOICE_H
#define ENGINE_SERVE_CHOICE_H

#include "engine/run/engine.h"
#include "engine/serve/apireq.h"
#include "engine/serve/lpout.h"
#include "engine/text/detok.h"

enum { CHOICE_TEXT_MAX = 1 << 28 };

struct choice {
    const struct apireq *r; /* ref */
    int32_t index;          /* in the answer: prompt * n + number */
    void *owner;            /* ref, the caller's */
    uint64_t id;            /* the engine's; 0: not submitted */
    struct detok detok;
    struct buf text; /* own; [0, n_ready) holds no part of a stop string */
    int64_t n_ready;
    int64_t n_sent;       /* bytes given to the client; the caller's */
    int64_t n_char;       /* characters in text */
    int32_t n_tok;        /* generated, up to the end of the answer */
    struct lpout lp;      /* of tokens whose text is not sent yet */
    const char *reason;   /* "stop" or "length" once it is known; a literal */
    bool ended;           /* the END event came */
    bool told;            /* the client knows the reason; the caller's */
    bool abort;           /* the engine must be told; the caller's */
    int64_t first_run_ns; /* from END */
    int32_t n_cached;     /* from END */
    int32_t finish;       /* from END: enum finish */
    int64_t first_ns;     /* time of the first token; 0: none */
    int64_t last_ns;
    struct lpout_top *top; /* own, [n_slot, n_top]; token i is in slot i % n_slot */
    int32_t n_slot;
    int32_t n_row; /* the engine's thread alone: rows seen */
};

/* Prepares choice number index of r.
 * in:   tok and r outlive it; n_ahead: tokens that the engine may be ahead of choice_token
 * err:  ERR_NOMEM
 * own:  caller, choice_fini, not before the engine gave END */
int choice_init(struct choice *c,
                const struct apireq *r,
                const struct tok *tok,
                int32_t index,
                int32_t n_ahead);
void choice_fini(struct choice *c);

/* The engine's request. It refers to c and r. */
struct engine_request choice_request(struct choice *c);

/* Takes a TOKEN event. A stop string sets reason; later tokens are dropped then.
 * err: ERR_NOMEM, ERR_LIMIT */
int choice_token(struct choice *c, const struct event *ev);

/* Takes the END event: the rest of the text, and the reason when there is none yet. */
int choice_end(struct choice *c, const struct event *ev);

#endif
