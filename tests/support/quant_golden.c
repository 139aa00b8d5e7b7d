#include "tests/support/quant_golden.h"

#include <stdio.h>

#include "engine/base/json.h"
#include "engine/base/str.h"
#include "tests/support/support.h"

#define PACK(b, g, sign) "pack-quantized, int" #b ", group " #g ", " sign
#define W8A8             "int-quantized, int8, per channel, symmetric; input int8, per token"
#define FP8              "float-quantized, fp8, per channel; input fp8, per token"
#define RAW              "weights_only_f32_scale"

const struct quant_folder quant_folders[] = {
    {"llama__awq_w4a16_g32_asym", PACK(4, 32, "asymmetric"), QUANT_EXACT, "default"},
    {"llama__fp8_block32", "float-quantized, fp8, block 32x32; input fp8, group 32", QUANT_DYNAMIC,
     "default"},
    {"llama__fp8_block_preset", "float-quantized, fp8, block 128x128; input fp8, group 128",
     QUANT_NO_REF, ""},
    {"llama__fp8_dynamic", FP8, QUANT_DYNAMIC, "default"},
    {"llama__fp8_static_tensor", "float-quantized, fp8, per tensor; input fp8, per tensor static",
     QUANT_EXACT, "default"},
    {"llama__gptq_w4a16_g32_asym_static", PACK(4, 32, "asymmetric"), QUANT_EXACT, "default"},
    {"llama__gptq_w4a16_g32_null", PACK(4, 32, "symmetric"), QUANT_EXACT, "default"},
    {"llama__gptq_w4a16_g32_null__f32", PACK(4, 32, "symmetric"), QUANT_EXACT, "default"},
    {"llama__gptq_w4a16_g32_static", PACK(4, 32, "symmetric"), QUANT_EXACT, "default"},
    {"llama__gptq_w4a16_g32_static__f32", PACK(4, 32, "symmetric"), QUANT_EXACT, "default"},
    {"llama__gptq_w8a8_channel", W8A8, QUANT_DYNAMIC, "default"},
    {"llama__kv_fp8_static", PACK(4, 32, "symmetric"), QUANT_EXACT, "default"},
    {"llama__mxfp4a16", "mxfp4-pack-quantized, fp4, group 32", QUANT_EXACT,
     "weights_only_ct_decompress"},
    {"llama__mxfp8a16", "mxfp8-quantized, fp8, group 32", QUANT_EXACT,
     "weights_only_ct_decompress"},
    {"llama__nvfp4", "nvfp4-pack-quantized, fp4, group 16; input fp4, group 16", QUANT_NO_REF, ""},
    {"llama__nvfp4a16", "nvfp4-pack-quantized, fp4, group 16", QUANT_NO_REF, ""},
    {"llama__rtn_mixed_w8_fp8_w4", W8A8 "; 2 more", QUANT_DYNAMIC, "default"},
    {"llama__rtn_w3a16_g32", PACK(3, 32, "symmetric"), QUANT_EXACT, "default"},
    {"llama__rtn_w4a16_g32", PACK(4, 32, "symmetric"), QUANT_EXACT, "default"},
    {"llama__rtn_w4a16_g32__f32", PACK(4, 32, "symmetric"), QUANT_EXACT, "default"},
    {"llama__rtn_w4a16_g32_asym", PACK(4, 32, "asymmetric"), QUANT_EXACT, "default"},
    {"llama__rtn_w4a16_g32_lm_head", PACK(4, 32, "symmetric"), QUANT_EXACT, "default"},
    {"llama__rtn_w4a16_g32_mse", PACK(4, 32, "symmetric"), QUANT_EXACT, "default"},
    {"llama__rtn_w4a16_g64_mixed_g32_down", PACK(4, 64, "symmetric") "; 1 more", QUANT_EXACT,
     "default"},
    {"llama__rtn_w8a16_channel", "pack-quantized, int8, per channel, symmetric", QUANT_EXACT,
     "default"},
    {"llama__rtn_w8a16_channel__f32", "pack-quantized, int8, per channel, symmetric", QUANT_EXACT,
     "default"},
    {"llama__smoothquant08_gptq_w8a8", W8A8, QUANT_DYNAMIC, "default"},
    {"llama__sparsegpt_2of4", "BF16", QUANT_EXACT, "default"},
    {"llama__w8a8_dynamic", W8A8, QUANT_DYNAMIC, "default"},
    {"llama__w8a8_static_tensor",
     "int-quantized, int8, per channel, symmetric; input int8, per tensor static", QUANT_EXACT,
     "default"},
    {"qwen3__fp8_dynamic", FP8, QUANT_DYNAMIC, "default"},
    {"qwen3__gptq_w4a16_g32_static", PACK(4, 32, "symmetric"), QUANT_EXACT, "default"},
    {"qwen3__rtn_w4a16_g32", PACK(4, 32, "symmetric"), QUANT_EXACT, "default"},
    {"qwen3_moe__fp8_dynamic", FP8, QUANT_DYNAMIC, "default"},
    {"qwen3_moe__gptq_w4a16_g16_static", PACK(4, 16, "symmetric"), QUANT_EXPERTS, RAW},
    {"qwen3_moe__nvfp4a16", "nvfp4-pack-quantized, fp4, group 16", QUANT_EXPERTS, RAW},
    {"qwen3_moe__rtn_w4a16_g16_asym", PACK(4, 16, "asymmetric"), QUANT_EXPERTS, RAW},
    {"awq_gemm_w4_g32", "awq gemm, int4, group 32, asymmetric", QUANT_EXACT, ""},
    {"gptq_mislabelled_v2_words_labelled_gptq_sym", "gptq, int4, group 32, symmetric", QUANT_EXACT,
     ""},
    {"gptq_v1_w4_g32_asym", "gptq, int4, group 32, asymmetric", QUANT_EXACT, ""},
    {"gptq_v1_w4_g32_asym_desc_act", "gptq, int4, group 32, asymmetric", QUANT_EXACT, ""},
    {"gptq_v1_w4_g32_sym", "gptq, int4, group 32, symmetric", QUANT_EXACT, ""},
    {"gptq_v1_w8_g32_sym", "gptq, int8, group 32, symmetric", QUANT_EXACT, ""},
    {"gptq_v2_w2_g32_asym", "gptq, int2, group 32, asymmetric", QUANT_EXACT, ""},
    {"gptq_v2_w4_g32_asym", "gptq, int4, group 32, asymmetric", QUANT_EXACT, ""},
    {"gptq_v2_w4_g32_sym", "gptq, int4, group 32, symmetric", QUANT_EXACT, ""},
};

