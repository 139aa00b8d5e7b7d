/* The truth: every case on every variant of every arithmetic backend against kernels/ref. */
#include "tests/support/support.h"

#include <math.h>

#include "kernels/backend.h"
#include "kernels/cpu/backend_cpu.h"
#include "tests/ops/cases.h"

static const struct backend_opts opts = {.n_threads = 2,
                                         .n_tok_max = CASE_TOK_MAX,
                                         .k_max = CASE_K_MAX,
                                         .ctx_max = CASE_CTX_MAX,
                                         .n_head_max = CASE_HEAD_MAX};

static float *run_case(const struct op_case *c,
                       const struct case_data *d,
                       const struct backend_ops *ops,
                       struct backend *be,
                       int64_t *n) {
    struct case_run r;
    assert_ok(case_load(c, d, ops, be, 0, c->n_tok, &r));
    assert_ok(case_exec(&r));
    *n = case_out_floats(&r);
    float *out = mem_array(MEM_TEST, *n, (int64_t)sizeof(float));
    assert_non_null(out);
    assert_ok(case_read(&r, out));
    case_unload(&r);
    return out;
}

/* Runs the cases of ops first..last on one variant. */
static void check_variant(const char *variant, enum case_op first, enum case_op last) {
    const struct backend_ops *ops = NULL;
    const struct backend_ops *ref = NULL;
    struct backend *be = NULL;
    struct backend *truth = NULL;
    struct backend_opts o = opts;
    o.variant = variant;
    assert_ok(backend_find("cpu", &ops));
    assert_ok(backend_find("ref", &ref));
    assert_ok(ops->open(&o, &be));
    assert_ok(ref->open(&opts, &truth));
    struct op_case *cases = mem_array(MEM_TEST, CASES_MAX, (int64_t)sizeof(*cases));
    assert_non_null(cases);
    int32_t n_case = cases_all(cases);
    assert_in_range(n_case, 1, CASES_MAX - 1);
    for (int32_t i = 0; i < n_case; i++) {
        if (cases[i].op < first || cases[i].op > last) {
            continue;
        }
        struct case_data d;
        int64_t n = 0;
        char name[160];
        assert_ok(case_make(&cases[i], (uint64_t)i, &d));
        float *want = run_case(&cases[i], &d, ref, truth, &n);
        float *got = run_case(&cases[i], &d, ops, be, &n);
        double tol = case_tol(&cases[i]) * d.size;
        double worst = 0;
        for (int64_t j = 0; j < n; j++) {
            worst = fmax(worst, fabs((double)got[j] - (double)want[j]));
        }
        if (!(worst <= tol)) {
            print_error("%s: %s\n", variant, case_name(&cases[i], name));
        }
        assert_close(got, want, n, tol);
        mem_free(got);
        mem_free(want);
        case_drop(&d);
    }
    mem_free(cases);
    ops->close(be);
    ref->close(truth);
}

static void check_all(enum case_op first, enum case_op last) {
    for (int32_t i = 0; backend_cpu_variant(i); i++) {
        check_variant(backend_cpu_variant(i), first, last);
    }
}

static void test_ops_matmul_all_variants(void **state) {
    (void)state;
    check_all(CASE_MATMUL, CASE_MATMUL);
}

static void test_ops_embed_all_variants(void **state) {
    (void)state;
    check_all(CASE_EMBED, CASE_EMBED);
}

static void test_ops_norm_rope_all_variants(void **state) {
    (void)state;
    check_all(CASE_RMSNORM, CASE_NORM_ROPE);
}

static void test_ops_attn_all_variants(void **state) {
    (void)state;
    check_all(CASE_KV_WRITE, CASE_ATTN);
}

static void test_ops_elementwise_all_variants(void **state) {
    (void)state;
    check_all(CASE_ACT_MUL, CASE_SOFTCAP);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_ops_matmul_all_variants),      TEST(test_ops_embed_all_variants),
        TEST(test_ops_norm_rope_all_variants),   TEST(test_ops_attn_all_variants),
        TEST(test_ops_elementwise_all_variants),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
