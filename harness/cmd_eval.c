/* trilemma eval: perplexity by a named definition, divergence from a base. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/base/str.h"
#include "harness/cmds.h"
#include "harness/evaljob.h"
#include "harness/interrupt.h"
#include "harness/paths.h"
#include "harness/provenance.h"

struct eval_opts {
    struct evaljob job;
    const char *task;
    const char *dataset;
    const char *ids_file;
    const char *definition;
    const char *kl;
    const char *db;
    bool json;
};

static json_t *number(double v) {
    return isfinite(v) ? json_real(v) : json_null();
}

static json_t *ratio_json(struct stat_ci c) {
    return isnan(c.value) ? json_null()
                          : json_pack("{s:o, s:o, s:o}", "value", number(c.value), "lo",
                                      number(c.lo), "hi", number(c.hi));
}

static json_t *kl_json(const struct evaluate_kl *k) {
    if (isnan(k->mean)) {
        return json_null();
    }
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:{s:o, s:o, s:o}}", "value",
                     number(k->mean), "lo", number(k->lo), "hi", number(k->hi), "p50",
                     number(k->p50), "p90", number(k->p90), "p99", number(k->p99), "max",
                     number(k->max), "top1", "value", number(k->top1), "lo", number(k->top1_lo),
                     "hi", number(k->top1_hi));
}

static void print_json(const struct evaljob *j, const struct evaljob_result *r) {
    json_t *list = json_array();
    for (int32_t i = 0; i < j->n_model; i++) {
        json_array_append_new(
            list,
            json_pack("{s:s, s:s, s:i, s:i, s:s, s:o, s:I, s:I, s:o, s:{s:o, s:o, s:o}, s:o, "
                      "s:o, s:o, s:f}",
                      "model", j->name[i], "definition", ppl_def_name(j->def), "window", j->window,
                      "stride", j->stride, "dataset", j->text ? j->text->label : "token ids",
                      "dataset_sha256", j->text ? json_string(j->text->sha256) : json_null(),
                      "n_tokens", (json_int_t)r[i].n_tok, "n_scored", (json_int_t)r[i].n_scored,
                      "nll_sum", number(r[i].ppl.nll_sum), "perplexity", "value",
                      number(r[i].ppl.ppl), "lo", number(r[i].ppl.lo), "hi", number(r[i].ppl.hi),
                      "perplexity_whole_windows", number(r[i].whole.ppl), "perplexity_ratio",
                      ratio_json(r[i].ratio), "kl", kl_json(&r[i].kl), "seconds", r[i].seconds));
    }
    json_t *o = json_pack("{s:o}", "results", list);
    json_dumpf(o, stdout, JSON_COMPACT | JSON_REAL_PRECISION(17));
    printf("\n");
    json_decref(o);
}

static void print_text(const struct evaljob *j, const struct evaljob_result *r) {
    printf("perplexity (%s, window %d", ppl_def_name(j->def), j->window);
    if (j->def == PPL_HF_STRIDED) {
        printf(", stride %d", j->stride);
    }
    printf(") of %s, %lld tokens scored\n", j->text ? j->text->label : "token ids",
           (long long)r[0].n_scored);
    for (int32_t i = 0; i < j->n_model; i++) {
        printf("  %-40s %9.4f  [%.4f, %.4f]", j->name[i], r[i].ppl.ppl, r[i].ppl.lo, r[i].ppl.hi);
        if (!isnan(r[i].kl.mean) && i != j->base) {
            printf("   %.4fx [%.4f, %.4f], KL %.4f [%.4f, %.4f] nats, top-1 agreement %.2f %%",
                   r[i].ratio.value, r[i].ratio.lo, r[i].ratio.hi, r[i].kl.mean, r[i].kl.lo,
                   r[i].kl.hi, 100 * r[i].kl.top1);
        } else if (i == j->base) {
            printf("   (base)");
        }
        printf("\n");
    }
}

/* Where the results go. */
struct place {
    struct store *s;
    int64_t session_id; /* the newest session that has targets; 0: none */
    int64_t target[EVALUATE_MODELS_MAX];
    char name[EVALUATE_MODELS_MAX][96];
};

static int newest_session(struct place *p) {
    struct store_rows *rows = NULL;
    bool has = false;
    int rc = store_rows_open(p->s, "v_target", "session_id", NULL, 0, "session_id desc", &rows);
    rc = rc ? rc : store_rows_next(rows, &has);
    p->session_id = !rc && has ? store_rows_i64(rows, 0) : 0;
    store_rows_close(rows);
    return rc;
}

