#include "tests/support/support.h"

#include <string.h>

#include "engine/text/chat.h"

static int render(const char *src, const char *vars, struct buf *out) {
    struct chat *c = NULL;
    json_t *j = NULL;
    int rc = chat_compile("t", src, (int64_t)strlen(src), &c);
    rc = rc ? rc : json_parse("vars", vars, (int64_t)strlen(vars), &j);
    rc = rc ? rc : chat_render(c, j, 86400, out);
    chat_free(c);
    json_decref(j);
    return rc;
}

static void gives(const char *src, const char *vars, const char *want) {
    struct buf b;
    buf_init(&b, MEM_TEST, 1 << 20);
    assert_ok(render(src, vars, &b));
    assert_string_equal(buf_cstr(&b), want);
    buf_fini(&b);
}

static void fails(const char *src, int code, const char *part) {
    struct buf b;
    buf_init(&b, MEM_TEST, 1 << 20);
    assert_ok(buf_str(&b, "kept"));
    assert_err(render(src, "{\"l\":[1,2]}", &b), code, part);
    assert_string_equal(buf_cstr(&b), "kept");
    buf_fini(&b);
}

static void test_chat_renders_messages(void **state) {
    (void)state;
    gives(
        "{% for m in messages %}\n<|{{ m.role }}|>{{ m['content'] | trim }}\n{% endfor %}\n"
        "{% if add_generation_prompt %}<|assistant|>{% endif %}",
        "{\"messages\":[{\"role\":\"user\",\"content\":\" hi \"}],\"add_generation_prompt\":true}",
        "<|user|>hi\n<|assistant|>");
}

static void test_chat_keeps_order_of_members(void **state) {
    (void)state;
    gives("{{ t | tojson }}", "{\"t\":{\"z\":1,\"a\":{\"y\":2.5,\"b\":null}}}",
          "{\"z\": 1, \"a\": {\"y\": 2.5, \"b\": null}}");
}

static void test_chat_clock_is_given(void **state) {
    (void)state;
    gives("{{ strftime_now('%Y-%m-%d %b') }}", "{}", "1970-01-02 Jan");
}

static void test_chat_errors_have_a_line(void **state) {
    (void)state;
    fails("a\n{{ raise_exception('roles must alternate') }}", ERR_FORMAT, "roles must alternate");
    fails("a\n{{ raise_exception('x') }}", ERR_FORMAT, "line 2");
    fails("\n\n{% nosuch %}", ERR_FORMAT, "line 3");
    fails("{{ l | nosuch }}", ERR_FORMAT, "nosuch");
    fails("{{ x.y }}", ERR_FORMAT, "'x' is undefined");
    fails("{{ l.append(1) }}", ERR_FORMAT, "unsafe");
    fails("{% include 'x' %}", ERR_FORMAT, "include");
}

static void test_chat_limits(void **state) {
    (void)state;
    fails("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", ERR_LIMIT, "deep");
    fails("{% set l = range(99999) %}{% for a in l %}{% for b in l %}{% endfor %}{% endfor %}",
          ERR_LIMIT, "steps");
    fails("{{ range(1000000)|length }}", ERR_LIMIT, "range");
    fails("{{ 'x' * 100000000000 }}", ERR_LIMIT, "repeated");
    fails("{% set ns = namespace(s='xxxxxxxx') %}{% for i in range(99) %}"
          "{% set ns.s = ns.s + ns.s %}{% endfor %}",
          ERR_LIMIT, "bytes");
    fails("{{ 9223372036854775807 + 1 }}", ERR_FORMAT, "2^63");
    fails("{{ 9223372036854775806 + 9 }}", ERR_RANGE, "64 bits");
}

static void test_chat_nesting_is_bounded(void **state) {
    (void)state;
    struct buf b;
    struct chat *c = NULL;
    buf_init(&b, MEM_TEST, 1 << 20);
    assert_ok(buf_str(&b, "{{ "));
    for (int32_t i = 0; i < 200; i++) {
        assert_ok(buf_str(&b, "["));
    }
    assert_err(chat_compile("deep", b.data, b.len, &c), ERR_FORMAT, "deep");
    buf_clear(&b);
    assert_ok(buf_str(&b, "{{ "));
    for (int32_t i = 0; i < 200; i++) {
        assert_ok(buf_str(&b, "not "));
    }
    assert_ok(buf_str(&b, "1 }}"));
    assert_err(chat_compile("deep", b.data, b.len, &c), ERR_LIMIT, "deep");
    buf_clear(&b);
    assert_ok(buf_str(&b, "{{ 1"));
    for (int32_t i = 0; i < 100000; i++) {
        assert_ok(buf_str(&b, "+1"));
    }
    assert_ok(buf_str(&b, " }}"));
    assert_ok(chat_compile("long", b.data, b.len, &c)); /* a long chain nests when evaluated */
    struct buf out;
    json_t *vars = json_object();
    buf_init(&out, MEM_TEST, 1 << 10);
    assert_err(chat_render(c, vars, 0, &out), ERR_LIMIT, "deep");
    json_decref(vars);
    buf_fini(&out);
    buf_fini(&b);
    chat_free(c);
}

static void test_chat_refuses_broken_utf8(void **state) {
    (void)state;
    struct chat *c = NULL;
    assert_err(chat_compile("t", "a\xff", 2, &c), ERR_FORMAT, "byte 1");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_chat_renders_messages),
        TEST(test_chat_keeps_order_of_members),
        TEST(test_chat_clock_is_given),
        TEST(test_chat_errors_have_a_line),
        TEST(test_chat_limits),
        TEST(test_chat_nesting_is_bounded),
        TEST(test_chat_refuses_broken_utf8),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
