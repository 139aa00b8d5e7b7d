/* pack-quantized: what config.json may say, and how the tensors of a module are checked. */
#include "tests/support/support.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/json.h"
#include "engine/model/qformat.h"
#include "kernels/backend.h"
#include "tests/support/toy_model.h"

static int read(const char *body, struct qformat *q) {
    struct buf b;
    json_t *j = NULL;
    buf_init(&b, MEM_TEST, 10000);
    assert_ok(buf_fmt(&b, "{%s}", body));
    assert_ok(json_parse("t", buf_cstr(&b), b.len, &j));
    int rc = qformat_read(j, "config.json", q);
    json_decref(j);
    buf_fini(&b);
    return rc;
}

#define HEAD                                                                                       \
    "\"quantization_config\":{\"quant_method\":\"compressed-tensors\","                            \
    "\"format\":\"pack-quantized\",\"config_groups\":"
#define WEIGHTS(w) HEAD "{\"group_0\":{\"targets\":[\"Linear\"],\"weights\":{" w "}}}}"

static void test_qformat_config_is_described(void **state) {
    (void)state;
    struct qformat q;
    assert_ok(read("", &q));
    assert_true(!q.present);
    assert_string_equal(q.text, "none");
    assert_ok(read("\"quantization_config\":null", &q));
    assert_true(!q.present);
    assert_ok(read(WEIGHTS("\"num_bits\":4,\"type\":\"int\",\"strategy\":\"group\","
                           "\"group_size\":64,\"symmetric\":true"),
                   &q));
    assert_true(q.present);
    assert_string_equal(q.text, "pack-quantized, int4, group 64, symmetric");
    assert_ok(read(WEIGHTS("\"num_bits\":4,\"strategy\":\"channel\",\"symmetric\":false"), &q));
    assert_string_equal(q.text, "pack-quantized, int4, per channel, asymmetric");
}

static void test_qformat_config_refusals(void **state) {
    (void)state;
    static const struct {
        const char *body;
        int code;
        const char *part;
    } rows[] = {
        {"\"quantization_config\":{}", ERR_FORMAT, "\"quant_method\" is missing"},
        {"\"quantization_config\":{\"quant_method\":\"gptq\"}", ERR_UNSUPPORTED,
         "quantization method \"gptq\", format \"\" is not read"},
        {"\"quantization_config\":{\"quant_method\":\"compressed-tensors\",\"format\":"
         "\"int-quantized\"}",
         ERR_UNSUPPORTED, "format \"int-quantized\""},
        {HEAD "{}}", ERR_FORMAT, "no config_groups"},
        {HEAD "null}", ERR_FORMAT, "no config_groups"},
        {HEAD "{\"g\":{}}}", ERR_FORMAT, "a group has no \"weights\""},
        {HEAD "{\"g\":7}}", ERR_FORMAT, "a group has no \"weights\""},
        {WEIGHTS("\"strategy\":\"group\""), ERR_FORMAT, "\"num_bits\" is missing"},
        {WEIGHTS("\"num_bits\":8,\"strategy\":\"group\""), ERR_UNSUPPORTED,
         "quantization scheme int8, strategy \"group\""},
        {WEIGHTS("\"num_bits\":4,\"type\":\"float\",\"strategy\":\"group\""), ERR_UNSUPPORTED,
         "scheme float4"},
        {WEIGHTS("\"num_bits\":4,\"strategy\":\"tensor\""), ERR_UNSUPPORTED, "strategy \"tensor\""},
        {HEAD "{\"g\":{\"weights\":{\"num_bits\":4,\"strategy\":\"group\"},"
              "\"input_activations\":{\"num_bits\":8}}}}",
         ERR_UNSUPPORTED, "with quantized activations"},
    };
    for (int32_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct qformat q = {.text = "untouched"};
        assert_err(read(rows[i].body, &q), rows[i].code, rows[i].part);
        assert_string_equal(q.text, "untouched");
    }
}

/* One packed module "m" of n rows and k columns in a folder of its own. */
struct packed {
    char dir[FILE_PATH_MAX];
    struct toy_model toy;
    struct ckpt *c;
    uint8_t zero[1000];
    int32_t n_alloc;
};

enum { N = 12, K = 40, G = 20 };

static void packed_init(struct packed *p) {
    memset(p, 0, sizeof *p);
    test_tmpdir(p->dir);
    toy_model_add(&p->toy, "m.weight_packed", DTYPE_I32, N, K / 8);
    toy_model_add(&p->toy, "m.weight_scale", DTYPE_F32, N, K / G);
    struct toy_tensor *shape = toy_model_add(&p->toy, "m.weight_shape", DTYPE_I64, 2, 0);
    const int64_t dims[2] = {N, K};
    memcpy(shape->data, dims, sizeof dims);
}

static void *give(void *ctx, int64_t bytes) {
    struct packed *p = ctx;
    assert_true(bytes <= (int64_t)sizeof p->zero);
    p->n_alloc++;
    return p->n_alloc < 100 ? p->zero : NULL;
}

static int packed_bind(struct packed *p, struct wmat *w) {
    toy_model_write_hf(&p->toy, p->dir, "", 0);
    ckpt_close(p->c);
    p->c = NULL;
    assert_ok(ckpt_open(p->dir, &p->c));
    return qformat_bind_packed(p->c, "m", N, K, give, p, w);
}

