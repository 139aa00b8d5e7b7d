/* Quantized inputs against compressed-tensors: equal codes, scales and zero points, in the truth
 * and on every variant; and the products of those codes, computed in float64 by the script that
 * made the vectors. The rows of x are zeros, huge, subnormal, outliers, and ties. */
#include "tests/support/support.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/backend.h"
#include "kernels/cpu/backend_cpu.h"
#include "kernels/cpu/cpu_isa.h"
#include "kernels/host.h"
#include "tests/support/tol.h"
#include "tests/support/vectors.h"

enum { T = 11, K = 128, N = 5, NAME_MAX_ = 64 };

static const struct scheme {
    const char *name;
    enum dtype weight;
    int32_t w_group;
    struct actq act;
} schemes[] = {
    {"i8_token", DTYPE_I8, K, {.type = ACTQ_I8}},
    {"i8_group", DTYPE_I8, 32, {.type = ACTQ_I8, .group = 32}},
    {"i8_tensor", DTYPE_I8, K, {.type = ACTQ_I8, .is_static = true, .scale = 1}},
    {"i8_asym", DTYPE_I8, 64, {.type = ACTQ_I8, .asymmetric = true}},
    {"i8_asym_tensor",
     DTYPE_W4,
     32,
     {.type = ACTQ_I8, .asymmetric = true, .is_static = true, .scale = 0.37F, .zero = -43}},
    {"i8_w4", DTYPE_W4, 32, {.type = ACTQ_I8}},
    {"f8_token", DTYPE_F8_E4M3, K, {.type = ACTQ_F8_E4M3}},
    {"f8_tensor", DTYPE_F8_E4M3, K, {.type = ACTQ_F8_E4M3, .is_static = true, .scale = 1}},
    {"f8_group", DTYPE_F8_E4M3, 64, {.type = ACTQ_F8_E4M3, .group = 32}},
    {"f4_local", DTYPE_F4, 16, {.type = ACTQ_F4, .group = 16, .global = 16}},
    {"f4_w4", DTYPE_W4, 64, {.type = ACTQ_F4, .group = 16, .global = 2688.0F / 9000}},
};

static struct vectors golden;

static int open_vectors(void **state) {
    (void)state;
    vectors_open(test_golden("actq/actq.safetensors"), &golden);
    return 0;
}

static int close_vectors(void **state) {
    (void)state;
    vectors_close(&golden);
    return 0;
}

static const char *key(const struct scheme *s, const char *what) {
    static char name[NAME_MAX_];
    snprintf(name, sizeof(name), "%s.%s", s->name, what);
    return name;
}

typedef void quantize_fn(
    const struct actq *q, int32_t k, const float *x, float *code, float *scale, int32_t *zero);

static void check_codes(const char *by, quantize_fn *quantize) {
    const float *x = vectors_f32(&golden, "x", NULL);
    for (int32_t i = 0; i < ARRAY_LEN(schemes) * T; i++) {
        const struct scheme *s = &schemes[i / T];
        int32_t t = i % T;
        int32_t n_group = s->act.group ? K / s->act.group : 1;
        float code[K];
        float scale[K];
        int32_t zero[K];
        quantize(&s->act, K, x + t * K, code, scale, zero);
        const float *want = vectors_f32(&golden, key(s, "code"), NULL) + t * K;
        for (int32_t c = 0; c < K; c++) {
            if (!(code[c] >= want[c] && code[c] <= want[c])) {
                fail_msg("%s by %s: row %d column %d of %g is %g, want %g", s->name, by, t, c,
                         (double)x[t * K + c], (double)code[c], (double)want[c]);
            }
        }
        want = vectors_f32(&golden, key(s, "scale"), NULL) + t * n_group;
        assert_close(scale, want, n_group, 0);
        const int32_t *z = vectors_i32(&golden, key(s, "zero"), NULL) + t * n_group;
        assert_memory_equal(zero, z, (size_t)n_group * sizeof(*z));
    }
}

static void test_actq_codes_as_compressed_tensors(void **state) {
    (void)state;
    check_codes("ref", ref_actq);
    for (int32_t v = 0; cpu_isa_at(v); v++) {
        check_codes(cpu_isa_at(v)->name, cpu_isa_at(v)->actq);
    }
}

