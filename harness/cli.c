#include "harness/cli.h"

#include <string.h>

#include "build_info.h"
#include "engine/base/err.h"
#include "engine/base/str.h"

static bool name_is(const struct cli_opt *o, const char *name, size_t n) {
    const char *comma = strchr(o->name, ',');
    size_t n_long = comma ? (size_t)(comma - o->name) : strlen(o->name);
    return (n == n_long && strncmp(o->name, name, n) == 0) ||
           (comma && n == strlen(comma + 1) && strncmp(comma + 1, name, n) == 0);
}

static int unknown_option(const struct cli_opt *opts, int32_t n_opts, const char *name, size_t n) {
    enum { NAMES_MAX = 64 };
    char names[NAMES_MAX][64];
    const char *list[NAMES_MAX];
    char word[64];
    int32_t n_list = i32_min(n_opts, NAMES_MAX);
    for (int32_t i = 0; i < n_list; i++) {
        const char *comma = strchr(opts[i].name, ',');
        size_t len = comma ? (size_t)(comma - opts[i].name) : strlen(opts[i].name);
        snprintf(names[i], sizeof names[i], "%.*s", (int)len, opts[i].name);
        list[i] = names[i];
    }
    snprintf(word, sizeof word, "%.*s", (int)n, name);
    const char *near = str_nearest(word, list, n_list);
    return near ? err_set(ERR_USAGE, "unknown option --%s, did you mean --%s?", word, near)
                : err_set(ERR_USAGE, "unknown option --%s (--help lists them)", word);
}

static int store(const struct cli_opt *o, const char *value) {
    int64_t i = 0;
    int64_t lo = o->lo;
    int64_t hi = o->lo == 0 && o->hi == 0 ? INT32_MAX : o->hi;
    int rc = 0;
    switch (o->type) {
    case CLI_FLAG:
        *(bool *)o->dst = true;
        break;
    case CLI_STR:
        *(const char **)o->dst = value;
        break;
    case CLI_I32:
        rc = str_i64(value, lo, hi, &i);
        if (!rc) {
            *(int32_t *)o->dst = (int32_t)i;
        }
        break;
    case CLI_I64:
        rc = str_i64(value, o->lo, o->hi ? o->hi : INT64_MAX, (int64_t *)o->dst);
        break;
    case CLI_F64:
        rc = str_f64(value, (double *)o->dst);
        break;
    case CLI_BYTES:
        rc = str_bytes(value, (int64_t *)o->dst);
        break;
    case CLI_DURATION:
        rc = str_duration_ns(value, (int64_t *)o->dst);
        break;
    }
    if (rc) {
        err_ctx(rc, "option --%.*s", (int)strcspn(o->name, ","), o->name);
        return ERR_USAGE;
    }
    return 0;
}

static void print_help(const struct cmd *self, const struct cli_opt *opts, int32_t n_opts) {
    printf("%s\n\nUsage: trilemma %s %s\n\nOptions:\n", self->summary, self->name, self->usage);
    for (int32_t i = 0; i < n_opts; i++) {
        char left[96];
        const char *comma = strchr(opts[i].name, ',');
        int n_long = comma ? (int)(comma - opts[i].name) : (int)strlen(opts[i].name);
        snprintf(left, sizeof left, "%s%s%s--%.*s%s%s", comma ? "-" : "", comma ? comma + 1 : "",
                 comma ? ", " : "", n_long, opts[i].name, opts[i].arg ? " " : "",
                 opts[i].arg ? opts[i].arg : "");
        printf("  %-26s %s\n", left, opts[i].help);
    }
    printf("  %-26s %s\n\nExample:\n  %s\n", "--help", "print this and exit", self->example);
}

/* Handles one option at argv[*i]; may step over its value. */
static int parse_one(const struct cli_opt *opts, int32_t n_opts, int argc, char **argv, int *i) {
    const char *name = argv[*i] + (argv[*i][1] == '-' ? 2 : 1);
    const char *eq = strchr(name, '=');
    size_t n = eq ? (size_t)(eq - name) : strlen(name);
    for (int32_t j = 0; j < n_opts; j++) {
        if (!name_is(&opts[j], name, n)) {
            continue;
        }
        if (opts[j].type == CLI_FLAG) {
            return eq ? err_set(ERR_USAGE, "option --%.*s takes no value", (int)n, name)
                      : store(&opts[j], "");
        }
        if (eq) {
            return store(&opts[j], eq + 1);
        }
        if (*i + 1 >= argc) {
            return err_set(ERR_USAGE, "option %s needs a value (%s)", argv[*i], opts[j].arg);
        }
        (*i)++;
        return store(&opts[j], argv[*i]);
    }
    return unknown_option(opts, n_opts, name, n);
}

