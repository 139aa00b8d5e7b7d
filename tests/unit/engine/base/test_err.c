/* The thread's diagnosis: code, sentence, place. LABELS: threads */
#include "tests/support/support.h"

#include <pthread.h>
#include <string.h>

static void test_err_set_keeps_sentence_and_place(void **state) {
    (void)state;
    int32_t line = 0;
    assert_int_equal(err_set(ERR_FORMAT, "byte %d", 7), ERR_FORMAT);
    int32_t here = __LINE__ - 1;
    assert_string_equal(err_msg(), "byte 7");
    assert_non_null(strstr(err_place(&line), "test_err.c"));
    assert_int_equal(line, here);
    err_clear();
    assert_string_equal(err_msg(), "");
    assert_string_equal(err_place(&line), "");
}

static void test_err_set_from_its_own_sentence(void **state) {
    (void)state;
    err_set(ERR_IO, "disk");
    err_set(ERR_DB, "again: %s", err_msg());
    assert_string_equal(err_msg(), "again: disk");
}

static void test_err_ctx_goes_in_front(void **state) {
    (void)state;
    err_set(ERR_EOF, "cut");
    assert_int_equal(err_ctx(ERR_EOF, "file %s", "a"), ERR_EOF);
    assert_string_equal(err_msg(), "file a: cut");
}

static void test_err_longest_sentences_are_cut_not_overrun(void **state) {
    (void)state;
    char big[3000];
    memset(big, 'x', sizeof big);
    big[sizeof big - 1] = '\0';
    err_set(ERR_IO, "%s", big);
    assert_int_equal(strlen(err_msg()), 1023);
    err_ctx(ERR_IO, "%s", big);
    assert_int_equal(strlen(err_msg()), 1023);
    err_set(ERR_IO, "tail");
    err_ctx(ERR_IO, "%.1022s", big);
    assert_true(strlen(err_msg()) <= 1023);
    err_set(ERR_IO, "%s", big);
    err_ctx(ERR_IO, "head");
    assert_memory_equal(err_msg(), "head: xxx", 9);
    assert_true(strlen(err_msg()) >= 1000);
}

static void test_err_tables_are_whole(void **state) {
    (void)state;
    for (int code = -21; code < 0; code++) {
        assert_true(strlen(err_text(code)) > 0);
        int c = err_exit_class(code);
        assert_true(c >= 2 && c <= 4);
    }
    assert_string_equal(err_name(0), "OK");
    assert_int_equal(err_exit_class(0), 0);
    assert_string_equal(err_name(ERR_NOMEM), "NOMEM");
    assert_string_equal(err_name(ERR_CHECKSUM), "CHECKSUM");
    assert_string_equal(err_name(-999), "INTERNAL");
    assert_int_equal(err_exit_class(ERR_USAGE), 2);
    assert_int_equal(err_exit_class(ERR_FORMAT), 3);
    assert_int_equal(err_exit_class(ERR_DEVICE), 4);
}

static void *other(void *arg) {
    (void)arg;
    bool empty = err_msg()[0] == '\0';
    err_set(ERR_NET, "theirs");
    return empty ? arg : NULL;
}

static void test_err_threads_do_not_see_each_other(void **state) {
    (void)state;
    pthread_t t;
    void *ok = NULL;
    int flag = 1;
    err_set(ERR_IO, "mine");
    assert_int_equal(pthread_create(&t, NULL, other, &flag), 0);
    assert_int_equal(pthread_join(t, &ok), 0);
    assert_ptr_equal(ok, &flag);
    assert_string_equal(err_msg(), "mine");
}

int main(void) {
    const struct CMUnitTest tests[] = {TEST(test_err_set_keeps_sentence_and_place),
                                       TEST(test_err_set_from_its_own_sentence),
                                       TEST(test_err_ctx_goes_in_front),
                                       TEST(test_err_longest_sentences_are_cut_not_overrun),
                                       TEST(test_err_tables_are_whole),
                                       TEST(test_err_threads_do_not_see_each_other)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
