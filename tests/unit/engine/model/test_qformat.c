/* quantization_config: what every method may say, and what is refused by name. */
#include "tests/support/support.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/json.h"
#include "engine/model/qformat.h"
#include "tests/support/tiny.h"

/* in: the text of quantization_config */
static int read(const char *body, struct qformat *q) {
    struct buf b;
    json_t *j = NULL;
    buf_init(&b, MEM_TEST, 100000);
    assert_ok(buf_fmt(&b, "{\"quantization_config\":%s}", body));
    assert_ok(json_parse("t", buf_cstr(&b), b.len, &j));
    int rc = qformat_read(j, "config.json", q);
    json_decref(j);
    buf_fini(&b);
    return rc;
}

#define CT(fmt, rest)                                                                              \
    "{\"quant_method\":\"compressed-tensors\",\"format\":\"" fmt "\",\"config_groups\":" rest "}"
#define GROUP(w, more) "{\"group_0\":{\"targets\":[\"Linear\"],\"weights\":{" w "}" more "}}"
#define INT4           "\"num_bits\":4,\"type\":\"int\",\"strategy\":\"group\",\"group_size\":64"
#define INT8           "\"num_bits\":8,\"type\":\"int\",\"strategy\":\"channel\""
#define FP8            "\"num_bits\":8,\"type\":\"float\",\"strategy\":\"channel\""
#define FP4(g)         "\"num_bits\":4,\"type\":\"float\",\"strategy\":\"tensor_group\",\"group_size\":" g
#define ACT(a)         ",\"input_activations\":{" a "}"
#define W4             CT("pack-quantized", GROUP(INT4, ""))

