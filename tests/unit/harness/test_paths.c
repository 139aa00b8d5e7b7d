/* Where things are looked for, and what is said when they are not there. */
#include "tests/support/support.h"

#include <stdio.h>
#include <string.h>

#include "harness/paths.h"

static char dir[FILE_PATH_MAX];

static int make(void **state) {
    (void)state;
    test_tmpdir(dir);
    return 0;
}

static int unmake(void **state) {
    (void)state;
    test_rmdir(dir);
    return 0;
}

static const char *in(const char *name) {
    static char path[FILE_PATH_MAX];
    assert_ok(file_join(path, dir, name));
    return path;
}

static void touch(const char *folder, const char *name) {
    char path[FILE_PATH_MAX];
    assert_ok(file_mkdirs(in(folder)));
    assert_ok(file_join(path, in(folder), name));
    assert_ok(file_write(path, "x", 1));
}

static void test_paths_cache_order(void **state) {
    (void)state;
    char p[FILE_PATH_MAX];
    struct cli_env env = {.home = "/h", .xdg_cache = "/x", .cache = "/c"};
    assert_ok(paths_cache(&env, p));
    assert_string_equal(p, "/c");
    env.cache = ""; /* empty is unset */
    assert_ok(paths_cache(&env, p));
    assert_string_equal(p, "/x/trilemma");
    env.xdg_cache = NULL;
    assert_ok(paths_cache(&env, p));
    assert_string_equal(p, "/h/.cache/trilemma");
    env.home = NULL;
    assert_err(paths_cache(&env, p), ERR_CONFIG, "TRILEMMA_CACHE, XDG_CACHE_HOME and HOME");
}

static void test_paths_too_long(void **state) {
    (void)state;
    static char name[FILE_PATH_MAX + 100];
    char p[FILE_PATH_MAX];
    memset(name, 'a', sizeof name - 1);
    struct cli_env env = {.cache = name};
    assert_err(paths_cache(&env, p), ERR_LIMIT, "TRILEMMA_CACHE");
    env = (struct cli_env){.home = name};
    assert_err(paths_cache(&env, p), ERR_LIMIT, "path of");
    env = (struct cli_env){.home = "/h"};
    assert_err(paths_model(&env, name, p), ERR_LIMIT, "path of");
    assert_err(paths_data(&env, name, p), ERR_LIMIT, "path of");
    assert_err(paths_share(&env, name, p), ERR_LIMIT, "path of");
}

static void test_paths_model(void **state) {
    (void)state;
    char p[FILE_PATH_MAX];
    touch("cache/small", "config.json");
    char cache[FILE_PATH_MAX];
    snprintf(cache, sizeof cache, "%s", in("cache"));
    struct cli_env env = {.cache = cache};
    assert_ok(paths_model(&env, "small", p)); /* fetched */
    assert_string_equal(p, in("cache/small"));
    assert_ok(paths_model(&env, cache, p)); /* a path as it is */
    assert_string_equal(p, cache);
    assert_err(paths_model(&env, "big", p), ERR_NOTFOUND, "trilemma fetch big");
    assert_err(paths_model(&env, "big", p), ERR_NOTFOUND, cache);
}

static void test_paths_data(void **state) {
    (void)state;
    char p[FILE_PATH_MAX];
    char data[FILE_PATH_MAX];
    char shared[FILE_PATH_MAX];
    touch("data/a", "1.txt");
    touch("shared/a", "1.txt");
    touch("shared/a", "2.txt");
    snprintf(data, sizeof data, "%s", in("data"));
    snprintf(shared, sizeof shared, "%s", in("shared"));
    struct cli_env env = {.data = data, .shared = shared};
    assert_ok(paths_data(&env, "a/1.txt", p));
    assert_string_equal(p, in("data/a/1.txt"));
    assert_ok(paths_data(&env, "a/2.txt", p));
    assert_string_equal(p, in("shared/a/2.txt"));
    assert_err(paths_data(&env, "a/3.txt", p), ERR_NOTFOUND, shared);
    assert_err(paths_data(&env, "a/3.txt", p), ERR_NOTFOUND, data);
}

static void test_paths_share(void **state) {
    (void)state;
    char p[FILE_PATH_MAX];
    char share[FILE_PATH_MAX];
    touch("share/scenarios", "mine.yaml");
    snprintf(share, sizeof share, "%s", in("share"));
    struct cli_env env = {.share_dir = share};
    assert_ok(paths_share(&env, "scenarios/mine.yaml", p));
    assert_string_equal(p, in("share/scenarios/mine.yaml"));
    assert_ok(paths_share(&env, "scenarios/demo.yaml", p)); /* installed, or the source tree's */
    assert_err(paths_share(&env, "scenarios/no.yaml", p), ERR_NOTFOUND, share);
}

int main(void) {
    const struct CMUnitTest tests[] = {TEST(test_paths_cache_order), TEST(test_paths_too_long),
                                       TEST(test_paths_model), TEST(test_paths_data),
                                       TEST(test_paths_share)};
    return cmocka_run_group_tests(tests, make, unmake);
}
