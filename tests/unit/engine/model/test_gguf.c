/* The GGUF reader: every metadata type, every count, length and offset that a file can lie about.
 */
#include "tests/support/support.h"

#include <float.h>
#include <string.h>

#include "engine/model/gguf.h"
#include "tests/support/container_fixture.h"

enum { U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64, FILE_MAX = 1 << 20 };

static int parse(const struct buf *b, struct gguf **g) {
    return gguf_parse("x.gguf", (const uint8_t *)b->data, b->len, g);
}

/* Parses b, expects the error, and empties b for the next case. */
#define expect_bad(b, code, part)                                                                  \
    do {                                                                                           \
        struct gguf *g_ = NULL;                                                                    \
        assert_err(parse((b), &g_), (code), (part));                                               \
        assert_null(g_);                                                                           \
        buf_clear(b);                                                                              \
    } while (0)

static void array(struct buf *b, const char *key, uint32_t type, uint64_t n) {
    container_str(b, key);
    container_u32(b, ARRAY);
    container_u32(b, type);
    container_u64(b, n);
}

/* Two tensors, fourteen entries: one of each type, arrays of numbers and of strings. */
static void good_file(struct buf *b, uint32_t version) {
    const uint8_t u8 = 200;
    const int8_t i8 = -100;
    const uint16_t u16 = 60000;
    const int16_t i16 = -30000;
    const int32_t i32 = -7;
    const uint8_t yes = 1;
    const uint64_t u64 = UINT64_C(9007199254740993);
    const int64_t i64 = INT64_MIN;
    const double f64 = 0.1;
    const uint16_t list[3] = {1, 2, 65535};
    const uint64_t dim_a[2] = {32, 2};
    const uint64_t dim_b[1] = {3};
    float data[3] = {1, 2, 3};
    uint8_t blocks[2 * 20] = {0};
    container_head(b, version, 2, 14);
    container_kv(b, "u8", U8, &u8, 1);
    container_kv(b, "i8", I8, &i8, 1);
    container_kv(b, "u16", U16, &u16, 2);
    container_kv(b, "i16", I16, &i16, 2);
    container_kv_u32(b, "u32", 4000000000u);
    container_kv(b, "i32", I32, &i32, 4);
    container_kv_f32(b, "f32", 0.5f);
    container_kv(b, "bool", BOOL, &yes, 1);
    container_kv_str(b, "str", "hello");
    container_kv(b, "u64", U64, &u64, 8);
    container_kv(b, "i64", I64, &i64, 8);
    container_kv(b, "f64", F64, &f64, 8);
    array(b, "list", U16, 3);
    assert_ok(buf_add(b, list, 6));
    array(b, "names", STRING, 3);
    container_str(b, "a");
    container_str(b, "");
    container_str(b, "ccc");
    container_tensor(b, "w.q41", 2, dim_a, 3, 0);
    container_tensor(b, "b", 1, dim_b, 0, 64);
    container_pad(b, 32);
    assert_ok(buf_add(b, blocks, sizeof blocks));
    container_pad(b, 32);
    assert_ok(buf_add(b, data, sizeof data));
}

static void check_scalars(const struct gguf *g) {
    static const struct {
        const char *key;
        int64_t v;
    } whole[] = {
        {"u8", 200},         {"i8", -100}, {"u16", 60000},     {"i16", -30000},
        {"u32", 4000000000}, {"i32", -7},  {"i64", INT64_MIN}, {"u64", INT64_C(9007199254740993)}};
    for (int32_t i = 0; i < ARRAY_LEN(whole); i++) {
        int64_t v = 1;
        assert_ok(gguf_opt_i64(g, whole[i].key, INT64_MIN, INT64_MAX, &v));
        assert_true(v == whole[i].v);
    }
    double d = 0;
    bool b = false;
    struct gguf_str s = {0};
    assert_ok(gguf_opt_f64(g, "f32", &d));
    assert_true(d == 0.5);
    assert_ok(gguf_opt_f64(g, "f64", &d));
    assert_true(d == 0.1);
    assert_ok(gguf_opt_f64(g, "i32", &d));
    assert_true(d == -7);
    assert_ok(gguf_opt_bool(g, "bool", &b));
    assert_true(b);
    assert_ok(gguf_opt_str(g, "str", &s));
    assert_int_equal(s.len, 5);
    assert_memory_equal(s.data, "hello", 5);
}

