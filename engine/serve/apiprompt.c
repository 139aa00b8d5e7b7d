/* Prompts: messages through the chat template, strings through the tokenizer, lists of ids as they
 * are. Every id is one of the vocabulary, every prompt leaves room for a token in the context. */
#include <string.h>

#include "engine/base/err.h"
#include "engine/serve/apireq_int.h"

static const char *type_name(const json_t *v) {
    static const char *const names[] = {"an object", "a list", "a string", "a whole number",
                                        "a number",  "true",   "false",    "null"};
    return names[json_typeof(v)];
}

/* Appends the ids of a list to ids. where: the field, e.g. prompt or prompt[3] */
static int take_ids(struct apibody *b, const char *where, const json_t *list, struct tok_ids *ids) {
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *v = json_array_get(list, i);
        if (!json_is_integer(v)) {
            return apierr_set(b->e, 400, where, "%s[%zu] is %s, want a token id", where, i,
                              type_name(v));
        }
        if (json_integer_value(v) < 0 || json_integer_value(v) >= b->env->vocab) {
            return apierr_set(b->e, 400, where, "%s[%zu] is %lld, the vocabulary has 0..%d", where,
                              i, (long long)json_integer_value(v), b->env->vocab - 1);
        }
        int rc = tok_ids_add(ids, (int32_t)json_integer_value(v));
        if (rc) {
            return apierr_from(b->e, rc, where);
        }
    }
    return 0;
}

/* Refuses a text that cannot fit before time is spent on its tokens. */
static int check_bytes(struct apibody *b, const char *where, int64_t n) {
    int64_t most = b->env->text_max;
    most = b->r->kind == APIREQ_TOKENIZE ? i64_max(most, APIREQ_TOKENIZE_BYTES) : most;
    return b->env->text_max == 0 || n <= most
               ? 0
               : apierr_set(b->e, 400, where,
                            "%s has %lld bytes of text; a context of %d tokens holds no more than "
                            "%lld",
                            where, (long long)n, b->env->ctx_max, (long long)most);
}

static int take_text(struct apibody *b, const char *where, const json_t *v, struct tok_ids *ids) {
    uint32_t flags = TOK_PARSE_SPECIAL | (b->r->no_special ? 0U : (uint32_t)TOK_ADD_SPECIAL);
    int rc = check_bytes(b, where, (int64_t)json_string_length(v));
    if (rc) {
        return rc;
    }
    rc = model_need_tok(b->env->model);
    rc = rc ? rc
            : tok_encode(b->env->model->tok, json_string_value(v), (int64_t)json_string_length(v),
                         flags, ids);
    return rc ? apierr_from(b->e, rc, where) : 0;
}

static int check_length(struct apibody *b, const char *where, const struct tok_ids *ids) {
    int32_t ctx = b->env->ctx_max;
    if (b->r->kind == APIREQ_TOKENIZE) {
        return 0;
    }
    if (ids->n < 1) {
        return apierr_set(b->e, 400, where, "%s holds no token, want at least 1", where);
    }
    if (ids->n >= ctx) {
        return apierr_set(b->e, 400, where,
                          "%s has %d tokens; the context holds %d with at least one new token",
                          where, ids->n, ctx);
    }
    return 0;
}

/* One prompt: a string, or a list of ids. */
static int take_prompt(struct apibody *b, const char *where, const json_t *v) {
    struct apireq *r = b->r;
    if (r->n_prompt == APIREQ_CHOICES_MAX) {
        return apierr_set(b->e, 400, "prompt", "prompt holds more than %d prompts",
                          APIREQ_CHOICES_MAX);
    }
    if (!json_is_string(v) && !json_is_array(v)) {
        return apierr_set(b->e, 400, where, "%s is %s, want a string or a list of token ids", where,
                          type_name(v));
    }
    struct tok_ids *ids = &r->prompt[r->n_prompt++];
    int rc = json_is_string(v) ? take_text(b, where, v, ids) : take_ids(b, where, v, ids);
    return rc ? rc : check_length(b, where, ids);
}

static int take_prompts(struct apibody *b) {
    const json_t *p = b->prompt;
    const json_t *first = json_array_get(p, 0);
    bool many = json_is_array(p) && (json_is_string(first) || json_is_array(first));
    if (!many) {
        return take_prompt(b, "prompt", p);
    }
    for (size_t i = 0; i < json_array_size(p); i++) {
        char where[APIERR_PARAM_MAX];
        snprintf(where, sizeof where, "prompt[%zu]", i);
        int rc = take_prompt(b, where, json_array_get(p, i));
        if (rc) {
            return rc;
        }
    }
    return 0;
}

