/* A refusal as the OpenAI API tells it: HTTP status, the field, a sentence. */
#ifndef ENGINE_SERVE_APIERR_H
#define ENGINE_SERVE_APIERR_H

#include "engine/base/buf.h"

enum { APIERR_TEXT_MAX = 512, APIERR_PARAM_MAX = 64, APIERR_RETRY_S = 1 };

struct apierr {
    int32_t status;               /* HTTP; 0: no error */
    const char *code;             /* ref, a literal; NULL: none */
    char param[APIERR_PARAM_MAX]; /* the field; "": none */
    char text[APIERR_TEXT_MAX];
};

/* Fills e and returns ERR_FORMAT, so that a parser can say return apierr_set(...).
 * in: param "" or NULL when no field is to blame */
int apierr_set(struct apierr *e, int32_t status, const char *param, const char *fmt, ...)
    PRINTF_LIKE(4, 5);

/* Fills e from an error of the engine and the sentence stored with it; returns rc. What a client
 * can mend is 400, a full queue 429, lack of memory and a dead engine 503, all else 500. */
int apierr_from(struct apierr *e, int rc, const char *param);

/* Appends {"error": {message, type, param, code}}. err: ERR_LIMIT, ERR_NOMEM */
int apierr_format(const struct apierr *e, struct buf *out);

/* Should the client come again? Then Retry-After is APIERR_RETRY_S. */
bool apierr_retry(const struct apierr *e);

#endif
