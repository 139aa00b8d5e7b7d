/* Pieces of JSON appended to a buffer: what a stream writes for every token. */
#ifndef ENGINE_SERVE_JSONOUT_H
#define ENGINE_SERVE_JSONOUT_H

#include "engine/base/buf.h"

/* Appends n bytes as the inside of a JSON string, without quotes; each maximal broken part of the
 * UTF-8 becomes one U+FFFD.
 * err: ERR_LIMIT, ERR_NOMEM; the buffer may have got a part */
int jsonout_text(struct buf *b, const char *p, int64_t n);

/* The same between quotes; p NULL is null. */
int jsonout_str(struct buf *b, const char *p);
int jsonout_strn(struct buf *b, const char *p, int64_t n);

/* Appends a log-probability; what JSON cannot say becomes -9999, as in vLLM. */
int jsonout_logprob(struct buf *b, double v);

#endif
