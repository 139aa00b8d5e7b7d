/* Tensors bound to their places: the same numbers from every container, and every refusal. */
#include "tests/support/support.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/model/weights.h"
#include "kernels/backend.h"
#include "tests/support/toy_model.h"

static char dir[FILE_PATH_MAX];
static struct toy_model toy;

static int setup(void **state) {
    test_setup(state);
    test_tmpdir(dir);
    toy_model_init(&toy, 2, DTYPE_F32);
    return 0;
}

static int teardown(void **state) {
    fault_disarm();
    toy_model_fini(&toy);
    test_rmdir(dir);
    return test_teardown(state);
}

static const char *gguf_path(void) {
    static char path[FILE_PATH_MAX];
    assert_ok(file_join(path, dir, "m.gguf"));
    return path;
}

static void use_type(enum dtype t) {
    toy_model_fini(&toy);
    toy_model_init(&toy, 2, t);
}

/* Loads what lies at path. */
static int load(const char *path, bool check, struct ckpt **c, struct weights **w) {
    struct weights_opts o = {.no_finite_check = !check};
    int rc = ckpt_open(path, c);
    rc = rc ? rc : weights_load(*c, &o, w);
    if (rc) {
        ckpt_close(*c);
        *c = NULL;
    }
    return rc;
}

static void close_both(struct ckpt *c, struct weights *w) {
    weights_free(w);
    ckpt_close(c);
}

static void expect_bad(int code, const char *part) {
    struct ckpt *c = NULL;
    struct weights *w = NULL;
    toy_model_write_hf(&toy, dir, "", 0);
    assert_err(load(dir, true, &c, &w), code, part);
    assert_null(w);
}

static void expect_same_matrix(const struct wmat *a, const struct wmat *b) {
    float x[TOY_F];
    float y[TOY_F];
    assert_true(a->n == b->n && a->k == b->k && a->k <= TOY_F);
    for (int32_t r = 0; r < a->n; r++) {
        ref_decode(a, r, 0, a->k, x);
        ref_decode(b, r, 0, b->k, y);
        assert_memory_equal(x, y, (size_t)a->k * 4);
    }
}

static void expect_same(const struct weights *a, const struct weights *b) {
    expect_same_matrix(&a->embed, &b->embed);
    expect_same_matrix(&a->head.w, &b->head.w);
    assert_memory_equal(a->final_norm, b->final_norm, TOY_E * 4);
    for (int32_t i = 0; i < a->cfg.n_layer; i++) {
        const struct layer_weights *x = &a->layer[i];
        const struct layer_weights *y = &b->layer[i];
        assert_memory_equal(x->attn_norm, y->attn_norm, TOY_E * 4);
        assert_memory_equal(x->mlp_norm, y->mlp_norm, TOY_E * 4);
        for (int32_t r = 0; r < LINEAR_N; r++) {
            expect_same_matrix(&x->lin[r].w, &y->lin[r].w);
        }
    }
}

static void test_weights_gguf_equals_folder(void **state) {
    (void)state;
    static const enum dtype types[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16};
    for (int32_t i = 0; i < ARRAY_LEN(types); i++) {
        struct ckpt *c[2] = {NULL};
        struct weights *w[2] = {NULL};
        use_type(types[i]);
        toy_model_write_hf(&toy, dir, "", 0);
        toy_model_write_gguf(&toy, gguf_path());
        assert_ok(load(dir, true, &c[0], &w[0]));
        assert_ok(load(gguf_path(), true, &c[1], &w[1]));
        expect_same(w[0], w[1]);
        assert_true(w[0]->n_param == w[1]->n_param && w[0]->bytes == w[1]->bytes);
        assert_string_equal(w[0]->scheme, dtype_info(types[i])->name);
        close_both(c[0], w[0]);
        close_both(c[1], w[1]);
    }
}

static void test_weights_misaligned_data_is_the_same(void **state) {
    (void)state;
    struct ckpt *c[2] = {NULL};
    struct weights *w[2] = {NULL};
    char odd[FILE_PATH_MAX];
    test_tmpdir(odd);
    toy_model_write_hf(&toy, dir, "", 0);
    assert_ok(load(dir, true, &c[0], &w[0]));
    for (int32_t pad = 1; pad < 8; pad++) {
        toy_model_write_hf(&toy, odd, "", pad);
        assert_ok(load(odd, true, &c[1], &w[1]));
        assert_int_equal((uintptr_t)w[1]->embed.data % 4, 0);
        expect_same(w[0], w[1]);
        close_both(c[1], w[1]);
    }
    close_both(c[0], w[0]);
    test_rmdir(odd);
}

