/* Session -> targets, quality, quantization, machine; the runs are summary_run.c's.
 *
 *   v_session  v_target  v_eval  v_kl  v_answer  v_quant_run  v_quant_module  v_fact  v_slo  v_note
 *        \________\________\______\______\___________\______________\___________\______\_____/
 *                                       struct report
 *
 * The newest perplexity and KL of a target stand for it. A perplexity ratio has bounds only where
 * the evaluator stored a paired one (task "perplexity_ratio"): the two intervals alone would give a
 * wrong, too wide one. */
#include "reports/summary.h"

#include <math.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/base/mem.h"
#include "engine/base/str.h"
#include "reports/summary_int.h"

int summary_each(struct store *s,
                 const char *view,
                 const char *columns,
                 const char *key,
                 int64_t id,
                 const char *order,
                 summary_row f,
                 void *ctx) {
    struct store_rows *rows = NULL;
    bool has = false;
    int rc = store_rows_open(s, view, columns, key, id, order, &rows);
    if (rc) {
        return rc;
    }
    for (rc = store_rows_next(rows, &has); !rc && has;) {
        rc = f(ctx, rows);
        rc = rc ? rc : store_rows_next(rows, &has);
    }
    store_rows_close(rows);
    return rc;
}

int summary_keep(struct report *r, const char *s, const char **out) {
    *out = NULL;
    if (!s) {
        return 0;
    }
    if (r->n_strings == r->cap_strings) {
        int64_t cap = i64_max(64, r->cap_strings * 2);
        char **bigger = mem_realloc(MEM_REPORT, r->strings, cap * (int64_t)sizeof *bigger);
        if (!bigger) {
            return ERR_NOMEM;
        }
        r->strings = bigger;
        r->cap_strings = cap;
    }
    char *copy = mem_strdup(MEM_REPORT, s, -1);
    if (!copy) {
        return ERR_NOMEM;
    }
    r->strings[r->n_strings++] = copy;
    *out = copy;
    return 0;
}

int summary_grow(void *array, int32_t n, int64_t size) {
    void **p = array;
    if (n >= SUMMARY_ITEMS_MAX) {
        return err_set(ERR_LIMIT, "more than %d rows of one kind in a report",
                       (int)SUMMARY_ITEMS_MAX);
    }
    bool full = n == 0 || (n >= 8 && (n & (n - 1)) == 0);
    if (!full) {
        return 0;
    }
    void *bigger = mem_realloc(MEM_REPORT, *p, i64_max(8, 2 * (int64_t)n) * size);
    if (!bigger) {
        return ERR_NOMEM;
    }
    *p = bigger;
    return 0;
}

static struct stat_ci row_ci(const struct store_rows *row, int32_t i) {
    return (struct stat_ci){store_rows_f64(row, i), store_rows_f64(row, i + 1),
                            store_rows_f64(row, i + 2)};
}

struct found {
    int64_t id;
};

static int take_id(void *ctx, const struct store_rows *row) {
    struct found *f = ctx;
    f->id = store_rows_i64(row, 0);
    return 0;
}

static int take_session(void *ctx, const struct store_rows *row) {
    struct report *r = ctx;
    r->session_id = store_rows_i64(row, 0);
    int rc = summary_keep(r, store_rows_str(row, 1), &r->kind);
    rc = rc ? rc : summary_keep(r, store_rows_str(row, 2), &r->scenario_name);
    rc = rc ? rc : summary_keep(r, store_rows_str(row, 3), &r->scenario_text);
    rc = rc ? rc : summary_keep(r, store_rows_str(row, 4), &r->scenario_sha256);
    r->seed = store_rows_i64(row, 5);
    r->usd_per_hour = store_rows_f64(row, 6);
    r->start_wall_ns = store_rows_i64(row, 7);
    r->end_wall_ns = store_rows_i64(row, 8);
    rc = rc ? rc : summary_keep(r, store_rows_str(row, 9), &r->git_commit);
    rc = rc ? rc : summary_keep(r, store_rows_str(row, 10), &r->build);
    rc = rc ? rc : summary_keep(r, store_rows_str(row, 11), &r->host_json);
    return rc ? rc : summary_keep(r, store_rows_str(row, 12), &r->status);
}

