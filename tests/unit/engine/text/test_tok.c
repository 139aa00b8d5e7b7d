/* LABELS: threads */
#include "tests/support/support.h"

#include <pthread.h>
#include <string.h>

#include "engine/text/tok.h"
#include "tests/support/toy_tok.h"

static struct tok *toy(void) {
    struct buf b;
    struct tok *t = NULL;
    buf_init(&b, MEM_TEST, 1 << 16);
    toy_json(&b);
    assert_ok(tok_parse("toy", b.data, b.len, &t));
    buf_fini(&b);
    return t;
}

static void encodes(const struct tok *t, const char *text, uint32_t flags, const char *want) {
    struct tok_ids ids;
    struct buf b;
    tok_ids_init(&ids);
    buf_init(&b, MEM_TEST, 1 << 16);
    assert_ok(tok_encode(t, text, (int64_t)strlen(text), flags, &ids));
    for (int32_t i = 0; i < ids.n; i++) {
        assert_ok(buf_fmt(&b, i ? " %d" : "%d", ids.v[i]));
    }
    assert_string_equal(buf_cstr(&b), want);
    buf_fini(&b);
    tok_ids_fini(&ids);
}

static void test_tok_merges_by_rank(void **state) {
    (void)state;
    struct tok *t = toy();
    encodes(t, "hello hello", 0, "259 260");
    encodes(t, "hell", 0, "258");
    encodes(t, "helo", 0, "256 75 78");
    encodes(t, "", 0, "");
    tok_destroy(t);
}

static void test_tok_special_on_request_only(void **state) {
    (void)state;
    struct tok *t = toy();
    encodes(t, "hello<|end|>", TOK_PARSE_SPECIAL, "259 261");
    encodes(t, "hello<|end|>", 0, "259 27 91 68 77 67 91 29");
    encodes(t, "hello", TOK_ADD_SPECIAL, "259 261");
    assert_int_equal(tok_find(t, "<|end|>"), 261);
    assert_int_equal(tok_find(t, " hello"), 260);
    assert_int_equal(tok_find(t, "none"), -1);
    assert_true(tok_is_special(t, 261) && !tok_is_special(t, 259) && !tok_is_special(t, 9999));
    assert_int_equal(tok_n_vocab(t), 262);
    tok_destroy(t);
}

static void test_tok_spm_scores_and_bytes(void **state) {
    (void)state;
    struct tok *t = toy_spm();
    encodes(t, "ab", 0, "263");
    encodes(t, "ab ab", TOK_ADD_SPECIAL, "1 263 263");
    encodes(t, "a\n", 0, "259 260 13");
    encodes(t, "</s>a", TOK_PARSE_SPECIAL, "2 259 260");
    assert_int_equal(tok_bos(t), 1);
    assert_true(tok_is_eos(t, 2));
    tok_destroy(t);
}

static void test_tok_piece_is_bytes(void **state) {
    (void)state;
    struct tok *t = toy();
    int32_t n = 0;
    const uint8_t *p = tok_piece(t, 260, &n);
    assert_int_equal(n, 6);
    assert_memory_equal(p, " hello", 6);
    assert_null(tok_piece(t, -1, &n));
    assert_null(tok_piece(t, 262, &n));
    tok_destroy(t);
}

static void test_tok_broken_utf8_becomes_replacement(void **state) {
    (void)state;
    struct tok *t = toy();
    struct tok_ids a;
    struct tok_ids b;
    tok_ids_init(&a);
    tok_ids_init(&b);
    assert_ok(tok_encode(t, "x\xffy", 3, 0, &a));
    assert_ok(tok_encode(t, "x\xef\xbf\xbdy", 5, 0, &b));
    assert_int_equal(a.n, b.n);
    assert_memory_equal(a.v, b.v, (size_t)a.n * sizeof *a.v);
    tok_ids_fini(&a);
    tok_ids_fini(&b);
    tok_destroy(t);
}

static void parse_fails(const char *json, int code, const char *part) {
    struct tok *t = NULL;
    assert_err(tok_parse("t.json", json, (int64_t)strlen(json), &t), code, part);
    assert_null(t);
}

#define TAIL  ",\"decoder\":{\"type\":\"ByteLevel\"}}"
#define MODEL "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]}"