static void test_gguf_every_metadata_type(void **state) {
    (void)state;
    struct buf b;
    buf_init(&b, MEM_TEST, FILE_MAX);
    for (uint32_t version = 2; version <= 3; version++) {
        struct gguf *g = NULL;
        buf_clear(&b);
        good_file(&b, version);
        assert_ok(parse(&b, &g));
        check_scalars(g);
        const struct gguf_kv *list = gguf_find(g, "list");
        assert_true(list->is_array && list->n == 3 && gguf_number(list, 2) == 65535);
        struct gguf_str *names = NULL;
        assert_ok(gguf_strings(g, gguf_find(g, "names"), &names));
        assert_true(names[0].len == 1 && names[1].len == 0 && names[2].len == 3);
        assert_memory_equal(names[2].data, "ccc", 3);
        mem_free(names);
        assert_err(gguf_strings(g, list, &names), ERR_FORMAT, "\"list\" is no array of strings");
        gguf_close(g);
    }
    buf_fini(&b);
}

static void test_gguf_tensors_are_placed_and_turned(void **state) {
    (void)state;
    struct buf b;
    struct gguf *g = NULL;
    buf_init(&b, MEM_TEST, FILE_MAX);
    good_file(&b, 3);
    assert_ok(parse(&b, &g));
    const struct tensor *t = tensor_dir_find(&g->dir, "w.q41");
    assert_int_equal(t->type, DTYPE_Q4_1);
    assert_true(t->n_dim == 2 && t->dim[0] == 2 && t->dim[1] == 32 && t->bytes == 40);
    t = tensor_dir_find(&g->dir, "b");
    assert_true(t->n_dim == 1 && t->dim[0] == 3);
    float v[3];
    memcpy(v, t->data, sizeof v);
    assert_true(v[0] == 1 && v[2] == 3);
    gguf_close(g);
    buf_fini(&b);
}

static void test_gguf_typed_access_refuses_other_types(void **state) {
    (void)state;
    struct buf b;
    struct gguf *g = NULL;
    buf_init(&b, MEM_TEST, FILE_MAX);
    good_file(&b, 3);
    assert_ok(parse(&b, &g));
    int64_t i = 77;
    int32_t j = 77;
    double d = 77;
    bool yes = false;
    struct gguf_str s = {0};
    assert_err(gguf_opt_i64(g, "f32", 0, 9, &i), ERR_FORMAT, "x.gguf: metadata \"f32\"");
    assert_err(gguf_opt_i64(g, "str", 0, 9, &i), ERR_FORMAT, "no whole number");
    assert_err(gguf_opt_i64(g, "bool", 0, 9, &i), ERR_FORMAT, "no whole number");
    assert_err(gguf_opt_i64(g, "list", 0, 9, &i), ERR_FORMAT, "no whole number");
    assert_err(gguf_opt_i32(g, "u32", 0, INT32_MAX, &j), ERR_RANGE, "4000000000, want 0..");
    assert_err(gguf_opt_f64(g, "names", &d), ERR_FORMAT, "no finite number");
    assert_err(gguf_opt_bool(g, "u8", &yes), ERR_FORMAT, "no truth value");
    assert_err(gguf_opt_str(g, "names", &s), ERR_FORMAT, "no string");
    assert_err(gguf_need_i32(g, "none", 0, 1, &j), ERR_FORMAT, "\"none\" is missing");
    assert_ok(gguf_opt_i32(g, "none", 0, 1, &j));
    assert_ok(gguf_opt_f64(g, "none", &d));
    assert_ok(gguf_opt_bool(g, "none", &yes));
    assert_ok(gguf_opt_str(g, "none", &s));
    assert_true(i == 77 && j == 77 && d == 77 && !yes && !s.data);
    gguf_close(g);
    buf_fini(&b);
}

