/* The solver's laws on random matrices; equality with llm-compressor is in tests/golden/test_gptq.
 * LABELS: threads */
#include "tests/support/support.h"

#include <math.h>
#include <string.h>

#include "engine/base/rng.h"
#include "engine/quant/gptq.h"

enum { N = 20, K = 64, GROUP = 16, GROUPS = K / GROUP, X = 100 };

struct problem {
    float w[N * K];
    float h[K * K];
    float scale[N * GROUPS];
    int8_t zero[N * GROUPS];
    int8_t codes[N * K];
    struct gptq_result res;
};

static struct gptq_opts opts(void) {
    return (struct gptq_opts){.grid = {.bits = 4, .group = GROUP, .scale_type = DTYPE_F32},
                              .block = 128,
                              .dampening = 0.01,
                              .n_threads = 1};
}

/* Random weights, and the Hessian of X correlated inputs. */
static void make(struct problem *p) {
    static float x[X][K];
    struct rng r;
    memset(p, 0, sizeof *p);
    rng_init(&r, 6, 0);
    for (int32_t i = 0; i < N * K; i++) {
        p->w[i] = (float)rng_normal(&r);
    }
    for (int32_t t = 0; t < X; t++) {
        float common = (float)rng_normal(&r);
        for (int32_t i = 0; i < K; i++) {
            x[t][i] = (0.2f + (float)i / K) * (common + (float)rng_normal(&r));
        }
    }
    for (int32_t i = 0; i < K; i++) {
        for (int32_t j = 0; j < K; j++) {
            double s = 0;
            for (int32_t t = 0; t < X; t++) {
                s += (double)x[t][i] * (double)x[t][j];
            }
            p->h[i * K + j] = (float)(2 * s / X);
        }
    }
}

static int solve(struct problem *p, const struct gptq_opts *o) {
    static float w[N * K];
    memcpy(w, p->w, sizeof w);
    grid_scales(&o->grid, p->w, N, K, NULL, p->scale, o->grid.asymmetric ? p->zero : NULL);
    return gptq_solve(o, w, N, K, p->h, p->scale, o->grid.asymmetric ? p->zero : NULL, p->codes,
                      &p->res);
}

/* sum over rows of d h d^T for the codes' errors d, and sum of d^2. */
static double energy(const struct problem *p, const int8_t *codes, double *square) {
    double sum = 0;
    *square = 0;
    for (int32_t r = 0; r < N; r++) {
        double d[K];
        for (int32_t i = 0; i < K; i++) {
            int32_t g = r * GROUPS + i / GROUP;
            float v = grid_value(codes[r * K + i], p->scale[g], p->zero[g]);
            d[i] = (double)v - (double)p->w[r * K + i];
            *square += d[i] * d[i];
        }
        for (int32_t i = 0; i < K; i++) {
            for (int32_t j = 0; j < K; j++) {
                sum += d[i] * d[j] * (double)p->h[i * K + j];
            }
        }
    }
    return sum;
}

static void test_gptq_beats_rounding_and_logs_its_loss(void **state) {
    (void)state;
    static struct problem p;
    int8_t rtn[N * K];
    double dd = 0;
    for (int32_t way = 0; way < 4; way++) {
        struct gptq_opts o = opts();
        o.grid.asymmetric = way % 2 == 1;
        o.order = way / 2 == 1 ? GPTQ_ORDER_NONE : GPTQ_ORDER_STATIC;
        make(&p);
        assert_ok(solve(&p, &o));
        double e = energy(&p, p.codes, &dd);
        /* the logged loss is half of d (h + damp) d^T */
        assert_rel(p.res.loss, e / 2 + p.res.damp / 2 * dd, 1e-4);
        grid_round(&o.grid, p.w, N, K, p.scale, o.grid.asymmetric ? p.zero : NULL, rtn);
        assert_true(e < 0.8 * energy(&p, rtn, &dd));
        assert_true(p.res.n_dead == 0 && p.res.n_retry == 0 && !p.res.fell_back);
    }
}

static void test_gptq_diagonal_hessian_is_rounding(void **state) {
    (void)state;
    static struct problem p;
    int8_t rtn[N * K];
    struct gptq_opts o = opts();
    make(&p);
    for (int32_t i = 0; i < K * K; i++) {
        p.h[i] = i % (K + 1) == 0 ? 1 + (float)(i % 7) : 0;
    }
    assert_ok(solve(&p, &o));
    grid_round(&o.grid, p.w, N, K, p.scale, NULL, rtn);
    assert_memory_equal(p.codes, rtn, sizeof rtn);
}

