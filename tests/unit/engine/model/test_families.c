/* Configurations of qwen2, mistral, qwen3_moe and gemma3: what each layer is, and what is refused.
 */
#include "tests/support/support.h"

#include <math.h>
#include <string.h>

#include "engine/base/buf.h"
#include "engine/base/json.h"
#include "engine/base/str.h"
#include "engine/model/arch.h"
#include "engine/model/memplan.h"

#define SIZES                                                                                      \
    "\"num_hidden_layers\":6,\"num_attention_heads\":4,\"num_key_value_heads\":2,"                 \
    "\"hidden_size\":64,\"intermediate_size\":160,\"vocab_size\":100"
#define QWEN2   "\"model_type\":\"qwen2\"," SIZES
#define MISTRAL "\"model_type\":\"mistral\"," SIZES
#define MOE                                                                                        \
    "\"model_type\":\"qwen3_moe\"," SIZES                                                          \
    ",\"num_experts\":8,\"num_experts_per_tok\":2,\"moe_intermediate_size\":48"
#define GEMMA "\"model_type\":\"gemma3_text\"," SIZES

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

/* windows: six numbers, the window of each layer */
static void expect_windows(const struct model_cfg *c, const int32_t *windows) {
    for (int32_t i = 0; i < 6; i++) {
        assert_int_equal(c->layer[i].window, windows[i]);
    }
}

static void test_families_qwen2_has_biases(void **state) {
    (void)state;
    struct model_cfg c;
    assert_ok(read(QWEN2, &c));
    assert_string_equal(c.family, "qwen2");
    assert_true(c.attn_bias && !c.o_bias && !c.mlp_bias && !c.qk_norm && !c.tied);
    assert_true(c.attn.scale == 0.25f);
    expect_windows(&c, (const int32_t[]){0, 0, 0, 0, 0, 0});
}

static void test_families_qwen2_slides_from_max_window_layers(void **state) {
    (void)state;
    struct model_cfg c;
    assert_ok(read(QWEN2 ",\"use_sliding_window\":true,\"sliding_window\":9,"
                         "\"max_window_layers\":4",
                   &c));
    expect_windows(&c, (const int32_t[]){0, 0, 0, 0, 9, 9});
    assert_ok(read(QWEN2 ",\"use_sliding_window\":false,\"sliding_window\":9,"
                         "\"max_window_layers\":4",
                   &c));
    expect_windows(&c, (const int32_t[]){0, 0, 0, 0, 0, 0});
    assert_ok(read(QWEN2 ",\"use_sliding_window\":true,\"max_window_layers\":5", &c));
    expect_windows(&c, (const int32_t[]){0, 0, 0, 0, 0, 4096});
    assert_ok(read(QWEN2 ",\"use_sliding_window\":true,\"sliding_window\":null,"
                         "\"max_window_layers\":0",
                   &c));
    expect_windows(&c, (const int32_t[]){0, 0, 0, 0, 0, 0});
}

static void test_families_layer_types_decide(void **state) {
    (void)state;
    struct model_cfg c;
    assert_ok(read(QWEN2 ",\"use_sliding_window\":true,\"sliding_window\":9,\"layer_types\":["
                         "\"sliding_attention\",\"full_attention\",\"full_attention\","
                         "\"full_attention\",\"full_attention\",\"sliding_attention\"]",
                   &c));
    expect_windows(&c, (const int32_t[]){9, 0, 0, 0, 0, 9});
    expect_bad(QWEN2 ",\"layer_types\":[\"full_attention\"]", ERR_FORMAT, "no list of 6");
    expect_bad(QWEN2 ",\"layer_types\":[\"chunked_attention\",1,2,3,4,5]", ERR_UNSUPPORTED,
               "layer_types[0] is \"chunked_attention\"");
    expect_bad(QWEN2 ",\"layer_types\":[\"full_attention\",7,2,3,4,5]", ERR_UNSUPPORTED,
               "layer_types[1]");
    expect_bad(QWEN2 ",\"layer_types\":[\"sliding_attention\",1,2,3,4,5]", ERR_FORMAT,
               "layer 0 slides");
}

