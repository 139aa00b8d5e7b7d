/* Which container is it, and what can be wrong with a folder. */
#include "tests/support/support.h"

#include <stdio.h>
#include <string.h>

#include "engine/model/ckpt.h"
#include "tests/support/container_fixture.h"
#include "tests/support/toy_model.h"

static char dir[FILE_PATH_MAX];
static struct toy_model toy;

static int setup(void **state) {
    test_setup(state);
    test_tmpdir(dir);
    toy_model_init(&toy, 1, DTYPE_F32);
    return 0;
}

static int teardown(void **state) {
    fault_disarm();
    toy_model_fini(&toy);
    test_rmdir(dir);
    return test_teardown(state);
}

static const char *in_dir(const char *name) {
    static char path[FILE_PATH_MAX];
    assert_ok(file_join(path, dir, name));
    return path;
}

static void put(const char *name, const char *text) {
    assert_ok(file_write(in_dir(name), text, (int64_t)strlen(text)));
}

/* A shard with one U8 tensor of 4 bytes. */
static void put_shard(const char *name, const char *tensor) {
    struct buf b;
    char head[200];
    snprintf(head, sizeof head, "{\"%s\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}",
             tensor);
    buf_init(&b, MEM_TEST, 1000);
    container_st(&b, head, "data", 4);
    assert_ok(file_write(in_dir(name), b.data, b.len));
    buf_fini(&b);
}

static void put_index(const char *map) {
    char text[600];
    snprintf(text, sizeof text, "{\"metadata\":{},\"weight_map\":%s}", map);
    put("config.json", "{}");
    put("model.safetensors.index.json", text);
}

static void expect_bad(const char *path, int code, const char *part) {
    struct ckpt *c = NULL;
    assert_err(ckpt_open(path, &c), code, part);
    assert_null(c);
}

static void test_ckpt_folder_of_one_file(void **state) {
    (void)state;
    struct ckpt *c = NULL;
    toy_model_write_hf(&toy, dir, "", 0);
    assert_ok(ckpt_open(dir, &c));
    assert_int_equal(c->kind, CKPT_HF);
    assert_int_equal(c->n_file, 1);
    assert_string_equal(c->file[0], "model.safetensors");
    assert_int_equal(c->file_bytes, file_size(in_dir("model.safetensors")));
    assert_int_equal(c->dir.n, toy.n);
    assert_non_null(ckpt_find(c, "model.norm.weight"));
    assert_null(ckpt_find(c, "model.norm"));
    char hex[FILE_SHA256_HEX];
    char want[FILE_SHA256_HEX];
    assert_ok(ckpt_sha256(c, hex));
    assert_ok(file_sha256(in_dir("model.safetensors"), want));
    assert_string_equal(hex, want);
    ckpt_close(c);
    ckpt_close(NULL);
}

static void test_ckpt_gguf_file_and_folder_with_one(void **state) {
    (void)state;
    struct ckpt *c = NULL;
    toy_model_write_gguf(&toy, in_dir("m.gguf"));
    assert_ok(ckpt_open(in_dir("m.gguf"), &c));
    assert_int_equal(c->kind, CKPT_GGUF);
    assert_non_null(ckpt_find(c, "output_norm.weight"));
    ckpt_close(c);
    assert_ok(ckpt_open(dir, &c));
    assert_int_equal(c->kind, CKPT_GGUF);
    assert_string_equal(file_base(c->path), "m.gguf");
    ckpt_close(c);
    put("n.gguf", "GGUF");
    expect_bad(dir, ERR_FORMAT, "2 .gguf files, want one of them");
}

static void test_ckpt_nothing_there(void **state) {
    (void)state;
    expect_bad(in_dir("none"), ERR_NOTFOUND, "none: no such file or folder");
    expect_bad(dir, ERR_NOTFOUND, "0 .gguf files");
    put("config.json", "{}");
    expect_bad(dir, ERR_NOTFOUND, "model.safetensors");
    put("config.json", "{");
    expect_bad(dir, ERR_FORMAT, "config.json: line 1");
    put("empty.gguf", "");
    expect_bad(in_dir("empty.gguf"), ERR_EOF, "empty.gguf: file ends at byte 0");
    put("text.txt", "hello, this is text");
    expect_bad(in_dir("text.txt"), ERR_FORMAT, "want \"GGUF\"");
    char long_path[FILE_PATH_MAX + 10];
    memset(long_path, 'a', sizeof long_path);
    long_path[sizeof long_path - 1] = '\0';
    expect_bad(long_path, ERR_LIMIT, "longer than 4095");
}

