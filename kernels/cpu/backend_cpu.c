/* The CPU backend: opening, workspace, and the ops that are cut by rows or elements.
 *
 * 1. All workspace is made by open: per thread one area that holds either decoded weight rows or
 *    the scores, queries, sums and cache rows of an attention tile.
 * 2. Small ops stay in the caller; an op is shared out only when it outlives a wake-up.
 * 3. The variant is fixed at open; every function of its table keeps the order of sums. */
#include "kernels/cpu/backend_cpu.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/base/mem.h"
#include "kernels/cpu/cpu_int.h"
#include "kernels/cpu/cpu_isa.h"
#include "kernels/host.h"

enum {
    MM_FLOATS = 64 * 1024,     /* decoded weight rows of a thread: 256 KiB, a share of L2 */
    QMM_ROWS = 16,             /* that a strip of quantized rows takes at most, in groups of 16 */
    ACT_BYTES = 4 << 20,       /* quantized input rows: as many as fit, at least one */
    SCORE_FLOATS = 128 * 1024, /* scores of a tile: 512 KiB */
    PAIR_TILE_MIN = 6,
    ELEMENTS_CHUNK = 16 * 1024, /* floats of an elementwise op that are worth a thread */
    ROOF_BYTES = 256 << 20,
    ROOF_NS = 100000000,
    ROOF_ROUNDS = 1 << 16,
};

static void cpu_close(struct backend *be) {
    if (!be) {
        return;
    }
    cpu_pool_destroy(be->pool);
    mem_free(be->scratch);
    mem_free(be->act);
    mem_free(be->plan_piece);
    mem_free(be->plan_col);
    mem_free(be->plan_order);
    mem_free(be->plan_count);
    mem_free(be);
}

/* Sizes of the workspace of one thread. err: ERR_RANGE when they overflow */
static int plan_scratch(struct backend *be) {
    const struct backend_opts *o = &be->opts;
    be->mm_floats = i64_max(MM_FLOATS, 4 * cpu_row_stride(o->k_max));
    be->qmm_floats = i64_max(MM_FLOATS, QMM_ROWS * cpu_row_stride(o->k_max));
    be->score_stride = i64_div_up(o->ctx_max, CPU_VEC_FLOATS) * CPU_VEC_FLOATS + CPU_VEC_FLOATS;
    int64_t pairs = i64_max(SCORE_FLOATS / be->score_stride, PAIR_TILE_MIN);
    be->pair_tile_max = (int32_t)i64_min(pairs, CPU_PAIR_TILE_MAX);
    int64_t attn = cpu_attn_scratch(be->pair_tile_max, be->score_stride, HOST_HEAD_DIM_MAX);
    int64_t floats = i64_max(be->qmm_floats, attn);
    be->scratch_stride = i64_div_up(floats, CPU_VEC_FLOATS) * CPU_VEC_FLOATS;
    be->scratch = mem_array(MEM_KERNEL, be->scratch_stride,
                            cpu_pool_threads(be->pool) * (int64_t)sizeof(float));
    return be->scratch ? 0 : ERR_NOMEM;
}

/* Workspace of quantized inputs: a row has at most 4 k columns of 2 bytes or k of 4, and k groups.
 */
static int plan_quantized(struct backend *be) {
    int64_t k = be->opts.k_max;
    int64_t row = 16 * k + CPU_VEC_FLOATS;
    be->act_bytes = i64_max(row, i64_min(ACT_BYTES, row * be->opts.n_tok_max));
    be->act = mem_array(MEM_KERNEL, be->act_bytes, 1);
    be->plan_piece = mem_array(MEM_KERNEL, k, (int64_t)sizeof(*be->plan_piece));
    be->plan_col = mem_array(MEM_KERNEL, 4 * k, (int64_t)sizeof(int32_t));
    be->plan_order = mem_array(MEM_KERNEL, k, (int64_t)sizeof(int32_t));
    be->plan_count = mem_array(MEM_KERNEL, k + 1, (int64_t)sizeof(int32_t));
    bool ok = be->act && be->plan_piece && be->plan_col && be->plan_order && be->plan_count;
    return ok ? 0 : ERR_NOMEM;
}

static int cpu_open(const struct backend_opts *opts, struct backend **out) {
    const struct cpu_kern *kern = NULL;
    int rc = host_check_opts(opts);
    if (rc) {
        return rc;
    }
    rc = cpu_isa_find(opts->variant, &kern);
    if (rc) {
        return rc;
    }
    struct backend *be = mem_calloc(MEM_KERNEL, (int64_t)sizeof(*be));
    if (!be) {
        return ERR_NOMEM;
    }
    be->kern = kern;
    be->opts = *opts;
    be->opts.variant = kern->name;
    rc = cpu_pool_create(opts->n_threads, &be->pool);
    if (rc) {
        goto out_be;
    }
    rc = plan_scratch(be);
    rc = rc ? rc : plan_quantized(be);
    if (rc) {
        goto out_be;
    }
    int32_t n = cpu_pool_threads(be->pool);
    snprintf(be->text, sizeof(be->text), "%s, %d thread%s", kern->name, n, n == 1 ? "" : "s");
    *out = be;
    return 0;

out_be:
    cpu_close(be);
    return rc;
}

