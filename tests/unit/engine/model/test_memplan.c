/* What fits, by hand: the arithmetic that any server's first question needs. */
#include "tests/support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/json.h"
#include "engine/model/memplan.h"
#include "engine/model/weights.h"
#include "tests/support/quant_golden.h"
#include "tests/support/toy_model.h"

static struct model_cfg llama_7b(void) {
    struct model_cfg c;
    model_cfg_init(&c);
    c.n_layer = 32;
    c.n_head = c.n_kv_head = 32;
    c.head_dim = 128;
    c.hidden = 4096;
    c.ffn = 11008;
    c.vocab = 32000;
    c.ctx_max = 32768;
    return c;
}

static const char llama_7b_json[] =
    "{\"model_type\":\"llama\",\"num_hidden_layers\":32,\"num_attention_heads\":32,"
    "\"num_key_value_heads\":32,\"hidden_size\":4096,\"intermediate_size\":11008,"
    "\"vocab_size\":32000,\"max_position_embeddings\":32768}";

static void test_memplan_512_kib_a_token_16_gib_at_32k(void **state) {
    (void)state;
    struct model_cfg c = llama_7b();
    struct memplan p;
    memplan_make(&c, DTYPE_F16, DTYPE_F16, 32768, 64LL << 30, &p);
    assert_int_equal(p.kv_bytes_per_token, 512 << 10); /* 2 x 32 layers x 32 heads x 128 x 2 */
    assert_true(p.kv_bytes_per_seq == 16LL << 30);
    assert_true(p.n_param == 6738415616); /* Llama 2 7B's own number */
    assert_true(p.weight_bytes == 2 * p.n_param);
    assert_true(p.kv_bytes_free == (64LL << 30) - p.weight_bytes);
    assert_int_equal(p.n_seq_max, 3);
    assert_true(p.n_tok_max == p.kv_bytes_free / (512 << 10));
}

static void test_memplan_weights_alone_too_large(void **state) {
    (void)state;
    struct model_cfg c = llama_7b();
    struct memplan p;
    memplan_make(&c, DTYPE_F32, DTYPE_F32, 4096, 8LL << 30, &p);
    assert_true(p.kv_bytes_free == 0 && p.n_seq_max == 0 && p.n_tok_max == 0);
    memplan_make(&c, DTYPE_F32, DTYPE_F32, 4096, 0, &p);
    assert_true(p.memory_bytes == 0 && p.n_seq_max == 0 && p.n_tok_max == 0);
}

static void test_memplan_grouped_heads_and_block_caches(void **state) {
    (void)state;
    struct model_cfg c = llama_7b();
    struct memplan p;
    c.n_kv_head = 8;
    memplan_make(&c, DTYPE_BF16, DTYPE_F16, 1, 0, &p);
    assert_int_equal(p.kv_bytes_per_token, 128 << 10);
    memplan_make(&c, DTYPE_Q8_0, DTYPE_Q8_0, 1, 0, &p);
    assert_int_equal(p.kv_bytes_per_token, 2 * 32 * 8 * (128 / 32) * 34);
    assert_true(p.weight_bytes == p.n_param / 32 * 34);
    assert_int_equal(model_cfg_kv_bytes_per_token(&c, DTYPE_F32), 256 << 10);
}

static void test_memplan_counts_what_weights_load_counts(void **state) {
    (void)state;
    struct toy_model toy;
    char dir[FILE_PATH_MAX];
    struct ckpt *c = NULL;
    struct weights *w = NULL;
    test_tmpdir(dir);
    toy_model_init(&toy, 2, DTYPE_F32);
    toy_model_write_hf(&toy, dir, "", 0);
    assert_ok(ckpt_open(dir, &c));
    assert_ok(weights_load(c, NULL, &w));
    assert_int_equal(memplan_n_param(&w->cfg), w->n_param);
    weights_free(w);
    ckpt_close(c);
    toy_model_fini(&toy);
    test_rmdir(dir);
}

/* A plan from shapes and schemes alone holds the bytes that loading finds, but for numbers beside
 * the modules: input scales and those of a cache. */
