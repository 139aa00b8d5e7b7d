/* The law: a text is sent up to the longest end that is the start of a stop string. What was sent
 * can therefore never be part of one, and a search may begin behind it; it looks at no more bytes
 * than the longest string and the newest token have. */
#include "engine/serve/stopword.h"

#include <string.h>

#include "engine/base/err.h"

int stopwords_add(struct stopwords *s, const char *word, int64_t n) {
    if (s->n == STOPWORD_MAX || n < 1 || n > STOPWORD_BYTES_MAX) {
        return err_set(ERR_LIMIT, "stop string %d of %lld bytes, want at most %d of 1..%d", s->n,
                       (long long)n, STOPWORD_MAX, STOPWORD_BYTES_MAX);
    }
    char *copy = mem_calloc(MEM_SERVE, n);
    if (!copy) {
        return ERR_NOMEM;
    }
    memcpy(copy, word, (size_t)n);
    s->word[s->n] = copy;
    s->len[s->n++] = (int32_t)n;
    return 0;
}

void stopwords_fini(struct stopwords *s) {
    for (int32_t i = 0; i < s->n; i++) {
        mem_free(s->word[i]);
    }
    *s = (struct stopwords){0};
}

int64_t stopwords_find(const struct stopwords *s, const char *text, int64_t from, int64_t len) {
    int64_t first = -1;
    for (int32_t i = 0; i < s->n; i++) {
        const char *at =
            len > from ? memmem(text + from, (size_t)(len - from), s->word[i], (size_t)s->len[i])
                       : NULL;
        if (at && (first < 0 || at - text < first)) {
            first = at - text;
        }
    }
    return first;
}

int64_t stopwords_held(const struct stopwords *s, const char *text, int64_t from, int64_t len) {
    int64_t held = 0;
    for (int32_t i = 0; i < s->n; i++) {
        int64_t most = i64_min(s->len[i] - 1, len - from);
        for (int64_t k = most; k > held; k--) {
            if (memcmp(text + len - k, s->word[i], (size_t)k) == 0) {
                held = k;
            }
        }
    }
    return held;
}
