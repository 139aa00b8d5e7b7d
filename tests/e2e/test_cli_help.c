/* What the program says about itself, for every verb: help, examples that parse, nearest names. */
#include "tests/support/cli.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/str.h"
#include "harness/cmds.h"

enum { EXAMPLE_MAX = 1024 };

static void test_help_every_verb(void **state) {
    (void)state;
    for (int32_t i = 0; cmd_at(i); i++) {
        const struct cmd *c = cmd_at(i);
        struct cli_result r;
        char usage[256];
        cli_line(NULL, 0, &r, "%s --help", c->name);
        snprintf(usage, sizeof usage, "Usage: trilemma %s %s\n", c->name, c->usage);
        assert_non_null(strstr(buf_cstr(&r.out), usage));
        assert_non_null(strstr(buf_cstr(&r.out), "Example:\n"));
        assert_non_null(strstr(buf_cstr(&r.out), c->example));
        assert_non_null(strstr(buf_cstr(&r.out), "--json"));
        assert_int_equal(r.err.len, 0);
        cli_fini(&r);
    }
}

/* Words of an example as a shell would cut them; only blanks and double quotes are in use. */
static int32_t shell_words(char *line, const char *words[CLI_WORDS_MAX + 1]) {
    int32_t n = 0;
    for (char *p = line; *p && *p != '\n';) {
        p += strspn(p, " ");
        bool quoted = *p == '"';
        p += quoted ? 1 : 0;
        words[n++] = p;
        assert_true(n < CLI_WORDS_MAX);
        p += strcspn(p, quoted ? "\"" : " \n");
        if (*p) {
            *p++ = '\0';
        }
    }
    return n;
}

/* Options are parsed in order, so --help behind an example proves that all of it is known. */
static void test_help_examples_parse(void **state) {
    (void)state;
    for (int32_t i = 0; cmd_at(i); i++) {
        const char *words[CLI_WORDS_MAX + 1];
        char line[EXAMPLE_MAX];
        struct cli_result r;
        assert_true(str_copy(line, EXAMPLE_MAX, cmd_at(i)->example));
        int32_t n = shell_words(line, words);
        assert_string_equal(words[0], "trilemma");
        assert_string_equal(words[1], cmd_at(i)->name);
        words[n] = "--help";
        words[n + 1] = NULL;
        cli_run(NULL, words + 1, &r);
        if (r.code != 0) {
            fail_msg("example of %s: %s", cmd_at(i)->name, buf_cstr(&r.err));
        }
        cli_fini(&r);
    }
}

static void test_help_nearest_names(void **state) {
    (void)state;
    for (int32_t i = 0; cmd_at(i); i++) {
        cli_says(NULL, 2, "did you mean --json?", "%s --jsn", cmd_at(i)->name);
        cli_says(NULL, 2, "unknown option --quixotic", "%s --quixotic", cmd_at(i)->name);
        cli_says(NULL, 2, "takes no value", "%s --json=3", cmd_at(i)->name);
    }
    cli_says(NULL, 2, "did you mean \"generate\"?", "genrate");
    cli_says(NULL, 2, "did you mean \"quantize\"?", "quantise llama");
    cli_says(NULL, 2, "unknown verb \"zzzzzzzz\"", "zzzzzzzz");
    cli_says(NULL, 2, "unknown verb \"zzzzzzzz\"", "help zzzzzzzz");
}

static void test_help_missing_arguments(void **state) {
    (void)state;
    for (int32_t i = 0; cmd_at(i); i++) {
        const char *name = cmd_at(i)->name;
        /* alone, fetch lists what can be fetched, and selftest works */
        if (!str_eq(name, "fetch") && !str_eq(name, "selftest")) {
            bool render = str_eq(name, "render"); /* its model may be left out */
            cli_says(NULL, 2, render ? "--messages" : "an argument is missing", "%s", name);
        }
    }
    cli_says(NULL, 2, "give one of -p TEXT and --ids FILE", "generate llama");
    cli_says(NULL, 2, "option -p needs a value (TEXT)", "generate llama -p");
    cli_says(NULL, 2, "option --threads: \"two\"", "generate llama -p x --threads two");
    cli_says(NULL, 2, "option --threads", "generate llama -p x --threads 0");
    cli_says(NULL, 2, "option --memory", "plan llama --memory 3XB");
    cli_says(NULL, 2, "--out DIR is missing", "quantize llama");
    cli_says(NULL, 2, "--ids FILE is missing", "score llama");
    cli_says(NULL, 2, "too many arguments: 2 given", "inspect a b");
    cli_says(NULL, 2, "--stride", "eval llama --stride");
    cli_says(NULL, 2, "known are hf-strided", "eval llama --definition mine");
    cli_says(NULL, 2, "--rows does", "eval llama --definition seed --tokens 5");
}

static void test_help_top(void **state) {
    (void)state;
    struct cli_result r;
    const char *const none[] = {NULL};
    cli_line(NULL, 0, &r, "--version");
    assert_int_equal(strncmp(buf_cstr(&r.out), "trilemma ", 9), 0);
    cli_fini(&r);
    cli_run(NULL, none, &r);
    assert_int_equal(r.code, 2);
    assert_non_null(strstr(buf_cstr(&r.err), "Exit codes: 0 ok"));
    cli_fini(&r);
    cli_line(NULL, 0, &r, "--help");
    for (int32_t i = 0; cmd_at(i); i++) {
        assert_non_null(strstr(buf_cstr(&r.out), cmd_at(i)->summary));
    }
    cli_fini(&r);
    cli_line(NULL, 0, &r, "help report");
    assert_non_null(strstr(buf_cstr(&r.out), "Usage: trilemma report"));
    cli_fini(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {TEST(test_help_every_verb), TEST(test_help_examples_parse),
                                       TEST(test_help_nearest_names),
                                       TEST(test_help_missing_arguments), TEST(test_help_top)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
