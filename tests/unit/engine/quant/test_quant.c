/* A checkpoint in, a checkpoint folder out: against llm-compressor's files, against the same
 * arithmetic done here in memory, and everything that must be refused or left clean. */
#include "tests/support/support.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/json.h"
#include "engine/quant/quant.h"
#include "engine/run/engine.h"
#include "kernels/backend.h"
#include "tests/support/toy_model.h"

enum { GROUP = 32, N_IDS = 24, SAMPLES = 16, SAMPLE_TOK = 64 };

static char dir[FILE_PATH_MAX]; /* holds src and out */
static char src[FILE_PATH_MAX];
static char out[FILE_PATH_MAX];
static struct toy_model toy;

static int setup(void **state) {
    test_setup(state);
    test_tmpdir(dir);
    toy_model_init(&toy, 2, DTYPE_F32);
    int rc = file_join(src, dir, "src");
    rc = rc ? rc : file_join(out, dir, "out");
    return rc ? rc : file_mkdirs(src);
}

static int teardown(void **state) {
    fault_disarm();
    toy_model_fini(&toy);
    test_rmdir(dir);
    return test_teardown(state);
}

static struct quant_opts opts(enum quant_method m) {
    return (struct quant_opts){.method = m,
                               .grid = {.bits = 4, .group = GROUP},
                               .dense_type = DTYPE_F32,
                               .backend = "cpu",
                               .n_threads = 1};
}

static bool in_out(const char *name) {
    char path[FILE_PATH_MAX];
    assert_ok(file_join(path, out, name));
    return file_exists(path);
}

static void open_model(const char *path, struct model **m) {
    assert_ok(model_open(path, NULL, m));
}

static void open_toy(struct model **m) {
    toy_model_write_hf(&toy, src, "", 0);
    open_model(src, m);
}

/* What a run reported, by module in order. */
struct log {
    struct quant_module module[32];
    int32_t n;
    double done;
    double total;
    double stop_at; /* progress that cancels; 0: never */
};

static void keep_module(void *ctx, const struct quant_module *m) {
    struct log *l = ctx;
    assert_true(l->n < ARRAY_LEN(l->module));
    l->module[l->n++] = *m;
}

static int keep_progress(void *ctx, double done, double total) {
    struct log *l = ctx;
    assert_true(done >= l->done && done <= total + 1e-9);
    l->done = done;
    l->total = total;
    return l->stop_at > 0 && done >= l->stop_at ? 1 : 0;
}

static struct quant_sink sink_of(struct log *l) {
    return (struct quant_sink){.module = keep_module, .progress = keep_progress, .ctx = l};
}

/* The calibration ids that llm-compressor saw: [16, 64]. */
static void read_calib(int32_t *ids) {
    json_t *j = NULL;
    assert_ok(json_read(test_golden("quant/calib.json"), &j));
    const json_t *rows = json_object_get(j, "ids");
    assert_int_equal(json_array_size(rows), SAMPLES);
    for (int32_t s = 0; s < SAMPLES; s++) {
        const json_t *row = json_array_get(rows, (size_t)s);
        assert_int_equal(json_array_size(row), SAMPLE_TOK);
        for (int32_t t = 0; t < SAMPLE_TOK; t++) {
            ids[s * SAMPLE_TOK + t] = (int32_t)json_integer_value(json_array_get(row, (size_t)t));
        }
    }
    json_decref(j);
}

static int64_t n_codes_apart(const struct tensor *a, const struct tensor *b) {
    int64_t n = 0;
    assert_true(a && b && a->bytes == b->bytes);
    for (int64_t i = 0; i < a->bytes; i++) {
        n += (a->data[i] & 15) != (b->data[i] & 15) ? 1 : 0;
        n += a->data[i] >> 4 != b->data[i] >> 4 ? 1 : 0;
    }
    return n;
}

/* Compares all packed tensors of two folders. out: codes that differ; *n_all counts them */
static int64_t compare_folders(const char *a, const char *b, int64_t *n_all) {
    struct ckpt *x = NULL;
    struct ckpt *y = NULL;
    int64_t n = 0;
    *n_all = 0;
    assert_ok(ckpt_open(a, &x));
    assert_ok(ckpt_open(b, &y));
    assert_int_equal(x->dir.n, y->dir.n);
    for (int32_t i = 0; i < x->dir.n; i++) {
        const struct tensor *t = &x->dir.items[i];
        const struct tensor *u = ckpt_find(y, t->name);
        assert_non_null(u);
        assert_true(t->type == u->type && t->n_dim == u->n_dim && t->bytes == u->bytes);
        if (strstr(t->name, "weight_packed")) {
            n += n_codes_apart(t, u);
            *n_all += 2 * t->bytes;
        } else {
            assert_memory_equal(t->data, u->data, (size_t)t->bytes);
        }
    }
    ckpt_close(x);
    ckpt_close(y);
    return n;
}

