/* Scaled matrices: where the scale and zero point of an element are, and whether they can be read.
 *
 * NG = ceil(n / row_group), KG = ceil(k / group). Element (r, c) belongs to row group r / row_group
 * and column group g_idx[c], or c / group; its scale is at [row group, column group]. */
#ifndef KERNELS_SCALED_H
#define KERNELS_SCALED_H

#include <string.h>

#include "kernels/dtype.h"

/* KG. in: k, group at least 1 */
static inline int32_t scaled_n_group(const struct wmat *w) {
    return (int32_t)i64_div_up(w->k, w->group);
}

/* Index of the first scale of row r. */
static inline int64_t scaled_row(const struct wmat *w, int32_t r) {
    return (int64_t)(w->row_group > 0 ? r / w->row_group : r) * scaled_n_group(w);
}

/* Column group of column c. */
static inline int32_t scaled_group(const struct wmat *w, int32_t c) {
    return w->g_idx ? w->g_idx[c] : c / w->group;
}

/* What is subtracted from the stored code of an integer type before its zero point. */
static inline int32_t scaled_offset(enum dtype t) {
    int32_t bits = dtype_packed_bits(t);
    return bits ? 1 << (bits - 1) : 0;
}

/* Scale number i of w as f32, with the global scale in it. in: i below NG * KG */
float scaled_scale(const struct wmat *w, int64_t i);

/* Codes of n elements of row r from column c0, as f32 and less the offset of the type: integers of
 * W2 to W8 and I8, values of F8_E4M3, F8_E5M2, F4. Zero points and scales are not applied. */
void scaled_codes(const struct wmat *w, int32_t r, int32_t c0, int32_t n, float *out);

/* Groups of columns the input has under w->act: 1, or ceil(k / act.group). */
static inline int32_t scaled_n_act_group(const struct wmat *w) {
    bool one = w->act.group < 1 || w->act.is_static;
    return one ? 1 : (int32_t)i64_div_up(w->k, w->act.group);
}

/* Can scales, zero points, groups and the input's quantization be used?
 * in:  a type with dtype_is_scaled, n and k at least 1
 * err: ERR_RANGE, ERR_UNSUPPORTED naming the field. cost: O(k) with g_idx */
int scaled_check(const struct wmat *w);

#endif