/* Text of a content given as a list of parts. out: *text a new string */
static int join_parts(struct apibody *b, const char *where, const json_t *parts, json_t **text) {
    struct buf all;
    int rc = 0;
    buf_init(&all, MEM_SERVE, TOK_TEXT_MAX);
    for (size_t i = 0; i < json_array_size(parts) && !rc; i++) {
        const json_t *part = json_array_get(parts, i);
        const char *type = json_string_value(json_object_get(part, "type"));
        const json_t *t = json_object_get(part, "text");
        if (!type || strcmp(type, "text") != 0 || !json_is_string(t)) {
            rc = apierr_set(b->e, 400, where,
                            "%s[%zu] is of type %.40s, want {\"type\": \"text\", \"text\": ...}",
                            where, i, type ? type : "no kind");
            break;
        }
        rc = buf_add(&all, json_string_value(t), (int64_t)json_string_length(t));
        rc = rc ? apierr_from(b->e, rc, where) : 0;
    }
    if (!rc) {
        *text = json_stringn(buf_cstr(&all), (size_t)all.len);
        rc = *text ? 0 : apierr_from(b->e, err_set(ERR_NOMEM, "no memory for a message"), where);
    }
    buf_fini(&all);
    return rc;
}

static int check_message_fields(struct apibody *b, const char *where, json_t *m) {
    static const char *const roles[] = {"system", "developer", "user", "assistant"};
    const char *key = NULL;
    const json_t *v = NULL;
    bool known = false;
    json_object_foreach(m, key, v) {
        bool fine = strcmp(key, "role") == 0 || strcmp(key, "content") == 0 ||
                    (strcmp(key, "name") == 0 && json_is_string(v)) || json_is_null(v);
        if (!fine) {
            return apierr_set(b->e, 400, where,
                              "%s has the field \"%.40s\", want role, content and name alone",
                              where, key);
        }
    }
    const char *role = json_string_value(json_object_get(m, "role"));
    for (int32_t i = 0; i < ARRAY_LEN(roles) && role; i++) {
        known = known || strcmp(roles[i], role) == 0;
    }
    return known
               ? 0
               : apierr_set(b->e, 400, where,
                            "%s has the role \"%.40s\", want system, developer, user or assistant",
                            where, role ? role : "");
}

/* One message as templates want it: content is a string. out: appended to list */
static int take_message(struct apibody *b, size_t i, json_t *m, json_t *list) {
    char where[APIERR_PARAM_MAX];
    json_t *text = NULL;
    snprintf(where, sizeof where, "messages[%zu]", i);
    if (!json_is_object(m)) {
        return apierr_set(b->e, 400, where, "%s is %s, want an object", where, type_name(m));
    }
    int rc = check_message_fields(b, where, m);
    if (rc) {
        return rc;
    }
    json_t *content = json_object_get(m, "content");
    snprintf(where, sizeof where, "messages[%zu].content", i);
    if (json_is_array(content)) {
        rc = join_parts(b, where, content, &text);
    } else if (json_is_string(content)) {
        text = json_incref(content);
    } else {
        rc = apierr_set(b->e, 400, where, "%s is %s, want a string or a list of text parts", where,
                        content ? type_name(content) : "missing");
    }
    if (rc) {
        return rc;
    }
    b->n_text += (int64_t)json_string_length(text);
    json_t *out = json_object();
    json_t *name = json_object_get(m, "name");
    bool ok = out && json_object_set(out, "role", json_object_get(m, "role")) == 0 &&
              json_object_set(out, "content", text) == 0 &&
              (!json_is_string(name) || json_object_set(out, "name", name) == 0) &&
              json_array_append(list, out) == 0;
    json_decref(out);
    json_decref(text);
    return ok ? 0 : apierr_from(b->e, err_set(ERR_NOMEM, "no memory for a message"), where);
}

static int take_messages(struct apibody *b) {
    size_t n = json_array_size(b->messages);
    if (!json_is_array(b->messages) || n == 0 || n > APIREQ_MESSAGES_MAX) {
        return apierr_set(b->e, 400, "messages", "messages is %s of %zu, want a list of 1..%d",
                          type_name(b->messages), n, APIREQ_MESSAGES_MAX);
    }
    json_t *list = json_array();
    int rc = list ? 0 : apierr_from(b->e, err_set(ERR_NOMEM, "no memory for messages"), "messages");
    for (size_t i = 0; i < n && !rc; i++) {
        rc = take_message(b, i, json_array_get(b->messages, i), list);
    }
    rc = rc ? rc : check_bytes(b, "messages", b->n_text);
    if (!rc) {
        struct tok_ids *ids = &b->r->prompt[b->r->n_prompt++];
        rc = model_chat_ids(b->env->model, list, b->env->now_s, ids);
        rc = rc ? apierr_from(b->e, rc, "messages") : check_length(b, "messages", ids);
    }
    json_decref(list);
    return rc;
}

int apiprompt_make(struct apibody *b) {
    if (b->r->kind == APIREQ_DETOKENIZE) {
        return !json_is_array(b->tokens)
                   ? apierr_set(b->e, 400, "tokens", "tokens is %s, want a list of token ids",
                                b->tokens ? type_name(b->tokens) : "missing")
                   : take_ids(b, "tokens", b->tokens, &b->r->tokens);
    }
    bool wants_messages =
        b->r->kind == APIREQ_CHAT || (b->r->kind == APIREQ_TOKENIZE && b->messages && !b->prompt);
    if (wants_messages) {
        return b->messages ? take_messages(b)
                           : apierr_set(b->e, 400, "messages", "messages is missing");
    }
    if (b->messages) {
        return apierr_set(b->e, 400, "messages", "messages and prompt are both given, want one");
    }
    return b->prompt ? take_prompts(b) : apierr_set(b->e, 400, "prompt", "prompt is missing");
}
