/* Errors are values with a place and a cause.
 *
 * A function that can fail returns 0 or one of the negative codes below. The place of birth calls
 * err_set, which stores the sentence for this thread; a caller may put one more line in front of it
 * with err_ctx. Nothing below harness/ prints or exits. */
#ifndef ENGINE_BASE_ERR_H
#define ENGINE_BASE_ERR_H

#include "engine/base/types.h"

/* X(name, value, exit class, sentence). Exit classes: 2 usage, 3 input, 4 runtime. */
#define ERR_MAP(X)                                                                                 \
    X(NOMEM, -1, 4, "out of memory")                                                               \
    X(IO, -2, 4, "input/output error")                                                             \
    X(EOF, -3, 3, "unexpected end of data")                                                        \
    X(FORMAT, -4, 3, "malformed data")                                                             \
    X(UNSUPPORTED, -5, 3, "not supported")                                                         \
    X(RANGE, -6, 3, "value out of range")                                                          \
    X(NOTFOUND, -7, 3, "not found")                                                                \
    X(BUSY, -8, 4, "resource busy")                                                                \
    X(AGAIN, -9, 4, "try again")                                                                   \
    X(CANCELED, -10, 4, "canceled")                                                                \
    X(TIMEOUT, -11, 4, "timed out")                                                                \
    X(NET, -12, 4, "network error")                                                                \
    X(HTTP, -13, 4, "HTTP error")                                                                  \
    X(DB, -14, 4, "database error")                                                                \
    X(DEVICE, -15, 4, "device error")                                                              \
    X(NUMERIC, -16, 3, "numeric failure")                                                          \
    X(LIMIT, -17, 3, "limit exceeded")                                                             \
    X(CONFIG, -18, 3, "bad configuration")                                                         \
    X(USAGE, -19, 2, "bad usage")                                                                  \
    X(CHECKSUM, -20, 3, "checksum mismatch")                                                       \
    X(INTERNAL, -21, 4, "internal error")

#define ERR_ENUM(name, value, exit_class, text) ERR_##name = (value),
enum err { ERR_OK = 0, ERR_MAP(ERR_ENUM) };
#undef ERR_ENUM

#ifdef __cplusplus
extern "C" {
#endif

/* Stores the sentence of an error for this thread, replacing an older one, and returns code.
 * in:   code negative; fmt says what was found, what was wanted, and where
 * cost: no allocation */
#define err_set(code, ...) err_set_at((code), __FILE__, __LINE__, __VA_ARGS__)
int err_set_at(int code, const char *file, int32_t line, const char *fmt, ...) PRINTF_LIKE(4, 5);

/* Puts "<text>: " in front of the stored sentence and returns code unchanged. */
int err_ctx(int code, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* The sentence stored last in this thread; "" when none. own: this thread's, until the next call */
const char *err_msg(void);

/* Source file and line of the last err_set. */
const char *err_place(int32_t *line);

/* Forgets this thread's sentence. */
void err_clear(void);

/* Name ("FORMAT"), general sentence and process exit class (2 usage, 3 input, 4 runtime). */
const char *err_name(int code);
const char *err_text(int code);
int err_exit_class(int code);

#ifdef __cplusplus
}
#endif
#endif