static void test_ckpt_empty_safetensors(void **state) {
    (void)state;
    put("config.json", "{}");
    put("model.safetensors", "");
    expect_bad(dir, ERR_EOF, "model.safetensors: 0 bytes");
}

static void test_ckpt_shards_by_index(void **state) {
    (void)state;
    struct ckpt *c = NULL;
    put_shard("one.safetensors", "b");
    put_shard("two.safetensors", "a");
    put_index("{\"b\":\"one.safetensors\",\"a\":\"two.safetensors\"}");
    assert_ok(ckpt_open(dir, &c));
    assert_int_equal(c->n_file, 2);
    assert_int_equal(c->dir.n, 2);
    assert_string_equal(c->dir.items[0].name, "a");
    assert_memory_equal(ckpt_find(c, "b")->data, "data", 4);
    ckpt_close(c);
}

static void test_ckpt_sha256_is_in_name_order(void **state) {
    (void)state;
    struct ckpt *c = NULL;
    char one[FILE_SHA256_HEX];
    char two[FILE_SHA256_HEX];
    put_shard("one.safetensors", "b");
    put_shard("two.safetensors", "a");
    put_index("{\"b\":\"one.safetensors\",\"a\":\"two.safetensors\"}");
    assert_ok(ckpt_open(dir, &c));
    assert_ok(ckpt_sha256(c, one));
    ckpt_close(c);
    put_index("{\"a\":\"two.safetensors\",\"b\":\"one.safetensors\"}");
    assert_ok(ckpt_open(dir, &c));
    assert_ok(ckpt_sha256(c, two));
    ckpt_close(c);
    assert_string_equal(one, two);
}

static void test_ckpt_index_refusals(void **state) {
    (void)state;
    put_shard("one.safetensors", "b");
    put_index("{\"b\":\"one.safetensors\",\"a\":\"gone.safetensors\"}");
    expect_bad(dir, ERR_NOTFOUND, "gone.safetensors");
    put_index("{\"b\":\"one.safetensors\",\"a\":\"one.safetensors\"}");
    expect_bad(dir, ERR_FORMAT, "tensor \"a\" is in no shard");
    put_index("{\"b\":\"../one.safetensors\"}");
    expect_bad(dir, ERR_FORMAT, "shard \"../one.safetensors\" is no file of this folder");
    put_index("{\"b\":\"/etc/passwd\"}");
    expect_bad(dir, ERR_FORMAT, "is no file of this folder");
    put_index("{\"b\":\"..\"}");
    expect_bad(dir, ERR_FORMAT, "is no file of this folder");
    put_index("{\"b\":7}");
    expect_bad(dir, ERR_FORMAT, "is no file of this folder");
    put_index("[]");
    expect_bad(dir, ERR_FORMAT, "\"weight_map\" is no object");
    put("model.safetensors.index.json", "[");
    expect_bad(dir, ERR_FORMAT, "index.json: line 1");
    put_shard("two.safetensors", "b");
    put_index("{\"b\":\"one.safetensors\",\"a\":\"two.safetensors\"}");
    expect_bad(dir, ERR_FORMAT, "two tensors are named \"b\"");
    char text[CKPT_NAME_MAX + 20];
    snprintf(text, sizeof text, "{\"b\":\"%0*d\"}", CKPT_NAME_MAX, 1);
    put_index(text);
    expect_bad(dir, ERR_LIMIT, "is too long");
}

/* Part no of count as llama.cpp writes it: one F32 tensor of that name, and the three keys. */
static void
put_part(const char *name, int32_t no, int32_t count, int32_t total, const char *tensor) {
    struct buf b;
    const uint8_t data[64] = {0};
    uint16_t v[2] = {(uint16_t)no, (uint16_t)count};
    buf_init(&b, MEM_TEST, 10000);
    container_head(&b, 3, 1, 3);
    container_kv(&b, "split.no", GGUF_U16, &v[0], 2);
    container_kv(&b, "split.count", GGUF_U16, &v[1], 2);
    container_kv(&b, "split.tensors.count", GGUF_I32, &total, 4);
    container_tensor(&b, tensor, 1, (const uint64_t[]){8}, 0, 0);
    container_pad(&b, 32);
    assert_ok(buf_add(&b, data, 32));
    assert_ok(file_write(in_dir(name), b.data, b.len));
    buf_fini(&b);
}

