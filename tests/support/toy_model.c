/* The data of a tensor in a block format is random nibbles under small random scales; every value
 * is finite. */
#include "tests/support/toy_model.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/file.h"
#include "engine/base/rng.h"
#include "tests/support/container_fixture.h"
#include "tests/support/support.h"

enum { GG_ALIGN = 32, FILE_MAX = 1 << 24 };

static void fill_blocks(struct toy_tensor *t, struct rng *r) {
    const struct dtype_info *info = dtype_info(t->type);
    for (int64_t i = 0; i < t->bytes; i++) {
        t->data[i] = (uint8_t)rng_u64(r);
    }
    for (int64_t b = 0; b < t->bytes; b += info->block_bytes) {
        uint16_t d[2] = {f32_to_f16(0.01f + 0.01f * (float)rng_uniform(r)), f32_to_f16(-0.1f)};
        memcpy(t->data + b, d, t->type == DTYPE_Q4_1 ? 4 : 2);
    }
}

static void fill(struct toy_tensor *t, struct rng *r) {
    float mean = t->n_dim == 1 ? 1 : 0;
    if (dtype_info(t->type)->block > 1) {
        fill_blocks(t, r);
        return;
    }
    int64_t size = dtype_info(t->type)->block_bytes;
    for (int64_t i = 0; i < t->bytes / size; i++) {
        float v = mean + 0.1f * (float)rng_normal(r);
        uint16_t h = t->type == DTYPE_F16 ? f32_to_f16(v) : f32_to_bf16(v);
        memcpy(t->data + i * size, t->type == DTYPE_F32 ? (void *)&v : (void *)&h, (size_t)size);
    }
}

struct toy_tensor *
toy_model_add(struct toy_model *m, const char *name, enum dtype type, int64_t rows, int64_t cols) {
    assert_true(m->n < TOY_TENSORS);
    struct toy_tensor *t = &m->t[m->n++];
    snprintf(t->name, sizeof t->name, "%s", name);
    t->type = type;
    t->n_dim = cols ? 2 : 1;
    t->dim[0] = rows;
    t->dim[1] = cols;
    t->bytes = cols ? rows * dtype_row_bytes(type, cols) : dtype_row_bytes(type, rows);
    t->data = mem_calloc(MEM_TEST, t->bytes);
    assert_non_null(t->data);
    return t;
}

static void add(struct toy_model *m,
                const char *name,
                const char *gguf,
                enum dtype type,
                int64_t rows,
                int64_t cols,
                struct rng *r) {
    char full[96];
    snprintf(full, sizeof full, "%s.weight", name);
    struct toy_tensor *t = toy_model_add(m, full, type, rows, cols);
    snprintf(t->gguf, sizeof t->gguf, "%s.weight", gguf);
    fill(t, r);
}

static void add_layer(struct toy_model *m, int32_t layer, enum dtype type, struct rng *r) {
    static const struct {
        const char *hf;
        const char *gguf;
        int64_t rows;
        int64_t cols; /* 0: a vector */
    } parts[] = {{"input_layernorm", "attn_norm", TOY_E, 0},
                 {"self_attn.q_proj", "attn_q", TOY_H * TOY_D, TOY_E},
                 {"self_attn.k_proj", "attn_k", TOY_K * TOY_D, TOY_E},
                 {"self_attn.v_proj", "attn_v", TOY_K * TOY_D, TOY_E},
                 {"self_attn.o_proj", "attn_output", TOY_E, TOY_H * TOY_D},
                 {"post_attention_layernorm", "ffn_norm", TOY_E, 0},
                 {"mlp.gate_proj", "ffn_gate", TOY_F, TOY_E},
                 {"mlp.up_proj", "ffn_up", TOY_F, TOY_E},
                 {"mlp.down_proj", "ffn_down", TOY_E, TOY_F}};
    for (int32_t i = 0; i < ARRAY_LEN(parts); i++) {
        char hf[64];
        char gg[48];
        snprintf(hf, sizeof hf, "model.layers.%d.%s", layer, parts[i].hf);
        snprintf(gg, sizeof gg, "blk.%d.%s", layer, parts[i].gguf);
        add(m, hf, gg, parts[i].cols ? type : DTYPE_F32, parts[i].rows, parts[i].cols, r);
        m->t[m->n - 1].permuted = i == 1 || i == 2;
    }
}

void toy_model_init(struct toy_model *m, int32_t n_layer, enum dtype matrices) {
    struct rng r;
    rng_init(&r, 20, 0);
    memset(m, 0, sizeof *m);
    m->n_layer = n_layer;
    add(m, "model.embed_tokens", "token_embd", matrices, TOY_V, TOY_E, &r);
    for (int32_t i = 0; i < n_layer; i++) {
        add_layer(m, i, matrices, &r);
    }
    add(m, "model.norm", "output_norm", DTYPE_F32, TOY_E, 0, &r);
    add(m, "lm_head", "output", matrices, TOY_V, TOY_E, &r);
}

void toy_model_fini(struct toy_model *m) {
    for (int32_t i = 0; i < m->n; i++) {
        mem_free(m->t[i].data);
    }
}

struct toy_tensor *toy_model_at(struct toy_model *m, const char *name) {
    for (int32_t i = 0; i < m->n; i++) {
        if (strcmp(m->t[i].name, name) == 0) {
            return &m->t[i];
        }
    }
    fail_msg("the toy has no tensor %s", name);
    return NULL;
}

