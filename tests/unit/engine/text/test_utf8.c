#include "tests/support/support.h"

#include <string.h>

#include "engine/text/utf8.h"

static void repaired(const char *in, int64_t n, const char *want) {
    struct buf b;
    buf_init(&b, MEM_TEST, 1 << 20);
    assert_ok(utf8_repair((const uint8_t *)in, n, &b));
    assert_string_equal(buf_cstr(&b), want);
    buf_fini(&b);
}

/* Cases of The Unicode Standard, table 3-8 and its neighbours. */
static void test_utf8_repair_cuts_at_maximal_subparts(void **state) {
    (void)state;
    repaired("a\xf1\x80\x80\xe1\x80\xc2"
             "b\x80"
             "c\x80\xbf"
             "d",
             13,
             "a\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"
             "b\xef\xbf\xbd"
             "c\xef\xbf\xbd\xef\xbf\xbd"
             "d");
    repaired("\xc0\xaf", 2, "\xef\xbf\xbd\xef\xbf\xbd");
    repaired("\xed\xa0\x80", 3, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
    repaired("\xf4\x90\x80\x80", 4, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
    repaired("x\xe2\x82", 3, "x\xef\xbf\xbd");
}

static void test_utf8_next_tells_short_from_wrong(void **state) {
    (void)state;
    uint32_t cp = 0;
    assert_int_equal(utf8_next((const uint8_t *)"\xf0\x9f\x98\x80", 4, &cp), 4);
    assert_int_equal(cp, 0x1f600);
    assert_int_equal(utf8_next((const uint8_t *)"\xf0\x9f\x98", 3, &cp), 0);
    assert_int_equal(utf8_next((const uint8_t *)"\xf0\x9f(", 3, &cp), -2);
    assert_int_equal(utf8_next((const uint8_t *)"\x80", 1, &cp), -1);
}

static void test_utf8_every_character_round_trips(void **state) {
    (void)state;
    struct buf b;
    buf_init(&b, MEM_TEST, 16);
    for (uint32_t cp = 0; cp <= 0x10ffff; cp++) {
        uint32_t back = 0;
        if (cp >= 0xd800 && cp < 0xe000) {
            continue;
        }
        buf_clear(&b);
        assert_ok(buf_utf8(&b, cp));
        if (utf8_next((const uint8_t *)b.data, b.len, &back) != b.len || back != cp) {
            fail_msg("U+%04X", cp);
        }
    }
    buf_fini(&b);
}

static void normalized(enum utf8_form form, const char *in, const char *want) {
    struct buf b;
    buf_init(&b, MEM_TEST, 1 << 24);
    assert_ok(utf8_normalize(form, (const uint8_t *)in, (int64_t)strlen(in), &b));
    assert_string_equal(buf_cstr(&b), want);
    buf_fini(&b);
}

static void test_utf8_normal_forms(void **state) {
    (void)state;
    normalized(UTF8_NFC, "e\xcc\x81 plain A\xcc\x8a", "\xc3\xa9 plain \xc3\x85");
    normalized(UTF8_NFC, "\xe2\x84\xab", "\xc3\x85"); /* the Angstrom sign */
    normalized(UTF8_NFC, "q\xcc\x87\xcc\xa3", "q\xcc\xa3\xcc\x87");
    normalized(UTF8_NFC, "\xe1\x84\x92\xe1\x85\xa1\xe1\x86\xab", "\xed\x95\x9c");
    normalized(UTF8_NFD, "\xc3\xa9", "e\xcc\x81");
    normalized(UTF8_NFKC, "\xef\xac\x81 \xc2\xb2", "fi 2");
    normalized(UTF8_NFKD, "\xef\xac\x81\xc3\xa9", "fie\xcc\x81");
    normalized(UTF8_NFC, "", "");
}

/* A million marks in the worst order: linear, or this test would not end. */
static void test_utf8_normalize_long_run_of_marks(void **state) {
    (void)state;
    struct buf in;
    struct buf out;
    buf_init(&in, MEM_TEST, 1 << 24);
    buf_init(&out, MEM_TEST, 1 << 24);
    assert_ok(buf_str(&in, "a"));
    for (int32_t i = 0; i < 500000; i++) {
        assert_ok(buf_str(&in, "\xcc\x87\xcc\xa3"));
    }
    assert_ok(utf8_normalize(UTF8_NFC, (const uint8_t *)in.data, in.len, &out));
    assert_int_equal(utf8_count((const uint8_t *)out.data, out.len), 1000000);
    buf_fini(&in);
    buf_fini(&out);
}

static void test_utf8_classes(void **state) {
    (void)state;
    assert_true(utf8_is_number('7') && utf8_is_number(0xbd) && utf8_is_number(0x2163));
    assert_false(utf8_is_number(0x56db)); /* a Chinese numeral is a letter */
    assert_true(utf8_is_space(0x3000) && utf8_is_space(0x85) && !utf8_is_space(0x180e));
    assert_true(utf8_is_punct('+') && utf8_is_punct(0x2014) && !utf8_is_punct(0x20ac));
    assert_true(utf8_is_word('_') && utf8_is_word(0x301) && !utf8_is_word('-'));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_utf8_repair_cuts_at_maximal_subparts),
        TEST(test_utf8_next_tells_short_from_wrong),
        TEST(test_utf8_every_character_round_trips),
        TEST(test_utf8_normal_forms),
        TEST(test_utf8_normalize_long_run_of_marks),
        TEST(test_utf8_classes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
