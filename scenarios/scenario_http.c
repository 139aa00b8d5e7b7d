/* The kind "http" of the section "targets": addresses with shares, header fields, more of the body.
 *
 *   url: "http://a:8000/v1"               one
 *   urls: ["http://a/v1", "http://b/v1"]  in turn
 *   urls: {"http://a/v1": 3, "http://b/v1": 1}
 *
 * A key never stands in a scenario, since its text is stored with the results: an address with a
 * password and header fields that carry keys are refused. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "engine/base/err.h"
#include "engine/base/json.h"
#include "engine/base/str.h"
#include "scenarios/scenario_int.h"

enum { WEIGHT_MAX = 1000, WORDS_MAX = 8, URL_MAX = 512, NAME_MAX_BYTES = 128 };

/* Text fields that allow a few words. */
static const struct {
    const char *key;
    size_t offset;
    const char *words[WORDS_MAX];
} choices[] = {{"api", offsetof(struct scenario_http, api), {"chat", "completions", "responses"}},
               {"dialect",
                offsetof(struct scenario_http, dialect),
                {"openai", "vllm", "sglang", "llama.cpp", "tensorrt-llm", "ollama"}},
               {"stream", offsetof(struct scenario_http, stream), {"true", "false"}},
               {"version", offsetof(struct scenario_http, version), {"1.1", "2"}},
               {"on_error", offsetof(struct scenario_http, on_error), {"continue", "stop"}},
               {"timestamps", offsetof(struct scenario_http, timestamps), {"user", "kernel"}}};

static const char token_chars[] =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.!#$%&'*+^`|~";

static int check_words(const struct scyaml *y, struct fy_node *n, const struct scenario_http *h) {
    for (int32_t i = 0; i < ARRAY_LEN(choices); i++) {
        const void *at = (const char *)h + choices[i].offset;
        const char *v = *(const char *const *)at;
        char list[96] = "";
        bool known = !v;
        for (int32_t k = 0; k < WORDS_MAX && choices[i].words[k] && !known; k++) {
            size_t len = strlen(list);
            snprintf(list + len, sizeof list - len, "%s%s", k ? ", " : "", choices[i].words[k]);
            known = str_eq(v, choices[i].words[k]);
        }
        if (!known) {
            return scyaml_error(y, scyaml_get(n, choices[i].key), "%s: \"%.40s\", want one of %s",
                                choices[i].key, v, list);
        }
    }
    return 0;
}

static int check_url(const struct scyaml *y, struct fy_node *n, const char *url) {
    const char *rest = str_starts(url, "http://")    ? url + 7
                       : str_starts(url, "https://") ? url + 8
                                                     : NULL;
    if (strlen(url) > URL_MAX) {
        return scyaml_error(y, n, "url: more than %d bytes", (int)URL_MAX);
    }
    if (!rest) {
        return scyaml_error(y, n, "url: \"%.80s\" does not begin with http:// or https://", url);
    }
    if (strchr(rest, '@')) {
        return scyaml_error(y, n, "url: a name or password in it would be stored; want key_env");
    }
    if (rest[0] == '/' || rest[0] == '\0' || strpbrk(rest, "?# \t\r\n\"<>\\")) {
        return scyaml_error(y, n, "url: \"%.80s\", want scheme://host[:port][/path] and no more",
                            url);
    }
    return 0;
}

static int
add_url(const struct scyaml *y, struct fy_node *n, int64_t weight, struct scenario_http *h) {
    if (h->n_urls == SCENARIO_URLS_MAX) {
        return scyaml_error(y, n, "urls: more than %d", (int)SCENARIO_URLS_MAX);
    }
    int rc = scyaml_scalar(y, n, "url", &h->urls[h->n_urls]);
    for (int32_t i = 0; i < h->n_urls && !rc; i++) {
        if (str_eq(h->urls[i], h->urls[h->n_urls])) {
            rc = scyaml_error(y, n, "urls: \"%.80s\" is there twice; want a share", h->urls[i]);
        }
    }
    rc = rc ? rc : check_url(y, n, h->urls[h->n_urls]);
    h->weights[h->n_urls] = (int32_t)weight;
    h->n_urls += rc ? 0 : 1;
    return rc;
}

static int parse_weighted(const struct scyaml *y, struct fy_node *map, struct scenario_http *h) {
    struct fy_node *key = NULL;
    struct fy_node *value = NULL;
    for (int32_t i = 0; scyaml_entry(map, i, &key, &value); i++) {
        const char *text = NULL;
        int64_t weight = 0;
        int rc = scyaml_scalar(y, value ? value : key, "the share of a URL", &text);
        if (!rc && str_i64(text, 1, WEIGHT_MAX, &weight)) {
            rc = scyaml_error(y, value, "urls: share \"%.40s\", want a whole number 1..%d", text,
                              (int)WEIGHT_MAX);
        }
        rc = rc ? rc : add_url(y, key, weight, h);
        if (rc) {
            return rc;
        }
    }
    return 0;
}

