/* Numbers, units and distances. Each parser gets what it must take and what it must refuse. */
#include "tests/support/support.h"

#include <math.h>
#include <string.h>

#include "engine/base/str.h"

static void test_str_i64_whole_strings_only(void **state) {
    (void)state;
    int64_t v = 0;
    assert_ok(str_i64("-12", -20, 20, &v));
    assert_int_equal(v, -12);
    assert_ok(str_i64("9223372036854775807", INT64_MIN, INT64_MAX, &v));
    assert_true(v == INT64_MAX);
    assert_ok(str_i64("-9223372036854775808", INT64_MIN, INT64_MAX, &v));
    assert_true(v == INT64_MIN);
    v = 5;
    static const char *const bad[] = {"", " 1", "1 ", "1x", "x", "1.0", "0x10", "--1", "\t1"};
    for (int32_t i = 0; i < ARRAY_LEN(bad); i++) {
        assert_err(str_i64(bad[i], -100, 100, &v), ERR_FORMAT, bad[i]);
    }
    assert_err(str_i64("9223372036854775808", INT64_MIN, INT64_MAX, &v), ERR_RANGE, "outside");
    assert_err(str_i64("21", -20, 20, &v), ERR_RANGE, "21 is outside -20..20");
    assert_int_equal(v, 5);
}

static void test_str_f64_finite_and_nothing_left(void **state) {
    (void)state;
    double v = 0;
    assert_ok(str_f64("1.5e3", &v));
    assert_true(v == 1500);
    assert_ok(str_f64("-.5", &v));
    assert_true(v == -0.5);
    static const char *const bad[] = {"",   "nan", "-nan", "inf", "-inf", "1e999", "1.5x",
                                      " 1", "1 ",  "1,5",  "--1", "+",    "."};
    for (int32_t i = 0; i < ARRAY_LEN(bad); i++) {
        assert_err(str_f64(bad[i], &v), ERR_FORMAT, bad[i]);
    }
    assert_true(v == -0.5);
}

static void test_str_bytes_with_every_unit(void **state) {
    (void)state;
    static const struct {
        const char *s;
        int64_t v;
    } rows[] = {{"512", 512},        {"7B", 7},           {"16KiB", 16384},      {"3 MiB", 3 << 20},
                {"2GiB", 2LL << 30}, {"1TiB", 1LL << 40}, {"3GB", 3000000000},   {"64MB", 64000000},
                {"1.5kB", 1500},     {"2KB", 2000},       {"1TB", 1000000000000}};
    int64_t v = 0;
    for (int32_t i = 0; i < ARRAY_LEN(rows); i++) {
        assert_ok(str_bytes(rows[i].s, &v));
        assert_true(v == rows[i].v);
    }
    assert_err(str_bytes("5 gb", &v), ERR_FORMAT, "unit \"gb\" is unknown, want B, KiB");
    assert_err(str_bytes("-1", &v), ERR_RANGE, "-1");
    assert_err(str_bytes("9e18", &v), ERR_RANGE, "9e18");
    assert_err(str_bytes("9e300TiB", &v), ERR_RANGE, "9e300TiB");
    assert_err(str_bytes("GiB", &v), ERR_FORMAT, "not a number");
}

static void test_str_durations_and_rates(void **state) {
    (void)state;
    int64_t ns = 0;
    double r = 0;
    assert_ok(str_duration_ns("250ms", &ns));
    assert_true(ns == 250000000);
    assert_ok(str_duration_ns("1.5s", &ns));
    assert_true(ns == 1500000000);
    assert_ok(str_duration_ns("2m", &ns));
    assert_true(ns == 120000000000);
    assert_ok(str_duration_ns("1h", &ns));
    assert_true(ns == 3600000000000);
    assert_ok(str_duration_ns("90us", &ns));
    assert_true(ns == 90000);
    assert_ok(str_duration_ns("7ns", &ns));
    assert_true(ns == 7);
    assert_err(str_duration_ns("5", &ns), ERR_FORMAT, "as in 250ms");
    assert_err(str_duration_ns("-1s", &ns), ERR_RANGE, "-1s");
    assert_err(str_duration_ns("1e300h", &ns), ERR_RANGE, "1e300h");
    assert_ok(str_rate_per_s("4/s", &r));
    assert_true(r == 4);
    assert_ok(str_rate_per_s("30/m", &r));
    assert_true(r == 0.5);
    assert_ok(str_rate_per_s("7200/h", &r));
    assert_rel(r, 2, 1e-15);
    assert_err(str_rate_per_s("0/s", &r), ERR_RANGE, "0/s");
    assert_err(str_rate_per_s("4", &r), ERR_FORMAT, "as in 4/s");
}

