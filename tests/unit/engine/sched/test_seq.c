/* A sequence's memory and the names of its ends. */
#include "tests/support/support.h"

#include "engine/sched/seq.h"

static void test_seq_has_room_for_prompt_and_answer(void **state) {
    (void)state;
    const int32_t ids[5] = {10, 11, 12, 13, 14};
    struct seq *s = NULL;
    assert_ok(seq_create(ids, 5, 4, 4, 2, &s));
    assert_true(s->cap == 9 && s->cap_block == 3 && s->n_prompt == 5 && s->n_known == 5);
    assert_true(s->n_computed == 0 && s->held[1].n == 0 && s->finish == FINISH_NONE);
    assert_memory_equal(s->tok, ids, sizeof ids);
    seq_destroy(s);
    assert_ok(seq_create(ids, 4, 0, 4, 1, &s));
    assert_int_equal(s->cap_block, 1);
    seq_destroy(s);
    seq_destroy(NULL);
}

static void test_seq_refuses_more_than_can_be_counted(void **state) {
    (void)state;
    const int32_t ids[1] = {1};
    struct seq *s = NULL;
    assert_err(seq_create(ids, 1, INT32_MAX, 16, 1, &s), ERR_RANGE, "2147483647 new");
    assert_err(seq_create(ids, 0, 5, 16, 1, &s), ERR_RANGE, "0 prompt");
    assert_err(seq_create(ids, 1, 5, 16, KVGROUP_MAX + 1, &s), ERR_RANGE, "in 3 lists");
    assert_null(s);
}

static void test_seq_finish_names(void **state) {
    (void)state;
    assert_string_equal(finish_name(FINISH_NONE), "none");
    assert_string_equal(finish_name(FINISH_STOP), "stop");
    assert_string_equal(finish_name(FINISH_LENGTH), "length");
    assert_string_equal(finish_name(FINISH_ABORT), "abort");
    assert_string_equal(finish_name(FINISH_SCORED), "scored");
    assert_string_equal(finish_name(FINISH_ERROR), "error");
}

static int create_once(void *ctx) {
    (void)ctx;
    const int32_t ids[3] = {1, 2, 3};
    struct seq *s = NULL;
    int rc = seq_create(ids, 3, 3, 2, 2, &s);
    seq_destroy(s);
    return rc;
}

static void test_seq_without_memory(void **state) {
    (void)state;
    static const int codes[] = {ERR_NOMEM, 0};
    test_fault_loop(FAULT_ALLOC, create_once, NULL, codes);
}

int main(void) {
    const struct CMUnitTest tests[] = {TEST(test_seq_has_room_for_prompt_and_answer),
                                       TEST(test_seq_refuses_more_than_can_be_counted),
                                       TEST(test_seq_finish_names), TEST(test_seq_without_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
