/* trilemma render: the chat template's output as it is. */
#include <stdio.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/base/json.h"
#include "engine/run/model.h"
#include "engine/run/toksource.h"
#include "harness/cmds.h"
#include "harness/paths.h"

enum { RENDER_MAX = 64 << 20 };

struct render {
    const char *template_file;
    const char *messages;
    bool json;
};

/* The template's source: a file, or what came with a model's tokenizer. */
static int find_source(const struct cli_env *env,
                       const struct render *r,
                       const char *model,
                       struct buf *src,
                       struct tok **tok) {
    char path[FILE_PATH_MAX];
    if (r->template_file) {
        return file_read(r->template_file, src);
    }
    int rc = paths_model(env, model, path);
    rc = rc ? rc : toksource_open(path, tok);
    if (rc) {
        return rc;
    }
    const char *text = tok_chat_template(*tok);
    return text ? buf_str(src, text) : err_set(ERR_NOTFOUND, "%s: no chat template", path);
}

/* The file's object over the tokenizer's own variables. */
static int make_vars(const char *file, const struct tok *tok, json_t **out) {
    json_t *given = NULL;
    int rc = json_read(file, &given);
    if (rc) {
        return rc;
    }
    if (!json_is_object(given) || !json_is_array(json_object_get(given, "messages"))) {
        json_decref(given);
        return err_set(ERR_FORMAT, "%s: want a JSON object with a list \"messages\"", file);
    }
    json_t *vars =
        tok ? model_chat_vars(tok, json_object_get(given, "messages"), false) : json_object();
    json_object_update(vars, given);
    json_decref(given);
    *out = vars;
    return 0;
}

static int print_text(const struct buf *text, bool json) {
    if (!json) {
        fwrite(buf_cstr(text), 1, (size_t)text->len, stdout);
        return 0;
    }
    json_t *o = json_pack("{s:s#}", "text", buf_cstr(text), (size_t)text->len);
    if (!o) {
        return err_set(ERR_INTERNAL, "the rendered text is no valid UTF-8");
    }
    json_dumpf(o, stdout, JSON_COMPACT);
    printf("\n");
    json_decref(o);
    return 0;
}

static int run(const struct cmd *self, const struct cli_env *env, int argc, char **argv) {
    struct render r = {0};
    struct cli_args args;
    struct buf src;
    struct buf text;
    struct tok *tok = NULL;
    struct chat *chat = NULL;
    json_t *vars = NULL;
    const struct cli_opt opts[] = {
        {"template", CLI_STR, &r.template_file, "FILE", "a Jinja template instead of a model's", 0,
         0},
        {"messages", CLI_STR, &r.messages, "FILE",
         "JSON object: messages, tools, add_generation_prompt, ...", 0, 0},
        {"json", CLI_FLAG, &r.json, NULL, "{\"text\": ...} instead of the bare text", 0, 0}};
    int rc = cli_parse(self, opts, ARRAY_LEN(opts), argc, argv, 0, 1, &args);
    if (rc || args.help) {
        return rc;
    }
    if ((args.n_pos == 1) == (r.template_file != NULL) || !r.messages) {
        return err_set(ERR_USAGE, "give MODEL or --template FILE, and --messages FILE");
    }
    buf_init(&src, MEM_HARNESS, RENDER_MAX);
    buf_init(&text, MEM_HARNESS, RENDER_MAX);
    rc = find_source(env, &r, args.pos[0], &src, &tok);
    rc = rc ? rc
            : chat_compile(r.template_file ? r.template_file : args.pos[0], buf_cstr(&src), src.len,
                           &chat);
    rc = rc ? rc : make_vars(r.messages, tok, &vars);
    rc = rc ? rc : chat_render(chat, vars, clock_wall_ns() / 1000000000, &text);
    rc = rc ? rc : print_text(&text, r.json);
    json_decref(vars);
    chat_free(chat);
    tok_destroy(tok);
    buf_fini(&src);
    buf_fini(&text);
    return rc;
}

const struct cmd cmd_render = {.name = "render",
                               .summary = "The chat template's output for given messages.",
                               .usage = "(MODEL | --template FILE) --messages FILE",
                               .example = "trilemma render smollm2-135m --messages chat.json",
                               .run = run};
