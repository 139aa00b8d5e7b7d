/* From logits to a token: sets against a sorted reference, draws against the softmax. */
#include "tests/support/support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/rng.h"
#include "engine/run/sampler.h"

enum { V = 50 };

static struct sampler s;

static int setup(void **state) {
    test_setup(state);
    return sampler_init(&s, V);
}

static int teardown(void **state) {
    sampler_fini(&s);
    return test_teardown(state);
}

static void random_logits(float *x, uint64_t stream) {
    struct rng r;
    rng_init(&r, 8, stream);
    for (int32_t i = 0; i < V; i++) {
        x[i] = (float)(2 * rng_normal(&r));
    }
}

static int32_t pick(const float *x, const struct sampling *p, int32_t position) {
    int32_t token = -1;
    assert_ok(sampler_pick(&s, x, p, position, &token));
    assert_true(token >= 0 && token < V);
    return token;
}

static void test_sampler_greedy_takes_the_lowest_of_equals(void **state) {
    (void)state;
    float x[V] = {0};
    const struct sampling p = {0};
    x[7] = x[9] = 3;
    assert_int_equal(pick(x, &p, 0), 7);
    x[2] = NAN;
    x[49] = 3;
    assert_int_equal(pick(x, &p, 5), 7);
    x[0] = 4;
    assert_int_equal(pick(x, &p, 0), 0);
}

static void test_sampler_nothing_finite_is_an_error(void **state) {
    (void)state;
    float x[V];
    int32_t token = -5;
    for (int32_t i = 0; i < V; i++) {
        x[i] = i % 2 ? NAN : -INFINITY;
    }
    assert_err(sampler_pick(&s, x, &(struct sampling){0}, 9, &token), ERR_NUMERIC, "position 9");
    x[3] = INFINITY;
    assert_err(sampler_pick(&s, x, &(struct sampling){.temperature = 1}, 9, &token), ERR_NUMERIC,
               "no finite");
    x[3] = NAN;
    x[4] = 1;
    assert_int_equal(pick(x, &(struct sampling){.temperature = 1}, 0), 4);
    assert_int_equal(token, -5);
}

static void test_sampler_penalties_and_bans(void **state) {
    (void)state;
    float x[V];
    const int32_t seen[] = {3, 9, 3, 3, 0};
    const int32_t ban[] = {9, 11, -1, V};
    const struct sampling p = {.presence = 0.5f, .frequency = 0.25f};
    random_logits(x, 3);
    const float *y = sampler_adjust(&s, x, &p, seen, ARRAY_LEN(seen), ban, ARRAY_LEN(ban));
    for (int32_t i = 0; i < V; i++) {
        int32_t count = i == 3 ? 3 : i == 9 || i == 0 ? 1 : 0;
        double want = (double)x[i] - 0.25 * count - (count > 0 ? 0.5 : 0);
        if (i == 9 || i == 11) {
            assert_true(isinf(y[i]) && y[i] < 0);
        } else {
            assert_true(fabs((double)y[i] - want) < 1e-5);
        }
    }
    y = sampler_adjust(&s, x, &(struct sampling){0}, seen, ARRAY_LEN(seen), NULL, 0);
    assert_memory_equal(y, x, sizeof x);
    assert_err(sampling_check(&(struct sampling){.presence = 3}), ERR_RANGE, "presence");
    assert_err(sampling_check(&(struct sampling){.frequency = NAN}), ERR_RANGE, "frequency");
}

static void test_sampler_nan_is_never_drawn(void **state) {
    (void)state;
    float x[V] = {0};
    struct sampling p = {.temperature = 5};
    for (int32_t i = 0; i < V; i += 2) {
        x[i] = i % 4 ? NAN : -INFINITY;
    }
    for (int32_t pos = 0; pos < 2000; pos++) {
        assert_int_equal(pick(x, &p, pos) % 2, 1);
    }
}

struct ranked {
    double prob;
    int32_t id;
};

static int falling(const void *a, const void *b) {
    const struct ranked *x = a;
    const struct ranked *y = b;
    if (x->prob != y->prob) {
        return x->prob > y->prob ? -1 : 1;
    }
    return (x->id > y->id) - (x->id < y->id);
}

