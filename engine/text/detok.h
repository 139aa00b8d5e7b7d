/* Ids -> text, one at a time: what a stream sends.
 *
 * Law: the concatenation of all that detok_push and detok_flush append equals tok_decode of the
 * whole, and each appended part is complete UTF-8. */
#ifndef ENGINE_TEXT_DETOK_H
#define ENGINE_TEXT_DETOK_H

#include "engine/text/tok.h"

enum {
    DETOK_STAGES_MAX = 8,
    DETOK_HOLD_MAX = 1 << 26, /* bytes that one step holds back */
};

/* What one step of the decoder remembers. */
struct detok_stage {
    struct buf hold; /* own: text that waits for what follows */
    bool any;        /* a token has come */
    bool held;       /* hold has a token, which may be empty */
    int32_t left;    /* characters that may still be taken off the front */
    int32_t n_part;
    uint8_t part[4]; /* start of a character that is not complete */
};

struct detok {
    const struct tok *tok; /* ref */
    bool skip_special;
    bool any; /* an id has come */
    struct detok_stage stage[DETOK_STAGES_MAX];
};

/* Starts a stream. tok must outlive it. cost: allocates nothing. own: caller, detok_fini */
void detok_init(struct detok *d, const struct tok *tok, bool skip_special);
void detok_fini(struct detok *d);

/* Forgets what is held back and begins anew. */
void detok_reset(struct detok *d);

/* Appends the text that id completes to out (often nothing, never half a character).
 * in:  any id; one without a token gives nothing
 * err: ERR_NOMEM, ERR_LIMIT */
int detok_push(struct detok *d, int32_t id, struct buf *out);

/* Appends what was held back; incomplete characters become U+FFFD. The stream begins anew. */
int detok_flush(struct detok *d, struct buf *out);

#endif
