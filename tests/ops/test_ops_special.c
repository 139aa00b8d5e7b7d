/* Values that are no ordinary numbers, and memory that must not matter: a NaN or infinity stays in
 * its own row, and cache slots a row may not see are never part of its result. Limits and hostile
 * arguments are refused. Ops allocate nothing.
 * LABELS: threads */
#include "tests/support/support.h"

#include <math.h>
#include <string.h>

#include "kernels/backend.h"
#include "kernels/cpu/backend_cpu.h"
#include "tests/ops/cases.h"

typedef void check_fn(const struct backend_ops *ops, struct backend *be);

/* Runs check on ref and on every cpu variant. */
static void on_all(check_fn *check) {
    static const char *const names[] = {"ref", "cpu"};
    for (int32_t i = 0; i < ARRAY_LEN(names); i++) {
        const struct backend_ops *ops = NULL;
        assert_ok(backend_find(names[i], &ops));
        for (int32_t v = 0; v == 0 || (i == 1 && backend_cpu_variant(v)); v++) {
            struct backend *be = NULL;
            struct backend_opts o = {.n_threads = 2,
                                     .n_tok_max = CASE_TOK_MAX,
                                     .k_max = CASE_K_MAX,
                                     .ctx_max = CASE_CTX_MAX,
                                     .n_head_max = CASE_HEAD_MAX,
                                     .variant = i == 1 ? backend_cpu_variant(v) : NULL};
            assert_ok(ops->open(&o, &be));
            check(ops, be);
            ops->close(be);
        }
    }
}

static const float odd[] = {NAN, INFINITY, -INFINITY};

static void check_rows_apart(const struct backend_ops *ops, struct backend *be) {
    enum { T = 7, N = 9, K = 72 };
    const size_t three = sizeof(float) * 3 * N;
    static float w[N * K];
    static float x[T * K];
    static float y[T * N];
    static float clean[T * N];
    struct wmat m = {.type = DTYPE_F32, .n = N, .k = K, .data = w, .row_bytes = K * 4};
    for (int32_t i = 0; i < N * K; i++) {
        w[i] = (float)(i % 13) - 5.5F;
    }
    for (int32_t i = 0; i < T * K; i++) {
        x[i] = (float)(i % 7) - 3.25F;
    }
    assert_ok(ops->matmul(be, clean, x, &m, NULL, T, false));
    for (int32_t i = 0; i < ARRAY_LEN(odd); i++) {
        float keep = x[3 * K + 70];
        x[3 * K + 70] = odd[i];
        assert_ok(ops->matmul(be, y, x, &m, NULL, T, false));
        x[3 * K + 70] = keep;
        for (int32_t n = 0; n < N; n++) {
            assert_true(!isfinite(y[3 * N + n]));
        }
        assert_memory_equal(y, clean, three);
        assert_memory_equal(y + 4 * N, clean + 4 * N, three);
    }
}

static void test_special_matmul_keeps_nan_in_its_row(void **state) {
    (void)state;
    on_all(check_rows_apart);
}

static void check_norm_act(const struct backend_ops *ops, struct backend *be) {
    float x[40] = {0};
    float w[20] = {0};
    float y[40];
    x[5] = NAN;
    assert_ok(ops->rmsnorm(be, y, x, w, 2, 20, 1e-5F, 1));
    assert_true(isnan(y[5]));
    assert_true(isfinite(y[25]));
    float g[5] = {NAN, INFINITY, -100, 100, -0.0F};
    float up[5] = {1, 1, 1, 1, 1};
    const float far[2] = {0, 100};
    assert_ok(ops->act_mul(be, y, g, up, 5, ACT_SILU));
    assert_true(isnan(y[0]));
    assert_true(y[1] > 0 && isinf(y[1]));
    assert_close(y + 2, far, 2, 1e-30);
    assert_ok(ops->act_mul(be, y, g, up, 5, ACT_GELU_TANH));
    assert_true(isnan(y[0]));
    assert_close(y + 2, far, 2, 1e-30);
}

