/* trilemma bench: the engine's raw speed in llama-bench's terms, with the roof beside it.
 *
 * ppN: one prompt of N random ids, time until its last row is computed. tgN: N tokens of one
 * sequence behind a prompt of `depth` ids, the first left out. Bytes a step are the stored weights
 * but the rows of the embedding table that are not read, and the cache. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/base/json.h"
#include "engine/base/mem.h"
#include "engine/base/rng.h"
#include "engine/base/str.h"
#include "engine/model/arch.h"
#include "harness/cmds.h"
#include "harness/interrupt.h"
#include "harness/session.h"
#include "kernels/cpu/backend_cpu.h"

enum { BATCHES_MAX = 16, REPEATS_MAX = 100 };

struct bench {
    struct session_opts so;
    int32_t pp;
    int32_t pp_batch; /* prompts at once */
    int32_t tg;
    int32_t skip; /* tokens of each sequence in front of the measured ones */
    int32_t depth;
    int32_t repeats;
    const char *batches;
    bool json;
    bool random;        /* the model is a configuration */
    double load_s;      /* opening, binding and checking the checkpoint, tokenizer included */
    int64_t peak_bytes; /* resident at most by the end of that */
    json_t *rows;
};

struct timing {
    double tok_s[REPEATS_MAX];
    int32_t n;
};

static void prompt_of(int32_t *ids, int32_t n, int32_t vocab, uint64_t stream) {
    struct rng r;
    rng_init(&r, 1, stream);
    for (int32_t i = 0; i < n; i++) {
        ids[i] = (int32_t)rng_below(&r, vocab);
    }
}

/* Seconds of the prompt part, and of the decode part at full batch with its tokens. */
struct measured {
    double prefill_s;
    double decode_s;
    int32_t n_decoded;
};

/* Runs batch sequences of n[0] + n[1] tokens. */
static int one(struct engine *e,
               int32_t vocab,
               int32_t batch,
               const int32_t n[3], /* prompt, new tokens, new tokens in front of the measured */
               uint64_t stream,
               struct measured *out) {
    int32_t *ids = mem_array(MEM_HARNESS, n[0], (int64_t)sizeof *ids);
    int rc = ids ? 0 : ERR_NOMEM;
    for (int32_t i = 0; i < batch && !rc; i++) {
        uint64_t id = 0;
        prompt_of(ids, n[0], vocab, stream * 1000 + (uint64_t)i);
        struct engine_request r = {.ids = ids, .n_ids = n[0], .max_new = n[1], .ignore_stop = true};
        rc = engine_submit(e, &r, &id);
    }
    mem_free(ids);
    int64_t t0 = clock_now_ns();
    int64_t t_first = 0;
    int64_t t_begin = 0;
    int64_t t_last = 0;
    int32_t n_first = 0;
    int32_t n_ready = 0;
    int32_t n_over = 0;
    *out = (struct measured){0};
    while (!rc && n_over < batch) {
        struct event ev[512];
        bool busy = false;
        rc = engine_step(e, &busy);
        int32_t got = engine_poll(e, ev, ARRAY_LEN(ev));
        for (int32_t i = 0; i < got; i++) {
            bool token = ev[i].kind == EVENT_TOKEN;
            n_over += token ? 0 : 1;
            if (token && ev[i].index == 0 && ++n_first == batch) {
                t_first = ev[i].t_ns;
            }
            if (token && ev[i].index == n[2] && ++n_ready == batch) {
                t_begin = ev[i].t_ns; /* every sequence decodes from here on, until one ends */
            } else if (token && n_ready == batch && ev[i].t_ns > t_begin && n_over == 0) {
                out->n_decoded++;
                t_last = ev[i].t_ns;
            }
        }
        if (interrupt_seen()) {
            rc = err_set(ERR_CANCELED, "interrupted");
        }
    }
    out->prefill_s = (double)(t_first - t0) * 1e-9;
    out->decode_s = t_last > t_begin ? (double)(t_last - t_begin) * 1e-9 : 0;
    return rc;
}

