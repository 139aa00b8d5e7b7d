/* JSON strings by hand, for the hot path of a stream: runs of plain bytes are copied whole, and
 * only what RFC 8259 section 7 demands is escaped. Output is valid UTF-8 whatever the input was. */
#include "engine/serve/jsonout.h"

#include <math.h>
#include <string.h>

#include "engine/text/utf8.h"

static bool is_plain(uint8_t c) {
    return c >= 0x20 && c < 0x80 && c != '"' && c != '\\';
}

static int escape(struct buf *b, uint8_t c) {
    static const char from[] = "\"\\\b\f\n\r\t";
    static const char to[] = "\"\\bfnrt";
    const char *at = c ? strchr(from, c) : NULL;
    return at ? buf_fmt(b, "\\%c", to[at - from]) : buf_fmt(b, "\\u%04x", c);
}

int jsonout_text(struct buf *b, const char *text, int64_t n) {
    const uint8_t *p = (const uint8_t *)text;
    int64_t i = 0;
    int rc = 0;
    while (i < n && !rc) {
        int64_t end = i;
        uint32_t cp = 0;
        int32_t k = 0;
        while (end < n && (is_plain(p[end]) ||
                           (p[end] >= 0x80 && (k = utf8_next(p + end, n - end, &cp)) > 0))) {
            end += p[end] < 0x80 ? 1 : k;
        }
        rc = end > i ? buf_add(b, p + i, end - i) : 0;
        i = end;
        if (i == n || rc) {
            break;
        }
        if (p[i] < 0x80) {
            rc = escape(b, p[i++]);
        } else {
            rc = buf_utf8(b, UTF8_REPLACEMENT);
            i = k == 0 ? n : i - k;
        }
    }
    return rc;
}

int jsonout_strn(struct buf *b, const char *p, int64_t n) {
    int rc = buf_str(b, "\"");
    rc = rc ? rc : jsonout_text(b, p, n);
    return rc ? rc : buf_str(b, "\"");
}

int jsonout_str(struct buf *b, const char *p) {
    return p ? jsonout_strn(b, p, (int64_t)strlen(p)) : buf_str(b, "null");
}

int jsonout_logprob(struct buf *b, double v) {
    return isfinite(v) ? buf_fmt(b, "%.9g", v) : buf_str(b, "-9999.0");
}
