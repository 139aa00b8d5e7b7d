/* Files that we write are files that we read; a failure leaves nothing under the final name. */
#include "tests/support/support.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "engine/model/safetensors.h"
#include "engine/model/stwrite.h"

static char dir[FILE_PATH_MAX];
static char path[FILE_PATH_MAX];

static int setup(void **state) {
    test_setup(state);
    test_tmpdir(dir);
    return file_join(path, dir, "m.safetensors");
}

static int teardown(void **state) {
    fault_disarm();
    test_rmdir(dir);
    return test_teardown(state);
}

static bool folder_is_empty(void) {
    int32_t n = 0;
    DIR *d = opendir(dir);
    assert_non_null(d);
    for (struct dirent *e = readdir(d); e; e = readdir(d)) {
        n += e->d_name[0] == '.' ? 0 : 1;
    }
    closedir(d);
    return n == 0;
}

/* Writes two tensors, one name of which needs escapes. */
static int write_two(void *ctx) {
    (void)ctx;
    struct stwrite *w = NULL;
    const int64_t dim[2] = {2, 3};
    const float a[6] = {1, 2, 3, 4, 5, 6};
    int rc = stwrite_open(path, &w);
    rc = rc ? rc : stwrite_declare(w, "a", DTYPE_F32, dim, 2);
    rc = rc ? rc : stwrite_declare(w, "quote\" and \\", DTYPE_I8, dim, 1);
    rc = rc ? rc : stwrite_begin(w);
    rc = rc ? rc : stwrite_data(w, a, 8);
    rc = rc ? rc : stwrite_data(w, a + 2, 16);
    rc = rc ? rc : stwrite_data(w, "xy", 2);
    if (rc) {
        stwrite_abort(w);
        return rc;
    }
    return stwrite_commit(w);
}

static void test_stwrite_round_trip(void **state) {
    (void)state;
    struct filemap m;
    struct tensor_dir d = {0};
    assert_ok(write_two(NULL));
    assert_ok(file_map(path, &m));
    assert_ok(safetensors_parse("m", m.data, m.size, &d));
    assert_ok(tensor_dir_sort(&d, "m"));
    assert_int_equal(d.n, 2);
    const struct tensor *t = tensor_dir_find(&d, "a");
    assert_true(t->n_dim == 2 && t->dim[0] == 2 && t->dim[1] == 3);
    assert_int_equal((uintptr_t)t->data % 8, 0);
    float v[6];
    memcpy(v, t->data, sizeof v);
    assert_true(v[0] == 1 && v[5] == 6);
    assert_memory_equal(tensor_dir_find(&d, "quote\" and \\")->data, "xy", 2);
    tensor_dir_fini(&d);
    file_unmap(&m);
}

static void test_stwrite_refuses_types_of_other_formats(void **state) {
    (void)state;
    struct stwrite *w = NULL;
    const int64_t dim[1] = {32};
    const int64_t bad[1] = {-1};
    assert_ok(stwrite_open(path, &w));
    assert_err(stwrite_declare(w, "q", DTYPE_Q4_0, dim, 1), ERR_UNSUPPORTED, "\"q\" of type Q4_0");
    assert_err(stwrite_declare(w, "q", DTYPE_W4, dim, 1), ERR_UNSUPPORTED, "\"q\"");
    assert_err(stwrite_declare(w, "q", DTYPE_F32, bad, 1), ERR_UNSUPPORTED, "\"q\"");
    stwrite_abort(w);
    stwrite_abort(NULL);
    assert_true(folder_is_empty());
}

static void test_stwrite_bytes_must_be_as_declared(void **state) {
    (void)state;
    struct stwrite *w = NULL;
    const int64_t dim[1] = {4};
    assert_ok(stwrite_open(path, &w));
    assert_ok(stwrite_declare(w, "a", DTYPE_U8, dim, 1));
    assert_ok(stwrite_begin(w));
    assert_err(stwrite_data(w, "12345", 5), ERR_INTERNAL, "1 bytes more than declared");
    assert_ok(stwrite_data(w, "123", 3));
    assert_err(stwrite_commit(w), ERR_INTERNAL, "3 of 4 bytes given");
    assert_true(folder_is_empty());
}

static void test_stwrite_one_name_twice(void **state) {
    (void)state;
    struct stwrite *w = NULL;
    const int64_t dim[1] = {4};
    assert_ok(stwrite_open(path, &w));
    assert_ok(stwrite_declare(w, "a", DTYPE_U8, dim, 1));
    assert_err(stwrite_declare(w, "a", DTYPE_U8, dim, 1), ERR_INTERNAL, "\"a\" is declared twice");
    stwrite_abort(w);
}

static int write_and_look(void *ctx) {
    int rc = write_two(ctx);
    if (rc) {
        assert_true(folder_is_empty());
    } else {
        assert_true(file_exists(path));
        assert_int_equal(remove(path), 0);
    }
    return rc;
}

static void test_stwrite_disk_full_at_every_write(void **state) {
    (void)state;
    static const int codes[] = {ERR_IO, 0};
    test_fault_loop(FAULT_WRITE, write_and_look, NULL, codes);
    test_fault_loop(FAULT_RENAME, write_and_look, NULL, codes);
}

static void test_stwrite_without_memory(void **state) {
    (void)state;
    static const int codes[] = {ERR_NOMEM, 0};
    test_fault_loop(FAULT_ALLOC, write_and_look, NULL, codes);
}

static void test_stwrite_into_a_missing_folder(void **state) {
    (void)state;
    struct stwrite *w = NULL;
    assert_err(stwrite_open("/nonexistent/folder/m", &w), ERR_NOTFOUND, "/nonexistent");
    assert_null(w);
}

#define ST_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {ST_TEST(test_stwrite_round_trip),
                                       ST_TEST(test_stwrite_refuses_types_of_other_formats),
                                       ST_TEST(test_stwrite_bytes_must_be_as_declared),
                                       ST_TEST(test_stwrite_one_name_twice),
                                       ST_TEST(test_stwrite_disk_full_at_every_write),
                                       ST_TEST(test_stwrite_without_memory),
                                       ST_TEST(test_stwrite_into_a_missing_folder)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