static double mean_of(const struct timing *t, double *sd) {
    double sum = 0;
    double sq = 0;
    for (int32_t i = 0; i < t->n; i++) {
        sum += t->tok_s[i];
    }
    for (int32_t i = 0; i < t->n; i++) {
        sq += (t->tok_s[i] - sum / t->n) * (t->tok_s[i] - sum / t->n);
    }
    *sd = t->n > 1 ? sqrt(sq / (t->n - 1)) : (double)NAN;
    return sum / t->n;
}

/* Floating point operations of one token through the layers. */
static double flop_per_token(const struct weights *w, int32_t ctx) {
    const struct model_cfg *c = &w->cfg;
    double linear = 0;
    for (int32_t r = 0; r < LINEAR_N; r++) {
        int32_t n = 0;
        int32_t k = 0;
        weights_linear_shape(c, (enum linear_role)r, &n, &k);
        linear += 2.0 * n * k;
    }
    return c->n_layer * (linear + 4.0 * c->n_head * c->head_dim * ctx);
}

/* Bytes that one decode step must read. */
static double bytes_per_step(const struct weights *w, int32_t batch, int32_t ctx, enum dtype kv) {
    double table = (double)w->embed.n * (double)w->embed.row_bytes;
    double read = (double)w->bytes - (w->cfg.tied ? 0 : table);
    return read + (double)batch * ctx * (double)model_cfg_kv_bytes_per_token(&w->cfg, kv);
}

static json_t *number(double v) {
    return isfinite(v) ? json_real(v) : json_null();
}

static void print_row(struct bench *b,
                      const char *test,
                      const struct timing *t,
                      double gflops,
                      double gbs,
                      const struct cpu_roof *roof) {
    double sd = 0;
    double v = mean_of(t, &sd);
    double share = gflops > 0 ? gflops / roof->gflops : gbs / roof->gbytes;
    json_array_append_new(
        b->rows, json_pack("{s:s, s:o, s:o, s:i, s:o, s:o, s:o}", "test", test, "tok_per_s",
                           number(v), "sd", number(sd), "repeats", t->n, "gflop_per_s",
                           gflops > 0 ? number(gflops) : json_null(), "gbyte_per_s",
                           gbs > 0 ? number(gbs) : json_null(), "share_of_roof", number(share)));
    if (b->json) {
        return;
    }
    printf("%-18s %10.1f +- %5.1f tok/s   ", test, v, isnan(sd) ? 0 : sd);
    printf(gflops > 0 ? "%6.1f GFLOP/s" : "%6.1f GB/s   ", gflops > 0 ? gflops : gbs);
    if (isfinite(share)) {
        printf(" = %3.0f %% of %.1f", 100 * share, gflops > 0 ? roof->gflops : roof->gbytes);
    }
    printf("\n");
    fflush(stdout);
}

static int bench_prefill(struct bench *b, struct session *s, const struct cpu_roof *roof) {
    struct timing t = {0};
    char name[32];
    const struct weights *w = s->model->weights;
    for (int32_t i = 0; i <= b->repeats; i++) {
        struct measured m;
        int rc = one(s->engine, w->cfg.vocab, b->pp_batch, (const int32_t[]){b->pp, 1, 0},
                     (uint64_t)i, &m);
        if (rc) {
            return rc;
        }
        if (i > 0) { /* the first warms the pages */
            t.tok_s[t.n++] =
                m.prefill_s > 0 ? b->pp * (double)b->pp_batch / m.prefill_s : (double)NAN;
        }
    }
    double sd = 0;
    if (b->pp_batch > 1) {
        snprintf(name, sizeof name, "pp%d b%d", b->pp, b->pp_batch);
    } else {
        snprintf(name, sizeof name, "pp%d", b->pp);
    }
    print_row(b, name, &t, mean_of(&t, &sd) * flop_per_token(w, b->pp / 2) * 1e-9, 0, roof);
    return 0;
}

