/* Where the words are, by shape:
 *
 *   chat         choices[].delta or .message: content, reasoning_content, reasoning, refusal,
 *                tool_calls[].function.{name, arguments}
 *   completions  choices[].text
 *   responses    type "response.*.delta": delta; or output[].content[].text, output[].arguments
 *   usage        {prompt,completion}_tokens or {input,output}_tokens, with their details
 *   error        "error": object or string; or "object": "error" with "message"
 *
 * Only the first choice is counted: one answer was asked for. */
#include "harness/chunk.h"

#include <string.h>

#include <jansson.h>

#include "engine/base/err.h"
#include "engine/base/str.h"

static const struct {
    const char *name;
    const char *path;
} apis[CHUNK_API_N] = {
    {"chat", "/chat/completions"}, {"completions", "/completions"}, {"responses", "/responses"}};

const char *chunk_api_name(enum chunk_api api) {
    return apis[api].name;
}

const char *chunk_api_path(enum chunk_api api) {
    return apis[api].path;
}

enum chunk_api chunk_api_of(const char *name) {
    int i = 0;
    while (i < CHUNK_API_N && !str_eq(apis[i].name, name)) {
        i++;
    }
    return (enum chunk_api)i;
}

/* Appends a string member; null and absence are nothing. */
static int take(const json_t *o, const char *key, struct buf *text, int64_t *n) {
    const json_t *v = json_object_get(o, key);
    if (!v || json_is_null(v)) {
        return 0;
    }
    if (!json_is_string(v)) {
        return err_set(ERR_FORMAT, "\"%s\" is no text", key);
    }
    *n += (int64_t)json_string_length(v);
    return buf_add(text, json_string_value(v), (int64_t)json_string_length(v));
}

/* Content is a string, or a list of parts with a text each. */
static int take_content(const json_t *o, const char *key, struct chunk *c) {
    const json_t *v = json_object_get(o, key);
    if (!json_is_array(v)) {
        return take(o, key, c->text, &c->n_answer);
    }
    int rc = 0;
    for (size_t i = 0; i < json_array_size(v) && !rc; i++) {
        rc = take(json_array_get(v, i), "text", c->text, &c->n_answer);
    }
    return rc;
}

static int take_tools(const json_t *message, struct chunk *c) {
    const json_t *calls = json_object_get(message, "tool_calls");
    int rc = 0;
    for (size_t i = 0; i < json_array_size(calls) && !rc; i++) {
        const json_t *f = json_object_get(json_array_get(calls, i), "function");
        rc = take(f, "name", c->text, &c->n_answer);
        rc = rc ? rc : take(f, "arguments", c->text, &c->n_answer);
    }
    return rc;
}

static int take_message(const json_t *m, struct chunk *c) {
    static const char *const reasoning[] = {"reasoning_content", "reasoning"};
    int rc = take_content(m, "content", c);
    rc = rc ? rc : take(m, "refusal", c->text, &c->n_answer);
    rc = rc ? rc : take_tools(m, c);
    for (int32_t i = 0; i < ARRAY_LEN(reasoning) && !rc; i++) {
        if (c->n_reasoning == 0 && json_is_string(json_object_get(m, reasoning[i]))) {
            rc = take(m, reasoning[i], c->text, &c->n_reasoning);
        }
    }
    return rc;
}

static void keep(const json_t *o, const char *key, char *dst, int64_t cap) {
    const char *s = json_string_value(json_object_get(o, key));
    if (s) {
        (void)str_copy(dst, cap, s);
    }
}

static int take_choice(const json_t *choice, struct chunk *c) {
    const json_t *m = json_object_get(choice, "delta");
    const json_t *logprobs = json_object_get(choice, "logprobs");
    const json_t *list = json_object_get(logprobs, "content");
    const json_t *ids = json_object_get(choice, "token_ids");
    m = m ? m : json_object_get(choice, "message");
    list = list ? list : json_object_get(logprobs, "tokens");
    c->n_logprobs = json_is_array(list) ? (int64_t)json_array_size(list) : -1;
    c->n_ids = json_is_array(ids) ? (int64_t)json_array_size(ids) : -1;
    keep(choice, "finish_reason", c->finish, CHUNK_FINISH_MAX);
    int rc = take(choice, "text", c->text, &c->n_answer);
    return rc ? rc : take_message(m, c);
}

static int64_t count(const json_t *o, const char *key) {
    const json_t *v = json_object_get(o, key);
    return json_is_integer(v) && json_integer_value(v) >= 0 ? json_integer_value(v) : -1;
}

static int64_t either(int64_t a, int64_t b) {
    return a >= 0 ? a : b;
}

