/* The safetensors reader: what it takes, and every way in which a file can be wrong. */
#include "tests/support/support.h"

#include <string.h>

#include "engine/model/safetensors.h"
#include "tests/support/container_fixture.h"

enum { FILE_MAX = 1 << 20 };

/* Parses header and n bytes of data; the bytes end at a guard page. */
static int parse(const char *header, int64_t n, struct tensor_dir *dir) {
    uint8_t data[256];
    struct buf b;
    struct container_edge e;
    memset(data, 0x11, sizeof data);
    buf_init(&b, MEM_TEST, FILE_MAX);
    container_st(&b, header, data, n);
    container_edge_init(&e, FILE_MAX);
    int rc = safetensors_parse("x.safetensors", container_edge_put(&e, b.data, b.len), b.len, dir);
    buf_fini(&b);
    container_edge_fini(&e);
    return rc;
}

#define expect_bad(header, n, code, part)                                                          \
    do {                                                                                           \
        struct tensor_dir dir_ = {0};                                                              \
        assert_err(parse((header), (n), &dir_), (code), (part));                                   \
        tensor_dir_fini(&dir_);                                                                    \
    } while (0)

#define GOOD                                                                                       \
    "{\"__metadata__\":{\"format\":\"pt\"},"                                                       \
    "\"b\":{\"dtype\":\"BF16\",\"shape\":[2,3],\"data_offsets\":[8,20]},"                          \
    "\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"                              \
    "\"none\":{\"dtype\":\"I64\",\"shape\":[0,5],\"data_offsets\":[20,20]},"                       \
    "\"one\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[20,21]}}"

static void test_safetensors_whole_file(void **state) {
    (void)state;
    struct buf b;
    struct tensor_dir dir = {0};
    uint8_t data[21];
    for (int32_t i = 0; i < 21; i++) {
        data[i] = (uint8_t)i;
    }
    buf_init(&b, MEM_TEST, FILE_MAX);
    container_st(&b, GOOD, data, 21);
    assert_ok(safetensors_parse("x", (const uint8_t *)b.data, b.len, &dir));
    assert_ok(tensor_dir_sort(&dir, "x"));
    assert_int_equal(dir.n, 4);
    const struct tensor *t = tensor_dir_find(&dir, "b");
    assert_non_null(t);
    assert_int_equal(t->type, DTYPE_BF16);
    assert_int_equal(t->n_dim, 2);
    assert_true(t->dim[0] == 2 && t->dim[1] == 3 && t->bytes == 12);
    assert_memory_equal(t->data, data + 8, 12);
    assert_int_equal(tensor_dir_find(&dir, "none")->bytes, 0);
    assert_int_equal(tensor_dir_find(&dir, "one")->n_dim, 0);
    assert_null(tensor_dir_find(&dir, "c"));
    assert_null(tensor_dir_find(&dir, "__metadata__"));
    tensor_dir_fini(&dir);
    buf_fini(&b);
}

static void test_safetensors_every_dtype_of_the_format(void **state) {
    (void)state;
    static const char *const names[] = {"F64", "F32", "I32", "I64",  "F16",    "BF16",
                                        "I16", "I8",  "U8",  "BOOL", "F8_E4M3"};
    static const int32_t bytes[] = {8, 4, 4, 8, 2, 2, 2, 1, 1, 1, 1};
    for (int32_t i = 0; i < ARRAY_LEN(names); i++) {
        struct tensor_dir dir = {0};
        struct buf h;
        buf_init(&h, MEM_TEST, 1000);
        assert_ok(buf_fmt(&h, "{\"a\":{\"dtype\":\"%s\",\"shape\":[3],\"data_offsets\":[0,%d]}}",
                          names[i], 3 * bytes[i]));
        assert_ok(parse(buf_cstr(&h), 3 * bytes[i], &dir));
        assert_string_equal(dtype_info(dir.items[0].type)->name, names[i]);
        tensor_dir_fini(&dir);
        buf_fini(&h);
    }
}

static void test_safetensors_cut_at_every_byte(void **state) {
    (void)state;
    struct buf b;
    struct container_edge e;
    uint8_t data[21] = {0};
    buf_init(&b, MEM_TEST, FILE_MAX);
    container_st(&b, GOOD, data, 21);
    container_edge_init(&e, FILE_MAX);
    for (int64_t n = 0; n < b.len; n++) {
        struct tensor_dir dir = {0};
        int rc = safetensors_parse("cut", container_edge_put(&e, b.data, n), n, &dir);
        assert_int_equal(rc, ERR_EOF);
        tensor_dir_fini(&dir);
    }
    container_edge_fini(&e);
    buf_fini(&b);
}

static void test_safetensors_header_length_lies(void **state) {
    (void)state;
    static const uint64_t lies[] = {UINT64_MAX, UINT64_C(1) << 63, INT64_MAX, 100 << 20 | 1, 3};
    static const int codes[] = {ERR_FORMAT, ERR_FORMAT, ERR_FORMAT, ERR_FORMAT, ERR_EOF};
    for (int32_t i = 0; i < ARRAY_LEN(lies); i++) {
        struct tensor_dir dir = {0};
        uint8_t file[10] = {0};
        memcpy(file, &lies[i], 8);
        assert_err(safetensors_parse("x", file, sizeof file, &dir), codes[i], "header of");
        tensor_dir_fini(&dir);
    }
}