static void packed_fini(struct packed *p) {
    ckpt_close(p->c);
    toy_model_fini(&p->toy);
    test_rmdir(p->dir);
}

static void test_qformat_bind_symmetric(void **state) {
    (void)state;
    struct packed p;
    struct wmat w;
    float row[K];
    packed_init(&p);
    const uint32_t word = 0xcba9f870; /* -8 -1 0 7 1 2 3 4 */
    const float scale = 0.5f;
    memcpy(toy_model_at(&p.toy, "m.weight_packed")->data + 4 * (K / 8), &word, 4);
    memcpy(toy_model_at(&p.toy, "m.weight_scale")->data + 4 * (K / G), &scale, 4);
    assert_ok(packed_bind(&p, &w));
    assert_true(w.type == DTYPE_W4 && w.n == N && w.k == K && w.group == G && !w.zero);
    ref_decode(&w, 1, 0, G, row);
    const float want[8] = {-4, -0.5f, 0, 3.5f, 0.5f, 1, 1.5f, 2};
    assert_close(row, want, 8, 0);
    assert_int_equal(p.n_alloc, 0);
    packed_fini(&p);
}

static void test_qformat_bind_zero_points_down_the_rows(void **state) {
    (void)state;
    struct packed p;
    struct wmat w;
    packed_init(&p);
    struct toy_tensor *z = toy_model_add(&p.toy, "m.weight_zero_point", DTYPE_I32, 2, K / G);
    /* word [j,c] holds rows 8j.. of group c: row 9 of group 1 is nibble 1 of word [1,1] */
    const uint32_t word = 0xf0;
    memcpy(z->data + 4 * (1 * (K / G) + 1), &word, 4);
    assert_ok(packed_bind(&p, &w));
    assert_non_null(w.zero);
    assert_int_equal(w.zero[9 * (K / G) + 1], 7);
    assert_int_equal(w.zero[8 * (K / G) + 1], -8);
    assert_int_equal(w.zero[9 * (K / G)], -8);
    packed_fini(&p);
}

static void test_qformat_bind_refusals(void **state) {
    (void)state;
    struct packed p;
    struct wmat w = {.n = -5};
    static const struct {
        const char *tensor;
        int64_t rows;
        int64_t cols;
        enum dtype type;
        const char *part;
    } rows[] = {
        {"m.weight_packed", N, K / 8 + 1, DTYPE_I32, "[12, 6], want [12, 5], I32"},
        {"m.weight_packed", N, K / 8, DTYPE_F32, "F32 [12, 5], want [12, 5], I32"},
        {"m.weight_scale", N, 3, DTYPE_F32, "with groups that divide k"},
        {"m.weight_scale", N - 1, K / G, DTYPE_F32, "want [12, 2]"},
        {"m.weight_scale", N, K / G, DTYPE_I32, "F32, F16 or BF16"},
        {"m.weight_scale", N, 0, DTYPE_F32, "with groups that divide k"},
        {"m.weight_shape", 3, 0, DTYPE_I64, "is no pair of I64"},
        {"m.weight_shape", 2, 0, DTYPE_I32, "is no pair of I64"},
        {"m.weight_shape", 2, 0, DTYPE_I64, "says [0, 0], the model wants [12, 40]"},
        {"m.weight_zero_point", 2, 3, DTYPE_I32, "want [2, 2], I32"},
    };
    for (int32_t i = 0; i < ARRAY_LEN(rows); i++) {
        packed_init(&p);
        for (int32_t t = 0; t < p.toy.n; t++) {
            p.toy.t[t].absent = strcmp(p.toy.t[t].name, rows[i].tensor) == 0;
        }
        toy_model_add(&p.toy, rows[i].tensor, rows[i].type, rows[i].rows, rows[i].cols);
        assert_err(packed_bind(&p, &w), ERR_FORMAT, rows[i].part);
        packed_fini(&p);
    }
    assert_int_equal(w.n, -5);
}

static void test_qformat_bind_what_is_missing_or_too_much(void **state) {
    (void)state;
    static const char *const parts[] = {"m.weight_packed", "m.weight_scale", "m.weight_shape"};
    struct packed p;
    struct wmat w;
    for (int32_t i = 0; i < ARRAY_LEN(parts); i++) {
        packed_init(&p);
        toy_model_at(&p.toy, parts[i])->absent = true;
        assert_err(packed_bind(&p, &w), ERR_NOTFOUND, parts[i]);
        packed_fini(&p);
    }
    packed_init(&p);
    toy_model_add(&p.toy, "m.weight_g_idx", DTYPE_I32, K, 0);
    assert_err(packed_bind(&p, &w), ERR_UNSUPPORTED, "m.weight_g_idx");
    packed_fini(&p);
    packed_init(&p);
    toy_model_add(&p.toy, "m.weight_zero_point", DTYPE_I32, 2, K / G);
    p.n_alloc = 100;
    assert_int_equal(packed_bind(&p, &w), ERR_NOMEM);
    packed_fini(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {TEST(test_qformat_config_is_described),
                                       TEST(test_qformat_config_refusals),
                                       TEST(test_qformat_bind_symmetric),
                                       TEST(test_qformat_bind_zero_points_down_the_rows),
                                       TEST(test_qformat_bind_refusals),
                                       TEST(test_qformat_bind_what_is_missing_or_too_much)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