static int take_target(void *ctx, const struct store_rows *row) {
    struct report *r = ctx;
    int rc = summary_grow(&r->targets, r->n_targets, (int64_t)sizeof *r->targets);
    if (rc) {
        return rc;
    }
    struct report_target *t = &r->targets[r->n_targets];
    *t = (struct report_target){.target_id = store_rows_i64(row, 0),
                                .is_base = store_rows_i64(row, 3) == 1,
                                .checkpoint_id = store_rows_i64(row, 5),
                                .n_params = store_rows_i64(row, 11),
                                .disk_bytes = store_rows_i64(row, 12),
                                .weight_bytes = store_rows_i64(row, 13),
                                .bits_per_weight = store_rows_f64(row, 14),
                                .kv_bytes_per_token = store_rows_i64(row, 15),
                                .perplexity = stat_none(),
                                .perplexity_ratio = stat_none(),
                                .kl = stat_none(),
                                .top1 = stat_none()};
    rc = summary_keep(r, store_rows_str(row, 1), &t->name);
    rc = rc ? rc : summary_keep(r, store_rows_str(row, 2), &t->kind);
    rc = rc ? rc : summary_keep(r, store_rows_str(row, 4), &t->detail);
    rc = rc ? rc : summary_keep(r, store_rows_str(row, 6), &t->path);
    rc = rc ? rc : summary_keep(r, store_rows_str(row, 7), &t->format);
    rc = rc ? rc : summary_keep(r, store_rows_str(row, 8), &t->scheme);
    rc = rc ? rc : summary_keep(r, store_rows_str(row, 9), &t->sha256);
    rc = rc ? rc : summary_keep(r, store_rows_str(row, 10), &t->source);
    if (!rc) {
        r->base = t->is_base && r->base < 0 ? r->n_targets : r->base;
        r->n_targets++;
    }
    return rc;
}

static int take_eval(void *ctx, const struct store_rows *row) {
    struct report *r = ctx;
    int rc = summary_grow(&r->evals, r->n_evals, (int64_t)sizeof *r->evals);
    if (rc) {
        return rc;
    }
    struct report_eval *e = &r->evals[r->n_evals];
    *e = (struct report_eval){.target = r->n_targets - 1,
                              .window_tokens = store_rows_i64(row, 4),
                              .stride_tokens = store_rows_i64(row, 5),
                              .n_tokens = store_rows_i64(row, 6),
                              .value = row_ci(row, 7)};
    rc = summary_keep(r, store_rows_str(row, 0), &e->task);
    rc = rc ? rc : summary_keep(r, store_rows_str(row, 1), &e->definition);
    rc = rc ? rc : summary_keep(r, store_rows_str(row, 2), &e->dataset);
    rc = rc ? rc : summary_keep(r, store_rows_str(row, 3), &e->dataset_sha256);
    r->n_evals += rc ? 0 : 1;
    return rc;
}

static int take_kl(void *ctx, const struct store_rows *row) {
    struct report *r = ctx;
    int rc = summary_grow(&r->kls, r->n_kls, (int64_t)sizeof *r->kls);
    if (rc) {
        return rc;
    }
    struct report_kl *k = &r->kls[r->n_kls];
    *k = (struct report_kl){.n_tokens = store_rows_i64(row, 2),
                            .mean = row_ci(row, 3),
                            .p50 = store_rows_f64(row, 6),
                            .p90 = store_rows_f64(row, 7),
                            .p99 = store_rows_f64(row, 8),
                            .max = store_rows_f64(row, 9),
                            .top1 = row_ci(row, 10)};
    rc = summary_keep(r, store_rows_str(row, 0), &k->base);
    rc = rc ? rc : summary_keep(r, store_rows_str(row, 1), &k->dataset);
    r->n_kls += rc ? 0 : 1;
    return rc;
}

