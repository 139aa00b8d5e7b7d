/* Rules of module names: which of several wins, and how Python's re.match is kept. */
#include "tests/support/support.h"

#include <string.h>

#include "engine/model/qrule.h"

static struct qrules *make(const char *const *texts, int32_t n) {
    struct qrules *r = NULL;
    assert_ok(qrules_create(&r));
    for (int32_t i = 0; i < n; i++) {
        assert_ok(qrules_add(r, "t", texts[i], i));
    }
    assert_int_equal(qrules_n(r), n);
    return r;
}

static int32_t found(struct qrules *r, const char *module, const char *cls) {
    int32_t v = -7;
    assert_ok(qrules_find(r, module, cls, &v));
    return v;
}

static void test_qrule_name_beats_regex_beats_class(void **state) {
    (void)state;
    static const char *const texts[] = {"Linear", "re:.*up_proj", "model.layers.3.mlp.up_proj",
                                        "Embedding"};
    struct qrules *r = make(texts, ARRAY_LEN(texts));
    assert_int_equal(found(r, "model.layers.3.mlp.up_proj", "Linear"), 2);
    assert_int_equal(found(r, "model.layers.4.mlp.up_proj", "Linear"), 1);
    assert_int_equal(found(r, "model.layers.4.mlp.gate_proj", "Linear"), 0);
    assert_int_equal(found(r, "model.embed_tokens", "Embedding"), 3);
    assert_int_equal(found(r, "model.norm", "RMSNorm"), -1);
    qrules_free(r);
    assert_int_equal(found(NULL, "x", "Linear"), -1);
    qrules_free(NULL);
}

static void test_qrule_first_in_byte_order_and_last_of_equals(void **state) {
    (void)state;
    static const char *const texts[] = {"re:.*z.*", "re:.*proj", "re:.*proj", "re:m.*"};
    struct qrules *r = make(texts, ARRAY_LEN(texts));
    assert_int_equal(found(r, "m.z.proj", "Linear"), 2);
    assert_int_equal(found(r, "m.z", "Linear"), 0);
    assert_int_equal(found(r, "m", "Linear"), 3);
    qrules_free(r);
}

static void test_qrule_matches_at_the_start_as_python(void **state) {
    (void)state;
    static const struct {
        const char *rule;
        const char *module;
        bool hit;
    } rows[] = {
        {"re:lm_head", "lm_head", true},
        {"re:lm_head", "lm_head.extra", true}, /* the end is free */
        {"re:head", "lm_head", false},         /* the start is not */
        {"re:.*head$", "lm_head", true},
        {"re:.*mlp.gate$", "model.layers.0.mlp.gate", true},
        {"re:.*mlp.gate$", "model.layers.0.mlp.gate_proj", false},
        {"re:model\\.layers\\.(0|1)\\.", "model.layers.1.mlp", true},
        {"re:model\\.layers\\.(0|1)\\.", "model.layers.11.mlp", false},
        {"re:(?!.*down).*_proj", "a.up_proj", true},
        {"re:(?!.*down).*_proj", "a.down_proj", false},
        {"re:(?P<x>q|k)_proj", "k_proj", true},
        {"re:", "anything", true},
        {"lm_hea", "lm_head", false},
        {"lm_head", "lm_head", true},
    };
    for (int32_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct qrules *r = make(&rows[i].rule, 1);
        if ((found(r, rows[i].module, "Linear") == 0) != rows[i].hit) {
            fail_msg("%s with %s", rows[i].rule, rows[i].module);
        }
        qrules_free(r);
    }
}

static void test_qrule_first_of_expressions_in_order(void **state) {
    (void)state;
    struct qrules *r = NULL;
    int32_t v = 0;
    assert_ok(qrules_create(&r));
    assert_ok(qrules_add(r, "t", "model.x", 9)); /* no expression: passed over */
    assert_ok(qrules_add_regex(r, "t", "model\\.y", 5));
    assert_ok(qrules_add_regex(r, "t", "model", 6));
    assert_ok(qrules_first(r, "model.x", &v));
    assert_int_equal(v, 6);
    assert_ok(qrules_first(r, "model.y", &v));
    assert_int_equal(v, 5);
    assert_ok(qrules_first(r, "other", &v));
    assert_int_equal(v, -1);
    qrules_free(r);
}

static void test_qrule_refusals(void **state) {
    (void)state;
    struct qrules *r = NULL;
    int32_t v = 3;
    assert_ok(qrules_create(&r));
    assert_err(qrules_add(r, "here", "re:a(b", 0), ERR_FORMAT, "here: regular expression \"a(b\"");
    assert_err(qrules_add(r, "here", "re:\\C", 0), ERR_FORMAT, "at byte");
    char longest[QRULE_TEXT_MAX + 2];
    memset(longest, 'x', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    assert_err(qrules_add(r, "here", longest, 0), ERR_LIMIT, "longer than");
    assert_int_equal(qrules_n(r), 0);
    /* nested repeats would take for ever */
    assert_ok(qrules_add(r, "here", "re:(a+)+(a+)+[bd]", 0));
    assert_err(qrules_find(r, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaac", "L", &v), ERR_LIMIT,
               "cannot be matched");
    assert_int_equal(v, 3);
    qrules_free(r);
}

static int make_and_ask(void *ctx) {
    struct qrules *r = NULL;
    int32_t v = 0;
    (void)ctx;
    int rc = qrules_create(&r);
    for (int32_t i = 0; i < 20 && !rc; i++) {
        rc = qrules_add(r, "t", i % 2 ? "re:model.*(up|down)_proj" : "Linear", i);
    }
    rc = rc ? rc : qrules_find(r, "model.layers.0.up_proj", "Linear", &v);
    assert_true(rc || v == 19);
    qrules_free(r);
    return rc;
}

static void test_qrule_without_memory(void **state) {
    (void)state;
    static const int codes[] = {ERR_NOMEM, 0};
    test_fault_loop(FAULT_ALLOC, make_and_ask, NULL, codes);
}

int main(void) {
    const struct CMUnitTest tests[] = {TEST(test_qrule_name_beats_regex_beats_class),
                                       TEST(test_qrule_first_in_byte_order_and_last_of_equals),
                                       TEST(test_qrule_matches_at_the_start_as_python),
                                       TEST(test_qrule_first_of_expressions_in_order),
                                       TEST(test_qrule_refusals),
                                       TEST(test_qrule_without_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
