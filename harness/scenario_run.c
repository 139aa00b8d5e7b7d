/* Order: all models are opened first, so that a wrong path fails before anything is measured. At
 * each point of the sweep the targets run one after the other on equal requests, each from a cold
 * prefix cache, so that slow drift of the machine falls on all of them alike. */
#include "harness/scenario_run.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/base/mem.h"
#include "engine/base/str.h"
#include "harness/answers.h"
#include "harness/evaljob.h"
#include "harness/interrupt.h"
#include "harness/progress.h"
#include "harness/provenance.h"
#include "harness/replay.h"

struct target {
    struct session s; /* own */
    int64_t target_id;
};

struct whole {
    const struct scenario_run_opts *o;
    const struct scenario *sc;
    struct store *store; /* own */
    int64_t session_id;
    struct target *target; /* own, [n_targets] */
    struct progress bar;
    char label[96];
};

static int open_target(struct whole *w, int32_t i) {
    const struct scenario_target *t = &w->sc->targets[i];
    if (t->kind != TARGET_ENGINE) {
        return err_set(ERR_UNSUPPORTED,
                       "target \"%s\": kind \"%s\" is not driven; driven is engine", t->name,
                       scenario_target_kind_name(t->kind));
    }
    int rc = session_model(w->o->env, t->model, &w->target[i].s);
    return rc ? err_ctx(rc, "target \"%s\"", t->name) : 0;
}

static int open_engine(struct whole *w, int32_t i) {
    const struct scenario_target *t = &w->sc->targets[i];
    struct engine_opts eo = {.backend = t->backend,
                             .n_threads = t->threads,
                             .block_tok = t->block_tokens,
                             .batch_tok_max = t->max_batch_tokens,
                             .running_max = t->max_seqs,
                             .ctx_max = t->max_len,
                             .kv_bytes = t->kv_bytes};
    int rc = engine_open(w->target[i].s.model->weights, &eo, &w->target[i].s.engine);
    return rc ? err_ctx(rc, "target \"%s\"", t->name) : 0;
}

static void close_engine(struct whole *w, int32_t i) {
    engine_close(w->target[i].s.engine);
    w->target[i].s.engine = NULL;
}

static int record_target(struct whole *w, int32_t i) {
    int64_t checkpoint = 0;
    struct target *t = &w->target[i];
    int rc = provenance_checkpoint(w->store, t->s.model, t->s.path, &checkpoint);
    struct store_target row = {.session_id = w->session_id,
                               .name = w->sc->targets[i].name,
                               .kind = "engine",
                               .is_base = i == scenario_base(w->sc),
                               .checkpoint_id = checkpoint,
                               .detail =
                                   w->sc->targets[i].backend ? w->sc->targets[i].backend : "cpu"};
    return rc ? rc : store_target(w->store, &row, &t->target_id);
}

static const char *slo_stat(double quantile) {
    if (quantile < 0) {
        return "mean";
    }
    if (quantile == 0) {
        return "each";
    }
    return quantile < 0.7 ? "p50" : (quantile < 0.92 ? "p90" : (quantile < 0.97 ? "p95" : "p99"));
}

static int begin_session(struct whole *w) {
    struct buf text;
    double usd = w->sc->machine_usd_per_hour;
    buf_init(&text, MEM_HARNESS, 1 << 20);
    int rc = scenario_format(w->sc, &text);
    rc = rc ? rc : store_open(w->o->db, STORE_WRITE, &w->store);
    rc = rc ? rc
            : provenance_session(w->store, "run", w->sc->name, buf_cstr(&text), w->sc->seed,
                                 usd > 0 ? usd : (double)NAN, &w->session_id);
    buf_fini(&text);
    for (int32_t i = 0; i < w->sc->n_slo && !rc; i++) {
        const struct scenario_slo *s = &w->sc->slo[i];
        rc = store_slo(w->store, w->session_id, scenario_metric_name(s->metric),
                       slo_stat(s->quantile), s->limit_ns);
    }
    for (int32_t i = 0; i < w->sc->n_targets && !rc; i++) {
        rc = record_target(w, i);
    }
    return rc ? rc : store_flush(w->store);
}