static void test_memplan_quantized_is_what_weights_load_counts(void **state) {
    (void)state;
    for (int32_t i = 0; i < quant_n_folders; i++) {
        struct quant_golden g;
        struct memplan p;
        struct memplan tight;
        quant_golden_open(quant_folders[i].name, &g);
        bool f32 = strstr(quant_folders[i].name, "__f32") != NULL;
        bool half = g.w->embed.type == DTYPE_F16;
        memplan_make(&g.w->cfg, half ? DTYPE_F16 : DTYPE_BF16, DTYPE_F16, 16, 0, &p);
        tight = p;
        assert_ok(memplan_quantize(&g.w->cfg, DTYPE_BF16, &g.w->q, &p));
        int64_t off = g.w->bytes - p.weight_bytes;
        if (!f32 && (off < 0 || off > 64)) { /* F32 scales and tables are not in config.json */
            fail_msg("%s: %lld bytes, planned %lld", quant_folders[i].name, (long long)g.w->bytes,
                     (long long)p.weight_bytes);
        }
        assert_true(g.w->q.n_scheme == 0 || p.weight_bytes < tight.weight_bytes);
        quant_golden_close(&g);
    }
}

static void test_memplan_quantized_changes_what_fits(void **state) {
    (void)state;
    struct model_cfg c = llama_7b();
    struct memplan p;
    struct qformat q;
    json_t *j = json_pack("{s:{s:s,s:i,s:i}}", "quantization_config", "quant_method", "awq", "bits",
                          4, "group_size", 128);
    assert_ok(qformat_read(j, "t", &q));
    memplan_make(&c, DTYPE_F16, DTYPE_F16, 1024, 8LL << 30, &p);
    assert_int_equal(p.n_seq_max, 0);
    assert_ok(memplan_quantize(&c, DTYPE_F16, &q, &p));
    /* 32 layers of 202,375,168 weights at 4 + 20/128 bits; tables and norms in F16 */
    int64_t inside = 32LL * (4 * 4096 * 4096 + 3 * 4096 * 11008);
    int64_t rest = 6738415616 - inside;
    assert_true(p.weight_bytes == inside / 2 + inside / 128 * 5 / 2 + 2 * rest);
    assert_true(p.n_seq_max == p.kv_bytes_free / p.kv_bytes_per_seq && p.n_seq_max > 0);
    qformat_fini(&q);
    json_decref(j);
}

static void test_memplan_windows(void **state) {
    (void)state;
    struct model_cfg c = llama_7b();
    struct memplan p;
    for (int32_t i = 0; i < 24; i++) {
        c.layer[i].window = 1024;
    }
    memplan_make(&c, DTYPE_F16, DTYPE_F16, 4096, 0, &p);
    assert_true(p.kv_bytes_full == 4096LL * (512 << 10));
    assert_true(p.kv_bytes_per_seq == (24LL * 1024 + 8 * 4096) * (16 << 10));
    memplan_make(&c, DTYPE_F16, DTYPE_F16, 512, 0, &p);
    assert_true(p.kv_bytes_full == p.kv_bytes_per_seq);
}

static void test_memplan_command_says_the_same(void **state) {
    (void)state;
    const char *bin = getenv("TRILEMMA_BIN");
    char dir[FILE_PATH_MAX];
    char path[FILE_PATH_MAX];
    char cmd[3 * FILE_PATH_MAX];
    char out[4096] = "";
    json_t *j = NULL;
    if (!bin) {
        print_message("TRILEMMA_BIN does not say where the program is\n");
        skip();
    }
    test_tmpdir(dir);
    assert_ok(file_join(path, dir, "config.json"));
    assert_ok(file_write(path, llama_7b_json, (int64_t)strlen(llama_7b_json)));
    snprintf(cmd, sizeof cmd, "'%s' plan '%s' --memory 64GiB --weights F16 --kv F16 --json", bin,
             path);
    FILE *f = popen(cmd, "r");
    assert_non_null(f);
    size_t n = fread(out, 1, sizeof out - 1, f);
    assert_int_equal(pclose(f), 0);
    assert_ok(json_parse("plan", out, (int64_t)n, &j));
    assert_int_equal(json_integer_value(json_object_get(j, "kv_bytes_per_token")), 512 << 10);
    assert_true(json_integer_value(json_object_get(j, "kv_bytes_per_sequence")) == 16LL << 30);
    assert_int_equal(json_integer_value(json_object_get(j, "sequences_that_fit")), 3);
    json_decref(j);
    test_rmdir(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {TEST(test_memplan_512_kib_a_token_16_gib_at_32k),
                                       TEST(test_memplan_weights_alone_too_large),
                                       TEST(test_memplan_grouped_heads_and_block_caches),
                                       TEST(test_memplan_counts_what_weights_load_counts),
                                       TEST(test_memplan_quantized_is_what_weights_load_counts),
                                       TEST(test_memplan_quantized_changes_what_fits),
                                       TEST(test_memplan_windows),
                                       TEST(test_memplan_command_says_the_same)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
