/* Causal attention over the paged cache.
 *
 * An item is a tile of (row, head) pairs that share a sequence and a kv head, so each cache row
 * that is read (and widened, where it is not F32) serves all of them:
 *   1. queries of the tile are packed [pairs, D];
 *   2. scores: register tiles of DOT_T pairs x 4 positions, as in the matrix product;
 *   3. softmax pair by pair;
 *   4. values: register tiles of DOT_T pairs x 4 vectors along D, positions ascending.
 *
 * Law, for one pair at position p that sees s = lo..p:
 *   a_s   W lanes along D, the tree, then * scale, then the soft cap
 *   m     the largest a_s (a NaN is passed over here and comes back through e_s)
 *   e_s   exp(a_s - m)
 *   l     W lanes along s from lo, the rest padded with zeros, then the tree
 *   y_d   sum of e_s v_sd by fused multiply-adds, s ascending from 0, then / l
 * None of it depends on the tile, the other pairs or the cut of the sequence into chunks. */
#ifndef KERNELS_CPU_CPU_ATTN_INC_H
#define KERNELS_CPU_CPU_ATTN_INC_H

#include "kernels/cpu/cpu_elem.inc.h"
#include "kernels/cpu/cpu_gemm.inc.h"

struct attn_tile {
    const struct cpu_attn *job;
    const int32_t *table; /* block ids of the sequence */
    int32_t row0;         /* first batch row of the sequence */
    int32_t group;        /* query heads of a kv head */
    int32_t kv_head;
    int32_t pair0; /* first pair of the tile in the sequence */
    int32_t n_pair;
    int32_t lo;   /* first position any pair sees */
    int32_t hi;   /* one past the last */
    int64_t ldd;  /* D rounded up to the widest vector */
    float *score; /* [n_pair, score_stride]; column s - lo */
    float *query; /* [n_pair, ldd] */
    float *acc;   /* [n_pair, ldd] */
    float *rows;  /* [CPU_POS_TILE, ldd] widened cache rows */
};

VEC_INLINE int32_t pair_row(const struct attn_tile *a, int32_t i) {
    return a->row0 + (a->pair0 + i) / a->group;
}

VEC_INLINE int64_t pair_offset(const struct attn_tile *a, int32_t i) {
    int32_t head = a->kv_head * a->group + (a->pair0 + i) % a->group;
    return ((int64_t)pair_row(a, i) * a->job->n_head + head) * a->job->kv->head_dim;
}

VEC_INLINE int32_t pair_hi(const struct attn_tile *a, int32_t i) {
    return a->job->b->pos[pair_row(a, i)] + 1;
}

VEC_INLINE int32_t pair_lo(const struct attn_tile *a, int32_t i) {
    int32_t window = a->job->args->window;
    return window > 0 ? i32_max(0, pair_hi(a, i) - window) : 0;
}

/* n rows of one side of the cache from position s, all in one block, as f32 rows ld floats apart.
 */
static inline const float *cache_rows(
    const struct attn_tile *a, const void *base, float scale, int32_t s, int32_t n, int64_t *ld) {
    const struct kv_view *kv = a->job->kv;
    int64_t block = a->table[s / kv->block_tok];
    int64_t row = (block * kv->n_kv_head + a->kv_head) * kv->block_tok + s % kv->block_tok;
    if (kv->type == DTYPE_F32) {
        *ld = kv->head_dim;
        return (const float *)base + row * kv->head_dim;
    }
    for (int32_t i = 0; i < n; i++) {
        kern_widen(kv->type, base, (row + i) * kv->head_dim, kv->head_dim, scale,
                   a->rows + i * a->ldd);
    }
    *ld = a->ldd;
    return a->rows;
}

/* Positions from s that lie in one block and one tile. */
VEC_INLINE int32_t piece_len(const struct attn_tile *a, int32_t s) {
    int32_t in_block = a->job->kv->block_tok - s % a->job->kv->block_tok;
    return i32_min(i32_min(in_block, CPU_POS_TILE), a->hi - s);
}

/* Pairs first..last-1 see some position of s0..s1-1: both ends ascend with the row. */
static inline void
pairs_seeing(const struct attn_tile *a, int32_t s0, int32_t s1, int32_t *first, int32_t *last) {
    while (*first < a->n_pair && pair_hi(a, *first) <= s0) {
        (*first)++;
    }
    while (*last < a->n_pair && pair_lo(a, *last) < s1) {
        (*last)++;
    }
}

