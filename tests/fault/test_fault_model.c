/* Memory, maps, reads, writes and renames fail one after the other, once and for ever, over the
 * whole way from a folder to an answer, and from a folder to a quantized one.
 *
 * Every n is tried up to the last that fires: the toy is small enough. */
#include "tests/support/support.h"

#include <string.h>
#include <unistd.h>

#include "engine/quant/quant.h"
#include "engine/run/engine.h"
#include "engine/sched/seq.h"
#include "tests/support/toy_model.h"

static char dir[FILE_PATH_MAX];
static char src[FILE_PATH_MAX];
static char out[FILE_PATH_MAX];
static struct toy_model toy;

static int setup(void **state) {
    test_setup(state);
    test_tmpdir(dir);
    toy_model_init(&toy, 1, DTYPE_F32);
    int rc = file_join(src, dir, "src");
    rc = rc ? rc : file_join(out, dir, "out");
    rc = rc ? rc : file_mkdirs(src);
    toy_model_write_hf(&toy, src, "", 0);
    return rc;
}

static int teardown(void **state) {
    fault_disarm();
    toy_model_fini(&toy);
    test_rmdir(dir);
    return test_teardown(state);
}

static const int codes[] = {ERR_NOMEM, ERR_IO, 0};

static int load(void *ctx) {
    (void)ctx;
    struct ckpt *c = NULL;
    struct weights *w = NULL;
    int rc = ckpt_open(src, &c);
    rc = rc ? rc : weights_load(c, NULL, &w);
    weights_free(w);
    ckpt_close(c);
    return rc;
}

static void test_fault_load_folder(void **state) {
    (void)state;
    test_fault_loop(FAULT_ALLOC, load, NULL, codes);
    test_fault_loop(FAULT_MMAP, load, NULL, codes);
    test_fault_loop(FAULT_READ, load, NULL, codes);
}

/* Success without a tokenizer that is there would be a silent loss. */
static int open_model(void *ctx) {
    (void)ctx;
    struct model *m = NULL;
    int rc = model_open(src, NULL, &m);
    assert_true(rc || m->tok);
    model_close(m);
    return rc;
}

static void test_fault_model_open_with_tokenizer(void **state) {
    (void)state;
    struct buf b;
    char path[FILE_PATH_MAX];
    buf_init(&b, MEM_TEST, 1 << 20);
    assert_ok(buf_str(&b, "{\"decoder\":{\"type\":\"ByteLevel\"},\"pre_tokenizer\":{\"type\":"
                          "\"ByteLevel\",\"add_prefix_space\":false},\"model\":{\"type\":\"BPE\","
                          "\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[\"a b\"]}}"));
    assert_ok(file_join(path, src, "tokenizer.json"));
    assert_ok(file_write(path, buf_cstr(&b), b.len));
    buf_fini(&b);
    test_fault_loop(FAULT_ALLOC, open_model, NULL, codes);
}

/* Opens an engine and runs two requests to their ends, one of them aborted half-way. */
static int serve(void *ctx) {
    const char *backend = ctx;
    struct ckpt *c = NULL;
    struct weights *w = NULL;
    struct engine *e = NULL;
    uint64_t id = 0;
    const int32_t ids[6] = {3, 4, 5, 6, 7, 8};
    struct engine_opts o = {.backend = backend,
                            .n_threads = 1,
                            .block_tok = 4,
                            .batch_tok_max = 16,
                            .running_max = 2,
                            .waiting_max = 4,
                            .n_blocks = 8};
    struct engine_request r = {.ids = ids, .n_ids = 6, .max_new = 5, .ignore_stop = true};
    int rc = ckpt_open(src, &c);
    rc = rc ? rc : weights_load(c, NULL, &w);
    rc = rc ? rc : engine_open(w, &o, &e);
    rc = rc ? rc : engine_submit(e, &r, &id);
    rc = rc ? rc : engine_submit(e, &r, &id);
    int32_t n_step = 0;
    for (bool busy = true; busy && !rc; n_step++) {
        struct event ev[16];
        rc = n_step == 2 ? engine_abort(e, id) : 0;
        rc = rc ? rc : engine_step(e, &busy);
        int32_t n = rc ? 0 : engine_poll(e, ev, 16);
        for (int32_t i = 0; i < n; i++) {
            assert_int_not_equal(ev[i].finish, FINISH_ERROR);
        }
    }
    engine_close(e);
    weights_free(w);
    ckpt_close(c);
    return rc;
}

static void test_fault_serve_on_every_backend(void **state) {
    (void)state;
    char null[] = "null";
    char ref[] = "ref";
    char cpu[] = "cpu";
    test_fault_loop(FAULT_ALLOC, serve, null, codes);
    test_fault_loop(FAULT_ALLOC, serve, ref, codes);
    test_fault_loop(FAULT_ALLOC, serve, cpu, codes);
}

static void clean_out(void) {
    static const char *const names[] = {"model.safetensors", "config.json",
                                        "generation_config.json"};
    for (int32_t i = 0; i < ARRAY_LEN(names); i++) {
        char path[FILE_PATH_MAX];
        assert_ok(file_join(path, out, names[i]));
        if (file_exists(path)) {
            assert_int_equal(unlink(path), 0);
        }
    }
    /* nothing else may be there, no part of a file either */
    assert_true(!file_exists(out) || rmdir(out) == 0);
}

/* Quantizes with one sample; a failure leaves no config.json and no part of a file. */
static int quantize(void *ctx) {
    (void)ctx;
    const int32_t ids[4] = {3, 4, 5, 6};
    struct model *m = NULL;
    struct quant_opts o = {.method = QUANT_GPTQ,
                           .grid = {.bits = 4, .group = 32},
                           .dense_type = DTYPE_BF16,
                           .n_threads = 1,
                           .calib = ids,
                           .n_sample = 1,
                           .sample_tok = 4};
    char config[FILE_PATH_MAX];
    assert_ok(file_join(config, out, "config.json"));
    int rc = model_open(src, NULL, &m);
    rc = rc ? rc : quant_run(m, out, &o, NULL);
    model_close(m);
    m = NULL;
    assert_int_equal(file_exists(config), rc == 0);
    rc = rc ? rc : model_open(out, NULL, &m);
    model_close(m);
    clean_out();
    return rc;
}

static void test_fault_quantize(void **state) {
    (void)state;
    test_fault_loop(FAULT_ALLOC, quantize, NULL, codes);
    test_fault_loop(FAULT_MMAP, quantize, NULL, codes);
    test_fault_loop(FAULT_READ, quantize, NULL, codes);
    test_fault_loop(FAULT_WRITE, quantize, NULL, codes);
    test_fault_loop(FAULT_RENAME, quantize, NULL, codes);
}

#define FAULT_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        FAULT_TEST(test_fault_load_folder), FAULT_TEST(test_fault_model_open_with_tokenizer),
        FAULT_TEST(test_fault_serve_on_every_backend), FAULT_TEST(test_fault_quantize)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
