/* struct report -> jansson -> text. NaN, STORE_NULL and NULL become null, foreign strings valid
 * UTF-8. Whatever fails for want of memory sets *bad, which is looked at once, at the end. */
#include "reports/json_out.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"
#include "reports/show.h"

enum { STRING_MAX = 1 << 22, DIGITS = 12 };

static json_t *number(double v) {
    return isfinite(v) ? json_real(v) : json_null();
}

static json_t *whole(int64_t v) {
    return v == STORE_NULL ? json_null() : json_integer(v);
}

static json_t *string(const char *s, bool *bad) {
    struct buf b;
    if (!s) {
        return json_null();
    }
    buf_init(&b, MEM_REPORT, STRING_MAX);
    json_t *j = show_clean(&b, s) ? NULL : json_stringn(buf_cstr(&b), (size_t)b.len);
    buf_fini(&b);
    *bad = *bad || !j;
    return j;
}

static void put(json_t *j, const char *key, json_t *value, bool *bad) {
    *bad = json_object_set_new(j, key, value) != 0 || *bad;
}

static void append(json_t *list, json_t *value, bool *bad) {
    *bad = json_array_append_new(list, value) != 0 || *bad;
}

/* {value, lo, hi}; null when there is no value. */
static json_t *ci(struct stat_ci c) {
    if (isnan(c.value)) {
        return json_null();
    }
    return json_pack("{s:o, s:o, s:o}", "value", number(c.value), "lo", number(c.lo), "hi",
                     number(c.hi));
}

static json_t *dist(const struct report_dist *d) {
    if (d->n == 0) {
        return json_null();
    }
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "n", whole(d->n), "mean", ci(d->mean), "p50",
                     ci(d->p50), "p90", ci(d->p90), "p95", ci(d->p95), "p99", ci(d->p99));
}

static json_t *requests(const struct report_run *run, bool *bad) {
    json_t *failed = json_object();
    for (int32_t i = 0; i < run->n_failures; i++) {
        json_t *name = string(run->failures[i].error_class, bad);
        put(failed, name ? json_string_value(name) : "", whole(run->failures[i].n), bad);
        json_decref(name);
    }
    return json_pack("{s:o, s:o, s:o}", "offered", whole(run->n_offered), "ok", whole(run->n_ok),
                     "failed", failed);
}

static json_t *one_run(const struct report *r, const struct report_run *run, bool *bad) {
    const struct report_target *t = &r->targets[run->target];
    json_t *j = json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "run_id", whole(run->run_id), "target",
                          string(t->name, bad), "point", string(run->point, bad), "point_value",
                          number(run->point_value), "arrival", string(run->arrival, bad), "status",
                          string(run->status, bad));
    put(j, "verdict", string(verdict_name(run->verdict.kind), bad), bad);
    put(j, "reason", string(run->verdict.reason, bad), bad);
    put(j, "requests", requests(run, bad), bad);
    for (int32_t m = 0; m < SUMMARY_METRICS; m++) {
        put(j, summary_metric_name(m), dist(&run->dist[m]), bad);
    }
    put(j, "ttft_service", dist(&run->ttft_service), bad);
    put(j, "send_lag_p99", ci(run->send_lag_p99), bad);
    put(j, "window",
        json_pack("{s:o, s:o, s:b, s:o}", "from", number(run->window_from_s), "to",
                  number(run->window_to_s), "steady", (int)run->steady.found, "reason",
                  string(run->steady.reason, bad)),
        bad);
    put(j, "output_tokens_per_s", ci(run->output_tokens_per_s), bad);
    put(j, "goodput_per_s", ci(run->goodput_per_s), bad);
    put(j, "goodput_share", ci(run->goodput_share), bad);
    put(j, "usd_per_mtok", ci(run->usd_per_mtok), bad);
    put(j, "n_prompt", whole(run->n_prompt), bad);
    put(j, "n_output", whole(run->n_output), bad);
    put(j, "n_cached_prompt", whole(run->n_cached_prompt), bad);
    put(j, "n_preempt", whole(run->n_preempt), bad);
    put(j, "perplexity", ci(t->perplexity), bad);
    put(j, "kl", ci(t->kl), bad);
    return j;
}

static json_t *one_target(const struct report_target *t, bool *bad) {
    json_t *j = json_pack("{s:o, s:o, s:b, s:o, s:o, s:o, s:o}", "target", string(t->name, bad),
                          "kind", string(t->kind, bad), "is_base", (int)t->is_base, "path",
                          string(t->path, bad), "format", string(t->format, bad), "scheme",
                          string(t->scheme, bad), "sha256", string(t->sha256, bad));
    put(j, "source", string(t->source, bad), bad);
    put(j, "n_params", whole(t->n_params), bad);
    put(j, "disk_bytes", whole(t->disk_bytes), bad);
    put(j, "weight_bytes", whole(t->weight_bytes), bad);
    put(j, "bits_per_weight", number(t->bits_per_weight), bad);
    put(j, "kv_bytes_per_token", whole(t->kv_bytes_per_token), bad);
    put(j, "perplexity", ci(t->perplexity), bad);
    put(j, "perplexity_ratio", ci(t->perplexity_ratio), bad);
    put(j, "kl", ci(t->kl), bad);
    put(j, "top1_agreement", ci(t->top1), bad);
    return j;
}

