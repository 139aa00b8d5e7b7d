/* Files: atomic replacement under every failure, limits, maps, digests. */
#include "tests/support/support.h"

#include <dirent.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[FILE_PATH_MAX];

static int setup(void **state) {
    test_setup(state);
    test_tmpdir(dir);
    return 0;
}

static int teardown(void **state) {
    fault_disarm();
    test_rmdir(dir);
    return test_teardown(state);
}

static const char *in_dir(const char *name) {
    static char path[FILE_PATH_MAX];
    assert_ok(file_join(path, dir, name));
    return path;
}

static int32_t n_entries(void) {
    int32_t n = 0;
    DIR *d = opendir(dir);
    assert_non_null(d);
    for (struct dirent *e = readdir(d); e; e = readdir(d)) {
        n += e->d_name[0] == '.' ? 0 : 1;
    }
    closedir(d);
    return n;
}

static void expect_content(const char *path, const char *want) {
    struct buf b;
    buf_init(&b, MEM_TEST, 1 << 20);
    assert_ok(file_read(path, &b));
    assert_string_equal(buf_cstr(&b), want);
    buf_fini(&b);
}

static void test_file_write_replaces_at_once(void **state) {
    (void)state;
    const char *p = in_dir("a");
    assert_ok(file_write(p, "one", 3));
    expect_content(p, "one");
    assert_ok(file_write(p, "longer", 6));
    expect_content(p, "longer");
    assert_int_equal(file_size(p), 6);
    assert_int_equal(n_entries(), 1);
}

static void test_file_write_when_the_disk_is_full_keeps_the_old(void **state) {
    (void)state;
    const char *p = in_dir("a");
    for (int32_t pass = 0; pass < 2; pass++) {
        fault_arm(FAULT_WRITE, 1, pass == 1);
        assert_err(file_write(p, "new", 3), ERR_IO, "No space left");
        assert_true(fault_disarm() > 0);
        assert_int_equal(n_entries(), 0);
    }
    assert_ok(file_write(p, "old", 3));
    fault_arm(FAULT_WRITE, 1, false);
    assert_err(file_write(p, "new", 3), ERR_IO, "/a");
    expect_content(p, "old");
    assert_int_equal(n_entries(), 1);
}

static void test_file_write_when_the_rename_fails_leaves_nothing(void **state) {
    (void)state;
    const char *p = in_dir("a");
    fault_arm(FAULT_RENAME, 1, false);
    assert_err(file_write(p, "new", 3), ERR_IO, "cannot rename to");
    assert_int_equal(n_entries(), 0);
}

static void test_file_writer_streams_seeks_and_aborts(void **state) {
    (void)state;
    struct filew w;
    const char *p = in_dir("s");
    assert_ok(filew_open(&w, p));
    assert_ok(filew_write(&w, "abc", 3));
    assert_ok(filew_write(&w, "def", 3));
    assert_ok(filew_pwrite(&w, "XY", 2, 1));
    assert_int_equal(w.n_written, 6);
    assert_false(file_exists(p));
    assert_ok(filew_commit(&w));
    expect_content(p, "aXYdef");
    assert_ok(filew_open(&w, p));
    assert_ok(filew_write(&w, "zzz", 3));
    filew_abort(&w);
    filew_abort(&w);
    expect_content(p, "aXYdef");
    assert_int_equal(n_entries(), 1);
}

static void test_file_write_into_a_missing_folder(void **state) {
    (void)state;
    assert_err(file_write(in_dir("no/such"), "x", 1), ERR_NOTFOUND, "no/such");
    char long_path[FILE_PATH_MAX + 10];
    memset(long_path, 'a', sizeof long_path);
    long_path[sizeof long_path - 1] = '\0';
    assert_err(file_write(long_path, "x", 1), ERR_LIMIT, "at most 4095");
    long_path[FILE_PATH_MAX - 1] = '\0';
    assert_err(file_write(long_path, "x", 1), ERR_LIMIT, "at most 4095");
}

static void test_file_read_errors(void **state) {
    (void)state;
    struct buf b;
    buf_init(&b, MEM_TEST, 4);
    assert_err(file_read(in_dir("none"), &b), ERR_NOTFOUND, "none");
    assert_err(file_read(dir, &b), ERR_FORMAT, "not a regular file");
    const char *p = in_dir("five");
    assert_ok(file_write(p, "12345", 5));
    assert_err(file_read(p, &b), ERR_LIMIT, "five: text of more than 4 bytes");
    fault_arm(FAULT_READ, 1, false);
    assert_err(file_read(p, &b), ERR_IO, "five");
    fault_arm(FAULT_ALLOC, 1, false);
    assert_int_equal(file_read(p, &b), ERR_NOMEM);
    buf_fini(&b);
}

static void test_file_pipe_is_refused_and_not_waited_for(void **state) {
    (void)state;
    struct buf b;
    struct filemap m;
    const char *p = in_dir("fifo");
    buf_init(&b, MEM_TEST, 4);
    assert_int_equal(mkfifo(p, 0600), 0);
    assert_err(file_read(p, &b), ERR_FORMAT, "not a regular file");
    assert_err(file_map(p, &m), ERR_FORMAT, "not a regular file");
    buf_fini(&b);
}