static int show(void *ctx, double t_s, double total_s, int64_t n_done, int64_t n_offered) {
    struct whole *w = ctx;
    w->bar.total = total_s;
    progress_at(&w->bar, t_s, "%s: %lld of %lld requests done", w->label, (long long)n_done,
                (long long)n_offered);
    return interrupt_seen();
}

static int run_point(struct whole *w, int32_t i, int32_t point, bool *interrupted) {
    char label[SCENARIO_LABEL_MAX];
    int64_t run_id = 0;
    struct load load;
    struct replay_result res;
    struct target *t = &w->target[i];
    struct engine_stats es;
    scenario_point_label(w->sc, point, label);
    snprintf(w->label, sizeof w->label, "%s %s", w->sc->targets[i].name, label);
    engine_stats(t->s.engine, &es);
    int rc = load_init(&load, w->sc, t->s.model->weights->cfg.vocab, es.ctx_max);
    if (rc) {
        return rc;
    }
    struct store_run row = {.session_id = w->session_id,
                            .target_id = t->target_id,
                            .point_index = point,
                            .point = label,
                            .point_value = w->sc->arrival.points[point],
                            .arrival = arrival_name(w->sc->arrival.kind),
                            .start_wall_ns = clock_wall_ns()};
    rc = store_run_begin(w->store, &row, &run_id);
    struct replay_opts ro = {.sc = w->sc,
                             .load = &load,
                             .engine = t->s.engine,
                             .point = point,
                             .store = w->store,
                             .run_id = run_id,
                             .progress = show,
                             .ctx = w};
    progress_begin(&w->bar, "run", 1, w->o->env->err_tty, w->o->quiet);
    rc = rc ? rc : replay_run(&ro, &res);
    progress_end(&w->bar);
    load_fini(&load);
    if (rc) {
        return err_ctx(rc, "%s", w->label);
    }
    struct store_run_end end = {.status = res.aborted ? "aborted" : "done",
                                .measured_from_ns = res.measured_from_ns,
                                .measured_to_ns = res.measured_to_ns,
                                .end_ns = res.end_ns,
                                .verdict = verdict_name(res.verdict.kind),
                                .reason = res.verdict.reason};
    *interrupted = *interrupted || res.aborted;
    rc = store_run_finish(w->store, run_id, &end);
    if (!rc && !w->o->quiet) {
        printf("%-24s %-16s %s\n", w->label, verdict_name(res.verdict.kind), res.verdict.reason);
        fflush(stdout);
    }
    return rc;
}

static int run_load(struct whole *w, bool *interrupted) {
    int rc = 0;
    for (int32_t p = 0; p < w->sc->arrival.n_points && !rc && !*interrupted; p++) {
        for (int32_t i = 0; i < w->sc->n_targets && !rc && !*interrupted; i++) {
            rc = open_engine(w, i);
            rc = rc ? rc : run_point(w, i, p, interrupted);
            close_engine(w, i);
        }
    }
    return rc;
}

