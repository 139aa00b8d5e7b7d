/* Growth, limit and termination of struct buf. */
#include "tests/support/support.h"

#include <string.h>

#include "engine/base/buf.h"

static void test_buf_grows_and_stays_terminated(void **state) {
    (void)state;
    struct buf b;
    buf_init(&b, MEM_TEST, 10000);
    assert_string_equal(buf_cstr(&b), "");
    for (int32_t i = 0; i < 500; i++) {
        assert_ok(buf_fmt(&b, "%03d,", i));
        assert_int_equal(b.data[b.len], '\0');
    }
    assert_int_equal(b.len, 2000);
    assert_memory_equal(b.data + 4 * 321, "321,", 4);
    buf_clear(&b);
    assert_string_equal(buf_cstr(&b), "");
    assert_ok(buf_str(&b, "x"));
    assert_string_equal(buf_cstr(&b), "x");
    buf_fini(&b);
    buf_fini(&b);
}

static void test_buf_limit_is_exact_and_leaves_content(void **state) {
    (void)state;
    struct buf b;
    buf_init(&b, MEM_TEST, 5);
    assert_ok(buf_str(&b, "abc"));
    assert_err(buf_str(&b, "def"), ERR_LIMIT, "more than 5 bytes");
    assert_err(buf_fmt(&b, "%d", 123), ERR_LIMIT, "5");
    assert_err(buf_utf8(&b, 0x20ac), ERR_LIMIT, "5");
    assert_err(buf_add(&b, "", INT64_MAX), ERR_LIMIT, "5");
    assert_string_equal(buf_cstr(&b), "abc");
    assert_ok(buf_str(&b, "de"));
    assert_err(buf_str(&b, "f"), ERR_LIMIT, "5");
    assert_ok(buf_str(&b, ""));
    assert_string_equal(buf_cstr(&b), "abcde");
    buf_fini(&b);
}

static void test_buf_without_memory_is_unchanged(void **state) {
    (void)state;
    struct buf b;
    buf_init(&b, MEM_TEST, 1000);
    fault_arm(FAULT_ALLOC, 1, false);
    assert_int_equal(buf_str(&b, "abc"), ERR_NOMEM);
    assert_string_equal(buf_cstr(&b), "");
    assert_ok(buf_str(&b, "abc"));
    fault_arm(FAULT_ALLOC, 1, false);
    char big[200];
    memset(big, 'y', sizeof big);
    assert_int_equal(buf_add(&b, big, sizeof big), ERR_NOMEM);
    assert_string_equal(buf_cstr(&b), "abc");
    buf_fini(&b);
}

static void test_buf_utf8_of_every_length(void **state) {
    (void)state;
    struct buf b;
    buf_init(&b, MEM_TEST, 100);
    assert_ok(buf_utf8(&b, 'A'));
    assert_ok(buf_utf8(&b, 0x7f));
    assert_ok(buf_utf8(&b, 0x80));
    assert_ok(buf_utf8(&b, 0x7ff));
    assert_ok(buf_utf8(&b, 0x800));
    assert_ok(buf_utf8(&b, 0xffff));
    assert_ok(buf_utf8(&b, 0x10000));
    assert_ok(buf_utf8(&b, 0x10ffff));
    assert_string_equal(buf_cstr(&b), "A\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80\xef\xbf\xbf"
                                      "\xf0\x90\x80\x80\xf4\x8f\xbf\xbf");
    buf_fini(&b);
}

static void test_buf_take_hands_the_string_over(void **state) {
    (void)state;
    struct buf b;
    buf_init(&b, MEM_TEST, 100);
    char *empty = buf_take(&b);
    assert_string_equal(empty, "");
    assert_ok(buf_str(&b, "gone"));
    char *s = buf_take(&b);
    assert_string_equal(s, "gone");
    assert_string_equal(buf_cstr(&b), "");
    assert_ok(buf_str(&b, "new"));
    assert_string_equal(s, "gone");
    mem_free(s);
    mem_free(empty);
    buf_fini(&b);
    fault_arm(FAULT_ALLOC, 1, false);
    assert_null(buf_take(&b));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_buf_grows_and_stays_terminated), TEST(test_buf_limit_is_exact_and_leaves_content),
        TEST(test_buf_without_memory_is_unchanged), TEST(test_buf_utf8_of_every_length),
        TEST(test_buf_take_hands_the_string_over)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