static void test_weights_tied_table_is_counted_once(void **state) {
    (void)state;
    struct ckpt *c = NULL;
    struct weights *w = NULL;
    toy_model_write_hf(&toy, dir, "", 0);
    assert_ok(load(dir, true, &c, &w));
    int64_t n = w->n_param;
    assert_ptr_not_equal(w->head.w.data, w->embed.data);
    close_both(c, w);
    toy_model_at(&toy, "lm_head.weight")->absent = true;
    toy_model_write_hf(&toy, dir, "\"tie_word_embeddings\":true,", 0);
    assert_ok(load(dir, true, &c, &w));
    assert_ptr_equal(w->head.w.data, w->embed.data);
    assert_int_equal(n - w->n_param, TOY_V * TOY_E);
    close_both(c, w);
    toy_model_write_gguf(&toy, gguf_path());
    assert_ok(load(gguf_path(), true, &c, &w));
    assert_true(w->cfg.tied && w->head.w.data == w->embed.data);
    close_both(c, w);
}

static void test_weights_each_missing_tensor_is_named(void **state) {
    (void)state;
    for (int32_t i = 0; i < toy.n; i++) {
        toy.t[i].absent = true;
        expect_bad(ERR_NOTFOUND, toy.t[i].name);
        toy.t[i].absent = false;
    }
}

static void test_weights_wrong_shapes_say_what_was_wanted(void **state) {
    (void)state;
    struct toy_tensor *t = toy_model_at(&toy, "model.layers.1.mlp.up_proj.weight");
    t->dim[0] = TOY_F / 2;
    t->dim[1] = TOY_E * 2;
    expect_bad(ERR_FORMAT, "up_proj.weight\": shape [32, 64], want [64, 32]");
    t->dim[0] = TOY_F;
    t->dim[1] = TOY_E;
    t = toy_model_at(&toy, "model.norm.weight");
    t->type = DTYPE_I32;
    expect_bad(ERR_FORMAT, "model.norm.weight\": I32 [32], want F32, F16 or BF16 [32]");
    t->type = DTYPE_F32;
    t = toy_model_at(&toy, "model.embed_tokens.weight");
    t->type = DTYPE_I32;
    expect_bad(ERR_UNSUPPORTED, "weights of type I32 are not multiplied");
}

static void test_weights_nan_in_plain_types_is_named(void **state) {
    (void)state;
    static const struct {
        enum dtype type;
        uint32_t bits;
        int32_t bytes;
    } rows[] = {{DTYPE_F32, 0x7fc00000, 4}, {DTYPE_F32, 0xff800000, 4}, {DTYPE_F16, 0x7e00, 2},
                {DTYPE_F16, 0xfc00, 2},     {DTYPE_BF16, 0xffc0, 2},    {DTYPE_BF16, 0x7f80, 2}};
    for (int32_t i = 0; i < ARRAY_LEN(rows); i++) {
        use_type(rows[i].type);
        struct toy_tensor *t = toy_model_at(&toy, "model.layers.1.mlp.down_proj.weight");
        memcpy(t->data + 7 * rows[i].bytes, &rows[i].bits, (size_t)rows[i].bytes);
        expect_bad(ERR_NUMERIC, "down_proj.weight\": NaN or infinity at element 7");
        struct ckpt *c = NULL;
        struct weights *w = NULL;
        assert_ok(load(dir, false, &c, &w));
        close_both(c, w);
    }
    struct toy_tensor *t = toy_model_at(&toy, "model.layers.0.input_layernorm.weight");
    float nan = NAN;
    memcpy(t->data, &nan, 4);
    expect_bad(ERR_NUMERIC, "layers.0.input_layernorm.weight\": NaN or infinity at element 0");
}

static void test_weights_nan_in_block_scales_is_named(void **state) {
    (void)state;
    static const struct {
        enum dtype type;
        int32_t bytes;
        int32_t offset;
    } rows[] = {{DTYPE_Q4_0, 18, 0}, {DTYPE_Q4_1, 20, 0}, {DTYPE_Q4_1, 20, 2}, {DTYPE_Q8_0, 34, 0}};
    for (int32_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct ckpt *c = NULL;
        struct weights *w = NULL;
        const uint16_t inf = 0x7c00;
        use_type(rows[i].type);
        toy_model_write_gguf(&toy, gguf_path());
        assert_ok(load(gguf_path(), true, &c, &w));
        assert_string_equal(w->scheme, dtype_info(rows[i].type)->name);
        close_both(c, w);
        struct toy_tensor *t = toy_model_at(&toy, "model.layers.0.mlp.up_proj.weight");
        memcpy(t->data + 3 * rows[i].bytes + rows[i].offset, &inf, 2);
        toy_model_write_gguf(&toy, gguf_path());
        c = NULL;
        assert_err(load(gguf_path(), true, &c, &w), ERR_NUMERIC,
                   "ffn_up.weight\": NaN or infinity at block 3");
    }
}

