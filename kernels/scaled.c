/* Codes, scales and checks of the scaled matrices of kernels/dtype.h.
 *
 * 1. A scale is widened to f32 exactly, then divided by the global scale, one rounding.
 * 2. scaled_check proves every index that a decoder computes: groups lie in 1..k, so columns find
 *    theirs, and each entry of g_idx is asked, since it comes from a file.
 * src: compressed-tensors, compressors/pack_quantized, nvfp4 and mxfp4 (unpack), and
 * quantization/lifecycle/forward_helpers.py (_dequantize). */
#include "kernels/scaled.h"

#include <math.h>

#include "engine/base/err.h"

static uint16_t load_u16(const uint8_t *p) {
    return (uint16_t)(p[0] | (uint16_t)(p[1] << 8));
}

static float load_scale(const struct wmat *w, int64_t i) {
    const uint8_t *p = w->scale;
    float s;
    if (w->scale_type == DTYPE_F32) {
        memcpy(&s, p + i * 4, sizeof(s));
        return s;
    }
    if (w->scale_type == DTYPE_F8_E4M3 || w->scale_type == DTYPE_F8_E8M0) {
        return w->scale_type == DTYPE_F8_E4M3 ? f8_e4m3_to_f32(p[i]) : f8_e8m0_to_f32(p[i]);
    }
    uint16_t h = load_u16(p + i * 2);
    return w->scale_type == DTYPE_F16 ? f16_to_f32(h) : bf16_to_f32(h);
}

float scaled_scale(const struct wmat *w, int64_t i) {
    float s = load_scale(w, i);
    return w->global != 0 ? s / w->global : s;
}

/* Element c of a dense row of b bits. The second byte is read only where the element reaches it, so
 * nothing behind the row is touched. */
static int32_t packed_code(const uint8_t *row, int32_t b, int32_t c) {
    int64_t bit = (int64_t)b * c;
    const uint8_t *p = row + bit / 8;
    int32_t shift = (int32_t)(bit % 8);
    int32_t word = p[0];
    if (shift + b > 8) {
        word |= p[1] << 8;
    }
    return ((word >> shift) & ((1 << b) - 1)) - (1 << (b - 1));
}

void scaled_codes(const struct wmat *w, int32_t r, int32_t c0, int32_t n, float *out) {
    const uint8_t *row = (const uint8_t *)w->data + r * w->row_bytes;
    int32_t bits = dtype_packed_bits(w->type);
    for (int32_t i = 0; i < n; i++) {
        int32_t c = c0 + i;
        if (bits) {
            out[i] = (float)packed_code(row, bits, c);
        } else if (w->type == DTYPE_I8) {
            out[i] = (float)((row[c] ^ 128) - 128);
        } else if (w->type == DTYPE_F8_E4M3) {
            out[i] = f8_e4m3_to_f32(row[c]);
        } else if (w->type == DTYPE_F8_E5M2) {
            out[i] = f8_e5m2_to_f32(row[c]);
        } else {
            out[i] = f4_to_f32((uint8_t)(row[c / 2] >> (4 * (c % 2))));
        }
    }
}

static const char *type_name(enum dtype t) {
    return (unsigned)t < DTYPE_N ? dtype_info(t)->name : "?";
}

static bool is_positive(float f) {
    return isfinite(f) && f > 0;
}

static int check_scale(const struct wmat *w) {
    const char *name = type_name(w->type);
    bool plain =
        w->scale_type == DTYPE_F32 || w->scale_type == DTYPE_F16 || w->scale_type == DTYPE_BF16;
    bool small = w->scale_type == DTYPE_F8_E4M3 || w->scale_type == DTYPE_F8_E8M0;
    bool is_packed = dtype_packed_bits(w->type) > 0;
    if (!w->scale) {
        return err_set(ERR_RANGE, "%s weight [%d,%d] has no scales", name, w->n, w->k);
    }
    if (!plain && (is_packed || !small)) {
        return err_set(ERR_UNSUPPORTED, "%s weight with scales of type %s, want F32, F16%s", name,
                       type_name(w->scale_type),
                       is_packed ? " or BF16" : ", BF16, F8_E4M3 or F8_E8M0");
    }
    if (w->global != 0 && !is_positive(w->global)) {
        return err_set(ERR_RANGE, "%s weight with global scale %g, want a finite one above 0", name,
                       (double)w->global);
    }
    if (w->zero && !is_packed && w->type != DTYPE_I8) {
        return err_set(ERR_UNSUPPORTED, "%s weight with zero points, want an integer type", name);
    }
    return 0;
}

static int check_groups(const struct wmat *w) {
    const char *name = type_name(w->type);
    if (w->group < 1 || w->group > w->k || w->row_group < 0 || w->row_group > w->n) {
        return err_set(ERR_RANGE,
                       "%s weight [%d,%d] in groups of %d rows, %d columns, want at most its size",
                       name, w->n, w->k, w->row_group, w->group);
    }
    int32_t n_group = scaled_n_group(w);
    for (int32_t c = 0; w->g_idx && c < w->k; c++) {
        if (w->g_idx[c] < 0 || w->g_idx[c] >= n_group) {
            return err_set(ERR_RANGE, "%s weight [%d,%d]: column %d in group %d, want 0 to %d",
                           name, w->n, w->k, c, w->g_idx[c], n_group - 1);
        }
    }
    return 0;
}

static int check_act(const struct actq *q, int32_t k) {
    static const char *const names[] = {"none", "I8", "F8_E4M3", "F4"};
    if ((unsigned)q->type > ACTQ_F4) {
        return err_set(ERR_UNSUPPORTED, "input quantization %d", (int)q->type);
    }
    const char *name = names[q->type];
    if (q->group < 0 || q->group > k || (q->is_static && q->group != 0)) {
        return err_set(ERR_RANGE, "%s input in groups of %d of %d columns%s", name, q->group, k,
                       q->is_static ? ", want none: its scale is static" : "");
    }
    if (q->is_static && (!is_positive(q->scale) || q->type == ACTQ_F4)) {
        return err_set(ERR_RANGE, "%s input with static scale %g, want I8 or F8, finite, above 0",
                       name, (double)q->scale);
    }
    bool has_zero = q->is_static && q->asymmetric;
    if ((q->asymmetric && q->type != ACTQ_I8) || q->zero < (has_zero ? -128 : 0) ||
        q->zero > (has_zero ? 127 : 0)) {
        return err_set(ERR_RANGE, "%s input with zero point %d%s", name, q->zero,
                       has_zero ? ", want -128 to 127" : ", want none but for asymmetric I8");
    }
    if (q->type == ACTQ_F4 ? !is_positive(q->global) : q->global != 0) {
        return err_set(ERR_RANGE, "%s input with global scale %g, want %s", name, (double)q->global,
                       q->type == ACTQ_F4 ? "a finite one above 0" : "none");
    }
    return 0;
}

int scaled_check(const struct wmat *w) {
    int rc = check_scale(w);
    rc = rc ? rc : check_groups(w);
    return rc || w->act.type == ACTQ_NONE ? rc : check_act(&w->act, w->k);
}
