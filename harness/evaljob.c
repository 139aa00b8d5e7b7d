#include "harness/evaljob.h"

#include <math.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/base/mem.h"
#include "harness/interrupt.h"
#include "harness/progress.h"

enum { EVAL_BATCH_TOK = 256, DEFAULT_WINDOW = 2048 };

struct work {
    const struct evaljob *j;
    struct tok_ids ids;
    struct ppl_windows windows;
    struct progress bar;
    struct engine *engine[EVALUATE_MODELS_MAX];
};

/* One row of the text is a line with its newline; blank lines are left out. */
static int encode_rows(struct work *w, int64_t **start, int32_t *n_rows) {
    const struct evaljob *j = w->j;
    const char *p = buf_cstr(&j->text->text);
    const char *end = p + j->text->text.len;
    int32_t cap = 1024;
    int32_t n = 0;
    int64_t *at = mem_array(MEM_HARNESS, cap + 1, (int64_t)sizeof *at);
    int rc = at ? 0 : ERR_NOMEM;
    while (!rc && p < end && (j->rows == 0 || n < j->rows)) {
        const char *nl = memchr(p, '\n', (size_t)(end - p));
        const char *stop = nl ? nl + 1 : end;
        bool blank = true;
        for (const char *c = p; c < stop; c++) {
            blank = blank && (*c == ' ' || *c == '\n' || *c == '\t' || *c == '\r');
        }
        if (!blank) {
            if (n == cap) {
                int64_t *more = mem_realloc(MEM_HARNESS, at, (2 * cap + 1) * (int64_t)sizeof *at);
                rc = more ? 0 : ERR_NOMEM;
                at = more ? more : at;
                cap = more ? 2 * cap : cap;
            }
            if (!rc) {
                at[n++] = w->ids.n;
                const char *cut = j->strip && nl ? nl : stop;
                rc = tok_encode(j->model[0]->tok, p, cut - p, TOK_PARSE_SPECIAL, &w->ids);
            }
        }
        p = stop;
    }
    if (rc) {
        mem_free(at);
        return rc;
    }
    at[n] = w->ids.n;
    *start = at;
    *n_rows = n;
    return 0;
}

static int lay_rows(struct work *w) {
    int64_t *start = NULL;
    int32_t n_rows = 0;
    int rc = encode_rows(w, &start, &n_rows);
    rc = rc ? rc : ppl_windows_rows(start, n_rows, w->j->window ? w->j->window : 512, &w->windows);
    mem_free(start);
    return rc;
}

static int lay(struct work *w) {
    const struct evaljob *j = w->j;
    int32_t window = j->window ? j->window : DEFAULT_WINDOW;
    int rc = 0;
    if (j->text) {
        rc = model_need_tok(j->model[0]);
        if (!rc && j->def == PPL_SEED) {
            return lay_rows(w);
        }
        rc = rc ? rc : textdata_ids(j->text, j->model[0]->tok, j->tokens, &w->ids);
    } else {
        int64_t n = j->tokens > 0 ? i64_min(j->tokens, j->n_ids) : j->n_ids;
        for (int64_t i = 0; i < n && !rc; i++) {
            rc = tok_ids_add(&w->ids, j->ids[i]);
        }
    }
    return rc ? rc
              : ppl_windows_make(j->def, w->ids.n, window, j->stride ? j->stride : window,
                                 j->tokens > 0, &w->windows);
}

/* The last id of a window is only a target, so no engine checks it. */
static int check_ids(const struct work *w) {
    int32_t vocab = w->j->model[0]->weights->cfg.vocab;
    for (int32_t i = 0; i < w->ids.n; i++) {
        if (w->ids.v[i] < 0 || w->ids.v[i] >= vocab) {
            return err_set(ERR_RANGE, "token %d is %d, %s has 0..%d", i, w->ids.v[i], w->j->name[0],
                           vocab - 1);
        }
    }
    return 0;
}

static int check_models(const struct evaljob *j) {
    for (int32_t i = 1; i < j->n_model; i++) {
        int32_t a = j->model[0]->weights->cfg.vocab;
        int32_t b = j->model[i]->weights->cfg.vocab;
        if (a != b) {
            return err_set(ERR_CONFIG,
                           "%s has %d tokens, %s has %d: losses over different vocabularies cannot "
                           "be compared",
                           j->name[0], a, j->name[i], b);
        }
    }
    return 0;
}