static void test_gguf_unsigned_past_int64_is_out_of_range(void **state) {
    (void)state;
    struct buf b;
    struct gguf *g = NULL;
    const uint64_t big[2] = {UINT64_MAX, UINT64_C(1) << 63};
    buf_init(&b, MEM_TEST, FILE_MAX);
    container_head(&b, 3, 0, 2);
    container_kv(&b, "a", U64, &big[0], 8);
    container_kv(&b, "b", U64, &big[1], 8);
    assert_ok(parse(&b, &g));
    int64_t v = 5;
    assert_err(gguf_opt_i64(g, "a", INT64_MIN, INT64_MAX, &v), ERR_RANGE, "1.8446744073709552e+19");
    assert_err(gguf_opt_i64(g, "b", INT64_MIN, INT64_MAX, &v), ERR_RANGE, "9.2233720368547758e+18");
    assert_int_equal(v, 5);
    gguf_close(g);
    buf_fini(&b);
}

static void test_gguf_float_that_is_not_finite(void **state) {
    (void)state;
    struct buf b;
    struct gguf *g = NULL;
    double d = 3;
    buf_init(&b, MEM_TEST, FILE_MAX);
    container_head(&b, 3, 0, 1);
    container_kv_f32(&b, "inf", FLT_MAX * 2);
    assert_ok(parse(&b, &g));
    assert_err(gguf_opt_f64(g, "inf", &d), ERR_FORMAT, "\"inf\" is no finite number");
    assert_true(d == 3);
    gguf_close(g);
    buf_fini(&b);
}

static void test_gguf_cut_at_every_byte(void **state) {
    (void)state;
    struct buf b;
    struct container_edge e;
    buf_init(&b, MEM_TEST, FILE_MAX);
    good_file(&b, 3);
    container_edge_init(&e, FILE_MAX);
    for (int64_t n = 0; n < b.len; n++) {
        struct gguf *g = NULL;
        int rc = gguf_parse("cut", container_edge_put(&e, b.data, n), n, &g);
        assert_int_equal(rc, ERR_EOF);
        assert_null(g);
    }
    struct gguf *g = NULL;
    assert_ok(gguf_parse("whole", container_edge_put(&e, b.data, b.len), b.len, &g));
    gguf_close(g);
    container_edge_fini(&e);
    buf_fini(&b);
}

static void test_gguf_head_is_checked(void **state) {
    (void)state;
    struct buf b;
    buf_init(&b, MEM_TEST, FILE_MAX);
    assert_ok(buf_add(&b, "GGML\3\0\0\0", 8));
    expect_bad(&b, ERR_FORMAT, "begins with 47 47 4d 4c, want \"GGUF\"");
    container_head(&b, 0x03000000, 0, 0);
    expect_bad(&b, ERR_UNSUPPORTED, "big-endian");
    container_head(&b, 9, 0, 0);
    expect_bad(&b, ERR_UNSUPPORTED, "GGUF version 9, read are 2 and 3");
    container_head(&b, 1, 0, 0);
    expect_bad(&b, ERR_UNSUPPORTED, "version 1");
    container_head(&b, 0, 0, 0);
    expect_bad(&b, ERR_UNSUPPORTED, "version 0");
    container_head(&b, 3, UINT64_MAX, 0);
    expect_bad(&b, ERR_LIMIT, "18446744073709551615 tensors");
    container_head(&b, 3, 0, UINT64_MAX);
    expect_bad(&b, ERR_LIMIT, "metadata entries");
    container_head(&b, 3, TENSORS_MAX, 65536);
    expect_bad(&b, ERR_EOF, "inside the directory");
    buf_fini(&b);
}