/* The first target of that session with these weights. out: *found */
static int find_target(struct place *p, const char *sha256, int32_t i, bool *found) {
    struct store_rows *rows = NULL;
    bool has = true;
    *found = false;
    int rc = store_rows_open(p->s, "v_target", "target_id, name, sha256", "session_id",
                             p->session_id, "target_id", &rows);
    while (!rc && has && !*found) {
        rc = store_rows_next(rows, &has);
        const char *sha = !rc && has ? store_rows_str(rows, 2) : NULL;
        if (sha && str_eq(sha, sha256)) {
            *found = true;
            p->target[i] = store_rows_i64(rows, 0);
            str_copy(p->name[i], (int64_t)sizeof p->name[i], store_rows_str(rows, 1));
        }
    }
    store_rows_close(rows);
    return rc;
}

/* The newest session takes the results when all models are targets of it. out: *all */
static int find_all(struct place *p, const struct evaljob *j, bool *all) {
    int rc = newest_session(p);
    *all = p->session_id > 0;
    for (int32_t i = 0; i < j->n_model && !rc && *all; i++) {
        char sha[FILE_SHA256_HEX];
        rc = ckpt_sha256(j->model[i]->ckpt, sha);
        rc = rc ? rc : find_target(p, sha, i, all);
    }
    return rc;
}

/* A session of its own, with every model as a target. */
static int make_session(struct place *p, const struct evaljob *j, const struct session *ss) {
    p->session_id = 0;
    int rc = provenance_session(p->s, "eval", NULL, NULL, 0, (double)NAN, &p->session_id);
    for (int32_t i = 0; i < j->n_model && !rc; i++) {
        int64_t checkpoint = 0;
        rc = provenance_checkpoint(p->s, ss[i].model, ss[i].path, &checkpoint);
        struct store_target t = {.session_id = p->session_id,
                                 .name = j->name[i],
                                 .kind = "engine",
                                 .is_base = i == j->base,
                                 .checkpoint_id = checkpoint};
        rc = rc ? rc : store_target(p->s, &t, &p->target[i]);
        str_copy(p->name[i], (int64_t)sizeof p->name[i], j->name[i]);
    }
    return rc;
}

static int save(const struct evaljob *j,
                const struct evaljob_result *r,
                const char *db,
                const struct session *ss) {
    struct place p = {0};
    struct evaljob named = *j;
    bool all = false;
    int rc = store_open(db, STORE_WRITE, &p.s);
    rc = rc ? rc : find_all(&p, j, &all);
    rc = rc || all ? rc : make_session(&p, j, ss);
    for (int32_t i = 0; i < j->n_model; i++) {
        named.name[i] = p.name[i];
    }
    rc = rc ? rc : evaljob_store(&named, r, p.s, p.target);
    return provenance_end(p.s, all ? 0 : p.session_id, rc != 0, rc);
}

static int open_models(const struct cli_env *env,
                       struct eval_opts *o,
                       const struct cli_args *args,
                       struct session *ss) {
    struct evaljob *j = &o->job;
    int rc = 0;
    for (int32_t i = 0; i < args->n_pos && !rc; i++) {
        j->name[i] = args->pos[i];
        if (o->kl && str_eq(o->kl, args->pos[i])) {
            j->base = i;
        }
    }
    j->n_model = args->n_pos;
    if (o->kl && j->base < 0) {
        if (j->n_model == EVALUATE_MODELS_MAX) {
            return err_set(ERR_USAGE, "more than %d models", EVALUATE_MODELS_MAX);
        }
        j->base = j->n_model;
        j->name[j->n_model++] = o->kl;
    }
    for (int32_t i = 0; i < j->n_model && !rc; i++) {
        rc = session_model(env, j->name[i], &ss[i]);
        j->model[i] = ss[i].model;
    }
    return rc;
}

static int read_input(const struct cli_env *env,
                      struct eval_opts *o,
                      struct textdata *text,
                      struct tok_ids *ids) {
    if (!o->ids_file) {
        o->job.text = text;
        return textdata_open(env, o->dataset, text);
    }
    json_t *lists = NULL;
    const json_t *list = NULL;
    int rc = session_read_ids(o->ids_file, &lists);
    rc = rc ? rc : session_one_list(o->ids_file, lists, &list);
    rc = rc ? rc : session_ids(o->ids_file, list, o->job.model[0]->weights->cfg.vocab, ids);
    json_decref(lists);
    o->job.ids = ids->v;
    o->job.n_ids = ids->n;
    return rc;
}