static void test_qformat_texts_of_what_is_read(void **state) {
    (void)state;
    static const struct {
        const char *body;
        const char *text;
    } rows[] = {
        {"null", "none"},
        {W4, "pack-quantized, int4, group 64, symmetric"},
        {CT("pack-quantized",
            GROUP("\"num_bits\":4,\"strategy\":\"channel\",\"symmetric\":false", "")),
         "pack-quantized, int4, per channel, asymmetric"},
        /* without a strategy the group size tells it */
        {CT("pack-quantized", GROUP("\"num_bits\":3,\"group_size\":32", "")),
         "pack-quantized, int3, group 32, symmetric"},
        {CT("int-quantized", GROUP("\"num_bits\":8,\"group_size\":-1", "")),
         "int-quantized, int8, per channel, symmetric"},
        {CT("int-quantized", GROUP("\"num_bits\":8", "")),
         "int-quantized, int8, per tensor, symmetric"},
        {CT("int-quantized", GROUP("\"num_bits\":4,\"group_size\":32",
                                   ACT("\"num_bits\":8,\"strategy\":\"token\",\"dynamic\":true"))),
         "int-quantized, int4, group 32, symmetric; input int8, per token"},
        {CT("int-quantized", GROUP(INT8, ACT("\"num_bits\":8,\"strategy\":\"tensor\",\"symmetric\":"
                                             "false,\"dynamic\":false"))),
         "int-quantized, int8, per channel, symmetric; input int8, per tensor static, asymmetric"},
        {CT("float-quantized",
            GROUP("\"num_bits\":8,\"type\":\"float\",\"strategy\":\"block\",\"block_structure\":"
                  "[128,64]",
                  ACT("\"num_bits\":8,\"type\":\"float\",\"strategy\":\"group\",\"group_size\":64,"
                      "\"dynamic\":true"))),
         "float-quantized, fp8, block 128x64; input fp8, group 64"},
        {CT("float-quantized", /* the spelling of old files */
            GROUP("\"num_bits\":8,\"type\":\"float\",\"strategy\":\"block\",\"block_structure\":"
                  "\"128x64\"",
                  "")),
         "float-quantized, fp8, block 128x64"},
        {CT("naive-quantized", GROUP(FP8, "")), "float-quantized, fp8, per channel"},
        {CT("naive_quantized", GROUP(INT8, "")), "int-quantized, int8, per channel, symmetric"},
        {CT("nvfp4-pack-quantized",
            GROUP(FP4("16"), ACT(FP4("16") ",\"dynamic\":\"local\",\"scale_dtype\":"
                                           "\"torch.float8_e4m3fn\""))),
         "nvfp4-pack-quantized, fp4, group 16; input fp4, group 16"},
        {CT("mxfp4-pack-quantized",
            GROUP("\"num_bits\":4,\"type\":\"float\",\"strategy\":\"group\",\"group_size\":32,"
                  "\"scale_dtype\":\"torch.uint8\"",
                  "")),
         "mxfp4-pack-quantized, fp4, group 32"},
        {CT("mxfp8-quantized",
            GROUP("\"num_bits\":8,\"type\":\"float\",\"strategy\":\"group\",\"group_size\":32",
                  "")),
         "mxfp8-quantized, fp8, group 32"},
        {CT("mixed-precision",
            "{\"a\":{\"targets\":[\"re:.*q_proj\"],\"format\":\"pack-quantized\","
            "\"weights\":{" INT4 "}},\"b\":{\"targets\":[\"re:.*v_proj\"],"
            "\"format\":\"dense\"}}"),
         "pack-quantized, int4, group 64, symmetric; 1 more"},
        {"{\"quant_method\":\"gptq\",\"bits\":4}", "gptq, int4, group 128, symmetric"},
        {"{\"method\":\"gptq\",\"bits\":3,\"group_size\":-1,\"sym\":true,\"format\":\"gptq_v2\"}",
         "gptq, int3, per channel, symmetric"},
        {"{\"quant_method\":\"awq\",\"bits\":4,\"group_size\":64,\"version\":\"GEMM\"}",
         "awq gemm, int4, group 64, asymmetric"},
        {"{\"quant_method\":\"fp8\",\"fmt\":\"e4m3\",\"weight_block_size\":[128,128],"
         "\"activation_scheme\":\"dynamic\"}",
         "float-quantized, fp8, block 128x128; input fp8, group 128"},
        {"{\"quant_method\":\"fp8\",\"activation_scheme\":\"static\"}",
         "float-quantized, fp8, per tensor; input fp8, per tensor static"},
    };
    for (int32_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct qformat q;
        int rc = read(rows[i].body, &q);
        if (rc) {
            fail_msg("%s: %s", rows[i].body, err_msg());
        }
        assert_string_equal(q.text, rows[i].text);
        qformat_fini(&q);
    }
}