static void test_gptq_same_bits_for_threads_and_blocks(void **state) {
    (void)state;
    static struct problem p;
    static struct problem q;
    struct gptq_opts o = opts();
    make(&p);
    assert_ok(solve(&p, &o));
    for (int32_t way = 0; way < 4; way++) {
        make(&q);
        o.n_threads = 1 + way % 2;
        o.block = way < 2 ? 128 : 24;
        assert_ok(solve(&q, &o));
        assert_memory_equal(p.codes, q.codes, sizeof p.codes);
        if (way < 2) {
            assert_true(p.res.loss == q.res.loss);
        } else { /* a row's loss is summed block by block */
            assert_rel(q.res.loss, p.res.loss, 1e-12);
        }
    }
}

static void test_gptq_dead_columns_become_zero(void **state) {
    (void)state;
    static struct problem p;
    static const int32_t dead[] = {0, 17, K - 1};
    struct gptq_opts o = opts();
    make(&p);
    for (int32_t d = 0; d < ARRAY_LEN(dead); d++) {
        for (int32_t i = 0; i < K; i++) {
            p.h[i * K + dead[d]] = p.h[dead[d] * K + i] = 0;
        }
    }
    assert_ok(solve(&p, &o));
    assert_int_equal(p.res.n_dead, 3);
    for (int32_t r = 0; r < N; r++) {
        for (int32_t d = 0; d < ARRAY_LEN(dead); d++) {
            assert_int_equal(p.codes[r * K + dead[d]], 0);
        }
    }
}

/* The unit matrix with one pair of coupled columns: its least eigenvalue is 1 - c. */
static void coupled(struct problem *p, float c) {
    make(p);
    for (int32_t i = 0; i < K * K; i++) {
        p->h[i] = i % (K + 1) == 0 ? 1 : 0;
    }
    p->h[1] = p->h[K] = c;
}

static void test_gptq_raises_the_dampening_until_it_helps(void **state) {
    (void)state;
    static struct problem p;
    struct gptq_opts o = opts();
    coupled(&p, 1.05f); /* 0.01 does not lift -0.05 above zero, 0.1 does */
    assert_ok(solve(&p, &o));
    assert_int_equal(p.res.n_retry, 1);
    assert_rel(p.res.damp, 0.1, 1e-6);
    assert_false(p.res.fell_back);
    coupled(&p, 50);
    assert_ok(solve(&p, &o));
    assert_int_equal(p.res.n_retry, 4);
}

static void test_gptq_falls_back_to_rounding_and_says_so(void **state) {
    (void)state;
    static struct problem p;
    int8_t rtn[N * K];
    struct gptq_opts o = opts();
    coupled(&p, 1e6f);
    assert_ok(solve(&p, &o));
    assert_true(p.res.fell_back);
    grid_round(&o.grid, p.w, N, K, p.scale, NULL, rtn);
    assert_memory_equal(p.codes, rtn, sizeof rtn);
}

static void test_gptq_refuses_what_is_no_number(void **state) {
    (void)state;
    static struct problem p;
    struct gptq_opts o = opts();
    make(&p);
    p.h[5 * K + 5] = INFINITY;
    assert_err(solve(&p, &o), ERR_NUMERIC, "element [5, 5] is inf");
    make(&p);
    p.h[3 * K + 7] = NAN;
    assert_err(solve(&p, &o), ERR_NUMERIC, "element [3, 7] is nan");
}

static void test_gptq_refuses_bad_sizes(void **state) {
    (void)state;
    static struct problem p;
    struct gptq_opts o = opts();
    make(&p);
    o.block = 0;
    assert_err(solve(&p, &o), ERR_RANGE, "block of 0");
    o.block = 257;
    assert_err(solve(&p, &o), ERR_RANGE, "257 columns (at most 256)");
    o.block = 128;
    o.grid.group = 48;
    assert_err(gptq_solve(&o, p.w, N, K, p.h, p.scale, NULL, p.codes, &p.res), ERR_RANGE,
               "group 48 for 64");
}

static int solve_once(void *ctx) {
    struct gptq_opts o = opts();
    return solve(ctx, &o);
}

static void test_gptq_without_memory(void **state) {
    (void)state;
    static const int codes[] = {ERR_NOMEM, 0};
    static struct problem p;
    make(&p);
    test_fault_loop(FAULT_ALLOC, solve_once, &p, codes);
}

int main(void) {
    const struct CMUnitTest tests[] = {TEST(test_gptq_beats_rounding_and_logs_its_loss),
                                       TEST(test_gptq_diagonal_hessian_is_rounding),
                                       TEST(test_gptq_same_bits_for_threads_and_blocks),
                                       TEST(test_gptq_dead_columns_become_zero),
                                       TEST(test_gptq_raises_the_dampening_until_it_helps),
                                       TEST(test_gptq_falls_back_to_rounding_and_says_so),
                                       TEST(test_gptq_refuses_what_is_no_number),
                                       TEST(test_gptq_refuses_bad_sizes),
                                       TEST(test_gptq_without_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