void toy_model_config(struct buf *b, int32_t n_layer, const char *more) {
    assert_ok(buf_fmt(b,
                      "{%s\"model_type\":\"llama\",\"hidden_size\":%d,\"intermediate_size\":%d,"
                      "\"num_hidden_layers\":%d,\"num_attention_heads\":%d,"
                      "\"num_key_value_heads\":%d,\"vocab_size\":%d,"
                      "\"max_position_embeddings\":%d,\"eos_token_id\":%d,\"bos_token_id\":1}",
                      more, TOY_E, TOY_F, n_layer, TOY_H, TOY_K, TOY_V, TOY_CTX, TOY_EOS));
}

static void save(const char *dir, const char *name, const struct buf *b) {
    char path[FILE_PATH_MAX];
    assert_ok(file_join(path, dir, name));
    assert_ok(file_write(path, buf_cstr(b), b->len));
}

void toy_model_write_hf(const struct toy_model *m, const char *dir, const char *more, int32_t pad) {
    struct buf head;
    struct buf data;
    struct buf out;
    int64_t at = 0;
    buf_init(&head, MEM_TEST, FILE_MAX);
    buf_init(&data, MEM_TEST, FILE_MAX);
    buf_init(&out, MEM_TEST, FILE_MAX);
    toy_model_config(&out, m->n_layer, more);
    save(dir, "config.json", &out);
    buf_clear(&out);
    for (int32_t i = 0; i < m->n; i++) {
        const struct toy_tensor *t = &m->t[i];
        if (t->absent) {
            continue;
        }
        assert_ok(buf_fmt(&head, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%lld", at ? "," : "{",
                          t->name, dtype_info(t->type)->name, (long long)t->dim[0]));
        if (t->n_dim == 2) {
            assert_ok(buf_fmt(&head, ",%lld", (long long)t->dim[1]));
        }
        assert_ok(buf_fmt(&head, "],\"data_offsets\":[%lld,%lld]}", (long long)at,
                          (long long)(at + t->bytes)));
        at += t->bytes;
        assert_ok(buf_add(&data, t->data, t->bytes));
    }
    assert_ok(buf_str(&head, "}"));
    while (head.len % 8 != pad) {
        assert_ok(buf_str(&head, " "));
    }
    container_st(&out, buf_cstr(&head), buf_cstr(&data), data.len);
    save(dir, "model.safetensors", &out);
    buf_fini(&head);
    buf_fini(&data);
    buf_fini(&out);
}

static uint32_t gg_type(enum dtype t) {
    switch (t) {
    case DTYPE_F16:
        return 1;
    case DTYPE_Q4_0:
        return 2;
    case DTYPE_Q4_1:
        return 3;
    case DTYPE_Q8_0:
        return 8;
    case DTYPE_BF16:
        return 30;
    case DTYPE_F32:
        return 0;
    case DTYPE_F64:
    case DTYPE_I8:
    case DTYPE_U8:
    case DTYPE_I16:
    case DTYPE_I32:
    case DTYPE_I64:
    case DTYPE_BOOL:
    case DTYPE_F8_E4M3:
    case DTYPE_W4:
    case DTYPE_N:
        break;
    }
    fail_msg("type %d has no place in the toy's GGUF", (int)t);
    return 0;
}

/* Appends a tensor's rows; those of q and k as llama.cpp orders them. */
static void add_rows(struct buf *b, const struct toy_tensor *t) {
    if (!t->permuted) {
        assert_ok(buf_add(b, t->data, t->bytes));
        return;
    }
    int64_t row = t->bytes / t->dim[0];
    for (int64_t r = 0; r < t->dim[0]; r++) {
        int64_t i = r % TOY_D;
        int64_t from = r - i + i / 2 + i % 2 * (TOY_D / 2);
        assert_ok(buf_add(b, t->data + from * row, row));
    }
}

void toy_model_write_gguf(const struct toy_model *m, const char *path) {
    struct buf b;
    uint64_t n = 0;
    uint64_t at = 0;
    buf_init(&b, MEM_TEST, FILE_MAX);
    for (int32_t i = 0; i < m->n; i++) {
        n += m->t[i].absent ? 0 : 1;
    }
    container_head(&b, 3, n, 9);
    container_kv_str(&b, "general.architecture", "llama");
    container_kv_u32(&b, "llama.block_count", (uint32_t)m->n_layer);
    container_kv_u32(&b, "llama.attention.head_count", TOY_H);
    container_kv_u32(&b, "llama.attention.head_count_kv", TOY_K);
    container_kv_u32(&b, "llama.embedding_length", TOY_E);
    container_kv_u32(&b, "llama.feed_forward_length", TOY_F);
    container_kv_u32(&b, "llama.context_length", TOY_CTX);
    container_kv_f32(&b, "llama.attention.layer_norm_rms_epsilon", 1e-6f);
    container_kv_u32(&b, "tokenizer.ggml.eos_token_id", TOY_EOS);
    for (int32_t i = 0; i < m->n; i++) {
        const struct toy_tensor *t = &m->t[i];
        uint64_t dim[2] = {(uint64_t)t->dim[t->n_dim - 1], (uint64_t)t->dim[0]};
        if (!t->absent) {
            container_tensor(&b, t->gguf, (uint32_t)t->n_dim, dim, gg_type(t->type), at);
            at += (uint64_t)i64_div_up(t->bytes, GG_ALIGN) * GG_ALIGN;
        }
    }
    container_pad(&b, GG_ALIGN);
    for (int32_t i = 0; i < m->n; i++) {
        if (!m->t[i].absent) {
            add_rows(&b, &m->t[i]);
            container_pad(&b, GG_ALIGN);
        }
    }
    assert_ok(file_write(path, buf_cstr(&b), b.len));
    buf_fini(&b);
}
