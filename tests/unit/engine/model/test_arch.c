/* Configurations of the families we know, from config.json and from GGUF, and what is refused. */
#include "tests/support/support.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/json.h"
#include "engine/model/arch.h"
#include "engine/model/hfconfig.h"
#include "tests/support/container_fixture.h"

#define SIZES                                                                                      \
    "\"num_hidden_layers\":2,\"num_attention_heads\":4,\"hidden_size\":64,"                        \
    "\"intermediate_size\":160,\"vocab_size\":100"
#define LLAMA "\"model_type\":\"llama\"," SIZES

static int read(const char *body, struct model_cfg *c) {
    struct buf b;
    json_t *j = NULL;
    buf_init(&b, MEM_TEST, 10000);
    assert_ok(buf_fmt(&b, "{%s}", body));
    assert_ok(json_parse("t", buf_cstr(&b), b.len, &j));
    int rc = arch_read_hf_cfg(j, "config.json", c);
    json_decref(j);
    buf_fini(&b);
    return rc;
}

static void expect_bad(const char *body, int code, const char *part) {
    struct model_cfg c = {.n_layer = -77};
    assert_err(read(body, &c), code, part);
    assert_int_equal(c.n_layer, -77);
}

static void test_arch_llama_with_defaults(void **state) {
    (void)state;
    struct model_cfg c;
    assert_ok(read(LLAMA, &c));
    assert_string_equal(c.family, "llama");
    assert_true(c.n_layer == 2 && c.n_head == 4 && c.hidden == 64 && c.ffn == 160);
    assert_true(c.n_kv_head == 4 && c.head_dim == 16 && c.vocab == 100 && c.ctx_max == 2048);
    assert_true(c.rope.type == ROPE_DEFAULT && c.rope.theta == 10000 && c.rms_eps == 1e-6f);
    assert_true(!c.tied && !c.qk_norm && !c.attn_bias && !c.o_bias && !c.mlp_bias);
    assert_true(c.bos == -1 && c.n_eos == 0 && c.attn.scale == 0.25f);
}

static void test_arch_llama_with_everything(void **state) {
    (void)state;
    struct model_cfg c;
    assert_ok(read(LLAMA ",\"num_key_value_heads\":2,\"head_dim\":32,"
                         "\"max_position_embeddings\":4096,\"rms_norm_eps\":1e-5,"
                         "\"rope_theta\":500000.0,\"tie_word_embeddings\":true,"
                         "\"attention_bias\":true,\"mlp_bias\":true,\"hidden_act\":\"silu\","
                         "\"bos_token_id\":1,\"eos_token_id\":[7,8,7]",
                   &c));
    assert_true(c.n_kv_head == 2 && c.head_dim == 32 && c.ctx_max == 4096 && c.tied);
    assert_true(c.rope.theta == 500000 && c.rms_eps == 1e-5f && c.attn_bias && c.o_bias);
    assert_true(c.mlp_bias && c.bos == 1 && c.n_eos == 2 && c.eos[0] == 7 && c.eos[1] == 8);
}

static void test_arch_qwen3_norms_heads(void **state) {
    (void)state;
    struct model_cfg c;
    assert_ok(read("\"model_type\":\"qwen3\"," SIZES ",\"head_dim\":16,\"eos_token_id\":5", &c));
    assert_string_equal(c.family, "qwen3");
    assert_true(c.qk_norm && c.n_eos == 1 && c.eos[0] == 5);
    expect_bad("\"model_type\":\"qwen3\"," SIZES ",\"use_sliding_window\":true", ERR_UNSUPPORTED,
               "use_sliding_window is true");
}

