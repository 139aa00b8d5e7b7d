/* trilemma inspect: what is in a checkpoint. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/base/str.h"
#include "harness/cmds.h"
#include "harness/describe.h"
#include "harness/paths.h"

struct inspect {
    bool json;
    bool tensors;
};

static void print_modules(const json_t *list) {
    size_t i = 0;
    json_t *v = NULL;
    json_array_foreach((json_t *)(uintptr_t)list, i, v) {
        printf("%-20s %lld x %s: %s\n", i ? "" : "modules",
               (long long)json_integer_value(json_object_get(v, "count")),
               json_string_value(json_object_get(v, "modules")),
               json_string_value(json_object_get(v, "scheme")));
    }
}

static void print_tensors(const json_t *list) {
    size_t i = 0;
    json_t *v = NULL;
    json_array_foreach((json_t *)(uintptr_t)list, i, v) {
        char *shape = json_dumps(json_object_get(v, "shape"), JSON_COMPACT);
        printf("  %-60s %-6s %s\n", json_string_value(json_object_get(v, "name")),
               json_string_value(json_object_get(v, "dtype")), shape ? shape : "?");
        free(shape); /* why: memory of jansson, not of mem_* */
    }
}

static void print_refusals(const json_t *list) {
    size_t i = 0;
    json_t *v = NULL;
    json_array_foreach((json_t *)(uintptr_t)list, i, v) {
        printf("%-20s %s\n", "not read", json_string_value(v));
    }
}

static void print_text(const json_t *o) {
    const char *key = NULL;
    json_t *v = NULL;
    json_object_foreach((json_t *)(uintptr_t)o, key, v) {
        if (str_eq(key, "modules")) {
            print_modules(v);
        } else if (str_eq(key, "refusals")) {
            print_refusals(v);
        } else if (str_eq(key, "tensors")) {
            print_tensors(v);
        } else if (!json_is_null(v)) {
            char *text = json_dumps(v, JSON_ENCODE_ANY | JSON_REAL_PRECISION(6));
            printf("%-20s %s\n", key,
                   json_is_string(v) ? json_string_value(v) : (text ? text : "?"));
            free(text); /* why: memory of jansson, not of mem_* */
        }
    }
}

static int run(const struct cmd *self, const struct cli_env *env, int argc, char **argv) {
    struct inspect o = {0};
    struct cli_args args;
    char path[FILE_PATH_MAX];
    json_t *d = NULL;
    const struct cli_opt opts[] = {
        {"tensors", CLI_FLAG, &o.tensors, NULL, "list every tensor", 0, 0},
        {"json", CLI_FLAG, &o.json, NULL, "JSON instead of text", 0, 0}};
    int rc = cli_parse(self, opts, ARRAY_LEN(opts), argc, argv, 1, 1, &args);
    if (rc || args.help) {
        return rc;
    }
    rc = paths_model(env, args.pos[0], path);
    rc = rc ? rc : describe_checkpoint(path, o.tensors, &d);
    if (d && o.json) {
        json_dumpf(d, stdout, JSON_COMPACT);
        printf("\n");
    } else if (d) {
        print_text(d);
    }
    json_decref(d);
    return rc;
}

const struct cmd cmd_inspect = {
    .name = "inspect",
    .summary = "What is in a checkpoint: shapes, types, schemes, bits per weight, tokenizer.",
    .usage = "MODEL [--tensors] [--json]",
    .example = "trilemma inspect smollm2-135m --tensors",
    .run = run};
