/* trilemma tokenize: token ids of text, line by line. */
#include <stdio.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/base/json.h"
#include "engine/run/toksource.h"
#include "harness/cmds.h"
#include "harness/paths.h"

enum { TEXT_MAX = 1 << 30 };

struct tokenize {
    const char *jsonl;
    const char *text;
    bool json;
};

static int print_row(const struct tok *tok, const char *text, int64_t n) {
    struct tok_ids ids;
    struct buf back;
    tok_ids_init(&ids);
    buf_init(&back, MEM_HARNESS, TEXT_MAX);
    int rc = tok_encode(tok, text, n, TOK_PARSE_SPECIAL, &ids);
    rc = rc ? rc : tok_decode(tok, ids.v, ids.n, false, &back);
    if (!rc) {
        json_t *list = json_array();
        for (int32_t i = 0; i < ids.n; i++) {
            json_array_append_new(list, json_integer(ids.v[i]));
        }
        json_t *row =
            json_pack("{s:o, s:s#}", "ids", list, "decoded", buf_cstr(&back), (size_t)back.len);
        if (row) {
            json_dumpf(row, stdout, JSON_COMPACT);
            printf("\n");
        } else {
            rc = err_set(ERR_INTERNAL, "decoded text is no valid JSON string");
        }
        json_decref(row);
    }
    buf_fini(&back);
    tok_ids_fini(&ids);
    return rc;
}

static int
one_line(const struct tok *tok, const char *file, int64_t line, const char *p, int64_t n) {
    char where[FILE_PATH_MAX + 32];
    json_t *row = NULL;
    snprintf(where, sizeof where, "%s:%lld", file, (long long)line);
    int rc = json_parse(where, p, n, &row);
    if (rc) {
        return rc;
    }
    const json_t *text = json_object_get(row, "text");
    if (!json_is_string(text)) {
        rc = err_set(ERR_FORMAT, "%s: want an object with a string \"text\"", where);
    } else {
        rc = print_row(tok, json_string_value(text), (int64_t)json_string_length(text));
    }
    json_decref(row);
    return rc;
}

static int all_lines(const struct tok *tok, const char *file) {
    struct buf b;
    buf_init(&b, MEM_HARNESS, TEXT_MAX);
    int rc = file_read(file, &b);
    const char *p = buf_cstr(&b);
    const char *end = p + b.len;
    for (int64_t line = 1; p < end && !rc; line++) {
        const char *nl = memchr(p, '\n', (size_t)(end - p));
        const char *stop = nl ? nl : end;
        if (stop > p) {
            rc = one_line(tok, file, line, p, stop - p);
        }
        p = nl ? nl + 1 : end;
    }
    buf_fini(&b);
    return rc;
}

static int run(const struct cmd *self, const struct cli_env *env, int argc, char **argv) {
    struct tokenize t = {0};
    struct cli_args args;
    char path[FILE_PATH_MAX];
    struct tok *tok = NULL;
    const struct cli_opt opts[] = {
        {"jsonl", CLI_STR, &t.jsonl, "FILE", "a JSON object with \"text\" on each line", 0, 0},
        {"text", CLI_STR, &t.text, "TEXT", "one text", 0, 0},
        {"json", CLI_FLAG, &t.json, NULL, "(the output is JSON lines always)", 0, 0}};
    int rc = cli_parse(self, opts, ARRAY_LEN(opts), argc, argv, 1, 1, &args);
    if (rc || args.help) {
        return rc;
    }
    if (!t.jsonl == !t.text) {
        return err_set(ERR_USAGE, "give one of --jsonl FILE and --text TEXT");
    }
    rc = paths_model(env, args.pos[0], path);
    rc = rc ? rc : toksource_open(path, &tok);
    if (!rc) {
        rc = t.text ? print_row(tok, t.text, (int64_t)strlen(t.text)) : all_lines(tok, t.jsonl);
    }
    tok_destroy(tok);
    return rc;
}

const struct cmd cmd_tokenize = {.name = "tokenize",
                                 .summary = "Token ids of texts, without added special tokens.",
                                 .usage = "MODEL (--jsonl FILE | --text TEXT)",
                                 .example = "trilemma tokenize smollm2-135m --text \"Hello world\"",
                                 .run = run};
