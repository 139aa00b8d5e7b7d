#include "tests/support/support.h"

#include <string.h>

#include "engine/text/detok.h"
#include "tests/support/toy_tok.h"

static struct tok *toy(void) {
    struct buf b;
    struct tok *t = NULL;
    buf_init(&b, MEM_TEST, 1 << 16);
    toy_json(&b);
    assert_ok(tok_parse("toy", b.data, b.len, &t));
    buf_fini(&b);
    return t;
}

/* Pushes one id and says what came out. */
static void gives(struct detok *d, int32_t id, const char *want) {
    struct buf b;
    buf_init(&b, MEM_TEST, 64);
    assert_ok(detok_push(d, id, &b));
    assert_string_equal(buf_cstr(&b), want);
    buf_fini(&b);
}

static void flushes(struct detok *d, const char *want) {
    struct buf b;
    buf_init(&b, MEM_TEST, 64);
    assert_ok(detok_flush(d, &b));
    assert_string_equal(buf_cstr(&b), want);
    buf_fini(&b);
}

static int32_t byte_token(const struct tok *t, uint8_t byte) {
    for (int32_t i = 0; i < 256; i++) {
        int32_t n;
        if (tok_piece(t, i, &n)[0] == byte) {
            return i;
        }
    }
    return -1;
}

static void test_detok_waits_for_whole_characters(void **state) {
    (void)state;
    struct tok *t = toy();
    struct detok d;
    detok_init(&d, t, false);
    gives(&d, byte_token(t, 0xf0), "");
    gives(&d, byte_token(t, 0x9f), "");
    gives(&d, byte_token(t, 0x98), "");
    gives(&d, byte_token(t, 0x80), "\xf0\x9f\x98\x80");
    gives(&d, 259, "hello");
    gives(&d, byte_token(t, 0xe2), "");
    gives(&d, 259, "\xef\xbf\xbdhello");
    gives(&d, byte_token(t, 0xe2), "");
    flushes(&d, "\xef\xbf\xbd");
    flushes(&d, "");
    detok_fini(&d);
    tok_destroy(t);
}

static void test_detok_skips_special(void **state) {
    (void)state;
    struct tok *t = toy();
    struct detok d;
    detok_init(&d, t, true);
    gives(&d, 261, "");
    gives(&d, 100000, "");
    detok_fini(&d);
    detok_init(&d, t, false);
    gives(&d, 261, "<|end|>");
    detok_fini(&d);
    tok_destroy(t);
}

static void test_detok_byte_fallback_runs(void **state) {
    (void)state;
    struct tok *t = toy_spm();
    struct detok d;
    detok_init(&d, t, true);
    gives(&d, 1, "");
    gives(&d, 263, "ab"); /* the first blank is taken off */
    gives(&d, 263, " ab");
    gives(&d, 3 + 0xc3, "");
    gives(&d, 3 + 0xa9, "");
    gives(&d, 260,
          "\xc3\xa9"
          "a");
    gives(&d, 3 + 0xc3, "");
    gives(&d, 3 + 0xc3, "");
    flushes(&d, "\xef\xbf\xbd\xef\xbf\xbd");
    detok_fini(&d);
    tok_destroy(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_detok_waits_for_whole_characters),
        TEST(test_detok_skips_special),
        TEST(test_detok_byte_fallback_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