static int take_answer(void *ctx, const struct store_rows *row) {
    struct report *r = ctx;
    int rc = summary_grow(&r->answers, r->n_answers, (int64_t)sizeof *r->answers);
    if (rc) {
        return rc;
    }
    struct report_answer *a = &r->answers[r->n_answers];
    *a = (struct report_answer){.prompt_index = store_rows_i64(row, 0),
                                .n_tokens = store_rows_i64(row, 3)};
    rc = summary_keep(r, store_rows_str(row, 1), &a->prompt);
    rc = rc ? rc : summary_keep(r, store_rows_str(row, 2), &a->text);
    rc = rc ? rc : summary_keep(r, store_rows_str(row, 4), &a->finish_reason);
    r->n_answers += rc ? 0 : 1;
    return rc;
}

static int take_quant(void *ctx, const struct store_rows *row) {
    struct report *r = ctx;
    int rc = summary_grow(&r->quants, r->n_quants, (int64_t)sizeof *r->quants);
    if (rc) {
        return rc;
    }
    struct report_quant *q = &r->quants[r->n_quants];
    *q = (struct report_quant){.quant_run_id = store_rows_i64(row, 0),
                               .group_size = store_rows_i64(row, 3),
                               .n_samples = store_rows_i64(row, 5),
                               .n_tokens = store_rows_i64(row, 6),
                               .seconds = store_rows_f64(row, 7)};
    rc = summary_keep(r, store_rows_str(row, 1), &q->method);
    rc = rc ? rc : summary_keep(r, store_rows_str(row, 2), &q->scheme);
    rc = rc ? rc : summary_keep(r, store_rows_str(row, 4), &q->dataset);
    rc = rc ? rc : summary_keep(r, store_rows_str(row, 8), &q->recipe);
    r->n_quants += rc ? 0 : 1;
    return rc;
}

static int take_module(void *ctx, const struct store_rows *row) {
    struct report *r = ctx;
    int rc = summary_grow(&r->modules, r->n_modules, (int64_t)sizeof *r->modules);
    if (rc) {
        return rc;
    }
    struct report_module *m = &r->modules[r->n_modules];
    *m = (struct report_module){.quant = r->n_quants - 1,
                                .group_size = store_rows_i64(row, 2),
                                .n_samples = store_rows_i64(row, 3),
                                .n_tokens = store_rows_i64(row, 4),
                                .damp = store_rows_f64(row, 5),
                                .n_dead_columns = store_rows_i64(row, 6),
                                .rel_error = store_rows_f64(row, 7),
                                .logged_error = store_rows_f64(row, 8),
                                .seconds = store_rows_f64(row, 9),
                                .bytes_before = store_rows_i64(row, 10),
                                .bytes_after = store_rows_i64(row, 11)};
    rc = summary_keep(r, store_rows_str(row, 0), &m->name);
    rc = rc ? rc : summary_keep(r, store_rows_str(row, 1), &m->method);
    r->n_modules += rc ? 0 : 1;
    return rc;
}

static int take_slo(void *ctx, const struct store_rows *row) {
    struct report *r = ctx;
    int rc = summary_grow(&r->slos, r->n_slos, (int64_t)sizeof *r->slos);
    if (rc) {
        return rc;
    }
    struct report_slo *o = &r->slos[r->n_slos];
    *o = (struct report_slo){.limit_s = store_rows_f64(row, 2)};
    rc = summary_keep(r, store_rows_str(row, 0), &o->metric);
    rc = rc ? rc : summary_keep(r, store_rows_str(row, 1), &o->stat);
    r->n_slos += rc ? 0 : 1;
    return rc;
}

static int take_fact(void *ctx, const struct store_rows *row) {
    struct report *r = ctx;
    int rc = summary_grow(&r->facts, r->n_facts, (int64_t)sizeof *r->facts);
    if (rc) {
        return rc;
    }
    struct report_pair *p = &r->facts[r->n_facts];
    rc = summary_keep(r, store_rows_str(row, 0), &p->name);
    rc = rc ? rc : summary_keep(r, store_rows_str(row, 1), &p->value);
    r->n_facts += rc ? 0 : 1;
    return rc;
}