/* The set that the parameters allow, by sorting everything. */
static void reference(const float *x, const struct sampling *p, bool keep[V]) {
    struct ranked r[V];
    double top = -(double)INFINITY;
    double mass = 0;
    for (int32_t i = 0; i < V; i++) {
        top = fmax(top, (double)x[i]);
    }
    for (int32_t i = 0; i < V; i++) {
        r[i] = (struct ranked){exp(((double)x[i] - top) / (double)p->temperature), i};
        mass += r[i].prob;
        keep[i] = false;
    }
    qsort(r, V, sizeof *r, falling);
    double sum = 0;
    for (int32_t i = 0; i < V; i++) {
        bool over = p->top_p > 0 && p->top_p < 1 && sum >= (double)p->top_p * mass;
        if (over || (p->top_k > 0 && i >= p->top_k) || r[i].prob < (double)p->min_p) {
            break;
        }
        keep[r[i].id] = true;
        sum += r[i].prob;
    }
}

static void check_set(const float *x, const struct sampling *p) {
    bool keep[V];
    bool drawn[V] = {false};
    reference(x, p, keep);
    for (int32_t pos = 0; pos < 300; pos++) {
        drawn[pick(x, p, pos)] = true;
    }
    for (int32_t i = 0; i < V; i++) {
        assert_int_equal(s.prob[i] > 0, keep[i]);
        assert_true(keep[i] || !drawn[i]);
    }
}

static void test_sampler_sets_equal_the_sorted_reference(void **state) {
    (void)state;
    float x[V];
    static const float top_p[] = {0.01f, 0.3f, 0.9f, 0.99f};
    static const float min_p[] = {0.001f, 0.05f, 0.5f, 1};
    for (uint64_t round = 0; round < 5; round++) {
        random_logits(x, round);
        for (int32_t k = 1; k <= V; k += 7) {
            check_set(x, &(struct sampling){.temperature = 1.3f, .top_k = k, .seed = round});
        }
        for (int32_t i = 0; i < 4; i++) {
            check_set(x, &(struct sampling){.temperature = 0.7f, .top_p = top_p[i]});
            check_set(x, &(struct sampling){.temperature = 2, .min_p = min_p[i]});
            check_set(x, &(struct sampling){
                             .temperature = 1, .top_k = 9, .top_p = top_p[i], .min_p = 0.02f});
        }
    }
}

static void test_sampler_ties_at_the_edge_go_by_id(void **state) {
    (void)state;
    float x[V] = {0};
    bool keep[V];
    const struct sampling k = {.temperature = 1, .top_k = 3};
    const struct sampling p = {.temperature = 1, .top_p = 0.05f};
    x[40] = 2;
    check_set(x, &k);
    reference(x, &k, keep);
    assert_true(keep[40] && keep[0] && keep[1] && !keep[2]);
    memset(x, 0, sizeof x);
    check_set(x, &p); /* 50 equal tokens of 2 %: three are needed for 5 % */
    reference(x, &p, keep);
    assert_true(keep[0] && keep[1] && keep[2] && !keep[3]);
}

static void test_sampler_draws_follow_the_softmax(void **state) {
    (void)state;
    enum { N = 20000 };
    float x[V];
    int32_t seen[V] = {0};
    double chi = 0;
    double mass = 0;
    const struct sampling p = {.temperature = 1.5f, .seed = 11};
    random_logits(x, 77);
    for (int32_t i = 0; i < V; i++) {
        mass += exp((double)x[i] / 1.5);
    }
    for (int32_t pos = 0; pos < N; pos++) {
        seen[pick(x, &p, pos)]++;
    }
    for (int32_t i = 0; i < V; i++) {
        double want = N * exp((double)x[i] / 1.5) / mass;
        chi += (seen[i] - want) * (seen[i] - want) / want;
    }
    assert_true(chi < V - 1 + 5 * sqrt(2.0 * (V - 1)));
}