static void test_quant_rtn_equals_llmcompressor_bit_for_bit(void **state) {
    (void)state;
    struct model *m = NULL;
    int64_t n_all = 0;
    struct quant_opts o = opts(QUANT_RTN);
    open_model(test_golden("models/llama"), &m);
    assert_ok(quant_run(m, out, &o, NULL));
    assert_int_equal(compare_folders(out, test_golden("quant/llama__rtn_w4a16_g32__f32"), &n_all),
                     0);
    assert_int_equal(n_all, 3 * 43008);
    model_close(m);
}

static double expected(const json_t *module, const char *part, const char *key) {
    const json_t *o = part ? json_object_get(module, part) : module;
    const json_t *v = json_object_get(o, key);
    assert_true(json_is_number(v));
    return json_number_value(v);
}

/* |w|^2 of a module of the source. */
static double square(const struct model *m, const char *name) {
    for (int32_t i = 0; i < m->weights->cfg.n_layer; i++) {
        for (int32_t r = 0; r < LINEAR_N; r++) {
            char full[TENSOR_NAME_MAX];
            weights_module_name(full, i, (enum linear_role)r);
            if (strcmp(full, name) != 0) {
                continue;
            }
            const struct wmat *w = &m->weights->layer[i].lin[r].w;
            double sum = 0;
            for (int32_t row = 0; row < w->n; row++) {
                float x[256];
                ref_decode(w, row, 0, w->k, x);
                for (int32_t c = 0; c < w->k; c++) {
                    sum += (double)x[c] * (double)x[c];
                }
            }
            return sum;
        }
    }
    fail_msg("no module %s", name);
    return 0;
}

static void
check_gptq_module(const struct model *m, const struct quant_module *q, const json_t *all) {
    const json_t *e = json_object_get(all, q->name);
    assert_non_null(e);
    assert_string_equal(q->method, "gptq");
    assert_true(q->n_sample == SAMPLES && q->n_tok == SAMPLES * SAMPLE_TOK && q->n_retry == 0);
    double ref = expected(e, "err_gptq_inputs", "sq_ref");
    double err = expected(e, "err_gptq_inputs", "sq_err");
    assert_rel(q->logged, expected(e, NULL, "llmcompressor_gptq_error_full_precision"), 1e-3);
    assert_rel(q->damp, expected(e, "err_gptq_inputs", "dampening"), 1e-4);
    assert_rel(q->rel_error * ref, err, 1e-3);
    /* half_loss_identity: the log is |dW x|^2 / n + damp / 2 |dW|^2, our own numbers put in */
    double ww = square(m, q->name);
    assert_rel(q->rel_error * ref / SAMPLES + q->damp / 2 * q->weight_error * ww, q->logged, 1e-4);
}

static void test_quant_gptq_equals_llmcompressor(void **state) {
    (void)state;
    static const char golden[] = "quant/llama__gptq_w4a16_g32_static__f32";
    static int32_t ids[SAMPLES * SAMPLE_TOK];
    struct model *m = NULL;
    struct log log = {0};
    struct quant_sink sink = sink_of(&log);
    struct quant_opts o = opts(QUANT_GPTQ);
    char path[FILE_PATH_MAX];
    json_t *e = NULL;
    int64_t n_all = 0;
    read_calib(ids);
    o.calib = ids;
    o.n_sample = SAMPLES;
    o.sample_tok = SAMPLE_TOK;
    open_model(test_golden("models/llama"), &m);
    assert_ok(quant_run(m, out, &o, &sink));
    int64_t n = compare_folders(out, test_golden(golden), &n_all);
    print_message("%lld of %lld codes differ\n", (long long)n, (long long)n_all);
    assert_true(n * 1000 <= n_all);
    assert_ok(file_join(path, test_golden(golden), "expected.json"));
    assert_ok(json_read(path, &e));
    assert_int_equal(log.n, 21);
    assert_rel(log.done, log.total, 1e-12);
    for (int32_t i = 0; i < log.n; i++) {
        check_gptq_module(m, &log.module[i], json_object_get(e, "modules"));
    }
    json_decref(e);
    model_close(m);
}