static int
bench_decode(struct bench *b, struct session *s, int32_t batch, const struct cpu_roof *roof) {
    struct timing t = {0};
    char name[48];
    const struct weights *w = s->model->weights;
    enum dtype kv = DTYPE_F32;
    int rc = session_kv_type(&b->so, w, &kv);
    if (rc) {
        return rc;
    }
    for (int32_t i = 0; i < b->repeats; i++) {
        struct measured m;
        rc = one(s->engine, w->cfg.vocab, batch,
                 (const int32_t[]){b->depth, b->tg + b->skip + 1, b->skip}, 100 + (uint64_t)i, &m);
        if (rc) {
            return rc;
        }
        t.tok_s[t.n++] = m.decode_s > 0 ? m.n_decoded / m.decode_s : (double)NAN;
    }
    double sd = 0;
    double step = bytes_per_step(w, batch, b->depth + b->skip + b->tg / 2, kv);
    snprintf(name, sizeof name, "tg%d b%d d%d", b->tg, batch, b->depth);
    print_row(b, name, &t, 0, mean_of(&t, &sd) / batch * step * 1e-9, roof);
    return 0;
}

static int parse_batches(const char *text, int32_t *out, int32_t *n) {
    char word[16];
    *n = 0;
    while (*text) {
        size_t len = strcspn(text, ",");
        int64_t v = 0;
        if (len >= sizeof word || *n == BATCHES_MAX) {
            return err_set(ERR_USAGE, "--batches \"%s\": want up to %d numbers", text, BATCHES_MAX);
        }
        memcpy(word, text, len);
        word[len] = '\0';
        int rc = str_i64(word, 1, 1024, &v);
        if (rc) {
            err_ctx(rc, "--batches");
            return ERR_USAGE;
        }
        out[(*n)++] = (int32_t)v;
        text += len + (text[len] == ',' ? 1 : 0);
    }
    return 0;
}

/* The roof of this machine's processor; NaN for another backend, whose roof is not measured. */
static int measure_roof(const struct session_opts *so, struct cpu_roof *roof) {
    struct backend *be = NULL;
    if (so->backend && !str_eq(so->backend, backend_cpu.name)) {
        *roof = (struct cpu_roof){.gflops = (double)NAN, .gbytes = (double)NAN};
        return 0;
    }
    struct backend_opts o = {.n_threads = so->n_threads,
                             .variant = so->variant,
                             .n_tok_max = 1,
                             .k_max = 64,
                             .ctx_max = 16,
                             .n_head_max = 1};
    int rc = backend_cpu.open(&o, &be);
    rc = rc ? rc : backend_cpu_roof(be, roof);
    if (be) {
        backend_cpu.close(be);
    }
    return rc;
}

static int bench_all(struct bench *b, struct session *s) {
    int32_t batch[BATCHES_MAX];
    int32_t n = 0;
    int32_t most = 1;
    struct cpu_roof roof;
    int rc = parse_batches(b->batches, batch, &n);
    rc = rc ? rc : measure_roof(&b->so, &roof);
    for (int32_t i = 0; i < n; i++) {
        most = i32_max(most, batch[i]);
    }
    most = i32_max(most, b->pp_batch);
    int32_t len = i32_max(b->pp + 1, b->depth + b->skip + b->tg + 1);
    struct engine_opts base = {.running_max = most,
                               .batch_tok_max = i32_max(512, most),
                               .ctx_max = len,
                               .n_blocks = most * ((len + 15) / 16),
                               .no_prefix_cache = true};
    rc = rc ? rc : session_engine(s, &b->so, &base);
    if (!rc && !b->json) {
        printf("%s, %s, %s", s->path, s->model->weights->scheme, engine_describe(s->engine));
        if (isfinite(roof.gflops)) {
            printf("; roof: %.0f GFLOP/s, %.1f GB/s read, measured now", roof.gflops, roof.gbytes);
        }
        printf("\n");
        char peak[STR_NUM_MAX];
        char stored[STR_NUM_MAX];
        printf("%-18s %10.3f s; at most %s resident, %s of it weights as stored\n", "load",
               b->load_s, str_show_bytes(peak, b->peak_bytes),
               str_show_bytes(stored, s->model->weights->bytes));
    }
    rc = rc || b->pp == 0 ? rc : bench_prefill(b, s, &roof);
    for (int32_t i = 0; i < n && !rc && b->tg > 0; i++) {
        rc = bench_decode(b, s, batch[i], &roof);
    }
    return rc;
}

