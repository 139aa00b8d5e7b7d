#include "engine/base/str.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"

int str_i64(const char *s, int64_t lo, int64_t hi, int64_t *out) {
    char *end = NULL;
    errno = 0;
    long long v = strtoll(s, &end, 10);
    if (end == s || *end != '\0' || isspace((unsigned char)s[0])) {
        return err_set(ERR_FORMAT, "\"%s\" is not a whole number", s);
    }
    if (errno == ERANGE || v < lo || v > hi) {
        return err_set(ERR_RANGE, "%s is outside %lld..%lld", s, (long long)lo, (long long)hi);
    }
    *out = v;
    return 0;
}

/* Parses the leading number; *unit points at what follows. */
static int number(const char *s, double *v, const char **unit) {
    char *end = NULL;
    if (!isdigit((unsigned char)s[0]) && s[0] != '.' && s[0] != '-' && s[0] != '+') {
        return err_set(ERR_FORMAT, "\"%s\" is not a number", s);
    }
    double d = strtod(s, &end);
    if (end == s || !isfinite(d)) {
        return err_set(ERR_FORMAT, "\"%s\" is not a finite number", s);
    }
    *v = d;
    *unit = end;
    return 0;
}

int str_f64(const char *s, double *out) {
    const char *unit = NULL;
    double v = 0;
    int rc = number(s, &v, &unit);
    if (rc) {
        return rc;
    }
    if (*unit != '\0') {
        return err_set(ERR_FORMAT, "\"%s\" is not a number (\"%s\" is left over)", s, unit);
    }
    *out = v;
    return 0;
}

struct unit {
    const char *name;
    double factor;
};

static int
with_unit(const char *s, const struct unit *units, int32_t n, const char *want, double *v) {
    const char *unit = NULL;
    double d = 0;
    int rc = number(s, &d, &unit);
    if (rc) {
        return rc;
    }
    while (*unit == ' ') {
        unit++;
    }
    for (int32_t i = 0; i < n; i++) {
        if (strcmp(unit, units[i].name) == 0) {
            *v = d * units[i].factor;
            return 0;
        }
    }
    return err_set(ERR_FORMAT, "\"%s\": unit \"%s\" is unknown, want %s", s, unit, want);
}

int str_bytes(const char *s, int64_t *out) {
    static const struct unit units[] = {
        {"", 1},         {"B", 1},        {"KiB", 1024.0}, {"MiB", 1048576.0},
        {"GiB", 0x1p30}, {"TiB", 0x1p40}, {"KB", 1e3},     {"kB", 1e3},
        {"MB", 1e6},     {"GB", 1e9},     {"TB", 1e12}};
    double v = 0;
    int rc = with_unit(s, units, ARRAY_LEN(units), "B, KiB, MiB, GiB, kB, MB or GB", &v);
    if (rc) {
        return rc;
    }
    if (v < 0 || v > 0x1p62) {
        return err_set(ERR_RANGE, "%s is no number of bytes", s);
    }
    *out = (int64_t)v;
    return 0;
}

int str_duration_ns(const char *s, int64_t *out) {
    static const struct unit units[] = {{"ns", 1},   {"us", 1e3},   {"ms", 1e6},  {"s", 1e9},
                                        {"m", 60e9}, {"min", 60e9}, {"h", 3600e9}};
    double v = 0;
    int rc = with_unit(s, units, ARRAY_LEN(units), "ns, us, ms, s, m or h (as in 250ms)", &v);
    if (rc) {
        return rc;
    }
    if (v < 0 || v > 0x1p62) {
        return err_set(ERR_RANGE, "%s is no duration", s);
    }
    *out = (int64_t)llround(v);
    return 0;
}

int str_rate_per_s(const char *s, double *out) {
    static const struct unit units[] = {
        {"/s", 1}, {"/m", 1.0 / 60}, {"/min", 1.0 / 60}, {"/h", 1.0 / 3600}};
    double v = 0;
    int rc = with_unit(s, units, ARRAY_LEN(units), "/s, /m or /h (as in 4/s)", &v);
    if (rc) {
        return rc;
    }
    if (v <= 0) {
        return err_set(ERR_RANGE, "%s is no rate", s);
    }
    *out = v;
    return 0;
}

char *str_show_bytes(char *dst, int64_t bytes) {
    static const char *const names[] = {"B", "kB", "MB", "GB", "TB", "PB"};
    double v = (double)bytes;
    int32_t i = 0;
    while (fabs(v) >= (i == 0 ? 1000 : 999.95) && i + 1 < ARRAY_LEN(names)) {
        v /= 1000;
        i++;
    }
    snprintf(dst, STR_NUM_MAX, i == 0 ? "%.0f %s" : "%.1f %s", v, names[i]);
    return dst;
}

char *str_show_seconds(char *dst, double seconds) {
    if (!isfinite(seconds)) {
        str_copy(dst, STR_NUM_MAX, "?");
    } else if (seconds < 0.99995e-3) {
        snprintf(dst, STR_NUM_MAX, "%.1f us", seconds * 1e6);
    } else if (seconds < 0.99995) {
        snprintf(dst, STR_NUM_MAX, "%.1f ms", seconds * 1e3);
    } else if (seconds < 99.95) {
        snprintf(dst, STR_NUM_MAX, "%.1f s", seconds);
    } else if (seconds > 1e12) {
        snprintf(dst, STR_NUM_MAX, "%.3g s", seconds);
    } else {
        int64_t s = llround(seconds);
        snprintf(dst, STR_NUM_MAX, "%lldm %02llds", (long long)(s / 60), (long long)(s % 60));
    }
    return dst;
}

bool str_eq(const char *a, const char *b) {
    return strcmp(a, b) == 0;
}

bool str_starts(const char *s, const char *prefix) {
    return strncmp(s, prefix, strlen(prefix)) == 0;
}

bool str_ends(const char *s, const char *suffix) {
    size_t n = strlen(s);
    size_t m = strlen(suffix);
    return n >= m && strcmp(s + n - m, suffix) == 0;
}

int32_t str_distance(const char *a, const char *b, int32_t cap) {
    enum { WORD_MAX = 64 };
    int32_t row[WORD_MAX + 1];
    int32_t n_a = (int32_t)strlen(a);
    int32_t n_b = (int32_t)strlen(b);
    if (n_a > WORD_MAX || n_b > WORD_MAX) {
        return cap;
    }
    for (int32_t j = 0; j <= n_b; j++) {
        row[j] = j;
    }
    for (int32_t i = 1; i <= n_a; i++) {
        int32_t diag = row[0];
        row[0] = i;
        for (int32_t j = 1; j <= n_b; j++) {
            int32_t up = row[j];
            int32_t swap = diag + (a[i - 1] != b[j - 1] ? 1 : 0);
            row[j] = i32_min(swap, i32_min(up, row[j - 1]) + 1);
            diag = up;
        }
    }
    return i32_min(row[n_b], cap);
}

const char *str_nearest(const char *s, const char *const *names, int32_t n) {
    const char *best = NULL;
    int32_t best_d = 4;
    for (int32_t i = 0; i < n; i++) {
        int32_t d = str_distance(s, names[i], 4);
        if (d < best_d) {
            best_d = d;
            best = names[i];
        }
    }
    return best;
}

bool str_copy(char *dst, int64_t cap, const char *s) {
    int64_t n = (int64_t)strlen(s);
    int64_t m = i64_min(n, cap - 1);
    memcpy(dst, s, (size_t)m);
    dst[m] = '\0';
    return m == n;
}