static int take_note(void *ctx, const struct store_rows *row) {
    struct report *r = ctx;
    int rc = summary_grow(&r->notes, r->n_notes, (int64_t)sizeof *r->notes);
    if (rc) {
        return rc;
    }
    r->notes[r->n_notes].name = NULL;
    rc = summary_keep(r, store_rows_str(row, 0), &r->notes[r->n_notes].value);
    r->n_notes += rc ? 0 : 1;
    return rc;
}

static int take_run(void *ctx, const struct store_rows *row) {
    struct report *r = ctx;
    int rc = summary_grow(&r->runs, r->n_runs, (int64_t)sizeof *r->runs);
    if (rc) {
        return rc;
    }
    struct report_run *run = &r->runs[r->n_runs];
    *run = (struct report_run){.run_id = store_rows_i64(row, 0),
                               .target = -1,
                               .point_index = store_rows_i64(row, 2),
                               .point_value = store_rows_f64(row, 4)};
    for (int32_t i = 0; i < r->n_targets; i++) {
        run->target = r->targets[i].target_id == store_rows_i64(row, 1) ? i : run->target;
    }
    if (run->target < 0) {
        return err_set(ERR_DB, "run %lld has a target of another session", (long long)run->run_id);
    }
    rc = summary_keep(r, store_rows_str(row, 3), &run->point);
    rc = rc ? rc : summary_keep(r, store_rows_str(row, 5), &run->arrival);
    rc = rc ? rc : summary_keep(r, store_rows_str(row, 6), &run->status);
    r->n_runs += rc ? 0 : 1;
    return rc;
}

static int read_quants(struct store *s, struct report *r, int32_t target) {
    int32_t before = r->n_quants;
    int rc = summary_each(s, "v_quant_run",
                          "quant_run_id, method, scheme, group_size, dataset, n_samples, n_tokens, "
                          "seconds, recipe_text",
                          "checkpoint_id", r->targets[target].checkpoint_id, NULL, take_quant, r);
    if (rc || r->n_quants == before) {
        return rc;
    }
    r->quants[before].target = target;
    return summary_each(s, "v_quant_module",
                        "name, method, group_size, n_samples, n_tokens, damp, n_dead_columns, "
                        "rel_error, logged_error, seconds, bytes_before, bytes_after",
                        "quant_run_id", r->quants[before].quant_run_id, "idx", take_module, r);
}

static int read_target(struct store *s, struct report *r, int32_t i) {
    struct report_target *t = &r->targets[i];
    int32_t evals = r->n_evals;
    int32_t kls = r->n_kls;
    int32_t answers = r->n_answers;
    int rc = summary_each(s, "v_eval",
                          "task, definition, dataset, dataset_sha256, window_tokens, "
                          "stride_tokens, n_tokens, value, lo, hi",
                          "target_id", t->target_id, "eval_id", take_eval, r);
    rc = rc ? rc
            : summary_each(s, "v_kl",
                           "base, dataset, n_tokens, mean, lo, hi, p50, p90, p99, max, top1, "
                           "top1_lo, top1_hi",
                           "target_id", t->target_id, "kl_id", take_kl, r);
    rc = rc ? rc
            : summary_each(s, "v_answer", "prompt_index, prompt, text, n_tokens, finish_reason",
                           "target_id", t->target_id, "prompt_index", take_answer, r);
    for (int32_t k = evals; k < r->n_evals; k++) {
        struct report_eval *e = &r->evals[k];
        e->target = i;
        t->perplexity = str_eq(e->task, "perplexity") ? e->value : t->perplexity;
        t->perplexity_ratio = str_eq(e->task, "perplexity_ratio") ? e->value : t->perplexity_ratio;
    }
    for (int32_t k = kls; k < r->n_kls; k++) {
        r->kls[k].target = i;
        t->kl = r->kls[k].mean;
        t->top1 = r->kls[k].top1;
    }
    for (int32_t k = answers; k < r->n_answers; k++) {
        r->answers[k].target = i;
    }
    return rc || t->checkpoint_id == STORE_NULL ? rc : read_quants(s, r, i);
}

