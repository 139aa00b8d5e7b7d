/* A model with an engine on it, as several verbs need it, and the options that choose both. */
#ifndef HARNESS_SESSION_H
#define HARNESS_SESSION_H

#include <jansson.h>

#include "engine/run/engine.h"
#include "engine/run/model.h"
#include "harness/cli.h"

/* The options shared by verbs that run the engine. */
struct session_opts {
    const char *backend;
    const char *variant;
    int32_t n_threads;
    int32_t batch_tok_max;
    int32_t ctx_max;
    int64_t kv_bytes;
    bool kv_f16;
    const char *kv_type; /* "f32", "f16", "f8"; NULL: kv_f16, else what the checkpoint asks for */
    bool no_prefix_cache;
};

/* Table rows for cli_parse. */
#define SESSION_OPTS(o)                                                                            \
    {"backend", CLI_STR, &(o).backend, "NAME", "ref, cpu or null [cpu]", 0, 0},                    \
        {"variant", CLI_STR, &(o).variant, "NAME", "cpu: sse2, avx2 or avx512 [best]", 0, 0},      \
        {"threads", CLI_I32, &(o).n_threads, "N", "compute threads [one per core]", 1, 1024},      \
        {"batch-tokens", CLI_I32, &(o).batch_tok_max, "N", "token budget of a step [512]", 1,      \
         1 << 20},                                                                                 \
        {"ctx", CLI_I32, &(o).ctx_max, "N", "longest sequence [the model's]", 1, 1 << 24},         \
        {"kv-memory", CLI_BYTES, &(o).kv_bytes, "SIZE", "KV cache, e.g. 512MiB", 0, 0},            \
        {"kv-type",                                                                                \
         CLI_STR,                                                                                  \
         &(o).kv_type,                                                                             \
         "TYPE",                                                                                   \
         "cache: f32, f16, bf16, f8 [f8 with a model's scales, bf16 on cuda, else f32]",           \
         0,                                                                                        \
         0},                                                                                       \
        {"kv-f16", CLI_FLAG, &(o).kv_f16, NULL, "the same as --kv-type f16", 0, 0}, {              \
        "no-prefix-cache", CLI_FLAG, &(o).no_prefix_cache, NULL, "compute every prompt anew", 0, 0 \
    }

struct session {
    struct model *model;   /* own */
    struct engine *engine; /* own; NULL until session_engine */
    char path[4096];       /* where the model was found */
};

/* Opens the model by path or fetched name. own: caller, session_close */
int session_model(const struct cli_env *env, const char *name, struct session *s);

/* The type of the cache: as given, else F8_E4M3 for weights with a kv_cache_scheme, else F32.
 * err: ERR_USAGE for another name, or for two that differ */
int session_kv_type(const struct session_opts *o, const struct weights *w, enum dtype *type);

/* Opens the engine on it; extra options may be set in base (NULL: none). */
int session_engine(struct session *s, const struct session_opts *o, const struct engine_opts *base);

void session_close(struct session *s);

/* Reads a file that holds one JSON list of ids, or a list of lists.
 * out: array of arrays of whole numbers. err: ERR_FORMAT, ... own: caller, json_decref */
int session_read_ids(const char *path, json_t **out);

/* The only list of a file that must hold one. err: ERR_FORMAT. own: lists' */
int session_one_list(const char *path, const json_t *lists, const json_t **out);

/* Appends one JSON list of ids, each below vocab.
 * err: ERR_FORMAT (no list, empty, no whole number), ERR_RANGE; where and element are named
 * own: ids of caller */
int session_ids(const char *where, const json_t *list, int32_t vocab, struct tok_ids *ids);

#endif
