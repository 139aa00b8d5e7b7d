/* Chat templates rendered byte for byte as by jinja2 in transformers' environment: 58 templates, 28
 * cases each; what jinja2 refuses is refused. Vectors: tests/golden/data/chat, made by the script
 * named in tests/golden/README.md. */
#include "tests/support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/json.h"
#include "engine/text/chat.h"

enum { TEXT_MAX = 1 << 24, N_ROWS = 1624, SHOW_MAX = 10 };

/* The day on which the vectors were made: some templates print it. */
static const int64_t made_s = 1795910400; /* 2026-11-29 00:00 UTC */

static json_t *template_source(const char *name) {
    char rel[256];
    bool config = strstr(name, ".json") != NULL;
    snprintf(rel, sizeof rel, config ? "tokenizer-qwen/%s" : "chat-templates/jinja/%s", name);
    const char *path = test_shared(rel);
    struct buf b;
    json_t *j = NULL;
    assert_non_null(path);
    if (config) {
        assert_ok(json_read(path, &j));
        json_t *src = json_incref(json_object_get(j, "chat_template"));
        json_decref(j);
        return src;
    }
    buf_init(&b, MEM_TEST, TEXT_MAX);
    assert_ok(file_read(path, &b));
    j = json_stringn(buf_cstr(&b), (size_t)b.len);
    buf_fini(&b);
    return j;
}

static json_t *variables(const json_t *inputs, const json_t *row) {
    json_t *vars = json_deep_copy(json_object_get(inputs, "fixed"));
    const char *conv = json_string_value(json_object_get(row, "conversation"));
    json_t *messages = json_object_get(json_object_get(inputs, "conversations"), conv);
    bool tools = json_is_true(json_object_get(row, "tools"));
    json_object_set(vars, "messages", messages);
    json_object_set(vars, "tools", tools ? json_object_get(inputs, "tools") : json_null());
    json_object_set_new(vars, "documents", json_null());
    json_object_set(vars, "add_generation_prompt", json_object_get(row, "add_generation_prompt"));
    return vars;
}

/* out: true when the row comes out as it should */
static bool row_equal(const json_t *inputs, const json_t *row) {
    const char *name = json_string_value(json_object_get(row, "template"));
    const json_t *want = json_object_get(row, "rendered");
    json_t *src = template_source(name);
    json_t *vars = variables(inputs, row);
    struct chat *c = NULL;
    struct buf b;
    buf_init(&b, MEM_TEST, TEXT_MAX);
    int rc = chat_compile(name, json_string_value(src), (int64_t)json_string_length(src), &c);
    rc = rc ? rc : chat_render(c, vars, made_s, &b);
    bool same = want ? !rc && (size_t)b.len == json_string_length(want) &&
                           memcmp(buf_cstr(&b), json_string_value(want), (size_t)b.len) == 0
                     : rc == ERR_FORMAT;
    if (!same) {
        const char *error = json_string_value(json_object_get(row, "error"));
        print_error("%s, %s, tools %d, prompt %d: %s\n--- want %s\n--- got\n%s\n---\n", name,
                    json_string_value(json_object_get(row, "conversation")),
                    json_is_true(json_object_get(row, "tools")),
                    json_is_true(json_object_get(row, "add_generation_prompt")),
                    rc ? err_msg() : "differs", want ? json_string_value(want) : error,
                    buf_cstr(&b));
    }
    chat_free(c);
    buf_fini(&b);
    json_decref(src);
    json_decref(vars);
    return same;
}

static void test_chat_rows(void **state) {
    (void)state;
    struct buf b;
    json_t *inputs = NULL;
    int32_t n = 0;
    int32_t bad = 0;
    if (!test_shared("chat-templates/jinja")) {
        print_message("chat-templates is not on this machine (TRILEMMA_SHARED)\n");
        skip();
    }
    assert_ok(json_read(test_golden("chat/inputs.json"), &inputs));
    buf_init(&b, MEM_TEST, TEXT_MAX);
    assert_ok(file_read(test_golden("chat/rendered.jsonl"), &b));
    for (char *p = b.data; *p && bad < SHOW_MAX;) {
        char *nl = strchr(p, '\n');
        json_t *row = NULL;
        assert_ok(json_parse("rendered.jsonl", p, nl - p, &row));
        bad += !row_equal(inputs, row);
        n++;
        json_decref(row);
        p = nl + 1;
    }
    buf_fini(&b);
    json_decref(inputs);
    assert_int_equal(bad, 0);
    assert_int_equal(n, N_ROWS);
}

/* Small templates, one construct each: tests/golden/data/chat/syntax.jsonl. */
static bool syntax_equal(const json_t *row, int32_t line) {
    const json_t *src = json_object_get(row, "template");
    const json_t *want = json_object_get(row, "rendered");
    struct chat *c = NULL;
    struct buf b;
    buf_init(&b, MEM_TEST, TEXT_MAX);
    int rc = chat_compile("row", json_string_value(src), (int64_t)json_string_length(src), &c);
    rc = rc ? rc : chat_render(c, json_object_get(row, "vars"), made_s, &b);
    bool same = want ? !rc && (size_t)b.len == json_string_length(want) &&
                           memcmp(buf_cstr(&b), json_string_value(want), (size_t)b.len) == 0
                     : rc != 0;
    if (!same) {
        const char *error = json_string_value(json_object_get(row, "error"));
        print_error("line %d: %.400s\n--- want %.400s\n--- got  %.400s %s\n", line,
                    json_string_value(src), want ? json_string_value(want) : error, buf_cstr(&b),
                    rc ? err_msg() : "");
    }
    chat_free(c);
    buf_fini(&b);
    return same;
}

static void test_chat_syntax(void **state) {
    (void)state;
    struct buf b;
    int32_t n = 0;
    int32_t bad = 0;
    buf_init(&b, MEM_TEST, TEXT_MAX);
    assert_ok(file_read(test_golden("chat/syntax.jsonl"), &b));
    for (char *p = b.data; *p;) {
        char *nl = strchr(p, '\n');
        json_t *row = NULL;
        assert_ok(json_parse("syntax.jsonl", p, nl - p, &row));
        bad += !syntax_equal(row, ++n);
        json_decref(row);
        p = nl + 1;
    }
    buf_fini(&b);
    assert_int_equal(bad, 0);
    assert_true(n > 100);
}

int main(void) {
    const struct CMUnitTest tests[] = {TEST(test_chat_rows), TEST(test_chat_syntax)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