/* Memory of one linear layer quantized here, without the pipeline. */
struct mine {
    uint32_t *words;
    float *scale;
    int8_t *zero;
};

static void quantize_here(struct linear *lin, const struct grid_opts *g, struct mine *q) {
    int32_t n = lin->w.n;
    int32_t k = lin->w.k;
    float *x = mem_array(MEM_TEST, (int64_t)n * k, 4);
    int8_t *codes = mem_array(MEM_TEST, (int64_t)n * k, 1);
    q->words = mem_array(MEM_TEST, n * i64_div_up(k, 8), 4);
    q->scale = mem_array(MEM_TEST, (int64_t)n * (k / g->group), 4);
    q->zero = g->asymmetric ? mem_array(MEM_TEST, (int64_t)n * (k / g->group), 1) : NULL;
    for (int32_t r = 0; r < n; r++) {
        ref_decode(&lin->w, r, 0, k, x + (int64_t)r * k);
    }
    grid_scales(g, x, n, k, NULL, q->scale, q->zero);
    grid_round(g, x, n, k, q->scale, q->zero, codes);
    grid_pack4(codes, n, k, q->words);
    lin->w = (struct wmat){.type = DTYPE_W4,
                           .n = n,
                           .k = k,
                           .data = q->words,
                           .row_bytes = 4 * i64_div_up(k, 8),
                           .scale = q->scale,
                           .scale_type = DTYPE_F32,
                           .zero = q->zero,
                           .group = g->group};
    mem_free(x);
    mem_free(codes);
}

struct rows {
    float *v; /* [N_IDS, V] */
    int32_t n;
};

static int keep_row(void *ctx, int32_t pos, const float *logits, int32_t vocab) {
    struct rows *r = ctx;
    memcpy(r->v + (int64_t)pos * vocab, logits, (size_t)vocab * sizeof *logits);
    r->n++;
    return 0;
}

static float *logits_of(const struct weights *w, const char *backend) {
    struct engine *e = NULL;
    struct engine_opts o = {.backend = backend, .n_threads = 1, .n_blocks = 8, .ctx_max = 64};
    struct rows r = {.v = mem_array(MEM_TEST, (int64_t)N_IDS * w->cfg.vocab, 4)};
    int32_t ids[N_IDS];
    assert_non_null(r.v);
    for (int32_t i = 0; i < N_IDS; i++) {
        ids[i] = (7 * i + 3) % w->cfg.vocab;
    }
    assert_ok(engine_open(w, &o, &e));
    assert_ok(engine_score(e, ids, N_IDS, 0, keep_row, &r));
    assert_int_equal(r.n, N_IDS);
    engine_close(e);
    return r.v;
}

static void test_quant_folder_gives_the_logits_of_memory(void **state) {
    (void)state;
    for (int32_t way = 0; way < 2; way++) {
        struct model *m = NULL;
        struct model *back = NULL;
        struct mine mine[2 * LINEAR_N];
        struct quant_opts o = opts(QUANT_RTN);
        o.grid.asymmetric = way == 1;
        open_toy(&m);
        assert_ok(quant_run(m, out, &o, NULL));
        open_model(out, &back);
        assert_non_null(strstr(back->weights->scheme, way ? "asymmetric" : "group 32, symmetric"));
        for (int32_t i = 0; i < 2 * LINEAR_N; i++) {
            struct grid_opts g = o.grid;
            g.scale_type = DTYPE_F32;
            quantize_here(&m->weights->layer[i / LINEAR_N].lin[i % LINEAR_N], &g, &mine[i]);
        }
        float *a = logits_of(m->weights, "cpu");
        float *b = logits_of(back->weights, "cpu");
        assert_memory_equal(a, b, N_IDS * TOY_V * sizeof *a);
        mem_free(a);
        mem_free(b);
        for (int32_t i = 0; i < 2 * LINEAR_N; i++) {
            mem_free(mine[i].words);
            mem_free(mine[i].scale);
            mem_free(mine[i].zero);
        }
        model_close(m);
        model_close(back);
    }
}

