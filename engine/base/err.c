/* One diagnosis per thread: a code, a sentence, and the place where it was born. */
#include "engine/base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { ERR_TEXT_MAX = 1024 };

struct diag {
    int code;
    int32_t line;
    const char *file; /* ref, string literal */
    char text[ERR_TEXT_MAX];
};

/* why: thread-local, so that threads never see each other's diagnosis and no lock is needed */
static _Thread_local struct diag diag;

int err_set_at(int code, const char *file, int32_t line, const char *fmt, ...) {
    va_list ap;
    char text[ERR_TEXT_MAX]; /* why: the arguments may point into the old sentence */
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    memcpy(diag.text, text, sizeof text);
    diag.code = code;
    diag.file = file;
    diag.line = line;
    return code;
}

int err_ctx(int code, const char *fmt, ...) {
    char head[ERR_TEXT_MAX];
    char tail[ERR_TEXT_MAX];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(head, sizeof head, fmt, ap);
    va_end(ap);
    memcpy(tail, diag.text, sizeof tail);
    size_t n_head = strlen(head);
    size_t n_tail = strlen(tail);
    if (n_head + 2 >= sizeof diag.text) {
        n_head = sizeof diag.text - 3;
    }
    size_t room = sizeof diag.text - n_head - 3;
    size_t n = n_tail < room ? n_tail : room;
    memcpy(diag.text, head, n_head);
    memcpy(diag.text + n_head, ": ", 2);
    memcpy(diag.text + n_head + 2, tail, n);
    diag.text[n_head + 2 + n] = '\0';
    return code;
}

const char *err_msg(void) {
    return diag.text;
}

const char *err_place(int32_t *line) {
    *line = diag.line;
    return diag.file ? diag.file : "";
}

void err_clear(void) {
    diag = (struct diag){0};
}

#define ERR_ROW(name, value, exit_class, text) {ERR_##name, exit_class, #name, text},
static const struct {
    int code;
    int exit_class;
    const char *name;
    const char *text;
} rows[] = {{0, 0, "OK", "success"}, ERR_MAP(ERR_ROW)};
#undef ERR_ROW

static int32_t row_of(int code) {
    for (int32_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (rows[i].code == code) {
            return i;
        }
    }
    return ARRAY_LEN(rows) - 1; /* an unknown code is our own bug: INTERNAL */
}

const char *err_name(int code) {
    return rows[row_of(code)].name;
}

const char *err_text(int code) {
    return rows[row_of(code)].text;
}

int err_exit_class(int code) {
    return rows[row_of(code)].exit_class;
}
