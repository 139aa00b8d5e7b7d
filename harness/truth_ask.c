/* What a request to the truth server asks for: by its path, its header and its body. Whatever is
 * missing or odd has a default; nothing here refuses.
 * src: RFC 9110, 5.1 (field names); RFC 9112, 3 (request line) */
#include <string.h>
#include <strings.h>

#include <jansson.h>

#include "engine/base/err.h"
#include "engine/base/str.h"
#include "harness/truth_int.h"

enum { TOKENS_DEFAULT = 16, TOKENS_MAX = 1 << 20 };

/* What the body of a request asks for. */
static void take_wishes(const struct truth *t, struct truth_conn *c, const char *body, int64_t n) {
    static const char *const keys[] = {"max_tokens", "max_completion_tokens", "max_output_tokens"};
    json_error_t e;
    json_t *o = json_loadb(body, (size_t)n, 0, &e);
    const json_t *options = json_object_get(o, "stream_options");
    int64_t tokens = TOKENS_DEFAULT;
    for (int32_t i = 0; i < ARRAY_LEN(keys); i++) {
        const json_t *v = json_object_get(o, keys[i]);
        tokens = json_is_integer(v) ? json_integer_value(v) : tokens;
    }
    c->stream = json_is_true(json_object_get(o, "stream"));
    c->want_usage = json_is_true(json_object_get(options, "include_usage"));
    tokens = t->o.tokens > 0 ? t->o.tokens : tokens;
    c->n_tokens = (int32_t)i64_max(1, i64_min(tokens, TOKENS_MAX));
    json_decref(o);
}

const char *truth_field(const char *head, const char *end, const char *name) {
    size_t n = strlen(name);
    for (const char *line = head; line && line < end;) {
        if (strncasecmp(line, name, n) == 0 && line[n] == ':') {
            return line + n + 1 + strspn(line + n + 1, " \t");
        }
        line = memchr(line, '\n', (size_t)(end - line));
        line = line ? line + 1 : NULL;
    }
    return NULL;
}

int64_t truth_number(const char *s) {
    char digits[24] = "";
    int64_t v = INT64_MIN;
    size_t n = s ? strspn(s, "-0123456789") : 0;
    if (n == 0 || n >= sizeof digits) {
        return INT64_MIN;
    }
    memcpy(digits, s, n);
    if (str_i64(digits, INT64_MIN, INT64_MAX, &v)) {
        err_clear();
    }
    return v;
}

/* The first word of the path: "" for /v1/... */
static void take_path(struct truth_conn *c, const char *head, char name[CORPUS_NAME_MAX]) {
    const char *path = strchr(head, '/');
    size_t n = path ? strcspn(path + 1, "/ ?\r\n") : 0;
    name[0] = '\0';
    if (path && n < CORPUS_NAME_MAX && !(n == 2 && memcmp(path + 1, "v1", 2) == 0)) {
        memcpy(name, path + 1, n);
        name[n] = '\0';
    }
    size_t len = path ? strcspn(path, " ?\r\n") : 0;
    c->api = CHUNK_CHAT;
    for (int i = CHUNK_COMPLETIONS; i < CHUNK_API_N; i++) {
        const char *tail = chunk_api_path((enum chunk_api)i);
        size_t n_tail = strlen(tail);
        bool is_chat = len >= 17 && strncmp(path + len - 17, "/chat/completions", 17) == 0;
        if (!is_chat && len >= n_tail && strncmp(path + len - n_tail, tail, n_tail) == 0) {
            c->api = (enum chunk_api)i;
        }
    }
}

void truth_ask(const struct truth *t,
               struct truth_conn *c,
               const char *head,
               int64_t n_head,
               int64_t n_body,
               char name[CORPUS_NAME_MAX]) {
    take_path(c, head, name);
    take_wishes(t, c, head + n_head, n_body);
}
