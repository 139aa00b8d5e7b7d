/* Every dtype of safetensors goes through writer and reader with its size. */
#include "tests/support/support.h"

#include <string.h>

#include "engine/model/safetensors.h"
#include "engine/model/stwrite.h"

static const struct {
    enum dtype type;
    int64_t bytes; /* of a [2, 4] tensor */
} types[] = {{DTYPE_BOOL, 8},        {DTYPE_U8, 8},          {DTYPE_I8, 8},      {DTYPE_F8_E4M3, 8},
             {DTYPE_F8_E5M2, 8},     {DTYPE_F8_E8M0, 8},     {DTYPE_U16, 16},    {DTYPE_I16, 16},
             {DTYPE_F8_E4M3FNUZ, 8}, {DTYPE_F8_E5M2FNUZ, 8}, {DTYPE_F16, 16},    {DTYPE_BF16, 16},
             {DTYPE_F4, 4},          {DTYPE_F6_E2M3, 6},     {DTYPE_F6_E3M2, 6}, {DTYPE_U32, 32},
             {DTYPE_I32, 32},        {DTYPE_F32, 32},        {DTYPE_U64, 64},    {DTYPE_I64, 64},
             {DTYPE_F64, 64},        {DTYPE_C64, 64}};

static void test_st_types_all_come_back(void **state) {
    (void)state;
    static const uint8_t zeros[64];
    char dir[FILE_PATH_MAX];
    char path[FILE_PATH_MAX];
    struct stwrite *w = NULL;
    struct filemap map;
    struct tensor_dir back = {0};
    test_tmpdir(dir);
    assert_ok(file_join(path, dir, "t.safetensors"));
    assert_ok(stwrite_open(path, &w));
    for (int32_t i = 0; i < ARRAY_LEN(types); i++) {
        const char *name = dtype_info(types[i].type)->name;
        assert_ok(stwrite_declare(w, name, types[i].type, (const int64_t[]){2, 4}, 2));
    }
    assert_ok(stwrite_begin(w));
    for (int32_t i = 0; i < ARRAY_LEN(types); i++) {
        assert_ok(stwrite_data(w, zeros, types[i].bytes));
    }
    assert_ok(stwrite_commit(w));
    assert_ok(file_map(path, &map));
    assert_ok(safetensors_parse(path, map.data, map.size, &back));
    assert_ok(tensor_dir_sort(&back, path));
    for (int32_t i = 0; i < ARRAY_LEN(types); i++) {
        const struct tensor *t = tensor_dir_find(&back, dtype_info(types[i].type)->name);
        assert_non_null(t);
        assert_int_equal(t->type, types[i].type);
        assert_int_equal(t->bytes, types[i].bytes);
    }
    tensor_dir_fini(&back);
    file_unmap(&map);
    test_rmdir(dir);
}

static void test_st_types_refuses_half_bytes(void **state) {
    (void)state;
    char dir[FILE_PATH_MAX];
    char path[FILE_PATH_MAX];
    struct stwrite *w = NULL;
    test_tmpdir(dir);
    assert_ok(file_join(path, dir, "t.safetensors"));
    assert_ok(stwrite_open(path, &w));
    assert_err(stwrite_declare(w, "t", DTYPE_F4, (const int64_t[]){2, 3}, 2), ERR_UNSUPPORTED,
               "F4");
    assert_err(stwrite_declare(w, "t", DTYPE_Q4_K, (const int64_t[]){2, 256}, 2), ERR_UNSUPPORTED,
               "Q4_K");
    stwrite_abort(w);
    test_rmdir(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {TEST(test_st_types_all_come_back),
                                       TEST(test_st_types_refuses_half_bytes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
