/* The product with a quantized input: sums of codes, a piece of columns at a time.
 *
 * Law: output (t, n) is the sum over pieces, ascending, of (S * weight scale) * input scale in f32,
 * each operation rounded, then + bias, then + the old y. S is the sum of code products of a piece:
 *   integer forms  exact in 32 bits, then rounded to f32 once: any order, any instruction, the same
 *                  bits, on every variant
 *   CPU_FORM_F32   one accumulator of W lanes along the piece, then the tree, as in cpu_gemm
 *
 * Integer weights are laid out in strips of W rows, a row a lane, so that no sum crosses lanes:
 *   | word 0 of rows 0..W-1 | word 1 of rows 0..W-1 | ...    a word is 2 or 4 codes of one row
 * and a word of the input is put in every lane. An F4 code counts twice its value, which makes it
 * an integer, and its scale a half. In CPU_FORM_BYTE the input is code + 128 and unsigned: sum
 * (code - zero) w = sum byte w - (128 + zero) sum w */
#ifndef KERNELS_CPU_CPU_QMM_INC_H
#define KERNELS_CPU_CPU_QMM_INC_H

#include "kernels/cpu/cpu_elem.inc.h"
#include "kernels/cpu/cpu_gemm.inc.h"

enum { QMM_STRIPS = 4, QMM_F32_ROWS = 64, QMM_CODES = 64 };

#ifdef QMM_VNNI
enum { QMM_HAS_BYTES = 1 };
VEC_INLINE vi qmm_add(const enum cpu_form form, vi acc, vi w, vi x) {
    return form == CPU_FORM_BYTE ? (vi)_mm512_dpbusd_epi32((__m512i)acc, (__m512i)x, (__m512i)w)
                                 : (vi)_mm512_dpwssd_epi32((__m512i)acc, (__m512i)w, (__m512i)x);
}
#else
enum { QMM_HAS_BYTES = 0 };
VEC_INLINE vi qmm_add(const enum cpu_form form, vi acc, vi w, vi x) {
    (void)form;
    return vi_madd(acc, w, x);
}
#endif

typedef int8_t v16b __attribute__((vector_size(16)));

/* 16 nibbles to codes: q - 8 of W4, twice the value of E2M1. in: f4 a constant */
VEC_INLINE v16b qmm_nibbles(bool f4, v16b n) {
    if (!f4) {
        return n - 8;
    }
    v16b mag = n & 7;
    v16b top = (mag & 1) | 2;
    v16b twice = top + top;
    v16b is_6_12 = mag > 5;
    v16b is_tiny = mag < 4;
    v16b v = (twice & ~is_6_12) | ((twice + twice) & is_6_12);
    v = (mag & is_tiny) | (v & ~is_tiny);
    v16b sign = n > 7;
    return (v ^ sign) - sign;
}

/* k nibbles, the low one of a byte first. out: whole bytes are written; in: f4 a constant */
VEC_INLINE void qmm_unpack(bool f4, const uint8_t *p, int32_t k, int8_t *out) {
    int32_t i = 0;
    for (; i + 32 <= k; i += 32) {
        __m128i b = _mm_loadu_si128((const void *)(p + i / 2));
        __m128i lo = _mm_and_si128(b, _mm_set1_epi8(15));
        __m128i hi = _mm_and_si128(_mm_srli_epi16(b, 4), _mm_set1_epi8(15));
        v16b a = qmm_nibbles(f4, (v16b)_mm_unpacklo_epi8(lo, hi));
        v16b c = qmm_nibbles(f4, (v16b)_mm_unpackhi_epi8(lo, hi));
        memcpy(out + i, &a, sizeof(a));
        memcpy(out + i + 16, &c, sizeof(c));
    }
    for (; i < k; i += 2) {
        v16b n = {(int8_t)(p[i / 2] & 15), (int8_t)(p[i / 2] >> 4)};
        n = qmm_nibbles(f4, n);
        out[i] = n[0];
        out[i + 1] = n[1];
    }
}

