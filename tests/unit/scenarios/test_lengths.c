/* Length distributions: moments, bounds, the built-in table against its source, bad tables. */
#include "tests/support/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scenarios/lengths.h"
#include "scenarios/trace.h"

enum { N = 40000 };

static void moments(const struct lengths_spec *spec, double *mean, double *sd) {
    struct lengths l;
    struct rng r;
    double sum = 0;
    double square = 0;
    rng_init(&r, 42, 0);
    assert_ok(lengths_init(&l, spec, LENGTH_COLUMN_INPUT));
    for (int32_t i = 0; i < N; i++) {
        int32_t x = lengths_draw(&l, &r);
        assert_true(x >= 1 && (spec->max == 0 || x <= spec->max));
        sum += x;
        square += (double)x * x;
    }
    lengths_fini(&l);
    *mean = sum / N;
    *sd = sqrt(square / N - *mean * *mean);
}

static void test_lengths_draw_has_the_given_moments(void **state) {
    (void)state;
    double mean = 0;
    double sd = 0;
    moments(&(struct lengths_spec){.kind = LENGTH_FIXED, .fixed = 64}, &mean, &sd);
    assert_rel(mean, 64, 1e-12);
    moments(&(struct lengths_spec){.kind = LENGTH_UNIFORM, .min = 10, .max = 20}, &mean, &sd);
    assert_rel(mean, 15, 0.01);
    assert_rel(sd, sqrt(120.0 / 12), 0.02);
    moments(&(struct lengths_spec){.kind = LENGTH_NORMAL, .mean = 500, .sd = 50}, &mean, &sd);
    assert_rel(mean, 500, 0.01);
    assert_rel(sd, 50, 0.02);
    moments(&(struct lengths_spec){.kind = LENGTH_LOGNORMAL, .mean = 256, .cv = 0.8}, &mean, &sd);
    assert_rel(mean, 256, 0.02);
    assert_rel(sd / mean, 0.8, 0.04);
}

static void test_lengths_draw_is_clamped(void **state) {
    (void)state;
    double mean = 0;
    double sd = 0;
    const struct lengths_spec s = {
        .kind = LENGTH_EMPIRICAL, .table = "azure-2023-conv", .max = 256};
    moments(&s, &mean, &sd);
    assert_true(mean > 200 && mean <= 256);
}

static int by_value(const void *a, const void *b) {
    return *(const int32_t *)a - *(const int32_t *)b;
}

static void check_column(const struct trace *t, const int32_t *column, enum length_column which) {
    struct lengths l;
    int32_t *sorted = mem_array(MEM_TEST, t->n, sizeof *sorted);
    const struct lengths_spec s = {.kind = LENGTH_EMPIRICAL, .table = "azure-2023-conv"};
    assert_non_null(sorted);
    memcpy(sorted, column, (size_t)t->n * sizeof *sorted);
    qsort(sorted, (size_t)t->n, sizeof *sorted, by_value);
    assert_ok(lengths_init(&l, &s, which));
    assert_int_equal(l.n_quantiles, 201);
    for (int32_t i = 0; i < l.n_quantiles; i++) {
        double pos = (double)i * (double)(t->n - 1) / (l.n_quantiles - 1);
        int64_t k = i64_min((int64_t)pos, t->n - 2);
        double want = sorted[k] + (pos - (double)k) * (sorted[k + 1] - sorted[k]);
        assert_rel(l.quantiles[i], want, 1e-6);
    }
    lengths_fini(&l);
    mem_free(sorted);
}

static void test_lengths_table_equals_its_source(void **state) {
    (void)state;
    struct trace t;
    const char *path = test_shared("azure-llm-2023/AzureLLMInferenceTrace_conv.csv");
    if (!path) {
        print_message("skipped: the Azure trace is not on this machine\n");
        skip();
    }
    assert_ok(trace_read(path, &t));
    assert_int_equal(t.n, 19366);
    check_column(&t, t.n_prompt, LENGTH_COLUMN_INPUT);
    check_column(&t, t.n_output, LENGTH_COLUMN_OUTPUT);
    trace_fini(&t);
}

static void test_lengths_parse_table_refuses_damage(void **state) {
    (void)state;
    static const struct {
        const char *text;
        const char *part;
    } cases[] = {
        {"p,in,out\n", "t.csv:1: want the header"},
        {"p,input_tokens,output_tokens\n0,1,1\n", "1 rows, want at least 2"},
        {"p,input_tokens,output_tokens\n0,1,1\n1,0,2\n", "t.csv:3: 0 tokens after 1"},
        {"p,input_tokens,output_tokens\n0,1,1\n0.7,2,2\n1,3,3\n", "t.csv:3: probability 0.7"},
        {"p,input_tokens,output_tokens\n0,1\n", "t.csv:2: \"0,1\""},
        {"p,input_tokens,output_tokens\n0,x,1\n", "t.csv:2"},
        {"p,input_tokens,output_tokens\n0,-4,1\n", "t.csv:2"}};
    for (int32_t i = 0; i < ARRAY_LEN(cases); i++) {
        double *q = NULL;
        int32_t n = 0;
        assert_err(lengths_parse_table("t.csv", cases[i].text, (int64_t)strlen(cases[i].text),
                                       LENGTH_COLUMN_INPUT, &q, &n),
                   ERR_FORMAT, cases[i].part);
    }
}

static void test_lengths_init_refuses_nonsense(void **state) {
    (void)state;
    struct lengths l;
    const struct lengths_spec none = {0};
    const struct lengths_spec fixed = {.kind = LENGTH_FIXED};
    const struct lengths_spec table = {.kind = LENGTH_EMPIRICAL, .table = "nope"};
    const struct lengths_spec file = {.kind = LENGTH_EMPIRICAL, .file = "/no/such/file"};
    assert_err(lengths_init(&l, &none, LENGTH_COLUMN_INPUT), ERR_CONFIG, "no length distribution");
    assert_err(lengths_init(&l, &fixed, LENGTH_COLUMN_INPUT), ERR_CONFIG, "from 0 to 0");
    assert_err(lengths_init(&l, &table, LENGTH_COLUMN_INPUT), ERR_CONFIG, "azure-2023-conv");
    assert_err(lengths_init(&l, &file, LENGTH_COLUMN_INPUT), ERR_NOTFOUND, "/no/such/file");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_lengths_draw_has_the_given_moments),
        TEST(test_lengths_draw_is_clamped),
        TEST(test_lengths_table_equals_its_source),
        TEST(test_lengths_parse_table_refuses_damage),
        TEST(test_lengths_init_refuses_nonsense),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
