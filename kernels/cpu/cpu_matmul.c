/* The matrix product: how weight rows are cut into tiles and items.
 *
 * 1. A tile of weight rows is decoded once and used for all T rows of x. It fills at most MM_L2
 *    bytes with many rows of x, MM_L1 with few, where the tile itself should stay near.
 * 2. Threads share out weight rows, never columns, so no sum is ever split.
 * 3. A product below MM_ALONE multiply-adds is not worth waking a thread. */
#include "engine/base/err.h"
#include "kernels/cpu/cpu_int.h"
#include "kernels/host.h"

enum { ITEMS_PER_THREAD = 4, TILE_ROWS_MAX = 64, TILE_ROWS_FEW = 8, FEW_ROWS = 24 };
enum { MM_ALONE = 1 << 15 };

struct mm_job {
    struct cpu_mm kern;
    const struct backend *be;
    int32_t item_rows; /* weight rows an item */
};

static void mm_range(const void *ctx, int64_t i0, int64_t i1, int32_t thread) {
    const struct mm_job *job = ctx;
    int32_t n = job->kern.w->n;
    int64_t n0 = i0 * job->item_rows;
    int64_t n1 = i64_min(i1 * job->item_rows, n);
    job->be->kern->matmul(&job->kern, (int32_t)n0, (int32_t)n1, cpu_scratch(job->be, thread));
}

static int32_t round_down4(int64_t n) {
    return (int32_t)i64_max(4, n - n % 4);
}

static int check(const struct backend *be, const struct wmat *w, int32_t n_tok) {
    int rc = host_check_weight(w);
    if (rc) {
        return rc;
    }
    if (w->k > be->opts.k_max) {
        return err_set(ERR_RANGE, "weight with %d columns, opened for %d", w->k, be->opts.k_max);
    }
    if (n_tok < 0 || n_tok > be->opts.n_tok_max) {
        return err_set(ERR_RANGE, "%d rows, opened for %d", n_tok, be->opts.n_tok_max);
    }
    return 0;
}

int cpu_matmul(struct backend *be,
               float *y,
               const float *x,
               const struct wmat *w,
               const float *bias,
               int32_t n_tok,
               bool accumulate) {
    int rc = check(be, w, n_tok);
    if (rc) {
        return rc;
    }
    if (w->act.type != ACTQ_NONE) {
        cpu_actq_matmul(be, y, x, w, bias, n_tok, accumulate);
        return 0;
    }
    struct mm_job job = {.be = be};
    job.kern = (struct cpu_mm){
        .y = y, .x = x, .w = w, .bias = bias, .n_tok = n_tok, .accumulate = accumulate};
    job.kern.tile_stride = cpu_row_stride(w->k);
    int64_t fit = i64_min(be->mm_floats / job.kern.tile_stride, TILE_ROWS_MAX);
    job.kern.tile_rows = round_down4(n_tok <= FEW_ROWS ? i64_min(fit, TILE_ROWS_FEW) : fit);
    int64_t share = w->n / (ITEMS_PER_THREAD * (int64_t)cpu_pool_threads(be->pool));
    int64_t rows = n_tok <= FEW_ROWS ? share : i64_min(share, job.kern.tile_rows);
    job.item_rows = round_down4(rows);
    int64_t n_items = i64_div_up(w->n, job.item_rows);
    bool alone = (int64_t)w->n * w->k <= MM_ALONE / i64_max(n_tok, 1);
    cpu_pool_run(be->pool, mm_range, &job, n_items, alone ? n_items : 1);
    return 0;
}