static inline void score_piece(const struct attn_tile *a,
                               const float *k,
                               int64_t ldk,
                               int32_t s,
                               int32_t n,
                               int32_t first,
                               int32_t last) {
    int32_t dim = a->job->kv->head_dim;
    int64_t ld = a->job->score_stride;
    for (int32_t i = first; i < last; i += DOT_T) {
        int32_t nt = i32_min(DOT_T, last - i);
        const float *q = a->query + i * a->ldd;
        float *out = a->score + i * ld + (s - a->lo);
        v4f sum[DOT_T];
        int32_t j = 0;
        for (; j + 4 <= n; j += 4) {
            dot_tile_any(sum, q, a->ldd, k + j * ldk, ldk, dim, nt, 4);
            for (int32_t t = 0; t < nt; t++) {
                memcpy(out + t * ld + j, &sum[t], sizeof(sum[t]));
            }
        }
        for (; j < n; j++) {
            dot_tile_any(sum, q, a->ldd, k + j * ldk, ldk, dim, nt, 1);
            for (int32_t t = 0; t < nt; t++) {
                out[t * ld + j] = sum[t][0];
            }
        }
    }
}

static inline void attn_scores(const struct attn_tile *a) {
    int32_t first = 0;
    int32_t last = 0;
    for (int32_t s = a->lo; s < a->hi;) {
        int32_t n = piece_len(a, s);
        int64_t ldk = 0;
        const float *k = cache_rows(a, a->job->kv->k, a->job->kv->k_scale, s, n, &ldk);
        pairs_seeing(a, s, s + n, &first, &last);
        score_piece(a, k, ldk, s, n, first, last);
        s += n;
    }
}

VEC_INLINE vf attn_cap(const struct attn_args *args, vf s) {
    s = s * args->scale;
    return args->softcap > 0 ? args->softcap * vf_tanh(s / args->softcap) : s;
}

/* Scores to exponentials in place. out: their sum. in: n >= 1 */
static inline float attn_softmax(const struct attn_args *args, float *s, int32_t n) {
    vf max = vf_set1(-INFINITY);
    int32_t whole = n - n % VEC_W;
    int32_t rest = n - whole;
    for (int32_t i = 0; i < whole; i += VEC_W) {
        vf v = attn_cap(args, vf_load(s + i));
        vf_store(s + i, v);
        max = vf_max(v, max);
    }
    float m = vf_max_lane(max);
    if (rest) {
        vf_storen(s + whole, attn_cap(args, vf_loadn(s + whole, rest)), rest);
        for (int32_t i = whole; i < n; i++) {
            m = s[i] > m ? s[i] : m;
        }
    }
    vf sum = vf_set1(0);
    for (int32_t i = 0; i < whole; i += VEC_W) {
        vf e = vf_exp(vf_load(s + i) - m);
        vf_store(s + i, e);
        sum += e;
    }
    if (rest) {
        vf_storen(s + whole, vf_exp(vf_loadn(s + whole, rest) - m), rest);
        sum += vf_loadn(s + whole, rest);
    }
    return vf_sum(sum);
}

/* acc[t, 0..nv*W) += sum_j p[t,j] v[j,:], j ascending. in: nt, nv constants; the accumulators are
 * padded to whole vectors; lanes: live lanes of the last vector of v */
VEC_INLINE void value_tile(const struct attn_tile *a,
                           float *acc,
                           const float *p,
                           const float *v,
                           int64_t ldv,
                           int32_t n,
                           const int32_t nt,
                           const int32_t nv,
                           int32_t lanes) {
    int64_t lda = a->ldd;
    int64_t ldp = a->job->score_stride;
    vf sum[DOT_T][4];
    VEC_UNROLL
    for (int32_t t = 0; t < nt; t++) {
        VEC_UNROLL
        for (int32_t u = 0; u < nv; u++) {
            sum[t][u] = vf_load(acc + t * lda + u * VEC_W);
        }
    }
    for (int32_t j = 0; j < n; j++) {
        vf w[DOT_T];
        VEC_UNROLL
        for (int32_t t = 0; t < nt; t++) {
            w[t] = vf_set1(p[t * ldp + j]);
        }
        VEC_UNROLL
        for (int32_t u = 0; u < nv; u++) {
            const float *src = v + j * ldv + u * VEC_W;
            vf x = nv == 1 ? vf_load_upto(src, lanes) : vf_load(src);
            VEC_UNROLL
            for (int32_t t = 0; t < nt; t++) {
                sum[t][u] = vf_fma(w[t], x, sum[t][u]);
            }
        }
    }
    VEC_UNROLL
    for (int32_t t = 0; t < nt; t++) {
        VEC_UNROLL
        for (int32_t u = 0; u < nv; u++) {
            vf_store(acc + t * lda + u * VEC_W, sum[t][u]);
        }
    }
}

