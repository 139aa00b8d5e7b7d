/* y = x W^T for stored weights.
 *
 *   for each tile of weight rows (decoded once to f32 scratch, or in place for F32)
 *     for each tile of DOT_T rows of x (stays in L1)
 *       for each 4 rows of the tile: DOT_T x 4 accumulators in registers, k ascending
 *
 * Law: output (t, n) is one accumulator of W lanes over k in steps of W, the rest of k padded with
 * zeros, then the tree over lanes, then + bias, then + the old y. Tiles change which outputs share
 * registers, never the order inside one. */
#ifndef KERNELS_CPU_CPU_GEMM_INC_H
#define KERNELS_CPU_CPU_GEMM_INC_H

#include "kernels/cpu/cpu_dec.inc.h"
#include "kernels/cpu/cpu_kern.h"

/* Rows of x in a register tile: 24 of 32 or 12 of 16 accumulators. */
enum { DOT_T = VEC_W == 16 ? 6 : 3 };

/* out[t] lane r = x[t,:] . w[r,:] for nt x nr outputs. in: nt 1..DOT_T, nr 1 or 4 constants */
VEC_INLINE void dot_tile(v4f *out,
                         const float *x,
                         int64_t ldx,
                         const float *w,
                         int64_t ldw,
                         int32_t k,
                         const int32_t nt,
                         const int32_t nr) {
    vf acc[DOT_T][4] = {{{0}}};
    int32_t i = 0;
    for (; i + VEC_W <= k; i += VEC_W) {
        vf xv[DOT_T];
        VEC_UNROLL
        for (int32_t t = 0; t < nt; t++) {
            xv[t] = vf_load(x + t * ldx + i);
        }
        VEC_UNROLL
        for (int32_t r = 0; r < nr; r++) {
            vf wv = vf_load(w + r * ldw + i);
            VEC_UNROLL
            for (int32_t t = 0; t < nt; t++) {
                acc[t][r] = vf_fma(xv[t], wv, acc[t][r]);
            }
        }
    }
    if (i < k) {
        VEC_UNROLL
        for (int32_t r = 0; r < nr; r++) {
            vf wv = vf_loadn(w + r * ldw + i, k - i);
            VEC_UNROLL
            for (int32_t t = 0; t < nt; t++) {
                acc[t][r] = vf_fma(vf_loadn(x + t * ldx + i, k - i), wv, acc[t][r]);
            }
        }
    }
    VEC_UNROLL
    for (int32_t t = 0; t < nt; t++) {
        out[t] = nr == 4 ? vf_sum4(acc[t][0], acc[t][1], acc[t][2], acc[t][3])
                         : vf_sum4(acc[t][0], acc[t][0], acc[t][0], acc[t][0]);
    }
}

/* dot_tile for a number of rows known at run time. in: nt 1..DOT_T; nr 1 or 4, a constant */
VEC_INLINE void dot_tile_any(v4f *out,
                             const float *x,
                             int64_t ldx,
                             const float *w,
                             int64_t ldw,
                             int32_t k,
                             int32_t nt,
                             const int32_t nr) {
    if (nt == DOT_T) {
        dot_tile(out, x, ldx, w, ldw, k, DOT_T, nr);
        return;
    }
    switch (nt) {
#if VEC_W == 16
    case 5:
        dot_tile(out, x, ldx, w, ldw, k, 5, nr);
        return;
    case 4:
        dot_tile(out, x, ldx, w, ldw, k, 4, nr);
        return;
    case 3:
        dot_tile(out, x, ldx, w, ldw, k, 3, nr);
        return;
#endif
    case 2:
        dot_tile(out, x, ldx, w, ldw, k, 2, nr);
        return;
    default:
        dot_tile(out, x, ldx, w, ldw, k, 1, nr);
    }
}

/* y[n..n+nr) of row t: the sums, then bias, then the old value. */
VEC_INLINE void
mm_finish(const struct cpu_mm *job, int32_t t, int32_t n, v4f sum, const int32_t nr) {
    float *y = job->y + (int64_t)t * job->w->n + n;
    v4f v = sum;
    if (nr == 4) {
        v4f add;
        if (job->bias) {
            memcpy(&add, job->bias + n, sizeof(add));
            v += add;
        }
        if (job->accumulate) {
            memcpy(&add, y, sizeof(add));
            v += add;
        }
        memcpy(y, &v, sizeof(v));
        return;
    }
    float f = v[0];
    f = job->bias ? f + job->bias[n] : f;
    *y = job->accumulate ? f + *y : f;
}

/* One row of x, decoding and multiplying in one pass. in: dec_whole(w) */
static inline void mm_single(const struct cpu_mm *job, int32_t n0, int32_t n1) {
    const struct dec_fns *fns = dec_find(job->w->type);
    int32_t n = n0;
    for (; n + 4 <= n1; n += 4) {
        mm_finish(job, 0, n, fns->dot4(job->w, n, job->x), 4);
    }
    for (; n < n1; n++) {
        mm_finish(job, 0, n, fns->dot1(job->w, n, job->x), 1);
    }
}

/* nt rows of x from t, all rows n0..n1-1 of w, whose f32 form starts at w. */
static inline void mm_rows(const struct cpu_mm *job,
                           int32_t t,
                           int32_t nt,
                           const float *w,
                           int64_t ldw,
                           int32_t n0,
                           int32_t n1) {
    int32_t k = job->w->k;
    const float *x = job->x + (int64_t)t * k;
    v4f out[DOT_T];
    int32_t n = n0;
    for (; n + 4 <= n1; n += 4) {
        dot_tile_any(out, x, k, w + (n - n0) * ldw, ldw, k, nt, 4);
        for (int32_t i = 0; i < nt; i++) {
            mm_finish(job, t + i, n, out[i], 4);
        }
    }
    for (; n < n1; n++) {
        dot_tile_any(out, x, k, w + (n - n0) * ldw, ldw, k, nt, 1);
        for (int32_t i = 0; i < nt; i++) {
            mm_finish(job, t + i, n, out[i], 1);
        }
    }
}

static inline void kern_matmul(const struct cpu_mm *job, int32_t n0, int32_t n1, float *scratch) {
    const struct wmat *w = job->w;
    if (job->n_tok == 1 && dec_whole(w)) {
        mm_single(job, n0, n1);
        return;
    }
    bool in_place = w->type == DTYPE_F32 && w->row_bytes % 4 == 0;
    for (int32_t n = n0; n < n1; n += job->tile_rows) {
        int32_t end = i32_min(n + job->tile_rows, n1);
        const float *tile = scratch;
        int64_t ldw = job->tile_stride;
        if (in_place) {
            ldw = w->row_bytes / 4;
            tile = (const float *)w->data + n * ldw;
        } else {
            for (int32_t r = n; r < end; r++) {
                dec_any_row(w, r, scratch + (r - n) * ldw);
            }
        }
        for (int32_t t = 0; t < job->n_tok; t += DOT_T) {
            mm_rows(job, t, i32_min(DOT_T, job->n_tok - t), tile, ldw, n, end);
        }
    }
}

#endif
