#include "engine/base/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>

static _Atomic int level_now = LOG_WARN;

void log_init(enum log_level level) {
    atomic_store(&level_now, (int)level);
}

static void emit(enum log_level level, const char *head, const char *fmt, va_list ap)
    PRINTF_LIKE(3, 0);
static void emit(enum log_level level, const char *head, const char *fmt, va_list ap) {
    char line[1024];
    if ((int)level > atomic_load(&level_now)) {
        return;
    }
    vsnprintf(line, sizeof line, fmt, ap);
    fprintf(stderr, "%s%s\n", head, line);
}

void log_error(const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    emit(LOG_ERROR, "error: ", fmt, ap);
    va_end(ap);
}

void log_warn(const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    emit(LOG_WARN, "warning: ", fmt, ap);
    va_end(ap);
}

void log_info(const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    emit(LOG_INFO, "", fmt, ap);
    va_end(ap);
}

void log_debug(const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    emit(LOG_DEBUG, "debug: ", fmt, ap);
    va_end(ap);
}