/* Codes of row r as integers; tmp [k + 1] unless they are stored so. */
static inline const int8_t *qmm_codes(const struct wmat *w, int32_t r, int8_t *tmp) {
    const uint8_t *p = (const uint8_t *)w->data + r * w->row_bytes;
    int32_t k = w->k;
    if (w->type == DTYPE_I8) {
        return (const int8_t *)p;
    }
    if (w->type == DTYPE_W8) {
        for (int32_t i = 0; i < k; i++) {
            tmp[i] = (int8_t)(p[i] ^ 128);
        }
    } else if (w->type == DTYPE_W4) {
        qmm_unpack(false, p, k, tmp);
    } else if (w->type == DTYPE_F4) {
        qmm_unpack(true, p, k, tmp);
    } else {
        for (int32_t i = 0; i < k; i += QMM_CODES) {
            float some[QMM_CODES];
            int32_t n = i32_min(QMM_CODES, k - i);
            scaled_codes(w, r, i, n, some);
            for (int32_t j = 0; j < n; j++) {
                tmp[i + j] = (int8_t)some[j];
            }
        }
    }
    return tmp;
}

/* One row in product order; words behind n_col are zero. */
static inline void
qmm_row_byte(const struct cpu_plan *plan, const int8_t *code, int64_t words, int8_t *dst) {
    if (plan->is_plain) {
        memcpy(dst, code, (size_t)plan->n_col);
    } else {
        for (int32_t i = 0; i < plan->n_col; i++) {
            dst[i] = plan->col[i] < 0 ? 0 : code[plan->col[i]];
        }
    }
    memset(dst + plan->n_col, 0, (size_t)(words * 4 - plan->n_col));
}

static inline void qmm_row_i16(
    const struct cpu_plan *plan, int32_t r, const int8_t *code, int64_t words, int16_t *dst) {
    int64_t at = scaled_row(plan->w, r);
    for (int32_t p = 0; p < plan->n_piece; p++) {
        const struct cpu_piece *s = &plan->piece[p];
        int32_t zero = plan->w->zero ? plan->w->zero[at + s->w_group] : 0;
        if (plan->is_plain) {
            for (int32_t i = s->at; i < s->at + s->n; i++) {
                dst[i] = (int16_t)(code[i] - zero);
            }
            continue;
        }
        for (int32_t i = s->at; i < s->at + s->n; i++) {
            dst[i] = (int16_t)(plan->col[i] < 0 ? 0 : code[plan->col[i]] - zero);
        }
    }
    memset(dst + plan->n_col, 0, (size_t)(words * 2 - plan->n_col) * sizeof(*dst));
}

typedef int32_t v4i __attribute__((vector_size(16)));

/* Four rows of words into four neighbouring lanes of a strip. in: words a multiple of 4 */
static inline void qmm_transpose(const int32_t *const row[4], int64_t words, int32_t *strip) {
    for (int64_t i = 0; i < words; i += 4) {
        v4i a[4];
        for (int32_t j = 0; j < 4; j++) {
            memcpy(&a[j], row[j] + i, sizeof(a[j]));
        }
        v4i lo = __builtin_shufflevector(a[0], a[1], 0, 4, 1, 5);
        v4i hi = __builtin_shufflevector(a[0], a[1], 2, 6, 3, 7);
        v4i lo2 = __builtin_shufflevector(a[2], a[3], 0, 4, 1, 5);
        v4i hi2 = __builtin_shufflevector(a[2], a[3], 2, 6, 3, 7);
        v4i b[4] = {__builtin_shufflevector(lo, lo2, 0, 1, 4, 5),
                    __builtin_shufflevector(lo, lo2, 2, 3, 6, 7),
                    __builtin_shufflevector(hi, hi2, 0, 1, 4, 5),
                    __builtin_shufflevector(hi, hi2, 2, 3, 6, 7)};
        for (int32_t j = 0; j < 4; j++) {
            memcpy(strip + (i + j) * VEC_W, &b[j], sizeof(b[j]));
        }
    }
}

struct qmm_strip {
    const int32_t *word; /* [words, W] */
    const float *scale;  /* [n_piece, W] */
    const int32_t *sum;  /* [n_piece, W] of a row's codes; CPU_FORM_BYTE alone */
};