static void test_safetensors_bad_headers(void **state) {
    (void)state;
    expect_bad("[]", 0, ERR_FORMAT, "no object");
    expect_bad("3", 0, ERR_FORMAT, "line 1");
    expect_bad("{", 0, ERR_FORMAT, "safetensors header");
    expect_bad("", 0, ERR_FORMAT, "safetensors header");
    expect_bad("{\"a\":3}", 0, ERR_FORMAT, "\"a\": entry is no object");
    expect_bad("{\"a\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4, ERR_FORMAT, "dtype");
    expect_bad("{\"a\":{\"dtype\":4,\"shape\":[1],\"data_offsets\":[0,4]}}", 4, ERR_FORMAT,
               "dtype");
    expect_bad("{\"a\":{\"dtype\":\"F4\",\"shape\":[2],\"data_offsets\":[0,1]}}", 1,
               ERR_UNSUPPORTED, "\"a\" has dtype \"F4\"");
    expect_bad("{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,4]}}", 4, ERR_FORMAT, "shape");
    expect_bad("{\"a\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,4],\"data_offsets\":[0,4]}}", 4,
               ERR_FORMAT, "at most 4");
    expect_bad("{\"a\":{\"dtype\":\"U8\",\"shape\":[-4],\"data_offsets\":[0,4]}}", 4, ERR_FORMAT,
               "dimension 0");
    expect_bad("{\"a\":{\"dtype\":\"U8\",\"shape\":[4.0],\"data_offsets\":[0,4]}}", 4, ERR_FORMAT,
               "dimension 0");
    expect_bad("{\"a\":{\"dtype\":\"U8\",\"shape\":[4]}}", 4, ERR_FORMAT, "data_offsets");
    expect_bad("{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4,5]}}", 4, ERR_FORMAT,
               "no pair");
    expect_bad("{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[\"0\",4]}}", 4, ERR_FORMAT,
               "no pair");
    expect_bad("{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[-4,0]}}", 4, ERR_FORMAT,
               "no pair");
}

static void test_safetensors_wrong_sizes(void **state) {
    (void)state;
    expect_bad("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4, ERR_FORMAT,
               "4 bytes, but F32 [2] needs 8");
    expect_bad("{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,5]}}", 4, ERR_EOF,
               "0..5, but the file holds 0..4");
    expect_bad("{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[4,0]}}", 4, ERR_FORMAT,
               "4..0");
    expect_bad("{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904,4],"
               "\"data_offsets\":[0,0]}}",
               0, ERR_FORMAT, "needs -1");
    expect_bad("{\"a\":{\"dtype\":\"U8\",\"shape\":[4294967296,4294967296,4294967296],"
               "\"data_offsets\":[0,0]}}",
               0, ERR_FORMAT, "needs -1");
    expect_bad("{\"a\":{\"dtype\":\"F32\",\"shape\":[9223372036854775807],"
               "\"data_offsets\":[0,9223372036854775807]}}",
               0, ERR_EOF, "but the file holds");
}

static void test_safetensors_layout_must_tile(void **state) {
    (void)state;
    expect_bad("{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
               "\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[2,6]}}",
               6, ERR_FORMAT, "overlap");
    expect_bad("{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
               "\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[6,10]}}",
               10, ERR_FORMAT, "begins at byte 6, want 4 (hole)");
    expect_bad("{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[1,5]}}", 5, ERR_FORMAT,
               "hole");
    expect_bad("{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}", 7, ERR_FORMAT,
               "3 bytes behind the last tensor");
    expect_bad("{}", 1, ERR_FORMAT, "1 bytes behind");
    expect_bad("{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
               "\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[4,8]}}",
               8, ERR_FORMAT, "duplicate");
}

static void test_safetensors_names_too_long_or_with_nul(void **state) {
    (void)state;
    struct buf h;
    char name[TENSOR_NAME_MAX + 2];
    memset(name, 'n', sizeof name);
    name[sizeof name - 1] = '\0';
    buf_init(&h, MEM_TEST, 10000);
    assert_ok(
        buf_fmt(&h, "{\"%s\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}", name));
    expect_bad(buf_cstr(&h), 4, ERR_LIMIT, "a name of 257 bytes");
    buf_fini(&h);
    expect_bad("{\"a\\u0000b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}", 4,
               ERR_FORMAT, "NUL");
}

static void test_safetensors_empty_container(void **state) {
    (void)state;
    struct tensor_dir dir = {0};
    assert_ok(parse("{}", 0, &dir));
    assert_int_equal(dir.n, 0);
    assert_ok(tensor_dir_sort(&dir, "x"));
    assert_null(tensor_dir_find(&dir, "a"));
    tensor_dir_fini(&dir);
}

static int whole(void *ctx) {
    struct tensor_dir dir = {0};
    const struct buf *b = ctx;
    int rc = safetensors_parse("x", (const uint8_t *)b->data, b->len, &dir);
    tensor_dir_fini(&dir);
    return rc;
}

static void test_safetensors_without_memory(void **state) {
    (void)state;
    static const int codes[] = {ERR_NOMEM, 0};
    struct buf b;
    uint8_t data[21] = {0};
    buf_init(&b, MEM_TEST, FILE_MAX);
    container_st(&b, GOOD, data, 21);
    test_fault_loop(FAULT_ALLOC, whole, &b, codes);
    buf_fini(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_safetensors_whole_file),        TEST(test_safetensors_every_dtype_of_the_format),
        TEST(test_safetensors_cut_at_every_byte), TEST(test_safetensors_header_length_lies),
        TEST(test_safetensors_bad_headers),       TEST(test_safetensors_wrong_sizes),
        TEST(test_safetensors_layout_must_tile),  TEST(test_safetensors_names_too_long_or_with_nul),
        TEST(test_safetensors_empty_container),   TEST(test_safetensors_without_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
