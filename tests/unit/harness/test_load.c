/* Requests from (seed, number): the same bytes every time, within bounds, with the prefixes asked
 * for. */
#include "tests/support/support.h"

#include <stdio.h>
#include <string.h>

#include "harness/load.h"

enum { VOCAB = 384, CTX = 128, N = 200 };

static void parse(const char *work, const char *more, struct scenario *sc) {
    char text[1024];
    int n = snprintf(text, sizeof text,
                     "scenario: t\nseed: 11\ntargets: {a: {engine: {model: m}}}\nworkload: "
                     "{synthetic: {%s}}\narrival: {burst: {requests: 4}}\n%s",
                     work, more);
    assert_ok(scenario_parse("t", text, n, sc));
}

static bool same(const struct load_request *a, const struct load_request *b) {
    return a->n_ids == b->n_ids && a->max_new == b->max_new && a->seed == b->seed &&
           strcmp(a->hash, b->hash) == 0 &&
           memcmp(a->ids, b->ids, (size_t)a->n_ids * sizeof *a->ids) == 0;
}

static void test_load_same_seed_same_bytes(void **state) {
    (void)state;
    struct scenario sc;
    struct scenario other;
    struct load l[3];
    parse("input: {uniform: {min: 1, max: 60}}, output: {uniform: {min: 1, max: 9}}", "", &sc);
    parse("input: {uniform: {min: 1, max: 60}}, output: {uniform: {min: 1, max: 9}}", "", &other);
    other.seed = 12;
    assert_ok(load_init(&l[0], &sc, VOCAB, CTX));
    assert_ok(load_init(&l[1], &sc, VOCAB, CTX));
    assert_ok(load_init(&l[2], &other, VOCAB, CTX));
    int32_t n_other = 0;
    for (int64_t i = N - 1; i >= 0; i--) { /* in any order */
        struct load_request a;
        struct load_request b;
        struct load_request c;
        assert_ok(load_make(&l[0], i, false, &a));
        assert_ok(load_make(&l[1], i, false, &b));
        assert_ok(load_make(&l[2], i, false, &c));
        assert_true(same(&a, &b));
        n_other += same(&a, &c) ? 0 : 1;
        load_request_fini(&a);
        load_request_fini(&b);
        load_request_fini(&c);
    }
    assert_true(n_other == N);
    for (int32_t i = 0; i < 3; i++) {
        load_fini(&l[i]);
    }
    scenario_fini(&sc);
    scenario_fini(&other);
}

static void check_bounds(const struct load *l, int32_t vocab, int32_t ctx, int32_t low) {
    for (int64_t i = 0; i < N; i++) {
        struct load_request r;
        assert_ok(load_make(l, i, i % 2 == 1, &r));
        assert_true(r.n_ids >= 1 && r.max_new >= 1 && r.n_ids + r.max_new <= ctx);
        for (int32_t k = 0; k < r.n_ids; k++) {
            assert_true(r.ids[k] >= low && r.ids[k] < vocab);
        }
        assert_int_equal(strlen(r.hash), 32);
        load_request_fini(&r);
    }
}

static void test_load_bounds(void **state) {
    (void)state;
    struct scenario sc;
    struct load l;
    parse("input: {lognormal: {mean: 90, cv: 1.5}}, output: {uniform: {min: 1, max: 500}}", "",
          &sc);
    static const struct {
        int32_t vocab;
        int32_t ctx;
        int32_t low; /* the ids below are special tokens in many vocabularies */
    } sizes[] = {{VOCAB, CTX, 3}, {49152, 2048, 512}, {4, 16, 3}, {3, 16, 0}, {1, 2, 0}};
    for (int32_t i = 0; i < ARRAY_LEN(sizes); i++) {
        assert_ok(load_init(&l, &sc, sizes[i].vocab, sizes[i].ctx));
        check_bounds(&l, sizes[i].vocab, sizes[i].ctx, sizes[i].low);
        load_fini(&l);
    }
    scenario_fini(&sc);
}

static int32_t common(const struct load_request *a, const struct load_request *b) {
    int32_t n = 0;
    while (n < a->n_ids && n < b->n_ids && a->ids[n] == b->ids[n]) {
        n++;
    }
    return n;
}

