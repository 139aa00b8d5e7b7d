/* The registry, opening with bad limits, and opening while memory fails. */
#include "tests/support/support.h"

#include <string.h>

#include "kernels/backend.h"
#include "kernels/cpu/backend_cpu.h"

static const struct backend_opts good = {
    .n_threads = 2, .n_tok_max = 8, .k_max = 64, .ctx_max = 32, .n_head_max = 4};

static void test_backend_find_all_by_name(void **state) {
    (void)state;
    int32_t n = 0;
    for (; backend_at(n); n++) {
        const struct backend_ops *ops = NULL;
        assert_ok(backend_find(backend_at(n)->name, &ops));
        assert_ptr_equal(ops, backend_at(n));
    }
    assert_int_equal(n, 3);
    assert_null(backend_at(-1));
}

static void test_backend_find_refusal_names_those_built(void **state) {
    (void)state;
    const struct backend_ops *ops = NULL;
    assert_err(backend_find("cuda", &ops), ERR_UNSUPPORTED, "cpu, ref, null");
    assert_err(backend_find("", &ops), ERR_UNSUPPORTED, "\"\"");
    assert_null(ops);
}

static void test_backend_open_all(void **state) {
    (void)state;
    for (int32_t i = 0; backend_at(i); i++) {
        const struct backend_ops *ops = backend_at(i);
        struct backend *be = NULL;
        assert_ok(ops->open(&good, &be));
        assert_true(strlen(ops->describe(be)) > 3);
        assert_true(ops->supports_weight(be, DTYPE_Q4_1));
        assert_true(ops->supports_kv(be, DTYPE_F16));
        assert_ok(ops->sync(be));
        ops->close(be);
        ops->close(NULL);
    }
}

static void test_backend_open_refuses_bad_limits(void **state) {
    (void)state;
    for (int32_t i = 0; backend_at(i); i++) {
        struct backend *be = NULL;
        struct backend_opts o = good;
        o.k_max = 0;
        assert_err(backend_at(i)->open(&o, &be), ERR_RANGE, "k_max is 0");
        o = good;
        o.n_threads = -1;
        assert_err(backend_at(i)->open(&o, &be), ERR_RANGE, "n_threads");
        assert_null(be);
    }
}

static void test_backend_cpu_variants_by_name(void **state) {
    (void)state;
    const struct backend_ops *cpu = NULL;
    struct backend *be = NULL;
    struct backend_opts o = good;
    assert_ok(backend_find("cpu", &cpu));
    for (int32_t i = 0; backend_cpu_variant(i); i++) {
        o.variant = backend_cpu_variant(i);
        assert_ok(cpu->open(&o, &be));
        assert_non_null(strstr(cpu->describe(be), o.variant));
        cpu->close(be);
    }
    o.variant = "neon";
    be = NULL;
    assert_err(cpu->open(&o, &be), ERR_UNSUPPORTED, "sse2");
    assert_null(be);
}

static void test_backend_buffers_are_zeroed_and_copied(void **state) {
    (void)state;
    for (int32_t i = 0; backend_at(i); i++) {
        const struct backend_ops *ops = backend_at(i);
        struct backend *be = NULL;
        void *p = NULL;
        uint8_t in[64] = {1, 2, 3};
        uint8_t out[64];
        static const uint8_t zero[64];
        assert_ok(ops->open(&good, &be));
        assert_ok(ops->buf_alloc(be, sizeof(in), &p));
        assert_ok(ops->copy_out(be, out, p, sizeof(out)));
        assert_memory_equal(out, zero, sizeof(out));
        assert_ok(ops->copy_in(be, p, in, sizeof(in)));
        assert_ok(ops->copy_out(be, out, p, sizeof(out)));
        assert_memory_equal(out, in, sizeof(out));
        ops->buf_free(be, p);
        ops->close(be);
    }
}

static int open_close(void *ctx) {
    const struct backend_ops *ops = ctx;
    struct backend *be = NULL;
    void *p = NULL;
    int rc = ops->open(&good, &be);
    if (rc) {
        return rc;
    }
    rc = ops->buf_alloc(be, 1000, &p);
    ops->buf_free(be, p);
    ops->close(be);
    return rc;
}

static void test_backend_open_survives_failing_memory(void **state) {
    (void)state;
    static const int codes[] = {ERR_NOMEM, 0};
    static const char *const names[] = {"cpu", "ref", "null"};
    for (int32_t i = 0; i < ARRAY_LEN(names); i++) {
        const struct backend_ops *ops = NULL;
        assert_ok(backend_find(names[i], &ops));
        struct backend_ops copy = *ops;
        test_fault_loop(FAULT_ALLOC, open_close, &copy, codes);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_backend_find_all_by_name),
        TEST(test_backend_find_refusal_names_those_built),
        TEST(test_backend_open_all),
        TEST(test_backend_open_refuses_bad_limits),
        TEST(test_backend_cpu_variants_by_name),
        TEST(test_backend_buffers_are_zeroed_and_copied),
        TEST(test_backend_open_survives_failing_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
