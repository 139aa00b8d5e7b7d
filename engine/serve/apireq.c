/* One table says which field a body may hold, of which type, in which range, and where it goes.
 *
 * Laws:
 *  1. What is not in the table is refused by name, with the nearest name that is.
 *  2. A field that would change the answer and cannot be honoured is refused, unless it has the
 *     value that asks for nothing.
 *  3. null is the same as absent.
 * src: OpenAI API reference (chat and completions, 2026); vLLM's additions: top_k, min_p,
 * min_tokens, ignore_eos, stop_token_ids */
#include "engine/serve/apireq.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/base/json.h"
#include "engine/base/str.h"
#include "engine/serve/apireq_int.h"

enum {
    BOTH = APIREQ_CHAT | APIREQ_COMPLETION,
    TEXTS = APIREQ_TOKENIZE | APIREQ_DETOKENIZE,
    ANY = BOTH | TEXTS,
    NAMES_MAX = 64
};

enum field_type {
    F_FLOAT,
    F_INT,
    F_BOOL,
    F_CALL,
    F_IGNORED_STR,
    F_IGNORED_OBJ,
    F_IGNORED_BOOL,
    F_REFUSED
};

struct field {
    const char *name;
    int32_t kinds;
    enum field_type type;
    double lo;
    double hi;
    size_t at; /* offset in struct apireq: float, int32_t or bool by type */
    int (*call)(struct apibody *b, const char *name, const json_t *v);
};

static int wrong(struct apibody *b, const char *name, const json_t *v, const char *want) {
    static const char *const types[] = {"an object", "a list", "a string", "a whole number",
                                        "a number",  "true",   "false",    "null"};
    return apierr_set(b->e, 400, name, "%s is %s, want %s", name, types[json_typeof(v)], want);
}

static int take_model(struct apibody *b, const char *name, const json_t *v) {
    if (!json_is_string(v)) {
        return wrong(b, name, v, "a string");
    }
    if (!str_eq(json_string_value(v), b->env->name)) {
        apierr_set(b->e, 404, name, "the model \"%.200s\" does not exist; served is \"%.200s\"",
                   json_string_value(v), b->env->name);
        b->e->code = "model_not_found";
        return ERR_NOTFOUND;
    }
    return 0;
}

static int take_prompt(struct apibody *b, const char *name, const json_t *v) {
    (void)name;
    b->prompt = v;
    return 0;
}

static int take_messages(struct apibody *b, const char *name, const json_t *v) {
    (void)name;
    b->messages = v;
    return 0;
}

static int take_tokens(struct apibody *b, const char *name, const json_t *v) {
    (void)name;
    b->tokens = v;
    return 0;
}

static int take_seed(struct apibody *b, const char *name, const json_t *v) {
    if (!json_is_integer(v)) {
        return wrong(b, name, v, "a whole number");
    }
    b->r->sampling.seed = (uint64_t)json_integer_value(v);
    b->r->seeded = true;
    return 0;
}

static int take_max(struct apibody *b, const char *name, const json_t *v) {
    if (!json_is_integer(v)) {
        return wrong(b, name, v, "a whole number");
    }
    if (json_integer_value(v) < 1 || json_integer_value(v) > INT32_MAX) {
        return apierr_set(b->e, 400, name, "%s is %lld, want 1..%d", name,
                          (long long)json_integer_value(v), INT32_MAX);
    }
    if (b->has_max && b->r->max_new != json_integer_value(v)) {
        return apierr_set(b->e, 400, name, "max_tokens and max_completion_tokens differ, want one");
    }
    b->has_max = true;
    b->r->max_new = (int32_t)json_integer_value(v);
    return 0;
}

/* -1 is vLLM's way to say all. */
static int take_top_k(struct apibody *b, const char *name, const json_t *v) {
    if (!json_is_integer(v)) {
        return wrong(b, name, v, "a whole number");
    }
    if (json_integer_value(v) < -1 || json_integer_value(v) > INT32_MAX) {
        return apierr_set(b->e, 400, name, "%s is %lld, want -1 (all) or more", name,
                          (long long)json_integer_value(v));
    }
    b->r->sampling.top_k = (int32_t)i64_max(json_integer_value(v), 0);
    return 0;
}

