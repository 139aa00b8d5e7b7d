/* trilemma selftest: the table, its keys, and what does not depend on the machine's mood. LABELS:
 * threads
 */
#include "tests/support/cli.h"

#include <string.h>

#include <jansson.h>
#include <signal.h>

static void test_selftest_json(void **state) {
    (void)state;
    static const char *const sure[] = {
        "arrivals: seeds of 100 with gaps refused", "arrivals: variance of counts off 1",
        "answers read right at any cut", "answers over sockets given their class"};
    const char *const args[] = {"selftest", "--json", NULL};
    struct cli_result r;
    int32_t n_sure = 0;
    bool all_ok = true;
    cli_run(NULL, args, &r);
    json_t *j = json_loads(buf_cstr(&r.out), 0, NULL);
    assert_non_null(j);
    const json_t *rows = json_object_get(j, "rows");
    assert_int_equal(json_array_size(rows), 13);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        const char *name = json_string_value(json_object_get(row, "name"));
        double value = json_number_value(json_object_get(row, "value"));
        double limit = json_number_value(json_object_get(row, "limit"));
        bool ok = json_is_true(json_object_get(row, "ok"));
        bool is_floor = json_is_true(json_object_get(row, "is_floor"));
        assert_int_equal(ok, is_floor ? value >= limit : value <= limit);
        all_ok = all_ok && ok;
        for (int32_t k = 0; k < ARRAY_LEN(sure); k++) {
            n_sure += ok && strcmp(name, sure[k]) == 0 ? 1 : 0;
        }
    }
    assert_int_equal(n_sure, ARRAY_LEN(sure));
    assert_int_equal(json_is_true(json_object_get(j, "ok")), all_ok);
    assert_int_equal(r.code, all_ok ? 0 : 1);
    json_decref(j);
    cli_fini(&r);
}

static bool has_line(void *ctx, const char *out, const char *err) {
    (void)ctx;
    (void)err;
    return strchr(out, '\n') != NULL;
}

static void test_selftest_serve(void **state) {
    (void)state;
    const char *const args[] = {"selftest", "--serve", "0", NULL};
    const struct cli_opts o = {.signal = SIGINT, .when = has_line};
    struct cli_result r;
    cli_run(&o, args, &r);
    assert_int_equal(r.code, 0);
    assert_int_equal(strncmp(buf_cstr(&r.out), "http://127.0.0.1:", 17), 0);
    assert_non_null(strstr(buf_cstr(&r.out), "/v1\n"));
    cli_fini(&r);
    cli_says(NULL, 2, "--ttft", "selftest --serve 0 --ttft 5");
    cli_says(NULL, 2, "--serve", "selftest --serve 70000");
}

int main(void) {
    const struct CMUnitTest tests[] = {TEST(test_selftest_json), TEST(test_selftest_serve)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
