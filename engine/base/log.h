/* Messages for people on standard error, by level. Nothing is printed below the chosen level. */
#ifndef ENGINE_BASE_LOG_H
#define ENGINE_BASE_LOG_H

#include "engine/base/types.h"

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

/* Sets the level once at start (default LOG_WARN). */
void log_init(enum log_level level);

void log_error(const char *fmt, ...) PRINTF_LIKE(1, 2);
void log_warn(const char *fmt, ...) PRINTF_LIKE(1, 2);
void log_info(const char *fmt, ...) PRINTF_LIKE(1, 2);
void log_debug(const char *fmt, ...) PRINTF_LIKE(1, 2);

#endif