static int32_t batch_tok(const struct evaljob *j) {
    return j->engine.batch_tok_max ? j->engine.batch_tok_max : EVAL_BATCH_TOK;
}

static int open_engines(struct work *w) {
    const struct evaljob *j = w->j;
    int32_t longest = 0;
    for (int32_t i = 0; i < w->windows.n; i++) {
        longest = i32_max(longest, (int32_t)(w->windows.w[i].end - w->windows.w[i].begin));
    }
    int rc = 0;
    for (int32_t i = 0; i < j->n_model && !rc; i++) {
        if (longest > j->model[i]->weights->cfg.ctx_max) {
            return err_set(
                ERR_LIMIT,
                "window of %d tokens, %s has a context of %d (--window makes it smaller)", longest,
                j->name[i], j->model[i]->weights->cfg.ctx_max);
        }
        struct engine_opts o = {.backend = j->engine.backend,
                                .variant = j->engine.variant,
                                .n_threads = j->engine.n_threads,
                                .batch_tok_max = batch_tok(j),
                                .running_max = 1,
                                .ctx_max = longest,
                                .n_blocks = (int32_t)i64_div_up(longest, 16),
                                .no_prefix_cache = true};
        rc = session_kv_type(&j->engine, j->model[i]->weights, &o.kv_type);
        rc = rc ? rc : engine_open(j->model[i]->weights, &o, &w->engine[i]);
    }
    return rc;
}

static int show(void *ctx, int64_t n_scored) {
    struct work *w = ctx;
    progress_at(&w->bar, (double)n_scored, "%lld of %lld tokens", (long long)n_scored,
                (long long)w->windows.n_scored);
    return interrupt_seen() ? err_set(ERR_CANCELED, "interrupted") : 0;
}

/* The figure over whole windows only. */
static struct ppl_figure
whole_windows(const struct evaljob *j, const struct ppl_windows *all, const double *nll) {
    struct ppl_figure f = {.ppl = (double)NAN};
    struct ppl_windows cut = *all;
    const struct ppl_window *last = &all->w[all->n - 1];
    int32_t window = j->window ? j->window : DEFAULT_WINDOW;
    if (j->def == PPL_SEED || all->n < 2 || last->end - last->begin == window) {
        return f;
    }
    cut.n--;
    cut.n_scored -= last->end - last->score_from;
    ppl_figure(j->def, &cut, nll, &f);
    return f;
}

/* Ratio of perplexities; the interval is that of the mean difference of the losses, token by token,
 * which the text's own spread does not widen. */
static int paired_ratio(const struct evaluate_out *o,
                        const struct evaluate_out *base,
                        int64_t n,
                        double ratio,
                        struct stat_ci *out) {
    double *d = mem_array(MEM_HARNESS, n, (int64_t)sizeof *d);
    if (!d) {
        return ERR_NOMEM;
    }
    for (int64_t i = 0; i < n; i++) {
        d[i] = o->nll[i] - base->nll[i];
    }
    struct stat_ci ci = stat_mean(d, n);
    *out = (struct stat_ci){
        .value = ratio, .lo = ratio * exp(ci.lo - ci.value), .hi = ratio * exp(ci.hi - ci.value)};
    mem_free(d);
    return 0;
}

static int figures(struct work *w, const struct evaluate_out *o, struct evaljob_result *out) {
    int rc = 0;
    for (int32_t i = 0; i < w->j->n_model && !rc; i++) {
        out[i] = (struct evaljob_result){.n_tok = w->ids.n, .n_scored = w->windows.n_scored};
        out[i].kl.mean = (double)NAN;
        out[i].ratio = stat_none();
        ppl_figure(w->j->def, &w->windows, o[i].nll, &out[i].ppl);
        out[i].whole = whole_windows(w->j, &w->windows, o[i].nll);
        if (w->j->base >= 0) {
            rc = evaluate_kl_figure(&o[i], w->windows.n_scored, &out[i].kl);
        }
    }
    int32_t b = w->j->base;
    for (int32_t i = 0; i < w->j->n_model && !rc && b >= 0; i++) {
        rc = paired_ratio(&o[i], &o[b], w->windows.n_scored, out[i].ppl.ppl / out[b].ppl.ppl,
                          &out[i].ratio);
    }
    return rc;
}

