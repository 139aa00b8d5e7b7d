/* Order: all models are opened and every engine and load is made once, so that a wrong path or
 * option fails before anything is measured. At each point of the sweep the targets run one after
 * the other on equal requests, each from a cold prefix cache, so that slow drift of the machine
 * falls on all of them alike. */
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
#include "harness/http.h"
#include "harness/interrupt.h"
#include "harness/progress.h"
#include "harness/provenance.h"
#include "harness/replay.h"
#include "harness/target_engine.h"
#include "harness/target_null.h"
#include "reports/summary.h"

enum {
    WHY_MAX = 1024,
    VOCAB_ANY = 1 << 16, /* when no target has a vocabulary */
    CTX_ANY = 1 << 24
};

struct member {
    struct session s; /* own; empty unless it is an engine */
    char about[TARGET_ABOUT_MAX];
    int64_t target_id;
};

struct whole {
    const struct scenario_run_opts *o;
    const struct scenario *sc;
    struct store *store; /* own */
    struct scenario_run_result *res;
    struct member *target; /* own, [n_targets] */
    int32_t vocab;         /* prompts are drawn from ids below it: the smallest of all targets */
    int32_t ctx_max;
    struct progress bar;
    char label[96];
};

static bool is_engine(const struct whole *w, int32_t i) {
    return w->sc->targets[i].kind == TARGET_ENGINE;
}

