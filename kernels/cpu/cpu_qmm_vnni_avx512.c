/* The quantized product with the VNNI instructions: four products of bytes, or two of 16 bits, a
 * lane and an instruction. The law and the code are the template's; integer sums are exact, so the
 * bits are those of every other variant.
 *
 * One or two rows of x are not worth the strips: rows of w are then multiplied as they are stored,
 * with the weight as the unsigned side,
 *   sum code w = sum (w + 128) code - 128 sum code
 * where the input has no zero points and pieces are long enough for whole vectors. */
#define VEC_W 16
#define QMM_VNNI

#include "kernels/cpu/cpu_qmm.inc.h"

enum { ROW_BYTES = 64, DIRECT_TOK = 2, DIRECT_ROWS = 4 };

static __mmask64 byte_mask(int32_t n) {
    return n >= ROW_BYTES ? ~(__mmask64)0 : (((__mmask64)1 << n) - 1);
}

/* Codes of x from byte i of row t, signed; zero from lane n on. */
VEC_INLINE __m512i input_bytes(const struct cpu_qmm *job, int32_t t, int32_t i, int32_t n) {
    __mmask64 mask = byte_mask(n);
    __m512i x = _mm512_maskz_loadu_epi8(mask, job->x.code + t * job->x.stride + i);
    return _mm512_maskz_sub_epi8(mask, x, _mm512_set1_epi8((char)128));
}

/* Code sums of every piece of the rows of x. sum [T, n_piece] */
static void input_sums(const struct cpu_qmm *job, int32_t *sum) {
    const struct cpu_plan *plan = job->plan;
    for (int32_t i = 0; i < job->n_tok * plan->n_piece; i++) {
        const struct cpu_piece *s = &plan->piece[i % plan->n_piece];
        __m512i acc = _mm512_setzero_si512();
        for (int32_t c = 0; c < s->n; c += ROW_BYTES) {
            __m512i x = input_bytes(job, i / plan->n_piece, s->at + c, s->n - c);
            acc = _mm512_dpbusd_epi32(acc, _mm512_set1_epi8(1), x);
        }
        sum[i] = _mm512_reduce_add_epi32(acc);
    }
}

/* Sums of code products of piece s: four weight rows by nt rows of x. in: nt a constant */
VEC_INLINE void direct_dot(const struct cpu_qmm *job,
                           const struct cpu_piece *s,
                           const int8_t *const row[DIRECT_ROWS],
                           const int32_t nt,
                           __m512i acc[DIRECT_TOK][DIRECT_ROWS]) {
    VEC_UNROLL
    for (int32_t i = 0; i < nt * DIRECT_ROWS; i++) {
        acc[i / DIRECT_ROWS][i % DIRECT_ROWS] = _mm512_setzero_si512();
    }
    for (int32_t c = 0; c < s->n; c += ROW_BYTES) {
        __mmask64 mask = byte_mask(s->n - c);
        __m512i x[DIRECT_TOK];
        VEC_UNROLL
        for (int32_t t = 0; t < nt; t++) {
            x[t] = input_bytes(job, t, s->at + c, s->n - c);
        }
        VEC_UNROLL
        for (int32_t r = 0; r < DIRECT_ROWS; r++) {
            __m512i w = _mm512_maskz_loadu_epi8(mask, row[r] + s->at + c);
            w = _mm512_add_epi8(w, _mm512_set1_epi8((char)128));
            VEC_UNROLL
            for (int32_t t = 0; t < nt; t++) {
                acc[t][r] = _mm512_dpbusd_epi32(acc[t][r], w, x[t]);
            }
        }
    }
}

