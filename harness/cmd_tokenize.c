/* trilemma tokenize: token ids of text, line by line.
 *
 *     --text TEXT                 a line for each token: its id, a tab, its piece
 *     --text TEXT --json, --jsonl {"ids": [...], "decoded": "..."} a text; with --pieces "pieces",
 *                                 too
 *
 * A piece is written with \xNN for bytes that are no UTF-8 and for controls, \\ for a backslash. */
#include <stdio.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/base/json.h"
#include "engine/run/toksource.h"
#include "engine/text/utf8.h"
#include "harness/cmds.h"
#include "harness/paths.h"

enum { TEXT_MAX = 1 << 30, PIECE_MAX = 1 << 20 };

struct tokenize {
    const char *jsonl;
    const char *text;
    bool json;
    bool pieces;
    bool special;
};

/* Appends the bytes of a token in writing. */
static int show_piece(const struct tok *tok, int32_t id, struct buf *b) {
    int32_t n = 0;
    const uint8_t *p = tok_piece(tok, id, &n);
    int rc = 0;
    buf_clear(b);
    for (int32_t i = 0; i < n && !rc;) {
        uint32_t cp;
        int32_t k = utf8_next(p + i, n - i, &cp);
        if (k <= 0 || cp < 0x20 || cp == 0x7f) {
            rc = buf_fmt(b, "\\x%02x", p[i]);
            k = 1;
        } else {
            rc = cp == '\\' ? buf_str(b, "\\\\") : buf_add(b, p + i, k);
        }
        i += k;
    }
    return rc;
}

static int print_table(const struct tok *tok, const struct tok_ids *ids) {
    struct buf piece;
    int rc = 0;
    buf_init(&piece, MEM_HARNESS, PIECE_MAX);
    for (int32_t i = 0; i < ids->n && !rc; i++) {
        rc = show_piece(tok, ids->v[i], &piece);
        if (!rc) {
            printf("%d\t%s\n", ids->v[i], buf_cstr(&piece));
        }
    }
    buf_fini(&piece);
    return rc;
}

/* ["piece", ...] */
static int add_pieces(const struct tok *tok, const struct tok_ids *ids, json_t *row) {
    json_t *list = json_array();
    struct buf piece;
    int rc = 0;
    buf_init(&piece, MEM_HARNESS, PIECE_MAX);
    for (int32_t i = 0; i < ids->n && !rc; i++) {
        rc = show_piece(tok, ids->v[i], &piece);
        json_array_append_new(list, json_stringn(buf_cstr(&piece), (size_t)piece.len));
    }
    json_object_set_new(row, "pieces", list);
    buf_fini(&piece);
    return rc;
}

static int print_json(const struct tok *tok, const struct tok_ids *ids, bool pieces) {
    struct buf back;
    buf_init(&back, MEM_HARNESS, TEXT_MAX);
    int rc = tok_decode(tok, ids->v, ids->n, false, &back);
    if (!rc) {
        json_t *list = json_array();
        for (int32_t i = 0; i < ids->n; i++) {
            json_array_append_new(list, json_integer(ids->v[i]));
        }
        json_t *row =
            json_pack("{s:o, s:s%}", "ids", list, "decoded", buf_cstr(&back), (size_t)back.len);
        rc = row ? 0 : err_set(ERR_INTERNAL, "decoded text is no valid JSON string");
        rc = rc || !pieces ? rc : add_pieces(tok, ids, row);
        if (!rc) {
            json_dumpf(row, stdout, JSON_COMPACT);
            printf("\n");
        }
        json_decref(row);
    }
    buf_fini(&back);
    return rc;
}

static int print_row(const struct tok *tok, const struct tokenize *t, const char *text, int64_t n) {
    struct tok_ids ids;
    uint32_t flags = TOK_PARSE_SPECIAL | (t->special ? TOK_ADD_SPECIAL : 0);
    tok_ids_init(&ids);
    int rc = tok_encode(tok, text, n, flags, &ids);
    if (!rc) {
        rc = t->text && !t->json ? print_table(tok, &ids) : print_json(tok, &ids, t->pieces);
    }
    tok_ids_fini(&ids);
    return rc;
}

static int
one_line(const struct tok *tok, const struct tokenize *t, int64_t line, const char *p, int64_t n) {
    char where[FILE_PATH_MAX + 32];
    json_t *row = NULL;
    snprintf(where, sizeof where, "%s:%lld", t->jsonl, (long long)line);
    int rc = json_parse(where, p, n, &row);
    if (rc) {
        return rc;
    }
    const json_t *text = json_object_get(row, "text");
    if (!json_is_string(text)) {
        rc = err_set(ERR_FORMAT, "%s: want an object with a string \"text\"", where);
    } else {
        rc = print_row(tok, t, json_string_value(text), (int64_t)json_string_length(text));
    }
    json_decref(row);
    return rc;
}

static int all_lines(const struct tok *tok, const struct tokenize *t) {
    struct buf b;
    buf_init(&b, MEM_HARNESS, TEXT_MAX);
    int rc = file_read(t->jsonl, &b);
    const char *p = buf_cstr(&b);
    const char *end = p + b.len;
    for (int64_t line = 1; p < end && !rc; line++) {
        const char *nl = memchr(p, '\n', (size_t)(end - p));
        const char *stop = nl ? nl : end;
        if (stop > p) {
            rc = one_line(tok, t, line, p, stop - p);
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
        {"text", CLI_STR, &t.text, "TEXT", "one text; a line for each token: id and piece", 0, 0},
        {"json", CLI_FLAG, &t.json, NULL, "one JSON object for --text, too", 0, 0},
        {"pieces", CLI_FLAG, &t.pieces, NULL, "the pieces in the JSON, too", 0, 0},
        {"special", CLI_FLAG, &t.special, NULL, "add what the tokenizer adds (BOS, EOS)", 0, 0}};
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
        rc = t.text ? print_row(tok, &t, t.text, (int64_t)strlen(t.text)) : all_lines(tok, &t);
    }
    tok_destroy(tok);
    return rc;
}

const struct cmd cmd_tokenize = {.name = "tokenize",
                                 .summary = "Token ids and pieces of texts.",
                                 .usage = "MODEL (--jsonl FILE | --text TEXT) [--json]",
                                 .example = "trilemma tokenize smollm2-135m --text \"Hello world\"",
                                 .run = run};
