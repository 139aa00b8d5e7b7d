/* Every allocation and read of the tokenizer and the template engine fails once, and for ever. */
#include "tests/support/support.h"

#include <stdio.h>
#include <string.h>

#include "engine/text/chat.h"
#include "engine/text/tok.h"
#include "tests/support/toy_tok.h"

static const int codes[] = {ERR_NOMEM, ERR_IO, 0};

static int round_trip(const struct tok *t) {
    static const char text[] = "hello he\xcc\x81llo <|end|> \xff";
    struct tok_ids ids;
    struct buf b;
    tok_ids_init(&ids);
    buf_init(&b, MEM_TEST, 1 << 12);
    int rc = tok_encode(t, text, (int64_t)sizeof text - 1, TOK_PARSE_SPECIAL, &ids);
    rc = rc ? rc : tok_decode(t, ids.v, ids.n, false, &b);
    tok_ids_fini(&ids);
    buf_fini(&b);
    return rc;
}

static int parse_and_encode(void *ctx) {
    const struct buf *json = ctx;
    struct tok *t = NULL;
    int rc = tok_parse("toy", json->data, json->len, &t);
    rc = rc ? rc : round_trip(t);
    tok_destroy(t);
    return rc;
}

static void test_text_fault_parse(void **state) {
    (void)state;
    struct buf json;
    buf_init(&json, MEM_TEST, 1 << 16);
    toy_json(&json);
    test_fault_loop(FAULT_ALLOC, parse_and_encode, &json, codes);
    buf_fini(&json);
}

static int parse_model(void *ctx) {
    const struct buf *model = ctx;
    struct tok *t = NULL;
    int rc = tok_parse_model("model", (const uint8_t *)model->data, model->len, &t);
    rc = rc ? rc : round_trip(t);
    tok_destroy(t);
    return rc;
}

static void test_text_fault_parse_model(void **state) {
    (void)state;
    static const char *const models[] = {"spm_bpe_user", "spm_unigram_user", "spm_suffix"};
    for (int32_t i = 0; i < ARRAY_LEN(models); i++) {
        char rel[128];
        struct buf model;
        buf_init(&model, MEM_TEST, 1 << 20);
        snprintf(rel, sizeof rel, "tokenizers/parts/%s.model", models[i]);
        assert_ok(file_read(test_golden(rel), &model));
        test_fault_loop(FAULT_ALLOC, parse_model, &model, codes);
        buf_fini(&model);
    }
}

/* A small tokenizer.json with a part of every kind, from the corpus of the fuzzer. */
static void test_text_fault_parse_parts(void **state) {
    (void)state;
    static const char *const names[] = {"steps", "unigram", "words"};
    for (int32_t i = 0; i < ARRAY_LEN(names); i++) {
        char rel[128];
        struct buf json;
        buf_init(&json, MEM_TEST, 1 << 20);
        snprintf(rel, sizeof rel, "../../fuzz/corpus/fuzz_tokenizer_json/%s.json", names[i]);
        assert_ok(file_read(test_golden(rel), &json));
        test_fault_loop(FAULT_ALLOC, parse_and_encode, &json, codes);
        buf_fini(&json);
    }
}

/* A long piece: windows, the queue, and after a failure the same ids as before. */
static void test_text_fault_long_piece(void **state) {
    (void)state;
    struct buf json;
    struct tok *t = NULL;
    char text[3000];
    struct tok_ids want;
    buf_init(&json, MEM_TEST, 1 << 16);
    toy_json(&json);
    assert_ok(tok_parse("toy", json.data, json.len, &t));
    for (int32_t i = 0; i < (int32_t)sizeof text; i++) {
        text[i] = "hellohelhe"[(i * i + i / 7) % 10];
    }
    tok_ids_init(&want);
    assert_ok(tok_encode(t, text, (int64_t)sizeof text, 0, &want));
    for (int64_t n = 1; n < 1000; n++) {
        struct tok_ids ids;
        tok_ids_init(&ids);
        fault_arm(FAULT_ALLOC, n, false);
        int rc = tok_encode(t, text, (int64_t)sizeof text, 0, &ids);
        bool fired = fault_disarm() > 0;
        assert_true(rc == 0 || rc == ERR_NOMEM);
        ids.n = 0;
        assert_ok(tok_encode(t, text, (int64_t)sizeof text, 0, &ids));
        assert_int_equal(ids.n, want.n);
        assert_memory_equal(ids.v, want.v, (size_t)ids.n * sizeof *ids.v);
        tok_ids_fini(&ids);
        if (!fired) {
            break;
        }
    }
    tok_ids_fini(&want);
    buf_fini(&json);
    tok_destroy(t);
}