static void take_usage(const json_t *u, struct chunk *c) {
    const json_t *in = json_object_get(u, "prompt_tokens_details");
    const json_t *out = json_object_get(u, "completion_tokens_details");
    in = in ? in : json_object_get(u, "input_tokens_details");
    out = out ? out : json_object_get(u, "output_tokens_details");
    c->n_prompt = either(count(u, "prompt_tokens"), count(u, "input_tokens"));
    c->n_output = either(count(u, "completion_tokens"), count(u, "output_tokens"));
    c->n_cached = count(in, "cached_tokens");
    c->n_reasoning_tokens = count(out, "reasoning_tokens");
}

/* out: true when o tells of an error */
static bool take_error(const json_t *o, struct chunk *c) {
    const json_t *e = json_object_get(o, "error");
    const char *object = json_string_value(json_object_get(o, "object"));
    bool is_plain = object && str_eq(object, "error");
    if ((!e || json_is_null(e)) && !is_plain) {
        return false;
    }
    c->is_error = true;
    if (json_is_string(e)) {
        (void)str_copy(c->error, CHUNK_TEXT_MAX, json_string_value(e));
    } else {
        keep(is_plain ? o : e, "message", c->error, CHUNK_TEXT_MAX);
    }
    return true;
}

static int take_output(const json_t *output, struct chunk *c) {
    int rc = 0;
    for (size_t i = 0; i < json_array_size(output) && !rc; i++) {
        const json_t *item = json_array_get(output, i);
        const char *type = json_string_value(json_object_get(item, "type"));
        bool is_thought = type && str_eq(type, "reasoning");
        const json_t *parts = json_object_get(item, "content");
        for (size_t k = 0; k < json_array_size(parts) && !rc; k++) {
            rc = take(json_array_get(parts, k), "text", c->text,
                      is_thought ? &c->n_reasoning : &c->n_answer);
        }
        rc = rc ? rc : take(item, "arguments", c->text, &c->n_answer);
    }
    return rc;
}

/* A response object: at the end of a stream, or the whole body. */
static int take_response(const json_t *o, bool is_body, struct chunk *c) {
    const char *status = json_string_value(json_object_get(o, "status"));
    const json_t *cut = json_object_get(o, "incomplete_details");
    take_usage(json_object_get(o, "usage"), c);
    (void)take_error(o, c);
    if (status && str_eq(status, "failed")) {
        c->is_error = true;
    } else if (status && str_eq(status, "completed")) {
        (void)str_copy(c->finish, CHUNK_FINISH_MAX, "stop");
    } else if (status && str_eq(status, "incomplete")) {
        keep(cut, "reason", c->finish, CHUNK_FINISH_MAX);
    }
    return is_body ? take_output(json_object_get(o, "output"), c) : 0;
}

static int read_responses(const json_t *o, struct chunk *c) {
    const char *type = json_string_value(json_object_get(o, "type"));
    const json_t *whole = json_object_get(o, "response");
    c->has_choices = type != NULL || json_is_array(json_object_get(o, "output"));
    if (!type) {
        return take_response(o, true, c);
    }
    if (str_eq(type, "error")) {
        c->is_error = true;
        keep(o, "message", c->error, CHUNK_TEXT_MAX);
        return 0;
    }
    if (str_starts(type, "response.") && str_ends(type, ".delta")) {
        bool is_thought = strstr(type, "reasoning") != NULL;
        return take(o, "delta", c->text, is_thought ? &c->n_reasoning : &c->n_answer);
    }
    c->is_last = str_eq(type, "response.completed") || str_eq(type, "response.incomplete") ||
                 str_eq(type, "response.failed");
    return c->is_last ? take_response(whole, false, c) : 0;
}

static int read_object(enum chunk_api api, const json_t *o, struct chunk *c) {
    const json_t *choices = json_object_get(o, "choices");
    if (!json_is_object(o)) {
        return err_set(ERR_FORMAT, "JSON that is no object");
    }
    if (api == CHUNK_RESPONSES && json_object_get(o, "object") != NULL &&
        json_is_array(json_object_get(o, "output"))) {
        c->has_choices = true;
        return take_response(o, true, c);
    }
    if (take_error(o, c)) {
        return 0;
    }
    if (api == CHUNK_RESPONSES) {
        return read_responses(o, c);
    }
    c->has_choices = json_is_array(choices);
    take_usage(json_object_get(o, "usage"), c);
    return json_array_size(choices) > 0 ? take_choice(json_array_get(choices, 0), c) : 0;
}

int chunk_read(enum chunk_api api, const char *json, int64_t n, struct buf *text, struct chunk *c) {
    json_error_t e;
    *c = (struct chunk){.text = text,
                        .n_ids = -1,
                        .n_logprobs = -1,
                        .n_prompt = -1,
                        .n_output = -1,
                        .n_cached = -1,
                        .n_reasoning_tokens = -1};
    json_t *o = json_loadb(json, (size_t)n, JSON_ALLOW_NUL, &e);
    if (!o) {
        return err_set(ERR_FORMAT, "no JSON at byte %d of %lld: %s", e.position, (long long)n,
                       e.text);
    }
    int rc = read_object(api, o, c);
    json_decref(o);
    return rc;
}