static void test_special_norm_and_act_pass_nan_on(void **state) {
    (void)state;
    on_all(check_norm_act);
}

/* A batch of one sequence in blocks 0, 1, ... */
struct tiny {
    int32_t pos[4];
    int32_t slot[4];
    int32_t start[2];
    int32_t len[1];
    int32_t table[8];
    struct batch b;
};

static void tiny_init(struct tiny *t, int32_t first, int32_t n) {
    *t = (struct tiny){0};
    for (int32_t i = 0; i < n; i++) {
        t->pos[i] = first + i;
        t->slot[i] = first + i;
    }
    for (int32_t i = 0; i < 8; i++) {
        t->table[i] = i;
    }
    t->start[1] = n;
    t->len[0] = first + n;
    t->b = (struct batch){.n_tok = n,
                          .n_seq = 1,
                          .table_stride = 8,
                          .pos = t->pos,
                          .slot = t->slot,
                          .seq_start = t->start,
                          .ctx_len = t->len,
                          .block_table = t->table};
}

enum { POS = 24, D = 16, P = 4 };

static void fill_cache(float *k, float *v) {
    for (int32_t i = 0; i < 32 * D; i++) {
        bool seen = i >= (POS - 5) * D && i < (POS + 3) * D;
        k[i] = seen ? (float)(i % 11) * 0.1F : NAN;
        v[i] = seen ? (float)(i % 17) - 8 : INFINITY;
    }
}

static void check_unseen(const struct backend_ops *ops, struct backend *be) {
    static float k[32 * D];
    static float v[32 * D];
    float q[3 * D];
    float y[3 * D];
    struct tiny t;
    tiny_init(&t, POS, 3);
    fill_cache(k, v);
    for (int32_t i = 0; i < 3 * D; i++) {
        q[i] = (float)(i % 5) - 2;
    }
    struct kv_view kv = {
        .k = k, .v = v, .type = DTYPE_F32, .n_kv_head = 1, .head_dim = D, .block_tok = P};
    struct attn_args args = {.scale = 0.25F, .window = 6};
    assert_ok(ops->attn(be, y, q, &kv, &t.b, 1, &args));
    for (int32_t i = 0; i < 3 * D; i++) {
        assert_true(fabsf(y[i]) <= 8);
    }
    k[(POS + 2) * D] = NAN; /* now the last row sees a NaN key, the others do not */
    assert_ok(ops->attn(be, y, q, &kv, &t.b, 1, &args));
    assert_true(fabsf(y[2 * D - 1]) <= 8);
    assert_true(isnan(y[3 * D - 1]));
}

static void test_special_attn_ignores_unseen_slots(void **state) {
    (void)state;
    on_all(check_unseen);
}

static void check_refusals(const struct backend_ops *ops, struct backend *be) {
    static float x[CASE_K_MAX * 2];
    static float y[64];
    static uint8_t data[CASE_K_MAX * 8];
    int32_t tok[1] = {4};
    struct wmat w = {.type = DTYPE_Q4_0, .n = 4, .k = 33, .data = data, .row_bytes = 36};
    assert_err(ops->matmul(be, y, x, &w, NULL, 1, false), ERR_RANGE, "want -1");
    w.k = 64;
    w.row_bytes = 35;
    assert_err(ops->matmul(be, y, x, &w, NULL, 1, false), ERR_RANGE, "want 36");
    w.type = DTYPE_I64;
    assert_err(ops->matmul(be, y, x, &w, NULL, 1, false), ERR_UNSUPPORTED, "I64");
    w = (struct wmat){.type = DTYPE_W4, .n = 4, .k = 64, .data = data, .row_bytes = 32};
    w.group = 32;
    assert_err(ops->matmul(be, y, x, &w, NULL, 1, false), ERR_RANGE, "no scales");
    w.scale = data;
    w.group = 65;
    assert_err(ops->matmul(be, y, x, &w, NULL, 1, false), ERR_RANGE, "65 columns");
    w.group = 32;
    w.scale_type = DTYPE_I8;
    assert_err(ops->matmul(be, y, x, &w, NULL, 1, false), ERR_UNSUPPORTED, "I8");
    w = (struct wmat){.type = DTYPE_F16, .n = 1, .k = CASE_K_MAX + 1, .data = data};
    w.row_bytes = dtype_row_bytes(DTYPE_F16, w.k);
    assert_err(ops->matmul(be, y, x, &w, NULL, 1, false), ERR_RANGE, "opened for");
    w = (struct wmat){.type = DTYPE_F32, .n = 4, .k = 2, .data = data, .row_bytes = 8};
    assert_err(ops->embed(be, y, &w, tok, 1, 1), ERR_RANGE, "token 4");
}