static void test_families_mistral_slides_everywhere_or_nowhere(void **state) {
    (void)state;
    struct model_cfg c;
    assert_ok(read(MISTRAL ",\"sliding_window\":16", &c));
    assert_true(!c.attn_bias && !c.qk_norm);
    expect_windows(&c, (const int32_t[]){16, 16, 16, 16, 16, 16});
    assert_ok(read(MISTRAL ",\"sliding_window\":null", &c));
    expect_windows(&c, (const int32_t[]){0, 0, 0, 0, 0, 0});
    assert_ok(read(MISTRAL, &c));
    expect_windows(&c, (const int32_t[]){4096, 4096, 4096, 4096, 4096, 4096});
    expect_bad(MISTRAL ",\"sliding_window\":0", ERR_RANGE, "sliding_window");
}

static void test_families_moe_layers(void **state) {
    (void)state;
    struct model_cfg c;
    assert_ok(read(MOE, &c));
    assert_true(c.n_expert == 8 && c.n_expert_used == 2 && c.expert_ffn == 48 && c.qk_norm);
    assert_true(!c.expert_renorm && c.layer[0].moe && c.layer[5].moe);
    assert_ok(read(MOE ",\"norm_topk_prob\":true,\"decoder_sparse_step\":2,"
                       "\"mlp_only_layers\":[3]",
                   &c));
    for (int32_t i = 0; i < 6; i++) {
        assert_int_equal(c.layer[i].moe, i == 1 || i == 5);
    }
    assert_true(c.expert_renorm);
    assert_ok(read(MOE ",\"num_local_experts\":4", &c));
    assert_int_equal(c.n_expert, 4);
    assert_ok(read(MOE ",\"use_sliding_window\":true,\"sliding_window\":9", &c));
    expect_windows(&c, (const int32_t[]){9, 9, 9, 9, 9, 9});
}

static void test_families_moe_refusals(void **state) {
    (void)state;
    expect_bad("\"model_type\":\"qwen3_moe\"," SIZES, ERR_FORMAT, "num_experts");
    expect_bad(MOE ",\"num_local_experts\":1", ERR_RANGE, "2 of 1 experts");
    expect_bad(MOE ",\"num_local_experts\":99999", ERR_RANGE, "num_local_experts");
    expect_bad(MOE ",\"decoder_sparse_step\":0", ERR_RANGE, "decoder_sparse_step");
    expect_bad(MOE ",\"mlp_only_layers\":[6]", ERR_FORMAT, "mlp_only_layers[0]");
    expect_bad(MOE ",\"mlp_only_layers\":{}", ERR_FORMAT, "no list");
    expect_bad(MOE ",\"use_sliding_window\":true", ERR_FORMAT, "without sliding_window");
}

static void test_families_moe_parameters(void **state) {
    (void)state;
    struct model_cfg c;
    assert_ok(read(MOE ",\"mlp_only_layers\":[0]", &c));
    int64_t attn = 2 * 64 + 2 * 16 + 64 * 64 * 2 + 2 * 32 * 64;
    int64_t experts = 8 * (3 * 48 * 64) + 8 * 64;
    assert_int_equal(memplan_n_param(&c), 6 * attn + 5 * experts + 3 * 160 * 64 + 64 + 200 * 64);
}

static void test_families_gemma3_by_pattern(void **state) {
    (void)state;
    struct model_cfg c;
    assert_ok(read(GEMMA ",\"sliding_window\":32,\"query_pre_attn_scalar\":16,"
                         "\"rope_local_base_freq\":7000,\"rope_theta\":500000,"
                         "\"rope_scaling\":{\"rope_type\":\"linear\",\"factor\":8.0},"
                         "\"sliding_window_pattern\":3",
                   &c));
    assert_string_equal(c.family, "gemma3");
    expect_windows(&c, (const int32_t[]){32, 32, 0, 32, 32, 0});
    for (int32_t i = 0; i < 6; i++) {
        assert_int_equal(c.layer[i].rope, c.layer[i].window > 0);
    }
    assert_true(c.rope.type == ROPE_LINEAR && c.rope.factor == 8 && c.rope.theta == 500000);
    assert_true(c.rope_local.type == ROPE_DEFAULT && c.rope_local.theta == 7000);
    assert_true(c.post_norm && c.qk_norm && c.norm_offset == 1 && c.tied);
    assert_true(c.act == ACT_GELU_TANH && c.attn.scale == 0.25f && c.embed_scale == 8);
    assert_true(c.attn.softcap == 0 && c.logit_softcap == 0 && c.head_dim == 256);
}

