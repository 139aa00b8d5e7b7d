/* Options, arguments and their errors. */
#include "tests/support/support.h"

#include <stdio.h>
#include <string.h>

#include "harness/cli.h"

struct given {
    const char *name;
    int32_t n;
    int32_t few;
    int64_t seed;
    int64_t many;
    double x;
    int64_t bytes;
    int64_t ns;
    bool flag;
    struct cli_args args;
};

static int run_none(const struct cmd *self, const struct cli_env *env, int argc, char **argv) {
    (void)self;
    (void)env;
    (void)argc;
    (void)argv;
    return 0;
}

static const struct cmd self = {.name = "test",
                                .summary = "Tests.",
                                .usage = "A [B]",
                                .example = "trilemma test a",
                                .run = run_none};

enum { WORDS_MAX = 16 };

/* Parses the words of a line. */
static int parse(const char *line, struct given *g) {
    static char copy[512];
    char *argv[WORDS_MAX];
    int argc = 0;
    *g = (struct given){.n = -1, .seed = -1};
    const struct cli_opt opts[] = {
        {"name", CLI_STR, &g->name, "TEXT", "", 0, 0},
        {"count,n", CLI_I32, &g->n, "N", "", 0, 0},
        {"few", CLI_I32, &g->few, "N", "", 1, 9},
        {"seed", CLI_I64, &g->seed, "S", "", 0, 0},
        {"many", CLI_I64, &g->many, "N", "", 2, 0},
        {"ratio,r", CLI_F64, &g->x, "X", "", 0, 0},
        {"memory", CLI_BYTES, &g->bytes, "SIZE", "", 0, 0},
        {"time", CLI_DURATION, &g->ns, "T", "", 0, 0},
        {"flag,f", CLI_FLAG, &g->flag, NULL, "", 0, 0},
    };
    snprintf(copy, sizeof copy, "%s", line);
    for (char *p = copy; *p && argc < WORDS_MAX;) {
        argv[argc++] = p;
        p += strcspn(p, " ");
        if (*p) {
            *p++ = '\0';
        }
    }
    return cli_parse(&self, opts, ARRAY_LEN(opts), argc, argv, 1, 2, &g->args);
}

static void test_cli_every_type(void **state) {
    (void)state;
    struct given g;
    assert_ok(parse("a --name x --count 3 --few=9 --seed 9007199254740993 --many 2 --ratio 1e-3 "
                    "--memory 2KiB --time 1.5ms",
                    &g));
    assert_string_equal(g.name, "x");
    assert_int_equal(g.n, 3);
    assert_int_equal(g.few, 9);
    assert_true(g.seed == 9007199254740993);
    assert_int_equal(g.many, 2);
    assert_rel(g.x, 1e-3, 1e-15);
    assert_int_equal(g.bytes, 2048);
    assert_int_equal(g.ns, 1500000);
    assert_false(g.flag);
    assert_int_equal(g.args.n_pos, 1);
}

static void test_cli_spellings(void **state) {
    (void)state;
    struct given g;
    assert_ok(parse("-f -n 4 a -r=0.5 b", &g));
    assert_true(g.flag && g.n == 4 && g.x > 0.49 && g.args.n_pos == 2);
    assert_string_equal(g.args.pos[1], "b");
    assert_ok(parse("--name --flag a", &g)); /* a value may look like an option */
    assert_string_equal(g.name, "--flag");
    assert_ok(parse("-- --flag -x", &g));
    assert_false(g.flag);
    assert_string_equal(g.args.pos[0], "--flag");
    assert_ok(parse("-", &g));
    assert_string_equal(g.args.pos[0], "-");
    assert_ok(parse("a --name=", &g));
    assert_string_equal(g.name, "");
    assert_ok(parse("a --count 1 --count 2", &g)); /* the last one holds */
    assert_int_equal(g.n, 2);
}

static void test_cli_refuses(void **state) {
    (void)state;
    static const struct {
        const char *line;
        const char *says;
    } bad[] = {{"a --cuont 3", "unknown option --cuont, did you mean --count?"},
               {"a --zzzzzzzz", "unknown option --zzzzzzzz (--help lists them)"},
               {"a --count", "option --count needs a value (N)"},
               {"a -n", "option -n needs a value (N)"},
               {"a --flag=1", "option --flag takes no value"},
               {"a --count three", "option --count: \"three\""},
               {"a --count -1", "--count"},
               {"a --count 3000000000", "--count"},
               {"a --few 10", "--few"},
               {"a --few 0", "--few"},
               {"a --many 1", "--many"},
               {"a --ratio nan", "--ratio"},
               {"a --ratio 1x", "--ratio"},
               {"a --memory 12XB", "--memory"},
               {"a --time 5", "--time"},
               {"", "an argument is missing: 0 given; usage: trilemma test A [B]"},
               {"a b c", "too many arguments: 3 given"}};
    for (int32_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct given g;
        assert_err(parse(bad[i].line, &g), ERR_USAGE, bad[i].says);
    }
}

static void test_cli_long_words(void **state) {
    (void)state;
    struct given g;
    char line[400] = "a --";
    memset(line + 4, 'q', sizeof line - 5);
    assert_err(parse(line, &g), ERR_USAGE, "unknown option --qqq");
}

static void test_cli_too_many_words(void **state) {
    (void)state;
    char word[] = "x";
    char *argv[CLI_POS_MAX + 1];
    struct cli_args args;
    for (int32_t i = 0; i <= CLI_POS_MAX; i++) {
        argv[i] = word;
    }
    assert_err(cli_parse(&self, NULL, 0, CLI_POS_MAX + 1, argv, 0, CLI_POS_MAX, &args), ERR_USAGE,
               "more than 64 arguments");
}

static void test_cli_verbs_are_whole(void **state) {
    (void)state;
    for (int32_t i = 0; cmd_at(i); i++) {
        const struct cmd *c = cmd_at(i);
        assert_true(c->name && c->summary && c->usage && c->example && c->run);
        assert_null(strchr(c->summary, '\n'));
        for (int32_t k = 0; k < i; k++) {
            assert_true(strcmp(cmd_at(k)->name, c->name) != 0);
        }
    }
    assert_null(cmd_at(-1));
    assert_null(cmd_at(1000));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_cli_every_type), TEST(test_cli_spellings),      TEST(test_cli_refuses),
        TEST(test_cli_long_words), TEST(test_cli_too_many_words), TEST(test_cli_verbs_are_whole)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
