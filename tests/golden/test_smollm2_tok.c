/* Tokenizers that live in GGUF files: SmolLM2 against Hugging Face's tokenizers, and llama.cpp's
 * vocabulary files with its own test vectors. */
#include "tests/support/support.h"

#include <string.h>

#include "engine/base/json.h"
#include "engine/run/toksource.h"

enum { LINES_MAX = 1 << 24 };

static struct tok *from_gguf(const char *path) {
    struct tok *t = NULL;
    assert_ok(toksource_open(path, &t));
    return t;
}

static bool equal(const int32_t *v, int32_t n, const json_t *want) {
    bool same = (size_t)n == json_array_size(want);
    for (int32_t i = 0; i < n && same; i++) {
        same = v[i] == json_integer_value(json_array_get(want, (size_t)i));
    }
    return same;
}

static bool
decodes_to(const struct tok *t, const struct tok_ids *ids, bool skip_special, const json_t *want) {
    struct buf b;
    buf_init(&b, MEM_TEST, LINES_MAX);
    assert_ok(tok_decode(t, ids->v, ids->n, skip_special, &b));
    bool same = (size_t)b.len == json_string_length(want) &&
                memcmp(buf_cstr(&b), json_string_value(want), (size_t)b.len) == 0;
    buf_fini(&b);
    return same;
}

static void check_row(const struct tok *t, const json_t *row, int32_t line) {
    const json_t *text = json_object_get(row, "text");
    const char *p = json_string_value(text);
    int64_t n = (int64_t)json_string_length(text);
    struct tok_ids ids;
    tok_ids_init(&ids);
    assert_ok(tok_encode(t, p, n, TOK_PARSE_SPECIAL, &ids));
    if (!equal(ids.v, ids.n, json_object_get(row, "ids")) ||
        !decodes_to(t, &ids, false, json_object_get(row, "decoded")) ||
        !decodes_to(t, &ids, true, json_object_get(row, "decoded_skip_special"))) {
        fail_msg("line %d: \"%.60s\" differs", line, p);
    }
    ids.n = 0;
    assert_ok(tok_encode(t, p, n, TOK_PARSE_SPECIAL | TOK_ADD_SPECIAL, &ids));
    if (!equal(ids.v, ids.n, json_object_get(row, "ids_add_special"))) {
        fail_msg("line %d: \"%.60s\" differs with special tokens added", line, p);
    }
    tok_ids_fini(&ids);
}

static void test_smollm2_rows(void **state) {
    (void)state;
    const char *path = test_smollm2();
    struct buf b;
    int32_t n = 0;
    if (!path) {
        print_message("SmolLM2 is not on this machine (TRILEMMA_SMOLLM2)\n");
        skip();
    }
    struct tok *t = from_gguf(path);
    buf_init(&b, MEM_TEST, LINES_MAX);
    assert_ok(file_read(test_golden("smollm2/tokenizers/smollm2.jsonl"), &b));
    for (char *p = b.data; *p;) {
        char *nl = strchr(p, '\n');
        int64_t len = nl ? nl - p : (int64_t)strlen(p);
        json_t *row = NULL;
        assert_ok(json_parse("smollm2.jsonl", p, len, &row));
        check_row(t, row, ++n);
        json_decref(row);
        p += len + (nl ? 1 : 0);
    }
    assert_int_equal(n, 163);
    buf_fini(&b);
    tok_destroy(t);
}

/* The count and hash of the whole of WikiText-2: every one of 303,415 ids is right. */
static void test_smollm2_wikitext(void **state) {
    (void)state;
    const char *path = test_smollm2();
    const char *wiki = test_shared("wikitext2/wiki.test.raw");
    struct buf b;
    struct tok_ids ids;
    json_t *info = NULL;
    char hex[FILE_SHA256_HEX];
    if (!path || !wiki) {
        print_message("SmolLM2 or WikiText-2 is not on this machine\n");
        skip();
    }
    struct tok *t = from_gguf(path);
    buf_init(&b, MEM_TEST, LINES_MAX);
    tok_ids_init(&ids);
    assert_ok(file_read(wiki, &b));
    assert_ok(tok_encode(t, b.data, b.len, 0, &ids));
    assert_int_equal(ids.n, 303415);
    assert_ok(mem_sha256(ids.v, (int64_t)ids.n * (int64_t)sizeof *ids.v, hex));
    assert_ok(json_read(test_golden("smollm2/tokenizers/smollm2_info.json"), &info));
    char *dump = json_dumps(info, 0);
    assert_non_null(strstr(dump, hex));
    free(dump); /* why: memory of jansson, not of mem_* */
    json_decref(info);
    tok_ids_fini(&ids);
    buf_fini(&b);
    tok_destroy(t);
}

/* One vocabulary of llama.cpp: texts in NAME.inp (each ended by a marker line), ids in NAME.out. */
static void check_vocab(const char *name) {
    static const char mark[] = "\n__ggml_vocab_test__\n";
    char rel[128];
    snprintf(rel, sizeof rel, "gguf-vocab/%s", name);
    const char *path = test_shared(rel);
    struct buf in;
    struct buf want;
    char file[FILE_PATH_MAX];
    int32_t n = 0;
    if (!path) {
        print_message("%s is not on this machine (TRILEMMA_SHARED)\n", name);
        skip();
    }
    struct tok *t = from_gguf(path);
    buf_init(&in, MEM_TEST, LINES_MAX);
    buf_init(&want, MEM_TEST, LINES_MAX);
    snprintf(file, sizeof file, "%s.inp", path);
    assert_ok(file_read(file, &in));
    snprintf(file, sizeof file, "%s.out", path);
    assert_ok(file_read(file, &want));
    const char *w = want.data;
    for (const char *p = in.data; p < in.data + in.len; n++) {
        const char *end = strstr(p, mark);
        struct tok_ids ids;
        char *next = NULL;
        bool same = true;
        assert_non_null(end);
        tok_ids_init(&ids);
        assert_ok(tok_encode(t, p, end - p, 0, &ids));
        for (int32_t i = 0; i < ids.n; i++) {
            same = same && strtol(w, &next, 10) == ids.v[i];
            w = next ? next : w;
        }
        same = same && strspn(w, " ") == strcspn(w, "\n");
        if (!same) {
            fail_msg("%s: text %d, \"%.*s\", differs", name, n, (int)(end - p), p);
        }
        w = strchr(w, '\n') + 1;
        p = end + sizeof mark - 1;
        tok_ids_fini(&ids);
    }
    assert_int_equal(n, 46);
    buf_fini(&in);
    buf_fini(&want);
    tok_destroy(t);
}

static void test_vocab_gpt2(void **state) {
    (void)state;
    check_vocab("ggml-vocab-gpt-2.gguf");
}

static void test_vocab_starcoder(void **state) {
    (void)state;
    check_vocab("ggml-vocab-starcoder.gguf");
}

static void test_vocab_deepseek_coder(void **state) {
    (void)state;
    check_vocab("ggml-vocab-deepseek-coder.gguf");
}

static void test_vocab_llama_spm(void **state) {
    (void)state;
    check_vocab("ggml-vocab-llama-spm.gguf");
}

static void test_vocab_phi3(void **state) {
    (void)state;
    check_vocab("ggml-vocab-phi-3.gguf");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_smollm2_rows),         TEST(test_smollm2_wikitext), TEST(test_vocab_gpt2),
        TEST(test_vocab_starcoder),      TEST(test_vocab_llama_spm),  TEST(test_vocab_phi3),
        TEST(test_vocab_deepseek_coder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