static int parse_urls(const struct scyaml *y, struct fy_node *n, struct scenario_http *h) {
    struct fy_node *one = scyaml_get(n, "url");
    struct fy_node *many = scyaml_get(n, "urls");
    int rc = 0;
    if ((one != NULL) == (many != NULL)) {
        return scyaml_error(y, n, "http has %s, want \"url\" or \"urls\"",
                            one ? "both url and urls" : "no key \"url\"");
    }
    if (one) {
        return add_url(y, one, 1, h);
    }
    if (scyaml_is_map(many)) {
        rc = parse_weighted(y, many, h);
    } else if (scyaml_is_seq(many)) {
        for (int32_t i = 0; i < scyaml_n_items(many) && !rc; i++) {
            rc = add_url(y, scyaml_item(many, i), 1, h);
        }
    }
    return rc || h->n_urls > 0 ? rc : scyaml_error(y, many, "urls: want a list of addresses");
}

static int
check_header(const struct scyaml *y, struct fy_node *n, const char *name, const char *v) {
    static const char *const secret[] = {"authorization", "proxy-authorization", "cookie",
                                         "x-api-key", "api-key"};
    static const char *const ours[] = {"host",        "content-length",    "content-type",
                                       "accept",      "transfer-encoding", "connection",
                                       "x-request-id"};
    if (!name[0] || strlen(name) > NAME_MAX_BYTES || strspn(name, token_chars) != strlen(name) ||
        strpbrk(v, "\r\n")) {
        return scyaml_error(y, n, "headers: \"%.40s\" is no header field", name);
    }
    for (int32_t i = 0; i < ARRAY_LEN(secret); i++) {
        if (strcasecmp(name, secret[i]) == 0) {
            return scyaml_error(y, n, "headers: %s would be stored; want key_env and key_header",
                                name);
        }
    }
    for (int32_t i = 0; i < ARRAY_LEN(ours); i++) {
        if (strcasecmp(name, ours[i]) == 0) {
            return scyaml_error(y, n, "headers: %s is set by the program", name);
        }
    }
    return 0;
}

static int parse_headers(const struct scyaml *y, struct fy_node *n, struct scenario_http *h) {
    struct fy_node *map = scyaml_get(n, "headers");
    struct fy_node *key = NULL;
    struct fy_node *value = NULL;
    if (map && !scyaml_is_map(map)) {
        return scyaml_error(y, map, "headers: want \"name: value\" entries");
    }
    for (int32_t i = 0; map && scyaml_entry(map, i, &key, &value); i++) {
        if (i == SCENARIO_HEADERS_MAX) {
            return scyaml_error(y, key, "more than %d headers", (int)SCENARIO_HEADERS_MAX);
        }
        int rc = scyaml_scalar(y, key, "a header's name", &h->header_names[i]);
        rc = rc ? rc : scyaml_scalar(y, value ? value : key, "a header", &h->header_values[i]);
        rc = rc ? rc : check_header(y, key, h->header_names[i], h->header_values[i]);
        if (rc) {
            return rc;
        }
        h->n_headers = i + 1;
    }
    return 0;
}

static int check_body(const struct scyaml *y, struct fy_node *n, const char *body) {
    static const char *const ours[] = {"messages", "prompt", "input", "stream", "model"};
    json_t *j = NULL;
    if (json_parse("body", body, (int64_t)strlen(body), &j)) {
        char why[160];
        (void)str_copy(why, (int64_t)sizeof why, err_msg());
        return scyaml_error(y, n, "%s", why);
    }
    int rc = json_is_object(j) ? 0 : scyaml_error(y, n, "body: want a JSON object");
    for (int32_t i = 0; i < ARRAY_LEN(ours) && !rc; i++) {
        rc = json_object_get(j, ours[i])
                 ? scyaml_error(y, n, "body: \"%s\" is set by the program", ours[i])
                 : 0;
    }
    json_decref(j);
    return rc;
}

int scenario_parse_http(const struct scyaml *y, struct fy_node *n, struct scenario_http *h) {
    int rc = check_words(y, n, h);
    rc = rc ? rc : parse_urls(y, n, h);
    rc = rc ? rc : parse_headers(y, n, h);
    rc = rc || !h->body ? rc : check_body(y, scyaml_get(n, "body"), h->body);
    if (!rc && h->key_header && strspn(h->key_header, token_chars) != strlen(h->key_header)) {
        rc = scyaml_error(y, scyaml_get(n, "key_header"),
                          "key_header: \"%.40s\" is no header field", h->key_header);
    }
    if (!rc && h->key_header && !h->key_env) {
        rc = scyaml_error(y, scyaml_get(n, "key_header"), "key_header without key_env");
    }
    return rc;
}

int scenario_format_http(const struct scenario_http *h, int32_t indent, struct buf *b) {
    int rc = buf_fmt(b, "%*surls:\n", indent, "");
    for (int32_t i = 0; i < h->n_urls && !rc; i++) {
        rc = buf_fmt(b, "%*s", indent + 2, "");
        rc = rc ? rc : scyaml_print_str(b, h->urls[i]);
        rc = rc ? rc : buf_fmt(b, ": %d\n", h->weights[i]);
    }
    if (!rc && h->n_headers > 0) {
        rc = buf_fmt(b, "%*sheaders:\n", indent, "");
    }
    for (int32_t i = 0; i < h->n_headers && !rc; i++) {
        rc = buf_fmt(b, "%*s", indent + 2, "");
        rc = rc ? rc : scyaml_print_str(b, h->header_names[i]);
        rc = rc ? rc : buf_str(b, ": ");
        rc = rc ? rc : scyaml_print_str(b, h->header_values[i]);
        rc = rc ? rc : buf_str(b, "\n");
    }
    return rc;
}