static void test_special_bad_weights_are_refused(void **state) {
    (void)state;
    on_all(check_refusals);
}

static const uint8_t some[4096];

/* A matrix that is taken, [4,64]; each line below spoils one field of it. */
static struct wmat good_weight(enum dtype type) {
    return (struct wmat){.type = type,
                         .n = 4,
                         .k = 64,
                         .data = some,
                         .row_bytes = dtype_row_bytes(type, 64),
                         .scale = some,
                         .scale_type = DTYPE_BF16,
                         .group = 24};
}

#define expect_bad(spoil, code, part)                                                              \
    do {                                                                                           \
        struct wmat w = good_weight(type);                                                         \
        spoil;                                                                                     \
        assert_err(ops->matmul(be, y, x, &w, NULL, 1, false), (code), (part));                     \
        assert_err(ops->embed(be, y, &w, &tok, 1, 1), (code), (part));                             \
    } while (0)

static void check_scaled_fields(const struct backend_ops *ops, struct backend *be) {
    float x[64] = {0};
    float y[64];
    const int32_t tok = 0;
    int32_t order[64] = {0};
    static const enum dtype types[] = {DTYPE_W3, DTYPE_W4, DTYPE_I8, DTYPE_F8_E4M3, DTYPE_F4};
    for (int32_t i = 0; i < ARRAY_LEN(types); i++) {
        enum dtype type = types[i];
        struct wmat fine = good_weight(type);
        fine.g_idx = order;
        fine.global = 3;
        assert_ok(ops->matmul(be, y, x, &fine, NULL, 1, false));
        assert_ok(ops->embed(be, y, &fine, &tok, 1, 1));
        expect_bad(w.scale = NULL, ERR_RANGE, "no scales");
        expect_bad(w.scale_type = DTYPE_F64, ERR_UNSUPPORTED, "F64, want F32");
        expect_bad(w.group = 0, ERR_RANGE, "0 columns");
        expect_bad(w.group = 65, ERR_RANGE, "65 columns");
        expect_bad(w.row_group = 5, ERR_RANGE, "5 rows");
        expect_bad(w.row_group = -1, ERR_RANGE, "-1 rows");
        expect_bad(w.global = -1, ERR_RANGE, "global scale -1");
        expect_bad(w.global = NAN, ERR_RANGE, "global scale");
        expect_bad((order[63] = 3, w.g_idx = order), ERR_RANGE,
                   "column 63 in group 3, want 0 to 2");
        expect_bad((order[63] = -1, w.g_idx = order), ERR_RANGE, "group -1");
        order[63] = 2;
    }
    enum dtype type = DTYPE_W4;
    expect_bad(w.scale_type = DTYPE_F8_E4M3, ERR_UNSUPPORTED, "F8_E4M3, want F32, F16 or BF16");
    type = DTYPE_F4;
    expect_bad(w.zero = (const int8_t *)some, ERR_UNSUPPORTED, "zero points");
    type = DTYPE_F32;
    expect_bad(w.act.type = ACTQ_I8, ERR_UNSUPPORTED, "quantized input");
}

static void test_special_bad_scales_are_refused(void **state) {
    (void)state;
    on_all(check_scaled_fields);
}

