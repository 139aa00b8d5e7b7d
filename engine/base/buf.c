#include "engine/base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/err.h"

enum { BUF_MIN = 64 };

void buf_init(struct buf *b, enum mem_tag tag, int64_t max) {
    *b = (struct buf){.tag = tag, .max = max};
}

void buf_fini(struct buf *b) {
    mem_free(b->data);
    *b = (struct buf){.tag = b->tag, .max = b->max};
}

void buf_clear(struct buf *b) {
    b->len = 0;
    if (b->data) {
        b->data[0] = '\0';
    }
}

static int reserve(struct buf *b, int64_t more) {
    int64_t need = 0;
    if (!i64_add(b->len, more, &need) || need > b->max) {
        return err_set(ERR_LIMIT, "text of more than %lld bytes", (long long)b->max);
    }
    if (need <= b->cap && b->data) {
        return 0;
    }
    int64_t cap = i64_max(BUF_MIN, i64_min(b->max, i64_max(need, b->cap * 2)));
    char *p = mem_realloc(b->tag, b->data, cap + 1);
    if (!p) {
        return ERR_NOMEM;
    }
    b->data = p;
    b->cap = cap;
    return 0;
}

int buf_add(struct buf *b, const void *data, int64_t n) {
    int rc = reserve(b, n);
    if (rc) {
        return rc;
    }
    if (n > 0) {
        memcpy(b->data + b->len, data, (size_t)n);
    }
    b->len += n;
    b->data[b->len] = '\0';
    return 0;
}

int buf_str(struct buf *b, const char *s) {
    return buf_add(b, s, (int64_t)strlen(s));
}

int buf_fmt(struct buf *b, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    va_list again;
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    int rc = n < 0 ? err_set(ERR_INTERNAL, "bad format string") : reserve(b, n);
    if (!rc) {
        vsnprintf(b->data + b->len, (size_t)n + 1, fmt, again);
        b->len += n;
    }
    va_end(again);
    return rc;
}

int buf_utf8(struct buf *b, uint32_t cp) {
    char c[4];
    int64_t n;
    if (cp < 0x80) {
        c[0] = (char)cp;
        n = 1;
    } else if (cp < 0x800) {
        c[0] = (char)(0xc0 | (cp >> 6));
        c[1] = (char)(0x80 | (cp & 63));
        n = 2;
    } else if (cp < 0x10000) {
        c[0] = (char)(0xe0 | (cp >> 12));
        c[1] = (char)(0x80 | ((cp >> 6) & 63));
        c[2] = (char)(0x80 | (cp & 63));
        n = 3;
    } else {
        c[0] = (char)(0xf0 | ((cp >> 18) & 7));
        c[1] = (char)(0x80 | ((cp >> 12) & 63));
        c[2] = (char)(0x80 | ((cp >> 6) & 63));
        c[3] = (char)(0x80 | (cp & 63));
        n = 4;
    }
    return buf_add(b, c, n);
}

const char *buf_cstr(const struct buf *b) {
    return b->data ? b->data : "";
}

char *buf_take(struct buf *b) {
    char *p = b->data ? b->data : mem_calloc(b->tag, 1);
    if (p) {
        b->data = NULL;
        b->len = 0;
        b->cap = 0;
    }
    return p;
}