static int open_model(struct whole *w, int32_t i) {
    const struct scenario_target *t = &w->sc->targets[i];
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

static int open_http(struct whole *w, const struct scenario_target *t, struct target **out) {
    const struct cli_env *env = w->o->env;
    const char *name = t->http.key_env;
    const struct http_opts o = {
        .s = &t->http, .model = t->model, .key = name && env->lookup ? env->lookup(name) : NULL};
    return http_open(&o, out);
}

/* What answers target i; an engine is open already. own: caller, close_target */
static int open_target(struct whole *w, int32_t i, struct target **out) {
    const struct scenario_target *t = &w->sc->targets[i];
    const struct target_null_opts null = {
        .ttft_ns = t->null.ttft_ns, .itl_ns = t->null.itl_ns, .tokens = t->null.tokens};
    int rc = 0;
    switch (t->kind) {
    case TARGET_ENGINE:
        rc = open_engine(w, i);
        rc = rc ? rc : target_engine_open(w->target[i].s.engine, out);
        if (!rc) {
            (*out)->vocab = w->target[i].s.model->weights->cfg.vocab;
        }
        return rc;
    case TARGET_HTTP:
        rc = open_http(w, t, out);
        break;
    case TARGET_NULL:
    case TARGET_KIND_N:
    default:
        rc = target_null_open(&null, out);
        break;
    }
    return rc ? err_ctx(rc, "target \"%s\"", t->name) : 0;
}

static void close_target(struct whole *w, int32_t i, struct target *target) {
    target_close(target);
    close_engine(w, i);
}

/* Makes the target once for its errors, and for what all targets can be asked. */
static int check_target(struct whole *w, int32_t i) {
    struct target *target = NULL;
    struct member *m = &w->target[i];
    int rc = is_engine(w, i) ? open_model(w, i) : 0;
    rc = rc ? rc : open_target(w, i, &target);
    if (!rc) {
        (void)str_copy(m->about, TARGET_ABOUT_MAX, target->about);
    }
    if (!rc) {
        w->vocab = target->vocab > 0 ? i32_min(w->vocab, target->vocab) : w->vocab;
        w->ctx_max = target->ctx_max > 0 ? i32_min(w->ctx_max, target->ctx_max) : w->ctx_max;
    }
    close_target(w, i, target);
    if (!rc && !is_engine(w, i) && w->sc->n_evals > 0 && !w->o->no_evaluate) {
        rc = err_set(ERR_UNSUPPORTED,
                     "target \"%s\": evaluations want engine targets, this one is %s; leave them "
                     "out with --no-evaluate",
                     w->sc->targets[i].name, scenario_target_kind_name(w->sc->targets[i].kind));
    }
    return rc;
}

static int record_target(struct whole *w, int32_t i) {
    int64_t checkpoint = STORE_NULL;
    struct member *t = &w->target[i];
    const char *backend = w->sc->targets[i].backend;
    int rc =
        is_engine(w, i) ? provenance_checkpoint(w->store, t->s.model, t->s.path, &checkpoint) : 0;
    struct store_target row = {.session_id = w->res->session_id,
                               .name = w->sc->targets[i].name,
                               .kind = scenario_target_kind_name(w->sc->targets[i].kind),
                               .is_base = i == scenario_base(w->sc),
                               .checkpoint_id = checkpoint,
                               .detail = !is_engine(w, i) ? t->about
                                         : backend        ? backend
                                                          : "cpu"};
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
                                 usd > 0 ? usd : (double)NAN, &w->res->session_id);
    buf_fini(&text);
    for (int32_t i = 0; i < w->sc->n_slo && !rc; i++) {
        const struct scenario_slo *s = &w->sc->slo[i];
        rc = store_slo(w->store, w->res->session_id, scenario_metric_name(s->metric),
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

/* Writes a run's end with the verdict on its stored rows. failure: NULL, or why it broke off */
static int finish_run(struct whole *w,
                      int64_t run_id,
                      const struct replay_result *res,
                      const char *failure,
                      struct verdict *v) {
    struct store_run_end end = {.status = res->aborted ? "aborted" : "done",
                                .measured_from_ns = res->measured_from_ns,
                                .measured_to_ns = res->measured_to_ns,
                                .end_ns = res->end_ns};
    int rc = store_run_finish(w->store, run_id, &end);
    rc = rc ? rc : summary_judge(w->store, run_id, v);
    if (rc) {
        return rc;
    }
    if (failure) {
        str_copy(v->reason, VERDICT_REASON_MAX, failure);
    }
    end.verdict = verdict_name(v->kind);
    end.reason = v->reason;
    return store_run_finish(w->store, run_id, &end);
}

/* One line a run on standard output. */
static void show_end(const struct whole *w, const struct verdict *v, double away_s) {
    if (w->o->quiet) {
        return;
    }
    printf("%-24s %-16s %s\n", w->label, verdict_name(v->kind), v->reason);
    if (away_s > 0) {
        printf("%-24s no answer at all from the target for %.1f s\n", "", away_s);
    }
    fflush(stdout);
}

static int replay(struct whole *w, int32_t i, int32_t point, int64_t run_id, struct target *t) {
    struct load load;
    struct replay_result res;
    struct verdict v;
    const char *on_error = w->sc->targets[i].http.on_error;
    int rc = load_init(&load, w->sc, w->vocab, w->ctx_max);
    if (rc) {
        return rc;
    }
    struct replay_opts ro = {.sc = w->sc,
                             .load = &load,
                             .target = t,
                             .point = point,
                             .store = w->store,
                             .session_id = w->res->session_id,
                             .run_id = run_id,
                             .stop_on_error = on_error && str_eq(on_error, "stop"),
                             .progress = show,
                             .ctx = w};
    progress_begin(&w->bar, "run", 1, w->o->env->err_tty, w->o->quiet);
    rc = replay_run(&ro, &res);
    progress_end(&w->bar);
    load_fini(&load);
    if (rc) {
        char why[WHY_MAX]; /* the first failure is the one to tell, whatever the second says */
        str_copy(why, WHY_MAX, err_msg());
        (void)finish_run(w, run_id, &res, why, &v);
        return err_set(rc, "%s: %s", w->label, why);
    }
    w->res->interrupted = w->res->interrupted || res.aborted;
    rc = finish_run(w, run_id, &res, NULL, &v);
    if (!rc) {
        show_end(w, &v, res.away_s);
    }
    return rc;
}

static int run_point(struct whole *w, int32_t i, int32_t point, struct target *target) {
    char label[SCENARIO_LABEL_MAX];
    int64_t run_id = 0;
    scenario_point_label(w->sc, point, label);
    snprintf(w->label, sizeof w->label, "%s %s", w->sc->targets[i].name, label);
    struct store_run row = {.session_id = w->res->session_id,
                            .target_id = w->target[i].target_id,
                            .point_index = point,
                            .point = label,
                            .point_value = w->sc->arrival.points[point],
                            .arrival = arrival_name(w->sc->arrival.kind),
                            .start_wall_ns = clock_wall_ns()};
    int rc = store_run_begin(w->store, &row, &run_id);
    w->res->n_runs += rc ? 0 : 1;
    return rc ? rc : replay(w, i, point, run_id, target);
}

static int run_load(struct whole *w) {
    int rc = 0;
    for (int32_t p = 0; p < w->sc->arrival.n_points && !rc && !w->res->interrupted; p++) {
        for (int32_t i = 0; i < w->sc->n_targets && !rc && !w->res->interrupted; i++) {
            struct target *target = NULL;
            rc = open_target(w, i, &target);
            rc = rc ? rc : run_point(w, i, p, target);
            close_target(w, i, target);
        }
    }
    return rc;
}

static const char *dataset_of(const struct scenario_eval *e) {
    return e->dataset ? e->dataset : "wikitext2";
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
    struct textdata text = {0};
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
    rc = rc ? rc : textdata_open(w->o->env, dataset_of(e), &text);
    j.text = &text;
    rc = rc ? rc : evaljob_run(&j, r);
    rc = rc ? rc : evaljob_store(&j, r, w->store, ids);
    textdata_fini(&text);
    return rc;
}

static int run_answers(struct whole *w, const struct scenario_eval *e) {
    struct answers_prompts p;
    int rc = answers_prompts_init(&p, e->file, e->prompts, e->n_prompts);
    for (int32_t i = 0; i < w->sc->n_targets && !rc; i++) {
        struct answers_job a = {.model = w->target[i].s.model,
                                .prompts = p.prompts,
                                .n_prompts = p.n,
                                .max_tokens = e->max_tokens > 0 ? e->max_tokens : 64,
                                .store = w->store,
                                .target_id = w->target[i].target_id};
        rc = open_engine(w, i);
        a.engine = w->target[i].s.engine;
        rc = rc ? rc : answers_run(&a);
        close_engine(w, i);
        rc = rc ? err_ctx(rc, "answers of target \"%s\"", w->sc->targets[i].name) : 0;
    }
    answers_prompts_fini(&p);
    return rc;
}

/* A divergence gives the perplexities as well, so one pass over the text is enough. */
static bool is_covered(const struct scenario *sc, const struct scenario_eval *e) {
    bool covered = false;
    for (int32_t k = 0; k < sc->n_evals && e->kind == EVAL_PERPLEXITY; k++) {
        const struct scenario_eval *o = &sc->evals[k];
        bool plain = !e->definition || str_eq(e->definition, "disjoint");
        covered = covered || (o->kind == EVAL_KL && o->window == e->window && plain &&
                              o->tokens == e->tokens && o->stride == e->stride &&
                              str_eq(dataset_of(o), dataset_of(e)));
    }
    return covered;
}

static int run_evals(struct whole *w) {
    int rc = 0;
    for (int32_t i = 0; i < w->sc->n_evals && !rc; i++) {
        const struct scenario_eval *e = &w->sc->evals[i];
        if (!is_covered(w->sc, e)) {
            rc = e->kind == EVAL_ANSWERS ? run_answers(w, e) : run_scoring(w, e);
        }
    }
    return rc;
}

/* Makes the load once for nothing but its errors. */
static int check_load(const struct whole *w) {
    struct load load;
    if (w->sc->arrival.n_points == 0 || w->o->no_load) {
        return 0;
    }
    int rc = load_init(&load, w->sc, w->vocab, w->ctx_max);
    if (!rc) {
        load_fini(&load);
    }
    return rc;
}

static int run_all(struct whole *w) {
    int rc = 0;
    for (int32_t i = 0; i < w->sc->n_targets && !rc; i++) {
        rc = check_target(w, i);
    }
    rc = rc ? rc : check_load(w);
    rc = rc ? rc : begin_session(w);
    if (!rc && !w->o->no_load) {
        rc = run_load(w);
    }
    if (!rc && !w->o->no_evaluate && !w->res->interrupted) {
        rc = run_evals(w);
        if (rc == ERR_CANCELED) {
            w->res->interrupted = true;
            rc = 0;
        }
    }
    return rc;
}

int scenario_run(const struct scenario_run_opts *o, struct scenario_run_result *res) {
    struct whole w = {.o = o, .sc = o->sc, .res = res, .vocab = VOCAB_ANY, .ctx_max = CTX_ANY};
    *res = (struct scenario_run_result){0};
    w.target = mem_array(MEM_HARNESS, o->sc->n_targets, (int64_t)sizeof *w.target);
    if (!w.target) {
        return ERR_NOMEM;
    }
    int rc = run_all(&w);
    rc = provenance_end(w.store, res->session_id, rc || res->interrupted, rc);
    for (int32_t i = 0; i < o->sc->n_targets; i++) {
        session_close(&w.target[i].s);
    }
    mem_free(w.target);
    return rc;
}
