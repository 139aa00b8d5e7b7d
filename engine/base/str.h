/* Numbers and units in text: parsing with nothing left over, printing for people. */
#ifndef ENGINE_BASE_STR_H
#define ENGINE_BASE_STR_H

#include "engine/base/types.h"

/* Whole-string parsers. in: s NUL-terminated; surrounding blanks are an error.
 * err: ERR_FORMAT or ERR_RANGE naming s; *out untouched */
int str_i64(const char *s, int64_t lo, int64_t hi, int64_t *out);
int str_f64(const char *s, double *out);          /* finite */
int str_bytes(const char *s, int64_t *out);       /* "512", "16KiB", "2GiB", "3GB", "64MB" */
int str_duration_ns(const char *s, int64_t *out); /* "250ms", "1.5s", "2m", "1h", "90us" */
int str_rate_per_s(const char *s, double *out);   /* "4/s", "30/m", "0.5/s" */

/* Text for people; dst holds at least STR_NUM_MAX bytes; returns dst. */
enum { STR_NUM_MAX = 32 };
char *str_show_bytes(char *dst, int64_t bytes);    /* "98.4 MB" (powers of 1000) */
char *str_show_seconds(char *dst, double seconds); /* "1.2 ms", "4.5 s", "3m 20s"; "?" for NaN */

bool str_eq(const char *a, const char *b);
bool str_starts(const char *s, const char *prefix);
bool str_ends(const char *s, const char *suffix);

/* Edit distance of a and b (Levenshtein), at most cap. cost: O(|a| |b|), no allocation */
int32_t str_distance(const char *a, const char *b, int32_t cap);

/* The nearest of n names within an edit distance of 3; NULL when none is near. */
const char *str_nearest(const char *s, const char *const *names, int32_t n);

/* Copies at most cap - 1 bytes and terminates. out: false when s was cut */
bool str_copy(char *dst, int64_t cap, const char *s);

#endif
