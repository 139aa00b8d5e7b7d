/* What loading costs: the program never holds more than the weights as stored and 64 MB, also where
 * a layout is turned on the way. LABELS: slow
 *
 * Checkpoints of some hundred megabytes are written, in GPTQ's layout, which packs down the inputs,
 * and as GGUF, whose q and k rows are put in order; `trilemma inspect` binds all of it. */
#include "tests/support/support.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "engine/base/file.h"
#include "tests/support/cli.h"
#include "tests/support/container_fixture.h"

enum { E = 1024, F = 2816, LAYERS = 24, V = 512, HEADS = 16, BITS_GROUP = 128 };
static const int64_t ALLOWED = 64 << 20;

struct part {
    const char *hf;
    const char *gguf;
    int32_t n;
    int32_t k;
};

static const struct part parts[] = {
    {"self_attn.q_proj", "attn_q", E, E}, {"self_attn.k_proj", "attn_k", E, E},
    {"self_attn.v_proj", "attn_v", E, E}, {"self_attn.o_proj", "attn_output", E, E},
    {"mlp.gate_proj", "ffn_gate", F, E},  {"mlp.up_proj", "ffn_up", F, E},
    {"mlp.down_proj", "ffn_down", E, F},
};

static char dir[FILE_PATH_MAX];

static const char *in_dir(const char *name) {
    static char path[FILE_PATH_MAX];
    assert_ok(file_join(path, dir, name));
    return path;
}

/* A header line and bytes of one value each. */
struct st {
    struct buf head;
    struct buf data;
};

static void st_add(struct st *s,
                   const char *name,
                   const char *type,
                   const char *shape,
                   int64_t n,
                   int32_t size,
                   uint32_t value) {
    int64_t at = s->data.len;
    for (int64_t i = 0; i < n; i++) {
        assert_ok(buf_add(&s->data, &value, size));
    }
    assert_ok(
        buf_fmt(&s->head, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":%s,\"data_offsets\":[%lld,%lld]}",
                s->head.len ? "," : "{", name, type, shape, (long long)at, (long long)s->data.len));
}

static void st_module(struct st *s, int32_t layer, const struct part *p) {
    char name[128];
    char shape[64];
    int32_t groups = p->k / BITS_GROUP;
    snprintf(name, sizeof name, "model.layers.%d.%s.qweight", layer, p->hf);
    snprintf(shape, sizeof shape, "[%d,%d]", p->k / 8, p->n);
    st_add(s, name, "I32", shape, (int64_t)p->k / 8 * p->n, 4, 0x98a7b6c5);
    snprintf(name, sizeof name, "model.layers.%d.%s.qzeros", layer, p->hf);
    snprintf(shape, sizeof shape, "[%d,%d]", groups, p->n / 8);
    st_add(s, name, "I32", shape, (int64_t)groups * p->n / 8, 4, 0x77777777);
    snprintf(name, sizeof name, "model.layers.%d.%s.scales", layer, p->hf);
    snprintf(shape, sizeof shape, "[%d,%d]", groups, p->n);
    st_add(s, name, "F16", shape, (int64_t)groups * p->n, 2, 0x2000);
}

static void write_gptq(void) {
    struct st s;
    struct buf out;
    char shape[64];
    buf_init(&s.head, MEM_TEST, 1 << 24);
    buf_init(&s.data, MEM_TEST, INT64_C(1) << 31);
    buf_init(&out, MEM_TEST, INT64_C(1) << 31);
    snprintf(shape, sizeof shape, "[%d,%d]", V, E);
    st_add(&s, "model.embed_tokens.weight", "F16", shape, (int64_t)V * E, 2, 0x2c00);
    st_add(&s, "lm_head.weight", "F16", shape, (int64_t)V * E, 2, 0x2c00);
    snprintf(shape, sizeof shape, "[%d]", E);
    st_add(&s, "model.norm.weight", "F16", shape, E, 2, 0x3c00);
    for (int32_t i = 0; i < LAYERS; i++) {
        char name[96];
        snprintf(name, sizeof name, "model.layers.%d.input_layernorm.weight", i);
        st_add(&s, name, "F16", shape, E, 2, 0x3c00);
        snprintf(name, sizeof name, "model.layers.%d.post_attention_layernorm.weight", i);
        st_add(&s, name, "F16", shape, E, 2, 0x3c00);
        for (int32_t p = 0; p < ARRAY_LEN(parts); p++) {
            st_module(&s, i, &parts[p]);
        }
    }
    assert_ok(buf_str(&s.head, "}"));
    container_st(&out, buf_cstr(&s.head), s.data.data, s.data.len);
    assert_ok(file_write(in_dir("model.safetensors"), out.data, out.len));
    buf_clear(&out);
    assert_ok(buf_fmt(&out,
                      "{\"model_type\":\"llama\",\"hidden_size\":%d,\"intermediate_size\":%d,"
                      "\"num_hidden_layers\":%d,\"num_attention_heads\":%d,"
                      "\"num_key_value_heads\":%d,\"vocab_size\":%d,"
                      "\"max_position_embeddings\":512,\"quantization_config\":{\"quant_method\":"
                      "\"gptq\",\"bits\":4,\"group_size\":%d,\"sym\":true,\"desc_act\":false}}",
                      E, F, LAYERS, HEADS, HEADS, V, BITS_GROUP));
    assert_ok(file_write(in_dir("config.json"), out.data, out.len));
    buf_fini(&s.head);
    buf_fini(&s.data);
    buf_fini(&out);
}

