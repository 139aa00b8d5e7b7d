/* Growable bytes that are told their maximum at birth; always NUL-terminated behind the content. */
#ifndef ENGINE_BASE_BUF_H
#define ENGINE_BASE_BUF_H

#include "engine/base/mem.h"

struct buf {
    char *data;  /* own, [cap + 1] */
    int64_t len; /* bytes in use */
    int64_t cap; /* bytes allocated */
    int64_t max; /* limit */
    enum mem_tag tag;
};

/* Makes an empty buffer; allocates nothing. own: caller, buf_fini */
void buf_init(struct buf *b, enum mem_tag tag, int64_t max);
void buf_fini(struct buf *b);

/* Sets the length to 0 and keeps the memory. */
void buf_clear(struct buf *b);

/* Appends n bytes, a string, formatted text, one UTF-8 encoded code point.
 * err: ERR_LIMIT past max, ERR_NOMEM; the buffer is unchanged */
int buf_add(struct buf *b, const void *data, int64_t n);
int buf_str(struct buf *b, const char *s);
int buf_fmt(struct buf *b, const char *fmt, ...) PRINTF_LIKE(2, 3);
int buf_utf8(struct buf *b, uint32_t cp);

/* The content as a string; "" when nothing was added. own: the buffer */
const char *buf_cstr(const struct buf *b);

/* Hands the content over as a mem_* string and leaves the buffer empty.
 * err: NULL with ERR_NOMEM set. own: caller, mem_free */
char *buf_take(struct buf *b);

#endif
