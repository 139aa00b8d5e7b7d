/* Shared by the files that bind quantized modules. */
#ifndef ENGINE_MODEL_QBIND_INT_H
#define ENGINE_MODEL_QBIND_INT_H

#include "engine/model/qbind.h"

/* One module on its way. */
struct qmodule {
    struct qbind *b;
    const char *name;
    const struct qscheme *s;
    struct wmat w; /* n, k, group, row_group are set first */
};

/* Wanted dimensions; types is a string of names for messages, ok the set of 1 << dtype. */
struct qwant {
    uint64_t ok;
    const char *types;
    int32_t n_dim;
    int64_t dim[2];
};

#define QTYPE(t) (UINT64_C(1) << DTYPE_##t)

/* The tensor module.part. need false: *t is NULL when it is missing. Counted and, with check,
 * looked through. err: ERR_NOTFOUND, ERR_NUMERIC */
int qbind_part(struct qmodule *m, const char *part, bool need, const struct tensor **t);

/* Demands type and shape. err: ERR_FORMAT */
int qbind_want(const struct qmodule *m, const struct tensor *t, const struct qwant *w);

/* The one number of a tensor [1], [1,1] or []. err: ERR_FORMAT, ERR_NUMERIC unless it is finite and
 * > 0 */
int qbind_scalar(const struct qmodule *m, const struct tensor *t, float *out);

/* A tensor's bytes, copied when they are not aligned to align. err: NULL, ERR_NOMEM set */
const void *qbind_aligned(const struct qmodule *m, const struct tensor *t, int32_t align);

/* Scales that must not be zero. err: ERR_NUMERIC naming the first */
int qbind_no_zero(const struct qmodule *m, const struct tensor *t);

/* Keeps the sentence of the first oddity, and logs it. */
void qbind_note(struct qmodule *m, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* Sets g_idx from a tensor [k] I32 of groups 0..n_group - 1: NULL where it is k / group or, with
 * unused, -1 all over. err: ERR_FORMAT, ERR_NOMEM */
int qbind_g_idx(struct qmodule *m, const struct tensor *t, int32_t n_group, bool unused);

/* Field i of b bits of a stream of little-endian words that lie stride words apart. */
static inline uint32_t qbind_field(const uint8_t *p, int64_t stride, int64_t i, int32_t b);

/* weight_packed, weight_zero_point of QLAYOUT_PACK; all of QLAYOUT_GPTQ and QLAYOUT_AWQ. */
int qbind_pack(struct qmodule *m);
int qbind_gptq(struct qmodule *m);
int qbind_awq(struct qmodule *m);

static inline uint32_t qbind_field(const uint8_t *p, int64_t stride, int64_t i, int32_t b) {
    uint32_t word[2] = {0, 0};
    int64_t at = i * b;
    int32_t shift = (int32_t)(at % 32);
    __builtin_memcpy(&word[0], p + 4 * stride * (at / 32), 4);
    if (shift + b > 32) {
        __builtin_memcpy(&word[1], p + 4 * stride * (at / 32 + 1), 4);
    }
    uint64_t both = word[0] | (uint64_t)word[1] << 32;
    return (uint32_t)(both >> shift) & ((1U << b) - 1);
}

#endif