static void test_sampler_depends_on_seed_and_position_alone(void **state) {
    (void)state;
    float x[V];
    struct sampler other;
    int32_t n_same = 0;
    assert_ok(sampler_init(&other, V));
    random_logits(x, 5);
    for (int32_t pos = 0; pos < 500; pos++) {
        const struct sampling p = {.temperature = 1, .seed = 3};
        const struct sampling q = {.temperature = 1, .seed = 4};
        int32_t a = pick(x, &p, pos);
        int32_t b = -1;
        pick(x, &q, pos + 1); /* whatever was drawn in between */
        assert_int_equal(pick(x, &p, pos), a);
        assert_ok(sampler_pick(&other, x, &p, pos, &b));
        assert_int_equal(b, a);
        n_same += pick(x, &q, pos) == a ? 1 : 0;
    }
    assert_true(n_same < 250);
    sampler_fini(&other);
}

static void test_sampler_cold_draws_are_greedy(void **state) {
    (void)state;
    float x[V];
    random_logits(x, 6);
    int32_t best = pick(x, &(struct sampling){0}, 0);
    for (int32_t pos = 0; pos < 100; pos++) {
        assert_int_equal(pick(x, &(struct sampling){.temperature = 1e-30f}, pos), best);
        assert_int_equal(pick(x, &(struct sampling){.temperature = 1, .top_k = 1}, pos), best);
        assert_int_equal(pick(x, &(struct sampling){.temperature = 1, .min_p = 1}, pos), best);
    }
}

static void test_sampler_parameters_are_checked(void **state) {
    (void)state;
    static const struct {
        struct sampling p;
        const char *part;
    } bad[] = {{{.temperature = -1}, "temperature -1"},
               {{.temperature = NAN}, "temperature"},
               {{.temperature = 101}, "temperature 101"},
               {{.top_p = 1.5f}, "top_p 1.5"},
               {{.top_p = -0.5f}, "top_p -0.5"},
               {{.min_p = 2}, "min_p 2"},
               {{.min_p = NAN}, "min_p"},
               {{.top_k = -1}, "top_k -1"}};
    for (int32_t i = 0; i < ARRAY_LEN(bad); i++) {
        assert_err(sampling_check(&bad[i].p), ERR_RANGE, bad[i].part);
    }
    assert_ok(sampling_check(&(struct sampling){0}));
    assert_ok(sampling_check(&(struct sampling){.temperature = 1, .top_p = 1, .min_p = 1}));
}

static void test_sampler_logsumexp_is_exact_and_stable(void **state) {
    (void)state;
    const float x[3] = {1000, 1001, 1002};
    const float y[3] = {-1000, NAN, -1000};
    const float z[2] = {NAN, NAN};
    assert_rel(sampler_logsumexp(x, 3), 1002 + log(1 + exp(-1) + exp(-2)), 1e-15);
    assert_rel(sampler_logsumexp(y, 3), -1000 + log(2), 1e-15);
    assert_true(isnan(sampler_logsumexp(z, 2)));
}

static int init_once(void *ctx) {
    (void)ctx;
    struct sampler t;
    int rc = sampler_init(&t, V);
    if (!rc) {
        sampler_fini(&t);
    }
    return rc;
}

static void test_sampler_without_memory(void **state) {
    (void)state;
    static const int codes[] = {ERR_NOMEM, 0};
    test_fault_loop(FAULT_ALLOC, init_once, NULL, codes);
}

#define SAMPLER_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        SAMPLER_TEST(test_sampler_greedy_takes_the_lowest_of_equals),
        SAMPLER_TEST(test_sampler_nothing_finite_is_an_error),
        SAMPLER_TEST(test_sampler_penalties_and_bans),
        SAMPLER_TEST(test_sampler_nan_is_never_drawn),
        SAMPLER_TEST(test_sampler_sets_equal_the_sorted_reference),
        SAMPLER_TEST(test_sampler_ties_at_the_edge_go_by_id),
        SAMPLER_TEST(test_sampler_draws_follow_the_softmax),
        SAMPLER_TEST(test_sampler_depends_on_seed_and_position_alone),
        SAMPLER_TEST(test_sampler_cold_draws_are_greedy),
        SAMPLER_TEST(test_sampler_parameters_are_checked),
        SAMPLER_TEST(test_sampler_logsumexp_is_exact_and_stable),
        SAMPLER_TEST(test_sampler_without_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
