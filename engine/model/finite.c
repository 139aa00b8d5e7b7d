/* A stored number is bad when all its exponent bits are set. Block formats are checked at their f16
 * scale (and minimum): the only floating point numbers that they hold. */
#include "engine/model/finite.h"

#include <string.h>

#include "engine/base/err.h"

struct spot {
    int32_t stride; /* bytes from one number (or block) to the next */
    int32_t offset; /* of the number inside the block */
    int32_t bytes;  /* 2 or 4 */
    uint32_t mask;  /* exponent bits */
};

static const struct spot spots_of[DTYPE_N][2] = {
    [DTYPE_F32] = {{4, 0, 4, 0x7f800000}},
    [DTYPE_F16] = {{2, 0, 2, 0x7c00}},
    [DTYPE_BF16] = {{2, 0, 2, 0x7f80}},
    [DTYPE_Q4_0] = {{18, 0, 2, 0x7c00}},
    [DTYPE_Q4_1] = {{20, 0, 2, 0x7c00}, {20, 2, 2, 0x7c00}},
    [DTYPE_Q8_0] = {{34, 0, 2, 0x7c00}},
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

int finite_check(const struct tensor *t, const char *where) {
    for (int32_t j = 0; j < 2 && spots_of[t->type][j].stride > 0; j++) {
        int64_t i = first_bad(t, spots_of[t->type][j]);
        if (i >= 0) {
            return err_set(ERR_NUMERIC, "%s: tensor \"%s\": NaN or infinity at %s %lld", where,
                           t->name, dtype_info(t->type)->block > 1 ? "block" : "element",
                           (long long)i);
        }
    }
    return 0;
}
