/* stream = [BOM] *event; event = *(comment / field) end-of-line; end-of-line = LF / CR / CRLF
 *
 *   line ":"...        comment
 *   line "name:value"  one blank behind the colon belongs to neither
 *   line "name"        a field without value
 *   line ""            the event is told, unless it has no data
 *
 * 1. A CR ends its line at once; the LF that may follow in the next piece is swallowed.
 * 2. data lines are joined by LF; the last LF is cut off.
 * 3. Whole lines inside a piece are read where they lie; only a line that a piece cuts is copied.
 */
#include "harness/sse.h"

#include <string.h>

#include "engine/base/err.h"
#include "engine/base/str.h"

static const unsigned char bom[3] = {0xef, 0xbb, 0xbf};

void sse_init(struct sse *s) {
    *s = (struct sse){.retry_ms = -1};
    buf_init(&s->line, MEM_HARNESS, SSE_EVENT_MAX);
    buf_init(&s->data, MEM_HARNESS, SSE_EVENT_MAX);
}

void sse_fini(struct sse *s) {
    buf_fini(&s->line);
    buf_fini(&s->data);
}

void sse_reset(struct sse *s) {
    struct buf line = s->line;
    struct buf data = s->data;
    buf_clear(&line);
    buf_clear(&data);
    *s = (struct sse){.line = line, .data = data, .retry_ms = -1};
}

static int dispatch(struct sse *s, sse_fn fn, void *ctx) {
    int rc = 0;
    if (s->data.len > 0) {
        s->data.data[--s->data.len] = '\0';
        const struct sse_event ev = {.data = buf_cstr(&s->data),
                                     .n = s->data.len,
                                     .name = s->name[0] ? s->name : "message",
                                     .id = s->id};
        s->n_events++;
        rc = fn(ctx, &ev);
    }
    buf_clear(&s->data);
    s->name[0] = '\0';
    s->has_fields = false;
    return rc;
}

static void keep(char dst[SSE_NAME_MAX], const char *v, int64_t n) {
    int64_t len = i64_min(n, SSE_NAME_MAX - 1);
    memcpy(dst, v, (size_t)len);
    dst[len] = '\0';
}

static void take_retry(struct sse *s, const char *v, int64_t n) {
    char digits[SSE_NAME_MAX];
    int64_t ms = 0;
    keep(digits, v, n);
    if (n > 0 && strspn(digits, "0123456789") == (size_t)n) {
        if (str_i64(digits, 0, INT64_MAX, &ms) == 0) {
            s->retry_ms = ms;
        } else {
            err_clear(); /* why: the standard ignores what is no number */
        }
    }
}

static int take_field(struct sse *s, const char *name, int64_t n_name, const char *v, int64_t n) {
    if (n_name == 4 && memcmp(name, "data", 4) == 0) {
        int rc = buf_add(&s->data, v, n);
        return rc ? rc : buf_add(&s->data, "\n", 1);
    }
    if (n_name == 5 && memcmp(name, "event", 5) == 0) {
        keep(s->name, v, n);
    } else if (n_name == 2 && memcmp(name, "id", 2) == 0 && !memchr(v, '\0', (size_t)n)) {
        keep(s->id, v, n);
    } else if (n_name == 5 && memcmp(name, "retry", 5) == 0) {
        take_retry(s, v, n);
    }
    return 0;
}

static int take_line(struct sse *s, const char *line, int64_t n, sse_fn fn, void *ctx) {
    if (n == 0) {
        return dispatch(s, fn, ctx);
    }
    if (line[0] == ':') {
        s->n_comments++;
        return 0;
    }
    s->has_fields = true;
    const char *colon = memchr(line, ':', (size_t)n);
    int64_t n_name = colon ? colon - line : n;
    int64_t at = colon ? n_name + 1 : n;
    at += at < n && line[at] == ' ' ? 1 : 0;
    int rc = take_field(s, line, n_name, line + at, n - at);
    return rc == ERR_LIMIT
               ? err_set(ERR_LIMIT, "an event of more than %d bytes", (int)SSE_EVENT_MAX)
               : rc;
}

/* The piece's next line end; NULL: none. */
static const char *line_end(const char *p, const char *end) {
    const char *lf = memchr(p, '\n', (size_t)(end - p));
    const char *cr = memchr(p, '\r', (size_t)((lf ? lf : end) - p));
    return cr ? cr : lf;
}

/* Skips what of the byte order mark lies at p; the bytes of a mark that breaks off are a line's. */
static int skip_bom(struct sse *s, const char **p, const char *end) {
    while (s->n_bom >= 0 && s->n_bom < 3 && *p < end) {
        if ((unsigned char)**p != bom[s->n_bom]) {
            int32_t n = s->n_bom;
            s->n_bom = -1;
            return buf_add(&s->line, bom, n);
        }
        (*p)++;
        s->n_bom++;
    }
    s->n_bom = s->n_bom == 3 ? -1 : s->n_bom;
    return 0;
}

int sse_feed(struct sse *s, const void *bytes, int64_t n, sse_fn fn, void *ctx) {
    const char *p = bytes;
    const char *end = p + n;
    s->n_bytes += n;
    int rc = n > 0 ? skip_bom(s, &p, end) : 0;
    while (p < end && !rc) {
        if (s->after_cr) {
            s->after_cr = false;
            if (*p == '\n') {
                p++;
                continue;
            }
        }
        const char *stop = line_end(p, end);
        if (!stop || s->line.len > 0) {
            rc = buf_add(&s->line, p, (stop ? stop : end) - p);
            rc = rc == ERR_LIMIT
                     ? err_set(ERR_LIMIT, "a line of more than %d bytes", (int)SSE_EVENT_MAX)
                     : rc;
        }
        if (!stop) {
            break;
        }
        if (!rc) {
            bool copied = s->line.len > 0;
            rc = take_line(s, copied ? buf_cstr(&s->line) : p, copied ? s->line.len : stop - p, fn,
                           ctx);
            buf_clear(&s->line);
        }
        s->after_cr = *stop == '\r';
        p = stop + 1;
    }
    return rc;
}

bool sse_is_cut(const struct sse *s) {
    return s->line.len > 0 || s->has_fields || s->n_bom > 0;
}