static const struct {
    const char *body;
    int code;
    const char *part;
} bad[] = {
    {"7", ERR_FORMAT, "quantization_config is no object"},
    {"{}", ERR_FORMAT, "\"quant_method\" is missing"},
    {"{\"quant_method\":\"bitsandbytes\",\"load_in_4bit\":true}", ERR_UNSUPPORTED,
     "quantization method \"bitsandbytes\" is not read; read are compressed-tensors, gptq, awq"},
    {"{\"quant_method\":\"hqq\"}", ERR_UNSUPPORTED, "\"hqq\""},
    {"{\"quant_method\":\"quanto\"}", ERR_UNSUPPORTED, "\"quanto\""},
    {"{\"quant_method\":\"torchao\"}", ERR_UNSUPPORTED, "\"torchao\""},
    {"{\"quant_method\":\"eetq\"}", ERR_UNSUPPORTED, "\"eetq\""},
    {"{\"quant_method\":\"aqlm\"}", ERR_UNSUPPORTED, "\"aqlm\""},
    {"{\"quant_method\":\"modelopt\"}", ERR_UNSUPPORTED, "\"modelopt\""},
    {"{\"quant_method\":\"mxfp4\"}", ERR_UNSUPPORTED, "\"mxfp4\""},
    /* compressed-tensors: the outer object */
    {CT("pack-quantized", "{}"), ERR_FORMAT, "no config_groups"},
    {CT("pack-quantized", "null"), ERR_FORMAT, "no config_groups"},
    {CT("pack-quantized", "{\"g\":7}"), ERR_FORMAT, "config_groups.g: no object"},
    {CT("marlin-24", GROUP(INT4, "")), ERR_UNSUPPORTED, "format \"marlin-24\" is not read"},
    {CT("mixed-precision", GROUP(INT4, "")), ERR_UNSUPPORTED, "format \"mixed-precision\""},
    {CT("", GROUP(INT4, "")), ERR_UNSUPPORTED, "format \"\" is not read"},
    {CT("pack-quantized", GROUP(INT4, "") ",\"quantization_status\":\"initialized\""),
     ERR_UNSUPPORTED, "quantization_status \"initialized\""},
    {CT("pack-quantized",
        GROUP(INT4, "") ",\"sparsity_config\":{\"format\":\"sparse-24-bitmask\"}"),
     ERR_UNSUPPORTED, "sparsity_config format \"sparse-24-bitmask\""},
    {CT("pack-quantized", GROUP(INT4, "") ",\"sparsity_config\":[]"), ERR_FORMAT,
     "sparsity_config is no object"},
    {CT("pack-quantized", GROUP(INT4, "") ",\"transform_config\":{\"config_groups\":{}}"),
     ERR_UNSUPPORTED, "transform_config (\"config_groups\")"},
    {CT("pack-quantized", GROUP(INT4, "") ",\"ignore\":\"lm_head\""), ERR_FORMAT,
     "ignore is no list"},
    {CT("pack-quantized", GROUP(INT4, "") ",\"ignore\":[1]"), ERR_FORMAT, "ignore[0] is no name"},
    {CT("pack-quantized", GROUP(INT4, "") ",\"ignore\":[\"re:(\"]"), ERR_FORMAT,
     "regular expression \"(\""},
    {CT("pack-quantized", GROUP(INT4, "") ",\"kv_cache_scheme\":{\"num_bits\":8,\"type\":\"int\"}"),
     ERR_UNSUPPORTED, "kv_cache_scheme: int8"},
    {CT("pack-quantized",
        GROUP(INT4,
              "") ",\"kv_cache_scheme\":{\"num_bits\":8,\"type\":\"float\",\"dynamic\":true}"),
     ERR_UNSUPPORTED, "dynamic, is not computed"},
    /* a group */
    {CT("pack-quantized", "{\"g\":{\"targets\":[\"Linear\"]}}"), ERR_FORMAT,
     "config_groups.g: \"weights\" is missing"},
    {CT("pack-quantized", "{\"g\":{\"weights\":{" INT4 "}}}"), ERR_FORMAT,
     "\"targets\" is no list"},
    {CT("pack-quantized", "{\"g\":{\"targets\":[null],\"weights\":{" INT4 "}}}"), ERR_FORMAT,
     "targets[0] is no name"},
    {CT("pack-quantized", GROUP(INT4, ",\"color\":1")), ERR_UNSUPPORTED,
     "config_groups.group_0: key \"color\""},
    {CT("pack-quantized", GROUP(INT4, ",\"output_activations\":{}")), ERR_UNSUPPORTED,
     "output_activations are not computed"},
    {CT("dense", GROUP(INT4, ACT("\"num_bits\":8,\"strategy\":\"token\",\"dynamic\":true"))),
     ERR_UNSUPPORTED, "quantized inputs of dense weights"},
    /* weights */
    {CT("pack-quantized", GROUP("\"strategy\":\"group\",\"group_size\":4", "")), ERR_FORMAT,
     "group_0.weights: \"num_bits\" is missing"},
    {CT("pack-quantized", GROUP(INT4 ",\"shape\":1", "")), ERR_UNSUPPORTED,
     "weights: key \"shape\" is not known"},
    {CT("pack-quantized", GROUP("\"num_bits\":4,\"strategy\":\"attn_head\"", "")), ERR_UNSUPPORTED,
     "strategy \"attn_head\""},
    {CT("pack-quantized", GROUP("\"num_bits\":4,\"strategy\":\"group\"", "")), ERR_FORMAT,
     "strategy \"group\" without group_size"},
    {CT("float-quantized", GROUP("\"num_bits\":8,\"type\":\"float\",\"strategy\":\"block\"", "")),
     ERR_FORMAT, "without block_structure"},
    {CT("float-quantized",
        GROUP("\"num_bits\":8,\"type\":\"float\",\"strategy\":\"block\","
              "\"block_structure\":\"128x\"",
              "")),
     ERR_FORMAT, "block_structure is no pair"},
    {CT("float-quantized",
        GROUP("\"num_bits\":8,\"type\":\"float\",\"strategy\":\"block\","
              "\"block_structure\":[0,1]",
              "")),
     ERR_FORMAT, "block_structure is no pair"},
    {CT("pack-quantized", GROUP(INT4 ",\"dynamic\":3", "")), ERR_FORMAT, "dynamic is neither"},
    {CT("pack-quantized", GROUP(INT4 ",\"dynamic\":true", "")), ERR_UNSUPPORTED,
     ", dynamic is not"},
    {CT("pack-quantized", GROUP(INT4 ",\"actorder\":\"random\"", "")), ERR_UNSUPPORTED,
     "actorder \"random\""},
    {CT("pack-quantized", GROUP("\"num_bits\":9,\"group_size\":4", "")), ERR_UNSUPPORTED,
     "\"pack-quantized\" of int9 weights"},
    {CT("pack-quantized", GROUP("\"num_bits\":4,\"type\":\"float\",\"group_size\":4", "")),
     ERR_UNSUPPORTED, "of fp4 weights"},
    {CT("pack-quantized", GROUP("\"num_bits\":4,\"type\":\"complex\"", "")), ERR_UNSUPPORTED,
     "type \"complex\""},
    {CT("float-quantized", GROUP(FP8 ",\"symmetric\":false", "")), ERR_UNSUPPORTED, "asymmetric"},
    {CT("nvfp4-pack-quantized", GROUP(FP4("32"), "")), ERR_UNSUPPORTED, "group_size 32"},
    /* inputs */
    {CT("int-quantized",
        GROUP(INT8, ACT("\"num_bits\":8,\"strategy\":\"tensor\",\"dynamic\":true"))),
     ERR_UNSUPPORTED, "dynamic int8 inputs with strategy \"tensor\""},
    {CT("int-quantized",
        GROUP(INT8, ACT("\"num_bits\":4,\"strategy\":\"token\",\"dynamic\":true"))),
     ERR_UNSUPPORTED, "dynamic int4 inputs"},
    {CT("int-quantized", GROUP(INT8, ACT("\"num_bits\":8,\"strategy\":\"channel\""))),
     ERR_UNSUPPORTED, "static int8 inputs with strategy \"channel\""},
    {CT("float-quantized",
        GROUP(FP8,
              ACT("\"num_bits\":8,\"type\":\"float\",\"strategy\":\"group\",\"group_size\":32,"
                  "\"dynamic\":true,\"scale_dtype\":\"torch.uint8\""))),
     ERR_UNSUPPORTED, "scaled by powers of two"},
    {CT("int-quantized", GROUP(INT8, ACT("\"num_bits\":8,\"hidden\":0"))), ERR_UNSUPPORTED,
     "input_activations: key \"hidden\""},
    /* gptq */
    {"{\"quant_method\":\"gptq\"}", ERR_FORMAT, "\"bits\" is missing"},
    {"{\"quant_method\":\"gptq\",\"bits\":5}", ERR_UNSUPPORTED, "5 bits is not read"},
    {"{\"quant_method\":\"gptq\",\"bits\":6,\"format\":\"gptq_p\"}", ERR_UNSUPPORTED, "in planes"},
    {"{\"quant_method\":\"gptq\",\"bits\":4,\"group_size\":0}", ERR_FORMAT, "group_size 0"},
    {"{\"quant_method\":\"gptq\",\"bits\":4,\"checkpoint_format\":\"marlin\"}", ERR_UNSUPPORTED,
     "checkpoint_format \"marlin\""},
    {"{\"quant_method\":\"gptq\",\"bits\":4,\"is_marlin_format\":true}", ERR_UNSUPPORTED, "marlin"},
    {"{\"quant_method\":\"gptq\",\"bits\":4,\"pack_dtype\":\"int16\"}", ERR_UNSUPPORTED,
     "pack_dtype \"int16\""},
    {"{\"quant_method\":\"gptq\",\"bits\":4,\"dynamic\":[]}", ERR_FORMAT, "dynamic is no object"},
    {"{\"quant_method\":\"gptq\",\"bits\":4,\"dynamic\":{\"+:(\":{}}}", ERR_FORMAT,
     "regular expression"},
    {"{\"quant_method\":\"gptq\",\"bits\":4,\"dynamic\":{\"a\":{\"bits\":7}}}", ERR_UNSUPPORTED,
     "dynamic \"a\": gptq with 7 bits"},
    {"{\"quant_method\":\"gptq\",\"bits\":4,\"dynamic\":{\"a\":{\"format\":\"gptq_v2\"}}}",
     ERR_UNSUPPORTED, "\"format\" of some modules"},
    {"{\"quant_method\":\"gptq\",\"bits\":4,\"dynamic\":{\"a\":3}}", ERR_FORMAT, "no object"},
    /* awq */
    {"{\"quant_method\":\"awq\",\"bits\":4,\"version\":\"gemv\"}", ERR_UNSUPPORTED,
     "version \"gemv\" is not read; read is \"gemm\""},
    {"{\"quant_method\":\"awq\",\"bits\":4,\"backend\":\"llm-awq\"}", ERR_UNSUPPORTED,
     "backend \"llm-awq\""},
    {"{\"quant_method\":\"awq\",\"bits\":3}", ERR_UNSUPPORTED, "awq with 3 bits"},
    {"{\"quant_method\":\"awq\",\"bits\":4,\"modules_to_not_convert\":3}", ERR_FORMAT,
     "modules_to_not_convert is no list"},
    /* fp8 */
    {"{\"quant_method\":\"fp8\",\"fmt\":\"e5m2\"}", ERR_UNSUPPORTED, "fmt \"e5m2\""},
    {"{\"quant_method\":\"fp8\",\"weight_block_size\":[128]}", ERR_FORMAT, "weight_block_size"},
    {"{\"quant_method\":\"fp8\",\"weight_block_size\":[128,128],\"scale_fmt\":\"ue8m0\"}",
     ERR_UNSUPPORTED, "scale_fmt \"ue8m0\""},
    {"{\"quant_method\":\"fp8\",\"activation_scheme\":\"dynamic\"}", ERR_UNSUPPORTED,
     "with one scale a tensor"},
    {"{\"quant_method\":\"fp8\",\"weight_block_size\":[128,128],\"activation_scheme\":\"static\"}",
     ERR_UNSUPPORTED, "\"static\" with weight_block_size"},
};

