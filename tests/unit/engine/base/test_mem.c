/* Accounts, alignment and failure of mem_*. */
#include "tests/support/support.h"

#include <string.h>

static bool all_zero(const uint8_t *p, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        if (p[i]) {
            return false;
        }
    }
    return true;
}

static void test_mem_calloc_is_aligned_zeroed_and_counted(void **state) {
    (void)state;
    void *p[9];
    int64_t live = mem_live(MEM_TEST);
    int64_t all = mem_live(MEM_N);
    int64_t calls = mem_calls();
    int64_t sum = 0;
    for (int32_t i = 0; i < ARRAY_LEN(p); i++) {
        int64_t n = (int64_t)i * i * 37;
        p[i] = mem_calloc(MEM_TEST, n);
        assert_non_null(p[i]);
        assert_int_equal((uintptr_t)p[i] % 64, 0);
        assert_true(all_zero(p[i], n));
        memset(p[i], 0xff, (size_t)n);
        sum += n;
    }
    assert_int_equal(mem_live(MEM_TEST) - live, sum);
    assert_int_equal(mem_live(MEM_N) - all, sum);
    assert_int_equal(mem_calls() - calls, ARRAY_LEN(p));
    for (int32_t i = 0; i < ARRAY_LEN(p); i++) {
        mem_free(p[i]);
    }
    assert_int_equal(mem_live(MEM_TEST), live);
    assert_int_equal(mem_calls() - calls, ARRAY_LEN(p));
    mem_free(NULL);
}

static void test_mem_peak_is_the_high_water_mark(void **state) {
    (void)state;
    int64_t before = mem_live(MEM_N);
    void *p = mem_calloc(MEM_TEST, 1 << 20);
    int64_t peak = mem_peak();
    assert_true(peak >= before + (1 << 20));
    mem_free(p);
    assert_int_equal(mem_peak(), peak);
}

static void test_mem_realloc_keeps_content_and_zeroes_the_rest(void **state) {
    (void)state;
    uint8_t *p = mem_realloc(MEM_TEST, NULL, 10);
    memset(p, 7, 10);
    p = mem_realloc(MEM_TEST, p, 1000);
    assert_int_equal((uintptr_t)p % 64, 0);
    assert_true(p[0] == 7 && p[9] == 7 && all_zero(p + 10, 990));
    p = mem_realloc(MEM_TEST, p, 3);
    assert_true(p[0] == 7 && p[2] == 7);
    int64_t live = mem_live(MEM_TEST);
    fault_arm(FAULT_ALLOC, 1, false);
    assert_null(mem_realloc(MEM_TEST, p, 50));
    assert_true(p[0] == 7 && p[2] == 7);
    assert_int_equal(mem_live(MEM_TEST), live);
    mem_free(p);
}

static void test_mem_realloc_moves_the_account_to_the_new_tag(void **state) {
    (void)state;
    int64_t data = mem_live(MEM_DATA);
    void *p = mem_calloc(MEM_TEST, 100);
    p = mem_realloc(MEM_DATA, p, 200);
    assert_int_equal(mem_live(MEM_DATA), data + 200);
    mem_free(p);
    assert_int_equal(mem_live(MEM_DATA), data);
}

static void test_mem_impossible_sizes_are_refused(void **state) {
    (void)state;
    assert_null(mem_calloc(MEM_TEST, -1));
    assert_non_null(strstr(err_msg(), "cannot allocate -1 bytes for test"));
    assert_null(mem_calloc(MEM_TEST, INT64_MAX));
    assert_null(mem_array(MEM_TEST, INT64_MAX, 2));
    assert_null(mem_array(MEM_TEST, -1, 2));
    assert_null(mem_array(MEM_TEST, INT64_C(1) << 62, 4));
    assert_null(mem_array(MEM_TEST, 1, INT64_MAX));
    void *p = mem_array(MEM_TEST, 0, 8);
    assert_non_null(p);
    mem_free(p);
}

static void test_mem_fault_gives_null_once_or_for_ever(void **state) {
    (void)state;
    fault_arm(FAULT_ALLOC, 2, false);
    void *a = mem_calloc(MEM_TEST, 1);
    assert_null(mem_calloc(MEM_TEST, 1));
    void *b = mem_calloc(MEM_TEST, 1);
    assert_int_equal(fault_disarm(), 1);
    assert_true(a && b);
    mem_free(a);
    mem_free(b);
    fault_arm(FAULT_ALLOC, 1, true);
    assert_null(mem_calloc(MEM_TEST, 1));
    assert_null(mem_strdup(MEM_TEST, "x", -1));
    assert_int_equal(fault_disarm(), 2);
}

static void test_mem_strdup_copies_a_part_or_all(void **state) {
    (void)state;
    char *a = mem_strdup(MEM_TEST, "hello", -1);
    char *b = mem_strdup(MEM_TEST, "hello", 2);
    char *c = mem_strdup(MEM_TEST, "", 0);
    assert_string_equal(a, "hello");
    assert_string_equal(b, "he");
    assert_string_equal(c, "");
    mem_free(a);
    mem_free(b);
    mem_free(c);
}

int main(void) {
    const struct CMUnitTest tests[] = {TEST(test_mem_calloc_is_aligned_zeroed_and_counted),
                                       TEST(test_mem_peak_is_the_high_water_mark),
                                       TEST(test_mem_realloc_keeps_content_and_zeroes_the_rest),
                                       TEST(test_mem_realloc_moves_the_account_to_the_new_tag),
                                       TEST(test_mem_impossible_sizes_are_refused),
                                       TEST(test_mem_fault_gives_null_once_or_for_ever),
                                       TEST(test_mem_strdup_copies_a_part_or_all)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