static int take_top_p(struct apibody *b, const char *name, const json_t *v) {
    double p = json_number_value(v);
    if (!json_is_number(v)) {
        return wrong(b, name, v, "a number");
    }
    if (!(p > 0 && p <= 1)) {
        return apierr_set(b->e, 400, name, "%s is %g, want more than 0 and at most 1", name, p);
    }
    b->r->sampling.top_p = fmaxf((float)p, 0x1p-100f); /* why: 0 would mean all */
    return 0;
}

static int take_logprobs_flag(struct apibody *b, const char *name, const json_t *v) {
    if (!json_is_boolean(v)) {
        return wrong(b, name, v, "true or false");
    }
    b->r->logprobs = json_is_true(v);
    return 0;
}

/* The completions' way: how many alternatives. */
static int take_logprobs_count(struct apibody *b, const char *name, const json_t *v) {
    if (!json_is_integer(v)) {
        return wrong(b, name, v, "a whole number");
    }
    if (json_integer_value(v) < 0 || json_integer_value(v) > APIREQ_TOP_MAX) {
        return apierr_set(b->e, 400, name, "%s is %lld, want 0..%d", name,
                          (long long)json_integer_value(v), APIREQ_TOP_MAX);
    }
    b->r->logprobs = true;
    b->r->n_top = (int32_t)json_integer_value(v);
    return 0;
}

static int take_stop(struct apibody *b, const char *name, const json_t *v) {
    size_t n = json_is_array(v) ? json_array_size(v) : 1;
    if (!json_is_array(v) && !json_is_string(v)) {
        return wrong(b, name, v, "a string or a list of strings");
    }
    if (n > STOPWORD_MAX) {
        return apierr_set(b->e, 400, name, "%s holds %zu strings, want at most %d", name, n,
                          STOPWORD_MAX);
    }
    for (size_t i = 0; i < n; i++) {
        const json_t *s = json_is_array(v) ? json_array_get(v, i) : v;
        size_t len = json_string_length(s);
        if (!json_is_string(s) || len < 1 || len > STOPWORD_BYTES_MAX) {
            return apierr_set(b->e, 400, name, "%s[%zu] is %s, want a string of 1..%d bytes", name,
                              i, json_is_string(s) ? "empty or too long" : "no string",
                              STOPWORD_BYTES_MAX);
        }
        int rc = stopwords_add(&b->r->stop, json_string_value(s), (int64_t)len);
        if (rc) {
            return apierr_from(b->e, rc, name);
        }
    }
    return 0;
}

static int take_stop_ids(struct apibody *b, const char *name, const json_t *v) {
    int32_t most = SEQ_STOP_MAX - b->env->n_eos;
    if (!json_is_array(v) || (int64_t)json_array_size(v) > most) {
        return apierr_set(b->e, 400, name, "%s: want a list of at most %d token ids", name, most);
    }
    for (size_t i = 0; i < json_array_size(v); i++) {
        const json_t *id = json_array_get(v, i);
        if (!json_is_integer(id) || json_integer_value(id) < 0 ||
            json_integer_value(id) >= b->env->vocab) {
            return apierr_set(b->e, 400, name, "%s[%zu] is no token id 0..%d", name, i,
                              b->env->vocab - 1);
        }
        b->r->stop_id[b->r->n_stop_id++] = (int32_t)json_integer_value(id);
    }
    return 0;
}

static int take_stream_options(struct apibody *b, const char *name, const json_t *v) {
    const char *key = NULL;
    const json_t *flag = NULL;
    if (!json_is_object(v)) {
        return wrong(b, name, v, "an object");
    }
    void *iter = json_object_iter((json_t *)(uintptr_t)v);
    for (; iter; iter = json_object_iter_next((json_t *)(uintptr_t)v, iter)) {
        key = json_object_iter_key(iter);
        flag = json_object_iter_value(iter);
        bool whole = str_eq(key, "include_usage");
        bool each = str_eq(key, "continuous_usage_stats");
        if (!(whole || each) || !(json_is_boolean(flag) || json_is_null(flag))) {
            return apierr_set(b->e, 400, name,
                              "%s.%.40s: want include_usage or continuous_usage_stats, true or "
                              "false",
                              name, key);
        }
        *(whole ? &b->r->usage : &b->r->each) = json_is_true(flag);
    }
    return 0;
}