static void test_gguf_lengths_lie(void **state) {
    (void)state;
    struct buf b;
    buf_init(&b, MEM_TEST, FILE_MAX);
    container_head(&b, 3, 0, 1);
    container_u64(&b, UINT64_MAX);
    container_str(&b, "padding so that the head passes");
    expect_bad(&b, ERR_EOF, "a metadata key");
    container_head(&b, 3, 0, 1);
    container_kv(&b, "key", 13, "12345678", 8);
    expect_bad(&b, ERR_FORMAT, "value type 13 at byte");
    container_head(&b, 3, 0, 1);
    array(&b, "key", ARRAY, 1);
    expect_bad(&b, ERR_FORMAT, "value type 9");
    container_head(&b, 3, 0, 1);
    array(&b, "key", U64, UINT64_MAX);
    expect_bad(&b, ERR_LIMIT, "array of 18446744073709551615");
    container_head(&b, 3, 0, 1);
    array(&b, "key", U64, 1 << 28);
    expect_bad(&b, ERR_EOF, "a metadata value");
    container_head(&b, 3, 0, 1);
    array(&b, "key", STRING, 1 << 28);
    expect_bad(&b, ERR_EOF, "a metadata value");
    container_head(&b, 3, 0, 1);
    container_str(&b, "key");
    container_u32(&b, STRING);
    container_u64(&b, UINT64_C(1) << 63);
    expect_bad(&b, ERR_EOF, "a metadata value");
    buf_fini(&b);
}

/* A file of one F32 tensor with the given entry and 96 bytes of data. */
static void
one_tensor(struct buf *b, uint32_t n_dim, const uint64_t *dim, uint32_t type, uint64_t offset) {
    uint8_t data[96] = {0};
    container_head(b, 3, 1, 0);
    container_tensor(b, "t", n_dim, dim, type, offset);
    container_pad(b, 32);
    assert_ok(buf_add(b, data, sizeof data));
}

static void test_gguf_tensor_entries_lie(void **state) {
    (void)state;
    struct buf b;
    const uint64_t d[5] = {8, 1, 1, 1, 1};
    buf_init(&b, MEM_TEST, FILE_MAX);
    one_tensor(&b, 5, d, 0, 0);
    expect_bad(&b, ERR_FORMAT, "5 dimensions, at most 4");
    one_tensor(&b, 1, d, 0, 4);
    expect_bad(&b, ERR_FORMAT, "offset 4 is no multiple of 32");
    one_tensor(&b, 1, d, 0, 96);
    expect_bad(&b, ERR_EOF, "32 bytes at 96, but the data region has 96");
    one_tensor(&b, 1, d, 0, UINT64_MAX - 31);
    expect_bad(&b, ERR_EOF, "but the data region has 96");
    one_tensor(&b, 1, (uint64_t[]){25}, 0, 0);
    expect_bad(&b, ERR_EOF, "100 bytes at 0");
    one_tensor(&b, 1, (uint64_t[]){UINT64_MAX}, 0, 0);
    expect_bad(&b, ERR_FORMAT, "dimension 18446744073709551615");
    one_tensor(&b, 2, (uint64_t[]){UINT64_C(1) << 62, 8}, 0, 0);
    expect_bad(&b, ERR_FORMAT, "is impossible for F32");
    one_tensor(&b, 1, (uint64_t[]){33}, 8, 0);
    expect_bad(&b, ERR_FORMAT, "shape [33] is impossible for Q8_0");
    one_tensor(&b, 1, d, 41, 0);
    expect_bad(&b, ERR_UNSUPPORTED, "\"t\" has block type Q1_0 (41); read are");
    one_tensor(&b, 1, d, 999, 0);
    expect_bad(&b, ERR_UNSUPPORTED, "unknown (999)");
    buf_fini(&b);
}

static void test_gguf_two_tensors_of_one_name(void **state) {
    (void)state;
    struct buf b;
    const uint64_t d[1] = {4};
    uint8_t data[64] = {0};
    buf_init(&b, MEM_TEST, FILE_MAX);
    container_head(&b, 3, 2, 0);
    container_tensor(&b, "t", 1, d, 0, 0);
    container_tensor(&b, "t", 1, d, 0, 32);
    container_pad(&b, 32);
    assert_ok(buf_add(&b, data, sizeof data));
    expect_bad(&b, ERR_FORMAT, "two tensors are named \"t\"");
    buf_fini(&b);
}