static void test_quant_none_copies_a_gguf_as_a_folder(void **state) {
    (void)state;
    char gguf[FILE_PATH_MAX];
    struct model *m = NULL;
    struct model *back = NULL;
    struct quant_opts o = opts(QUANT_NONE);
    toy_model_fini(&toy);
    toy_model_init(&toy, 2, DTYPE_Q4_1);
    assert_ok(file_join(gguf, src, "toy.gguf"));
    toy_model_write_gguf(&toy, gguf);
    open_model(gguf, &m);
    assert_int_equal(quant_dense_default(m->weights), DTYPE_F16);
    assert_ok(quant_run(m, out, &o, NULL));
    open_model(out, &back);
    assert_true(back->weights->cfg.n_eos == 1 && back->weights->cfg.eos[0] == TOY_EOS);
    float *a = logits_of(m->weights, "ref"); /* both decode to the same numbers */
    float *b = logits_of(back->weights, "ref");
    assert_memory_equal(a, b, N_IDS * TOY_V * sizeof *a);
    mem_free(a);
    mem_free(b);
    model_close(m);
    model_close(back);
}

static void test_quant_halves_are_loaded_back(void **state) {
    (void)state;
    static const enum dtype types[] = {DTYPE_F16, DTYPE_BF16};
    for (int32_t i = 0; i < ARRAY_LEN(types); i++) {
        struct model *m = NULL;
        struct model *back = NULL;
        struct quant_opts o = opts(QUANT_RTN);
        o.dense_type = types[i];
        open_toy(&m);
        assert_ok(quant_run(m, out, &o, NULL));
        open_model(out, &back);
        assert_int_equal(back->weights->embed.type, types[i]);
        assert_int_equal(back->weights->layer[1].lin[LINEAR_DOWN].w.scale_type, types[i]);
        assert_int_equal(quant_dense_default(back->weights), types[i]);
        model_close(m);
        model_close(back);
    }
}

static void
expect_refused(const struct model *m, const struct quant_opts *o, int code, const char *part) {
    assert_err(quant_run(m, out, o, NULL), code, part);
    assert_false(file_exists(out));
}

static void test_quant_refusals_write_nothing(void **state) {
    (void)state;
    struct model *m = NULL;
    const int32_t ids[2] = {1, TOY_V};
    struct quant_opts o = opts(QUANT_RTN);
    open_toy(&m);
    o.grid.group = 48;
    expect_refused(m, &o, ERR_CONFIG,
                   "group size 48 does not divide the columns of q_proj (32 columns), k_proj (32 "
                   "columns), v_proj (32 columns), o_proj (32 columns), gate_proj (32 columns), "
                   "up_proj (32 columns), down_proj (64 columns); 32 does");
    o.grid.group = 64;
    expect_refused(m, &o, ERR_CONFIG, "up_proj (32 columns); 32 does");
    o.grid.group = 0;
    expect_refused(m, &o, ERR_CONFIG, "group size 0");
    o = opts(QUANT_RTN);
    o.grid.bits = 8;
    expect_refused(m, &o, ERR_UNSUPPORTED, "8 bits");
    o = opts(QUANT_RTN);
    o.dense_type = DTYPE_I8;
    expect_refused(m, &o, ERR_CONFIG, "dense type I8, want F32, F16 or BF16");
    o = opts(QUANT_GPTQ);
    expect_refused(m, &o, ERR_CONFIG, "GPTQ needs calibration samples");
    o.calib = ids;
    o.n_sample = 1;
    o.sample_tok = 2;
    expect_refused(m, &o, ERR_RANGE, "calibration token 40 is outside the vocabulary of 40");
    o.sample_tok = TOY_CTX + 1;
    expect_refused(m, &o, ERR_RANGE, "1 samples of 129 tokens (context 128)");
    o.sample_tok = 1;
    o.backend = "abacus";
    expect_refused(m, &o, ERR_UNSUPPORTED, "abacus");
    model_close(m);
}

static void test_quant_refuses_to_write_over_what_is_read(void **state) {
    (void)state;
    struct model *m = NULL;
    char dotted[FILE_PATH_MAX];
    char path[FILE_PATH_MAX];
    struct quant_opts o = opts(QUANT_RTN);
    open_toy(&m);
    assert_err(quant_run(m, src, &o, NULL), ERR_CONFIG, "is the source");
    assert_ok(file_join(dotted, src, "../src/."));
    assert_err(quant_run(m, dotted, &o, NULL), ERR_CONFIG, "is the source");
    assert_ok(file_mkdirs(out));
    assert_ok(file_join(path, out, "model.safetensors.index.json"));
    assert_ok(file_write(path, "{}", 2));
    assert_err(quant_run(m, out, &o, NULL), ERR_CONFIG, "would be read instead");
    model_close(m);
}

