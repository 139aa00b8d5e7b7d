/* Ids and decoded texts of real tokenizers, equal to those of Hugging Face's tokenizers.
 * Vectors: tests/golden/data/tokenizers, made by the script named in tests/golden/README.md. */
#include "tests/support/support.h"

#include <string.h>

#include "engine/base/json.h"
#include "engine/text/detok.h"
#include "engine/text/tok.h"

/* Compares one row; prints the first difference. out: true when equal */
static bool row_equal(const struct tok *t, const json_t *row, int32_t line) {
    const json_t *text = json_object_get(row, "text");
    const json_t *want = json_object_get(row, "ids");
    const json_t *decoded = json_object_get(row, "decoded");
    struct tok_ids ids;
    struct buf b;
    tok_ids_init(&ids);
    buf_init(&b, MEM_TEST, 1 << 20);
    assert_ok(tok_encode(t, json_string_value(text), (int64_t)json_string_length(text),
                         TOK_PARSE_SPECIAL, &ids));
    bool same = (size_t)ids.n == json_array_size(want);
    for (int32_t i = 0; i < ids.n && same; i++) {
        same = ids.v[i] == json_integer_value(json_array_get(want, (size_t)i));
    }
    if (!same) {
        print_error("line %d: ids of \"%.60s\" differ\n", line, json_string_value(text));
    }
    assert_ok(tok_decode(t, ids.v, ids.n, false, &b));
    bool text_same = (size_t)b.len == json_string_length(decoded) &&
                     memcmp(buf_cstr(&b), json_string_value(decoded), (size_t)b.len) == 0;
    if (!text_same) {
        print_error("line %d: decoded \"%.60s\", want \"%.60s\"\n", line, buf_cstr(&b),
                    json_string_value(decoded));
    }
    tok_ids_fini(&ids);
    buf_fini(&b);
    return same && text_same;
}

static void check_rows(const struct tok *t, const char *golden, int32_t want_rows) {
    struct buf b;
    int32_t n = 0;
    int32_t bad = 0;
    buf_init(&b, MEM_TEST, 1 << 24);
    assert_ok(file_read(test_golden(golden), &b));
    for (char *p = b.data; *p;) {
        char *nl = strchr(p, '\n');
        json_t *row = NULL;
        int64_t len = nl ? nl - p : (int64_t)strlen(p);
        assert_ok(json_parse(golden, p, len, &row));
        bad += !row_equal(t, row, ++n);
        json_decref(row);
        p += len + (nl ? 1 : 0);
    }
    buf_fini(&b);
    assert_int_equal(bad, 0);
    assert_int_equal(n, want_rows);
}

static void check_path(const char *path, const char *golden) {
    if (!path) {
        print_message("the tokenizer files are not on this machine (TRILEMMA_SHARED)\n");
        skip();
    }
    struct tok *t = NULL;
    assert_ok(tok_open(path, &t));
    check_rows(t, golden, 129);
    tok_close(t);
}

static void test_tokenizers_qwen3_json(void **state) {
    (void)state;
    check_path(test_shared("../golden/tokenizers/qwen3_hf"), "tokenizers/qwen3.jsonl");
}

/* vocab.json + merges.txt + tokenizer_config.json, as older checkpoints have them */
static void test_tokenizers_qwen3_vocab(void **state) {
    (void)state;
    const char *dir = test_shared("tokenizer-qwen");
    static const char *const names[] = {"vocab.json", "merges.txt"};
    char tmp[FILE_PATH_MAX];
    char path[FILE_PATH_MAX];
    struct buf b;
    if (!dir) {
        print_message("tokenizer-qwen is not on this machine (TRILEMMA_SHARED)\n");
        skip();
    }
    test_tmpdir(tmp);
    for (int32_t i = 0; i < 3; i++) {
        buf_init(&b, MEM_TEST, 1 << 24);
        assert_ok(file_join(path, dir, i < 2 ? names[i] : "qwen3_tokenizer_config.json"));
        assert_ok(file_read(path, &b));
        assert_ok(file_join(path, tmp, i < 2 ? names[i] : "tokenizer_config.json"));
        assert_ok(file_write(path, b.data, b.len));
        buf_fini(&b);
    }
    check_path(tmp, "tokenizers/qwen3.jsonl");
    test_rmdir(tmp);
}

static void test_tokenizers_gpt2(void **state) {
    (void)state;
    check_path(test_shared("tokenizer-gpt2"), "tokenizers/gpt2.jsonl");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_tokenizers_qwen3_json),
        TEST(test_tokenizers_qwen3_vocab),
        TEST(test_tokenizers_gpt2),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
