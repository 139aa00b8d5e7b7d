/* Routing and scattering of mixtures of experts: values by hand, ties and NaN, and on every variant
 * the sums of ref within two roundings and the bits of a row whatever rows come with it. */
#include "tests/support/support.h"

#include <math.h>
#include <string.h>

#include "engine/base/rng.h"
#include "kernels/backend.h"
#include "kernels/cpu/backend_cpu.h"
#include "tests/support/tol.h"

enum { R = 19, ROWS = 40, DIM = 100, N_EXPERT = 8 };

static const struct backend_opts limits = {
    .n_threads = 2, .n_tok_max = ROWS, .k_max = DIM, .ctx_max = 16, .n_head_max = 4};

static void test_ops_moe_route_by_hand(void **state) {
    (void)state;
    const float logits[2][4] = {{0, 1, 3, 1}, {-1, -1, -1, -1}};
    for (int32_t i = 0; backend_at(i); i++) {
        const struct backend_ops *o = backend_at(i);
        struct backend *be = NULL;
        int32_t expert[4];
        float weight[4];
        if (strcmp(o->name, "null") == 0) {
            continue;
        }
        assert_ok(o->open(&limits, &be));
        assert_ok(o->route(be, logits[0], 2, 4, 2, false, expert, weight));
        assert_int_equal(expert[0], 2);
        assert_int_equal(expert[1], 1); /* the lower of two equal ones */
        assert_int_equal(expert[2], 0);
        assert_int_equal(expert[3], 1);
        double all = exp(0) + 2 * exp(1) + exp(3);
        assert_rel((double)weight[0], exp(3) / all, TOL_U);
        assert_rel((double)weight[1], exp(1) / all, TOL_U);
        assert_rel((double)weight[2], 0.25, 0);
        assert_ok(o->route(be, logits[0], 1, 4, 2, true, expert, weight));
        assert_rel((double)weight[0], exp(3) / (exp(3) + exp(1)), TOL_U);
        assert_rel((double)weight[1], exp(1) / (exp(3) + exp(1)), TOL_U);
        o->close(be);
    }
}

/* Whatever a row holds, its experts are distinct and in range. */
static void test_ops_moe_route_of_nan_is_distinct(void **state) {
    (void)state;
    float logits[3][N_EXPERT];
    int32_t expert[3 * N_EXPERT];
    float weight[3 * N_EXPERT];
    for (int32_t i = 0; i < N_EXPERT; i++) {
        logits[0][i] = NAN;
        logits[1][i] = i == 3 ? NAN : (float)i;
        logits[2][i] = -INFINITY;
    }
    for (int32_t i = 0; backend_at(i); i++) {
        const struct backend_ops *o = backend_at(i);
        struct backend *be = NULL;
        assert_ok(o->open(&limits, &be));
        assert_ok(o->route(be, logits[0], 3, N_EXPERT, N_EXPERT, true, expert, weight));
        for (int32_t t = 0; t < 3; t++) {
            uint32_t seen = 0;
            for (int32_t j = 0; j < N_EXPERT; j++) {
                assert_in_range(expert[t * N_EXPERT + j], 0, N_EXPERT - 1);
                seen |= 1U << expert[t * N_EXPERT + j];
            }
            assert_int_equal(seen, (1U << N_EXPERT) - 1);
        }
        o->close(be);
    }
}

static void test_ops_moe_route_refuses_bad_counts(void **state) {
    (void)state;
    const float logits[4] = {0};
    int32_t expert[8];
    float weight[8];
    const struct backend_ops *o = NULL;
    struct backend *be = NULL;
    assert_ok(backend_find("ref", &o));
    assert_ok(o->open(&limits, &be));
    assert_err(o->route(be, logits, 1, 4, 5, false, expert, weight), ERR_RANGE, "5 of 4 experts");
    assert_err(o->route(be, logits, 1, 4, 0, false, expert, weight), ERR_RANGE, "0 of 4");
    assert_err(o->route(be, logits, 1, OPS_EXPERT_MAX + 1, 1, false, expert, weight), ERR_RANGE,
               "at most");
    o->close(be);
}

struct scatter {
    float x[R * DIM];
    float y[ROWS * DIM];
    float weight[R];
    int32_t row[R];
};

static void scatter_make(struct scatter *s) {
    struct rng r;
    rng_init(&r, 21, 0);
    for (int32_t i = 0; i < R * DIM; i++) {
        s->x[i] = (float)(rng_uniform(&r) * 2 - 1);
    }
    for (int32_t i = 0; i < ROWS * DIM; i++) {
        s->y[i] = (float)(rng_uniform(&r) * 2 - 1);
    }
    for (int32_t i = 0; i < R; i++) {
        s->weight[i] = (float)rng_uniform(&r);
        s->row[i] = (7 * i + 3) % ROWS; /* distinct: 7 and ROWS have no common factor */
    }
}

static void test_ops_moe_scatter_add_all_variants(void **state) {
    (void)state;
    static struct scatter s;
    static float want[ROWS * DIM];
    static float got[ROWS * DIM];
    const struct backend_ops *o = NULL;
    struct backend *be = NULL;
    scatter_make(&s);
    assert_ok(backend_find("ref", &o));
    assert_ok(o->open(&limits, &be));
    memcpy(want, s.y, sizeof want);
    assert_ok(o->scatter_add(be, want, s.x, s.row, s.weight, R, DIM));
    o->close(be);
    assert_ok(backend_find("cpu", &o));
    for (int32_t v = 0; backend_cpu_variant(v); v++) {
        static float single[ROWS * DIM];
        struct backend_opts opts = limits;
        opts.variant = backend_cpu_variant(v);
        assert_ok(o->open(&opts, &be));
        memcpy(got, s.y, sizeof got);
        memcpy(single, s.y, sizeof single);
        assert_ok(o->scatter_add(be, got, s.x, s.row, s.weight, R, DIM));
        assert_close(got, want, ROWS * DIM, 2 * tol_elem());
        for (int32_t r = 0; r < R; r++) {
            assert_ok(o->scatter_add(be, single, s.x + r * DIM, s.row + r, s.weight + r, 1, DIM));
        }
        assert_memory_equal(got, single, sizeof got);
        o->close(be);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_ops_moe_route_by_hand), TEST(test_ops_moe_route_of_nan_is_distinct),
        TEST(test_ops_moe_route_refuses_bad_counts), TEST(test_ops_moe_scatter_add_all_variants)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