static void check_inputs(const struct backend_ops *ops, struct backend *be) {
    float x[64] = {0};
    float y[64];
    const int32_t tok = 0;
    enum dtype type = DTYPE_I8;
    expect_bad(w.act.type = (enum actq_type)9, ERR_UNSUPPORTED, "quantization 9");
    expect_bad((w.act = (struct actq){.type = ACTQ_I8, .group = 65}), ERR_RANGE, "65 of 64");
    expect_bad((w.act = (struct actq){.type = ACTQ_I8, .group = -1}), ERR_RANGE, "groups of -1");
    expect_bad((w.act = (struct actq){.type = ACTQ_I8, .is_static = true}), ERR_RANGE, "scale 0");
    expect_bad((w.act = (struct actq){.type = ACTQ_I8, .is_static = true, .scale = INFINITY}),
               ERR_RANGE, "static scale");
    expect_bad((w.act = (struct actq){.type = ACTQ_I8, .is_static = true, .scale = 1, .group = 32}),
               ERR_RANGE, "its scale is static");
    expect_bad(
        (w.act =
             (struct actq){
                 .type = ACTQ_I8, .is_static = true, .asymmetric = true, .scale = 1, .zero = 128}),
        ERR_RANGE, "zero point 128");
    expect_bad((w.act = (struct actq){.type = ACTQ_I8, .zero = 1}), ERR_RANGE, "zero point 1");
    expect_bad((w.act = (struct actq){.type = ACTQ_F8_E4M3, .asymmetric = true}), ERR_RANGE, "F8");
    expect_bad((w.act = (struct actq){.type = ACTQ_F8_E4M3, .global = 1}), ERR_RANGE, "want none");
    expect_bad((w.act = (struct actq){.type = ACTQ_F4, .group = 16}), ERR_RANGE, "global scale 0");
    expect_bad((w.act = (struct actq){.type = ACTQ_F4, .is_static = true, .scale = 1, .global = 1}),
               ERR_RANGE, "want I8 or F8");
}

static void test_special_bad_inputs_are_refused(void **state) {
    (void)state;
    on_all(check_inputs);
}

/* A NaN, or an infinity under a scale found from the row, spoils its own row and no other; under a
 * static scale an infinity is clamped. */
static void check_quantized_apart(const struct backend_ops *ops, struct backend *be) {
    enum { T = 7, N = 9, K = 64 };
    static float x[T * K];
    static uint8_t codes[N * K];
    float y[T * N];
    float clean[T * N];
    static const struct actq inputs[] = {
        {.type = ACTQ_I8},
        {.type = ACTQ_I8, .group = 16},
        {.type = ACTQ_I8, .asymmetric = true},
        {.type = ACTQ_F8_E4M3, .group = 24},
        {.type = ACTQ_I8, .is_static = true, .scale = 0.1F},
        {.type = ACTQ_F8_E4M3, .is_static = true, .scale = 0.1F},
        {.type = ACTQ_F4, .group = 16, .global = 100},
    };
    for (int32_t i = 0; i < N * K; i++) {
        codes[i] = (uint8_t)(1 + i % 100);
    }
    for (int32_t i = 0; i < T * K; i++) {
        x[i] = (float)(i % 7) - 3.25F;
    }
    for (int32_t i = 0; i < ARRAY_LEN(inputs) * ARRAY_LEN(odd); i++) {
        const struct actq *q = &inputs[i / ARRAY_LEN(odd)];
        float value = odd[i % ARRAY_LEN(odd)];
        struct wmat w = good_weight(q->type == ACTQ_F8_E4M3 ? DTYPE_F8_E4M3 : DTYPE_I8);
        static const float one = 1;
        w.n = N;
        w.data = codes;
        w.group = K;
        w.row_group = N;
        w.scale = &one;
        w.scale_type = DTYPE_F32;
        w.act = *q;
        assert_ok(ops->matmul(be, clean, x, &w, NULL, T, false));
        float keep = x[3 * K + 50];
        x[3 * K + 50] = value;
        assert_ok(ops->matmul(be, y, x, &w, NULL, T, false));
        x[3 * K + 50] = keep;
        bool clamped = isinf(value) && (q->is_static || q->type == ACTQ_F4);
        for (int32_t n = 0; n < N; n++) {
            assert_true(clamped ? isfinite(y[3 * N + n]) : isnan(y[3 * N + n]));
        }
        assert_memory_equal(y, clean, sizeof(float) * 3 * N);
        assert_memory_equal(y + 4 * N, clean + 4 * N, sizeof(float) * 3 * N);
    }
}