static void test_gguf_two_entries_of_one_key(void **state) {
    (void)state;
    struct buf b;
    buf_init(&b, MEM_TEST, FILE_MAX);
    container_head(&b, 3, 0, 3);
    container_kv_u32(&b, "llama.block_count", 1);
    container_kv_u32(&b, "other", 1);
    container_kv_u32(&b, "llama.block_count", 2);
    expect_bad(&b, ERR_FORMAT, "two metadata entries are named \"llama.block_count\"");
    buf_fini(&b);
}

static void test_gguf_alignment_key_moves_the_data(void **state) {
    (void)state;
    struct buf b;
    struct gguf *g = NULL;
    const uint64_t d[1] = {1};
    buf_init(&b, MEM_TEST, FILE_MAX);
    container_head(&b, 3, 1, 1);
    container_kv_u32(&b, "general.alignment", 64);
    container_tensor(&b, "t", 1, d, 0, 64);
    container_pad(&b, 64);
    container_u64(&b, 1);
    container_pad(&b, 64);
    container_u32(&b, 0xabcd);
    assert_ok(parse(&b, &g));
    uint32_t v = 0;
    memcpy(&v, g->dir.items[0].data, 4);
    assert_int_equal(v, 0xabcd);
    gguf_close(g);
    buf_clear(&b);
    container_head(&b, 3, 0, 1);
    container_kv_u32(&b, "general.alignment", 0);
    expect_bad(&b, ERR_RANGE, "\"general.alignment\" is 0");
    container_head(&b, 3, 0, 1);
    container_kv_str(&b, "general.alignment", "32");
    expect_bad(&b, ERR_FORMAT, "general.alignment");
    buf_fini(&b);
}

static void test_gguf_flipped_bytes_never_crash(void **state) {
    (void)state;
    struct buf b;
    struct container_edge e;
    buf_init(&b, MEM_TEST, FILE_MAX);
    good_file(&b, 3);
    container_edge_init(&e, FILE_MAX);
    int32_t n_ok = 0;
    for (int64_t i = 0; i < b.len; i++) {
        static const uint8_t masks[] = {0xff, 0x80, 0x01, 0x10};
        for (int32_t m = 0; m < ARRAY_LEN(masks); m++) {
            struct gguf *g = NULL;
            b.data[i] = (char)(b.data[i] ^ (char)masks[m]);
            int rc = gguf_parse("flip", container_edge_put(&e, b.data, b.len), b.len, &g);
            b.data[i] = (char)(b.data[i] ^ (char)masks[m]);
            n_ok += rc == 0 ? 1 : 0;
            gguf_close(g);
        }
    }
    assert_true(n_ok > 0 && n_ok < b.len * 4);
    container_edge_fini(&e);
    buf_fini(&b);
}

static int whole(void *ctx) {
    struct gguf *g = NULL;
    int rc = parse(ctx, &g);
    gguf_close(g);
    return rc;
}

static void test_gguf_without_memory(void **state) {
    (void)state;
    static const int codes[] = {ERR_NOMEM, 0};
    struct buf b;
    buf_init(&b, MEM_TEST, FILE_MAX);
    good_file(&b, 3);
    test_fault_loop(FAULT_ALLOC, whole, &b, codes);
    buf_fini(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {TEST(test_gguf_every_metadata_type),
                                       TEST(test_gguf_tensors_are_placed_and_turned),
                                       TEST(test_gguf_typed_access_refuses_other_types),
                                       TEST(test_gguf_unsigned_past_int64_is_out_of_range),
                                       TEST(test_gguf_float_that_is_not_finite),
                                       TEST(test_gguf_cut_at_every_byte),
                                       TEST(test_gguf_head_is_checked),
                                       TEST(test_gguf_lengths_lie),
                                       TEST(test_gguf_tensor_entries_lie),
                                       TEST(test_gguf_two_tensors_of_one_name),
                                       TEST(test_gguf_two_entries_of_one_key),
                                       TEST(test_gguf_alignment_key_moves_the_data),
                                       TEST(test_gguf_flipped_bytes_never_crash),
                                       TEST(test_gguf_without_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