static const char *cpu_describe(struct backend *be) {
    return be->text;
}

const char *backend_cpu_variant(int32_t i) {
    const struct cpu_kern *kern = cpu_isa_at(i);
    return kern ? kern->name : NULL;
}

/* Rows that make one chunk of at least ELEMENTS_CHUNK floats. */
static int64_t chunk_rows(int64_t dim) {
    return i64_max(1, ELEMENTS_CHUNK / i64_max(dim, 1));
}

struct embed_job {
    const struct cpu_kern *kern;
    float *y;
    const struct wmat *table;
    const int32_t *tok;
    float scale;
};

static void embed_range(const void *ctx, int64_t i0, int64_t i1, int32_t thread) {
    (void)thread;
    const struct embed_job *job = ctx;
    for (int64_t t = i0; t < i1; t++) {
        float *row = job->y + t * job->table->k;
        job->kern->decode(job->table, job->tok[t], row);
        job->kern->scale(row, job->scale, job->table->k);
    }
}

static int cpu_embed(struct backend *be,
                     float *y,
                     const struct wmat *table,
                     const int32_t *tok,
                     int32_t n_tok,
                     float scale) {
    int rc = host_check_weight(table);
    if (rc) {
        return rc;
    }
    rc = host_check_tok(table, tok, n_tok);
    if (rc) {
        return rc;
    }
    struct embed_job job = {.kern = be->kern, .y = y, .table = table, .tok = tok, .scale = scale};
    cpu_pool_run(be->pool, embed_range, &job, n_tok, chunk_rows(table->k));
    return 0;
}

struct norm_job {
    const struct cpu_kern *kern;
    struct cpu_norm norm;
    struct cpu_rope rope;
};

static void rmsnorm_range(const void *ctx, int64_t i0, int64_t i1, int32_t thread) {
    (void)thread;
    const struct norm_job *job = ctx;
    job->kern->rmsnorm(&job->norm, i0, i1);
}

static int cpu_rmsnorm(struct backend *be,
                       float *y,
                       const float *x,
                       const float *w,
                       int32_t n_tok,
                       int32_t dim,
                       float eps,
                       float w_offset) {
    struct norm_job job = {.kern = be->kern};
    job.norm =
        (struct cpu_norm){.y = y, .x = x, .w = w, .dim = dim, .eps = eps, .w_offset = w_offset};
    cpu_pool_run(be->pool, rmsnorm_range, &job, n_tok, chunk_rows(dim));
    return 0;
}

static void norm_rope_range(const void *ctx, int64_t i0, int64_t i1, int32_t thread) {
    (void)thread;
    const struct norm_job *job = ctx;
    job->kern->norm_rope(&job->rope, i0, i1);
}

static int cpu_norm_rope(struct backend *be,
                         float *x,
                         const float *w,
                         float eps,
                         float w_offset,
                         const float *cos_sin,
                         const int32_t *pos,
                         int32_t n_tok,
                         int32_t n_head,
                         int32_t head_dim) {
    int rc = host_check_rope(pos, n_tok, head_dim, be->opts.ctx_max);
    if (rc) {
        return rc;
    }
    struct norm_job job = {.kern = be->kern};
    job.rope = (struct cpu_rope){.x = x,
                                 .w = w,
                                 .cos_sin = cos_sin,
                                 .pos = pos,
                                 .n_head = n_head,
                                 .head_dim = head_dim,
                                 .eps = eps,
                                 .w_offset = w_offset};
    cpu_pool_run(be->pool, norm_rope_range, &job, (int64_t)n_tok * n_head, chunk_rows(head_dim));
    return 0;
}

struct act_job {
    const struct cpu_kern *kern;
    struct cpu_act act;
};

static void act_range(const void *ctx, int64_t i0, int64_t i1, int32_t thread) {
    (void)thread;
    const struct act_job *job = ctx;
    job->kern->act_mul(&job->act, i0, i1);
}

static int cpu_act_mul(
    struct backend *be, float *y, const float *gate, const float *up, int64_t n, enum act act) {
    struct act_job job = {.kern = be->kern, .act = {.y = y, .gate = gate, .up = up, .act = act}};
    cpu_pool_run(be->pool, act_range, &job, n, ELEMENTS_CHUNK);
    return 0;
}

static int cpu_add(struct backend *be, float *y, const float *x, int64_t n) {
    be->kern->add(y, x, 0, n);
    return 0;
}

static int cpu_gather(
    struct backend *be, float *y, const float *x, const int32_t *row, int32_t n_row, int32_t dim) {
    (void)be;
    for (int32_t r = 0; r < n_row; r++) {
        memmove(y + (int64_t)r * dim, x + (int64_t)row[r] * dim, (size_t)dim * sizeof(float));
    }
    return 0;
}