/* Scales of row r for each piece, stride floats apart. some: scratch [KG] */
static inline void
qmm_scales(const struct cpu_plan *plan, int32_t r, float *scale, int32_t stride, float *some) {
    const struct wmat *w = plan->w;
    int64_t at = scaled_row(w, r);
    int32_t n_group = scaled_n_group(w);
    int32_t done = 0;
    float half = plan->form != CPU_FORM_F32 && w->type == DTYPE_F4 ? 0.5F : 1;
    if (w->scale_type == DTYPE_F8_E4M3) {
        float global = w->global != 0 ? w->global : 1;
        for (; done + VEC_W <= n_group; done += VEC_W) {
            vf_store(some + done, vf_f8((const uint8_t *)w->scale + at + done, true) / global);
        }
    }
    for (; done < n_group; done++) {
        some[done] = dec_scale(w, at + done);
    }
    for (int32_t p = 0; p < plan->n_piece; p++) {
        scale[(int64_t)p * stride] = some[plan->piece[p].w_group] * half;
    }
}

static inline void qmm_sums(const struct cpu_plan *plan, const int32_t *word, int32_t *sum) {
    const vi ones = vi_set1(0x01010101);
    for (int32_t p = 0; p < plan->n_piece; p++) {
        const struct cpu_piece *s = &plan->piece[p];
        vi acc = vi_set1(0);
        for (int32_t i = s->at / 4; i < (s->at + s->n) / 4; i++) {
            vi w;
            memcpy(&w, word + (int64_t)i * VEC_W, sizeof(w));
            acc = qmm_add(CPU_FORM_BYTE, acc, w, ones);
        }
        memcpy(sum + (int64_t)p * VEC_W, &acc, sizeof(acc));
    }
}

/* Rows n0..n0+W-1 as a strip at scratch; a row behind the last is the last again. rows: scratch of
 * cpu_qmm_rows floats */
static inline struct qmm_strip
qmm_load(const struct cpu_plan *plan, int32_t n0, float *scratch, float *rows) {
    int64_t words = cpu_plan_words(plan);
    int64_t scales = (int64_t)plan->n_piece * VEC_W;
    int32_t *word = (int32_t *)scratch;
    float *scale = scratch + words * VEC_W;
    int32_t *sum = (int32_t *)(scale + scales);
    int32_t *ordered = (int32_t *)rows;
    int8_t *stored = (int8_t *)(rows + 4 * words);
    for (int32_t i = 0; i < VEC_W; i += 4) {
        const int32_t *row[4];
        for (int32_t j = 0; j < 4; j++) {
            int32_t r = i32_min(n0 + i + j, plan->w->n - 1);
            const int8_t *code = qmm_codes(plan->w, r, stored);
            void *dst = ordered + j * words;
            if (plan->form == CPU_FORM_BYTE) {
                qmm_row_byte(plan, code, words, dst);
            } else {
                qmm_row_i16(plan, r, code, words, dst);
            }
            row[j] = dst;
            qmm_scales(plan, r, scale + i + j, VEC_W, rows + 4 * words);
        }
        qmm_transpose(row, words, word + i);
    }
    if (plan->form == CPU_FORM_BYTE) {
        qmm_sums(plan, word, sum);
    }
    return (struct qmm_strip){.word = word, .scale = scale, .sum = sum};
}

VEC_INLINE void qmm_finish(const struct cpu_qmm *job, int32_t t, int32_t n, vf v) {
    int32_t lanes = job->plan->w->n - n;
    float *y = job->y + (int64_t)t * job->plan->w->n + n;
    if (job->bias) {
        v = v + vf_load_upto(job->bias + n, lanes);
    }
    if (job->accumulate) {
        v = v + vf_load_upto(y, lanes);
    }
    vf_store_upto(y, v, lanes);
}

/* The code sums of one piece. in: form, nt, nv constants */
VEC_INLINE void qmm_dot(const enum cpu_form form,
                        const uint8_t *x,
                        int64_t ldx,
                        const struct qmm_strip *strip,
                        int32_t first,
                        int32_t last,
                        const int32_t nt,
                        const int32_t nv,
                        vi acc[DOT_T][QMM_STRIPS]) {
    for (int32_t i = first; i < last; i++) {
        vi w[QMM_STRIPS];
        VEC_UNROLL
        for (int32_t v = 0; v < nv; v++) {
            memcpy(&w[v], strip[v].word + (int64_t)i * VEC_W, sizeof(w[v]));
        }
        VEC_UNROLL
        for (int32_t t = 0; t < nt; t++) {
            vi xv = vi_set1(load_word(x + t * ldx + (int64_t)i * 4));
            VEC_UNROLL
            for (int32_t v = 0; v < nv; v++) {
                acc[t][v] = qmm_add(form, acc[t][v], w[v], xv);
            }
        }
    }
}

