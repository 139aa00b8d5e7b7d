/* Broken checkpoints, made by a generator: every form is refused with its own error, which names
 * the file and says what was found. A form is the toy model with one thing wrong; forms are rows of
 * tables, one table for each way of breaking a file. */
#include "tests/support/support.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/run/model.h"
#include "tests/support/container_fixture.h"
#include "tests/support/toy_model.h"
#include "tests/support/toy_tok.h"

enum { FORMS_MAX = 400, FORMS_LEAST = 120, TEXT_MAX = 600 };

static char dir[FILE_PATH_MAX];
static struct toy_model toy;
static char said[FORMS_MAX][TEXT_MAX];
static int32_t n_said;

static const char *in_dir(const char *name) {
    static char path[FILE_PATH_MAX];
    assert_ok(file_join(path, dir, name));
    return path;
}

static void put(const char *name, const void *data, int64_t n) {
    assert_ok(file_write(in_dir(name), data, n));
}

static void put_text(const char *name, const char *text) {
    put(name, text, (int64_t)strlen(text));
}

static void drop(const char *name) {
    remove(in_dir(name));
}

/* The whole toy as a folder again. */
static void fresh(void) {
    static const char *const more[] = {"model.safetensors.index.json",
                                       "tokenizer.json",
                                       "generation_config.json",
                                       "m.gguf",
                                       "a.safetensors",
                                       "b.safetensors"};
    for (int32_t i = 0; i < ARRAY_LEN(more); i++) {
        drop(more[i]);
    }
    toy_model_write_hf(&toy, dir, "", 0);
}

/* Opens path and demands the error; its text, without the folder, must be new. */
static void refuse(const char *form, const char *path, int code, const char *part) {
    struct model *m = NULL;
    int rc = model_open(path, NULL, &m);
    rc = rc ? rc : model_need_tok(m);
    model_close(m);
    if (rc != code || !strstr(err_msg(), part)) {
        fail_msg("%s: got %s \"%s\", want %s with \"%s\"", form, err_name(rc), err_msg(),
                 err_name(code), part);
    }
    if (!strstr(err_msg(), dir)) {
        fail_msg("%s: \"%s\" names no file", form, err_msg());
    }
    assert_true(n_said < FORMS_MAX);
    snprintf(said[n_said], TEXT_MAX, "%s", strstr(err_msg(), dir) + strlen(dir));
    for (int32_t i = 0; i < n_said; i++) {
        if (strcmp(said[i], said[n_said]) == 0) {
            fail_msg("%s: says what another form says: \"%s\"", form, said[i]);
        }
    }
    n_said++;
}