/* The sums over lanes of four vectors. */
VEC_INLINE v4i lane_sums(const __m512i v[DIRECT_ROWS]) {
    __m512i ab =
        _mm512_add_epi32(_mm512_unpacklo_epi32(v[0], v[1]), _mm512_unpackhi_epi32(v[0], v[1]));
    __m512i cd =
        _mm512_add_epi32(_mm512_unpacklo_epi32(v[2], v[3]), _mm512_unpackhi_epi32(v[2], v[3]));
    __m512i all = _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
    __m256i half = _mm256_add_epi32(_mm512_castsi512_si256(all), _mm512_extracti64x4_epi64(all, 1));
    return (v4i)_mm_add_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
}

/* Rows n..n+3 of w by nt rows of x. sum from input_sums; scale [n_piece, 4]; in: nt a constant */
VEC_INLINE void direct_rows(const struct cpu_qmm *job,
                            const int8_t *const row[DIRECT_ROWS],
                            const float *scale,
                            int32_t n,
                            const int32_t *sum,
                            const int32_t nt) {
    const struct cpu_plan *plan = job->plan;
    v4f y[DIRECT_TOK] = {{0}};
    for (int32_t p = 0; p < plan->n_piece; p++) {
        const struct cpu_piece *s = &plan->piece[p];
        __m512i acc[DIRECT_TOK][DIRECT_ROWS];
        v4f sw;
        memcpy(&sw, scale + (int64_t)p * DIRECT_ROWS, sizeof(sw));
        direct_dot(job, s, row, nt, acc);
        VEC_UNROLL
        for (int32_t t = 0; t < nt; t++) {
            v4i all = lane_sums(acc[t]) - 128 * sum[t * plan->n_piece + p];
            v4f f = __builtin_convertvector(all, v4f) * sw;
            y[t] += f * job->x.scale[(int64_t)t * job->x.n_group + s->x_group];
        }
    }
    for (int32_t t = 0; t < nt; t++) {
        for (int32_t r = 0; r < i32_min(DIRECT_ROWS, plan->w->n - n); r++) {
            float *out = job->y + (int64_t)t * plan->w->n + n + r;
            float f = job->bias ? y[t][r] + job->bias[n + r] : y[t][r];
            *out = job->accumulate ? f + *out : f;
        }
    }
}

/* scratch: input sums, [n_piece, 4] scales, four rows of codes, the scales of a row on their way */
static void direct(const struct cpu_qmm *job, int32_t n0, int32_t n1, float *scratch) {
    const struct cpu_plan *plan = job->plan;
    int32_t *sum = (int32_t *)scratch;
    float *scale = scratch + (int64_t)DIRECT_TOK * plan->n_piece;
    int8_t *stored = (int8_t *)(scale + (int64_t)DIRECT_ROWS * plan->n_piece);
    int64_t stride = i64_div_up(plan->w->k, 16) * 16;
    float *some = (float *)(void *)(stored + DIRECT_ROWS * stride);
    input_sums(job, sum);
    for (int32_t n = n0; n < n1; n += DIRECT_ROWS) {
        const int8_t *row[DIRECT_ROWS];
        for (int32_t r = 0; r < DIRECT_ROWS; r++) {
            int32_t at = i32_min(n + r, plan->w->n - 1);
            row[r] = qmm_codes(plan->w, at, stored + r * stride);
            qmm_scales(plan, at, scale + r, DIRECT_ROWS, some);
        }
        if (job->n_tok == 1) {
            direct_rows(job, row, scale, n, sum, 1);
        } else {
            direct_rows(job, row, scale, n, sum, DIRECT_TOK);
        }
    }
}

void cpu_qmm_vnni(const struct cpu_qmm *job, int32_t n0, int32_t n1, float *scratch) {
    const struct cpu_plan *plan = job->plan;
    bool is_long = plan->is_plain && plan->n_col >= (int64_t)plan->n_piece * ROW_BYTES;
    if (plan->form == CPU_FORM_BYTE && is_long && job->n_tok <= DIRECT_TOK &&
        !plan->w->act.asymmetric) {
        direct(job, n0, n1, scratch);
        return;
    }
    kern_qmm(job, n0, n1, scratch);
}