static void test_str_show_for_people(void **state) {
    (void)state;
    char d[STR_NUM_MAX];
    assert_string_equal(str_show_bytes(d, 0), "0 B");
    assert_string_equal(str_show_bytes(d, 999), "999 B");
    assert_string_equal(str_show_bytes(d, 98362432), "98.4 MB");
    assert_string_equal(str_show_bytes(d, 999999), "1.0 MB");
    assert_string_equal(str_show_bytes(d, -1500), "-1.5 kB");
    assert_true(strlen(str_show_bytes(d, INT64_MAX)) < STR_NUM_MAX);
    assert_string_equal(str_show_seconds(d, 12e-6), "12.0 us");
    assert_string_equal(str_show_seconds(d, 0.00123), "1.2 ms");
    assert_string_equal(str_show_seconds(d, 0.99999), "1.0 s");
    assert_string_equal(str_show_seconds(d, 4.5), "4.5 s");
    assert_string_equal(str_show_seconds(d, 99.99), "1m 40s");
    assert_string_equal(str_show_seconds(d, 200), "3m 20s");
    assert_string_equal(str_show_seconds(d, (double)NAN), "?");
    assert_string_equal(str_show_seconds(d, (double)INFINITY), "?");
    assert_true(strlen(str_show_seconds(d, 1e300)) < STR_NUM_MAX);
}

static void test_str_distance_is_levenshtein(void **state) {
    (void)state;
    assert_int_equal(str_distance("kitten", "sitting", 9), 3);
    assert_int_equal(str_distance("", "abc", 9), 3);
    assert_int_equal(str_distance("abc", "", 9), 3);
    assert_int_equal(str_distance("abc", "abc", 9), 0);
    assert_int_equal(str_distance("kitten", "sitting", 2), 2);
    char long_word[100];
    memset(long_word, 'a', sizeof long_word - 1);
    long_word[99] = '\0';
    assert_int_equal(str_distance(long_word, "a", 4), 4);
}

static void test_str_nearest_within_three(void **state) {
    (void)state;
    static const char *const names[] = {"arrival", "duration", "workload"};
    assert_string_equal(str_nearest("durration", names, 3), "duration");
    assert_string_equal(str_nearest("workloads", names, 3), "workload");
    assert_null(str_nearest("zebra", names, 3));
    assert_null(str_nearest("x", names, 0));
}

static void test_str_small_helpers(void **state) {
    (void)state;
    char d[4];
    assert_true(str_copy(d, 4, "abc"));
    assert_string_equal(d, "abc");
    assert_false(str_copy(d, 4, "abcd"));
    assert_string_equal(d, "abc");
    assert_false(str_copy(d, 1, "a"));
    assert_string_equal(d, "");
    assert_true(str_starts("abc", "ab") && str_starts("abc", "") && !str_starts("a", "ab"));
    assert_true(str_ends("abc", "bc") && str_ends("abc", "") && !str_ends("c", "bc"));
    assert_true(str_eq("a", "a") && !str_eq("a", "b"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_str_i64_whole_strings_only), TEST(test_str_f64_finite_and_nothing_left),
        TEST(test_str_bytes_with_every_unit),  TEST(test_str_durations_and_rates),
        TEST(test_str_show_for_people),        TEST(test_str_distance_is_levenshtein),
        TEST(test_str_nearest_within_three),   TEST(test_str_small_helpers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
