/* Stop strings in a text that grows, across the borders of tokens. */
#ifndef ENGINE_SERVE_STOPWORD_H
#define ENGINE_SERVE_STOPWORD_H

#include "engine/base/mem.h"

enum { STOPWORD_MAX = 16, STOPWORD_BYTES_MAX = 1024 };

struct stopwords {
    int32_t n;
    char *word[STOPWORD_MAX]; /* own, [len] */
    int32_t len[STOPWORD_MAX];
};

/* Copies a word of n bytes, 1..STOPWORD_BYTES_MAX. err: ERR_LIMIT, ERR_NOMEM */
int stopwords_add(struct stopwords *s, const char *word, int64_t n);
void stopwords_fini(struct stopwords *s);

/* Looks for the first whole stop string in text[from, len).
 * out: where it starts, or -1 */
int64_t stopwords_find(const struct stopwords *s, const char *text, int64_t from, int64_t len);

/* Number of bytes at the end of text[from, len) that may be the start of a stop string, so that
 * they must wait. in: no whole stop string in it */
int64_t stopwords_held(const struct stopwords *s, const char *text, int64_t from, int64_t len);

#endif