static void test_arch_rope_old_keys(void **state) {
    (void)state;
    struct model_cfg c;
    assert_ok(read(LLAMA ",\"rope_theta\":5e5,\"rope_scaling\":{\"rope_type\":\"llama3\","
                         "\"factor\":8.0,\"low_freq_factor\":1.0,\"high_freq_factor\":4.0,"
                         "\"original_max_position_embeddings\":8192}",
                   &c));
    assert_true(c.rope.type == ROPE_LLAMA3 && c.rope.theta == 5e5 && c.rope.factor == 8);
    assert_true(c.rope.low_freq_factor == 1 && c.rope.high_freq_factor == 4);
    assert_int_equal(c.rope.original_ctx, 8192);
    assert_ok(read(LLAMA ",\"rope_scaling\":{\"type\":\"linear\",\"factor\":2}", &c));
    assert_true(c.rope.type == ROPE_LINEAR && c.rope.factor == 2);
    assert_ok(read(LLAMA ",\"rope_scaling\":null", &c));
    assert_int_equal(c.rope.type, ROPE_DEFAULT);
}

static void test_arch_rope_new_keys(void **state) {
    (void)state;
    struct model_cfg c;
    assert_ok(read(LLAMA ",\"rope_parameters\":{\"rope_type\":\"yarn\",\"rope_theta\":1e6,"
                         "\"factor\":4.0,\"original_max_position_embeddings\":32768,"
                         "\"beta_fast\":16,\"beta_slow\":2,\"attention_factor\":1.5}",
                   &c));
    assert_true(c.rope.type == ROPE_YARN && c.rope.theta == 1e6 && c.rope.factor == 4);
    assert_true(c.rope.beta_fast == 16 && c.rope.beta_slow == 2);
    assert_true(c.rope.attention_factor == 1.5 && c.rope.original_ctx == 32768);
    assert_ok(
        read(LLAMA ",\"rope_parameters\":{\"rope_type\":\"default\",\"rope_theta\":7.0}", &c));
    assert_true(c.rope.theta == 7);
}

static void test_arch_rope_refusals(void **state) {
    (void)state;
    expect_bad(LLAMA ",\"rope_scaling\":{\"rope_type\":\"longrope\",\"factor\":2}", ERR_UNSUPPORTED,
               "rope type \"longrope\" is not known; known are default, linear, llama3, yarn");
    expect_bad(LLAMA ",\"rope_scaling\":{\"type\":\"dynamic\",\"factor\":2}", ERR_UNSUPPORTED,
               "\"dynamic\"");
    expect_bad(LLAMA ",\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":2,\"mscale\":0.7,"
                     "\"original_max_position_embeddings\":64}",
               ERR_UNSUPPORTED, "rope parameter \"mscale\" is not known");
    expect_bad(LLAMA ",\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":2}", ERR_FORMAT,
               "lacks original_max_position_embeddings");
    expect_bad(LLAMA ",\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":2,"
                     "\"low_freq_factor\":4,\"high_freq_factor\":4,"
                     "\"original_max_position_embeddings\":64}",
               ERR_RANGE, "low_freq_factor 4, high_freq_factor 4");
    expect_bad(LLAMA ",\"rope_scaling\":{\"rope_type\":\"linear\",\"factor\":0}", ERR_RANGE,
               "factor 0");
    expect_bad(LLAMA ",\"rope_scaling\":{\"rope_type\":7}", ERR_FORMAT, "rope_type");
    expect_bad(LLAMA ",\"rope_parameters\":{\"partial_rotary_factor\":0.5}", ERR_UNSUPPORTED,
               "partial_rotary_factor 0.5");
    expect_bad(LLAMA ",\"partial_rotary_factor\":0.5", ERR_UNSUPPORTED, "partial_rotary_factor");
    expect_bad(LLAMA ",\"rope_theta\":1", ERR_RANGE, "theta 1");
    expect_bad(LLAMA ",\"rope_theta\":\"x\"", ERR_FORMAT, "rope_theta");
}

static void test_arch_unknown_names_are_listed(void **state) {
    (void)state;
    expect_bad("\"model_type\":\"mamba\"," SIZES, ERR_UNSUPPORTED,
               "architecture \"mamba\" is not known; known are llama, qwen3");
    expect_bad(SIZES, ERR_FORMAT, "\"model_type\" is missing");
    expect_bad("\"model_type\":null," SIZES, ERR_FORMAT, "\"model_type\" is missing");
    expect_bad(LLAMA ",\"hidden_act\":\"gelu\"", ERR_UNSUPPORTED, "hidden_act \"gelu\"");
    assert_string_equal(arch_at(0)->family, "llama");
    assert_string_equal(arch_at(1)->family, "qwen3");
    assert_null(arch_at(2));
    assert_null(arch_at(-1));
}

