#include "tests/support/tok_parts.h"

#include "tests/support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_MAX = 1 << 24 };

json_t *tok_parts_json(const char *name) {
    char rel[128];
    json_t *o = NULL;
    snprintf(rel, sizeof rel, "tokenizers/parts/%s", name);
    assert_ok(json_read(test_golden(rel), &o));
    return o;
}

struct tok *tok_parts_make(const json_t *models, json_t *line) {
    struct tok *t = NULL;
    const char *name = json_string_value(json_object_get(line, "name"));
    json_t *whole = json_copy(line);
    json_object_set(whole, "model",
                    json_object_get(models, json_string_value(json_object_get(line, "model"))));
    json_object_del(whole, "rows");
    char *text = json_dumps(whole, 0);
    assert_non_null(text);
    assert_ok(tok_parse(name, text, (int64_t)strlen(text), &t));
    free(text); /* why: memory of jansson, not of mem_* */
    json_decref(whole);
    return t;
}

struct tok *tok_parts_open(const char *name) {
    json_t *models = tok_parts_json("models.json");
    struct tok *t = NULL;
    struct buf b;
    buf_init(&b, MEM_TEST, FILE_MAX);
    assert_ok(file_read(test_golden("tokenizers/parts/cases.jsonl"), &b));
    for (const char *s = b.data; *s && !t;) {
        const char *nl = strchr(s, '\n');
        json_t *line = NULL;
        assert_ok(json_parse("cases.jsonl", s, nl - s, &line));
        if (strcmp(json_string_value(json_object_get(line, "name")), name) == 0) {
            t = tok_parts_make(models, line);
        }
        json_decref(line);
        s = nl + 1;
    }
    assert_non_null(t);
    buf_fini(&b);
    json_decref(models);
    return t;
}
