/* Lists of module names as quantization configurations write them.
 * src: compressed-tensors, utils/match.py (match_name, match_targets); Python, re.match */
#ifndef ENGINE_MODEL_QRULE_H
#define ENGINE_MODEL_QRULE_H

#include "engine/base/types.h"

enum { QRULE_TEXT_MAX = 4096, QRULES_MAX = 1 << 16 };

/* A list of rules in the order of their making; each carries a value >= 0. */
struct qrules;

/* err: ERR_NOMEM. own: caller, qrules_free */
int qrules_create(struct qrules **out);
void qrules_free(struct qrules *r);

/* Appends a rule: "re:" and a regular expression that matches at the start of a module's name, or
 * the name of a module or of a class.
 * err: ERR_FORMAT for an expression that does not compile, with its place; ERR_LIMIT, ERR_NOMEM */
int qrules_add(struct qrules *r, const char *where, const char *text, int32_t value);

/* Appends an expression without "re:" in front. err: as qrules_add */
int qrules_add_regex(struct qrules *r, const char *where, const char *regex, int32_t value);

int32_t qrules_n(const struct qrules *r);

/* Finds the value for a module: of the rule that is its name, else of a matching expression, else
 * of the rule that is its class; of several, the first in byte order, and of equal texts the last.
 * in:  cls "Linear"
 * out: *value -1 when no rule fits
 * err: ERR_LIMIT for an expression that takes too many steps, ERR_NOMEM */
int qrules_find(struct qrules *r, const char *module, const char *cls, int32_t *value);

/* Finds the first expression, in the list's order, that matches. out, err: as qrules_find */
int qrules_first(struct qrules *r, const char *module, int32_t *value);

#endif