static void test_tok_parse_refuses_by_name(void **state) {
    (void)state;
    parse_fails("{\"model\":{\"type\":\"WordLevel\"}}", ERR_UNSUPPORTED, "WordLevel");
    parse_fails("{\"model\":{\"type\":\"WordPiece\"}}", ERR_UNSUPPORTED, "WordPiece");
    parse_fails("{" MODEL ",\"normalizer\":{\"type\":\"Elder\"}" TAIL, ERR_UNSUPPORTED, "Elder");
    parse_fails("{" MODEL ",\"pre_tokenizer\":{\"type\":\"Elder\"}" TAIL, ERR_UNSUPPORTED, "Elder");
    parse_fails("{" MODEL ",\"post_processor\":{\"type\":\"Elder\"}" TAIL, ERR_UNSUPPORTED,
                "Elder");
    parse_fails("{" MODEL
                ",\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[]}" TAIL,
                ERR_UNSUPPORTED, "not once");
    parse_fails("{" MODEL ",\"decoder\":{\"type\":\"WordPiece\"}}", ERR_UNSUPPORTED, "WordPiece");
    parse_fails("{" MODEL ",\"decoder\":{\"type\":\"CTC\"}}", ERR_UNSUPPORTED, "CTC");
    parse_fails("{" MODEL
                ",\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"[a&&b]\"}"
                "}" TAIL,
                ERR_UNSUPPORTED, "intersection");
    parse_fails("{" MODEL ",\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(\"}"
                "}" TAIL,
                ERR_FORMAT, "pattern");
}

/* Settings that do not change ids are passed over; those that would are refused. */
static void test_tok_parse_passes_truncation_over(void **state) {
    (void)state;
    static const char json[] =
        "{\"truncation\":{\"max_length\":1,\"stride\":0},\"padding\":{\"pad_id\":3},"
        "\"version\":\"1.0\"," MODEL TAIL;
    struct tok *t = NULL;
    assert_ok(tok_parse("t.json", json, (int64_t)sizeof json - 1, &t));
    encodes(t, "aaa", 0, "0 0 0");
    tok_destroy(t);
    parse_fails(
        "{\"model\":{\"type\":\"BPE\",\"dropout\":0.1,\"vocab\":{\"a\":0},\"merges\":[]}" TAIL,
        ERR_UNSUPPORTED, "dropout");
}

static void test_tok_parse_model_refuses_damage(void **state) {
    (void)state;
    static const struct {
        const char *bytes;
        int64_t n;
        int code;
        const char *part;
    } bad[] = {
        {"\x0a", 1, ERR_FORMAT, "cut off"},
        {"\x0a\x05\x0a\x09", 4, ERR_FORMAT, "cut off"},
        {"\x0a\x03\x0a\x01", 4, ERR_FORMAT, "cut off"},
        {"\x0a\x02\x18\x09", 4, ERR_FORMAT, "no text"},
        {"\x0a\x03\x0a\x01\xff", 5, ERR_FORMAT, "UTF-8"},
        {"\x0a\x03\x0a\x01"
         "a\x12\x02\x18\x03",
         9, ERR_UNSUPPORTED, "model type 3"},
        {"\x0a\x03\x0a\x01"
         "a\x1a\x02\x28\x00",
         9, ERR_UNSUPPORTED, "escape"},
        {"\x0a\x05\x0a\x01"
         "a\x18\x05\x12\x02\x18\x02",
         11, ERR_UNSUPPORTED, "UNUSED"},
        {"\x0a\x03\x0a\x01"
         "a\x1a\x03\x12\x01\x01",
         10, ERR_FORMAT, "charsmap"},
        {"no ranks", 8, ERR_UNSUPPORTED, "sha256"},
    };
    for (int32_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct tok *t = NULL;
        assert_err(tok_parse_model("m", (const uint8_t *)bad[i].bytes, bad[i].n, &t), bad[i].code,
                   bad[i].part);
        assert_null(t);
    }
}

static void test_tok_parse_refuses_damage(void **state) {
    (void)state;
    parse_fails("{", ERR_FORMAT, "t.json");
    parse_fails("{}", ERR_FORMAT, "model");
    parse_fails("{\"model\":{\"vocab\":{\"a\":0,\"b\":0},\"merges\":[]}" TAIL, ERR_FORMAT, "share");
    parse_fails("{\"model\":{\"vocab\":{\"a\":-1},\"merges\":[]}" TAIL, ERR_FORMAT, "no id");
    parse_fails("{\"model\":{\"vocab\":{\"a\":0},\"merges\":[\"a\"]}" TAIL, ERR_FORMAT, "merge 0");
    parse_fails("{\"model\":{\"vocab\":{\"a\":0},\"merges\":[\"a a\"]}" TAIL, ERR_FORMAT, "whole");
    parse_fails("{\"model\":{\"vocab\":{\"a\":0},\"merges\":[],\"unk_token\":\"u\"}" TAIL,
                ERR_FORMAT, "unk_token");
}

static void test_tok_create_unknown_pre_lists_known(void **state) {
    (void)state;
    struct tok_str a = {"a", 1};
    struct tok_spec s = {.where = "x.gguf", .n_vocab = 1, .text = &a, .pre = "nosuch"};
    struct tok *t = NULL;
    assert_err(tok_create(&s, &t), ERR_UNSUPPORTED, "nosuch");
    assert_err(ERR_UNSUPPORTED, ERR_UNSUPPORTED, "smollm");
}