static void test_arch_numbers_that_cannot_be(void **state) {
    (void)state;
    expect_bad("\"model_type\":\"llama\"", ERR_FORMAT, "\"num_hidden_layers\" is missing");
    expect_bad(LLAMA ",\"num_key_value_heads\":3", ERR_FORMAT,
               "4 query heads are no multiple of 3 kv heads");
    expect_bad(LLAMA ",\"num_key_value_heads\":0", ERR_RANGE, "num_key_value_heads");
    expect_bad(LLAMA ",\"head_dim\":15", ERR_FORMAT, "head_dim 15 is odd");
    expect_bad(LLAMA ",\"head_dim\":100000", ERR_RANGE, "head_dim");
    expect_bad(LLAMA ",\"rms_norm_eps\":0", ERR_RANGE, "rms_norm_eps 0");
    expect_bad(LLAMA ",\"rms_norm_eps\":1e300", ERR_RANGE, "rms_norm_eps inf");
    expect_bad(LLAMA ",\"eos_token_id\":[1,-2]", ERR_FORMAT, "eos_token_id[1]");
    expect_bad(LLAMA ",\"eos_token_id\":\"x\"", ERR_FORMAT, "eos_token_id");
    expect_bad(LLAMA ",\"eos_token_id\":[1,2,3,4,5,6,7,8,9]", ERR_LIMIT,
               "more than 8 end-of-sequence ids");
    expect_bad(LLAMA ",\"tie_word_embeddings\":1", ERR_FORMAT, "want true or false");
    expect_bad("\"model_type\":\"llama\",\"num_hidden_layers\":2,\"num_attention_heads\":4096,"
               "\"hidden_size\":64,\"intermediate_size\":160,\"vocab_size\":100",
               ERR_RANGE, "hidden_size 64 for 4096 heads and no head_dim");
    expect_bad("\"model_type\":\"llama\",\"num_hidden_layers\":100000,\"num_attention_heads\":4,"
               "\"hidden_size\":64,\"intermediate_size\":160,\"vocab_size\":100",
               ERR_RANGE, "num_hidden_layers");
}

static void test_arch_generation_config_adds_eos(void **state) {
    (void)state;
    char dir[FILE_PATH_MAX];
    char path[FILE_PATH_MAX];
    struct model_cfg c;
    static const char text[] = "{\"eos_token_id\":[9,10]}";
    model_cfg_init(&c);
    test_tmpdir(dir);
    assert_ok(hfconfig_add_eos(&c, "t", 9));
    assert_ok(hfconfig_generation(dir, &c));
    assert_int_equal(c.n_eos, 1);
    assert_ok(file_join(path, dir, "generation_config.json"));
    assert_ok(file_write(path, text, (int64_t)strlen(text)));
    assert_ok(hfconfig_generation(dir, &c));
    assert_true(c.n_eos == 2 && c.eos[1] == 10);
    assert_ok(file_write(path, "{", 1));
    assert_err(hfconfig_generation(dir, &c), ERR_FORMAT, "generation_config.json: line 1");
    test_rmdir(dir);
}

/* The metadata of a GGUF llama, with n_more entries appended by the caller's list. */
struct entry {
    const char *key;
    const char *text; /* NULL: number */
    uint32_t number;
};