static int take_response_format(struct apibody *b, const char *name, const json_t *v) {
    const char *type = json_string_value(json_object_get(v, "type"));
    return type && str_eq(type, "text") && json_object_size(v) == 1
               ? 0
               : apierr_set(b->e, 400, name, "%s is not supported, want {\"type\": \"text\"}",
                            name);
}

static int take_only_none(struct apibody *b, const char *name, const json_t *v) {
    const char *s = json_string_value(v);
    return s && str_eq(s, "none")
               ? 0
               : apierr_set(b->e, 400, name, "%s is not supported, want \"none\" or nothing", name);
}

static int take_service_tier(struct apibody *b, const char *name, const json_t *v) {
    const char *s = json_string_value(v);
    return s && (str_eq(s, "auto") || str_eq(s, "default"))
               ? 0
               : apierr_set(b->e, 400, name, "%s is not supported, want \"auto\"", name);
}

static int take_best_of(struct apibody *b, const char *name, const json_t *v) {
    return json_is_integer(v) && json_integer_value(v) == 1
               ? 0
               : apierr_set(b->e, 400, name, "%s is not supported, want 1 or nothing", name);
}

static int take_add_special(struct apibody *b, const char *name, const json_t *v) {
    if (!json_is_boolean(v)) {
        return wrong(b, name, v, "true or false");
    }
    b->r->no_special = json_is_false(v);
    return 0;
}

#define AT(member) offsetof(struct apireq, member)
static const struct field fields[] = {
    {"model", ANY, F_CALL, 0, 0, 0, take_model},
    {"messages", APIREQ_CHAT | APIREQ_TOKENIZE, F_CALL, 0, 0, 0, take_messages},
    {"prompt", APIREQ_COMPLETION | APIREQ_TOKENIZE, F_CALL, 0, 0, 0, take_prompt},
    {"tokens", APIREQ_DETOKENIZE, F_CALL, 0, 0, 0, take_tokens},
    {"add_special_tokens", APIREQ_TOKENIZE, F_CALL, 0, 0, 0, take_add_special},
    {"max_tokens", BOTH, F_CALL, 0, 0, 0, take_max},
    {"max_completion_tokens", APIREQ_CHAT, F_CALL, 0, 0, 0, take_max},
    {"min_tokens", BOTH, F_INT, 0, INT32_MAX, AT(min_new), NULL},
    {"ignore_eos", BOTH, F_BOOL, 0, 0, AT(ignore_eos), NULL},
    {"temperature", BOTH, F_FLOAT, 0, 2, AT(sampling.temperature), NULL},
    {"top_p", BOTH, F_CALL, 0, 0, 0, take_top_p},
    {"top_k", BOTH, F_CALL, 0, 0, 0, take_top_k},
    {"min_p", BOTH, F_FLOAT, 0, 1, AT(sampling.min_p), NULL},
    {"presence_penalty", BOTH, F_FLOAT, -2, 2, AT(sampling.presence), NULL},
    {"frequency_penalty", BOTH, F_FLOAT, -2, 2, AT(sampling.frequency), NULL},
    {"seed", BOTH, F_CALL, 0, 0, 0, take_seed},
    {"stop", BOTH, F_CALL, 0, 0, 0, take_stop},
    {"stop_token_ids", BOTH, F_CALL, 0, 0, 0, take_stop_ids},
    {"n", BOTH, F_INT, 1, APIREQ_CHOICES_MAX, AT(n), NULL},
    {"stream", BOTH, F_BOOL, 0, 0, AT(stream), NULL},
    {"stream_options", BOTH, F_CALL, 0, 0, 0, take_stream_options},
    {"logprobs", APIREQ_CHAT, F_CALL, 0, 0, 0, take_logprobs_flag},
    {"logprobs", APIREQ_COMPLETION, F_CALL, 0, 0, 0, take_logprobs_count},
    {"top_logprobs", APIREQ_CHAT, F_INT, 0, APIREQ_TOP_MAX, AT(n_top), NULL},
    {"user", BOTH, F_IGNORED_STR, 0, 0, 0, NULL},
    {"metadata", BOTH, F_IGNORED_OBJ, 0, 0, 0, NULL},
    {"parallel_tool_calls", APIREQ_CHAT, F_IGNORED_BOOL, 0, 0, 0, NULL},
    {"service_tier", APIREQ_CHAT, F_CALL, 0, 0, 0, take_service_tier},
    {"response_format", BOTH, F_CALL, 0, 0, 0, take_response_format},
    {"tool_choice", APIREQ_CHAT, F_CALL, 0, 0, 0, take_only_none},
    {"function_call", APIREQ_CHAT, F_CALL, 0, 0, 0, take_only_none},
    {"best_of", APIREQ_COMPLETION, F_CALL, 0, 0, 0, take_best_of},
    {"tools", APIREQ_CHAT, F_REFUSED, 0, 0, 0, NULL},
    {"functions", APIREQ_CHAT, F_REFUSED, 0, 0, 0, NULL},
    {"logit_bias", BOTH, F_REFUSED, 0, 0, 0, NULL},
    {"echo", APIREQ_COMPLETION, F_REFUSED, 0, 0, 0, NULL},
    {"suffix", APIREQ_COMPLETION, F_REFUSED, 0, 0, 0, NULL},
    {"store", APIREQ_CHAT, F_REFUSED, 0, 0, 0, NULL},
};
#undef AT

