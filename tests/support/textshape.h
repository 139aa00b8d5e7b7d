/* Texts of extreme shapes, the same on every machine: what a tokenizer must not stumble over. */
#ifndef TESTS_SUPPORT_TEXTSHAPE_H
#define TESTS_SUPPORT_TEXTSHAPE_H

#include "engine/base/buf.h"

enum { TEXTSHAPE_N = 14 };

/* The name of a shape, 0..TEXTSHAPE_N - 1. */
const char *textshape_name(int32_t shape);

/* Appends about n bytes of a shape to b, whole characters.
 * err: ERR_NOMEM, ERR_LIMIT */
int textshape_make(int32_t shape, int64_t n, struct buf *b);

#endif