/* Headers of a safetensors file with 16 bytes of data; length -1: the header's own. */
static const struct {
    const char *head;
    int64_t length;
    int code;
    const char *part;
} headers[] = {
    {"{}", 0, ERR_FORMAT, "header"},
    {"{}", INT64_MIN, ERR_FORMAT, "header of 9223372036854775808 bytes"},
    {"{}", INT64_MAX, ERR_FORMAT, "header of 9223372036854775807 bytes"},
    {"{}", 19, ERR_EOF, "header of 19 bytes in a file of 26"},
    {"{}", 104857601, ERR_FORMAT, "header of 104857601 bytes"},
    {"{}", 1, ERR_FORMAT, "line 1"},
    {"[]", -1, ERR_FORMAT, "is no object"},
    {"7", -1, ERR_FORMAT, "line 1"},
    {"{\"a\":1}", -1, ERR_FORMAT, "\"a\": entry is no object"},
    {"{\"a\":{}}", -1, ERR_FORMAT, "\"dtype\""},
    {"{\"a\":{\"dtype\":7,\"shape\":[4],\"data_offsets\":[0,16]}}", -1, ERR_FORMAT, "dtype"},
    {"{\"a\":{\"dtype\":\"F33\",\"shape\":[4],\"data_offsets\":[0,16]}}", -1, ERR_UNSUPPORTED,
     "dtype \"F33\""},
    {"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,16]}}", -1, ERR_FORMAT, "shape is no list"},
    {"{\"b\":{\"dtype\":\"F32\",\"shape\":[1,1,1,2,2],\"data_offsets\":[0,16]}}", -1, ERR_FORMAT,
     "\"b\": shape is no list of at most 4"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-4],\"data_offsets\":[0,16]}}", -1, ERR_FORMAT,
     "dimension 0"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1,4.5],\"data_offsets\":[0,16]}}", -1, ERR_FORMAT,
     "dimension 1"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,16]}}", -1,
     ERR_FORMAT, "[4294967296, 4294967296]"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387905],\"data_offsets\":[0,4]}}", -1,
     ERR_FORMAT, "[4611686018427387905]"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[9223372036854775808],\"data_offsets\":[0,4]}}", -1,
     ERR_FORMAT, "line 1"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4]}}", -1, ERR_FORMAT, "data_offsets is no pair"},
    {"{\"b\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0]}}", -1, ERR_FORMAT,
     "\"b\": data_offsets is no pair"},
    {"{\"c\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[-16,0]}}", -1, ERR_FORMAT,
     "\"c\": data_offsets is no pair"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[16,0]}}", -1, ERR_FORMAT,
     "bytes 16..0"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[5],\"data_offsets\":[0,20]}}", -1, ERR_EOF,
     "bytes 0..20, but the file holds 0..16"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,9223372036854775807]}}", -1,
     ERR_EOF, "9223372036854775807"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,16]}}", -1, ERR_FORMAT,
     "16 bytes, but F32 [3] needs 12"},
    {"{\"a\":{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,2]}}", -1, ERR_FORMAT, "F4 [3]"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
     "\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[4,12]}}",
     -1, ERR_FORMAT, "\"b\" begins at byte 4, want 8 (overlap)"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
     "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[12,16]}}",
     -1, ERR_FORMAT, "\"b\" begins at byte 12, want 8 (hole)"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[4,16]}}", -1, ERR_FORMAT,
     "\"a\" begins at byte 4, want 0 (hole)"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", -1, ERR_FORMAT,
     "8 bytes behind the last tensor"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
     "\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,16]}}",
     -1, ERR_FORMAT, "line 1"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]}", -1, ERR_FORMAT, "line 1"},
    {"{\"\\u0000\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]}}", -1, ERR_FORMAT,
     "line 1"},
    {"{\"\xff\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]}}", -1, ERR_FORMAT,
     "line 1"},
};

static void test_broken_safetensors_headers(void **state) {
    (void)state;
    for (int32_t i = 0; i < ARRAY_LEN(headers); i++) {
        struct buf b;
        char form[40];
        fresh();
        buf_init(&b, MEM_TEST, 10000);
        int64_t n = (int64_t)strlen(headers[i].head);
        container_u64(&b, (uint64_t)(headers[i].length == -1 ? n : headers[i].length));
        assert_ok(buf_add(&b, headers[i].head, n));
        assert_ok(buf_add(&b, "0123456789abcdef", 16));
        put("model.safetensors", b.data, b.len);
        buf_fini(&b);
        snprintf(form, sizeof form, "safetensors header %d", i);
        refuse(form, dir, headers[i].code, headers[i].part);
    }
    put("model.safetensors", "1234567", 7);
    refuse("seven bytes", dir, ERR_EOF, "7 bytes, a safetensors file has at least 8");
    put("model.safetensors", "", 0);
    refuse("no bytes", dir, ERR_EOF, "0 bytes");
    drop("model.safetensors");
    refuse("no file", dir, ERR_NOTFOUND, "model.safetensors: cannot open");
}