static json_t *evals(const struct report *r, bool *bad) {
    json_t *list = json_array();
    for (int32_t i = 0; i < r->n_evals; i++) {
        const struct report_eval *e = &r->evals[i];
        append(list,
               json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "target",
                         string(r->targets[e->target].name, bad), "task", string(e->task, bad),
                         "definition", string(e->definition, bad), "dataset",
                         string(e->dataset, bad), "window", whole(e->window_tokens), "stride",
                         whole(e->stride_tokens), "n_tokens", whole(e->n_tokens), "value",
                         ci(e->value)),
               bad);
    }
    return list;
}

static json_t *answers(const struct report *r, bool *bad) {
    json_t *list = json_array();
    for (int32_t i = 0; i < r->n_answers; i++) {
        const struct report_answer *a = &r->answers[i];
        append(list,
               json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "target",
                         string(r->targets[a->target].name, bad), "prompt_index",
                         whole(a->prompt_index), "prompt", string(a->prompt, bad), "text",
                         string(a->text, bad), "n_tokens", whole(a->n_tokens), "finish_reason",
                         string(a->finish_reason, bad)),
               bad);
    }
    return list;
}

/* Dumps and frees j. */
static int dump(json_t *j, bool bad, struct buf *out) {
    char *text = j && !bad ? json_dumps(j, JSON_INDENT(1) | JSON_REAL_PRECISION(DIGITS)) : NULL;
    json_decref(j);
    if (!text) {
        return err_set(ERR_NOMEM, "no memory for the JSON document");
    }
    int rc = buf_str(out, text);
    free(text); /* why: memory of jansson, not of mem_* */
    return rc ? rc : buf_str(out, "\n");
}

int json_out_report(const struct report *r, struct buf *out) {
    bool bad = false;
    json_t *j = json_object();
    json_t *runs = json_array();
    json_t *targets = json_array();
    for (int32_t i = 0; i < r->n_runs; i++) {
        append(runs, one_run(r, &r->runs[i], &bad), &bad);
    }
    for (int32_t i = 0; i < r->n_targets; i++) {
        append(targets, one_target(&r->targets[i], &bad), &bad);
    }
    put(j, "session_id", whole(r->session_id), &bad);
    put(j, "scenario", string(r->scenario_name, &bad), &bad);
    put(j, "scenario_sha256", string(r->scenario_sha256, &bad), &bad);
    put(j, "seed", whole(r->seed), &bad);
    put(j, "status", string(r->status, &bad), &bad);
    put(j, "git_commit", string(r->git_commit, &bad), &bad);
    put(j, "base", string(r->base >= 0 ? r->targets[r->base].name : NULL, &bad), &bad);
    put(j, "targets", targets, &bad);
    put(j, "runs", runs, &bad);
    put(j, "evals", evals(r, &bad), &bad);
    put(j, "answers", answers(r, &bad), &bad);
    return dump(j, bad, out);
}

static json_t *one_point(const struct report *r, const struct compare_point *p, bool *bad) {
    return json_pack("{s:o, s:o, s:o, s:o, s:o}", "point", string(r->runs[p->run].point, bad),
                     "ttft_ratio", ci(p->ttft_ratio), "tpot_ratio", ci(p->tpot_ratio),
                     "output_tokens_per_s_ratio", number(p->rate_ratio), "goodput_ratio",
                     number(p->goodput_ratio));
}

static json_t *one_comparison(const struct report *r, const struct compare_target *c, bool *bad) {
    const struct report_target *t = &r->targets[c->target];
    json_t *points = json_array();
    for (int32_t i = 0; i < c->n_points; i++) {
        append(points, one_point(r, &c->points[i], bad), bad);
    }
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:b, s:o}", "target",
                     string(t->name, bad), "title", string(c->title, bad), "sentence",
                     string(c->sentence, bad), "disk_ratio", number(c->disk_ratio), "memory_ratio",
                     number(c->memory_ratio), "perplexity_ratio", ci(t->perplexity_ratio), "kl",
                     ci(t->kl), "top1_agreement", ci(t->top1), "points", points, "failed",
                     (int)c->failed, "failures", string(c->failures, bad));
}

int json_out_compare(const struct report *r, const struct compare *c, struct buf *out) {
    bool bad = false;
    json_t *list = json_array();
    for (int32_t i = 0; i < c->n; i++) {
        append(list, one_comparison(r, &c->items[i], &bad), &bad);
    }
    json_t *j = json_pack("{s:o, s:o, s:b, s:o}", "session_id", whole(r->session_id), "base",
                          string(r->base >= 0 ? r->targets[r->base].name : NULL, &bad), "failed",
                          (int)c->failed, "comparisons", list);
    return dump(j, bad, out);
}
