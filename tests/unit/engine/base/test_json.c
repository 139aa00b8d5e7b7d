/* JSON of strangers: positions, duplicates, types, ranges. */
#include "tests/support/support.h"

#include <string.h>

#include "engine/base/json.h"

static json_t *parse(const char *s) {
    json_t *j = NULL;
    assert_ok(json_parse("t", s, (int64_t)strlen(s), &j));
    return j;
}

static void expect_bad(const char *s, const char *part) {
    json_t *j = NULL;
    assert_err(json_parse("conf.json", s, (int64_t)strlen(s), &j), ERR_FORMAT, part);
    assert_null(j);
}

static void test_json_errors_carry_line_and_column(void **state) {
    (void)state;
    expect_bad("{\n \"a\": 1,\n \"b\": tru\n}", "conf.json: line 3, column");
    expect_bad("{\"a\": 1", "line 1");
    expect_bad("", "conf.json: line");
    expect_bad("{} x", "end of file expected");
    expect_bad("{\"a\":1,\"b\":2,\"a\":3}", "duplicate object key");
    expect_bad("{\"a\":\"\xff\"}", "unable to decode byte 0xff");
    expect_bad("{\"a\":NaN}", "line 1");
}

static void test_json_too_deep_is_refused(void **state) {
    (void)state;
    char deep[100001];
    memset(deep, '[', sizeof deep - 1);
    deep[sizeof deep - 1] = '\0';
    expect_bad(deep, "maximum parsing depth");
}

static void test_json_typed_members(void **state) {
    (void)state;
    json_t *o = parse("{\"i\":7,\"r\":8.0,\"f\":1.5,\"s\":\"x\",\"b\":true,\"n\":null}");
    int64_t i64 = -1;
    int32_t i32 = -1;
    double f = -1;
    bool b = false;
    const char *s = "default";
    assert_ok(json_opt_i64(o, "t", "i", 0, 10, &i64));
    assert_int_equal(i64, 7);
    assert_ok(json_opt_i32(o, "t", "r", 0, 10, &i32));
    assert_int_equal(i32, 8);
    assert_ok(json_opt_f64(o, "t", "i", &f));
    assert_true(f == 7);
    assert_ok(json_opt_bool(o, "t", "b", &b));
    assert_true(b);
    assert_ok(json_opt_str(o, "t", "n", &s));
    assert_ok(json_opt_str(o, "t", "none", &s));
    assert_string_equal(s, "default");
    assert_ok(json_opt_i32(o, "t", "n", 0, 10, &i32));
    assert_int_equal(i32, 8);
    assert_err(json_opt_i32(o, "t", "f", 0, 10, &i32), ERR_FORMAT, "t: \"f\" is a real");
    assert_err(json_opt_i32(o, "t", "s", 0, 10, &i32), ERR_FORMAT, "a string, want a whole");
    assert_err(json_opt_i32(o, "t", "i", 8, 10, &i32), ERR_RANGE, "\"i\" is 7, want 8..10");
    assert_err(json_opt_str(o, "t", "i", &s), ERR_FORMAT, "an integer, want a string");
    assert_err(json_opt_bool(o, "t", "i", &b), ERR_FORMAT, "want true or false");
    assert_err(json_opt_f64(o, "t", "s", &f), ERR_FORMAT, "want a finite number");
    assert_err(json_need_i32(o, "t", "none", 0, 1, &i32), ERR_FORMAT, "\"none\" is missing");
    assert_err(json_need_str(o, "t", "n", &s), ERR_FORMAT, "\"n\" is missing");
    assert_int_equal(i32, 8);
    json_decref(o);
}

static void test_json_integers_at_the_edges(void **state) {
    (void)state;
    json_t *o = parse("{\"max\":9223372036854775807,\"min\":-9223372036854775808,\"r\":1e300,"
                      "\"q\":-1e19,\"big\":9007199254740993}");
    int64_t v = 0;
    assert_ok(json_opt_i64(o, "t", "max", INT64_MIN, INT64_MAX, &v));
    assert_true(v == INT64_MAX);
    assert_ok(json_opt_i64(o, "t", "min", INT64_MIN, INT64_MAX, &v));
    assert_true(v == INT64_MIN);
    assert_ok(json_opt_i64(o, "t", "big", 0, INT64_MAX, &v));
    assert_true(v == INT64_C(9007199254740993));
    assert_err(json_opt_i64(o, "t", "r", INT64_MIN, INT64_MAX, &v), ERR_RANGE, "1e+300");
    assert_err(json_opt_i64(o, "t", "q", INT64_MIN, INT64_MAX, &v), ERR_RANGE, "-1e+19");
    assert_true(v == INT64_C(9007199254740993));
    json_decref(o);
    json_t *bad = NULL;
    const char *huge = "[9223372036854775808]";
    assert_err(json_parse("t", huge, (int64_t)strlen(huge), &bad), ERR_FORMAT, "too big");
}

static void test_json_read_names_the_file(void **state) {
    (void)state;
    char dir[FILE_PATH_MAX];
    char path[FILE_PATH_MAX];
    json_t *j = NULL;
    test_tmpdir(dir);
    assert_ok(file_join(path, dir, "c.json"));
    assert_err(json_read(path, &j), ERR_NOTFOUND, "c.json");
    assert_ok(file_write(path, "[1,", 3));
    assert_err(json_read(path, &j), ERR_FORMAT, "c.json: line 1");
    assert_ok(file_write(path, "[1]", 3));
    assert_ok(json_read(path, &j));
    assert_int_equal(json_array_size(j), 1);
    json_decref(j);
    test_rmdir(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_json_errors_carry_line_and_column), TEST(test_json_too_deep_is_refused),
        TEST(test_json_typed_members), TEST(test_json_integers_at_the_edges),
        TEST(test_json_read_names_the_file)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