/* The family of a name decides whether BOS comes first, unless the file says so itself. */
static void test_tok_create_pre_names_bring_bos(void **state) {
    (void)state;
    struct tok_str text[] = {{"a", 1}, {"<s>", 3}};
    static const struct {
        const char *pre;
        bool told;
        bool add;
        const char *want;
    } rows[] = {{"llama-bpe", false, false, "1 0"}, {"tekken", false, false, "1 0"},
                {"gpt-2", false, false, "0"},       {"llama-bpe", true, false, "0"},
                {"gpt-2", true, true, "1 0"},       {"youtu", false, false, "0"},
                {"chameleon", false, false, "1 0"}, {"deepseek-v3", false, true, "1 0"}};
    for (int32_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct tok_spec s = {.where = "x.gguf",
                             .n_vocab = 2,
                             .text = text,
                             .pre = rows[i].pre,
                             .has_bos = true,
                             .bos = 1,
                             .add_bos = rows[i].add,
                             .add_bos_told = rows[i].told};
        struct tok *t = NULL;
        assert_ok(tok_create(&s, &t));
        encodes(t, "a", TOK_ADD_SPECIAL, rows[i].want);
        tok_destroy(t);
    }
}

static void test_tok_create_cuts_by_steps(void **state) {
    (void)state;
    struct tok_str text[] = {{"a", 1}, {"b", 1}, {"ab", 2}, {"-", 1}, {"-a", 2}};
    struct tok_str merges[] = {{"a b", 3}, {"- a", 3}};
    struct tok_step step = {.kind = TOK_STEP_STRING, .pattern = {"-", 1}};
    struct tok_spec s = {.where = "steps",
                         .n_vocab = 5,
                         .text = text,
                         .n_merges = 2,
                         .merges = merges,
                         .n_steps = 1,
                         .steps = &step};
    static const char *const want[] = {"2 3 0", "2 0", "2 3 0", "2 4", "2 3 0"};
    for (int32_t i = 0; i < ARRAY_LEN(want); i++) {
        struct tok *t = NULL;
        step.behavior = (enum tok_behavior)i;
        assert_ok(tok_create(&s, &t));
        encodes(t, "ab-a", 0, want[i]);
        tok_destroy(t);
    }
}

static void test_tok_open_says_what_is_missing(void **state) {
    (void)state;
    char dir[FILE_PATH_MAX];
    struct tok *t = NULL;
    test_tmpdir(dir);
    assert_err(tok_open(dir, &t), ERR_NOTFOUND, "tokenizer.model");
    test_rmdir(dir);
    assert_err(tok_open("/nonexistent/tokenizer.json", &t), ERR_NOTFOUND, "/nonexistent");
}

/* A million equal letters in one piece: n log n, not n squared. */
static void test_tok_long_piece(void **state) {
    (void)state;
    struct tok *t = toy();
    struct buf b;
    struct tok_ids ids;
    buf_init(&b, MEM_TEST, 1 << 20);
    tok_ids_init(&ids);
    for (int32_t i = 0; i < 100000; i++) {
        assert_ok(buf_str(&b, "hellohello"));
    }
    assert_ok(tok_encode(t, b.data, b.len, 0, &ids));
    assert_int_equal(ids.n, 200000);
    tok_ids_fini(&ids);
    buf_fini(&b);
    tok_destroy(t);
}

struct job {
    const struct tok *t;
    int32_t n_bad;
};

static void *encode_often(void *arg) {
    struct job *j = arg;
    for (int32_t i = 0; i < 300; i++) {
        struct tok_ids ids;
        tok_ids_init(&ids);
        int rc = tok_encode(j->t, "hello hello, e\xcc\x81", 16, TOK_ADD_SPECIAL, &ids);
        j->n_bad += rc || ids.n != 7 || ids.v[1] != 260 || ids.v[6] != 261;
        tok_ids_fini(&ids);
    }
    return NULL;
}

static void test_tok_threads_share(void **state) {
    (void)state;
    struct tok *t = toy();
    pthread_t thread[4];
    struct job job[4];
    for (int32_t i = 0; i < 4; i++) {
        job[i] = (struct job){.t = t};
        assert_int_equal(pthread_create(&thread[i], NULL, encode_often, &job[i]), 0);
    }
    for (int32_t i = 0; i < 4; i++) {
        pthread_join(thread[i], NULL);
        assert_int_equal(job[i].n_bad, 0);
    }
    tok_destroy(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_tok_merges_by_rank),
        TEST(test_tok_special_on_request_only),
        TEST(test_tok_spm_scores_and_bytes),
        TEST(test_tok_piece_is_bytes),
        TEST(test_tok_broken_utf8_becomes_replacement),
        TEST(test_tok_parse_refuses_by_name),
        TEST(test_tok_parse_refuses_damage),
        TEST(test_tok_parse_passes_truncation_over),
        TEST(test_tok_parse_model_refuses_damage),
        TEST(test_tok_create_unknown_pre_lists_known),
        TEST(test_tok_create_pre_names_bring_bos),
        TEST(test_tok_create_cuts_by_steps),
        TEST(test_tok_open_says_what_is_missing),
        TEST(test_tok_long_piece),
        TEST(test_tok_threads_share),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