/* One GGUF entry; all offsets are multiples of 32 by the shapes. */
static void gg_entry(struct buf *b, const char *name, int32_t n, int32_t k, uint64_t *at) {
    const uint64_t dim[2] = {(uint64_t)k, (uint64_t)n};
    container_tensor(b, name, n ? 2 : 1, dim, n ? 8 : 0, *at);
    *at += n ? (uint64_t)n * (uint64_t)k / 32 * 34 : (uint64_t)k * 4;
}

static void write_gguf(void) {
    struct buf b;
    uint64_t at = 0;
    char name[64];
    buf_init(&b, MEM_TEST, INT64_C(1) << 31);
    container_head(&b, 3, 3 + LAYERS * (2 + ARRAY_LEN(parts)), 9);
    container_kv_str(&b, "general.architecture", "llama");
    container_kv_u32(&b, "llama.block_count", LAYERS);
    container_kv_u32(&b, "llama.attention.head_count", HEADS);
    container_kv_u32(&b, "llama.attention.head_count_kv", HEADS);
    container_kv_u32(&b, "llama.embedding_length", E);
    container_kv_u32(&b, "llama.feed_forward_length", F);
    container_kv_u32(&b, "llama.context_length", 512);
    container_kv_u32(&b, "llama.vocab_size", V);
    container_kv_f32(&b, "llama.attention.layer_norm_rms_epsilon", 1e-6F);
    gg_entry(&b, "token_embd.weight", V, E, &at);
    gg_entry(&b, "output.weight", V, E, &at);
    gg_entry(&b, "output_norm.weight", 0, E, &at);
    for (int32_t i = 0; i < LAYERS; i++) {
        for (int32_t p = 0; p < ARRAY_LEN(parts); p++) {
            snprintf(name, sizeof name, "blk.%d.%s.weight", i, parts[p].gguf);
            gg_entry(&b, name, parts[p].n, parts[p].k, &at);
        }
        snprintf(name, sizeof name, "blk.%d.attn_norm.weight", i);
        gg_entry(&b, name, 0, E, &at);
        snprintf(name, sizeof name, "blk.%d.ffn_norm.weight", i);
        gg_entry(&b, name, 0, E, &at);
    }
    container_pad(&b, 32);
    const uint8_t zeros[32] = {0};
    for (uint64_t i = 0; i < at; i += sizeof zeros) {
        assert_ok(buf_add(&b, zeros, sizeof zeros));
    }
    assert_ok(file_write(in_dir("m.gguf"), b.data, b.len));
    buf_fini(&b);
}

/* Binds all of a checkpoint in a child. returns the most that any child held so far */
static int64_t peak_of(const char *name) {
    struct rusage u;
    struct cli_result r;
    cli_line(dir, 0, &r, "inspect %s", name);
    cli_fini(&r);
    assert_int_equal(getrusage(RUSAGE_CHILDREN, &u), 0);
    return (int64_t)u.ru_maxrss * 1024;
}

static void expect_peak(const char *what, const char *file, const char *name) {
    int64_t stored = file_size(in_dir(file));
    int64_t peak = peak_of(name);
    print_message("%s: %lld MB stored, at most %lld MB held\n", what, (long long)(stored >> 20),
                  (long long)(peak >> 20));
    assert_true(stored > 2 * ALLOWED); /* a second copy would show */
    assert_true(peak <= stored + ALLOWED);
}

static void test_load_memory_of_turned_layouts(void **state) {
    (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    print_message("a sanitizer holds memory of its own\n");
    skip();
#endif
    test_tmpdir(dir);
    write_gptq(); /* the smaller first: the system keeps the largest child's figure */
    expect_peak("GPTQ", "model.safetensors", ".");
    write_gguf();
    expect_peak("GGUF", "m.gguf", "m.gguf");
    test_rmdir(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {TEST(test_load_memory_of_turned_layouts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