static int
read_gguf(const char *family, const struct entry *more, int32_t n_more, struct model_cfg *out) {
    static const char *const keys[] = {"block_count",      "attention.head_count",
                                       "embedding_length", "feed_forward_length",
                                       "context_length",   "vocab_size"};
    static const uint32_t values[] = {2, 4, 64, 160, 512, 100};
    struct buf b;
    char key[100];
    struct ckpt c = {.kind = CKPT_GGUF, .path = "m.gguf"};
    buf_init(&b, MEM_TEST, 10000);
    container_head(&b, 3, 0, (uint64_t)(1 + ARRAY_LEN(keys) + n_more));
    container_kv_str(&b, "general.architecture", family);
    for (int32_t i = 0; i < ARRAY_LEN(keys); i++) {
        snprintf(key, sizeof key, "%s.%s", family, keys[i]);
        container_kv_u32(&b, key, values[i]);
    }
    for (int32_t i = 0; i < n_more; i++) {
        if (more[i].text) {
            container_kv_str(&b, more[i].key, more[i].text);
        } else {
            container_kv_u32(&b, more[i].key, more[i].number);
        }
    }
    assert_ok(gguf_parse("m.gguf", (const uint8_t *)b.data, b.len, &c.gguf));
    int rc = arch_read_cfg(&c, out);
    gguf_close(c.gguf);
    buf_fini(&b);
    return rc;
}

static void test_arch_gguf_llama(void **state) {
    (void)state;
    struct model_cfg c;
    const struct entry more[] = {
        {"llama.attention.head_count_kv", NULL, 2}, {"llama.attention.key_length", NULL, 32},
        {"llama.rope.dimension_count", NULL, 32},   {"llama.rope.scaling.type", "linear", 0},
        {"llama.rope.scaling.factor", NULL, 4},     {"tokenizer.ggml.bos_token_id", NULL, 1},
        {"tokenizer.ggml.eos_token_id", NULL, 2},   {"tokenizer.ggml.eot_token_id", NULL, 3}};
    assert_ok(read_gguf("llama", more, ARRAY_LEN(more), &c));
    assert_true(c.n_layer == 2 && c.n_head == 4 && c.n_kv_head == 2 && c.head_dim == 32);
    assert_true(c.hidden == 64 && c.ffn == 160 && c.ctx_max == 512 && c.vocab == 100 && c.tied);
    assert_true(c.rope.type == ROPE_LINEAR && c.rope.factor == 4);
    assert_true(c.bos == 1 && c.n_eos == 2 && c.eos[0] == 2 && c.eos[1] == 3);
    assert_ok(read_gguf("qwen3", NULL, 0, &c));
    assert_true(c.qk_norm && c.head_dim == 16);
}

static void test_arch_gguf_refusals(void **state) {
    (void)state;
    struct model_cfg c;
    const struct entry rope = {"llama.rope.scaling.type", "longrope", 0};
    const struct entry part = {"llama.rope.dimension_count", NULL, 8};
    const struct entry expert = {"llama.expert_count", NULL, 8};
    const struct entry kv = {"llama.attention.head_count_kv", NULL, 3};
    assert_err(read_gguf("mamba", NULL, 0, &c), ERR_UNSUPPORTED,
               "architecture \"mamba\" is not known; known are llama, qwen3");
    assert_err(read_gguf("llama", &rope, 1, &c), ERR_UNSUPPORTED, "\"longrope\" is not known");
    assert_err(read_gguf("llama", &part, 1, &c), ERR_UNSUPPORTED, "rope over 8 of 16");
    assert_err(read_gguf("llama", &expert, 1, &c), ERR_UNSUPPORTED, "8 experts");
    assert_err(read_gguf("llama", &kv, 1, &c), ERR_FORMAT, "no multiple of 3");
}

int main(void) {
    const struct CMUnitTest tests[] = {TEST(test_arch_llama_with_defaults),
                                       TEST(test_arch_llama_with_everything),
                                       TEST(test_arch_qwen3_norms_heads),
                                       TEST(test_arch_rope_old_keys),
                                       TEST(test_arch_rope_new_keys),
                                       TEST(test_arch_rope_refusals),
                                       TEST(test_arch_unknown_names_are_listed),
                                       TEST(test_arch_numbers_that_cannot_be),
                                       TEST(test_arch_generation_config_adds_eos),
                                       TEST(test_arch_gguf_llama),
                                       TEST(test_arch_gguf_refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