static int take_number(struct apibody *b, const struct field *f, const json_t *v) {
    double x = json_number_value(v);
    char *dst = (char *)b->r + f->at;
    if (f->type == F_INT ? !json_is_integer(v) : !json_is_number(v)) {
        return wrong(b, f->name, v, f->type == F_INT ? "a whole number" : "a number");
    }
    if (!(x >= f->lo && x <= f->hi)) {
        return apierr_set(b->e, 400, f->name, "%s is %g, want %g..%.10g", f->name, x, f->lo, f->hi);
    }
    if (f->type == F_INT) {
        int32_t i = (int32_t)json_integer_value(v);
        memcpy(dst, &i, sizeof i);
    } else {
        float y = (float)x;
        memcpy(dst, &y, sizeof y);
    }
    return 0;
}

/* Does the value ask for nothing? */
static bool is_idle(const json_t *v) {
    return json_is_false(v) || (json_is_array(v) && json_array_size(v) == 0) ||
           (json_is_object(v) && json_object_size(v) == 0) ||
           (json_is_string(v) && json_string_length(v) == 0);
}

static int take_field(struct apibody *b, const struct field *f, const json_t *v) {
    switch (f->type) {
    case F_CALL:
        return f->call(b, f->name, v);
    case F_FLOAT:
    case F_INT:
        return take_number(b, f, v);
    case F_BOOL:
        if (json_is_boolean(v)) {
            bool flag = json_is_true(v);
            memcpy((char *)b->r + f->at, &flag, sizeof flag);
            return 0;
        }
        return wrong(b, f->name, v, "true or false");
    case F_IGNORED_STR:
        return json_is_string(v) ? 0 : wrong(b, f->name, v, "a string");
    case F_IGNORED_OBJ:
        return json_is_object(v) ? 0 : wrong(b, f->name, v, "an object");
    case F_IGNORED_BOOL:
        return json_is_boolean(v) ? 0 : wrong(b, f->name, v, "true or false");
    case F_REFUSED:
        break;
    }
    return is_idle(v)
               ? 0
               : apierr_set(b->e, 400, f->name, "%s is not supported by this server", f->name);
}

