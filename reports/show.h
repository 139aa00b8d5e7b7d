/* Figures and foreign text as readers see them. Unmeasured is "not measured", never blank. */
#ifndef REPORTS_SHOW_H
#define REPORTS_SHOW_H

#include "engine/base/buf.h"
#include "reports/stat.h"

enum { SHOW_MAX = 96 };

enum show_unit {
    SHOW_PLAIN,   /* three or four significant digits */
    SHOW_SECONDS, /* us, ms, s */
    SHOW_PER_S,   /* 12.3/s */
    SHOW_SHARE,   /* 0..1 as a percentage */
    SHOW_USD,     /* $1.23 */
    SHOW_BYTES,   /* int64 bytes given as double */
    SHOW_COUNT,   /* whole number */
    SHOW_RATIO    /* 1.64x */
};

/* Writes a figure, "not measured" for NaN. dst: SHOW_MAX bytes; returns dst */
char *show_value(char *dst, double v, enum show_unit unit);

/* Writes the 95 % interval in the unit of its value: "198 to 240 ms", "at least 198 ms" when one
 * bound is unknown, "no interval" when both are; "" for an unmeasured value. */
char *show_interval(char *dst, struct stat_ci ci, enum show_unit unit);

/* int64 with STORE_NULL (INT64_MIN) as "not measured". */
char *show_i64(char *dst, int64_t v, enum show_unit unit);

/* A string, or "not measured" for NULL. own: s's, or static */
const char *show_str(const char *s);

/* Appends s as valid UTF-8 without control characters other than newline and tab; broken bytes
 * become U+FFFD. err: ERR_LIMIT, ERR_NOMEM */
int show_clean(struct buf *b, const char *s);

/* "2026-11-29 16:05 UTC" of wall-clock nanoseconds. dst: SHOW_MAX bytes */
char *show_date(char *dst, int64_t wall_ns);

#endif
