/* The paged cache and causal attention: the truth.
 *
 * Slot = block * P + offset lies, for kv head h, at element ((block * K + h) * P + offset) * D.
 * For row t at position p and head h, over s = max(0, p - window + 1) .. p:
 *   a_s = scale * q.k_s, or softcap * tanh(that / softcap);  m = max a_s;  e_s = exp(a_s - m)
 *   y = sum_s e_s v_s / sum_s e_s
 * in double, s ascending, one rounding. A NaN score makes the row NaN. A value of an F8_E4M3 cache
 * is code * scale in f32, a code E4M3(value / scale).
 * src: Vaswani et al., "Attention Is All You Need", 2017, eq. 1; soft cap: Gemma 2 report, 2024,
 * section 2; blocks: Kwon et al., "PagedAttention", 2023. */
#include <math.h>
#include <string.h>

#include "kernels/host.h"
#include "kernels/ref/ref_int.h"

static int64_t element(const struct kv_view *kv, int64_t slot, int32_t head) {
    int64_t block = slot / kv->block_tok;
    int64_t offset = slot % kv->block_tok;
    return ((block * kv->n_kv_head + head) * kv->block_tok + offset) * kv->head_dim;
}

/* One side of the cache. */
struct side {
    void *base;
    float scale; /* 0: none */
};

static double load(const struct kv_view *kv, struct side side, int64_t i) {
    if (kv->type == DTYPE_F32) {
        return (double)((const float *)side.base)[i];
    }
    if (kv->type == DTYPE_F8_E4M3) {
        float f = f8_e4m3_to_f32(((const uint8_t *)side.base)[i]);
        return (double)(side.scale != 0 ? f * side.scale : f);
    }
    uint16_t h = ((const uint16_t *)side.base)[i];
    return (double)(kv->type == DTYPE_F16 ? f16_to_f32(h) : bf16_to_f32(h));
}

static void store(const struct kv_view *kv, struct side side, int64_t i, const float *x) {
    for (int32_t d = 0; d < kv->head_dim; d++) {
        if (kv->type == DTYPE_F32) {
            ((float *)side.base)[i + d] = x[d];
        } else if (kv->type == DTYPE_F8_E4M3) {
            float f = side.scale != 0 ? x[d] / side.scale : x[d];
            ((uint8_t *)side.base)[i + d] = f32_to_f8_e4m3(f);
        } else {
            uint16_t *h = (uint16_t *)side.base + i + d;
            *h = kv->type == DTYPE_F16 ? f32_to_f16(x[d]) : f32_to_bf16(x[d]);
        }
    }
}

int ref_kv_write(struct backend *be,
                 const struct kv_view *kv,
                 const float *k,
                 const float *v,
                 const struct batch *b) {
    (void)be;
    int rc = host_check_kv(kv);
    if (rc) {
        return rc;
    }
    for (int32_t t = 0; t < b->n_tok; t++) {
        for (int32_t h = 0; h < kv->n_kv_head; h++) {
            int64_t in = ((int64_t)t * kv->n_kv_head + h) * kv->head_dim;
            int64_t out = element(kv, b->slot[t], h);
            store(kv, (struct side){kv->k, kv->k_scale}, out, k + in);
            store(kv, (struct side){kv->v, kv->v_scale}, out, v + in);
        }
    }
    return 0;
}

struct head {
    const struct kv_view *kv;
    const struct attn_args *args;
    const int32_t *table; /* block ids of the sequence */
    int32_t kv_head;
    int32_t lo; /* first position seen */
    int32_t pos;
};

static int64_t place(const struct head *h, int32_t s) {
    int64_t slot =
        (int64_t)h->table[s / h->kv->block_tok] * h->kv->block_tok + s % h->kv->block_tok;
    return element(h->kv, slot, h->kv_head);
}

static double score(const struct head *h, const float *q, int32_t s) {
    int64_t at = place(h, s);
    double sum = 0;
    for (int32_t d = 0; d < h->kv->head_dim; d++) {
        sum += (double)q[d] * load(h->kv, (struct side){h->kv->k, h->kv->k_scale}, at + d);
    }
    sum *= (double)h->args->scale;
    double cap = (double)h->args->softcap;
    return cap > 0 ? cap * tanh(sum / cap) : sum;
}

static void attend(const struct head *h, const float *q, float *y, double *e) {
    double acc[HOST_HEAD_DIM_MAX] = {0};
    double max = -(double)INFINITY;
    for (int32_t s = h->lo; s <= h->pos; s++) {
        e[s] = score(h, q, s);
        max = e[s] > max ? e[s] : max;
    }
    double total = 0;
    for (int32_t s = h->lo; s <= h->pos; s++) {
        double p = exp(e[s] - max);
        int64_t at = place(h, s);
        total += p;
        for (int32_t d = 0; d < h->kv->head_dim; d++) {
            acc[d] += p * load(h->kv, (struct side){h->kv->v, h->kv->v_scale}, at + d);
        }
    }
    for (int32_t d = 0; d < h->kv->head_dim; d++) {
        y[d] = (float)(acc[d] / total);
    }
}

int ref_attn(struct backend *be,
             float *y,
             const float *q,
             const struct kv_view *kv,
             const struct batch *b,
             int32_t n_head,
             const struct attn_args *args) {
    int rc = host_check_attn(kv, b, n_head, be->opts.ctx_max);
    if (rc) {
        return rc;
    }
    for (int32_t i = 0; i < b->n_seq; i++) {
        for (int32_t t = b->seq_start[i]; t < b->seq_start[i + 1]; t++) {
            int32_t pos = b->pos[t];
            struct head h = {.kv = kv, .args = args, .pos = pos};
            h.table = b->block_table + (int64_t)i * b->table_stride;
            h.lo = args->window > 0 ? i32_max(0, pos - args->window + 1) : 0;
            for (int32_t j = 0; j < n_head; j++) {
                int64_t at = ((int64_t)t * n_head + j) * kv->head_dim;
                h.kv_head = j / (n_head / kv->n_kv_head);
                attend(&h, q + at, y + at, be->score);
            }
        }
    }
    return 0;
}
