/* compare with checkpoints on the command line: it measures, tables, and judges. */
#include "tests/support/cli.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/json.h"
#include "tests/support/tiny.h"

static char dir[FILE_PATH_MAX];

static int make(void **state) {
    (void)state;
    test_tmpdir(dir);
    tiny_model(dir, "a \"quoted\" \\name", 512);
    return 0;
}

static int unmake(void **state) {
    (void)state;
    test_rmdir(dir);
    return 0;
}

/* Runs compare on the text of the shared data. */
static void compare(const char *const *args, struct cli_result *r) {
    char shared[FILE_PATH_MAX + 32];
    const char *text = test_shared("wikitext2/wiki.test.raw");
    const char *const env[] = {shared, NULL};
    struct cli_opts o = {.cwd = dir, .env = env};
    if (!text) {
        print_message("WikiText-2 is not here (TRILEMMA_SHARED)\n");
        skip();
    }
    snprintf(shared, sizeof shared, "TRILEMMA_SHARED=%s", test_shared(""));
    cli_run(&o, args, r);
}

static void test_compare_measures(void **state) {
    (void)state;
    static const char *const name = "a \"quoted\" \\name";
    const char *const args[] = {"compare", name,     name,       "--db",     "c.db", "--duration",
                                "500ms",   "--rate", "30",       "--tokens", "256",  "--window",
                                "64",      "--json", "--max-kl", "0",        NULL};
    struct cli_result r;
    json_t *j = NULL;
    compare(args, &r);
    if (r.code != 0) {
        fail_msg("exit code %d: %s", r.code, buf_cstr(&r.err));
    }
    assert_ok(json_parse("output", buf_cstr(&r.out), r.out.len, &j));
    const json_t *one = json_array_get(json_object_get(j, "comparisons"), 0);
    assert_string_equal(json_string_value(json_object_get(j, "base")), "base");
    assert_true(json_number_value(json_object_get(json_object_get(one, "kl"), "value")) == 0);
    assert_true(json_number_value(json_object_get(one, "memory_ratio")) == 1);
    assert_true(json_is_false(json_object_get(one, "failed")));
    json_decref(j);
    cli_fini(&r);
}

static void test_compare_refuses(void **state) {
    (void)state;
    const char *const args[] = {"compare", "a\nb", "c", NULL};
    struct cli_opts o = {.cwd = dir};
    struct cli_result r;
    cli_run(&o, args, &r);
    assert_int_equal(r.code, 2);
    cli_check_error(&r, "control character");
    cli_fini(&r);
    cli_says(dir, 3, "target \"base\": nowhere: no such file", "compare nowhere other --db n.db");
}

int main(void) {
    const struct CMUnitTest tests[] = {TEST(test_compare_measures), TEST(test_compare_refuses)};
    return cmocka_run_group_tests(tests, make, unmake);
}
