#include "harness/session.h"

#include "engine/base/err.h"
#include "engine/base/json.h"
#include "engine/base/str.h"
#include "harness/paths.h"

int session_model(const struct cli_env *env, const char *name, struct session *s) {
    *s = (struct session){0};
    int rc = paths_model(env, name, s->path);
    return rc ? rc : model_open(s->path, NULL, &s->model);
}

int session_kv_type(const struct session_opts *o, const struct weights *w, enum dtype *type) {
    static const struct {
        const char *name;
        enum dtype type;
    } types[] = {
        {"f32", DTYPE_F32}, {"f16", DTYPE_F16}, {"bf16", DTYPE_BF16}, {"f8", DTYPE_F8_E4M3}};
    bool fused = str_eq(o->backend ? o->backend : "", "cuda") && !o->variant;
    if (!o->kv_type) {
        *type = o->kv_f16    ? DTYPE_F16
                : w->q.kv_f8 ? DTYPE_F8_E4M3
                : fused      ? DTYPE_BF16 /* what its fused decoder keeps */
                             : DTYPE_F32;
        return 0;
    }
    for (int32_t i = 0; i < ARRAY_LEN(types); i++) {
        if (str_eq(types[i].name, o->kv_type) && (!o->kv_f16 || types[i].type == DTYPE_F16)) {
            *type = types[i].type;
            return 0;
        }
    }
    return err_set(ERR_USAGE, "--kv-type \"%s\"%s; known are f32, f16, bf16, f8", o->kv_type,
                   o->kv_f16 ? " beside --kv-f16" : "");
}

int session_engine(struct session *s,
                   const struct session_opts *o,
                   const struct engine_opts *base) {
    struct engine_opts eo = base ? *base : (struct engine_opts){0};
    eo.backend = o->backend;
    eo.variant = o->variant;
    eo.n_threads = o->n_threads;
    eo.batch_tok_max = o->batch_tok_max ? o->batch_tok_max : eo.batch_tok_max;
    eo.ctx_max = o->ctx_max ? o->ctx_max : eo.ctx_max;
    eo.kv_bytes = o->kv_bytes ? o->kv_bytes : eo.kv_bytes;
    eo.no_prefix_cache = o->no_prefix_cache;
    int rc = session_kv_type(o, s->model->weights, &eo.kv_type);
    return rc ? rc : engine_open(s->model->weights, &eo, &s->engine);
}

void session_close(struct session *s) {
    engine_close(s->engine);
    model_close(s->model);
    *s = (struct session){0};
}

int session_read_ids(const char *path, json_t **out) {
    json_t *j = NULL;
    int rc = json_read(path, &j);
    if (rc) {
        return rc;
    }
    if (!json_is_array(j) || json_array_size(j) == 0) {
        json_decref(j);
        return err_set(ERR_FORMAT, "%s: want a JSON list of token ids, or a list of such lists",
                       path);
    }
    if (!json_is_array(json_array_get(j, 0))) {
        json_t *outer = json_array();
        json_array_append_new(outer, j);
        j = outer;
    }
    *out = j;
    return 0;
}

int session_one_list(const char *path, const json_t *lists, const json_t **out) {
    if (json_array_size(lists) != 1) {
        return err_set(ERR_FORMAT, "%s: %zu lists of token ids, want one", path,
                       json_array_size(lists));
    }
    *out = json_array_get(lists, 0);
    return 0;
}

int session_ids(const char *where, const json_t *list, int32_t vocab, struct tok_ids *ids) {
    if (!json_is_array(list) || json_array_size(list) == 0) {
        return err_set(ERR_FORMAT, "%s: %s, want a list of token ids", where,
                       json_is_array(list) ? "an empty list" : "an entry that is no list");
    }
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *v = json_array_get(list, i);
        if (!json_is_integer(v)) {
            return err_set(ERR_FORMAT, "%s: element %zu is no whole number, want a token id", where,
                           i);
        }
        if (json_integer_value(v) < 0 || json_integer_value(v) >= vocab) {
            return err_set(ERR_RANGE, "%s: element %zu is %lld, the vocabulary has 0..%d", where, i,
                           (long long)json_integer_value(v), vocab - 1);
        }
        int rc = tok_ids_add(ids, (int32_t)json_integer_value(v));
        if (rc) {
            return rc;
        }
    }
    return 0;
}