static void test_families_gemma3_rope_by_layer_type(void **state) {
    (void)state;
    struct model_cfg c;
    assert_ok(read(GEMMA ",\"rope_parameters\":{\"full_attention\":{\"rope_type\":\"linear\","
                         "\"factor\":8,\"rope_theta\":2e6},"
                         "\"sliding_attention\":{\"rope_type\":\"default\"}}",
                   &c));
    assert_true(c.rope.type == ROPE_LINEAR && c.rope.theta == 2e6);
    assert_true(c.rope_local.theta == 10000 && c.rope_local.factor == 1);
    expect_bad(MISTRAL ",\"rope_parameters\":{\"full_attention\":{},\"sliding_attention\":{}}",
               ERR_UNSUPPORTED, "one kind of layer");
    expect_bad(GEMMA ",\"rope_parameters\":{\"full_attention\":{},\"sliding_attention\":{},"
                     "\"chunked_attention\":{}}",
               ERR_UNSUPPORTED, "full_attention");
    expect_bad(GEMMA ",\"rope_parameters\":{\"full_attention\":{},\"sliding_attention\":"
                     "{\"rope_type\":\"yarn\"}}",
               ERR_UNSUPPORTED, "rope of the sliding layers");
}

/* Inside a multimodal file with almost nothing said. */
static void test_families_gemma3_text_config_with_defaults(void **state) {
    (void)state;
    struct model_cfg c;
    assert_ok(read("\"model_type\":\"gemma3\",\"eos_token_id\":[1,106],\"text_config\":{"
                   "\"hidden_size\":1152,\"intermediate_size\":6912,\"num_hidden_layers\":26,"
                   "\"sliding_window\":512,\"model_type\":\"gemma3_text\"}",
                   &c));
    assert_true(c.n_head == 8 && c.n_kv_head == 4 && c.head_dim == 256 && c.vocab == 262208);
    assert_true(c.ctx_max == 131072 && c.rms_eps == 1e-6f && c.rope.theta == 1e6);
    assert_true(c.n_eos == 2 && c.eos[1] == 106 && c.bos == 2);
    assert_true(c.attn.scale == 0.0625f && c.layer[5].window == 0 && c.layer[6].window == 512);
    assert_true(c.embed_scale == 34); /* 33.94 rounded to bf16 */
    assert_ok(read("\"model_type\":\"gemma3\",\"dtype\":\"float32\",\"text_config\":{"
                   "\"hidden_size\":1152}",
                   &c));
    assert_true(c.embed_scale == sqrtf(1152));
    assert_ok(read("\"model_type\":\"gemma3\",\"torch_dtype\":\"float16\",\"text_config\":{"
                   "\"hidden_size\":1152}",
                   &c));
    assert_true(c.embed_scale == 33.9375f);
}

static void test_families_gemma3_caps_and_refusals(void **state) {
    (void)state;
    struct model_cfg c;
    assert_ok(read(GEMMA ",\"attn_logit_softcapping\":50.0,\"final_logit_softcapping\":30.0", &c));
    assert_true(c.attn.softcap == 50 && c.logit_softcap == 30);
    expect_bad(GEMMA ",\"final_logit_softcapping\":0", ERR_RANGE, "final_logit_softcapping is 0");
    expect_bad(GEMMA ",\"use_bidirectional_attention\":true", ERR_UNSUPPORTED, "bidirectional");
    expect_bad(GEMMA ",\"query_pre_attn_scalar\":0", ERR_RANGE, "query_pre_attn_scalar");
    expect_bad(GEMMA ",\"sliding_window\":null", ERR_FORMAT, "sliding_window");
    expect_bad(GEMMA ",\"hidden_activation\":\"gelu\"", ERR_UNSUPPORTED, "hidden_act \"gelu\"");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_families_qwen2_has_biases),
        TEST(test_families_qwen2_slides_from_max_window_layers),
        TEST(test_families_layer_types_decide),
        TEST(test_families_mistral_slides_everywhere_or_nowhere),
        TEST(test_families_moe_layers),
        TEST(test_families_moe_refusals),
        TEST(test_families_moe_parameters),
        TEST(test_families_gemma3_by_pattern),
        TEST(test_families_gemma3_rope_by_layer_type),
        TEST(test_families_gemma3_text_config_with_defaults),
        TEST(test_families_gemma3_caps_and_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