/* nt rows of x from t by nv strips from row n. in: form, nt, nv constants */
VEC_INLINE void qmm_tile(const enum cpu_form form,
                         const struct cpu_qmm *job,
                         const struct qmm_strip *strip,
                         int32_t t,
                         int32_t n,
                         const int32_t nt,
                         const int32_t nv) {
    const struct cpu_plan *plan = job->plan;
    const int32_t shift = form == CPU_FORM_BYTE ? 2 : 1; /* columns to words */
    int64_t group = (int64_t)t * job->x.n_group;
    vf sum[DOT_T][QMM_STRIPS] = {{{0}}};
    for (int32_t p = 0; p < plan->n_piece; p++) {
        const struct cpu_piece *s = &plan->piece[p];
        vi acc[DOT_T][QMM_STRIPS] = {{{0}}};
        qmm_dot(form, job->x.code + t * job->x.stride, job->x.stride, strip, s->at >> shift,
                (s->at + s->n) >> shift, nt, nv, acc);
        VEC_UNROLL
        for (int32_t i = 0; i < nt; i++) {
            int64_t g = group + (int64_t)i * job->x.n_group + s->x_group;
            VEC_UNROLL
            for (int32_t v = 0; v < nv; v++) {
                vi a = acc[i][v];
                if (form == CPU_FORM_BYTE) {
                    vi w;
                    memcpy(&w, strip[v].sum + (int64_t)p * VEC_W, sizeof(w));
                    a = a - w * job->x.zero[g];
                }
                vf f = __builtin_convertvector(a, vf);
                f = f * vf_load(strip[v].scale + (int64_t)p * VEC_W);
                sum[i][v] += f * job->x.scale[g];
            }
        }
    }
    VEC_UNROLL
    for (int32_t i = 0; i < nt; i++) {
        VEC_UNROLL
        for (int32_t v = 0; v < nv; v++) {
            if (n + v * VEC_W < plan->w->n) {
                qmm_finish(job, t + i, n + v * VEC_W, sum[i][v]);
            }
        }
    }
}

/* All rows of x by nv strips from row n. in: form, nv constants */
VEC_INLINE void qmm_strips(const enum cpu_form form,
                           const struct cpu_qmm *job,
                           const struct qmm_strip *strip,
                           int32_t n,
                           const int32_t nv) {
    int32_t t = 0;
    for (; t + DOT_T <= job->n_tok; t += DOT_T) {
        qmm_tile(form, job, strip, t, n, DOT_T, nv);
    }
    for (; t + 2 <= job->n_tok; t += 2) {
        qmm_tile(form, job, strip, t, n, 2, nv);
    }
    if (t < job->n_tok) {
        qmm_tile(form, job, strip, t, n, 1, nv);
    }
}

VEC_INLINE void qmm_int(
    const enum cpu_form form, const struct cpu_qmm *job, int32_t n0, int32_t n1, float *scratch) {
    const struct cpu_plan *plan = job->plan;
    int64_t size = cpu_qmm_strip(plan, VEC_W);
    int64_t fit = (job->floats - cpu_qmm_rows(plan)) / size;
    int32_t most = (int32_t)i64_min(fit, QMM_STRIPS);
    float *rows = scratch + most * size;
    for (int32_t n = n0; n < n1;) {
        struct qmm_strip strip[QMM_STRIPS];
        int32_t have = (int32_t)i64_min(most, i64_div_up(n1 - n, VEC_W));
        for (int32_t i = 0; i < have; i++) {
            strip[i] = qmm_load(plan, n + i * VEC_W, scratch + i * size, rows);
        }
        if (have == QMM_STRIPS) {
            qmm_strips(form, job, strip, n, QMM_STRIPS);
        } else {
            for (int32_t i = 0; i < have; i++) {
                qmm_strips(form, job, strip + i, n + i * VEC_W, 1);
            }
        }
        n += have * VEC_W;
    }
}