/* One value of config.json, written as it stands, behind the others so that it counts. */
static const struct {
    const char *key;
    const char *value;
    int code;
    const char *part;
} values[] = {
    {"hidden_size", "NaN", ERR_FORMAT, "line 1"},
    {"hidden_size", "Infinity", ERR_FORMAT, "line 1"},
    {"hidden_size", "0", ERR_RANGE, "hidden_size"},
    {"hidden_size", "-32", ERR_RANGE, "hidden_size"},
    {"hidden_size", "32.5", ERR_FORMAT, "hidden_size"},
    {"hidden_size", "\"32\"", ERR_FORMAT, "hidden_size"},
    {"hidden_size", "9223372036854775807", ERR_RANGE, "hidden_size"},
    {"hidden_size", "64", ERR_FORMAT, "model.embed_tokens.weight"},
    {"intermediate_size", "0", ERR_RANGE, "intermediate_size"},
    {"intermediate_size", "63", ERR_FORMAT, "mlp.gate_proj"},
    {"num_hidden_layers", "0", ERR_RANGE, "num_hidden_layers"},
    {"num_hidden_layers", "3", ERR_NOTFOUND, "model.layers.2"},
    {"num_hidden_layers", "1000000", ERR_RANGE, "num_hidden_layers"},
    {"num_attention_heads", "0", ERR_RANGE, "num_attention_heads"},
    {"num_attention_heads", "null", ERR_FORMAT, "num_attention_heads"},
    {"num_key_value_heads", "0", ERR_RANGE, "num_key_value_heads"},
    {"num_key_value_heads", "3", ERR_FORMAT, "no multiple of 3 kv heads"},
    {"head_dim", "7", ERR_FORMAT, "head_dim 7 is odd"},
    {"head_dim", "-1", ERR_RANGE, "head_dim"},
    {"head_dim", "8", ERR_FORMAT, "self_attn.q_proj"},
    {"vocab_size", "0", ERR_RANGE, "vocab_size"},
    {"vocab_size", "41", ERR_FORMAT, "want [41, 32]"},
    {"vocab_size", "4294967296", ERR_RANGE, "vocab_size"},
    {"max_position_embeddings", "0", ERR_RANGE, "max_position_embeddings"},
    {"max_position_embeddings", "[]", ERR_FORMAT, "max_position_embeddings"},
    {"rms_norm_eps", "0", ERR_RANGE, "rms_norm_eps 0"},
    {"rms_norm_eps", "-1e-5", ERR_RANGE, "rms_norm_eps -1e-05"},
    {"rms_norm_eps", "1e999", ERR_FORMAT, "line 1"},
    {"rms_norm_eps", "1e300", ERR_RANGE, "rms_norm_eps"},
    {"rope_theta", "1", ERR_RANGE, "rope theta 1"},
    {"rope_theta", "\"10000\"", ERR_FORMAT, "rope_theta"},
    {"rope_scaling", "{\"rope_type\":\"dynamic\",\"factor\":2.0}", ERR_UNSUPPORTED,
     "rope type \"dynamic\""},
    {"rope_scaling", "{\"rope_type\":\"longrope\"}", ERR_UNSUPPORTED, "rope type \"longrope\""},
    {"rope_scaling", "{\"rope_type\":\"linear\",\"factor\":0}", ERR_RANGE, "factor 0"},
    {"rope_scaling", "{\"rope_type\":\"linear\",\"factor\":-2}", ERR_RANGE, "factor -2"},
    {"rope_scaling", "{\"rope_type\":\"yarn\",\"factor\":2}", ERR_FORMAT,
     "original_max_position_embeddings"},
    {"rope_scaling",
     "{\"rope_type\":\"llama3\",\"factor\":2,\"original_max_position_embeddings\":64,"
     "\"low_freq_factor\":4,\"high_freq_factor\":1}",
     ERR_RANGE, "low_freq_factor 4"},
    {"rope_scaling", "{\"rope_type\":\"linear\",\"factor\":2,\"mscale\":1}", ERR_UNSUPPORTED,
     "rope parameter \"mscale\""},
    {"rope_scaling", "{\"rope_type\":\"default\",\"partial_rotary_factor\":0.5}", ERR_UNSUPPORTED,
     "partial_rotary_factor 0.5"},
    {"rope_parameters", "{\"rope_type\":3}", ERR_FORMAT, "rope_type"},
    {"hidden_act", "\"relu\"", ERR_UNSUPPORTED, "hidden_act \"relu\""},
    {"hidden_act", "7", ERR_FORMAT, "hidden_act"},
    {"attention_bias", "true", ERR_NOTFOUND, "q_proj.bias"},
    {"attention_bias", "1", ERR_FORMAT, "attention_bias"},
    {"mlp_bias", "true", ERR_NOTFOUND, "gate_proj.bias"},
    {"tie_word_embeddings", "\"yes\"", ERR_FORMAT, "tie_word_embeddings"},
    {"eos_token_id", "[2,-3]", ERR_FORMAT, "eos_token_id[1]"},
    {"eos_token_id", "[\"a\"]", ERR_FORMAT, "eos_token_id[0]"},
    {"eos_token_id", "-7", ERR_RANGE, "eos_token_id"},
    {"eos_token_id", "[1,2,3,4,5,6,7,8,9]", ERR_LIMIT, "more than 8 end-of-sequence ids"},
    {"bos_token_id", "\"<s>\"", ERR_FORMAT, "bos_token_id"},
    {"model_type", "\"mamba\"", ERR_UNSUPPORTED, "\"mamba\""},
    {"model_type", "5", ERR_FORMAT, "model_type"},
    {"quantization_config", "{\"quant_method\":\"bitsandbytes\"}", ERR_UNSUPPORTED,
     "\"bitsandbytes\""},
    {"quantization_config", "{}", ERR_FORMAT, "quant_method"},
};