static void test_weights_biases_are_bound_when_asked_for(void **state) {
    (void)state;
    struct ckpt *c = NULL;
    struct weights *w = NULL;
    static const char *const names[] = {"q_proj", "k_proj", "v_proj", "o_proj"};
    static const int32_t n[] = {TOY_H * TOY_D, TOY_K * TOY_D, TOY_K * TOY_D, TOY_E};
    for (int32_t i = 0; i < 8; i++) {
        char name[96];
        snprintf(name, sizeof name, "model.layers.%d.self_attn.%s.bias", i / 4, names[i % 4]);
        struct toy_tensor *t = toy_model_add(&toy, name, DTYPE_F32, n[i % 4], 0);
        float one = 1 + (float)i;
        memcpy(t->data, &one, 4);
    }
    toy_model_write_hf(&toy, dir, "\"attention_bias\":true,", 0);
    assert_ok(load(dir, true, &c, &w));
    assert_true(w->layer[1].lin[LINEAR_O].bias[0] == 8 && w->layer[0].lin[LINEAR_Q].bias[0] == 1);
    assert_null(w->layer[0].lin[LINEAR_UP].bias);
    close_both(c, w);
    toy.t[toy.n - 1].absent = true;
    toy_model_write_hf(&toy, dir, "\"attention_bias\":true,", 0);
    assert_err(load(dir, true, &c, &w), ERR_NOTFOUND, "layers.1.self_attn.o_proj.bias");
}

static void test_weights_packed_tensors_in_gguf_are_no_weights(void **state) {
    (void)state;
    struct ckpt *c = NULL;
    struct weights *w = NULL;
    struct toy_tensor *q = toy_model_at(&toy, "model.layers.0.self_attn.q_proj.weight");
    strncpy(q->gguf, "blk.0.attn_q.weight_packed", sizeof q->gguf - 1);
    toy_model_write_gguf(&toy, gguf_path());
    assert_err(load(gguf_path(), true, &c, &w), ERR_NOTFOUND, "\"blk.0.attn_q.weight\"");
}

static void test_weights_gguf_scale_beside_a_matrix(void **state) {
    (void)state;
    static const char *const parts[] = {"scale", "input_scale"};
    for (int32_t i = 0; i < ARRAY_LEN(parts); i++) {
        struct ckpt *c = NULL;
        struct weights *w = NULL;
        struct toy_tensor *t = toy_model_add(&toy, "x", DTYPE_F32, 1, 0);
        snprintf(t->gguf, sizeof t->gguf, "blk.0.attn_q.%s", parts[i]);
        toy_model_write_gguf(&toy, gguf_path());
        assert_err(load(gguf_path(), true, &c, &w), ERR_UNSUPPORTED, t->gguf);
        t->absent = true;
    }
}