static void test_load_shared_prefixes(void **state) {
    (void)state;
    enum { PREFIX = 24, COUNT = 40, GROUPS = 3 };
    struct scenario sc;
    struct load l;
    struct load_request r[COUNT];
    struct load_request warm[COUNT];
    int32_t first[GROUPS];
    int32_t n_group = 0;
    parse("input: {fixed: 40}, output: {fixed: 4}, shared_prefix: {groups: 3, tokens: 24}", "",
          &sc);
    assert_ok(load_init(&l, &sc, 50000, CTX));
    for (int32_t i = 0; i < COUNT; i++) {
        assert_ok(load_make(&l, i, false, &r[i]));
        assert_ok(load_make(&l, i, true, &warm[i]));
        int32_t g = 0;
        while (g < n_group && common(&r[first[g]], &r[i]) < PREFIX) {
            g++;
        }
        if (g == n_group) {
            assert_true(n_group < GROUPS);
            first[n_group++] = i;
        } else {
            assert_true(common(&r[first[g]], &r[i]) < PREFIX + 4); /* and the rest is its own */
        }
    }
    assert_int_equal(n_group, GROUPS);
    for (int32_t i = 0; i < COUNT; i++) {
        for (int32_t k = 0; k < COUNT; k++) { /* warm-up prompts fill no cache for measured ones */
            assert_true(common(&warm[i], &r[k]) < 4);
            assert_true(i == k || common(&warm[i], &warm[k]) < 4);
        }
    }
    for (int32_t i = 0; i < COUNT; i++) {
        load_request_fini(&r[i]);
        load_request_fini(&warm[i]);
    }
    load_fini(&l);
    scenario_fini(&sc);
}

static void test_load_sampling_seed(void **state) {
    (void)state;
    struct scenario a;
    struct scenario b;
    struct load l[2];
    struct load_request r[2];
    const char *work = "input: {fixed: 8}, output: {fixed: 4}";
    parse(work, "sampling: {temperature: 1, seed: 5}", &a);
    parse(work, "sampling: {temperature: 1, seed: 6}", &b);
    assert_ok(load_init(&l[0], &a, VOCAB, CTX));
    assert_ok(load_init(&l[1], &b, VOCAB, CTX));
    for (int32_t i = 0; i < 2; i++) {
        assert_ok(load_make(&l[i], 3, false, &r[i]));
    }
    assert_string_equal(r[0].hash, r[1].hash); /* the prompts are the scenario's */
    assert_true(r[0].seed != r[1].seed);
    for (int32_t i = 0; i < 2; i++) {
        load_request_fini(&r[i]);
        load_fini(&l[i]);
    }
    scenario_fini(&a);
    scenario_fini(&b);
}

static void test_load_refuses_data_sets(void **state) {
    (void)state;
    struct scenario sc;
    struct load l;
    const char text[] = "scenario: t\ntargets: {a: {engine: {model: m}}}\nworkload: {dataset: "
                        "{name: mt-bench}}\narrival: {burst: {requests: 4}}\n";
    assert_ok(scenario_parse("t", text, (int64_t)sizeof text - 1, &sc));
    assert_err(load_init(&l, &sc, VOCAB, CTX), ERR_UNSUPPORTED, "workload \"dataset\"");
    scenario_fini(&sc);
}

static int make_once(void *ctx) {
    struct load l;
    struct load_request r;
    int rc = load_init(&l, ctx, VOCAB, CTX);
    if (rc) {
        return rc;
    }
    rc = load_make(&l, 7, false, &r);
    load_request_fini(&r);
    load_fini(&l);
    return rc;
}

static void test_load_faults(void **state) {
    (void)state;
    static const int codes[] = {ERR_NOMEM, 0};
    struct scenario sc;
    parse("input: {fixed: 40}, output: {fixed: 4}, shared_prefix: {groups: 3, tokens: 24}", "",
          &sc);
    test_fault_loop(FAULT_ALLOC, make_once, &sc, codes);
    scenario_fini(&sc);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_load_same_seed_same_bytes), TEST(test_load_bounds),
        TEST(test_load_shared_prefixes),      TEST(test_load_sampling_seed),
        TEST(test_load_refuses_data_sets),    TEST(test_load_faults)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
