/* The fields, by server (2026):
 *
 *                chat limit             ignore_eos  min_tokens  running usage  prompt as ids
 *   openai       max_completion_tokens  -           -           -              yes
 *   vllm         max_tokens             yes         yes         yes            yes
 *   sglang       max_tokens             yes         yes         yes            yes
 *   llama.cpp    max_tokens             yes         -           -              yes
 *   tensorrt-llm max_tokens             yes         yes         yes            yes
 *   ollama       max_tokens             -           -           -              -
 *
 * All of them take stream_options.include_usage, and completions' max_tokens. A field that a server
 * does not know is not sent: some refuse the request for it. */
#include "harness/dialect.h"

#include <stdlib.h>

#include "engine/base/err.h"
#include "engine/base/str.h"

static const struct dialect dialects[] = {
    {"openai", "max_completion_tokens", NULL, NULL, false, true},
    {"vllm", "max_tokens", "ignore_eos", "min_tokens", true, true},
    {"sglang", "max_tokens", "ignore_eos", "min_tokens", true, true},
    {"llama.cpp", "max_tokens", "ignore_eos", NULL, false, true},
    {"tensorrt-llm", "max_tokens", "ignore_eos", "min_tokens", true, true},
    {"ollama", "max_tokens", NULL, NULL, false, false}};

static const char *const words[] = {
    "the",    "of",    "and",     "to",   "in",    "that",  "it",    "was",    "for",    "on",
    "are",    "with",  "as",      "his",  "they",  "be",    "at",    "one",    "have",   "this",
    "from",   "or",    "had",     "by",   "hot",   "but",   "some",  "what",   "there",  "we",
    "can",    "out",   "other",   "were", "all",   "your",  "when",  "up",     "use",    "word",
    "how",    "said",  "an",      "each", "she",   "which", "do",    "their",  "time",   "if",
    "will",   "way",   "about",   "many", "then",  "them",  "would", "write",  "like",   "so",
    "these",  "her",   "long",    "make", "thing", "see",   "him",   "two",    "has",    "look",
    "more",   "day",   "could",   "go",   "come",  "did",   "my",    "sound",  "no",     "most",
    "number", "who",   "over",    "know", "water", "than",  "call",  "first",  "people", "may",
    "down",   "side",  "been",    "now",  "find",  "any",   "new",   "work",   "part",   "take",
    "get",    "place", "made",    "live", "where", "after", "back",  "little", "only",   "round",
    "man",    "year",  "came",    "show", "every", "good",  "me",    "give",   "our",    "under",
    "name",   "very",  "through", "just", "form",  "much",  "great", "think"};

const struct dialect *dialect_of(const char *name) {
    for (int32_t i = 0; i < ARRAY_LEN(dialects); i++) {
        if (!name || str_eq(dialects[i].name, name)) {
            return &dialects[i];
        }
    }
    return NULL;
}

int dialect_words(const int32_t *ids, int32_t n, struct buf *out) {
    int rc = 0;
    for (int32_t i = 0; i < n && !rc; i++) {
        rc = i > 0 ? buf_str(out, " ") : 0;
        rc = rc ? rc : buf_str(out, words[(uint32_t)ids[i] % (uint32_t)ARRAY_LEN(words)]);
    }
    return rc;
}

/* Takes v over; a missing one (out of memory) is an error. */
static int put(json_t *o, const char *key, json_t *v) {
    return json_object_set_new(o, key, v) == 0
               ? 0
               : err_set(ERR_FORMAT, "no request can be made of it: \"%s\" is no UTF-8 text", key);
}

static json_t *id_list(const struct dialect_request *q) {
    json_t *list = json_array();
    for (int32_t i = 0; i < q->n_ids; i++) {
        json_array_append_new(list, json_integer(q->ids[i]));
    }
    return list;
}

static int put_prompt(const struct dialect_request *q, json_t *o) {
    json_t *prompt = q->text ? json_string(q->text) : id_list(q);
    switch (q->api) {
    case CHUNK_CHAT:
        return put(o, "messages", json_pack("[{s:s, s:o*}]", "role", "user", "content", prompt));
    case CHUNK_COMPLETIONS:
        return put(o, "prompt", prompt);
    case CHUNK_RESPONSES:
    case CHUNK_API_N:
    default:
        return put(o, "input", prompt);
    }
}

static int put_limits(const struct dialect *d, const struct dialect_request *q, json_t *o) {
    const char *key = q->api == CHUNK_CHAT          ? d->chat_max
                      : q->api == CHUNK_COMPLETIONS ? "max_tokens"
                                                    : "max_output_tokens";
    int rc = put(o, key, json_integer(q->max_new));
    if (!rc && d->ignore_eos) {
        rc = put(o, d->ignore_eos, json_true());
    }
    if (!rc && d->min_tokens && q->api != CHUNK_RESPONSES) {
        rc = put(o, d->min_tokens, json_integer(q->max_new));
    }
    return rc;
}

static int put_stream(const struct dialect *d, const struct dialect_request *q, json_t *o) {
    int rc = put(o, "stream", json_boolean(q->stream));
    if (rc || !q->stream || q->api == CHUNK_RESPONSES) {
        return rc;
    }
    json_t *options = json_pack("{s:b}", "include_usage", 1);
    if (d->running_usage) {
        rc = put(options, "continuous_usage_stats", json_true());
    }
    int rc2 = put(o, "stream_options", options);
    return rc ? rc : rc2;
}

int dialect_body(const struct dialect *d, const struct dialect_request *q, struct buf *out) {
    json_t *o = json_object();
    int rc = put(o, "model", json_string(q->model));
    rc = rc ? rc : put_prompt(q, o);
    rc = rc ? rc : put_limits(d, q, o);
    rc = rc ? rc : put_stream(d, q, o);
    rc = rc ? rc : put(o, "temperature", json_real(q->temperature));
    if (!rc && q->top_p > 0) {
        rc = put(o, "top_p", json_real(q->top_p));
    }
    if (!rc && q->api != CHUNK_RESPONSES) {
        rc = put(o, "seed", json_integer((json_int_t)(q->seed & INT32_MAX)));
    }
    if (!rc && q->more && json_object_update(o, (json_t *)(uintptr_t)q->more)) {
        rc = err_set(ERR_NOMEM, "no memory for a request");
    }
    char *text = rc ? NULL : json_dumps(o, JSON_COMPACT);
    if (!rc && !text) {
        rc = err_set(ERR_NOMEM, "no memory for a request");
    }
    rc = rc ? rc : buf_str(out, text);
    free(text); /* jansson's */
    json_decref(o);
    return rc;
}