static int read_session(struct store *s, int64_t session_id, struct report *r) {
    int rc = summary_each(s, "v_session",
                          "session_id, kind, scenario_name, scenario_text, scenario_sha256, seed, "
                          "machine_usd_per_hour, start_wall_ns, end_wall_ns, git_commit, build, "
                          "host_json, status",
                          "session_id", session_id, NULL, take_session, r);
    if (!rc && r->session_id == 0) {
        return err_set(ERR_NOTFOUND, "no session %lld in this database", (long long)session_id);
    }
    rc = rc ? rc
            : summary_each(s, "v_target",
                           "target_id, name, kind, is_base, detail, checkpoint_id, path, format, "
                           "scheme, sha256, source, n_params, disk_bytes, weight_bytes, "
                           "bits_per_weight, kv_bytes_per_token",
                           "session_id", session_id, "target_id", take_target, r);
    rc = rc ? rc
            : summary_each(s, "v_fact", "name, value", "session_id", session_id, "name", take_fact,
                           r);
    rc = rc ? rc
            : summary_each(s, "v_slo", "metric, stat, limit_s", "session_id", session_id,
                           "metric, stat", take_slo, r);
    rc = rc ? rc
            : summary_each(s, "v_note", "text", "session_id", session_id, "wall_ns", take_note, r);
    return rc ? rc
              : summary_each(s, "v_run",
                             "run_id, target_id, point_index, point, point_value, arrival, status",
                             "session_id", session_id, "point_index, target_id, run_id", take_run,
                             r);
}

/* The newest session that has targets. */
static int newest_session(struct store *s, int64_t *session_id) {
    struct found f = {0};
    int rc = summary_each(s, "v_target", "session_id", NULL, 0, "session_id", take_id, &f);
    if (!rc && f.id == 0) {
        rc = err_set(ERR_NOTFOUND, "the database holds no finished or running session yet");
    }
    *session_id = f.id;
    return rc;
}

static void ratios(struct report *r) {
    for (int32_t i = 0; i < r->n_targets && r->base >= 0; i++) {
        struct report_target *t = &r->targets[i];
        if (isnan(t->perplexity_ratio.value) && i != r->base) {
            t->perplexity_ratio.value = t->perplexity.value / r->targets[r->base].perplexity.value;
        }
    }
}

int summary_read(struct store *s, int64_t session_id, struct report *out) {
    struct report r = {.base = -1};
    int rc = session_id > 0 ? 0 : newest_session(s, &session_id);
    rc = rc ? rc : read_session(s, session_id, &r);
    for (int32_t i = 0; i < r.n_targets && !rc; i++) {
        rc = read_target(s, &r, i);
    }
    for (int32_t i = 0; i < r.n_runs && !rc; i++) {
        rc = summary_run(s, &r, &r.runs[i]);
    }
    if (rc) {
        summary_fini(&r);
        return rc;
    }
    ratios(&r);
    *out = r;
    return 0;
}

void summary_fini(struct report *r) {
    for (int64_t i = 0; i < r->n_strings; i++) {
        mem_free(r->strings[i]);
    }
    for (int32_t i = 0; i < r->n_runs; i++) {
        mem_free(r->runs[i].samples);
    }
    void *arrays[] = {r->strings, r->targets, r->runs, r->evals, r->kls,   r->answers,
                      r->quants,  r->modules, r->slos, r->facts, r->notes, r->peers};
    for (int32_t i = 0; i < ARRAY_LEN(arrays); i++) {
        mem_free(arrays[i]);
    }
    *r = (struct report){0};
}

const struct report_run *summary_top_run(const struct report *r, int32_t target) {
    const struct report_run *top = NULL;
    for (int32_t i = 0; i < r->n_runs; i++) {
        const struct report_run *run = &r->runs[i];
        bool higher = run->target == target && (!top || run->point_index >= top->point_index);
        top = higher ? run : top;
    }
    return top;
}

const char *summary_metric_name(int32_t metric) {
    static const char *const names[SUMMARY_METRICS] = {"ttft", "itl", "tpot", "e2e"};
    return metric >= 0 && metric < SUMMARY_METRICS ? names[metric] : "";
}