/* Fills in what was left out, and refuses what would be ignored. */
static int check(struct eval_opts *o) {
    struct evaljob *j = &o->job;
    if (!str_eq(o->task, "perplexity")) {
        return err_set(ERR_USAGE, "--task \"%s\" is not known; known is perplexity", o->task);
    }
    bool strides = j->stride > 0 && (j->window == 0 || j->stride < j->window);
    const char *def = o->definition ? o->definition : (strides ? "hf-strided" : "disjoint");
    int rc = ppl_def_parse(def, &j->def);
    if (rc) {
        return rc;
    }
    bool rows = j->def == PPL_SEED && !o->ids_file;
    if (rows && j->tokens > 0) {
        return err_set(ERR_USAGE, "--tokens does not count the rows of \"seed\"; --rows does");
    }
    if (!rows && (j->rows > 0 || j->strip)) {
        return err_set(ERR_USAGE, "--rows and --strip-rows are of --definition seed on a text");
    }
    if (j->window == 0) {
        j->window = j->def == PPL_HF_STRIDED || j->def == PPL_DISJOINT ? 2048 : 512;
    }
    if (j->def != PPL_HF_STRIDED && j->stride > 0 && j->stride != j->window) {
        fprintf(stderr, "trilemma eval: --stride is of hf-strided; %s goes on by whole windows\n",
                def);
    }
    if (j->def != PPL_HF_STRIDED || j->stride == 0) {
        j->stride = j->window;
    }
    return 0;
}

static int run(const struct cmd *self, const struct cli_env *env, int argc, char **argv) {
    struct eval_opts o = {.task = "perplexity", .dataset = "wikitext2"};
    struct cli_args args;
    struct session ss[EVALUATE_MODELS_MAX] = {{0}};
    struct evaljob_result r[EVALUATE_MODELS_MAX];
    struct textdata text = {0};
    struct tok_ids ids;
    const struct cli_opt opts[] = {
        {"task", CLI_STR, &o.task, "NAME", "perplexity", 0, 0},
        {"dataset", CLI_STR, &o.dataset, "NAME|FILE", "text to score [wikitext2]", 0, 0},
        {"ids", CLI_STR, &o.ids_file, "FILE", "JSON list of token ids instead of a text", 0, 0},
        {"definition", CLI_STR, &o.definition, "NAME",
         "hf-strided, disjoint, llama.cpp or seed [hf-strided with a --stride, else disjoint]", 0,
         0},
        {"window", CLI_I32, &o.job.window, "N", "tokens of a window [2048; llama.cpp and seed 512]",
         2, 1 << 24},
        {"stride", CLI_I32, &o.job.stride, "M", "hf-strided: new tokens a window [the window]", 1,
         1 << 24},
        {"tokens", CLI_I64, &o.job.tokens, "N", "use the first N tokens [all]", 1, 0},
        {"rows", CLI_I32, &o.job.rows, "N", "seed: use the first N rows [all]", 1, INT32_MAX},
        {"strip-rows", CLI_FLAG, &o.job.strip, NULL, "seed: rows without their newline", 0, 0},
        {"kl", CLI_STR, &o.kl, "BASE", "divergence of every model from BASE", 0, 0},
        {"db", CLI_STR, &o.db, "FILE", "keep the results in this database", 0, 0},
        {"json", CLI_FLAG, &o.json, NULL, "JSON instead of text", 0, 0},
        SESSION_OPTS(o.job.engine)};
    int rc = cli_parse(self, opts, ARRAY_LEN(opts), argc, argv, 1, EVALUATE_MODELS_MAX, &args);
    if (rc || args.help) {
        return rc;
    }
    o.job.base = -1;
    o.job.tty = env->err_tty;
    tok_ids_init(&ids);
    interrupt_install();
    rc = check(&o);
    rc = rc ? rc : open_models(env, &o, &args, ss);
    rc = rc ? rc : read_input(env, &o, &text, &ids);
    rc = rc ? rc : evaljob_run(&o.job, r);
    if (!rc && o.json) {
        print_json(&o.job, r);
    } else if (!rc) {
        print_text(&o.job, r);
    }
    if (!rc && o.db) {
        rc = save(&o.job, r, o.db, ss);
    }
    for (int32_t i = 0; i < EVALUATE_MODELS_MAX; i++) {
        session_close(&ss[i]);
    }
    textdata_fini(&text);
    tok_ids_fini(&ids);
    return rc;
}

const struct cmd cmd_eval = {
    .name = "eval",
    .summary = "Perplexity by a named definition, KL divergence and agreement with a base.",
    .usage = "MODEL... [--dataset NAME|FILE | --ids FILE] [--definition NAME] [--window N] "
             "[--stride M] [--kl BASE] [options]",
    .example =
        "trilemma eval smollm2-135m out/smollm2-135m-gptq-w4 --dataset wikitext2 --window 2048 "
        "--tokens 40000 --kl smollm2-135m",
    .run = run};