static int score(struct work *w, struct evaljob_result *out) {
    const struct evaljob *j = w->j;
    struct evaluate_out o[EVALUATE_MODELS_MAX];
    struct evaluate_job job = {.n_model = j->n_model,
                               .base = j->base,
                               .ids = w->ids.v,
                               .w = &w->windows,
                               .vocab = j->model[0]->weights->cfg.vocab,
                               .batch_tok_max = batch_tok(j),
                               .progress = show,
                               .ctx = w};
    int64_t start = clock_now_ns();
    memcpy(job.engine, w->engine, sizeof w->engine);
    progress_begin(&w->bar, "evaluate", (double)w->windows.n_scored, j->tty, j->quiet);
    int rc = evaluate_run(&job, o);
    progress_end(&w->bar);
    if (rc) {
        return rc;
    }
    rc = figures(w, o, out);
    for (int32_t i = 0; i < j->n_model; i++) {
        out[i].seconds = (double)(clock_now_ns() - start) * 1e-9;
    }
    evaluate_fini(o, j->n_model);
    return rc;
}

int evaljob_run(const struct evaljob *j, struct evaljob_result *out) {
    struct work w = {.j = j};
    tok_ids_init(&w.ids);
    int rc = check_models(j);
    rc = rc ? rc : lay(&w);
    rc = rc ? rc : check_ids(&w);
    rc = rc ? rc : open_engines(&w);
    rc = rc ? rc : score(&w, out);
    for (int32_t i = 0; i < j->n_model; i++) {
        engine_close(w.engine[i]);
    }
    ppl_windows_fini(&w.windows);
    tok_ids_fini(&w.ids);
    return rc;
}

static int store_divergence(struct store *s,
                            const struct evaljob *j,
                            const struct evaljob_result *r,
                            const struct store_eval *e) {
    const struct evaluate_kl *k = &r->kl;
    struct store_kl kr = {.target_id = e->target_id,
                          .base = j->name[j->base],
                          .dataset = e->dataset,
                          .dataset_sha256 = e->dataset_sha256,
                          .window_tokens = e->window_tokens,
                          .n_tokens = r->n_scored,
                          .mean = k->mean,
                          .lo = k->lo,
                          .hi = k->hi,
                          .p50 = k->p50,
                          .p90 = k->p90,
                          .p99 = k->p99,
                          .max = k->max,
                          .top1 = k->top1,
                          .top1_lo = k->top1_lo,
                          .top1_hi = k->top1_hi};
    return store_kl(s, &kr);
}

int evaljob_store(const struct evaljob *j,
                  const struct evaljob_result *r,
                  struct store *s,
                  const int64_t *target_id) {
    int rc = 0;
    int32_t window = j->window ? j->window : DEFAULT_WINDOW;
    for (int32_t i = 0; i < j->n_model && !rc; i++) {
        struct store_eval e = {.target_id = target_id[i],
                               .task = "perplexity",
                               .definition = ppl_def_name(j->def),
                               .dataset = j->text ? j->text->label : "token ids",
                               .dataset_sha256 = j->text ? j->text->sha256 : NULL,
                               .window_tokens = window,
                               .stride_tokens = j->stride ? j->stride : window,
                               .n_tokens = r[i].n_scored,
                               .value = r[i].ppl.ppl,
                               .lo = r[i].ppl.lo,
                               .hi = r[i].ppl.hi,
                               .nll_sum = r[i].ppl.nll_sum};
        rc = store_eval(s, &e);
        if (!rc && j->base >= 0 && i != j->base) {
            e.task = "perplexity_ratio";
            e.value = r[i].ratio.value;
            e.lo = r[i].ratio.lo;
            e.hi = r[i].ratio.hi;
            e.nll_sum = (double)NAN;
            rc = store_eval(s, &e);
        }
        rc = rc || j->base < 0 ? rc : store_divergence(s, j, &r[i], &e);
    }
    return rc;
}