struct cap_job {
    const struct cpu_kern *kern;
    float *y;
    float cap;
};

static void softcap_range(const void *ctx, int64_t i0, int64_t i1, int32_t thread) {
    (void)thread;
    const struct cap_job *job = ctx;
    job->kern->softcap(job->y, job->cap, i0, i1);
}

static int cpu_softcap(struct backend *be, float *y, int64_t n, float cap) {
    struct cap_job job = {.kern = be->kern, .y = y, .cap = cap};
    cpu_pool_run(be->pool, softcap_range, &job, n, ELEMENTS_CHUNK);
    return 0;
}

struct scatter_job {
    const struct cpu_kern *kern;
    float *y;
    const float *x;
    const int32_t *row;
    const float *weight;
    int32_t dim;
};

static void scatter_range(const void *ctx, int64_t i0, int64_t i1, int32_t thread) {
    (void)thread;
    const struct scatter_job *job = ctx;
    for (int64_t r = i0; r < i1; r++) {
        job->kern->add_scaled(job->y + (int64_t)job->row[r] * job->dim, job->x + r * job->dim,
                              job->weight[r], job->dim);
    }
}

static int cpu_scatter_add(struct backend *be,
                           float *y,
                           const float *x,
                           const int32_t *row,
                           const float *weight,
                           int32_t n_row,
                           int32_t dim) {
    struct scatter_job job = {
        .kern = be->kern, .y = y, .x = x, .row = row, .weight = weight, .dim = dim};
    cpu_pool_run(be->pool, scatter_range, &job, n_row, chunk_rows(dim));
    return 0;
}

struct roof_job {
    const struct backend *be;
    const float *data;
    float *sink; /* [n_threads * CPU_VEC_FLOATS] keeps the results alive */
};

static void roof_spin(const void *ctx, int64_t i0, int64_t i1, int32_t thread) {
    const struct roof_job *job = ctx;
    job->be->kern->spin((i1 - i0) * ROOF_ROUNDS, job->sink + thread * CPU_VEC_FLOATS);
}

static void roof_read(const void *ctx, int64_t i0, int64_t i1, int32_t thread) {
    const struct roof_job *job = ctx;
    job->sink[thread * CPU_VEC_FLOATS] = job->be->kern->read(job->data + i0, i1 - i0);
}

/* Best seconds of several runs within ROOF_NS. */
static double best_seconds(const struct roof_job *job, cpu_pool_fn *fn, int64_t n, int64_t chunk) {
    int64_t start = clock_now_ns();
    int64_t best = INT64_MAX;
    do {
        int64_t t = clock_now_ns();
        cpu_pool_run(job->be->pool, fn, job, n, chunk);
        best = i64_min(best, clock_now_ns() - t);
    } while (clock_now_ns() - start < ROOF_NS);
    return (double)best * 1e-9;
}

int backend_cpu_roof(struct backend *be, struct cpu_roof *out) {
    struct roof_job job = {.be = be};
    int32_t n_threads = cpu_pool_threads(be->pool);
    int64_t n = ROOF_BYTES / (int64_t)sizeof(float);
    float *data = mem_array(MEM_KERNEL, n, (int64_t)sizeof(float));
    job.sink = mem_array(MEM_KERNEL, (int64_t)n_threads * CPU_VEC_FLOATS, (int64_t)sizeof(float));
    if (!data || !job.sink) {
        mem_free(data);
        mem_free(job.sink);
        return ERR_NOMEM;
    }
    for (int64_t i = 0; i < n; i += 64) {
        data[i] = 1; /* why: pages that were never written all map to one zero page */
    }
    job.data = data;
    int64_t rounds = (int64_t)n_threads * 16;
    double flops = be->kern->spin(ROOF_ROUNDS, job.sink) * (double)rounds;
    out->gflops = flops / best_seconds(&job, roof_spin, rounds, 1) * 1e-9;
    out->gbytes = (double)ROOF_BYTES / best_seconds(&job, roof_read, n, 1 << 16) * 1e-9;
    mem_free(data);
    mem_free(job.sink);
    return 0;
}

const struct backend_ops backend_cpu = {
    .name = "cpu",
    .open = cpu_open,
    .close = cpu_close,
    .describe = cpu_describe,
    .supports_weight = host_supports_weight,
    .supports_kv = host_supports_kv,
    .buf_alloc = host_buf_alloc,
    .buf_free = host_buf_free,
    .copy_in = host_copy,
    .copy_out = host_copy,
    .sync = host_sync,
    .embed = cpu_embed,
    .rmsnorm = cpu_rmsnorm,
    .matmul = cpu_matmul,
    .norm_rope = cpu_norm_rope,
    .kv_write = cpu_kv_write,
    .kv_copy = host_kv_copy,
    .attn = cpu_attn,
    .act_mul = cpu_act_mul,
    .add = cpu_add,
    .gather = cpu_gather,
    .softcap = cpu_softcap,
    .route = host_route,
    .scatter_add = cpu_scatter_add,
};
