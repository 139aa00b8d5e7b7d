/* Attention and cache writes: how the work is cut into items for the threads.
 *
 * 1. An item is (sequence, kv head, tile of pairs), numbered so that late tiles, which see the most
 *    positions, come first: the short ones at the end even out the threads.
 * 2. The tile shrinks when there are too few items for the threads. Cuts change no bits: each
 *    (row, head) has its own order. */
#include <string.h>

#include "kernels/cpu/cpu_int.h"
#include "kernels/host.h"

enum { ITEMS_PER_THREAD = 4, KV_ROWS_PARALLEL = 64 };

struct attn_job {
    struct cpu_attn kern;
    const struct backend *be;
    int64_t n_items;
};

struct kv_job {
    const struct backend *be;
    const struct kv_view *kv;
    const float *k;
    const float *v;
    const int32_t *slot;
};

static void
kv_store(const struct kv_job *job, void *base, int64_t row, const float *x, float scale) {
    int32_t dim = job->kv->head_dim;
    if (job->kv->type == DTYPE_F32) {
        memcpy((float *)base + row * dim, x, (size_t)dim * sizeof(float));
        return;
    }
    if (job->kv->type == DTYPE_F16) {
        job->be->kern->to_f16((uint16_t *)base + row * dim, x, dim);
        return;
    }
    for (int32_t d = 0; d < dim; d++) {
        if (job->kv->type == DTYPE_BF16) {
            ((uint16_t *)base)[row * dim + d] = f32_to_bf16(x[d]);
        } else {
            ((uint8_t *)base)[row * dim + d] = f32_to_f8_e4m3(scale != 0 ? x[d] / scale : x[d]);
        }
    }
}

/* Item i is (token, head) = (i / K, i % K). */
static void kv_range(const void *ctx, int64_t i0, int64_t i1, int32_t thread) {
    (void)thread;
    const struct kv_job *job = ctx;
    const struct kv_view *kv = job->kv;
    for (int64_t i = i0; i < i1; i++) {
        int64_t slot = job->slot[i / kv->n_kv_head];
        int64_t head = i % kv->n_kv_head;
        int64_t block = slot / kv->block_tok;
        int64_t row = (block * kv->n_kv_head + head) * kv->block_tok + slot % kv->block_tok;
        kv_store(job, kv->k, row, job->k + i * kv->head_dim, kv->k_scale);
        kv_store(job, kv->v, row, job->v + i * kv->head_dim, kv->v_scale);
    }
}

int cpu_kv_write(struct backend *be,
                 const struct kv_view *kv,
                 const float *k,
                 const float *v,
                 const struct batch *b) {
    int rc = host_check_kv(kv);
    if (rc) {
        return rc;
    }
    struct kv_job job = {.be = be, .kv = kv, .k = k, .v = v, .slot = b->slot};
    int64_t chunk = (int64_t)KV_ROWS_PARALLEL * kv->n_kv_head;
    cpu_pool_run(be->pool, kv_range, &job, (int64_t)b->n_tok * kv->n_kv_head, chunk);
    return 0;
}

/* Pair tiles of one sequence and one kv head. */
static int64_t n_tiles(const struct cpu_attn *job, int32_t seq) {
    int32_t rows = job->b->seq_start[seq + 1] - job->b->seq_start[seq];
    int64_t pairs = (int64_t)rows * (job->n_head / job->kv->n_kv_head);
    return i64_div_up(pairs, job->pair_tile);
}

static void attn_range(const void *ctx, int64_t i0, int64_t i1, int32_t thread) {
    const struct attn_job *job = ctx;
    const struct cpu_attn *kern = &job->kern;
    int32_t n_kv_head = kern->kv->n_kv_head;
    int64_t base = 0;
    for (int32_t seq = kern->b->n_seq - 1; seq >= 0 && base < i1; seq--) {
        int64_t tiles = n_tiles(kern, seq);
        int64_t end = base + tiles * n_kv_head;
        for (int64_t i = i64_max(i0, base); i < i64_min(i1, end); i++) {
            int32_t tile = (int32_t)(tiles - 1 - (i - base) / n_kv_head);
            int32_t head = (int32_t)((i - base) % n_kv_head);
            job->be->kern->attn(kern, seq, head, tile, cpu_scratch(job->be, thread));
        }
        base = end;
    }
}

int cpu_attn(struct backend *be,
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
    struct attn_job job = {.be = be};
    job.kern = (struct cpu_attn){.y = y, .q = q, .kv = kv, .b = b, .args = args, .n_head = n_head};
    job.kern.score_stride = be->score_stride;
    int32_t n_threads = cpu_pool_threads(be->pool);
    int64_t want = (int64_t)ITEMS_PER_THREAD * n_threads;
    int64_t pairs = (int64_t)b->n_tok * n_head;
    job.kern.pair_tile = (int32_t)i64_min(be->pair_tile_max, i64_div_up(pairs, want));
    job.kern.pair_tile = i32_max(job.kern.pair_tile, 1);
    for (int32_t seq = 0; seq < b->n_seq; seq++) {
        job.n_items += n_tiles(&job.kern, seq) * kv->n_kv_head;
    }
    int64_t chunk = n_threads == 1 ? job.n_items : i64_max(1, job.n_items / (want * 4));
    cpu_pool_run(be->pool, attn_range, &job, job.n_items, i64_max(chunk, 1));
    return 0;
}
