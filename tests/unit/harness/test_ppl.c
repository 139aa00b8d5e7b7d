/* Windows of every definition laid out by hand, and the figures of small loss lists. */
#include "tests/support/support.h"

#include <math.h>
#include <string.h>

#include "harness/ppl.h"

/* n_want windows as (begin, end, score_from). */
static void check(enum ppl_def d,
                  int64_t n,
                  int32_t window,
                  int32_t stride,
                  bool limited,
                  const int64_t (*want)[3],
                  int32_t n_want) {
    struct ppl_windows w;
    int64_t scored = 0;
    assert_ok(ppl_windows_make(d, n, window, stride, limited, &w));
    assert_int_equal(w.n, n_want);
    for (int32_t i = 0; i < n_want; i++) {
        assert_int_equal(w.w[i].begin, want[i][0]);
        assert_int_equal(w.w[i].end, want[i][1]);
        assert_int_equal(w.w[i].score_from, want[i][2]);
        scored += want[i][1] - want[i][2];
    }
    assert_int_equal(w.n_scored, scored);
    ppl_windows_fini(&w);
}

static void test_ppl_hf_strided(void **state) {
    (void)state;
    /* the guide's loop: the last window ends at the text's end, every target counts once */
    check(PPL_HF_STRIDED, 10, 4, 2, false,
          (const int64_t[][3]){{0, 4, 1}, {2, 6, 4}, {4, 8, 6}, {6, 10, 8}}, 4);
    check(PPL_HF_STRIDED, 9, 4, 2, false,
          (const int64_t[][3]){{0, 4, 1}, {2, 6, 4}, {4, 8, 6}, {6, 9, 8}}, 4);
    check(PPL_HF_STRIDED, 3, 8, 8, false, (const int64_t[][3]){{0, 3, 1}}, 1);
    /* stride = window: the first token of each window is no target */
    check(PPL_HF_STRIDED, 8, 4, 4, false, (const int64_t[][3]){{0, 4, 1}, {4, 8, 5}}, 2);
    check(PPL_HF_STRIDED, 7, 4, 1, false,
          (const int64_t[][3]){{0, 4, 1}, {1, 5, 4}, {2, 6, 5}, {3, 7, 6}}, 4);
}

static void test_ppl_disjoint(void **state) {
    (void)state;
    check(PPL_DISJOINT, 10, 4, 1, false, (const int64_t[][3]){{0, 4, 1}, {4, 8, 5}, {8, 10, 9}}, 3);
    check(PPL_DISJOINT, 10, 4, 1, true, (const int64_t[][3]){{0, 4, 1}, {4, 8, 5}}, 2);
    /* a rest of one token predicts nothing */
    check(PPL_DISJOINT, 9, 4, 4, false, (const int64_t[][3]){{0, 4, 1}, {4, 8, 5}}, 2);
}

static void test_ppl_llama_cpp(void **state) {
    (void)state;
    check(PPL_LLAMA_CPP, 19, 8, 8, false, (const int64_t[][3]){{0, 8, 5}, {8, 16, 13}}, 2);
    check(PPL_LLAMA_CPP, 16, 8, 8, true, (const int64_t[][3]){{0, 8, 5}, {8, 16, 13}}, 2);
}

static void test_ppl_seed(void **state) {
    (void)state;
    struct ppl_windows w;
    const int64_t start[] = {0, 5, 6, 6, 16};
    check(PPL_SEED, 10, 4, 4, false, (const int64_t[][3]){{0, 4, 1}, {4, 8, 5}, {8, 10, 9}}, 3);
    /* rows: a row of one token and an empty one are left out, a long one is cut */
    assert_ok(ppl_windows_rows(start, 4, 8, &w));
    assert_int_equal(w.n, 2);
    assert_int_equal(w.w[0].end, 5);
    assert_int_equal(w.w[1].begin, 6);
    assert_int_equal(w.w[1].end, 14);
    assert_int_equal(w.w[1].score_from, 7);
    assert_int_equal(w.n_scored, 11);
    ppl_windows_fini(&w);
}