/* Codes of row r as f32, less zero points, in product order. stored [k] */
static inline void qmm_row_f32(const struct cpu_plan *plan, int32_t r, float *stored, float *dst) {
    const struct wmat *w = plan->w;
    bool direct = plan->is_plain && !w->zero;
    float *code = direct ? dst : stored;
    dec_row_codes(w, r, code);
    if (direct) {
        return;
    }
    int64_t at = scaled_row(w, r);
    for (int32_t i = 0; i < plan->n_piece; i++) {
        const struct cpu_piece *s = &plan->piece[i];
        float zero = w->zero ? (float)w->zero[at + s->w_group] : 0;
        for (int32_t c = s->at; c < s->at + s->n; c++) {
            dst[c] = code[plan->col[c]] - zero;
        }
    }
}

/* nt rows of x from t, four weight rows from n at row, their scales [n_piece, 4]. */
static inline void qmm_f32_tile(const struct cpu_qmm *job,
                                const float *row,
                                int64_t ld,
                                const float *scale,
                                int32_t t,
                                int32_t nt,
                                int32_t n) {
    const struct cpu_plan *plan = job->plan;
    const float *x = (const float *)(const void *)(job->x.code + t * job->x.stride);
    int64_t ldx = job->x.stride / 4;
    v4f sum[DOT_T] = {{0}};
    for (int32_t p = 0; p < plan->n_piece; p++) {
        const struct cpu_piece *s = &plan->piece[p];
        v4f out[DOT_T];
        v4f sw;
        memcpy(&sw, scale + (int64_t)p * 4, sizeof(sw));
        dot_tile_any(out, x + s->at, ldx, row + s->at, ld, s->n, nt, 4);
        for (int32_t i = 0; i < nt; i++) {
            sum[i] += out[i] * sw * job->x.scale[(int64_t)(t + i) * job->x.n_group + s->x_group];
        }
    }
    for (int32_t i = 0; i < nt; i++) {
        for (int32_t j = 0; j < i32_min(4, plan->w->n - n); j++) {
            float *y = job->y + (int64_t)(t + i) * plan->w->n + n + j;
            float f = job->bias ? sum[i][j] + job->bias[n + j] : sum[i][j];
            *y = job->accumulate ? f + *y : f;
        }
    }
}

static inline void qmm_f32(const struct cpu_qmm *job, int32_t n0, int32_t n1, float *scratch) {
    const struct cpu_plan *plan = job->plan;
    int64_t ld = i64_div_up(plan->n_col, CPU_VEC_FLOATS) * CPU_VEC_FLOATS;
    int64_t size = cpu_qmm_strip(plan, VEC_W);
    int64_t fit = (job->floats - cpu_qmm_rows(plan)) / size;
    int32_t most = (int32_t)i64_min(fit, QMM_F32_ROWS / 4);
    float *stored = scratch + most * size;
    for (int32_t n = n0; n < n1; n += most * 4) {
        int32_t have = (int32_t)i64_min(most, i64_div_up(n1 - n, 4));
        for (int32_t i = 0; i < have * 4; i++) {
            int32_t r = i32_min(n + i, plan->w->n - 1);
            float *block = scratch + i / 4 * size;
            qmm_row_f32(plan, r, stored, block + i % 4 * ld);
            qmm_scales(plan, r, block + 4 * ld + i % 4, 4, stored);
        }
        for (int32_t t = 0; t < job->n_tok; t += DOT_T) {
            for (int32_t i = 0; i < have; i++) {
                const float *block = scratch + i * size;
                qmm_f32_tile(job, block, ld, block + 4 * ld, t, i32_min(DOT_T, job->n_tok - t),
                             n + 4 * i);
            }
        }
    }
}

static inline void kern_qmm(const struct cpu_qmm *job, int32_t n0, int32_t n1, float *scratch) {
    if (job->plan->form == CPU_FORM_F32) {
        qmm_f32(job, n0, n1, scratch);
        return;
    }
    if (QMM_HAS_BYTES && job->plan->form == CPU_FORM_BYTE) {
        qmm_int(CPU_FORM_BYTE, job, n0, n1, scratch);
        return;
    }
    qmm_int(CPU_FORM_I16, job, n0, n1, scratch);
}

#endif
