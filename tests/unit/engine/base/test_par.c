/* par_for: every index once, whatever the number of threads. LABELS: threads */
#include "tests/support/support.h"

#include <stdatomic.h>

#include "engine/base/par.h"

enum { N = 1000 };

struct count {
    _Atomic int32_t seen[N];
    int64_t value[N];
};

static void touch(void *ctx, int64_t i) {
    struct count *c = ctx;
    atomic_fetch_add(&c->seen[i], 1);
    c->value[i] = i * i;
}

static void test_par_for_calls_each_index_once(void **state) {
    (void)state;
    static const int32_t threads[] = {0, 1, 2, 7, 300};
    for (int32_t t = 0; t < ARRAY_LEN(threads); t++) {
        struct count c = {0};
        par_for(threads[t], N, touch, &c);
        for (int32_t i = 0; i < N; i++) {
            assert_int_equal(atomic_load(&c.seen[i]), 1);
            assert_int_equal(c.value[i], (int64_t)i * i);
        }
    }
}

static void test_par_for_of_nothing_calls_nothing(void **state) {
    (void)state;
    struct count c = {0};
    par_for(4, 0, touch, &c);
    assert_int_equal(atomic_load(&c.seen[0]), 0);
    par_for(4, 1, touch, &c);
    assert_int_equal(atomic_load(&c.seen[0]), 1);
    assert_true(par_n_cpu() >= 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {TEST(test_par_for_calls_each_index_once),
                                       TEST(test_par_for_of_nothing_calls_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
