/* One window at a time goes to every engine as a scoring request. The engines have one token
 * budget, so step i of each covers the same positions: the base steps first and leaves its rows in
 * a buffer of one step, then the others step and compare.
 *
 * KL(p || q) = sum_v p_v (ln p_v - ln q_v), over the whole vocabulary, doubles. */
#include "harness/evaluate.h"

#include <math.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/base/mem.h"
#include "engine/sched/seq.h"
#include "reports/stat.h"

struct run {
    const struct evaluate_job *job;
    struct evaluate_out *out;
    const struct ppl_window *win;
    int64_t at;      /* index of the window's first target among all scored */
    float *rows;     /* own, [batch_tok_max, V] base logits of its last step */
    double *lse;     /* own, [batch_tok_max] */
    int32_t *top;    /* own, [batch_tok_max] */
    int32_t row_pos; /* position of rows[0] */
    int32_t n_row;
};

struct view {
    struct run *run;
    int32_t model;
};

static int32_t argmax(const float *x, int32_t n) {
    int32_t best = 0;
    for (int32_t i = 1; i < n; i++) {
        best = x[i] > x[best] ? i : best;
    }
    return best;
}

static void
keep_base_row(struct run *r, int32_t pos, const float *logits, int32_t vocab, double lse) {
    if (r->n_row == 0) {
        r->row_pos = pos;
    }
    memcpy(r->rows + (int64_t)r->n_row * vocab, logits, (size_t)vocab * sizeof *logits);
    r->lse[r->n_row] = lse;
    r->top[r->n_row] = argmax(logits, vocab);
    r->n_row++;
}

static double
divergence(const float *p, double p_lse, const float *q, double q_lse, int32_t vocab) {
    double sum = 0;
    for (int32_t i = 0; i < vocab; i++) {
        double lp = (double)p[i] - p_lse;
        double share = exp(lp);
        if (share > 0) { /* why: the limit of p ln p is 0, which -inf would not give */
            sum += share * (lp - ((double)q[i] - q_lse));
        }
    }
    return sum;
}

static int take_row(void *ctx, int32_t pos, const float *logits, int32_t vocab) {
    const struct view *v = ctx;
    struct run *r = v->run;
    const struct evaluate_job *job = r->job;
    int64_t target = r->win->begin + pos + 1;
    if (target >= r->win->end) {
        return 0; /* the row behind the last target predicts nothing that is scored */
    }
    double lse = sampler_logsumexp(logits, vocab);
    int64_t i = r->at + target - r->win->score_from;
    struct evaluate_out *o = &r->out[v->model];
    o->nll[i] = lse - (double)logits[job->ids[target]];
    if (!isfinite(o->nll[i])) {
        return err_set(ERR_NUMERIC, "loss at token %lld is %g", (long long)target, o->nll[i]);
    }
    if (job->base < 0) {
        return 0;
    }
    if (v->model == job->base) {
        keep_base_row(r, pos, logits, vocab, lse);
        o->kl[i] = 0;
        o->same[i] = 1;
        return 0;
    }
    int32_t row = pos - r->row_pos;
    if (row < 0 || row >= r->n_row) {
        return err_set(ERR_INTERNAL, "base and model step out of line at position %d", pos);
    }
    o->kl[i] = divergence(r->rows + (int64_t)row * vocab, r->lse[row], logits, lse, vocab);
    o->same[i] = argmax(logits, vocab) == r->top[row];
    return isfinite(o->kl[i]) ? 0
                              : err_set(ERR_NUMERIC, "divergence at token %lld is %g",
                                        (long long)target, o->kl[i]);
}

/* Steps one engine once. out: *over when its request has ended */
static int step(struct engine *e, bool *over) {
    struct event ev;
    bool busy = false;
    int rc = engine_step(e, &busy);
    while (!rc && engine_poll(e, &ev, 1) == 1) {
        if (ev.kind == EVENT_END) {
            *over = true;
            if (ev.finish != FINISH_SCORED) {
                rc = err_set(ERR_NUMERIC, "scoring ended early: %s", err_msg());
            }
        }
    }
    return rc;
}

