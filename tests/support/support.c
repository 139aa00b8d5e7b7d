#include "tests/support/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FAULT_LOOP_MAX = 20000 };

static int64_t live_before;

int test_setup(void **state) {
    (void)state;
    fault_disarm();
    err_clear();
    live_before = mem_live(MEM_N);
    return 0;
}

int test_teardown(void **state) {
    (void)state;
    fault_disarm();
    int64_t leaked = mem_live(MEM_N) - live_before;
    if (leaked != 0) {
        print_error("%lld bytes still live after the test\n", (long long)leaked);
        return -1;
    }
    return 0;
}

void test_assert_ok(int rc, const char *file, int line) {
    if (rc) {
        print_error("%s: %s\n", err_name(rc), err_msg());
        _fail(file, line);
    }
}

void test_assert_err(int rc, int want, const char *part, const char *file, int line) {
    if (rc != want || !strstr(err_msg(), part)) {
        print_error("got %s \"%s\", want %s with \"%s\"\n", err_name(rc), err_msg(), err_name(want),
                    part);
        _fail(file, line);
    }
}

void test_assert_close(
    const float *got, const float *want, int64_t n, double tol, const char *file, int line) {
    double worst = 0;
    int64_t at = -1;
    for (int64_t i = 0; i < n; i++) {
        double d = fabs((double)got[i] - (double)want[i]);
        if (!(d <= tol) && (at < 0 || !(d <= worst))) {
            worst = d;
            at = i;
        }
    }
    if (at >= 0) {
        print_error("element %lld of %lld: got %.9g, want %.9g, off by %.3g, at most %.3g\n",
                    (long long)at, (long long)n, (double)got[at], (double)want[at], worst, tol);
        _fail(file, line);
    }
}

void test_assert_rel(double got, double want, double rel, const char *file, int line) {
    if (!(fabs(got - want) <= rel * fabs(want))) {
        print_error("got %.12g, want %.12g, relative error %.3g, at most %.3g\n", got, want,
                    fabs(got - want) / fabs(want), rel);
        _fail(file, line);
    }
}

static char *next_path(void) {
    static char paths[4][FILE_PATH_MAX];
    static int32_t i;
    i = (i + 1) % 4;
    return paths[i];
}

const char *test_golden(const char *rel) {
    const char *root = getenv("TRILEMMA_SOURCE");
    char *p = next_path();
    snprintf(p, FILE_PATH_MAX, "%s/tests/golden/data/%s", root ? root : ".", rel);
    return p;
}

const char *test_shared(const char *rel) {
    const char *root = getenv("TRILEMMA_SHARED");
    const char *source = getenv("TRILEMMA_SOURCE");
    char *p = next_path();
    if (root) {
        snprintf(p, FILE_PATH_MAX, "%s/%s", root, rel);
    } else {
        snprintf(p, FILE_PATH_MAX, "%s/../shared/data/%s", source ? source : ".", rel);
    }
    return file_exists(p) ? p : NULL;
}

void test_tmpdir(char dst[FILE_PATH_MAX]) {
    const char *root = getenv("TMPDIR");
    snprintf(dst, FILE_PATH_MAX, "%s/trilemma-test-XXXXXX", root ? root : "/tmp");
    if (!mkdtemp(dst)) {
        fail_msg("cannot make a folder like %s", dst);
    }
}

void test_rmdir(const char *dir) {
    char cmd[FILE_PATH_MAX + 16];
    snprintf(cmd, sizeof cmd, "rm -rf '%s'", dir);
    if (system(cmd) != 0) {
        fail_msg("cannot remove %s", dir);
    }
}

const char *test_smollm2(void) {
    const char *env = getenv("TRILEMMA_SMOLLM2");
    const char *cache = getenv("TRILEMMA_CACHE");
    const char *xdg = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");
    const char *name = "smollm2-135m/SmolLM2-135M-Instruct.Q4_1.gguf";
    char *p = next_path();
    if (env) {
        snprintf(p, FILE_PATH_MAX, "%s", env);
    } else if (cache) {
        snprintf(p, FILE_PATH_MAX, "%s/%s", cache, name);
    } else if (xdg) {
        snprintf(p, FILE_PATH_MAX, "%s/trilemma/%s", xdg, name);
    } else {
        snprintf(p, FILE_PATH_MAX, "%s/.cache/trilemma/%s", home ? home : "", name);
    }
    return file_exists(p) ? p : NULL;
}

static void fault_once(enum fault_point point,
                       fault_body body,
                       void *ctx,
                       const int *codes,
                       int32_t n,
                       bool for_ever,
                       int64_t *fired) {
    int64_t before = mem_live(MEM_N);
    fault_arm(point, n, for_ever);
    int rc = body(ctx);
    *fired = fault_disarm();
    bool listed = rc == 0;
    for (const int *c = codes; *c; c++) {
        listed = listed || rc == *c;
    }
    if (!listed) {
        fail_msg("fault %d of point %d: code %s (%s) is not listed", n, (int)point, err_name(rc),
                 err_msg());
    }
    if (mem_live(MEM_N) != before) {
        fail_msg("fault %d of point %d: %lld bytes leaked", n, (int)point,
                 (long long)(mem_live(MEM_N) - before));
    }
}

void test_fault_loop(enum fault_point point, fault_body body, void *ctx, const int *codes) {
    for (int32_t n = 1; n < FAULT_LOOP_MAX; n++) {
        int64_t once = 0;
        int64_t ever = 0;
        fault_once(point, body, ctx, codes, n, false, &once);
        fault_once(point, body, ctx, codes, n, true, &ever);
        if (once == 0 && ever == 0) {
            if (n == 1) {
                fail_msg("fault point %d was never reached", (int)point);
            }
            return;
        }
    }
    fail_msg("fault loop of point %d does not end", (int)point);
}
