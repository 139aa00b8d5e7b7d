/* Four significant digits at most, units that fit the size, and no byte of a stranger unread. */
#include "reports/show.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "engine/base/err.h"
#include "engine/base/str.h"

static const char unmeasured[] = "not measured";

/* Three significant digits, no exponent for everyday sizes. */
static void digits(char *dst, double v) {
    double a = fabs(v);
    int n = a >= 99.95 || a <= 0 ? 0 : (a >= 9.995 ? 1 : (a >= 0.9995 ? 2 : (a >= 0.0995 ? 3 : 4)));
    if (a >= 1e7 || (a > 0 && a < 1e-3)) {
        snprintf(dst, SHOW_MAX, "%.3g", v);
    } else {
        snprintf(dst, SHOW_MAX, "%.*f", n, v);
    }
}

struct scale {
    double factor;
    const char *before;
    const char *after;
};

/* Factor and unit that suit v. */
static struct scale scale_of(double v, enum show_unit unit) {
    static const char *const bytes[] = {" B", " kB", " MB", " GB", " TB"};
    double a = fabs(v);
    struct scale s = {1, "", ""};
    switch (unit) {
    case SHOW_SECONDS:
        s.factor = a >= 1 ? 1 : (a >= 1e-3 ? 1e3 : 1e6);
        s.after = a >= 1 ? " s" : (a >= 1e-3 ? " ms" : " us");
        break;
    case SHOW_PER_S:
        s.after = "/s";
        break;
    case SHOW_SHARE:
        s.factor = 100;
        s.after = " %";
        break;
    case SHOW_USD:
        s.before = "$";
        break;
    case SHOW_RATIO:
        s.after = "x";
        break;
    case SHOW_BYTES: {
        int32_t i = 0;
        for (; a >= 1000 && i + 1 < ARRAY_LEN(bytes); i++) {
            a /= 1000;
            s.factor /= 1000;
        }
        s.after = bytes[i];
        break;
    }
    case SHOW_PLAIN:
    case SHOW_COUNT:
    default:
        break;
    }
    return s;
}

static void number(char *dst, double v, enum show_unit unit) {
    if (unit == SHOW_COUNT) {
        snprintf(dst, SHOW_MAX, "%.0f", v);
    } else {
        digits(dst, v);
    }
}

char *show_value(char *dst, double v, enum show_unit unit) {
    char text[SHOW_MAX];
    if (isnan(v)) {
        str_copy(dst, SHOW_MAX, unmeasured);
        return dst;
    }
    struct scale s = scale_of(v, unit);
    number(text, v * s.factor, unit);
    snprintf(dst, SHOW_MAX, "%s%.60s%s", s.before, text, s.after);
    return dst;
}

char *show_interval(char *dst, struct stat_ci ci, enum show_unit unit) {
    char lo[SHOW_MAX];
    char hi[SHOW_MAX];
    dst[0] = '\0';
    if (isnan(ci.value)) {
        return dst;
    }
    struct scale s = scale_of(ci.value, unit);
    number(lo, ci.lo * s.factor, unit);
    number(hi, ci.hi * s.factor, unit);
    if (isnan(ci.lo) && isnan(ci.hi)) {
        str_copy(dst, SHOW_MAX, "no interval");
    } else if (isnan(ci.hi)) {
        snprintf(dst, SHOW_MAX, "at least %s%.30s%s", s.before, lo, s.after);
    } else if (isnan(ci.lo)) {
        snprintf(dst, SHOW_MAX, "at most %s%.30s%s", s.before, hi, s.after);
    } else {
        snprintf(dst, SHOW_MAX, "%s%.30s to %s%.30s%s", s.before, lo, s.before, hi, s.after);
    }
    return dst;
}

char *show_i64(char *dst, int64_t v, enum show_unit unit) {
    return show_value(dst, v == INT64_MIN ? (double)NAN : (double)v, unit);
}

const char *show_str(const char *s) {
    return s && s[0] ? s : unmeasured;
}

/* Length of the valid UTF-8 sequence at s; 0 when it is broken. src: RFC 3629, section 4 */
static int32_t sequence(const unsigned char *s) {
    if (s[0] < 0x80) {
        return 1;
    }
    int32_t n = s[0] >= 0xf0 && s[0] <= 0xf4 ? 4 : (s[0] >= 0xe0 ? 3 : 2);
    if (s[0] < 0xc2 || s[0] > 0xf4) {
        return 0;
    }
    for (int32_t i = 1; i < n; i++) {
        if ((s[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    bool overlong = (s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xf0 && s[1] < 0x90);
    bool surrogate = s[0] == 0xed && s[1] >= 0xa0;
    bool beyond = s[0] == 0xf4 && s[1] >= 0x90;
    return overlong || surrogate || beyond ? 0 : n;
}

int show_clean(struct buf *b, const char *s) {
    const unsigned char *c = (const unsigned char *)s;
    int rc = 0;
    while (*c && !rc) {
        int32_t n = sequence(c);
        bool control = n == 1 && (*c < 0x20 || *c == 0x7f) && *c != '\n' && *c != '\t';
        bool c1 = n == 2 && c[0] == 0xc2 && c[1] < 0xa0;
        if (n == 0 || control || c1) {
            rc = buf_utf8(b, 0xfffd);
        } else {
            rc = buf_add(b, c, n);
        }
        c += i32_max(1, n);
    }
    return rc;
}

char *show_date(char *dst, int64_t wall_ns) {
    struct tm tm;
    time_t t = (time_t)(wall_ns / 1000000000);
    if (wall_ns == INT64_MIN || !gmtime_r(&t, &tm) ||
        strftime(dst, SHOW_MAX, "%Y-%m-%d %H:%M UTC", &tm) == 0) {
        str_copy(dst, SHOW_MAX, "unknown time");
    }
    return dst;
}