static void test_ckpt_split_gguf(void **state) {
    (void)state;
    struct ckpt *c = NULL;
    put_part("m-00001-of-00003.gguf", 0, 3, 3, "b");
    put_part("m-00002-of-00003.gguf", 1, 3, 3, "a");
    put_part("m-00003-of-00003.gguf", 2, 3, 3, "c");
    for (int32_t way = 0; way < 2; way++) { /* the first part, or the folder */
        assert_ok(ckpt_open(way ? dir : in_dir("m-00001-of-00003.gguf"), &c));
        assert_true(c->n_file == 3 && c->dir.n == 3);
        assert_string_equal(c->file[2], "m-00003-of-00003.gguf");
        assert_true(ckpt_find(c, "a")->data > c->map[1].data && ckpt_find(c, "a")->bytes == 32);
        ckpt_close(c);
    }
    c = NULL;
    expect_bad(in_dir("m-00002-of-00003.gguf"), ERR_FORMAT,
               "part 2 of a model in 3 files; open the first, named *-00001-of-00003.gguf");
    put_part("m-00003-of-00003.gguf", 1, 3, 3, "c");
    expect_bad(dir, ERR_FORMAT, "says it is part 2 of 3, want 3 of 3");
    put_part("m-00003-of-00003.gguf", 2, 4, 3, "c");
    expect_bad(dir, ERR_FORMAT, "says it is part 3 of 4, want 3 of 3");
    put_part("m-00003-of-00003.gguf", 2, 3, 3, "a");
    expect_bad(dir, ERR_FORMAT, "two tensors are named \"a\"");
    put_part("m-00003-of-00003.gguf", 2, 3, 3, "c");
    put_part("m-00001-of-00003.gguf", 0, 3, 4, "b");
    expect_bad(dir, ERR_FORMAT, "3 tensors in 3 files, split.tensors.count is 4");
    put_part("m.gguf", 0, 3, 3, "b");
    expect_bad(in_dir("m.gguf"), ERR_FORMAT, "open the first, named *-00001-of-00003.gguf");
    assert_int_equal(remove(in_dir("m-00003-of-00003.gguf")), 0);
    expect_bad(in_dir("m-00001-of-00003.gguf"), ERR_NOTFOUND, "m-00003-of-00003.gguf");
}

static int open_and_close(void *ctx) {
    struct ckpt *c = NULL;
    int rc = ckpt_open(ctx, &c);
    ckpt_close(c);
    return rc;
}

static void test_ckpt_faults_everywhere(void **state) {
    (void)state;
    static const int codes[] = {ERR_NOMEM, ERR_IO, 0};
    char gguf[FILE_PATH_MAX];
    toy_model_write_gguf(&toy, in_dir("m.gguf"));
    assert_ok(file_join(gguf, dir, "m.gguf"));
    test_fault_loop(FAULT_ALLOC, open_and_close, gguf, codes);
    test_fault_loop(FAULT_MMAP, open_and_close, gguf, codes);
    put_part("s-00001-of-00002.gguf", 0, 2, 2, "b");
    put_part("s-00002-of-00002.gguf", 1, 2, 2, "a");
    assert_ok(file_join(gguf, dir, "s-00001-of-00002.gguf"));
    test_fault_loop(FAULT_ALLOC, open_and_close, gguf, codes);
    test_fault_loop(FAULT_MMAP, open_and_close, gguf, codes);
    put_shard("one.safetensors", "b");
    put_shard("two.safetensors", "a");
    put_index("{\"b\":\"one.safetensors\",\"a\":\"two.safetensors\"}");
    test_fault_loop(FAULT_ALLOC, open_and_close, dir, codes);
    test_fault_loop(FAULT_MMAP, open_and_close, dir, codes);
    test_fault_loop(FAULT_READ, open_and_close, dir, codes);
}

#define CKPT_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        CKPT_TEST(test_ckpt_folder_of_one_file), CKPT_TEST(test_ckpt_gguf_file_and_folder_with_one),
        CKPT_TEST(test_ckpt_nothing_there),      CKPT_TEST(test_ckpt_empty_safetensors),
        CKPT_TEST(test_ckpt_shards_by_index),    CKPT_TEST(test_ckpt_sha256_is_in_name_order),
        CKPT_TEST(test_ckpt_split_gguf),         CKPT_TEST(test_ckpt_index_refusals),
        CKPT_TEST(test_ckpt_faults_everywhere)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