static void test_qformat_refusals_say_what_and_where(void **state) {
    (void)state;
    for (int32_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct qformat q = {.text = "untouched"};
        int rc = read(bad[i].body, &q);
        if (rc == 0) {
            fail_msg("row %d was read: %s", i, bad[i].body);
        }
        assert_err(rc, bad[i].code, bad[i].part);
        assert_err(rc, bad[i].code, "config.json");
        assert_string_equal(q.text, "untouched");
    }
}

static const struct qscheme *of(const struct qformat *q, const char *module, const char *cls) {
    const struct qscheme *s = NULL;
    assert_ok(qformat_find(q, module, cls, &s));
    return s;
}

static void test_qformat_find_with_groups_and_ignore(void **state) {
    (void)state;
    struct qformat q;
    assert_ok(
        read(CT("mixed-precision",
                "{\"a\":{\"targets\":[\"Linear\"],\"format\":\"pack-quantized\",\"weights\":{" INT4
                "}},\"b\":{\"targets\":[\"re:.*down_proj\"],\"format\":\"float-quantized\","
                "\"weights\":{" FP8
                "}},\"c\":{\"targets\":[\"model.layers.9.mlp.down_proj\"],\"format\":\"dense\"},"
                "\"d\":{\"targets\":[\"Embedding\"],\"format\":\"int-quantized\",\"weights\":{" INT8
                "}}},\"ignore\":[\"lm_head\",\"re:.*mlp.gate$\"],\"version\":\"0.17.1\""),
             &q));
    assert_int_equal(q.writer, 17);
    assert_true(of(&q, "model.layers.0.mlp.up_proj", "Linear")->layout == QLAYOUT_PACK);
    assert_true(of(&q, "model.layers.0.mlp.down_proj", "Linear")->layout == QLAYOUT_FLOAT);
    assert_true(of(&q, "model.embed_tokens", "Embedding")->layout == QLAYOUT_INT);
    assert_null(of(&q, "model.layers.9.mlp.down_proj", "Linear"));
    assert_null(of(&q, "lm_head", "Linear"));
    assert_null(of(&q, "model.layers.0.mlp.gate", "Linear"));
    qformat_fini(&q);
}