static void test_broken_config_values(void **state) {
    (void)state;
    for (int32_t i = 0; i < ARRAY_LEN(values); i++) {
        struct buf b;
        char form[100];
        char quoted[64];
        fresh();
        buf_init(&b, MEM_TEST, 10000);
        toy_model_config(&b, 2, "");
        snprintf(quoted, sizeof quoted, "\"%s\":", values[i].key);
        const char *old = strstr(buf_cstr(&b), quoted);
        struct buf out;
        buf_init(&out, MEM_TEST, 10000);
        if (old) { /* replaced: a key that is there twice is an error of its own */
            const char *end = old + strcspn(old, ",}");
            assert_ok(buf_add(&out, b.data, old - buf_cstr(&b)));
            assert_ok(buf_fmt(&out, "%s%s%s", quoted, values[i].value, end));
        } else {
            assert_ok(buf_add(&out, b.data, b.len - 1));
            assert_ok(buf_fmt(&out, ",%s%s}", quoted, values[i].value));
        }
        put("config.json", out.data, out.len);
        buf_fini(&out);
        buf_fini(&b);
        snprintf(form, sizeof form, "%s %s", values[i].key, values[i].value);
        refuse(form, dir, values[i].code, values[i].part);
    }
}

static void test_broken_config_files(void **state) {
    (void)state;
    static const struct {
        const char *file;
        const char *text;
        int code;
        const char *part;
    } forms[] = {
        {"config.json", "", ERR_FORMAT, "config.json"},
        {"config.json", "[]", ERR_FORMAT, "config.json: no object"},
        {"config.json", "{\"model_type\":\"llama\",\"model_type\":\"llama\"}", ERR_FORMAT,
         "duplicate"},
        {"config.json", "{\"model_type\":\"llama\"", ERR_FORMAT, "line 1"},
        {"config.json", "{\"model_type\":\"llama\"}", ERR_FORMAT, "num_hidden_layers"},
        {"config.json", "{}", ERR_FORMAT, "model_type"},
        {"config.json",
         "version https://git-lfs.github.com/spec/v1\noid sha256:"
         "0000000000000000000000000000000000000000000000000000000000000000\nsize 12\n",
         ERR_FORMAT, "config.json: a Git LFS pointer"},
        {"model.safetensors",
         "version https://git-lfs.github.com/spec/v1\noid sha256:"
         "0000000000000000000000000000000000000000000000000000000000000000\nsize 4096\n",
         ERR_FORMAT, "model.safetensors: a Git LFS pointer"},
        {"tokenizer.json",
         "version https://git-lfs.github.com/spec/v1\noid sha256:"
         "0000000000000000000000000000000000000000000000000000000000000000\nsize 99\n",
         ERR_NOTFOUND, "tokenizer.json: a Git LFS pointer"},
        {"generation_config.json", "{\"eos_token_id\":\"x\"}", ERR_FORMAT,
         "generation_config.json"},
        {"generation_config.json", "{", ERR_FORMAT, "generation_config.json: line 1"},
        {"tokenizer.json", "{}", ERR_NOTFOUND, "tokenizer.json"},
        {"tokenizer.json", "[", ERR_NOTFOUND, "tokenizer.json: line 1"},
        {"tokenizer.json", "{\"model\":{\"type\":\"WordPiece\",\"vocab\":{}}}", ERR_NOTFOUND,
         "WordPiece"},
    };
    for (int32_t i = 0; i < ARRAY_LEN(forms); i++) {
        char form[100];
        fresh();
        put_text(forms[i].file, forms[i].text);
        snprintf(form, sizeof form, "%s form %d", forms[i].file, i);
        refuse(form, dir, forms[i].code, forms[i].part);
    }
    fresh();
    refuse("no tokenizer", dir, ERR_NOTFOUND, "no tokenizer");
    struct buf b;
    buf_init(&b, MEM_TEST, 1 << 20);
    toy_json(&b);
    put("tokenizer.json", b.data, b.len);
    buf_fini(&b);
    refuse("tokenizer larger than the table", dir, ERR_NOTFOUND,
           "262 tokens, the model's table has 40");
}

