/* Reading JSON of strangers through jansson: a size limit, a position in every error, typed access.
 *
 * jansson's json_t is used directly; these helpers only add the errors we want. */
#ifndef ENGINE_BASE_JSON_H
#define ENGINE_BASE_JSON_H

#include <jansson.h>

#include "engine/base/types.h"

enum { JSON_FILE_MAX = 256 << 20 };

/* Parses a file or memory. where names the source in errors ("config.json").
 * err: ERR_NOTFOUND, ERR_IO, ERR_FORMAT with line and column, ERR_LIMIT. own: caller, json_decref
 */
int json_read(const char *path, json_t **out);
int json_parse(const char *where, const char *text, int64_t n, json_t **out);

/* Typed members of an object. A missing key or JSON null leaves *out untouched and returns 0, so
 * that the caller's default stands; a wrong type or range is ERR_FORMAT naming where and key. */
int json_opt_i64(
    const json_t *o, const char *where, const char *key, int64_t lo, int64_t hi, int64_t *out);
int json_opt_i32(
    const json_t *o, const char *where, const char *key, int32_t lo, int32_t hi, int32_t *out);
int json_opt_f64(const json_t *o, const char *where, const char *key, double *out);
int json_opt_bool(const json_t *o, const char *where, const char *key, bool *out);
int json_opt_str(const json_t *o, const char *where, const char *key, const char **out);

/* The same for members that must be there. */
int json_need_i32(
    const json_t *o, const char *where, const char *key, int32_t lo, int32_t hi, int32_t *out);
int json_need_str(const json_t *o, const char *where, const char *key, const char **out);

#endif