struct stored {
    uint8_t data[N * K];
    float scale[N * K];
    int8_t zero[N * K];
    struct wmat w;
};

/* The codes of a scheme's weight in its stored format. */
static void store_weight(const struct scheme *s, struct stored *d) {
    int32_t n_group = K / s->w_group;
    const float *code = vectors_f32(&golden, key(s, "w"), NULL);
    memset(d, 0, sizeof(*d));
    d->w = (struct wmat){.type = s->weight, .n = N, .k = K, .data = d->data, .act = s->act};
    d->w.row_bytes = dtype_row_bytes(s->weight, K);
    d->w.scale = d->scale;
    d->w.group = s->w_group;
    memcpy(d->scale, vectors_f32(&golden, key(s, "ws"), NULL),
           (size_t)(N * n_group) * sizeof(float));
    for (int32_t i = 0; i < N * K; i++) {
        int32_t shift = 4 * (i % 2);
        if (s->weight == DTYPE_W4) {
            d->data[i / 2] |= (uint8_t)((int32_t)(code[i] + 8) << shift);
        } else if (s->weight == DTYPE_F4) {
            d->data[i / 2] |= (uint8_t)(f32_to_f4(code[i]) << shift);
        } else {
            d->data[i] =
                s->weight == DTYPE_I8 ? (uint8_t)(int32_t)code[i] : f32_to_f8_e4m3(code[i]);
        }
    }
    if (s->weight == DTYPE_W4) {
        const int32_t *zero = vectors_i32(&golden, key(s, "wz"), NULL);
        for (int32_t i = 0; i < N * n_group; i++) {
            d->zero[i] = (int8_t)zero[i];
        }
        d->w.zero = d->zero;
    }
    assert_ok(host_check_weight(&d->w));
}

/* Size of a result: the root of the sum of its squared products. */
static double size_of(const struct stored *d, const float *x, int32_t n) {
    float w[K];
    double sum = 0;
    ref_decode(&d->w, n, 0, K, w);
    for (int32_t i = 0; i < K; i++) {
        sum += (double)x[i] * (double)w[i] * (double)x[i] * (double)w[i];
    }
    return sqrt(sum);
}

static void
check_products(const char *by, const struct backend_ops *ops, struct backend *be, double tol) {
    const float *x = vectors_f32(&golden, "x", NULL);
    static struct stored d;
    for (int32_t i = 0; i < ARRAY_LEN(schemes); i++) {
        float y[T * N];
        store_weight(&schemes[i], &d);
        assert_ok(ops->matmul(be, y, x, &d.w, NULL, T, false));
        const double *want = vectors_f64(&golden, key(&schemes[i], "y"), NULL);
        for (int32_t j = 0; j < T * N; j++) {
            double size = fmax(size_of(&d, x + j / N * K, j % N), fabs(want[j]));
            /* why: where results are subnormal each of up to 8 groups is rounded to its step */
            if (!(fabs((double)y[j] - want[j]) <= tol * size + 8 * 0x1p-149)) {
                fail_msg("%s by %s: row %d output %d is %g, want %g", schemes[i].name, by, j / N,
                         j % N, (double)y[j], want[j]);
            }
        }
    }
}

static const struct backend_opts opts = {
    .n_threads = 2, .n_tok_max = T, .k_max = K, .ctx_max = 8, .n_head_max = 1};

static void test_actq_products_as_float64(void **state) {
    (void)state;
    const struct backend_ops *ops = NULL;
    struct backend *be = NULL;
    assert_ok(backend_find("ref", &ops));
    assert_ok(ops->open(&opts, &be));
    check_products("ref", ops, be, TOL_U);
    ops->close(be);
    assert_ok(backend_find("cpu", &ops));
    for (int32_t v = 0; backend_cpu_variant(v); v++) {
        struct backend_opts o = opts;
        o.variant = backend_cpu_variant(v);
        assert_ok(ops->open(&o, &be));
        check_products(o.variant, ops, be, tol_dot(K));
        ops->close(be);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_actq_codes_as_compressed_tensors),
        TEST(test_actq_products_as_float64),
    };
    return cmocka_run_group_tests(tests, open_vectors, close_vectors);
}
