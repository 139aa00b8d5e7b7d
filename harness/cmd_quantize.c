/* trilemma quantize: a checkpoint in, a quantized checkpoint folder out. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/base/json.h"
#include "engine/base/mem.h"
#include "engine/base/str.h"
#include "engine/quant/quant.h"
#include "harness/cmds.h"
#include "harness/interrupt.h"
#include "harness/progress.h"
#include "harness/provenance.h"
#include "harness/session.h"
#include "harness/textdata.h"

struct quantize {
    struct quant_opts q;
    const char *name; /* the source, as it was given */
    const char *method;
    const char *out;
    const char *calib;
    const char *calib_ids;
    const char *dtype;
    const char *observer;
    const char *db;
    bool asymmetric;
    bool no_act_order;
    bool json;
    bool tty;
    int32_t samples;
    int32_t sample_tok;
    char calib_label[160];
    struct tok_ids ids;           /* own, [n_sample, sample_tok] */
    struct quant_module *modules; /* own */
    int32_t n_module;
    int32_t cap_module;
    struct progress bar;
    char last[TENSOR_NAME_MAX];
};

static void on_module(void *ctx, const struct quant_module *m) {
    struct quantize *z = ctx;
    if (z->n_module == z->cap_module) {
        int32_t cap = z->cap_module ? 2 * z->cap_module : 64;
        struct quant_module *p = mem_realloc(MEM_HARNESS, z->modules, cap * (int64_t)sizeof *p);
        if (!p) {
            return; /* why: the row is only for the report; the checkpoint is what counts */
        }
        z->modules = p;
        z->cap_module = cap;
    }
    z->modules[z->n_module++] = *m;
    str_copy(z->last, (int64_t)sizeof z->last, m->name);
    if (z->json) {
        return;
    }
    progress_end(&z->bar);
    printf("%-34s %-5s %5d x %-5d %3d samples", m->name, m->method, m->n, m->k, m->n_sample);
    if (!isnan(m->rel_error)) {
        printf("  output error %.5f", m->rel_error);
    }
    printf("  weight error %.5f  %6.2f s  %8lld -> %8lld bytes\n", m->weight_error, m->seconds,
           (long long)m->bytes_before, (long long)m->bytes_after);
    fflush(stdout);
}

static int on_progress(void *ctx, double done, double total) {
    struct quantize *z = ctx;
    z->bar.total = total;
    progress_at(&z->bar, done, "%s", z->last);
    return interrupt_seen();
}

static int find_dtype(const char *name, const struct weights *w, enum dtype *out) {
    static const enum dtype types[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16};
    if (!name) {
        *out = quant_dense_default(w);
        return 0;
    }
    for (int32_t i = 0; i < ARRAY_LEN(types); i++) {
        if (str_eq(dtype_info(types[i])->name, name)) {
            *out = types[i];
            return 0;
        }
    }
    return err_set(ERR_USAGE, "--dtype \"%s\" is not known (F32, F16, BF16)", name);
}

/* why: GPTQ is free to choose its scales and gains by it; plain rounding keeps those of the
 * format's own definition, so that its codes equal llm-compressor's */
static int find_observer(struct quantize *z) {
    const char *name = z->observer ? z->observer : (z->q.method == QUANT_GPTQ ? "mse" : "minmax");
    if (!str_eq(name, "mse") && !str_eq(name, "minmax")) {
        return err_set(ERR_USAGE, "--observer \"%s\" is not known (minmax, mse)", name);
    }
    z->q.grid.observer = str_eq(name, "mse") ? GRID_MSE : GRID_MINMAX;
    return 0;
}

static int find_method(struct quantize *z) {
    static const char *const names[] = {"none", "rtn", "gptq"};
    for (int32_t i = 0; i < ARRAY_LEN(names); i++) {
        if (str_eq(names[i], z->method)) {
            z->q.method = (enum quant_method)i;
            return 0;
        }
    }
    return err_set(ERR_USAGE, "--method \"%s\" is not known (none, rtn, gptq)", z->method);
}

