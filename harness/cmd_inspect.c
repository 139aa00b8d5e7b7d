/* trilemma inspect: what is in a checkpoint. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/base/str.h"
#include "engine/model/arch.h"
#include "engine/run/model.h"
#include "harness/cmds.h"
#include "harness/paths.h"

struct inspect {
    bool json;
    bool tensors;
};

static json_t *tensor_list(const struct ckpt *c) {
    json_t *list = json_array();
    for (int32_t i = 0; i < c->dir.n; i++) {
        const struct tensor *t = &c->dir.items[i];
        json_t *shape = json_array();
        for (int32_t d = 0; d < t->n_dim; d++) {
            json_array_append_new(shape, json_integer(t->dim[d]));
        }
        json_array_append_new(list, json_pack("{s:s, s:s, s:o, s:I}", "name", t->name, "dtype",
                                              dtype_info(t->type)->name, "shape", shape, "bytes",
                                              (json_int_t)t->bytes));
    }
    return list;
}

static json_t *type_sums(const struct ckpt *c) {
    json_t *o = json_object();
    for (int32_t i = 0; i < c->dir.n; i++) {
        const struct tensor *t = &c->dir.items[i];
        const char *name = dtype_info(t->type)->name;
        json_int_t before = json_integer_value(json_object_get(o, name));
        json_object_set_new(o, name, json_integer(before + t->bytes));
    }
    return o;
}

static json_t *describe(const struct model *m) {
    const struct model_cfg *c = &m->weights->cfg;
    const struct weights *w = m->weights;
    return json_pack(
        "{s:s, s:s, s:s, s:I, s:i, s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:b, s:I, s:I, "
        "s:f, s:I, s:o, s:o, s:o, s:o}",
        "path", m->ckpt->path, "container", m->ckpt->gguf ? "gguf" : "safetensors", "family",
        c->family, "file_bytes", (json_int_t)m->ckpt->file_bytes, "n_tensors", m->ckpt->dir.n,
        "scheme", w->scheme, "layers", c->n_layer, "hidden", c->hidden, "ffn", c->ffn, "heads",
        c->n_head, "kv_heads", c->n_kv_head, "head_dim", c->head_dim, "vocab", c->vocab, "context",
        c->ctx_max, "tied", c->tied, "parameters", (json_int_t)w->n_param, "weight_bytes",
        (json_int_t)w->bytes, "bits_per_weight", 8.0 * (double)w->bytes / (double)w->n_param,
        "kv_bytes_per_token", (json_int_t)model_cfg_kv_bytes_per_token(c, DTYPE_F32),
        "bytes_by_dtype", type_sums(m->ckpt), "tokenizer_vocab",
        m->tok ? json_integer(tok_n_vocab(m->tok)) : json_null(), "tokenizer_error",
        m->tok ? json_null() : json_string(m->tok_error), "chat_template_error",
        m->chat ? json_null() : json_string(m->chat_error));
}

static void print_text(const json_t *o, const json_t *tensors) {
    const char *key = NULL;
    json_t *v = NULL;
    size_t i = 0;
    json_object_foreach((json_t *)(uintptr_t)o, key, v) {
        char *text = json_dumps(v, JSON_ENCODE_ANY | JSON_REAL_PRECISION(6));
        printf("%-20s %s\n", key, json_is_string(v) ? json_string_value(v) : (text ? text : "?"));
        free(text); /* why: memory of jansson, not of mem_* */
    }
    json_array_foreach((json_t *)(uintptr_t)tensors, i, v) {
        char *shape = json_dumps(json_object_get(v, "shape"), JSON_COMPACT);
        printf("  %-60s %-6s %s\n", json_string_value(json_object_get(v, "name")),
               json_string_value(json_object_get(v, "dtype")), shape ? shape : "?");
        free(shape); /* why: memory of jansson, not of mem_* */
    }
}

static int run(const struct cmd *self, const struct cli_env *env, int argc, char **argv) {
    struct inspect o = {0};
    struct cli_args args;
    char path[FILE_PATH_MAX];
    struct model *m = NULL;
    const struct cli_opt opts[] = {
        {"tensors", CLI_FLAG, &o.tensors, NULL, "list every tensor", 0, 0},
        {"json", CLI_FLAG, &o.json, NULL, "JSON instead of text", 0, 0}};
    int rc = cli_parse(self, opts, ARRAY_LEN(opts), argc, argv, 1, 1, &args);
    if (rc || args.help) {
        return rc;
    }
    rc = paths_model(env, args.pos[0], path);
    rc = rc ? rc : model_open(path, NULL, &m);
    if (rc) {
        return rc;
    }
    json_t *d = describe(m);
    json_t *tensors = o.tensors ? tensor_list(m->ckpt) : NULL;
    if (!d) {
        rc = err_set(ERR_INTERNAL, "%s: a text in the checkpoint is no valid UTF-8", path);
    } else if (o.json) {
        if (tensors) {
            json_object_set(d, "tensors", tensors);
        }
        json_dumpf(d, stdout, JSON_COMPACT);
        printf("\n");
    } else {
        print_text(d, tensors);
    }
    json_decref(tensors);
    json_decref(d);
    model_close(m);
    return rc;
}

const struct cmd cmd_inspect = {
    .name = "inspect",
    .summary = "What is in a checkpoint: shapes, types, bits per weight, tokenizer, template.",
    .usage = "MODEL [--tensors] [--json]",
    .example = "trilemma inspect smollm2-135m --tensors",
    .run = run};