/* One set of pairs that all see positions s..s+n-1, all of D. in: nt a constant */
VEC_INLINE void value_pairs(const struct attn_tile *a,
                            int32_t i,
                            const int32_t nt,
                            const float *v,
                            int64_t ldv,
                            int32_t s,
                            int32_t n) {
    int32_t dim = a->job->kv->head_dim;
    int64_t ldp = a->job->score_stride;
    const float *p = a->score + i * ldp + (s - a->lo);
    float *acc = a->acc + i * a->ldd;
    int32_t d = 0;
    for (; d + 4 * VEC_W <= dim; d += 4 * VEC_W) {
        value_tile(a, acc + d, p, v + d, ldv, n, nt, 4, VEC_W);
    }
    for (; d + 2 * VEC_W <= dim; d += 2 * VEC_W) {
        value_tile(a, acc + d, p, v + d, ldv, n, nt, 2, VEC_W);
    }
    for (; d < dim; d += VEC_W) {
        value_tile(a, acc + d, p, v + d, ldv, n, nt, 1, dim - d);
    }
}

static inline void value_piece(const struct attn_tile *a,
                               const float *v,
                               int64_t ldv,
                               int32_t s,
                               int32_t n,
                               int32_t first,
                               int32_t last) {
    int32_t i = first;
    while (i < last) {
        bool whole = i + DOT_T <= last && pair_hi(a, i) >= s + n && pair_lo(a, i + DOT_T - 1) <= s;
        if (whole) {
            value_pairs(a, i, DOT_T, v, ldv, s, n);
            i += DOT_T;
            continue;
        }
        int32_t s0 = i32_max(s, pair_lo(a, i));
        int32_t s1 = i32_min(s + n, pair_hi(a, i));
        if (s0 < s1) {
            value_pairs(a, i, 1, v + (s0 - s) * ldv, ldv, s0, s1 - s0);
        }
        i++;
    }
}

static inline void attn_values(const struct attn_tile *a) {
    memset(a->acc, 0, (size_t)(a->n_pair * a->ldd) * sizeof(float));
    int32_t first = 0;
    int32_t last = 0;
    for (int32_t s = a->lo; s < a->hi;) {
        int32_t n = piece_len(a, s);
        int64_t ldv = 0;
        const float *v = cache_rows(a, a->job->kv->v, a->job->kv->v_scale, s, n, &ldv);
        pairs_seeing(a, s, s + n, &first, &last);
        value_piece(a, v, ldv, s, n, first, last);
        s += n;
    }
}

static inline void
kern_attn(const struct cpu_attn *job, int32_t seq, int32_t head, int32_t tile, float *scratch) {
    const struct batch *b = job->b;
    int32_t dim = job->kv->head_dim;
    struct attn_tile a = {.job = job, .kv_head = head, .row0 = b->seq_start[seq]};
    a.table = b->block_table + (int64_t)seq * b->table_stride;
    a.group = job->n_head / job->kv->n_kv_head;
    a.pair0 = tile * job->pair_tile;
    int32_t n_pair = (b->seq_start[seq + 1] - a.row0) * a.group;
    a.n_pair = i32_min(job->pair_tile, n_pair - a.pair0);
    a.ldd = i64_div_up(dim, CPU_VEC_FLOATS) * CPU_VEC_FLOATS;
    a.lo = pair_lo(&a, 0);
    a.hi = pair_hi(&a, a.n_pair - 1);
    a.score = scratch;
    a.query = a.score + job->pair_tile * job->score_stride;
    a.acc = a.query + job->pair_tile * a.ldd;
    a.rows = a.acc + job->pair_tile * a.ldd;
    for (int32_t i = 0; i < a.n_pair; i++) {
        memcpy(a.query + i * a.ldd, job->q + pair_offset(&a, i), (size_t)dim * sizeof(float));
    }
    attn_scores(&a);
    float total[CPU_PAIR_TILE_MAX];
    for (int32_t i = 0; i < a.n_pair; i++) {
        int32_t lo = pair_lo(&a, i);
        total[i] = attn_softmax(job->args, a.score + i * job->score_stride + (lo - a.lo),
                                pair_hi(&a, i) - lo);
    }
    attn_values(&a);
    for (int32_t i = 0; i < a.n_pair; i++) {
        float *y = job->y + pair_offset(&a, i);
        for (int32_t d = 0; d < dim; d++) {
            y[d] = a.acc[i * a.ldd + d] / total[i];
        }
    }
}

#endif