/* Samples from a file of id lists: each list is cut to the shortest. */
static int read_calib_ids(struct quantize *z, int32_t vocab) {
    json_t *lists = NULL;
    int rc = json_read(z->calib_ids, &lists);
    json_t *chunks = json_is_object(lists) ? json_object_get(lists, "chunks") : lists;
    size_t n = (size_t)i64_min((int64_t)json_array_size(chunks), z->samples);
    if (!rc && n == 0) {
        rc = err_set(ERR_FORMAT, "%s: want a list of lists of token ids", z->calib_ids);
    }
    for (size_t i = 0; i < n && !rc; i++) {
        int64_t len = (int64_t)json_array_size(json_array_get(chunks, i));
        if (len < z->sample_tok) {
            rc = err_set(ERR_FORMAT, "%s: list %zu has %lld ids, want %d", z->calib_ids, i,
                         (long long)len, z->sample_tok);
        }
        int32_t before = z->ids.n;
        rc = rc ? rc : session_ids(z->calib_ids, json_array_get(chunks, i), vocab, &z->ids);
        z->ids.n = rc ? z->ids.n : before + z->sample_tok;
    }
    z->q.n_sample = (int32_t)n;
    json_decref(lists);
    str_copy(z->calib_label, (int64_t)sizeof z->calib_label, z->calib_ids);
    return rc;
}

static int read_calib(const struct cli_env *env, struct quantize *z, const struct model *m) {
    struct textdata t = {0};
    if (z->q.method != QUANT_GPTQ && !z->calib && !z->calib_ids) {
        return 0; /* RTN measures its output error only when it is given samples */
    }
    if (z->calib_ids) {
        return read_calib_ids(z, m->weights->cfg.vocab);
    }
    int64_t want = (int64_t)z->samples * z->sample_tok;
    int rc = model_need_tok(m);
    rc = rc ? rc : textdata_open(env, z->calib ? z->calib : "calibration", &t);
    rc = rc ? rc : textdata_ids(&t, m->tok, want, &z->ids);
    if (!rc && z->ids.n < z->sample_tok) {
        rc = err_set(ERR_RANGE, "%s has %d tokens, one sample is %d", t.label, z->ids.n,
                     z->sample_tok);
    }
    z->q.n_sample = z->ids.n / z->sample_tok;
    str_copy(z->calib_label, (int64_t)sizeof z->calib_label, t.label);
    textdata_fini(&t);
    return rc;
}

static void print_json(const struct quantize *z, double seconds) {
    json_t *list = json_array();
    int64_t before = 0;
    int64_t after = 0;
    for (int32_t i = 0; i < z->n_module; i++) {
        const struct quant_module *m = &z->modules[i];
        before += m->bytes_before;
        after += m->bytes_after;
        json_array_append_new(
            list,
            json_pack("{s:s, s:s, s:[i, i], s:i, s:i, s:I, s:o, s:o, s:f, s:i, s:f, s:I, s:I}",
                      "name", m->name, "method", m->method, "shape", m->n, m->k, "group", m->group,
                      "samples", m->n_sample, "tokens", (json_int_t)m->n_tok, "output_error",
                      isnan(m->rel_error) ? json_null() : json_real(m->rel_error), "gptq_loss",
                      isnan(m->logged) ? json_null() : json_real(m->logged), "weight_error",
                      m->weight_error, "dead_columns", m->n_dead, "seconds", m->seconds,
                      "bytes_before", (json_int_t)m->bytes_before, "bytes_after",
                      (json_int_t)m->bytes_after));
    }
    json_t *o = json_pack("{s:s, s:s, s:o, s:f, s:I, s:I, s:s}", "out", z->out, "method", z->method,
                          "modules", list, "seconds", seconds, "bytes_before", (json_int_t)before,
                          "bytes_after", (json_int_t)after, "calibration", z->calib_label);
    json_dumpf(o, stdout, JSON_COMPACT);
    printf("\n");
    json_decref(o);
}

