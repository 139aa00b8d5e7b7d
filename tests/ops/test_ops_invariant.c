/* Law 5: a row's bits do not depend on the number of rows, its place among them, the other
 * sequences, the cut into chunks, or the number of threads. Every case, bit for bit. */
#include "tests/support/support.h"

#include <string.h>

#include "kernels/backend.h"
#include "kernels/cpu/backend_cpu.h"
#include "tests/ops/cases.h"

static const int32_t thread_counts[] = {1, 2, 3};

struct rig {
    const struct backend_ops *ops;
    struct backend *be[ARRAY_LEN(thread_counts)];
};

static void rig_open(struct rig *rig, const char *variant) {
    assert_ok(backend_find("cpu", &rig->ops));
    for (int32_t i = 0; i < ARRAY_LEN(thread_counts); i++) {
        struct backend_opts o = {.n_threads = thread_counts[i],
                                 .n_tok_max = CASE_TOK_MAX,
                                 .k_max = CASE_K_MAX,
                                 .ctx_max = CASE_CTX_MAX,
                                 .n_head_max = CASE_HEAD_MAX,
                                 .variant = variant};
        assert_ok(rig->ops->open(&o, &rig->be[i]));
    }
}

static void rig_close(struct rig *rig) {
    for (int32_t i = 0; i < ARRAY_LEN(thread_counts); i++) {
        rig->ops->close(rig->be[i]);
    }
}

static void run_rows(const struct rig *rig,
                     int32_t threads,
                     const struct op_case *c,
                     const struct case_data *d,
                     int32_t t0,
                     int32_t t1,
                     float *out) {
    struct case_run r;
    assert_ok(case_load(c, d, rig->ops, rig->be[threads], t0, t1, &r));
    assert_ok(case_exec(&r));
    assert_ok(case_read(&r, out));
    case_unload(&r);
}

static void same(const struct op_case *c,
                 const char *how,
                 int32_t t,
                 const float *got,
                 const float *want,
                 int64_t n) {
    if (memcmp(got, want, (size_t)n * sizeof(float)) != 0) {
        char name[160];
        print_error("%s: other bits %s, row %d\n", case_name(c, name), how, t);
        fail();
    }
}

/* All rows at once on one thread against: all on more threads, then chunks of 1, 5 and 19 rows. */
static void check_case(const struct rig *rig, const struct op_case *c, uint64_t seed) {
    static const int32_t chunks[] = {1, 5, 19};
    struct case_data d;
    assert_ok(case_make(c, seed, &d));
    int64_t n = (int64_t)c->n_tok * d.out_dim;
    float *want = mem_array(MEM_TEST, n, (int64_t)sizeof(float));
    float *got = mem_array(MEM_TEST, n, (int64_t)sizeof(float));
    assert_true(want && got);
    run_rows(rig, 0, c, &d, 0, c->n_tok, want);
    for (int32_t i = 1; i < ARRAY_LEN(thread_counts); i++) {
        run_rows(rig, i, c, &d, 0, c->n_tok, got);
        same(c, "with more threads", 0, got, want, n);
    }
    for (int32_t i = 0; i < ARRAY_LEN(chunks); i++) {
        for (int32_t t = 0; t < c->n_tok; t += chunks[i]) {
            int32_t end = i32_min(t + chunks[i], c->n_tok);
            run_rows(rig, i, c, &d, t, end, got);
            same(c, "in chunks", t, got, want + (int64_t)t * d.out_dim,
                 (int64_t)(end - t) * d.out_dim);
        }
    }
    mem_free(want);
    mem_free(got);
    case_drop(&d);
}

static void test_ops_invariant_all_variants(void **state) {
    (void)state;
    struct op_case *cases = mem_array(MEM_TEST, CASES_MAX, (int64_t)sizeof(*cases));
    assert_non_null(cases);
    int32_t n = cases_all(cases);
    for (int32_t v = 0; backend_cpu_variant(v); v++) {
        struct rig rig;
        rig_open(&rig, backend_cpu_variant(v));
        for (int32_t i = 0; i < n; i++) {
            if (cases[i].op != CASE_KV_WRITE) {
                check_case(&rig, &cases[i], (uint64_t)i);
            }
        }
        rig_close(&rig);
    }
    mem_free(cases);
}

/* Is the product one of exact integers? */
static bool is_integer(const struct op_case *c) {
    bool weight = dtype_packed_bits(c->type) > 0 || c->type == DTYPE_I8 || c->type == DTYPE_F4;
    return c->op == CASE_MATMUL && weight && (c->input.type == ACTQ_I8 || c->input.type == ACTQ_F4);
}

/* Integer sums know no order, so every variant gives the bits of the first. */
static void test_ops_integer_products_equal_on_all_variants(void **state) {
    (void)state;
    struct op_case *cases = mem_array(MEM_TEST, CASES_MAX, (int64_t)sizeof(*cases));
    struct rig rig[8];
    int32_t n_rig = 0;
    int32_t n_seen = 0;
    assert_non_null(cases);
    int32_t n = cases_all(cases);
    for (; backend_cpu_variant(n_rig); n_rig++) {
        assert_in_range(n_rig, 0, ARRAY_LEN(rig) - 1);
        rig_open(&rig[n_rig], backend_cpu_variant(n_rig));
    }
    for (int32_t i = 0; i < n; i++) {
        const struct op_case *c = &cases[i];
        if (!is_integer(c)) {
            continue;
        }
        struct case_data d;
        assert_ok(case_make(c, (uint64_t)i, &d));
        int64_t n_out = (int64_t)c->n_tok * d.out_dim;
        float *want = mem_array(MEM_TEST, n_out, (int64_t)sizeof(float));
        float *got = mem_array(MEM_TEST, n_out, (int64_t)sizeof(float));
        assert_true(want && got);
        run_rows(&rig[0], 0, c, &d, 0, c->n_tok, want);
        for (int32_t v = 1; v < n_rig; v++) {
            run_rows(&rig[v], 0, c, &d, 0, c->n_tok, got);
            same(c, backend_cpu_variant(v), 0, got, want, n_out);
        }
        mem_free(want);
        mem_free(got);
        case_drop(&d);
        n_seen++;
    }
    assert_in_range(n_seen, 100, CASES_MAX);
    while (n_rig > 0) {
        rig_close(&rig[--n_rig]);
    }
    mem_free(cases);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_ops_invariant_all_variants),
        TEST(test_ops_integer_products_equal_on_all_variants),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
