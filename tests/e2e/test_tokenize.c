/* trilemma tokenize on a folder, a tokenizer.json and a tokenizer.model: a table for people, JSON
 * for scripts. */
#include "tests/support/support.h"

#include <string.h>

#include "tests/support/cli.h"
#include "tests/support/tiny.h"

static char dir[FILE_PATH_MAX];

static int make(void **state) {
    (void)state;
    test_tmpdir(dir);
    tiny_model(dir, "llama", 512);
    return 0;
}

static int unmake(void **state) {
    (void)state;
    test_rmdir(dir);
    return 0;
}

static void says(const char *want, const char *args) {
    struct cli_result r;
    cli_line(dir, 0, &r, "%s", args);
    assert_string_equal(buf_cstr(&r.out), want);
    cli_fini(&r);
}

/* A text with blanks. */
static void table(const char *want, const char *model, const char *text) {
    const char *const args[] = {"tokenize", model, "--text", text, NULL};
    struct cli_opts o = {.cwd = dir};
    struct cli_result r;
    cli_run(&o, args, &r);
    assert_int_equal(r.code, 0);
    assert_string_equal(buf_cstr(&r.out), want);
    cli_fini(&r);
}

static void test_tokenize_table(void **state) {
    (void)state;
    table("259\thello\n220\t \n261\t<|end|>\n", "llama", "hello <|end|>");
    table("259\thello\n198\t\\x0a\n127\t\\xc3\n245\t\\x97\n59\t\\\\\n", "llama/tokenizer.json",
          "hello\n\xc3\x97\\");
    table("", "llama", "");
}

static void test_tokenize_json(void **state) {
    (void)state;
    says("{\"ids\":[259],\"decoded\":\"hello\"}\n", "tokenize llama --text hello --json");
    says("{\"ids\":[259],\"decoded\":\"hello\",\"pieces\":[\"hello\"]}\n",
         "tokenize llama --text hello --json --pieces");
    tiny_file(dir, "two.jsonl", "{\"text\": \"hello\"}\n{\"text\": \" hello\"}\n");
    says("{\"ids\":[259],\"decoded\":\"hello\",\"pieces\":[\"hello\"]}\n"
         "{\"ids\":[260],\"decoded\":\" hello\",\"pieces\":[\" hello\"]}\n",
         "tokenize llama --jsonl two.jsonl --pieces");
}

static void test_tokenize_special(void **state) {
    (void)state;
    says("259\thello\n261\t<|end|>\n", "tokenize llama --text hello --special");
}

static void test_tokenize_sentencepiece_model(void **state) {
    (void)state;
    struct cli_result r;
    cli_line(dir, 0, &r, "tokenize %s --text Hello --special --json",
             test_golden("tokenizers/parts/spm_bpe.model"));
    assert_non_null(strstr(buf_cstr(&r.out), "\"ids\":[1,"));
    cli_fini(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tokenize_table),
        cmocka_unit_test(test_tokenize_json),
        cmocka_unit_test(test_tokenize_special),
        cmocka_unit_test(test_tokenize_sentencepiece_model),
    };
    return cmocka_run_group_tests(tests, make, unmake);
}