static void test_file_map_whole_empty_and_failing(void **state) {
    (void)state;
    struct filemap m = {0};
    const char *p = in_dir("m");
    assert_ok(file_write(p, "map me", 6));
    assert_ok(file_map(p, &m));
    assert_int_equal(m.size, 6);
    assert_memory_equal(m.data, "map me", 6);
    file_unmap(&m);
    assert_null(m.data);
    file_unmap(&m);
    fault_arm(FAULT_MMAP, 1, false);
    assert_err(file_map(p, &m), ERR_IO, "cannot map");
    assert_ok(file_write(p, "", 0));
    assert_ok(file_map(p, &m));
    assert_int_equal(m.size, 0);
    assert_null(m.data);
    file_unmap(&m);
    assert_err(file_map(in_dir("none"), &m), ERR_NOTFOUND, "none");
}

static void test_file_mkdirs_makes_parents(void **state) {
    (void)state;
    assert_ok(file_mkdirs(in_dir("x/y/z")));
    assert_true(file_is_dir(in_dir("x/y/z")));
    assert_ok(file_mkdirs(in_dir("x/y/z")));
    assert_ok(file_mkdirs(in_dir("x/q/")));
    assert_true(file_is_dir(in_dir("x/q")));
    assert_ok(file_write(in_dir("f"), "", 0));
    assert_int_equal(file_mkdirs(in_dir("f/g")), ERR_IO);
    assert_int_equal(file_mkdirs(in_dir("f")), ERR_IO);
    assert_err(file_mkdirs(""), ERR_NOTFOUND, "empty");
}

static void test_file_join_and_base(void **state) {
    (void)state;
    char d[FILE_PATH_MAX];
    char big[FILE_PATH_MAX];
    assert_ok(file_join(d, "a", "b"));
    assert_string_equal(d, "a/b");
    memset(big, 'a', sizeof big - 1);
    big[sizeof big - 1] = '\0';
    assert_err(file_join(d, big, "b"), ERR_LIMIT, "4095");
    assert_string_equal(file_base("a/b/c"), "c");
    assert_string_equal(file_base("c"), "c");
    assert_int_equal(file_size("/nonexistent/x"), -1);
}

static void test_file_sha256_known_answers(void **state) {
    (void)state;
    char hex[FILE_SHA256_HEX];
    /* src: FIPS 180-4 example, and the empty message */
    assert_ok(mem_sha256("abc", 3, hex));
    assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_ok(mem_sha256("", 0, hex));
    assert_string_equal(hex, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    const char *p = in_dir("abc");
    assert_ok(file_write(p, "abc", 3));
    assert_ok(file_sha256(p, hex));
    assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    fault_arm(FAULT_READ, 1, false);
    assert_err(file_sha256(p, hex), ERR_IO, "abc");
    assert_err(file_sha256(in_dir("none"), hex), ERR_NOTFOUND, "none");
}

/* Dropped pages are read anew: nothing but memory is given back, and odd ends stay. */
static void test_file_drop_keeps_the_content(void **state) {
    (void)state;
    enum { SIZE = 1 << 20 };
    struct filemap m;
    char p[FILE_PATH_MAX];
    uint8_t *bytes = mem_calloc(MEM_TEST, SIZE);
    assert_non_null(bytes);
    for (int32_t i = 0; i < SIZE; i++) {
        bytes[i] = (uint8_t)(i * 7 + i / 256);
    }
    assert_ok(file_join(p, dir, "big"));
    assert_ok(file_write(p, bytes, SIZE));
    assert_ok(file_map(p, &m));
    assert_memory_equal(m.data, bytes, SIZE);
    file_drop(m.data + 100, SIZE - 200);
    assert_memory_equal(m.data, bytes, SIZE);
    file_drop(m.data, SIZE);
    file_drop(m.data + 5, 1); /* no whole page */
    file_drop(m.data, 0);
    assert_memory_equal(m.data, bytes, SIZE);
    file_unmap(&m);
    mem_free(bytes);
}

#define FILE_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        FILE_TEST(test_file_write_replaces_at_once),
        FILE_TEST(test_file_write_when_the_disk_is_full_keeps_the_old),
        FILE_TEST(test_file_write_when_the_rename_fails_leaves_nothing),
        FILE_TEST(test_file_writer_streams_seeks_and_aborts),
        FILE_TEST(test_file_write_into_a_missing_folder),
        FILE_TEST(test_file_read_errors),
        FILE_TEST(test_file_pipe_is_refused_and_not_waited_for),
        FILE_TEST(test_file_map_whole_empty_and_failing),
        FILE_TEST(test_file_drop_keeps_the_content),
        FILE_TEST(test_file_mkdirs_makes_parents),
        FILE_TEST(test_file_join_and_base),
        FILE_TEST(test_file_sha256_known_answers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
