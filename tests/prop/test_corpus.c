/* Every stream of the corpus: right class, right text, right count, at every cut. */
#include "tests/support/support.h"

#include <string.h>

#include "engine/base/rng.h"
#include "harness/corpus.h"

enum { CUTS_MAX = 4096, SEED = 11 };

static void check(const struct corpus_case *c, const struct reply *r, const struct buf *text) {
    if (r->kind != c->want) {
        fail_msg("%s: class %d (%s), want %d", c->name, r->kind, r->error, c->want);
    }
    assert_int_equal(text->len, c->text.len);
    assert_memory_equal(buf_cstr(text), buf_cstr(&c->text), (size_t)text->len);
    assert_int_equal(r->n_tokens, c->n_tokens);
}

static void
each_case(void (*body)(const struct corpus_case *c, struct reply *r, struct buf *text)) {
    struct reply r;
    struct buf text;
    reply_init(&r, &(struct reply_opts){0});
    buf_init(&text, MEM_TEST, CORPUS_BODY_MAX);
    for (int32_t i = 0; i < corpus_n(); i++) {
        struct corpus_case c;
        assert_ok(corpus_make(i, &c));
        body(&c, &r, &text);
        corpus_fini(&c);
    }
    reply_fini(&r);
    buf_fini(&text);
}

static void cut_once(const struct corpus_case *c, struct reply *r, struct buf *text) {
    for (int64_t cut = 0; cut <= c->body.len; cut++) {
        assert_ok(corpus_read(c, &cut, 1, r, text));
        check(c, r, text);
    }
}

static void cut_to_bytes(const struct corpus_case *c, struct reply *r, struct buf *text) {
    static int64_t cuts[CUTS_MAX];
    assert_true(c->body.len < CUTS_MAX);
    for (int64_t i = 0; i < c->body.len; i++) {
        cuts[i] = i + 1;
    }
    assert_ok(corpus_read(c, cuts, (int32_t)c->body.len, r, text));
    check(c, r, text);
}

static void cut_at_random(const struct corpus_case *c, struct reply *r, struct buf *text) {
    struct rng rng;
    rng_init(&rng, SEED, (uint64_t)c->body.len);
    for (int32_t k = 0; k < 20; k++) {
        int64_t cuts[16];
        int64_t at = 0;
        for (int32_t i = 0; i < ARRAY_LEN(cuts); i++) {
            at += rng_below(&rng, c->body.len / 8 + 2);
            cuts[i] = at;
        }
        assert_ok(corpus_read(c, cuts, ARRAY_LEN(cuts), r, text));
        check(c, r, text);
    }
}

static void test_corpus_at_every_cut(void **state) {
    (void)state;
    assert_true(corpus_n() >= 200);
    each_case(cut_once);
}

static void test_corpus_in_single_bytes(void **state) {
    (void)state;
    each_case(cut_to_bytes);
}

static void test_corpus_at_random_cuts(void **state) {
    (void)state;
    each_case(cut_at_random);
}

/* Names are unique, and each class of the wire that bytes can show occurs. */
static void test_corpus_is_complete(void **state) {
    (void)state;
    bool seen[REPLY_N] = {false};
    for (int32_t i = 0; i < corpus_n(); i++) {
        struct corpus_case c;
        assert_ok(corpus_make(i, &c));
        seen[c.want] = true;
        assert_int_equal(corpus_find(c.name), i);
        corpus_fini(&c);
    }
    for (int32_t k = REPLY_NO_ANSWER; k <= REPLY_STALLED; k++) {
        if (!seen[k]) {
            fail_msg("no case of class %s", reply_class_name((enum reply_class)k));
        }
    }
    assert_int_equal(corpus_find("nothing"), -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_corpus_at_every_cut), TEST(test_corpus_in_single_bytes),
        TEST(test_corpus_at_random_cuts), TEST(test_corpus_is_complete)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