static void test_qformat_gptq_dynamic_rules(void **state) {
    (void)state;
    struct qformat q;
    assert_ok(
        read("{\"quant_method\":\"gptq\",\"bits\":4,\"group_size\":32,\"sym\":true,\"dynamic\":{"
             "\"-:.*k_proj\":{},\"+:.*down_proj\":{\"bits\":8,\"group_size\":64},"
             "\".*down.*\":{\"bits\":2}}}",
             &q));
    assert_int_equal(of(&q, "model.layers.0.self_attn.q_proj", "Linear")->w.bits, 4);
    assert_null(of(&q, "model.layers.0.self_attn.k_proj", "Linear"));
    const struct qscheme *s = of(&q, "model.layers.0.mlp.down_proj", "Linear");
    assert_true(s->w.bits == 8 && s->w.group == 64 && !s->w.asymmetric);
    assert_null(of(&q, "lm_head", "Linear"));
    qformat_fini(&q);
    assert_ok(read("{\"quant_method\":\"gptq\",\"bits\":4,\"lm_head\":true}", &q));
    assert_non_null(of(&q, "lm_head", "Linear"));
    assert_null(of(&q, "model.embed_tokens", "Embedding"));
    qformat_fini(&q);
}

static void test_qformat_modules_to_not_convert_are_whole_parts(void **state) {
    (void)state;
    struct qformat q;
    assert_ok(read("{\"quant_method\":\"awq\",\"bits\":4,\"modules_to_not_convert\":[\"mlp.gate\","
                   "\"model.layers.1\"]}",
                   &q));
    assert_null(of(&q, "model.layers.0.mlp.gate", "Linear"));
    assert_non_null(of(&q, "model.layers.0.mlp.gate_proj", "Linear"));
    assert_null(of(&q, "model.layers.1.mlp.up_proj", "Linear"));
    assert_non_null(of(&q, "model.layers.11.mlp.up_proj", "Linear"));
    qformat_fini(&q);
}