static int save_rows(const struct quantize *z, struct store *s, int64_t quant_id) {
    int rc = 0;
    for (int32_t i = 0; i < z->n_module && !rc; i++) {
        const struct quant_module *m = &z->modules[i];
        struct store_quant_module r = {.quant_run_id = quant_id,
                                       .idx = i,
                                       .name = m->name,
                                       .method = m->method,
                                       .group_size = m->group,
                                       .n_samples = m->n_sample,
                                       .n_tokens = m->n_tok,
                                       .damp = m->damp,
                                       .n_dead_columns = m->n_dead,
                                       .rel_error = m->rel_error,
                                       .logged_error = m->logged,
                                       .seconds = m->seconds,
                                       .bytes_before = m->bytes_before,
                                       .bytes_after = m->bytes_after};
        rc = store_quant_module(s, &r);
    }
    return rc;
}

static int save(const struct quantize *z, const char *source, double seconds) {
    struct store *s = NULL;
    struct model *m = NULL;
    int64_t session = 0;
    int64_t checkpoint = 0;
    int64_t quant_id = 0;
    char scheme[64];
    snprintf(scheme, sizeof scheme, "W4A16 group %d %s", z->q.grid.group,
             z->q.grid.asymmetric ? "asymmetric" : "symmetric");
    int rc = store_open(z->db, STORE_WRITE, &s);
    rc = rc ? rc : model_open(z->out, NULL, &m);
    rc = rc ? rc : provenance_session(s, "quantize", NULL, NULL, 0, (double)NAN, &session);
    rc = rc ? rc : provenance_checkpoint(s, m, z->out, &checkpoint);
    struct store_quant_run r = {.session_id = session,
                                .checkpoint_id = checkpoint,
                                .base_path = source,
                                .method = z->method,
                                .scheme = scheme,
                                .group_size = z->q.grid.group,
                                .dataset = z->calib_label[0] ? z->calib_label : NULL,
                                .n_samples = z->q.n_sample,
                                .n_tokens = (int64_t)z->q.n_sample * z->q.sample_tok,
                                .seconds = seconds};
    rc = rc ? rc : store_quant_run(s, &r, &quant_id);
    rc = rc ? rc : save_rows(z, s, quant_id);
    model_close(m);
    return provenance_end(s, session, rc != 0, rc);
}

static int quantize(struct quantize *z, const struct session *s) {
    struct quant_sink sink = {.module = on_module, .progress = on_progress, .ctx = z};
    char source[PROVENANCE_MAX];
    char before[PROVENANCE_MAX];
    int64_t start = clock_now_ns();
    z->q.calib = z->ids.v;
    z->q.sample_tok = z->sample_tok;
    z->q.grid.asymmetric = z->asymmetric;
    z->q.order = z->no_act_order ? GPTQ_ORDER_NONE : GPTQ_ORDER_STATIC;
    progress_begin(&z->bar, z->method, 1, z->tty, z->json);
    int rc = quant_run(s->model, z->out, &z->q, &sink);
    progress_end(&z->bar);
    if (rc) {
        return rc;
    }
    double seconds = (double)(clock_now_ns() - start) * 1e-9;
    provenance_read(s->path, before);
    snprintf(source, sizeof source, "%s of %.200s%s%.200s",
             z->q.method == QUANT_NONE ? "weights in full precision" : z->method, z->name,
             before[0] && z->q.method == QUANT_NONE ? ": " : "",
             z->q.method == QUANT_NONE ? before : "");
    rc = provenance_write(z->out, source);
    if (!rc && z->json) {
        print_json(z, seconds);
    } else if (!rc) {
        printf("%s: %d modules in %.1f s\n", z->out, z->n_module, seconds);
    }
    return rc || !z->db || z->q.method == QUANT_NONE ? rc : save(z, s->path, seconds);
}