static void test_ppl_refuses(void **state) {
    (void)state;
    struct ppl_windows w;
    enum ppl_def d;
    const int64_t start[] = {0, 1, 2};
    assert_err(ppl_windows_make(PPL_HF_STRIDED, 10, 1, 1, false, &w), ERR_RANGE, "window 1");
    assert_err(ppl_windows_make(PPL_HF_STRIDED, 10, 4, 5, false, &w), ERR_RANGE, "stride 5");
    assert_err(ppl_windows_make(PPL_HF_STRIDED, 10, 4, 0, false, &w), ERR_RANGE, "stride 0");
    assert_err(ppl_windows_make(PPL_HF_STRIDED, 1, 4, 4, false, &w), ERR_RANGE, "1 tokens");
    assert_err(ppl_windows_make(PPL_LLAMA_CPP, 7, 8, 8, false, &w), ERR_RANGE, "llama.cpp");
    assert_err(ppl_windows_make(PPL_DISJOINT, 7, 8, 8, true, &w), ERR_RANGE, "7 tokens");
    assert_err(ppl_windows_rows(start, 2, 8, &w), ERR_RANGE, "no row");
    assert_err(ppl_def_parse("hf_strided", &d), ERR_USAGE, "known are hf-strided, disjoint");
    for (int32_t i = 0; i < PPL_DEF_N; i++) {
        assert_ok(ppl_def_parse(ppl_def_name((enum ppl_def)i), &d));
        assert_int_equal((int)d, i);
    }
}

static void test_ppl_figures(void **state) {
    (void)state;
    struct ppl_windows w;
    struct ppl_figure f;
    /* windows of 4 and 3 tokens with targets 3 and 2 */
    const double nll[] = {1, 2, 3, 5, 7};
    assert_ok(ppl_windows_make(PPL_DISJOINT, 7, 4, 4, false, &w));
    ppl_figure(PPL_DISJOINT, &w, nll, &f);
    assert_rel(f.nll_sum, 18, 1e-15);
    assert_rel(f.n, 5, 1e-15);
    assert_rel(f.ppl, exp(18.0 / 5), 1e-14);
    assert_true(isnan(f.lo) && isnan(f.hi)); /* five losses carry no interval */
    /* (mean 2 over 4 tokens + mean 6 over 3) / 7 */
    ppl_figure(PPL_SEED, &w, nll, &f);
    assert_rel(f.nll_sum, 2.0 * 4 + 6.0 * 3, 1e-15);
    assert_rel(f.ppl, exp(26.0 / 7), 1e-14);
    ppl_windows_fini(&w);
}

static void test_ppl_interval_holds_the_figure(void **state) {
    (void)state;
    struct ppl_windows w;
    struct ppl_figure f;
    double nll[400];
    for (int32_t i = 0; i < 400; i++) {
        nll[i] = 2 + sin(i * 12.9898) * 0.5;
    }
    assert_ok(ppl_windows_make(PPL_HF_STRIDED, 401, 16, 8, false, &w));
    assert_int_equal(w.n_scored, 400);
    ppl_figure(PPL_HF_STRIDED, &w, nll, &f);
    assert_true(f.lo < f.ppl && f.ppl < f.hi);
    /* a relative error of about sd / sqrt(n) = 0.35 / 20 */
    assert_true(f.hi / f.lo > 1.01 && f.hi / f.lo < 1.2);
    ppl_windows_fini(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {TEST(test_ppl_hf_strided),
                                       TEST(test_ppl_disjoint),
                                       TEST(test_ppl_llama_cpp),
                                       TEST(test_ppl_seed),
                                       TEST(test_ppl_refuses),
                                       TEST(test_ppl_figures),
                                       TEST(test_ppl_interval_holds_the_figure)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