/* Other places: the text part of a multimodal folder, the old key, the file beside. */
static void test_qformat_places(void **state) {
    (void)state;
    char dir[FILE_PATH_MAX];
    struct qformat q;
    json_t *j = json_pack("{s:{s:{s:s,s:i}}}", "text_config", "quantization_config", "quant_method",
                          "gptq", "bits", 8);
    assert_ok(qformat_read(j, "c", &q));
    assert_true(q.method == QMETHOD_GPTQ);
    qformat_fini(&q);
    json_decref(j);
    j = json_object();
    test_tmpdir(dir);
    assert_ok(qformat_folder(j, dir, &q));
    assert_true(q.method == QMETHOD_NONE);
    qformat_fini(&q);
    tiny_file(dir, "quantize_config.json", "{\"bits\":4,\"group_size\":-1,\"desc_act\":true}");
    assert_ok(qformat_folder(j, dir, &q));
    assert_string_equal(q.text, "gptq, int4, per channel, symmetric");
    qformat_fini(&q);
    tiny_file(dir, "quantize_config.json", "[]");
    assert_err(qformat_folder(j, dir, &q), ERR_FORMAT, "quantize_config.json: no object");
    tiny_file(dir, "quantize_config.json", "{\"bits\":9}");
    assert_err(qformat_folder(j, dir, &q), ERR_UNSUPPORTED, "quantize_config.json: gptq with 9");
    json_decref(j);
    test_rmdir(dir);
}