static int run(const struct cmd *self, const struct cli_env *env, int argc, char **argv) {
    struct quantize z = {.method = "gptq",
                         .samples = 16,
                         .sample_tok = 512,
                         .q = {.grid = {.bits = 4, .group = 64}, .block = 128, .dampening = 0.01}};
    struct cli_args args;
    struct session s = {0};
    const struct cli_opt opts[] = {
        {"method", CLI_STR, &z.method, "NAME", "gptq, rtn, or none (full precision) [gptq]", 0, 0},
        {"out,o", CLI_STR, &z.out, "DIR", "folder to write", 0, 0},
        {"group", CLI_I32, &z.q.grid.group, "N", "columns that share a scale [64]", 1, 1 << 20},
        {"asymmetric", CLI_FLAG, &z.asymmetric, NULL, "with zero points", 0, 0},
        {"observer", CLI_STR, &z.observer, "NAME",
         "scales from minmax or least mse [gptq: mse, rtn: minmax]", 0, 0},
        {"dampening", CLI_F64, &z.q.dampening, "X", "GPTQ: share of the mean diagonal [0.01]", 0,
         0},
        {"block", CLI_I32, &z.q.block, "N", "GPTQ: columns updated at once [128]", 1, 256},
        {"no-act-order", CLI_FLAG, &z.no_act_order, NULL, "GPTQ: columns in their stored order", 0,
         0},
        {"calib", CLI_STR, &z.calib, "NAME|FILE", "calibration text [calibration]", 0, 0},
        {"calib-ids", CLI_STR, &z.calib_ids, "FILE", "JSON lists of token ids instead", 0, 0},
        {"samples", CLI_I32, &z.samples, "N", "calibration samples at most [16]", 1, 1 << 20},
        {"sample-tokens", CLI_I32, &z.sample_tok, "N", "tokens of a sample [512]", 1, 1 << 20},
        {"dtype", CLI_STR, &z.dtype, "TYPE", "embeddings, norms, scales: F32, F16, BF16 [source's]",
         0, 0},
        {"backend", CLI_STR, &z.q.backend, "NAME", "ref or cpu [cpu]", 0, 0},
        {"threads", CLI_I32, &z.q.n_threads, "N", "[one per core]", 1, 1024},
        {"db", CLI_STR, &z.db, "FILE", "keep a row a module in this database", 0, 0},
        {"json", CLI_FLAG, &z.json, NULL, "JSON instead of text", 0, 0}};
    int rc = cli_parse(self, opts, ARRAY_LEN(opts), argc, argv, 1, 1, &args);
    if (rc || args.help) {
        return rc;
    }
    if (!z.out) {
        return err_set(ERR_USAGE, "--out DIR is missing");
    }
    z.tty = env->err_tty;
    z.name = args.pos[0];
    tok_ids_init(&z.ids);
    interrupt_install();
    rc = find_method(&z);
    rc = rc ? rc : find_observer(&z);
    rc = rc ? rc : session_model(env, args.pos[0], &s);
    rc = rc ? rc : find_dtype(z.dtype, s.model->weights, &z.q.dense_type);
    rc = rc ? rc : read_calib(env, &z, s.model);
    rc = rc ? rc : quantize(&z, &s);
    tok_ids_fini(&z.ids);
    mem_free(z.modules);
    session_close(&s);
    return rc;
}

const struct cmd cmd_quantize = {
    .name = "quantize",
    .summary = "Quantize a checkpoint to 4 bits (GPTQ or RTN) into a folder that vLLM loads.",
    .usage = "MODEL --out DIR [--method gptq|rtn|none] [--group N] [options]",
    .example =
        "trilemma quantize smollm2-135m --method gptq --group 64 --out out/smollm2-135m-gptq-w4",
    .run = run};
