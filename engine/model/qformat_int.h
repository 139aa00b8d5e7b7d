/* Shared by the readers of quantization configurations, one for each method. */
#ifndef ENGINE_MODEL_QFORMAT_INT_H
#define ENGINE_MODEL_QFORMAT_INT_H

#include "engine/model/qformat.h"

/* Each reads one object of its method into *q, which the caller finishes also on an error.
 * err: as qformat_read */
int qformat_ct(const json_t *o, const char *where, struct qformat *q);
int qformat_gptq(const json_t *o, const char *where, struct qformat *q);
int qformat_awq(const json_t *o, const char *where, struct qformat *q);
int qformat_fp8(const json_t *o, const char *where, struct qformat *q);

/* Appends a scheme and writes its text. err: ERR_NOMEM */
int qformat_add(struct qformat *q, const struct qscheme *s);

/* Appends the strings of a list; a missing list or null has none. err: ERR_FORMAT naming key */
int qformat_names(
    const json_t *list, const char *where, const char *key, int32_t value, struct qrules **rules);

#endif
