/* The thread pool: every item once, whatever the counts; wake-up from sleep; failing memory.
 * LABELS: threads */
#include "tests/support/support.h"

#include <stdatomic.h>
#include <string.h>

#include "engine/base/clock.h"
#include "kernels/cpu/cpu_pool.h"

enum { ITEMS_MAX = 1000, THREADS_MAX = 5 };

struct job {
    _Atomic int32_t *done;   /* [n] how often each item ran */
    _Atomic int32_t *inside; /* [THREADS_MAX] who is in with this thread number */
    _Atomic bool *bad;
};

static void mark(const void *ctx, int64_t i0, int64_t i1, int32_t thread) {
    const struct job *job = ctx;
    bool ok = thread >= 0 && thread < THREADS_MAX && i1 > i0;
    if (!ok || atomic_fetch_add(&job->inside[thread], 1) != 0) {
        atomic_store(job->bad, true);
        return;
    }
    for (int64_t i = i0; i < i1; i++) {
        atomic_fetch_add(&job->done[i], 1);
    }
    atomic_fetch_sub(&job->inside[thread], 1);
}

static void run_once(struct cpu_pool *pool, int64_t n, int64_t chunk) {
    _Atomic int32_t done[ITEMS_MAX] = {0};
    _Atomic int32_t inside[THREADS_MAX] = {0};
    _Atomic bool bad = false;
    struct job job = {.done = done, .inside = inside, .bad = &bad};
    cpu_pool_run(pool, mark, &job, n, chunk);
    assert_false(atomic_load(&bad));
    for (int64_t i = 0; i < ITEMS_MAX; i++) {
        assert_int_equal(atomic_load(&done[i]), i < n ? 1 : 0);
    }
}

static void test_cpu_pool_runs_each_item_once(void **state) {
    (void)state;
    static const int64_t counts[] = {0, 1, 2, 7, 64, ITEMS_MAX};
    static const int64_t chunks[] = {1, 3, 64, 2000};
    for (int32_t threads = 1; threads <= THREADS_MAX; threads++) {
        struct cpu_pool *pool = NULL;
        assert_ok(cpu_pool_create(threads, &pool));
        assert_int_equal(cpu_pool_threads(pool), threads);
        for (int32_t i = 0; i < ARRAY_LEN(counts) * ARRAY_LEN(chunks); i++) {
            run_once(pool, counts[i % ARRAY_LEN(counts)], chunks[i / ARRAY_LEN(counts)]);
        }
        cpu_pool_destroy(pool);
    }
}

static void test_cpu_pool_many_short_jobs(void **state) {
    (void)state;
    struct cpu_pool *pool = NULL;
    assert_ok(cpu_pool_create(3, &pool));
    for (int32_t i = 0; i < 3000; i++) {
        run_once(pool, 1 + i % 9, 1);
    }
    cpu_pool_destroy(pool);
}

/* Idle for longer than threads spin, so that each job finds them asleep. */
static void test_cpu_pool_wakes_sleepers(void **state) {
    (void)state;
    struct cpu_pool *pool = NULL;
    assert_ok(cpu_pool_create(3, &pool));
    for (int32_t i = 0; i < 100; i++) {
        int64_t end = clock_now_ns() + 500000;
        while (clock_now_ns() < end) {
        }
        run_once(pool, 64, 1);
    }
    cpu_pool_destroy(pool);
}

static void test_cpu_pool_default_is_one_per_core(void **state) {
    (void)state;
    struct cpu_pool *pool = NULL;
    assert_ok(cpu_pool_create(0, &pool));
    assert_in_range(cpu_pool_threads(pool), 1, CPU_POOL_THREADS_MAX);
    cpu_pool_destroy(pool);
    cpu_pool_destroy(NULL);
}

static void test_cpu_pool_refuses_bad_counts(void **state) {
    (void)state;
    struct cpu_pool *pool = NULL;
    assert_err(cpu_pool_create(-1, &pool), ERR_RANGE, "-1 threads");
    assert_err(cpu_pool_create(CPU_POOL_THREADS_MAX + 1, &pool), ERR_RANGE, "257");
    assert_null(pool);
}

static int create_destroy(void *ctx) {
    (void)ctx;
    struct cpu_pool *pool = NULL;
    int rc = cpu_pool_create(2, &pool);
    cpu_pool_destroy(pool);
    return rc;
}

static void test_cpu_pool_survives_failing_memory(void **state) {
    (void)state;
    static const int codes[] = {ERR_NOMEM, 0};
    test_fault_loop(FAULT_ALLOC, create_destroy, NULL, codes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_cpu_pool_runs_each_item_once), TEST(test_cpu_pool_many_short_jobs),
        TEST(test_cpu_pool_wakes_sleepers),      TEST(test_cpu_pool_default_is_one_per_core),
        TEST(test_cpu_pool_refuses_bad_counts),  TEST(test_cpu_pool_survives_failing_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
