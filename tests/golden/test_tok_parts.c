/* Every part of a tokenizer.json on its own, and small SentencePiece models: ids, ids with special
 * tokens, decoded text with and without them equal to those of tokenizers 0.23.3 and sentencepiece
 * 0.2.3, and the stream equal to the whole at every split.
 *
 * Known differences, each with its reason, are in `differs`; they must differ, so that the list
 * stays true. Vectors: tests/golden/data/tokenizers/parts, by tests/golden/make_tok_parts.py. */
#include "tests/support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/text/detok.h"
#include "engine/text/tok.h"
#include "tests/support/tok_parts.h"

enum { TEXT_MAX = 1 << 20, FILE_MAX = 1 << 24 };

struct parts {
    json_t *models;
    json_t *texts;
    json_t *pool;
};

static void read_bytes(const char *name, struct buf *b) {
    char rel[128];
    snprintf(rel, sizeof rel, "tokenizers/parts/%s", name);
    buf_init(b, MEM_TEST, FILE_MAX);
    assert_ok(file_read(test_golden(rel), b));
}

/* Ids as the pool writes them. */
static void ids_text(const struct tok_ids *ids, struct buf *b) {
    buf_clear(b);
    for (int32_t i = 0; i < ids->n; i++) {
        assert_ok(buf_fmt(b, i ? " %d" : "%d", ids->v[i]));
    }
}

static bool is(const struct buf *b, const json_t *want) {
    return (size_t)b->len == json_string_length(want) &&
           memcmp(buf_cstr(b), json_string_value(want), (size_t)b->len) == 0;
}

/* Pushes the ids one by one; flushing at the end gives the whole. */
static void
check_stream(const struct tok *t, const struct tok_ids *ids, bool skip, const struct buf *whole) {
    struct detok d;
    struct buf b;
    detok_init(&d, t, skip);
    buf_init(&b, MEM_TEST, TEXT_MAX);
    for (int32_t i = 0; i < ids->n; i++) {
        assert_ok(detok_push(&d, ids->v[i], &b));
    }
    assert_ok(detok_flush(&d, &b));
    assert_int_equal(b.len, whole->len);
    assert_memory_equal(buf_cstr(&b), buf_cstr(whole), (size_t)b.len);
    detok_fini(&d);
    buf_fini(&b);
}

static const char *const what[] = {"ids", "ids with special tokens", "decoded",
                                   "decoded, skipping"};

/* Compares one row; prints what differs. out: true when all is equal */
static bool row_equal(
    const struct parts *p, const struct tok *t, const char *name, size_t i, const json_t *row) {
    const json_t *text = json_array_get(p->texts, i);
    const char *s = json_string_value(text);
    int64_t n = (int64_t)json_string_length(text);
    struct tok_ids ids;
    struct tok_ids with;
    struct buf got[4];
    bool all = true;
    tok_ids_init(&ids);
    tok_ids_init(&with);
    for (int32_t k = 0; k < 4; k++) {
        buf_init(&got[k], MEM_TEST, TEXT_MAX);
    }
    assert_ok(tok_encode(t, s, n, TOK_PARSE_SPECIAL, &ids));
    assert_ok(tok_encode(t, s, n, TOK_PARSE_SPECIAL | TOK_ADD_SPECIAL, &with));
    ids_text(&ids, &got[0]);
    ids_text(&with, &got[1]);
    assert_ok(tok_decode(t, ids.v, ids.n, false, &got[2]));
    assert_ok(tok_decode(t, ids.v, ids.n, true, &got[3]));
    check_stream(t, &ids, false, &got[2]);
    check_stream(t, &ids, true, &got[3]);
    for (int32_t k = 0; k < 4; k++) {
        const json_t *want =
            json_array_get(p->pool, (size_t)json_integer_value(json_array_get(row, (size_t)k)));
        if (!is(&got[k], want)) {
            print_message("%s, text %d \"%s\": %s\n  got  %s\n  want %s\n", name, (int)i, s,
                          what[k], buf_cstr(&got[k]), json_string_value(want));
            all = false;
        }
        buf_fini(&got[k]);
    }
    tok_ids_fini(&ids);
    tok_ids_fini(&with);
    return all;
}

static void test_tok_parts_equal_tokenizers(void **state) {
    (void)state;
    struct parts p = {tok_parts_json("models.json"), tok_parts_json("texts.json"),
                      tok_parts_json("pool.json")};
    struct buf b;
    int32_t n_cases = 0;
    int32_t n_bad = 0;
    read_bytes("cases.jsonl", &b);
    for (const char *s = b.data; *s;) {
        const char *nl = strchr(s, '\n');
        json_t *c = NULL;
        assert_ok(json_parse("cases.jsonl", s, nl - s, &c));
        const char *name = json_string_value(json_object_get(c, "name"));
        const json_t *rows = json_object_get(c, "rows");
        struct tok *t = tok_parts_make(p.models, c);
        for (size_t i = 0; i < json_array_size(rows); i++) {
            const json_t *row = json_array_get(rows, i);
            n_bad += json_is_array(row) && !row_equal(&p, t, name, i, row);
        }
        tok_destroy(t);
        json_decref(c);
        n_cases++;
        s = nl + 1;
    }
    assert_true(n_cases > 100);
    assert_int_equal(n_bad, 0);
    buf_fini(&b);
    json_decref(p.models);
    json_decref(p.texts);
    json_decref(p.pool);
}

static void check_spm(const char *name) {
    char file[64];
    struct buf model;
    struct buf b;
    struct tok *t = NULL;
    int32_t n_bad = 0;
    json_t *texts = tok_parts_json("texts.json");
    snprintf(file, sizeof file, "%s.json", name);
    json_t *rows = tok_parts_json(file);
    snprintf(file, sizeof file, "%s.model", name);
    read_bytes(file, &model);
    assert_ok(tok_parse_model(file, (const uint8_t *)model.data, model.len, &t));
    buf_init(&b, MEM_TEST, TEXT_MAX);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *text = json_array_get(texts, i);
        const json_t *want = json_array_get(json_array_get(rows, i), 0);
        struct tok_ids ids;
        tok_ids_init(&ids);
        assert_ok(
            tok_encode(t, json_string_value(text), (int64_t)json_string_length(text), 0, &ids));
        bool same = (size_t)ids.n == json_array_size(want);
        for (int32_t k = 0; k < ids.n && same; k++) {
            same = ids.v[k] == json_integer_value(json_array_get(want, (size_t)k));
        }
        if (!same) {
            char *dump = json_dumps(want, JSON_COMPACT);
            ids_text(&ids, &b);
            print_message("%s, text %d \"%s\"\n  got  %s\n  want %s\n", name, (int)i,
                          json_string_value(text), buf_cstr(&b), dump);
            free(dump); /* why: memory of jansson, not of mem_* */
            n_bad++;
        }
        tok_ids_fini(&ids);
    }
    assert_int_equal(n_bad, 0);
    buf_fini(&model);
    buf_fini(&b);
    tok_destroy(t);
    json_decref(rows);
    json_decref(texts);
}

static void test_tok_parts_sentencepiece_bpe(void **state) {
    (void)state;
    check_spm("spm_bpe");
    check_spm("spm_bpe_user");
}

static void test_tok_parts_sentencepiece_unigram(void **state) {
    (void)state;
    check_spm("spm_unigram");
    check_spm("spm_unigram_user");
    check_spm("spm_suffix");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_tok_parts_equal_tokenizers),
        TEST(test_tok_parts_sentencepiece_bpe),
        TEST(test_tok_parts_sentencepiece_unigram),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
