/* The ring between two threads: every item once, in order, whole. LABELS: threads */
#include "tests/support/support.h"

#include <pthread.h>
#include <sched.h>

#include "engine/base/ring.h"

struct item {
    uint64_t n;
    uint64_t mirror[3];
};

static void test_ring_is_first_in_first_out_and_bounded(void **state) {
    (void)state;
    struct ring r;
    int32_t v = 0;
    assert_ok(ring_init(&r, MEM_TEST, 5, (int32_t)sizeof v));
    assert_int_equal(r.cap, 8);
    assert_false(ring_pop(&r, &v));
    for (int32_t round = 0; round < 100; round++) {
        for (int32_t i = 0; i < 8; i++) {
            assert_true(ring_push(&r, &i));
            assert_int_equal(ring_count(&r), i + 1);
        }
        assert_false(ring_push(&r, &v));
        for (int32_t i = 0; i < 8; i++) {
            assert_true(ring_pop(&r, &v));
            assert_int_equal(v, i);
        }
        assert_false(ring_pop(&r, &v));
    }
    ring_fini(&r);
    ring_fini(&r);
}

static void test_ring_counters_may_wrap(void **state) {
    (void)state;
    struct ring r;
    assert_ok(ring_init(&r, MEM_TEST, 4, 4));
    atomic_store(&r.head, UINT32_MAX - 2);
    atomic_store(&r.tail, UINT32_MAX - 2);
    for (int32_t i = 0; i < 20; i++) {
        int32_t v = 0;
        assert_true(ring_push(&r, &i));
        assert_int_equal(ring_count(&r), 1);
        assert_true(ring_pop(&r, &v));
        assert_int_equal(v, i);
    }
    ring_fini(&r);
}

static void test_ring_init_refuses_what_cannot_be(void **state) {
    (void)state;
    struct ring r;
    fault_arm(FAULT_ALLOC, 1, false);
    assert_int_equal(ring_init(&r, MEM_TEST, 4, 4), ERR_NOMEM);
    assert_err(ring_init(&r, MEM_TEST, 0, 4), ERR_RANGE, "0 items");
    assert_err(ring_init(&r, MEM_TEST, INT32_MAX, 4), ERR_RANGE, "2147483647");
}

enum { N_ITEMS = 200000 };

static void *produce(void *arg) {
    struct ring *r = arg;
    for (uint64_t i = 0; i < N_ITEMS;) {
        struct item it = {i, {i * 3, i * 5, i * 7}};
        if (ring_push(r, &it)) {
            i++;
        } else {
            sched_yield();
        }
    }
    return NULL;
}

static void test_ring_two_threads_lose_and_tear_nothing(void **state) {
    (void)state;
    struct ring r;
    pthread_t t;
    assert_ok(ring_init(&r, MEM_TEST, 16, (int32_t)sizeof(struct item)));
    assert_int_equal(pthread_create(&t, NULL, produce, &r), 0);
    for (uint64_t i = 0; i < N_ITEMS;) {
        struct item it;
        if (!ring_pop(&r, &it)) {
            sched_yield();
            continue;
        }
        if (it.n != i || it.mirror[0] != i * 3 || it.mirror[1] != i * 5 || it.mirror[2] != i * 7) {
            fail_msg("item %llu came as %llu", (unsigned long long)i, (unsigned long long)it.n);
        }
        i++;
    }
    assert_int_equal(pthread_join(t, NULL), 0);
    assert_int_equal(ring_count(&r), 0);
    ring_fini(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {TEST(test_ring_is_first_in_first_out_and_bounded),
                                       TEST(test_ring_counters_may_wrap),
                                       TEST(test_ring_init_refuses_what_cannot_be),
                                       TEST(test_ring_two_threads_lose_and_tear_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
