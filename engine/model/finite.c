/* A stored number is bad when all its exponent bits are set (E4M3 and E8M0: all bits but the sign).
 * Block formats are checked at their scale and minimum: the only floating point numbers that they
 * hold. F64 is multiplied as f32, so it is bad where that is. */
#include "engine/model/finite.h"

#include <math.h>
#include <string.h>

#include "engine/base/err.h"

struct spot {
    int32_t stride; /* bytes from one number (or block) to the next */
    int32_t offset; /* of the number inside the block */
    int32_t bytes;  /* 1, 2 or 4 */
    uint32_t mask;  /* exponent bits */
};

static const struct spot spots_of[DTYPE_N][2] = {
    [DTYPE_F32] = {{4, 0, 4, 0x7f800000}},
    [DTYPE_F16] = {{2, 0, 2, 0x7c00}},
    [DTYPE_BF16] = {{2, 0, 2, 0x7f80}},
    [DTYPE_Q4_0] = {{18, 0, 2, 0x7c00}},
    [DTYPE_Q4_1] = {{20, 0, 2, 0x7c00}, {20, 2, 2, 0x7c00}},
    [DTYPE_Q8_0] = {{34, 0, 2, 0x7c00}},
    [DTYPE_F8_E4M3] = {{1, 0, 1, 0x7f}},
    [DTYPE_F8_E5M2] = {{1, 0, 1, 0x7c}},
    [DTYPE_F8_E8M0] = {{1, 0, 1, 0xff}},
    [DTYPE_Q5_0] = {{22, 0, 2, 0x7c00}},
    [DTYPE_Q5_1] = {{24, 0, 2, 0x7c00}, {24, 2, 2, 0x7c00}},
    [DTYPE_Q2_K] = {{84, 80, 2, 0x7c00}, {84, 82, 2, 0x7c00}},
    [DTYPE_Q3_K] = {{110, 108, 2, 0x7c00}},
    [DTYPE_Q4_K] = {{144, 0, 2, 0x7c00}, {144, 2, 2, 0x7c00}},
    [DTYPE_Q5_K] = {{176, 0, 2, 0x7c00}, {176, 2, 2, 0x7c00}},
    [DTYPE_Q6_K] = {{210, 208, 2, 0x7c00}},
    [DTYPE_Q8_K] = {{292, 0, 4, 0x7f800000}},
    [DTYPE_IQ4_NL] = {{18, 0, 2, 0x7c00}},
    [DTYPE_IQ4_XS] = {{136, 0, 2, 0x7c00}},
    [DTYPE_TQ1_0] = {{54, 52, 2, 0x7c00}},
    [DTYPE_TQ2_0] = {{66, 64, 2, 0x7c00}},
    [DTYPE_MXFP4] = {{17, 0, 1, 0xff}},
    [DTYPE_Q8_1] = {{36, 0, 2, 0x7c00}},
    [DTYPE_IQ1_S] = {{50, 0, 2, 0x7c00}},
    [DTYPE_IQ2_XXS] = {{66, 0, 2, 0x7c00}},
    [DTYPE_IQ2_XS] = {{74, 0, 2, 0x7c00}},
    [DTYPE_IQ2_S] = {{82, 0, 2, 0x7c00}},
    [DTYPE_IQ3_XXS] = {{98, 0, 2, 0x7c00}},
    [DTYPE_IQ3_S] = {{110, 0, 2, 0x7c00}},
};

/* Index of the first bad number, -1 when none. */
static int64_t first_bad(const struct tensor *t, struct spot s) {
    int64_t n = t->bytes / s.stride;
    for (int64_t i = 0; i < n; i++) {
        uint32_t v = 0;
        memcpy(&v, t->data + i * s.stride + s.offset, (size_t)s.bytes);
        if ((v & s.mask) == s.mask) {
            return i;
        }
    }
    return -1;
}

static int64_t first_bad_f64(const struct tensor *t) {
    for (int64_t i = 0; i < t->bytes / 8; i++) {
        double d;
        memcpy(&d, t->data + i * 8, sizeof d);
        if (!isfinite((float)d)) {
            return i;
        }
    }
    return -1;
}

/* IQ1_M: the scale's exponent bits 10..14 are the upper nibble of the last u16 and two bits of the
 * one before. */
static int64_t first_bad_iq1_m(const struct tensor *t) {
    for (int64_t i = 0; i < t->bytes / 56; i++) {
        const uint8_t *s = t->data + i * 56 + 48;
        if ((s[7] & 0x70) == 0x70 && (s[5] & 0xc0) == 0xc0) {
            return i;
        }
    }
    return -1;
}

static int bad(const struct tensor *t, const char *where, int64_t i) {
    return err_set(ERR_NUMERIC, "%s: tensor \"%s\": NaN or infinity at %s %lld", where, t->name,
                   dtype_info(t->type)->block > 1 ? "block" : "element", (long long)i);
}

int finite_check(const struct tensor *t, const char *where) {
    if (t->type == DTYPE_F64 || t->type == DTYPE_IQ1_M) {
        int64_t i = t->type == DTYPE_F64 ? first_bad_f64(t) : first_bad_iq1_m(t);
        return i >= 0 ? bad(t, where, i) : 0;
    }
    for (int32_t j = 0; j < 2 && spots_of[t->type][j].stride > 0; j++) {
        int64_t i = first_bad(t, spots_of[t->type][j]);
        if (i >= 0) {
            return bad(t, where, i);
        }
    }
    return 0;
}
