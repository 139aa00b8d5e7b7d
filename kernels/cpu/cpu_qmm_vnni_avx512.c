/* The quantized product with the VNNI instructions: four products of bytes, or two of 16 bits, a
 * lane and an instruction. The law and the code are the template's; integer sums are exact, so the
 * bits are those of every other variant.
 *
 * One or two rows of x are not worth the strips: rows of w are then multiplied as they are stored,
 * with the weight as the unsigned side,
 *   sum code w = sum (w + 128) code - 128 sum code
 * where the input has no zero points and pieces are so long that adding up lanes at their ends is
 * cheap. */
#define VEC_W 16
#define QMM_VNNI

#include "kernels/cpu/cpu_qmm.inc.h"

enum { ROW_BYTES = 64, DIRECT_TOK = 2, DIRECT_ROWS = 4, DIRECT_PIECE = 256 };

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
    for (int32_t c = 0; c < s->n; c += ROW_BYTES) {
        __mmask64 mask = byte_mask(s->n - c);
        __m512i x[DIRECT_TOK];
        for (int32_t t = 0; t < nt; t++) {
            x[t] = input_bytes(job, t, s->at + c, s->n - c);
        }
        for (int32_t r = 0; r < DIRECT_ROWS; r++) {
            __m512i w = _mm512_maskz_loadu_epi8(mask, row[r] + s->at + c);
            w = _mm512_add_epi8(w, _mm512_set1_epi8((char)128));
            for (int32_t t = 0; t < nt; t++) {
                acc[t][r] = _mm512_dpbusd_epi32(acc[t][r], w, x[t]);
            }
        }
    }
}

/* Rows n..n+3 of w by nt rows of x. sum from input_sums; in: nt a constant */
VEC_INLINE void direct_rows(const struct cpu_qmm *job,
                            const int8_t *const row[DIRECT_ROWS],
                            int32_t n,
                            const int32_t *sum,
                            const int32_t nt) {
    const struct cpu_plan *plan = job->plan;
    int32_t n_row = i32_min(DIRECT_ROWS, plan->w->n - n);
    float half = plan->w->type == DTYPE_F4 ? 0.5F : 1;
    float y[DIRECT_TOK][DIRECT_ROWS] = {{0}};
    for (int32_t p = 0; p < plan->n_piece; p++) {
        const struct cpu_piece *s = &plan->piece[p];
        __m512i acc[DIRECT_TOK][DIRECT_ROWS];
        memset(acc, 0, sizeof(acc));
        direct_dot(job, s, row, nt, acc);
        for (int32_t r = 0; r < n_row; r++) {
            float sw = dec_scale(plan->w, scaled_row(plan->w, n + r) + s->w_group) * half;
            for (int32_t t = 0; t < nt; t++) {
                int32_t all = _mm512_reduce_add_epi32(acc[t][r]);
                float f = (float)(all - 128 * sum[t * plan->n_piece + p]) * sw;
                y[t][r] += f * job->x.scale[(int64_t)t * job->x.n_group + s->x_group];
            }
        }
    }
    for (int32_t t = 0; t < nt; t++) {
        for (int32_t r = 0; r < n_row; r++) {
            float *out = job->y + (int64_t)t * plan->w->n + n + r;
            float f = job->bias ? y[t][r] + job->bias[n + r] : y[t][r];
            *out = job->accumulate ? f + *out : f;
        }
    }
}

static void direct(const struct cpu_qmm *job, int32_t n0, int32_t n1, float *scratch) {
    const struct cpu_plan *plan = job->plan;
    int32_t *sum = (int32_t *)scratch;
    int8_t *stored = (int8_t *)(sum + job->n_tok * plan->n_piece);
    int64_t stride = i64_div_up(plan->w->k, 16) * 16;
    input_sums(job, sum);
    for (int32_t n = n0; n < n1; n += DIRECT_ROWS) {
        const int8_t *row[DIRECT_ROWS];
        for (int32_t r = 0; r < DIRECT_ROWS; r++) {
            int32_t at = i32_min(n + r, plan->w->n - 1);
            row[r] = qmm_codes(plan->w, at, stored + r * stride);
        }
        if (job->n_tok == 1) {
            direct_rows(job, row, n, sum, 1);
        } else {
            direct_rows(job, row, n, sum, DIRECT_TOK);
        }
    }
}

void cpu_qmm_vnni(const struct cpu_qmm *job, int32_t n0, int32_t n1, float *scratch) {
    const struct cpu_plan *plan = job->plan;
    bool is_long = plan->is_plain && plan->n_col >= (int64_t)plan->n_piece * DIRECT_PIECE;
    if (plan->form == CPU_FORM_BYTE && is_long && job->n_tok <= DIRECT_TOK &&
        !plan->w->act.asymmetric) {
        direct(job, n0, n1, scratch);
        return;
    }
    kern_qmm(job, n0, n1, scratch);
}
