/* The line of progress, seen through standard error. */
#include "tests/support/support.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "harness/progress.h"

static char path[FILE_PATH_MAX];
static int saved = -1;

/* Sends standard error into a file. */
static void catch_begin(const char *dir) {
    assert_ok(file_join(path, dir, "err"));
    fflush(stderr);
    saved = dup(STDERR_FILENO);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(dup2(fileno(f), STDERR_FILENO) >= 0);
    fclose(f);
}

static void catch_end(struct buf *b) {
    fflush(stderr);
    dup2(saved, STDERR_FILENO);
    close(saved);
    buf_init(b, MEM_TEST, 1 << 20);
    assert_ok(file_read(path, b));
}

/* A line that began so long ago, told n times of its work. */
static void tell(bool tty, bool off, int64_t ago_ns, double done, struct buf *b) {
    char dir[FILE_PATH_MAX];
    struct progress p;
    test_tmpdir(dir);
    catch_begin(dir);
    progress_begin(&p, "work", 8, tty, off);
    p.start_ns -= ago_ns;
    p.shown_ns -= ago_ns;
    for (int32_t i = 0; i < 100; i++) {
        progress_at(&p, done, "step %d", 7);
    }
    progress_end(&p);
    catch_end(b);
    test_rmdir(dir);
}

static int32_t count(const char *text, const char *word) {
    int32_t n = 0;
    for (const char *p = strstr(text, word); p; p = strstr(p + 1, word)) {
        n++;
    }
    return n;
}

static void test_progress_plain_is_quiet_for_ten_seconds(void **state) {
    (void)state;
    struct buf b;
    tell(false, false, INT64_C(9000000000), 4, &b);
    assert_int_equal(b.len, 0);
    buf_fini(&b);
    tell(false, false, INT64_C(11000000000), 4, &b);
    assert_int_equal(count(buf_cstr(&b), "work 50 %, ETA "), 1);
    assert_non_null(strstr(buf_cstr(&b), "step 7\n"));
    assert_null(strchr(buf_cstr(&b), '\033'));
    buf_fini(&b);
}

static void test_progress_terminal(void **state) {
    (void)state;
    struct buf b;
    tell(true, false, INT64_C(200000000), 2, &b);
    assert_non_null(strstr(buf_cstr(&b), "work [######..................]  25 %"));
    assert_int_equal(count(buf_cstr(&b), "step 7"), 1); /* at most ten times a second */
    assert_true(b.len > 4 && memcmp(b.data + b.len - 4, "\r\033[K", 4) == 0);
    buf_fini(&b);
}

static void test_progress_off(void **state) {
    (void)state;
    struct buf b;
    tell(true, true, INT64_C(60000000000), 2, &b);
    assert_int_equal(b.len, 0);
    buf_fini(&b);
}

static void test_progress_odd_shares(void **state) {
    (void)state;
    static const double done[] = {-3, 0, 8, 900, (double)INFINITY};
    for (int32_t i = 0; i < ARRAY_LEN(done); i++) {
        struct buf b;
        tell(false, false, INT64_C(11000000000), done[i], &b);
        assert_int_equal(count(buf_cstr(&b), "work "), 1);
        assert_non_null(strstr(buf_cstr(&b), i < 2 ? "work 0 %, ETA ?" : "work 100 %"));
        buf_fini(&b);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {TEST(test_progress_plain_is_quiet_for_ten_seconds),
                                       TEST(test_progress_terminal), TEST(test_progress_off),
                                       TEST(test_progress_odd_shares)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