static int submit(struct run *r, struct view *views) {
    const struct evaluate_job *job = r->job;
    int32_t n = (int32_t)(r->win->end - r->win->begin);
    int32_t from = (int32_t)(r->win->score_from - 1 - r->win->begin);
    int rc = 0;
    for (int32_t m = 0; m < job->n_model && !rc; m++) {
        uint64_t id = 0;
        struct engine_request q = {.ids = job->ids + r->win->begin,
                                   .n_ids = n - 1, /* the last token is only a target */
                                   .score = true,
                                   .score_from = from,
                                   .row = take_row,
                                   .row_ctx = &views[m]};
        views[m] = (struct view){.run = r, .model = m};
        rc = engine_submit(job->engine[m], &q, &id);
    }
    return rc;
}

static int one_window(struct run *r) {
    const struct evaluate_job *job = r->job;
    struct view views[EVALUATE_MODELS_MAX];
    bool over[EVALUATE_MODELS_MAX] = {false};
    int32_t n_over = 0;
    int rc = submit(r, views);
    while (!rc && n_over < job->n_model) {
        r->n_row = 0;
        for (int32_t i = 0; i < job->n_model && !rc; i++) {
            /* the base first, then the others in order */
            int32_t b = job->base;
            int32_t m = b < 0 ? i : (i == 0 ? b : (i <= b ? i - 1 : i));
            bool before = over[m];
            rc = before ? 0 : step(job->engine[m], &over[m]);
            n_over += over[m] && !before ? 1 : 0;
        }
    }
    r->at += r->win->end - r->win->score_from;
    return rc;
}

static int alloc_all(const struct evaluate_job *job, struct run *r) {
    int64_t n = job->w->n_scored;
    for (int32_t m = 0; m < job->n_model; m++) {
        struct evaluate_out *o = &r->out[m];
        o->nll = mem_array(MEM_HARNESS, n, (int64_t)sizeof *o->nll);
        if (!o->nll) {
            return ERR_NOMEM;
        }
        if (job->base >= 0) {
            o->kl = mem_array(MEM_HARNESS, n, (int64_t)sizeof *o->kl);
            o->same = mem_array(MEM_HARNESS, n, 1);
            if (!o->kl || !o->same) {
                return ERR_NOMEM;
            }
        }
    }
    if (job->base < 0) {
        return 0;
    }
    r->rows =
        mem_array(MEM_HARNESS, (int64_t)job->batch_tok_max * job->vocab, (int64_t)sizeof *r->rows);
    r->lse = mem_array(MEM_HARNESS, job->batch_tok_max, (int64_t)sizeof *r->lse);
    r->top = mem_array(MEM_HARNESS, job->batch_tok_max, (int64_t)sizeof *r->top);
    return r->rows && r->lse && r->top ? 0 : ERR_NOMEM;
}

int evaluate_run(const struct evaluate_job *job, struct evaluate_out *out) {
    struct run r = {.job = job, .out = out};
    memset(out, 0, (size_t)job->n_model * sizeof *out);
    int rc = alloc_all(job, &r);
    for (int32_t i = 0; i < job->w->n && !rc; i++) {
        r.win = &job->w->w[i];
        rc = one_window(&r);
        if (!rc && job->progress) {
            rc = job->progress(job->ctx, r.at);
        }
    }
    mem_free(r.rows);
    mem_free(r.lse);
    mem_free(r.top);
    if (rc) {
        evaluate_fini(out, job->n_model);
    }
    return rc;
}

void evaluate_fini(struct evaluate_out *out, int32_t n_model) {
    for (int32_t m = 0; m < n_model; m++) {
        mem_free(out[m].nll);
        mem_free(out[m].kl);
        mem_free(out[m].same);
        out[m] = (struct evaluate_out){0};
    }
}

int evaluate_kl_figure(const struct evaluate_out *o, int64_t n, struct evaluate_kl *out) {
    double *v = mem_array(MEM_HARNESS, n, (int64_t)sizeof *v);
    if (!v) {
        return ERR_NOMEM;
    }
    struct stat_ci ci = stat_mean(o->kl, n);
    *out = (struct evaluate_kl){.mean = ci.value, .lo = ci.lo, .hi = ci.hi};
    for (int64_t i = 0; i < n; i++) {
        v[i] = o->same[i];
    }
    ci = stat_mean(v, n);
    out->top1 = ci.value;
    out->top1_lo = ci.lo;
    out->top1_hi = ci.hi;
    memcpy(v, o->kl, (size_t)n * sizeof *v);
    stat_sort(v, n);
    out->p50 = stat_sorted_quantile(v, n, 0.5);
    out->p90 = stat_sorted_quantile(v, n, 0.9);
    out->p99 = stat_sorted_quantile(v, n, 0.99);
    out->max = v[n - 1];
    mem_free(v);
    return 0;
}
