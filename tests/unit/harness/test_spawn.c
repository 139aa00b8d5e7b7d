/* Child programs: output, limits, exit codes, what they say on standard error. */
#include "tests/support/support.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/buf.h"
#include "harness/spawn.h"

struct fixture {
    char dir[FILE_PATH_MAX];
    char path[FILE_PATH_MAX];
    char tail[SPAWN_TAIL_MAX];
    struct filew w;
    const char *argv[8];
    struct spawn_opts o;
};

static bool always(void) {
    return true;
}

static void begin(struct fixture *f, const char *script) {
    test_tmpdir(f->dir);
    assert_ok(file_join(f->path, f->dir, "out"));
    assert_ok(filew_open(&f->w, f->path));
    const char *argv[] = {"sh", "-c", script, "sh", "a b; c", NULL};
    memcpy(f->argv, argv, sizeof argv);
    f->o = (struct spawn_opts){.argv = f->argv, .out = &f->w, .out_max = 1 << 20};
}

static void end(struct fixture *f) {
    filew_abort(&f->w);
    test_rmdir(f->dir);
}

static void test_spawn_run_when_it_prints(void **state) {
    (void)state;
    struct fixture f;
    struct buf b;
    begin(&f, "printf '%s' \"$1\"; cat; echo note >&2");
    assert_ok(spawn_run(&f.o, f.tail));
    assert_string_equal(f.tail, "note");
    assert_ok(filew_commit(&f.w));
    buf_init(&b, MEM_TEST, 1 << 20);
    assert_ok(file_read(f.path, &b));
    assert_string_equal(buf_cstr(&b), "a b; c");
    buf_fini(&b);
    end(&f);
}

static void test_spawn_run_when_both_pipes_are_full(void **state) {
    (void)state;
    struct fixture f;
    begin(&f, "head -c 300000 /dev/zero >&2; head -c 300000 /dev/zero");
    assert_ok(spawn_run(&f.o, f.tail));
    assert_int_equal(f.w.n_written, 300000);
    end(&f);
}

static void test_spawn_run_when_it_fails(void **state) {
    (void)state;
    struct fixture f;
    begin(&f, "echo first >&2; echo 'ERROR: the cause' >&2; echo last >&2; exit 3");
    assert_err(spawn_run(&f.o, f.tail), ERR_IO, "sh ended with status 3: ERROR: the cause");
    f.argv[2] = "printf 'odd\\033[1m\\n' >&2; exit 1";
    assert_err(spawn_run(&f.o, f.tail), ERR_IO, "sh ended with status 1: odd?[1m");
    f.argv[2] = "kill -9 $$";
    assert_err(spawn_run(&f.o, f.tail), ERR_IO, "sh ended by signal 9");
    end(&f);
}

static void test_spawn_run_when_program_is_missing(void **state) {
    (void)state;
    struct fixture f;
    begin(&f, "");
    f.argv[0] = "no-such-program-here";
    assert_err(spawn_run(&f.o, f.tail), ERR_NOTFOUND, "no-such-program-here: cannot start: ");
    end(&f);
}

static void test_spawn_run_when_output_is_too_long(void **state) {
    (void)state;
    struct fixture f;
    begin(&f, "cat /dev/zero");
    f.o.out_max = 100000;
    assert_err(spawn_run(&f.o, f.tail), ERR_LIMIT, "sh wrote more than 100000 bytes");
    end(&f);
}

static void test_spawn_run_when_stopped_or_late(void **state) {
    (void)state;
    struct fixture f;
    begin(&f, "cat /dev/zero");
    f.o.out = NULL;
    f.o.limit_ns = 20000000;
    assert_err(spawn_run(&f.o, f.tail), ERR_TIMEOUT, "sh: stopped after 0 s");
    f.o.stop = always;
    assert_err(spawn_run(&f.o, f.tail), ERR_CANCELED, "sh: interrupted");
    end(&f);
}

static int spawn_once(void *ctx) {
    struct fixture *f = ctx;
    return spawn_run(&f->o, f->tail);
}

static void test_spawn_run_when_resources_fail(void **state) {
    (void)state;
    struct fixture f;
    begin(&f, "echo text; echo note >&2");
    test_fault_loop(FAULT_SPAWN, spawn_once, &f, (const int[]){ERR_IO, 0});
    test_fault_loop(FAULT_ALLOC, spawn_once, &f, (const int[]){ERR_NOMEM, 0});
    test_fault_loop(FAULT_WRITE, spawn_once, &f, (const int[]){ERR_IO, 0});
    end(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_spawn_run_when_it_prints),          TEST(test_spawn_run_when_both_pipes_are_full),
        TEST(test_spawn_run_when_it_fails),           TEST(test_spawn_run_when_program_is_missing),
        TEST(test_spawn_run_when_output_is_too_long), TEST(test_spawn_run_when_stopped_or_late),
        TEST(test_spawn_run_when_resources_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