/* One perplexity or divergence over all targets. */
static int run_scoring(struct whole *w, const struct scenario_eval *e) {
    struct evaljob j = {.base = -1,
                        .def = PPL_DISJOINT,
                        .window = e->window,
                        .stride = e->stride,
                        .tokens = e->tokens,
                        .tty = w->o->env->err_tty,
                        .quiet = w->o->quiet};
    struct evaljob_result r[EVALUATE_MODELS_MAX];
    struct textdata text;
    int64_t ids[EVALUATE_MODELS_MAX];
    if (w->sc->n_targets > EVALUATE_MODELS_MAX) {
        return err_set(ERR_LIMIT, "%d targets, at most %d are evaluated together", w->sc->n_targets,
                       EVALUATE_MODELS_MAX);
    }
    for (int32_t i = 0; i < w->sc->n_targets; i++) {
        j.model[j.n_model] = w->target[i].s.model;
        j.name[j.n_model] = w->sc->targets[i].name;
        ids[j.n_model++] = w->target[i].target_id;
        if (e->kind == EVAL_KL && e->base && str_eq(e->base, w->sc->targets[i].name)) {
            j.base = i;
        }
    }
    int rc =
        e->definition
            ? ppl_def_parse(e->definition, &j.def)
            : (e->stride > 0 && e->stride < e->window ? ppl_def_parse("hf-strided", &j.def) : 0);
    rc = rc ? rc : textdata_open(w->o->env, e->dataset ? e->dataset : "wikitext2", &text);
    if (rc) {
        return rc;
    }
    j.text = &text;
    rc = evaljob_run(&j, r);
    rc = rc ? rc : evaljob_store(&j, r, w->store, ids);
    textdata_fini(&text);
    return rc;
}

static int run_answers(struct whole *w, const struct scenario_eval *e) {
    int rc = 0;
    for (int32_t i = 0; i < w->sc->n_targets && !rc && !interrupt_seen(); i++) {
        struct answers_job a = {.model = w->target[i].s.model,
                                .prompts = e->prompts,
                                .n_prompts = e->n_prompts,
                                .max_tokens = e->max_tokens > 0 ? e->max_tokens : 64,
                                .store = w->store,
                                .target_id = w->target[i].target_id};
        rc = open_engine(w, i);
        a.engine = w->target[i].s.engine;
        rc = rc ? rc : answers_run(&a);
        close_engine(w, i);
    }
    return rc;
}

static int run_evals(struct whole *w) {
    int rc = 0;
    for (int32_t i = 0; i < w->sc->n_evals && !rc; i++) {
        const struct scenario_eval *e = &w->sc->evals[i];
        /* why: a divergence gives the perplexities as well; one pass over the text is enough */
        bool covered = false;
        for (int32_t k = 0; k < w->sc->n_evals && e->kind == EVAL_PERPLEXITY; k++) {
            const struct scenario_eval *o = &w->sc->evals[k];
            covered = covered || (o->kind == EVAL_KL && o->window == e->window &&
                                  o->tokens == e->tokens && o->stride == e->stride);
        }
        if (!covered) {
            rc = e->kind == EVAL_ANSWERS ? run_answers(w, e) : run_scoring(w, e);
        }
    }
    return rc;
}

static int run_all(struct whole *w, bool *interrupted) {
    int rc = 0;
    for (int32_t i = 0; i < w->sc->n_targets && !rc; i++) {
        rc = open_target(w, i);
    }
    rc = rc ? rc : begin_session(w);
    if (!rc && !w->o->no_load) {
        rc = run_load(w, interrupted);
    }
    if (!rc && !w->o->no_evaluate && !*interrupted) {
        rc = run_evals(w);
        if (rc == ERR_CANCELED) {
            *interrupted = true;
            rc = 0;
        }
    }
    if (w->store && w->session_id) {
        int rc2 = store_session_end(w->store, w->session_id,
                                    rc || *interrupted ? "aborted" : "done", clock_wall_ns());
        rc = rc ? rc : rc2;
    }
    return rc;
}

int scenario_run(const struct scenario_run_opts *o, bool *interrupted) {
    struct whole w = {.o = o, .sc = o->sc};
    *interrupted = false;
    w.target = mem_array(MEM_HARNESS, o->sc->n_targets, (int64_t)sizeof *w.target);
    if (!w.target) {
        return ERR_NOMEM;
    }
    int rc = run_all(&w, interrupted);
    for (int32_t i = 0; i < o->sc->n_targets; i++) {
        session_close(&w.target[i].s);
    }
    mem_free(w.target);
    int rc2 = w.store ? store_close(w.store) : 0;
    return rc ? rc : rc2;
}