static void test_quant_canceled_leaves_no_model(void **state) {
    (void)state;
    static int32_t ids[2 * 8];
    struct model *m = NULL;
    struct quant_opts o = opts(QUANT_GPTQ);
    struct log whole = {0};
    struct quant_sink sink = sink_of(&whole);
    for (int32_t i = 0; i < 16; i++) {
        ids[i] = 3 + i;
    }
    o.calib = ids;
    o.n_sample = 2;
    o.sample_tok = 8;
    open_toy(&m);
    assert_ok(quant_run(m, out, &o, &sink));
    test_rmdir(out);
    for (double at = 1; at <= whole.total; at++) {
        struct log log = {.stop_at = at};
        sink = sink_of(&log);
        assert_err(quant_run(m, out, &o, &sink), ERR_CANCELED, "interrupted");
        assert_false(in_out("model.safetensors"));
        assert_false(in_out("config.json"));
    }
    model_close(m);
}

static void test_quant_disk_full_leaves_nothing_half_written(void **state) {
    (void)state;
    struct model *m = NULL;
    struct quant_opts o = opts(QUANT_RTN);
    char path[FILE_PATH_MAX];
    int rc = ERR_IO;
    open_toy(&m);
    for (int32_t n = 1; rc; n++) {
        fault_arm(FAULT_WRITE, n, true);
        rc = quant_run(m, out, &o, NULL);
        fault_disarm();
        assert_true(rc == 0 || rc == ERR_IO);
        assert_true(rc == 0 || !in_out("config.json"));
        if (in_out("model.safetensors")) {
            struct ckpt *c = NULL;
            assert_ok(file_join(path, out, "config.json"));
            assert_ok(rc ? file_write(path, "{}", 2) : 0);
            assert_ok(ckpt_open(out, &c));
            ckpt_close(c);
        }
        test_rmdir(out);
        assert_true(n < 300);
    }
    model_close(m);
}

static void test_quant_names_the_layer_that_overflows(void **state) {
    (void)state;
    static const int32_t ids[8] = {3, 4, 5, 6, 7, 8, 9, 10};
    struct model *m = NULL;
    struct quant_opts o = opts(QUANT_GPTQ);
    static const char *const names[] = {"model.layers.1.mlp.gate_proj.weight",
                                        "model.layers.1.mlp.up_proj.weight"};
    for (int32_t i = 0; i < 2; i++) {
        struct toy_tensor *t = toy_model_at(&toy, names[i]);
        for (int64_t j = 0; j < t->bytes / 4; j++) {
            float v;
            memcpy(&v, t->data + 4 * j, 4);
            v *= 1e25f;
            memcpy(t->data + 4 * j, &v, 4);
        }
    }
    o.calib = ids;
    o.n_sample = 1;
    o.sample_tok = 8;
    open_toy(&m);
    assert_err(quant_run(m, out, &o, NULL), ERR_NUMERIC, "model.layers.1.mlp.down_proj: Hessian");
    assert_false(in_out("model.safetensors"));
    o.method = QUANT_RTN;
    assert_err(quant_run(m, out, &o, NULL), ERR_NUMERIC, "layer 1 gives");
    assert_false(in_out("model.safetensors"));
    model_close(m);
}

static void test_quant_qwen3_keeps_its_norms(void **state) {
    (void)state;
    struct model *m = NULL;
    struct model *back = NULL;
    struct quant_opts o = opts(QUANT_RTN);
    o.grid.group = 16;
    open_model(test_golden("models/qwen3"), &m);
    assert_ok(quant_run(m, out, &o, NULL));
    open_model(out, &back);
    assert_true(back->weights->cfg.qk_norm);
    assert_memory_equal(back->weights->layer[0].q_norm, m->weights->layer[0].q_norm,
                        (size_t)m->weights->cfg.head_dim * 4);
    model_close(m);
    model_close(back);
}

#define QUANT_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {QUANT_TEST(test_quant_rtn_equals_llmcompressor_bit_for_bit),
                                       QUANT_TEST(test_quant_gptq_equals_llmcompressor),
                                       QUANT_TEST(test_quant_folder_gives_the_logits_of_memory),
                                       QUANT_TEST(test_quant_none_copies_a_gguf_as_a_folder),
                                       QUANT_TEST(test_quant_halves_are_loaded_back),
                                       QUANT_TEST(test_quant_refusals_write_nothing),
                                       QUANT_TEST(test_quant_refuses_to_write_over_what_is_read),
                                       QUANT_TEST(test_quant_canceled_leaves_no_model),
                                       QUANT_TEST(test_quant_disk_full_leaves_nothing_half_written),
                                       QUANT_TEST(test_quant_names_the_layer_that_overflows),
                                       QUANT_TEST(test_quant_qwen3_keeps_its_norms)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