const int32_t quant_n_folders = ARRAY_LEN(quant_folders);

void quant_golden_open(const char *name, struct quant_golden *g) {
    char rel[FILE_PATH_MAX];
    *g = (struct quant_golden){0};
    snprintf(rel, sizeof rel, "quant/%s/expected.json", name);
    assert_ok(json_read(test_golden(rel), &g->e));
    snprintf(rel, sizeof rel, "quant/%s", name);
    assert_ok(ckpt_open(test_golden(rel), &g->c));
    assert_ok(weights_load(g->c, NULL, &g->w));
    const json_t *ids = json_object_get(g->e, "prompt_ids");
    g->n = (int32_t)json_array_size(ids);
    assert_true(g->n > 0 && g->n <= QUANT_IDS_MAX);
    for (int32_t i = 0; i < g->n; i++) {
        g->ids[i] = (int32_t)json_integer_value(json_array_get(ids, (size_t)i));
    }
}

void quant_golden_close(struct quant_golden *g) {
    weights_free(g->w);
    ckpt_close(g->c);
    json_decref(g->e);
}

const json_t *quant_golden_list(const struct quant_golden *g, const char *what, const char *key) {
    const json_t *o = json_object_get(g->e, what);
    return json_is_array(o) ? o : json_object_get(o, key);
}

void quant_golden_each(const struct weights *w,
                       void (*see)(void *ctx, const char *module, const struct linear *lin),
                       void *ctx) {
    char name[TENSOR_NAME_MAX];
    see(ctx, "lm_head", &w->head);
    for (int32_t i = 0; i < w->cfg.n_layer; i++) {
        const struct layer_weights *lw = &w->layer[i];
        for (int32_t r = 0; r < LINEAR_N; r++) {
            weights_module_name(name, i, (enum linear_role)r);
            if (!lw->expert || r < LINEAR_GATE) {
                see(ctx, name, &lw->lin[r]);
            }
            for (int32_t e = 0; lw->expert && r >= LINEAR_GATE && e < w->cfg.n_expert; e++) {
                char full[TENSOR_NAME_MAX + 64];
                snprintf(full, sizeof full, "model.layers.%d.mlp.experts.%d.%s", i, e,
                         name + sizeof "model.layers.0.mlp." - 1);
                see(ctx, full, &lw->expert[e].lin[r - LINEAR_GATE]);
            }
        }
    }
}
