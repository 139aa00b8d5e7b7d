/* Nobody as a target: events at exact times, in order, and an end for each request. */
#include "tests/support/support.h"

#include "engine/base/clock.h"
#include "harness/target_null.h"

enum { N = 50 };

static int64_t submit(struct target *t, int32_t tag, int32_t max_new) {
    static const int32_t ids[] = {1, 2, 3};
    int64_t sent = -1;
    const struct target_request q = {
        .tag = (uint64_t)tag, .ids = ids, .n_ids = 3, .max_new = max_new};
    assert_ok(target_submit(t, &q, &sent));
    return sent;
}

static void test_target_null_times(void **state) {
    (void)state;
    struct target *t = NULL;
    int64_t sent[N];
    int32_t n_tokens[N] = {0};
    int32_t n_over = 0;
    int64_t last = 0;
    const struct target_null_opts o = {.ttft_ns = 4000000, .itl_ns = 1000000};
    assert_ok(target_null_open(&o, &t));
    assert_ok(target_start(t));
    for (int32_t i = 0; i < N; i++) {
        sent[i] = submit(t, i, i % 5);
    }
    while (n_over < N) {
        struct target_event ev[7];
        int32_t n = target_poll(t, ev, 7);
        for (int32_t i = 0; i < n; i++) {
            int32_t k = (int32_t)ev[i].tag;
            bool is_end = ev[i].kind == TARGET_END;
            int32_t idx = is_end ? i32_max(0, n_tokens[k] - 1) : n_tokens[k];
            assert_int_equal(ev[i].t_ns, sent[k] + o.ttft_ns + idx * o.itl_ns);
            assert_true(ev[i].t_ns <= clock_now_ns());
            assert_true(n > 1 || ev[i].t_ns >= last);
            last = ev[i].t_ns;
            n_tokens[k] += is_end ? 0 : ev[i].n_tokens;
            if (is_end) {
                n_over++;
                assert_int_equal(ev[i].outcome->n_output, k % 5);
                assert_int_equal(ev[i].outcome->n_prompt, 3);
                assert_int_equal(n_tokens[k], k % 5);
            }
        }
    }
    assert_ok(target_error(t));
    target_stop(t);
    target_close(t);
}

static void test_target_null_cancel(void **state) {
    (void)state;
    struct target *t = NULL;
    struct target_event ev[8];
    assert_ok(target_null_open(&(struct target_null_opts){.ttft_ns = INT64_C(3600000000000)}, &t));
    assert_ok(target_start(t));
    submit(t, 0, 4);
    submit(t, 1, 4);
    assert_int_equal(target_poll(t, ev, 8), 0);
    assert_ok(target_cancel(t, 1));
    assert_ok(target_cancel(t, 9));
    assert_int_equal(target_poll(t, ev, 8), 1);
    assert_int_equal(ev[0].tag, 1);
    assert_int_equal(ev[0].kind, TARGET_END);
    assert_int_equal(ev[0].end, TARGET_CANCELED);
    target_close(t);
}

static int open_and_submit(void *ctx) {
    static const int32_t ids[] = {1};
    struct target *t = NULL;
    int64_t sent = 0;
    (void)ctx;
    int rc = target_null_open(&(struct target_null_opts){0}, &t);
    for (uint64_t i = 0; i < 100 && !rc; i++) {
        rc = target_submit(
            t, &(struct target_request){.tag = i, .ids = ids, .n_ids = 1, .max_new = 1}, &sent);
    }
    target_close(t);
    return rc;
}

static void test_target_null_without_memory(void **state) {
    (void)state;
    static const int codes[] = {ERR_NOMEM, 0};
    test_fault_loop(FAULT_ALLOC, open_and_submit, NULL, codes);
}

int main(void) {
    const struct CMUnitTest tests[] = {TEST(test_target_null_times), TEST(test_target_null_cancel),
                                       TEST(test_target_null_without_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
