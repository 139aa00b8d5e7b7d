/* Random blocks of every GGUF type that is read: container, directory and decoder against what
 * gguf-py made of them, bit for bit. */
#include "tests/support/support.h"

#include <string.h>

#include "engine/model/finite.h"
#include "engine/model/gguf.h"
#include "engine/model/safetensors.h"
#include "kernels/backend.h"

enum { N_TYPES = 27, ROWS = 4, COLS = 512 };

struct pair {
    struct filemap blocks;
    struct filemap values;
    struct gguf *gguf;
    struct tensor_dir want;
};

static void pair_open(struct pair *p) {
    const char *path = test_golden("gguf/types.gguf");
    memset(p, 0, sizeof *p);
    assert_ok(file_map(path, &p->blocks));
    assert_ok(gguf_parse(path, p->blocks.data, p->blocks.size, &p->gguf));
    path = test_golden("gguf/types.safetensors");
    assert_ok(file_map(path, &p->values));
    assert_ok(safetensors_parse(path, p->values.data, p->values.size, &p->want));
    assert_ok(tensor_dir_sort(&p->want, path));
}

static void pair_close(struct pair *p) {
    tensor_dir_fini(&p->want);
    gguf_close(p->gguf);
    file_unmap(&p->values);
    file_unmap(&p->blocks);
}

static void
same(const char *type, int32_t row, int32_t k0, const float *got, const float *want, int32_t n) {
    for (int32_t i = 0; i < n; i++) {
        if (memcmp(&got[i], &want[i], sizeof *got) != 0) {
            fail_msg("%s row %d column %d: %a, want %a", type, row, k0 + i, (double)got[i],
                     (double)want[i]);
        }
    }
}

static void test_gguf_types_decode_as_gguf_py(void **state) {
    (void)state;
    struct pair p;
    pair_open(&p);
    assert_int_equal(p.gguf->dir.n, N_TYPES);
    for (int32_t i = 0; i < p.gguf->dir.n; i++) {
        const struct tensor *t = &p.gguf->dir.items[i];
        const struct tensor *v = tensor_dir_find(&p.want, t->name);
        float got[COLS];
        assert_non_null(v);
        assert_string_equal(dtype_info(t->type)->name, t->name);
        assert_true(t->n_dim == 2 && t->dim[0] == ROWS && t->dim[1] == COLS);
        const float *want = (const float *)(const void *)v->data;
        struct wmat w = {.type = t->type, .n = ROWS, .k = COLS, .data = t->data};
        w.row_bytes = dtype_row_bytes(t->type, COLS);
        for (int32_t r = 0; r < ROWS; r++) {
            ref_decode(&w, r, 0, COLS, got);
            same(t->name, r, 0, got, want + r * COLS, COLS);
            ref_decode(&w, r, COLS / 2, COLS / 2, got);
            same(t->name, r, COLS / 2, got, want + r * COLS + COLS / 2, COLS / 2);
        }
    }
    pair_close(&p);
}

/* The scan finds a bad scale in the last block of each type, and nothing in the blocks as made. */
static void test_gguf_types_finite_check(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int32_t at; /* byte from the end of the tensor of a number's upper byte */
    } spots[] = {{"F16", 1},      {"BF16", 1},     {"F64", 1},     {"Q4_0", 17},  {"Q4_1", 19},
                 {"Q4_1", 17},    {"Q5_0", 21},    {"Q5_1", 23},   {"Q5_1", 21},  {"Q8_0", 33},
                 {"Q2_K", 3},     {"Q2_K", 1},     {"Q3_K", 1},    {"Q4_K", 143}, {"Q4_K", 141},
                 {"Q5_K", 175},   {"Q5_K", 173},   {"Q6_K", 1},    {"Q8_K", 289}, {"IQ4_NL", 17},
                 {"IQ4_XS", 135}, {"TQ1_0", 1},    {"TQ2_0", 1},   {"MXFP4", 17}, {"IQ1_S", 49},
                 {"IQ1_M", 1},    {"IQ2_XXS", 65}, {"IQ2_XS", 73}, {"IQ2_S", 81}, {"IQ3_XXS", 97},
                 {"IQ3_S", 109}};
    struct pair p;
    pair_open(&p);
    for (int32_t i = 0; i < ARRAY_LEN(spots); i++) {
        struct tensor t = *tensor_dir_find(&p.gguf->dir, spots[i].name);
        assert_ok(finite_check(&t, "types.gguf"));
        uint8_t *copy = mem_array(MEM_TEST, t.bytes, 1);
        assert_non_null(copy);
        memcpy(copy, t.data, (size_t)t.bytes);
        t.data = copy;
        copy[t.bytes - spots[i].at] = 0xff;
        copy[t.bytes - spots[i].at - 1] |= 0xf0; /* BF16, F64 and F32 need these bits too */
        copy[t.bytes - spots[i].at - 2] |= spots[i].name[2] == '1' ? 0xf0 : 0; /* and IQ1_M */
        assert_err(finite_check(&t, "types.gguf"), ERR_NUMERIC, spots[i].name);
        mem_free(copy);
    }
    pair_close(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {TEST(test_gguf_types_decode_as_gguf_py),
                                       TEST(test_gguf_types_finite_check)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