static void test_special_quantized_input_keeps_nan_in_its_row(void **state) {
    (void)state;
    on_all(check_quantized_apart);
}

static void check_bad_batches(const struct backend_ops *ops, struct backend *be) {
    static float cache[32 * D];
    float q[2 * D] = {0};
    struct tiny t;
    struct kv_view kv = {
        .k = cache, .v = cache, .type = DTYPE_F64, .n_kv_head = 2, .head_dim = D, .block_tok = P};
    struct attn_args args = {.scale = 1};
    tiny_init(&t, 0, 1);
    assert_err(ops->attn(be, q, q, &kv, &t.b, 2, &args), ERR_UNSUPPORTED, "F64");
    assert_err(ops->kv_write(be, &kv, q, q, &t.b), ERR_UNSUPPORTED, "cache");
    assert_err(ops->kv_copy(be, &kv, 0, 1), ERR_UNSUPPORTED, "cache");
    kv.type = DTYPE_F8_E4M3;
    kv.k_scale = -1;
    assert_err(ops->attn(be, q, q, &kv, &t.b, 2, &args), ERR_RANGE, "k scale of -1");
    kv.k_scale = 1;
    kv.v_scale = NAN;
    assert_err(ops->kv_write(be, &kv, q, q, &t.b), ERR_RANGE, "v scale");
    kv.type = DTYPE_F16;
    kv.v_scale = 0;
    assert_err(ops->kv_write(be, &kv, q, q, &t.b), ERR_RANGE, "want none");
    kv.k_scale = 0;
    kv.type = DTYPE_F32;
    assert_err(ops->attn(be, q, q, &kv, &t.b, 3, &args), ERR_RANGE, "3 query heads");
    t.pos[0] = 32;
    assert_err(ops->attn(be, q, q, &kv, &t.b, 2, &args), ERR_RANGE, "position 32");
    t.pos[0] = CASE_CTX_MAX;
    assert_err(ops->norm_rope(be, q, NULL, 0, 0, q, t.pos, 1, 1, D), ERR_RANGE, "position");
    assert_err(ops->norm_rope(be, q, NULL, 0, 0, q, t.pos, 1, 1, 7), ERR_UNSUPPORTED, "even");
    assert_err(ops->kv_copy(be, &kv, 3, 3), ERR_RANGE, "block 3");
}

static void test_special_bad_batches_are_refused(void **state) {
    (void)state;
    on_all(check_bad_batches);
}

static void check_copy(const struct backend_ops *ops, struct backend *be) {
    enum { BLOCK = 2 * P * D };
    static float k[3 * BLOCK];
    static float v[3 * BLOCK];
    for (int32_t i = 0; i < 3 * BLOCK; i++) {
        k[i] = (float)i;
        v[i] = (float)-i;
    }
    struct kv_view kv = {
        .k = k, .v = v, .type = DTYPE_F32, .n_kv_head = 2, .head_dim = D, .block_tok = P};
    assert_ok(ops->kv_copy(be, &kv, 0, 2));
    assert_memory_equal(k, k + 2 * BLOCK, BLOCK * sizeof(float));
    assert_memory_equal(v, v + 2 * BLOCK, BLOCK * sizeof(float));
    assert_close(&k[BLOCK], &(float){BLOCK}, 1, 0);
}

static void test_special_kv_copy_moves_one_block(void **state) {
    (void)state;
    on_all(check_copy);
}