/* A tied head that is stored quantized is its own; a quantized table serves both ends. */
static void test_weights_quantized_head_and_table(void **state) {
    (void)state;
    struct ckpt *c = NULL;
    struct weights *w = NULL;
    static const char head[] =
        "\"tie_word_embeddings\":true,\"quantization_config\":{\"quant_method\":"
        "\"compressed-tensors\",\"format\":\"int-quantized\",\"config_groups\":{\"g\":{"
        "\"targets\":[\"lm_head\"],\"weights\":{\"num_bits\":8,\"strategy\":\"channel\"}}}},";
    static const char table[] =
        "\"tie_word_embeddings\":true,\"quantization_config\":{\"quant_method\":"
        "\"compressed-tensors\",\"format\":\"int-quantized\",\"config_groups\":{\"g\":{"
        "\"targets\":[\"Embedding\"],\"weights\":{\"num_bits\":8,\"strategy\":\"channel\"}}}},";
    toy_model_write_hf(&toy, dir, head, 0);
    assert_ok(load(dir, true, &c, &w)); /* stored plain or not at all: tied */
    assert_ptr_equal(w->head.w.data, w->embed.data);
    close_both(c, w);
    toy_model_at(&toy, "lm_head.weight")->absent = true;
    struct toy_tensor *scale = toy_model_add(&toy, "lm_head.weight_scale", DTYPE_F32, TOY_V, 1);
    for (int32_t i = 0; i < TOY_V; i++) {
        memcpy(scale->data + 4 * i, &(float){1}, 4);
    }
    toy_model_add(&toy, "lm_head.weight", DTYPE_I8, TOY_V, TOY_E);
    toy_model_write_hf(&toy, dir, head, 0);
    assert_ok(load(dir, true, &c, &w));
    assert_true(w->head.w.type == DTYPE_I8 && w->embed.type == DTYPE_F32);
    assert_string_equal(w->head.scheme, "int-quantized, int8, per channel, symmetric");
    close_both(c, w);
    for (int32_t i = 0; i < toy.n; i++) {
        bool is_table = strcmp(toy.t[i].name, "model.embed_tokens.weight") == 0;
        bool is_head = strncmp(toy.t[i].name, "lm_head", 7) == 0;
        toy.t[i].absent = toy.t[i].absent || is_table || is_head;
    }
    scale = toy_model_add(&toy, "model.embed_tokens.weight_scale", DTYPE_F32, TOY_V, 1);
    for (int32_t i = 0; i < TOY_V; i++) {
        memcpy(scale->data + 4 * i, &(float){1}, 4);
    }
    toy_model_add(&toy, "model.embed_tokens.weight", DTYPE_I8, TOY_V, TOY_E);
    toy_model_write_hf(&toy, dir, table, 0);
    assert_ok(load(dir, true, &c, &w));
    assert_true(w->embed.type == DTYPE_I8 && w->head.w.data == w->embed.data);
    assert_string_equal(w->embed_scheme, "int-quantized, int8, per channel, symmetric");
    close_both(c, w);
}

/* Old gptq files hold a bias of zeros for every module; one that is not zero counts. */
static void test_weights_stray_biases_of_gptq(void **state) {
    (void)state;
    struct ckpt *c = NULL;
    struct weights *w = NULL;
    static const char gptq[] = "\"quantization_config\":{\"quant_method\":\"gptq\",\"bits\":4},";
    toy_model_add(&toy, "model.layers.0.mlp.up_proj.bias", DTYPE_F16, TOY_F, 0);
    struct toy_tensor *t =
        toy_model_add(&toy, "model.layers.1.mlp.up_proj.bias", DTYPE_F16, TOY_F, 0);
    memcpy(t->data + 2, &(uint16_t){0x3c00}, 2);
    toy_model_write_hf(&toy, dir, gptq, 0);
    assert_ok(load(dir, true, &c, &w));
    assert_null(w->layer[0].lin[LINEAR_UP].bias);
    assert_true(w->layer[1].lin[LINEAR_UP].bias[1] == 1);
    close_both(c, w);
}

static int load_and_free(void *ctx) {
    struct ckpt *c = NULL;
    struct weights *w = NULL;
    int rc = load(ctx, true, &c, &w);
    if (!rc) {
        close_both(c, w);
    }
    return rc;
}

static void test_weights_without_memory(void **state) {
    (void)state;
    static const int codes[] = {ERR_NOMEM, 0};
    char gguf[FILE_PATH_MAX];
    toy_model_fini(&toy);
    toy_model_init(&toy, 1, DTYPE_F32);
    toy_model_write_gguf(&toy, gguf_path());
    assert_ok(file_join(gguf, dir, "m.gguf"));
    test_fault_loop(FAULT_ALLOC, load_and_free, gguf, codes);
    toy_model_write_hf(&toy, dir, "", 3);
    test_fault_loop(FAULT_ALLOC, load_and_free, dir, codes);
}

#define WEIGHTS_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        WEIGHTS_TEST(test_weights_gguf_equals_folder),
        WEIGHTS_TEST(test_weights_misaligned_data_is_the_same),
        WEIGHTS_TEST(test_weights_tied_table_is_counted_once),
        WEIGHTS_TEST(test_weights_each_missing_tensor_is_named),
        WEIGHTS_TEST(test_weights_wrong_shapes_say_what_was_wanted),
        WEIGHTS_TEST(test_weights_nan_in_plain_types_is_named),
        WEIGHTS_TEST(test_weights_nan_in_block_scales_is_named),
        WEIGHTS_TEST(test_weights_biases_are_bound_when_asked_for),
        WEIGHTS_TEST(test_weights_packed_tensors_in_gguf_are_no_weights),
        WEIGHTS_TEST(test_weights_quantized_head_and_table),
        WEIGHTS_TEST(test_weights_stray_biases_of_gptq),
        WEIGHTS_TEST(test_weights_gguf_scale_beside_a_matrix),
        WEIGHTS_TEST(test_weights_without_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