/* A tokenizer that failed to encode still encodes. */
static void test_text_fault_encode_leaves_tokenizer_usable(void **state) {
    (void)state;
    struct tok *t = toy_spm();
    for (int64_t n = 1; n < 1000; n++) {
        fault_arm(FAULT_ALLOC, n, false);
        int rc = round_trip(t);
        bool fired = fault_disarm() > 0;
        assert_true(rc == 0 || rc == ERR_NOMEM);
        assert_ok(round_trip(t));
        if (!fired) {
            break;
        }
    }
    tok_destroy(t);
}

static int open_folder(void *ctx) {
    struct tok *t = NULL;
    int rc = tok_open(ctx, &t);
    tok_destroy(t);
    return rc;
}

static void test_text_fault_open(void **state) {
    (void)state;
    static const char config[] = "{\"eos_token\":\"<|end|>\",\"model_max_length\":1e30}";
    char dir[FILE_PATH_MAX];
    char path[FILE_PATH_MAX];
    struct buf json;
    test_tmpdir(dir);
    buf_init(&json, MEM_TEST, 1 << 16);
    toy_json(&json);
    assert_ok(file_join(path, dir, "tokenizer.json"));
    assert_ok(file_write(path, json.data, json.len));
    assert_ok(file_join(path, dir, "tokenizer_config.json"));
    assert_ok(file_write(path, config, (int64_t)sizeof config - 1));
    assert_ok(file_join(path, dir, "chat_template.jinja"));
    assert_ok(file_write(path, "{{ 1 }}", 7));
    buf_fini(&json);
    test_fault_loop(FAULT_READ, open_folder, dir, codes);
    test_rmdir(dir);
}

static int compile_and_render(void *ctx) {
    static const char src[] =
        "{%- macro m(a, b='x') %}{{ a ~ b }}{{ caller() }}{% endmacro -%}\n"
        "{% for k, v in d.items() if v %}{{ loop.index }}{{ k | upper }}{{ v | tojson(indent=2) }}"
        "{% call m(k) %}{{ [1, 2] | map('string') | join(',') }}{% endcall %}{% endfor %}\n"
        "{% set ns = namespace(x=0) %}{% set ns.x = d | dictsort | list %}{{ ns.x }}"
        "{% set t | trim %} {{ 'a,b'.split(',')[::-1] }} {% endset %}{{ t[1:3] * 20 }}";
    struct chat *c = NULL;
    struct buf b;
    buf_init(&b, MEM_TEST, 1 << 16);
    int rc = chat_compile("t", src, (int64_t)sizeof src - 1, &c);
    rc = rc ? rc : chat_render(c, ctx, 0, &b);
    chat_free(c);
    buf_fini(&b);
    return rc;
}

static void test_text_fault_chat(void **state) {
    (void)state;
    static const char text[] = "{\"d\":{\"a\":[1,{\"b\":\"c\"}],\"z\":\"y\"}}";
    json_t *vars = NULL;
    assert_ok(json_parse("v", text, (int64_t)sizeof text - 1, &vars));
    test_fault_loop(FAULT_ALLOC, compile_and_render, vars, codes);
    json_decref(vars);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_text_fault_parse),
        TEST(test_text_fault_parse_model),
        TEST(test_text_fault_parse_parts),
        TEST(test_text_fault_long_piece),
        TEST(test_text_fault_encode_leaves_tokenizer_usable),
        TEST(test_text_fault_open),
        TEST(test_text_fault_chat),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