/* Tensors of the toy: each left out, and each in another shape or type. */
static void test_broken_tensors(void **state) {
    (void)state;
    for (int32_t i = 0; i < toy.n; i++) {
        struct toy_tensor *t = &toy.t[i];
        bool last = i >= 12; /* the second layer says what the first says, with its number */
        if (last && i < toy.n - 2 && i % 3 != 0) {
            continue;
        }
        t->absent = true;
        fresh();
        refuse(t->name, dir, ERR_NOTFOUND, t->name);
        t->absent = false;
        t->dim[0]--;
        t->bytes -= t->n_dim == 2 ? t->dim[1] * 4 : 4;
        fresh();
        refuse(t->name, dir, ERR_FORMAT, t->name);
        t->dim[0]++;
        t->bytes += t->n_dim == 2 ? t->dim[1] * 4 : 4;
        float keep;
        float nan = (float)NAN;
        memcpy(&keep, t->data, 4);
        memcpy(t->data, &nan, 4);
        fresh();
        refuse(t->name, dir, ERR_NUMERIC, "NaN or infinity at element 0");
        memcpy(t->data, &keep, 4);
    }
    struct toy_tensor *head = toy_model_at(&toy, "lm_head.weight");
    head->type = DTYPE_I32;
    fresh();
    refuse("integer head", dir, ERR_UNSUPPORTED, "I32");
    head->type = DTYPE_F32;
    struct toy_tensor *norm = toy_model_at(&toy, "model.norm.weight");
    norm->type = DTYPE_I32;
    fresh();
    refuse("integer norm", dir, ERR_FORMAT, "I32");
    norm->type = DTYPE_F32;
}

/* An index over two shards. */
static void test_broken_indexes(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int code;
        const char *part;
    } forms[] = {
        {"", ERR_FORMAT, "index.json"},
        {"[]", ERR_FORMAT, "index.json"},
        {"{\"weight_map\":{\"x\":3}}", ERR_FORMAT, "\"x\": shard \"?\""},
        {"{\"weight_map\":{\"x\":\"../a.safetensors\"}}", ERR_FORMAT, "\"../a.safetensors\""},
        {"{\"weight_map\":{\"x\":\"/a.safetensors\"}}", ERR_FORMAT, "\"/a.safetensors\""},
        {"{\"weight_map\":{\"x\":\".\"}}", ERR_FORMAT, "shard \".\""},
        {"{\"weight_map\":{\"x\":\"c.safetensors\"}}", ERR_NOTFOUND, "c.safetensors"},
        {"{\"weight_map\":{\"y\":\"a.safetensors\"}}", ERR_FORMAT, "\"y\" is in no shard"},
        {"{\"weight_map\":{\"x\":\"a.safetensors\",\"z\":\"b.safetensors\"}}", ERR_FORMAT,
         "two tensors are named \"x\""},
        {"{\"weight_map\":{\"x\":\"a.safetensors\",\"z\":\"config.json\"}}", ERR_FORMAT,
         "config.json"},
    };
    for (int32_t i = 0; i < ARRAY_LEN(forms); i++) {
        char form[40];
        struct buf b;
        fresh();
        buf_init(&b, MEM_TEST, 1000);
        container_st(&b, "{\"x\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}", "data",
                     4);
        put("a.safetensors", b.data, b.len);
        put("b.safetensors", b.data, b.len);
        buf_fini(&b);
        put_text("model.safetensors.index.json", forms[i].text);
        snprintf(form, sizeof form, "index %d", i);
        refuse(form, dir, forms[i].code, forms[i].part);
    }
}

