/* The product with a quantized input: its plan, the input's codes, and how the work is cut.
 *
 * 1. A plan is made once a call: columns in the order of their weight group (a stable counting sort
 *    under act-order), cut where a scale of either side changes and after CPU_PIECE_MAX columns. It
 *    depends on the matrix alone, so a row's bits depend on the row alone.
 * 2. Input rows are quantized once, as many at a time as the workspace holds.
 * 3. Integers on both sides give an integer form. Groups of a few columns on a long row would not
 *    fit the scratch as strips: they go as f32, in pieces so short that their sums are as exact.
 * 4. Threads share out rows of x, then rows of w, never columns. */
#include "kernels/cpu/cpu_int.h"
#include "kernels/scaled.h"

enum { ITEMS_PER_THREAD = 4, STRIPS_MAX = 4, F32_ROWS_MAX = 64, PAD = 4 };
enum { QUANT_CHUNK = 1 << 14, QMM_ALONE = 1 << 15 };

/* Columns in the order of their group, stable. order [k]; count [KG + 1] */
static void sort_columns(const struct wmat *w, int32_t *order, int32_t *count) {
    int32_t n_group = scaled_n_group(w);
    for (int32_t g = 0; g <= n_group; g++) {
        count[g] = 0;
    }
    for (int32_t c = 0; c < w->k; c++) {
        count[w->g_idx[c] + 1]++;
    }
    for (int32_t g = 0; g < n_group; g++) {
        count[g + 1] += count[g];
    }
    for (int32_t c = 0; c < w->k; c++) {
        order[count[w->g_idx[c]]++] = c;
    }
}

/* Columns from c on, in stored order, that share both scales. */
static int32_t run_length(const struct wmat *w, int32_t x_group, int32_t c) {
    int32_t n = i32_min(w->k - c, w->group - c % w->group);
    return i32_min(n, x_group - c % x_group);
}

static void pad(struct cpu_plan *plan) {
    struct cpu_piece *last = &plan->piece[plan->n_piece - 1];
    while (last->n % PAD != 0) {
        plan->col[plan->n_col++] = -1;
        last->n++;
    }
}

static void make_plan(const struct backend *be,
                      const struct wmat *w,
                      enum cpu_form form,
                      int32_t piece_max,
                      struct cpu_plan *plan) {
    const int32_t *order = w->g_idx ? be->plan_order : NULL;
    int32_t x_group = scaled_n_act_group(w) > 1 ? w->act.group : w->k;
    *plan = (struct cpu_plan){.w = w, .form = form, .piece = be->plan_piece, .col = be->plan_col};
    if (order) {
        sort_columns(w, be->plan_order, be->plan_count);
    }
    for (int32_t i = 0; i < w->k;) {
        int32_t c = order ? order[i] : i;
        int32_t wg = scaled_group(w, c);
        int32_t xg = c / x_group;
        struct cpu_piece *p = plan->n_piece ? &plan->piece[plan->n_piece - 1] : NULL;
        if (!p || p->w_group != wg || p->x_group != xg || p->n >= piece_max) {
            if (p && form != CPU_FORM_F32) {
                pad(plan);
            }
            p = &plan->piece[plan->n_piece++];
            *p = (struct cpu_piece){.at = plan->n_col, .w_group = wg, .x_group = xg};
        }
        int32_t n = i32_min(order ? 1 : run_length(w, x_group, c), piece_max - p->n);
        for (int32_t j = 0; j < n; j++) {
            plan->col[plan->n_col++] = c + j;
        }
        p->n += n;
        i += n;
    }
    if (form != CPU_FORM_F32) {
        pad(plan);
    }
    plan->is_plain = !order && plan->n_col == w->k;
}

static bool is_integer(enum dtype t) {
    return dtype_packed_bits(t) > 0 || t == DTYPE_I8 || t == DTYPE_F4;
}

static void plan_product(const struct backend *be, const struct wmat *w, struct cpu_plan *plan) {
    if (!is_integer(w->type) || w->act.type == ACTQ_F8_E4M3) {
        make_plan(be, w, CPU_FORM_F32, CPU_PIECE_MAX, plan);
        return;
    }
    bool bytes = be->kern->has_bytes && !w->zero;
    make_plan(be, w, bytes ? CPU_FORM_BYTE : CPU_FORM_I16, CPU_PIECE_MAX, plan);
    int64_t need = cpu_qmm_rows(plan) + cpu_qmm_strip(plan, be->kern->n_lane);
    if (need > be->qmm_floats) {
        make_plan(be, w, CPU_FORM_F32, CPU_PIECE_EXACT, plan);
    }
}