static void test_qformat_bytes_of_a_module(void **state) {
    (void)state;
    static const struct {
        const char *body;
        int64_t bytes; /* of [96, 256] */
    } rows[] = {
        {W4, 96 * 128 + 96 * 4 * 2},
        {CT("pack-quantized", GROUP(INT4 ",\"symmetric\":false", "")),
         96 * 128 + 96 * 4 * 2 + 96 * 4 / 2},
        {CT("int-quantized", GROUP("\"num_bits\":4,\"group_size\":64", "")), 96 * 256 + 96 * 4 * 2},
        {CT("float-quantized",
            GROUP("\"num_bits\":8,\"type\":\"float\",\"strategy\":\"block\",\"block_structure\":"
                  "[128,128]",
                  "")),
         96 * 256 + 2 * 2},
        {CT("nvfp4-pack-quantized", GROUP(FP4("16"), "")), 96 * 128 + 96 * 16 + 4},
        {"{\"quant_method\":\"fp8\",\"weight_block_size\":[128,128]}", 96 * 256 + 2 * 4},
        {"{\"quant_method\":\"awq\",\"bits\":4,\"group_size\":64}",
         96 * 128 + 96 * 4 * 2 + 96 * 4 / 2},
        {"{\"quant_method\":\"gptq\",\"bits\":2,\"group_size\":-1}", 96 * 64 + 96 * 2 + 24 + 1024},
    };
    for (int32_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct qformat q;
        assert_ok(read(rows[i].body, &q));
        assert_int_equal(qscheme_bytes(&q.scheme[0], 96, 256), rows[i].bytes);
        qformat_fini(&q);
    }
}

static int read_parsed(void *ctx) {
    struct qformat q;
    int rc = qformat_read(ctx, "c", &q);
    if (!rc) {
        qformat_fini(&q);
    }
    return rc;
}

static void test_qformat_without_memory(void **state) {
    (void)state;
    static const int codes[] = {ERR_NOMEM, 0};
    static const char *const bodies[] = {
        "{\"quant_method\":\"gptq\",\"bits\":4,\"dynamic\":{\"a\":{\"bits\":8},\"-:b\":{}}}",
        CT("mixed-precision",
           "{\"a\":{\"targets\":[\"Linear\",\"re:a\"],\"format\":\"pack-quantized\",\"weights\":"
           "{" INT4 "}},\"b\":{\"targets\":[\"re:.*down_proj\"],\"format\":\"float-quantized\","
           "\"weights\":{" FP8 "}}},\"ignore\":[\"lm_head\"]"),
        "{\"quant_method\":\"awq\",\"bits\":4,\"modules_to_not_convert\":[\"lm_head\"]}"};
    for (int32_t i = 0; i < ARRAY_LEN(bodies); i++) {
        json_t *body = NULL;
        assert_ok(json_parse("t", bodies[i], (int64_t)strlen(bodies[i]), &body));
        json_t *j = json_pack("{s:o}", "quantization_config", body);
        test_fault_loop(FAULT_ALLOC, read_parsed, j, codes);
        json_decref(j);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {TEST(test_qformat_texts_of_what_is_read),
                                       TEST(test_qformat_refusals_say_what_and_where),
                                       TEST(test_qformat_find_with_groups_and_ignore),
                                       TEST(test_qformat_gptq_dynamic_rules),
                                       TEST(test_qformat_modules_to_not_convert_are_whole_parts),
                                       TEST(test_qformat_places),
                                       TEST(test_qformat_bytes_of_a_module),
                                       TEST(test_qformat_without_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