/* The toy's GGUF file, cut short and with bytes changed. */
static void test_broken_gguf_bytes(void **state) {
    (void)state;
    static const struct {
        int64_t at; /* byte */
        int32_t n;
        uint8_t bytes[8];
        int code;
        const char *part;
    } forms[] = {
        {0, 4, "FUGG", ERR_FORMAT, "46 55 47 47"},
        {0, 4, "ggml", ERR_FORMAT, "67 67 6d 6c"},
        {4, 4, {1, 0, 0, 0}, ERR_UNSUPPORTED, "GGUF version 1"},
        {4, 4, {4, 0, 0, 0}, ERR_UNSUPPORTED, "GGUF version 4"},
        {4, 4, {0, 0, 0, 3}, ERR_UNSUPPORTED, "big-endian"},
        {8, 8, {255, 255, 255, 255, 255, 255, 255, 255}, ERR_LIMIT, "18446744073709551615 tensors"},
        {8, 8, {0, 0, 16, 0, 0, 0, 0, 0}, ERR_EOF, "the directory"},
        {8, 8, {0}, ERR_FORMAT, "\"llama.vocab_size\" is missing"},
        {16,
         8,
         {255, 255, 255, 255, 255, 255, 255, 127},
         ERR_LIMIT,
         "9223372036854775807 metadata"},
        {16, 8, {0}, ERR_FORMAT, "has 8 dimensions"},
        {24, 8, {255, 255, 255, 255, 255, 255, 255, 255}, ERR_EOF, "a metadata key"},
        {24, 8, {0, 0, 1, 0, 0, 0, 0, 0}, ERR_LIMIT, "a metadata key of 65536 bytes"},
        {52, 4, {13, 0, 0, 0}, ERR_FORMAT, "value type 13"},
        {52, 4, {9, 0, 0, 0}, ERR_LIMIT, "array of"},
        {56, 8, {255, 255, 255, 255, 255, 255, 255, 255}, ERR_EOF, "a metadata value"},
        {64, 5, "mamba", ERR_UNSUPPORTED, "\"mamba\""},
        {64, 5, "LLAMA", ERR_UNSUPPORTED, "\"LLAMA\""},
    };
    struct buf b;
    fresh();
    toy_model_write_gguf(&toy, in_dir("m.gguf"));
    buf_init(&b, MEM_TEST, 1 << 20);
    assert_ok(file_read(in_dir("m.gguf"), &b));
    assert_memory_equal(b.data + 64, "llama", 5); /* the offsets of the table hold */
    for (int32_t i = 0; i < ARRAY_LEN(forms); i++) {
        char form[40];
        uint8_t keep[8];
        memcpy(keep, b.data + forms[i].at, sizeof keep);
        memcpy(b.data + forms[i].at, forms[i].bytes, (size_t)forms[i].n);
        put("m.gguf", b.data, b.len);
        memcpy(b.data + forms[i].at, keep, sizeof keep);
        snprintf(form, sizeof form, "gguf bytes %d", i);
        refuse(form, in_dir("m.gguf"), forms[i].code, forms[i].part);
    }
    static const int64_t cuts[] = {0, 3, 6, 12, 20, 23, 26, 40, 54, 60, 66, 100, 500, 1000};
    for (int32_t i = 0; i < ARRAY_LEN(cuts); i++) {
        char form[40];
        put("m.gguf", b.data, cuts[i]);
        snprintf(form, sizeof form, "gguf cut at %lld", (long long)cuts[i]);
        refuse(form, in_dir("m.gguf"), ERR_EOF, "");
    }
    put("m.gguf", b.data, b.len - 64);
    refuse("gguf without its last bytes", in_dir("m.gguf"), ERR_EOF, "truncated download?");
    put_text("m.gguf", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n");
    refuse("gguf pointer", in_dir("m.gguf"), ERR_FORMAT, "m.gguf: a Git LFS pointer");
    buf_fini(&b);
    refuse("no such path", in_dir("none.gguf"), ERR_NOTFOUND, "none.gguf: no such file");
}

static void test_broken_folders(void **state) {
    (void)state;
    fresh();
    drop("config.json");
    drop("model.safetensors");
    refuse("empty folder", dir, ERR_NOTFOUND, "no config.json, and 0 .gguf files");
    put_text("a.gguf", "x");
    put_text("b.gguf", "x");
    refuse("two gguf", dir, ERR_FORMAT, "2 .gguf files");
    drop("a.gguf");
    drop("b.gguf");
}

static void test_broken_forms_are_enough(void **state) {
    (void)state;
    print_message("%d forms\n", n_said);
    assert_true(n_said >= FORMS_LEAST);
}

static int setup(void **state) {
    (void)state;
    test_tmpdir(dir);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    test_rmdir(dir);
    return 0;
}

static int each(void **state) {
    test_setup(state);
    toy_model_init(&toy, 2, DTYPE_F32);
    return 0;
}

static int after(void **state) {
    toy_model_fini(&toy);
    return test_teardown(state);
}

#define BROKEN_TEST(f) cmocka_unit_test_setup_teardown(f, each, after)

int main(void) {
    const struct CMUnitTest tests[] = {BROKEN_TEST(test_broken_safetensors_headers),
                                       BROKEN_TEST(test_broken_config_values),
                                       BROKEN_TEST(test_broken_config_files),
                                       BROKEN_TEST(test_broken_tensors),
                                       BROKEN_TEST(test_broken_indexes),
                                       BROKEN_TEST(test_broken_gguf_bytes),
                                       BROKEN_TEST(test_broken_folders),
                                       BROKEN_TEST(test_broken_forms_are_enough)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