struct quant_job {
    const struct backend *be;
    const struct cpu_plan *plan;
    const struct cpu_qx *x;
    const float *rows; /* [T,nk] */
};

static void quant_range(const void *ctx, int64_t i0, int64_t i1, int32_t thread) {
    const struct quant_job *job = ctx;
    const struct wmat *w = job->plan->w;
    const struct cpu_kern *kern = job->be->kern;
    float *code = cpu_scratch(job->be, thread);
    for (int64_t t = i0; t < i1; t++) {
        int64_t g = t * job->x->n_group;
        kern->actq(&w->act, w->k, job->rows + t * w->k, code, job->x->scale + g, job->x->zero + g);
        kern->pack(job->plan, job->x, (int32_t)t, code);
    }
}

struct qmm_job {
    struct cpu_qmm kern;
    const struct backend *be;
    int32_t item_rows;
};

static void qmm_range(const void *ctx, int64_t i0, int64_t i1, int32_t thread) {
    const struct qmm_job *job = ctx;
    int64_t n1 = i64_min(i1 * job->item_rows, job->kern.plan->w->n);
    job->be->kern->qmm(&job->kern, (int32_t)(i0 * job->item_rows), (int32_t)n1,
                       cpu_scratch(job->be, thread));
}

/* Weight rows of an item: whole strips. */
static int32_t item_rows(const struct backend *be, const struct cpu_plan *plan) {
    int32_t unit = plan->form == CPU_FORM_F32 ? 4 : be->kern->n_lane;
    int32_t most = plan->form == CPU_FORM_F32 ? F32_ROWS_MAX : STRIPS_MAX * unit;
    int64_t share = plan->w->n / (ITEMS_PER_THREAD * (int64_t)cpu_pool_threads(be->pool));
    return (int32_t)i64_max(unit, i64_min(most, share - share % unit));
}

/* Places for rows of x, as many as fit. out: their number */
static int32_t place_rows(const struct backend *be, const struct cpu_plan *plan, struct cpu_qx *x) {
    static const int32_t bytes[] = {[CPU_FORM_F32] = 4, [CPU_FORM_I16] = 2, [CPU_FORM_BYTE] = 1};
    x->n_group = scaled_n_act_group(plan->w);
    x->stride = i64_div_up((int64_t)plan->n_col * bytes[plan->form], 4) * 4;
    int64_t rows = be->act_bytes / (x->stride + (int64_t)x->n_group * 8);
    rows = i64_min(rows, be->opts.n_tok_max);
    x->code = be->act;
    x->scale = (float *)(void *)(be->act + rows * x->stride);
    x->zero = (int32_t *)(x->scale + rows * x->n_group);
    return (int32_t)rows;
}

void cpu_actq_matmul(struct backend *be,
                     float *y,
                     const float *x,
                     const struct wmat *w,
                     const float *bias,
                     int32_t n_tok,
                     bool accumulate) {
    struct cpu_plan plan;
    plan_product(be, w, &plan);
    struct qmm_job job = {.be = be, .item_rows = item_rows(be, &plan)};
    job.kern = (struct cpu_qmm){
        .plan = &plan, .bias = bias, .accumulate = accumulate, .floats = be->qmm_floats};
    int32_t most = place_rows(be, &plan, &job.kern.x);
    int64_t n_items = i64_div_up(w->n, job.item_rows);
    for (int32_t t = 0; t < n_tok; t += most) {
        int32_t n = i32_min(most, n_tok - t);
        struct quant_job quant = {
            .be = be, .plan = &plan, .x = &job.kern.x, .rows = x + (int64_t)t * w->k};
        cpu_pool_run(be->pool, quant_range, &quant, n, i64_max(1, QUANT_CHUNK / w->k));
        job.kern.y = y + (int64_t)t * w->n;
        job.kern.n_tok = n;
        bool alone = (int64_t)w->n * w->k <= QMM_ALONE / n;
        cpu_pool_run(be->pool, qmm_range, &job, n_items, alone ? n_items : 1);
    }
}