static void check_no_allocation(const struct backend_ops *ops, struct backend *be) {
    static const struct op_case few[] = {
        {.op = CASE_MATMUL, .n_tok = 33, .n = 384, .k = 576, .type = DTYPE_Q4_1},
        {.op = CASE_MATMUL,
         .n_tok = 33,
         .n = 384,
         .k = 576,
         .type = DTYPE_W4,
         .group = 32,
         .order = true,
         .input = {.type = ACTQ_I8}},
        {.op = CASE_RMSNORM, .n_tok = 40, .k = 576},
        {.op = CASE_ATTN,
         .n_tok = 20,
         .n_head = 4,
         .n_kv_head = 2,
         .head_dim = 32,
         .block_tok = 16,
         .type = DTYPE_F16,
         .n_seq = 1,
         .rows = {20},
         .len = {50}},
    };
    for (int32_t i = 0; i < ARRAY_LEN(few); i++) {
        struct case_data d;
        struct case_run r;
        assert_ok(case_make(&few[i], 5, &d));
        assert_ok(case_load(&few[i], &d, ops, be, 0, few[i].n_tok, &r));
        int64_t calls = mem_calls();
        assert_ok(case_exec(&r));
        assert_int_equal(mem_calls(), calls);
        case_unload(&r);
        case_drop(&d);
    }
}

static void test_special_ops_allocate_nothing(void **state) {
    (void)state;
    on_all(check_no_allocation);
}

/* Sums that would not fit 32 bits in one piece, and more rows than are quantized at once: all codes
 * at the ends of their range, so that each product is 255 * 255, or -128 * 255 without the zero
 * points of the weight. */
static void check_long_rows(const char *name, const char *variant) {
    enum { K_LONG = 40000, T_LONG = 150, N_LONG = 3 };
    const struct backend_ops *ops = NULL;
    struct backend *be = NULL;
    struct backend_opts o = {.n_threads = 2,
                             .n_tok_max = T_LONG,
                             .k_max = K_LONG,
                             .ctx_max = 8,
                             .n_head_max = 1,
                             .variant = variant};
    static float x[T_LONG * K_LONG];
    static int8_t code[N_LONG * K_LONG];
    float y[T_LONG * N_LONG];
    const float scale[N_LONG] = {1, 2, 0.5F};
    const int8_t zero[N_LONG] = {-128, -128, -128};
    assert_ok(backend_find(name, &ops));
    assert_ok(ops->open(&o, &be));
    for (int32_t i = 0; i < T_LONG * K_LONG; i++) {
        x[i] = i / K_LONG % 2 ? 1e9F : -5; /* a code of 127, or of the zero point */
    }
    for (int32_t zeros = 0; zeros < 2; zeros++) {
        memset(code, zeros ? 127 : -128, sizeof(code));
        struct wmat w = {.type = DTYPE_I8, .n = N_LONG, .k = K_LONG, .data = code};
        w.row_bytes = K_LONG;
        w.scale = scale;
        w.group = K_LONG;
        w.zero = zeros ? zero : NULL;
        w.act = (struct actq){.type = ACTQ_I8, .is_static = true, .asymmetric = true};
        w.act.scale = 1;
        w.act.zero = -128;
        assert_ok(ops->matmul(be, y, x, &w, NULL, T_LONG, false));
        for (int32_t i = 0; i < T_LONG * N_LONG; i++) {
            double one = 255.0 * (zeros ? 255 : -128) * (double)scale[i % N_LONG];
            assert_rel((double)y[i], i / N_LONG % 2 ? one * K_LONG : 0, 1e-6);
        }
    }
    ops->close(be);
}

static void test_special_long_quantized_rows_are_exact(void **state) {
    (void)state;
    check_long_rows("ref", NULL);
    for (int32_t v = 0; backend_cpu_variant(v); v++) {
        check_long_rows("cpu", backend_cpu_variant(v));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_special_long_quantized_rows_are_exact),
        TEST(test_special_matmul_keeps_nan_in_its_row),
        TEST(test_special_norm_and_act_pass_nan_on),
        TEST(test_special_attn_ignores_unseen_slots),
        TEST(test_special_bad_weights_are_refused),
        TEST(test_special_bad_batches_are_refused),
        TEST(test_special_kv_copy_moves_one_block),
        TEST(test_special_ops_allocate_nothing),
        TEST(test_special_bad_scales_are_refused),
        TEST(test_special_bad_inputs_are_refused),
        TEST(test_special_quantized_input_keeps_nan_in_its_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
