#include "tests/support/tiny.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/rng.h"
#include "tests/support/toy_tok.h"

enum { FILE_MAX = 1 << 26 };

static void write_buf(const char *dir, const char *name, struct buf *b) {
    char path[FILE_PATH_MAX];
    assert_ok(file_join(path, dir, name));
    assert_ok(file_write(path, buf_cstr(b), b->len));
    buf_fini(b);
}

void tiny_file(const char *dir, const char *name, const char *text) {
    struct buf b;
    buf_init(&b, MEM_TEST, FILE_MAX);
    assert_ok(buf_str(&b, text));
    write_buf(dir, name, &b);
}

void tiny_copy(
    const char *from, const char *to, int64_t at, const void *bytes, int64_t n, int64_t size) {
    struct buf b;
    buf_init(&b, MEM_TEST, FILE_MAX);
    assert_ok(file_read(from, &b));
    if (n > 0) {
        assert_true(at >= 0 && at + n <= b.len);
        memcpy(b.data + at, bytes, (size_t)n);
    }
    assert_ok(file_write(to, b.data, size < 0 ? b.len : i64_min(size, b.len)));
    buf_fini(&b);
}

static void copy_config(const char *model, int32_t ctx) {
    static const char key[] = "\"max_position_embeddings\": 512";
    struct buf from;
    struct buf to;
    buf_init(&from, MEM_TEST, FILE_MAX);
    buf_init(&to, MEM_TEST, FILE_MAX);
    assert_ok(file_read(test_golden("models/llama/config.json"), &from));
    const char *at = strstr(buf_cstr(&from), key);
    assert_non_null(at);
    assert_ok(buf_add(&to, from.data, at - from.data));
    assert_ok(buf_fmt(&to, "\"max_position_embeddings\": %d", ctx));
    assert_ok(buf_str(&to, at + strlen(key)));
    write_buf(model, "config.json", &to);
    buf_fini(&from);
}

void tiny_model(const char *dir, const char *name, int32_t ctx) {
    char model[FILE_PATH_MAX];
    char path[FILE_PATH_MAX];
    struct buf b;
    assert_ok(file_join(model, dir, name));
    assert_ok(file_mkdirs(model));
    assert_ok(file_join(path, model, "model.safetensors"));
    tiny_copy(test_golden("models/llama/model.safetensors"), path, 0, NULL, 0, -1);
    assert_ok(file_join(path, model, "generation_config.json"));
    tiny_copy(test_golden("models/llama/generation_config.json"), path, 0, NULL, 0, -1);
    copy_config(model, ctx);
    buf_init(&b, MEM_TEST, FILE_MAX);
    toy_json(&b);
    write_buf(model, "tokenizer.json", &b);
    tiny_file(model, "tokenizer_config.json",
              "{\"eos_token\": \"<|end|>\", \"chat_template\": \"{% for m in messages %}"
              "{{ m['role'] }}: {{ m['content'] }}\\n{% endfor %}assistant:\"}");
}

void tiny_text(const char *dir, const char *name, int32_t n_lines) {
    static const char *const words[] = {"the",  "quick", "brown", "fox",  "jumps", "over",
                                        "a",    "lazy",  "dog",   "sea",  "sings", "hello",
                                        "cold", "wind",  "ship",  "stone"};
    struct rng r;
    struct buf b;
    rng_init(&r, 1, 1);
    buf_init(&b, MEM_TEST, FILE_MAX);
    for (int32_t i = 0; i < n_lines; i++) {
        for (int32_t k = 0; k < 14; k++) {
            assert_ok(buf_fmt(&b, "%s%s", k ? " " : "", words[rng_below(&r, ARRAY_LEN(words))]));
        }
        assert_ok(buf_str(&b, ".\n"));
    }
    write_buf(dir, name, &b);
}

void tiny_ids(const char *dir, const char *name, int32_t n, int32_t vocab) {
    struct buf b;
    buf_init(&b, MEM_TEST, FILE_MAX);
    for (int32_t i = 0; i < n; i++) {
        assert_ok(buf_fmt(&b, "%s%d", i ? "," : "[", i * 7 % vocab));
    }
    assert_ok(buf_str(&b, "]"));
    write_buf(dir, name, &b);
}