static int unknown(struct apibody *b, const char *name) {
    const char *names[NAMES_MAX];
    int32_t n = 0;
    for (int32_t i = 0; i < ARRAY_LEN(fields) && n < NAMES_MAX; i++) {
        if (fields[i].kinds & (int32_t)b->r->kind) {
            names[n++] = fields[i].name;
        }
    }
    const char *near = str_nearest(name, names, n);
    return apierr_set(b->e, 400, name, "unknown field \"%.60s\"%s%s%s", name,
                      near ? ", did you mean \"" : "", near ? near : "", near ? "\"?" : "");
}

static int take_fields(struct apibody *b, json_t *body) {
    const char *key = NULL;
    json_t *v = NULL;
    json_object_foreach(body, key, v) {
        const struct field *f = NULL;
        for (int32_t i = 0; i < ARRAY_LEN(fields) && !f; i++) {
            bool here = (fields[i].kinds & (int32_t)b->r->kind) && str_eq(fields[i].name, key);
            f = here ? &fields[i] : NULL;
        }
        int rc = !f ? unknown(b, key) : json_is_null(v) ? 0 : take_field(b, f, v);
        if (rc) {
            return rc;
        }
    }
    return 0;
}

/* What fields say about each other. */
static int check_together(struct apibody *b) {
    struct apireq *r = b->r;
    r->each = r->each && r->usage; /* as in vLLM */
    if (r->usage && !r->stream) {
        return apierr_set(b->e, 400, "stream_options", "stream_options is given without stream");
    }
    if (r->kind == APIREQ_CHAT && r->n_top > 0 && !r->logprobs) {
        return apierr_set(b->e, 400, "top_logprobs", "top_logprobs is %d without logprobs",
                          r->n_top);
    }
    if (r->n_prompt * r->n > APIREQ_CHOICES_MAX) {
        return apierr_set(b->e, 400, "n", "%d prompts with n %d are %d choices, want at most %d",
                          r->n_prompt, r->n, r->n_prompt * r->n, APIREQ_CHOICES_MAX);
    }
    int32_t longest = 0;
    for (int32_t i = 0; i < r->n_prompt; i++) {
        longest = i32_max(longest, r->prompt[i].n);
    }
    int32_t room = b->env->ctx_max - longest;
    if (!b->has_max) {
        r->max_new = r->kind == APIREQ_CHAT ? room : i32_min(APIREQ_COMPLETION_TOK, room);
    }
    if (r->max_new > room) {
        return apierr_set(b->e, 400, "max_tokens",
                          "max_tokens is %d behind a prompt of %d tokens; the context holds %d",
                          r->max_new, longest, b->env->ctx_max);
    }
    if (r->min_new > r->max_new) {
        return apierr_set(b->e, 400, "min_tokens", "min_tokens is %d, max_tokens %d", r->min_new,
                          r->max_new);
    }
    return 0;
}

int apireq_parse(enum apireq_kind kind,
                 const struct apireq_env *env,
                 const char *text,
                 int64_t n,
                 struct apireq *r,
                 struct apierr *e) {
    struct apibody b = {.env = env, .r = r, .e = e};
    json_t *body = NULL;
    *e = (struct apierr){0};
    *r = (struct apireq){.kind = kind, .n = 1, .sampling = {.temperature = 1}};
    r->n_stop_id = i32_min(env->n_eos, SEQ_STOP_MAX);
    for (int32_t i = 0; i < r->n_stop_id; i++) {
        r->stop_id[i] = env->eos[i];
    }
    int rc = json_parse("body", text, n, &body);
    if (rc) {
        apierr_from(e, rc, NULL);
        return ERR_FORMAT;
    }
    rc = json_is_object(body) ? take_fields(&b, body)
                              : apierr_set(e, 400, NULL, "the body is no JSON object");
    rc = rc ? rc : apiprompt_make(&b);
    rc = rc || (kind & TEXTS) ? rc : check_together(&b);
    json_decref(body);
    if (rc) {
        apireq_fini(r);
    }
    return rc;
}

void apireq_fini(struct apireq *r) {
    for (int32_t i = 0; i < r->n_prompt; i++) {
        tok_ids_fini(&r->prompt[i]);
    }
    tok_ids_fini(&r->tokens);
    stopwords_fini(&r->stop);
    *r = (struct apireq){0};
}
