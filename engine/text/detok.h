/* Ids -> text, one at a time: what a stream sends.
 *
 * Law: the concatenation of all that detok_push and detok_flush append equals tok_decode of the
 * whole, and each appended part is complete UTF-8. */
#ifndef ENGINE_TEXT_DETOK_H
#define ENGINE_TEXT_DETOK_H

#include "engine/text/tok.h"

struct detok {
    const struct tok *tok; /* ref */
    bool skip_special;
    uint8_t part[4]; /* start of a character that is not complete */
    int32_t n_part;
    int32_t strip;  /* characters that may still be taken off the front */
    struct buf run; /* own: byte tokens (<0xXX>) that follow each other */
};

enum { DETOK_RUN_MAX = 1 << 26 }; /* bytes held back while byte tokens follow each other */

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
