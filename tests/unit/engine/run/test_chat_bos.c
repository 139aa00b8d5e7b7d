/* BOS stands once in front of a chat, whoever puts it there: the template, the tokenizer, both. */
#include "tests/support/support.h"

#include <string.h>

#include "engine/run/model.h"
#include "tests/support/toy_tok.h"

/* A tokenizer.json whose BOS is `special`, added in front by the post-processor when add. */
static struct tok *with_bos(bool add, bool normalized) {
    struct buf b;
    struct tok *t = NULL;
    buf_init(&b, MEM_TEST, 1 << 16);
    assert_ok(buf_fmt(
        &b,
        "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"\xe2\x96\x81\":0,\"a\":1,\"<s>\":2,\"[\":3,\"]"
        "\":4},"
        "\"merges\":[],\"unk_token\":\"\xe2\x96\x81\"},\"added_tokens\":[{\"id\":2,\"content\":\"<"
        "s>\","
        "\"special\":true,\"normalized\":%s}],\"normalizer\":{\"type\":\"Prepend\",\"prepend\":"
        "\"\xe2\x96\x81\"},\"decoder\":{\"type\":\"Fuse\"},\"post_processor\":{\"type\":"
        "\"TemplateProcessing\",\"single\":[%s{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}],"
        "\"special_tokens\":{\"<s>\":{\"ids\":[2]}}}}",
        normalized ? "true" : "false",
        add ? "{\"SpecialToken\":{\"id\":\"<s>\",\"type_id\":0}}," : ""));
    assert_ok(tok_parse("bos", b.data, b.len, &t));
    buf_fini(&b);
    return t;
}

/* How often BOS is in the ids of a chat, and whether it is the first. */
static int32_t count_bos(const struct tok *tok, const char *template, int32_t bos, bool *first) {
    struct model m = {0};
    struct tok_ids ids;
    int32_t n = 0;
    json_t *messages = json_pack("[{s:s, s:s}]", "role", "user", "content", "a");
    /* why: the model only borrows here */
    m.tok = (struct tok *)(uintptr_t)tok;
    tok_ids_init(&ids);
    assert_ok(chat_compile("t", template, (int64_t)strlen(template), &m.chat));
    assert_ok(model_chat_ids(&m, messages, 0, &ids));
    for (int32_t i = 0; i < ids.n; i++) {
        n += ids.v[i] == bos;
    }
    *first = ids.n > 0 && ids.v[0] == bos;
    tok_ids_fini(&ids);
    chat_free(m.chat);
    json_decref(messages);
    return n;
}

static const char *const templates[] = {
    "{{ bos_token }}[{{ messages[0].content }}]",
    "<s>[{{ messages[0].content }}]",
    "{% for m in messages %}{% if loop.first %}{{ bos_token }}{% endif %}{{ m.content }}{% endfor "
    "%}",
    "[{{ messages[0].content }}]",
};

static void test_chat_bos_once_when_the_tokenizer_adds_it(void **state) {
    (void)state;
    for (int32_t normalized = 0; normalized < 2; normalized++) {
        struct tok *t = with_bos(true, normalized);
        for (int32_t i = 0; i < ARRAY_LEN(templates); i++) {
            bool first = false;
            assert_int_equal(tok_bos(t), 2);
            assert_int_equal(count_bos(t, templates[i], 2, &first), 1);
            assert_true(first);
        }
        tok_destroy(t);
    }
}

static void test_chat_bos_once_when_the_template_brings_it(void **state) {
    (void)state;
    struct tok *t = with_bos(false, false);
    for (int32_t i = 0; i < ARRAY_LEN(templates); i++) {
        bool first = false;
        bool brings = strstr(templates[i], "<s>") != NULL;
        assert_int_equal(count_bos(t, templates[i], 2, &first), brings);
        assert_int_equal(first, brings);
    }
    tok_destroy(t);
}

/* A SentencePiece vocabulary that adds BOS, as most GGUF files have it. */
static void test_chat_bos_once_for_scores(void **state) {
    (void)state;
    struct tok *t = toy_spm();
    for (int32_t i = 0; i < ARRAY_LEN(templates); i++) {
        bool first = false;
        assert_int_equal(count_bos(t, templates[i], 1, &first), 1);
        assert_true(first);
    }
    tok_destroy(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_chat_bos_once_when_the_tokenizer_adds_it),
        TEST(test_chat_bos_once_when_the_template_brings_it),
        TEST(test_chat_bos_once_for_scores),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