int cli_parse(const struct cmd *self,
              const struct cli_opt *opts,
              int32_t n_opts,
              int argc,
              char **argv,
              int32_t pos_min,
              int32_t pos_max,
              struct cli_args *args) {
    bool only_pos = false;
    *args = (struct cli_args){0};
    for (int i = 0; i < argc; i++) {
        const char *a = argv[i];
        if (!only_pos && str_eq(a, "--")) {
            only_pos = true;
        } else if (!only_pos && (str_eq(a, "--help") || str_eq(a, "-h"))) {
            print_help(self, opts, n_opts);
            args->help = true;
            return 0;
        } else if (!only_pos && a[0] == '-' && a[1] != '\0') {
            int rc = parse_one(opts, n_opts, argc, argv, &i);
            if (rc) {
                return rc;
            }
        } else if (args->n_pos == CLI_POS_MAX) {
            return err_set(ERR_USAGE, "more than %d arguments", CLI_POS_MAX);
        } else {
            args->pos[args->n_pos++] = a;
        }
    }
    if (args->n_pos < pos_min || args->n_pos > pos_max) {
        return err_set(ERR_USAGE, "%s: %d given; usage: trilemma %s %s",
                       args->n_pos < pos_min ? "an argument is missing" : "too many arguments",
                       args->n_pos, self->name, self->usage);
    }
    return 0;
}

static int print_top_help(FILE *to) {
    fprintf(to,
            "Trilemma %s: what do I serve, on what, and what does it cost me?\n\n"
            "Usage: trilemma VERB [arguments]    (trilemma VERB --help explains one)\n\nVerbs:\n",
            BUILD_VERSION);
    for (int32_t i = 0; cmd_at(i); i++) {
        fprintf(to, "  %-10s %s\n", cmd_at(i)->name, cmd_at(i)->summary);
    }
    fprintf(to, "\nExit codes: 0 ok, 1 the check failed, 2 usage, 3 input, 4 runtime.\n");
    return to == stdout ? 0 : 2;
}

static int unknown_verb(const char *verb) {
    enum { VERBS_MAX = 64 };
    const char *names[VERBS_MAX];
    int32_t n = 0;
    for (; n < VERBS_MAX && cmd_at(n); n++) {
        names[n] = cmd_at(n)->name;
    }
    const char *near = str_nearest(verb, names, n);
    fprintf(stderr, "trilemma: unknown verb \"%s\"%s%s%s (trilemma --help lists them)\n", verb,
            near ? ", did you mean \"" : "", near ? near : "", near ? "\"?" : "");
    return 2;
}

static int run_verb(const struct cli_env *env, const char *verb, int argc, char **argv) {
    for (int32_t i = 0; cmd_at(i); i++) {
        const struct cmd *c = cmd_at(i);
        if (str_eq(c->name, verb)) {
            int rc = c->run(c, env, argc, argv);
            if (rc < 0) {
                fprintf(stderr, "trilemma %s: %s\n", verb, err_msg()[0] ? err_msg() : err_text(rc));
            }
            return rc < 0 ? err_exit_class(rc) : rc;
        }
    }
    return unknown_verb(verb);
}

static int dispatch(const struct cli_env *env, int argc, char **argv) {
    char help[] = "--help";
    char *only_help[] = {help};
    if (argc < 2) {
        return print_top_help(stderr);
    }
    const char *verb = argv[1];
    if (str_eq(verb, "help") && argc > 2) {
        return run_verb(env, argv[2], 1, only_help);
    }
    if (str_eq(verb, "--help") || str_eq(verb, "-h") || str_eq(verb, "help")) {
        return print_top_help(stdout);
    }
    if (str_eq(verb, "--version") || str_eq(verb, "version")) {
        printf("trilemma %s (%s, %s)\n", BUILD_VERSION, BUILD_COMMIT, BUILD_COMPILER);
        return 0;
    }
    return run_verb(env, verb, argc - 2, argv + 2);
}

int cli_main(const struct cli_env *env, int argc, char **argv) {
    int code = dispatch(env, argc, argv);
    /* why: a full disk or a closed pipe behind standard output shows here */
    bool lost = fflush(stdout) != 0 || ferror(stdout) != 0;
    if (lost && code <= CLI_CHECK_FAILED) {
        fprintf(stderr, "trilemma: cannot write standard output\n");
        return err_exit_class(ERR_IO);
    }
    return code;
}
