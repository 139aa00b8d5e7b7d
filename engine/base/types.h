/* Fixed-width names, compile-time helpers and checked integer arithmetic.
 *
 * Numbers from outside (files, peers, flags) are multiplied and added with the checked helpers
 * only; they return false on overflow and leave the result untouched. */
#ifndef ENGINE_BASE_TYPES_H
#define ENGINE_BASE_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ARRAY_LEN(a) ((int32_t)(sizeof(a) / sizeof((a)[0])))

#if defined(__GNUC__)
#define PRINTF_LIKE(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define PRINTF_LIKE(fmt, args)
#endif

#ifdef __cplusplus
#define RESTRICT __restrict__
#else
#define RESTRICT restrict
#endif

/* Adds two int64 numbers. out: *sum = a + b; returns false, *sum untouched, on overflow. */
static inline bool i64_add(int64_t a, int64_t b, int64_t *sum) {
    int64_t r;
    if (__builtin_add_overflow(a, b, &r)) {
        return false;
    }
    *sum = r;
    return true;
}

/* Multiplies two int64 numbers. out: *prod = a * b; returns false, *prod untouched, on overflow. */
static inline bool i64_mul(int64_t a, int64_t b, int64_t *prod) {
    int64_t r;
    if (__builtin_mul_overflow(a, b, &r)) {
        return false;
    }
    *prod = r;
    return true;
}

static inline int64_t i64_min(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static inline int64_t i64_max(int64_t a, int64_t b) {
    return a > b ? a : b;
}

static inline int32_t i32_min(int32_t a, int32_t b) {
    return a < b ? a : b;
}

static inline int32_t i32_max(int32_t a, int32_t b) {
    return a > b ? a : b;
}

/* Quotient rounded up. in: a >= 0, b > 0 */
static inline int64_t i64_div_up(int64_t a, int64_t b) {
    return a / b + (a % b != 0 ? 1 : 0);
}

#endif
