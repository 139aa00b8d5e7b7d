/* What every test needs: memory accounting, closeness, paths, temporary folders, fault loops. */
#ifndef TESTS_SUPPORT_SUPPORT_H
#define TESTS_SUPPORT_SUPPORT_H

/* cmocka 1.1.5 wants these four first, in this order */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/base/err.h"
#include "engine/base/fault.h"
#include "engine/base/file.h"
#include "engine/base/mem.h"

/* cmocka setup and teardown: the teardown fails the test when mem_* bytes are still live. */
int test_setup(void **state);
int test_teardown(void **state);

/* A unit test with both. */
#define TEST(f) cmocka_unit_test_setup_teardown(f, test_setup, test_teardown)

/* Fails with the stored sentence unless rc is 0. */
#define assert_ok(rc) test_assert_ok((rc), __FILE__, __LINE__)
void test_assert_ok(int rc, const char *file, int line);

/* Fails unless rc is the wanted code and the sentence holds every one of the given parts. */
#define assert_err(rc, want, part) test_assert_err((rc), (want), (part), __FILE__, __LINE__)
void test_assert_err(int rc, int want, const char *part, const char *file, int line);

/* Fails unless |got[i] - want[i]| <= tol for all i; names the worst element. NaN never passes. */
#define assert_close(got, want, n, tol)                                                            \
    test_assert_close((got), (want), (n), (tol), __FILE__, __LINE__)
void test_assert_close(
    const float *got, const float *want, int64_t n, double tol, const char *file, int line);

/* Fails unless |got - want| <= rel * |want|. */
#define assert_rel(got, want, rel) test_assert_rel((got), (want), (rel), __FILE__, __LINE__)
void test_assert_rel(double got, double want, double rel, const char *file, int line);

/* Paths. golden: under tests/golden/data (committed). shared: under $TRILEMMA_SHARED/.. i.e. the
 * data folder (default ../shared/data); NULL when absent, in which case the test says skip().
 * own: static buffers, valid until the fourth next call. */
const char *test_golden(const char *rel);
const char *test_shared(const char *rel);

/* A fresh folder under $TMPDIR, removed by test_rmdir (also with content). */
void test_tmpdir(char dst[FILE_PATH_MAX]);
void test_rmdir(const char *dir);

/* Path of SmolLM2-135M-Instruct.Q4_1.gguf: $TRILEMMA_SMOLLM2, else the trilemma cache; NULL when
 * it is not on this machine. */
const char *test_smollm2(void);

/* Runs body with the n-th hit of point failing, once and for ever, n = 1, 2, ... until none fires.
 * body returns 0 or a negative error; a fired fault must give one of the listed codes (ended by 0)
 * or success, never a crash or a leak. */
typedef int (*fault_body)(void *ctx);
void test_fault_loop(enum fault_point point, fault_body body, void *ctx, const int *codes);

#endif