/* A model of random weights on the shape of a config.json. */
static int random_model(const char *path, struct session *s) {
    json_t *j = NULL;
    struct model_cfg cfg;
    *s = (struct session){0};
    str_copy(s->path, (int64_t)sizeof s->path, path);
    int rc = json_read(path, &j);
    rc = rc ? rc : arch_read_hf_cfg(j, path, &cfg);
    json_decref(j);
    return rc ? rc : model_random(&cfg, &s->model);
}

static int64_t peak_resident(void) {
    struct rusage u;
    return getrusage(RUSAGE_SELF, &u) == 0 ? (int64_t)u.ru_maxrss * 1024 : 0;
}

static int run(const struct cmd *self, const struct cli_env *env, int argc, char **argv) {
    struct bench b = {
        .pp = 512, .pp_batch = 1, .tg = 128, .depth = 16, .repeats = 3, .batches = "1,4,16"};
    struct cli_args args;
    struct session s = {0};
    const struct cli_opt opts[] = {
        {"pp", CLI_I32, &b.pp, "N", "prompt tokens, 0: leave out [512]", 0, 1 << 20},
        {"tg", CLI_I32, &b.tg, "N", "generated tokens, 0: leave out [128]", 0, 1 << 20},
        {"depth", CLI_I32, &b.depth, "N", "prompt in front of the generated tokens [16]", 1,
         1 << 20},
        {"batches", CLI_STR, &b.batches, "LIST", "sequences at once [1,4,16]", 0, 0},
        {"pp-batch", CLI_I32, &b.pp_batch, "N", "prompts at once [1]", 1, 1024},
        {"skip", CLI_I32, &b.skip, "N", "generated tokens in front of the measured [0]", 0,
         1 << 20},
        {"random-weights", CLI_FLAG, &b.random, NULL, "MODEL is a config.json; weights are random",
         0, 0},
        {"repeats", CLI_I32, &b.repeats, "N", "[3]", 1, REPEATS_MAX},
        {"json", CLI_FLAG, &b.json, NULL, "JSON instead of text", 0, 0},
        SESSION_OPTS(b.so)};
    int rc = cli_parse(self, opts, ARRAY_LEN(opts), argc, argv, 1, 1, &args);
    if (rc || args.help) {
        return rc;
    }
    interrupt_install();
    b.rows = json_array();
    int64_t t0 = clock_now_ns();
    rc = b.random ? random_model(args.pos[0], &s) : session_model(env, args.pos[0], &s);
    b.load_s = (double)(clock_now_ns() - t0) * 1e-9;
    b.peak_bytes = peak_resident();
    rc = rc ? rc : bench_all(&b, &s);
    if (!rc && b.json) {
        json_t *o =
            json_pack("{s:s, s:s, s:s, s:f, s:I, s:I, s:O}", "model", args.pos[0], "scheme",
                      s.model->weights->scheme, "engine", engine_describe(s.engine), "load_s",
                      b.load_s, "weight_bytes", (json_int_t)s.model->weights->bytes,
                      "peak_bytes_loading", (json_int_t)b.peak_bytes, "tests", b.rows);
        json_dumpf(o, stdout, JSON_COMPACT);
        printf("\n");
        json_decref(o);
    }
    json_decref(b.rows);
    session_close(&s);
    return rc;
}

const struct cmd cmd_bench = {
    .name = "bench",
    .summary = "Raw speed of the engine (pp512, tg128, batches) with the roof beside it.",
    .usage = "MODEL [--pp N] [--tg N] [--batches LIST] [options]",
    .example = "trilemma bench smollm2-135m --batches 1,16",
    .run = run};
