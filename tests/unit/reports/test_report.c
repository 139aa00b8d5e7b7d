/* Reports from the synthetic database: JSON against an independent computation, the page's
 * escaping, the comparison's verdict and limits, a report without gnuplot. */
#include "tests/support/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/json.h"
#include "reports/html.h"
#include "reports/report.h"
#include "reports/stat.h"
#include "tests/support/db_fixture.h"

static struct store *open_fixture(char dir[FILE_PATH_MAX], struct db_fixture *f) {
    char path[FILE_PATH_MAX];
    struct store *s = NULL;
    test_tmpdir(dir);
    assert_ok(file_join(path, dir, "results.db"));
    assert_ok(store_open(path, STORE_WRITE, &s));
    assert_ok(db_fixture_write(s, f));
    return s;
}

static void close_fixture(struct store *s, const char *dir) {
    assert_ok(store_close(s));
    test_rmdir(dir);
}

static double member(const json_t *o, const char *a, const char *b) {
    const json_t *v = json_object_get(json_object_get(o, a), b);
    assert_true(json_is_number(v));
    return json_number_value(v);
}

static double figure(const json_t *run, const char *metric, const char *stat) {
    return member(json_object_get(run, metric), stat, "value");
}

/* Mean and p95 over the requests of one run that did not fail, each taken `times` times, straight
 * from the fixture. */
static void expect(const double *x, int32_t times, bool skips, double *mean, double *p95) {
    static double sorted[DB_REQUESTS * DB_OUTPUT];
    int64_t n = 0;
    double sum = 0;
    for (int32_t i = 0; i < DB_REQUESTS * times; i++) {
        if (skips && i / times == DB_FAILED) {
            continue;
        }
        sum += x[i / times];
        sorted[n++] = x[i / times];
    }
    stat_sort(sorted, n);
    *mean = sum / (double)n;
    double pos = 0.95 * (double)(n - 1);
    int64_t k = (int64_t)pos;
    *p95 = sorted[k] + (pos - (double)k) * (sorted[k + 1] - sorted[k]);
}

static void check_run(const json_t *run, const struct db_fixture *f, int32_t t, int32_t p) {
    const struct db_run *want = &f->runs[t][p];
    bool skips = t == 1 && p == 1;
    double mean = 0;
    double p95 = 0;
    expect(want->ttft, 1, skips, &mean, &p95);
    assert_rel(figure(run, "ttft", "mean"), mean, 1e-6);
    assert_rel(figure(run, "ttft", "p95"), p95, 1e-6);
    expect(want->gap, DB_OUTPUT - 1, skips, &mean, &p95);
    assert_rel(figure(run, "tpot", "mean"), mean, 1e-6);
    assert_rel(figure(run, "itl", "mean"), mean, 1e-6);
    assert_rel(figure(run, "itl", "p95"), p95, 1e-6);
    assert_rel(member(run, "requests", "offered"), DB_REQUESTS, 1e-12);
    assert_rel(member(run, "requests", "ok"), DB_REQUESTS - (skips ? 1 : 0), 1e-12);
    assert_rel(member(run, "perplexity", "value"), f->perplexity[t], 1e-9);
    assert_true(t == 0 ? json_is_null(json_object_get(run, "kl"))
                       : fabs(member(run, "kl", "value") - f->kl[t]) < 1e-9);
    assert_string_equal(json_string_value(json_object_get(run, "verdict")), "VALID");
}

/* Tokens of one run whose times lie in [from, to), and good requests by the fixture's limits. */
static void check_rates(const json_t *run, const struct db_fixture *f, int32_t t, int32_t p) {
    const struct db_run *w = &f->runs[t][p];
    double from = member(run, "window", "from");
    double to = member(run, "window", "to");
    double n_tokens = 0;
    double n_good = 0;
    for (int32_t i = 0; i < DB_REQUESTS; i++) {
        bool fails = t == 1 && p == 1 && i == DB_FAILED;
        for (int32_t k = 0; k < DB_OUTPUT && !fails; k++) {
            int32_t at = k == DB_OUTPUT - 2 ? DB_OUTPUT - 1 : k; /* the last two arrive together */
            double time = w->start[i] + w->ttft[i] + w->gap[i] * at;
            n_tokens += time >= from && time < to ? 1 : 0;
        }
        n_good += !fails && w->ttft[i] <= 0.5 && w->gap[i] <= 0.06 ? 1 : 0;
    }
    for (int32_t i = 0; i < DB_WARMUP * DB_OUTPUT; i++) { /* warm-up tokens inside count too */
        int32_t k = i % DB_OUTPUT;
        double time = 0.5 * (i / DB_OUTPUT) + 0.3 + 0.02 * (k == DB_OUTPUT - 2 ? k + 1 : k);
        n_tokens += time >= from && time < to ? 1 : 0;
    }
    double rate = n_tokens / (to - from);
    assert_rel(member(run, "output_tokens_per_s", "value"), rate, 1e-6);
    assert_rel(member(run, "usd_per_mtok", "value"), f->usd_per_hour / 3600 / rate * 1e6, 1e-6);
    assert_rel(member(run, "goodput_share", "value"), n_good / DB_REQUESTS, 1e-6);
    double phase = w->start[DB_REQUESTS - 1] - 4;
    assert_rel(member(run, "goodput_per_s", "value"), n_good / phase, 1e-6);
    assert_true(member(run, "output_tokens_per_s", "lo") < rate);
    assert_true(member(run, "output_tokens_per_s", "hi") > rate);
}

static void test_report_json_equals_independent_numbers(void **state) {
    (void)state;
    char dir[FILE_PATH_MAX];
    struct db_fixture f;
    struct store *s = open_fixture(dir, &f);
    struct buf out;
    json_t *j = NULL;
    buf_init(&out, MEM_TEST, REPORT_BYTES_MAX);
    assert_ok(report_json(s, &(struct report_opts){0}, &out));
    assert_ok(json_parse("report", buf_cstr(&out), out.len, &j));
    json_t *runs = json_object_get(j, "runs");
    assert_int_equal(json_array_size(runs), DB_TARGETS * DB_POINTS);
    for (int32_t i = 0; i < DB_TARGETS * DB_POINTS; i++) {
        const json_t *run = json_array_get(runs, (size_t)i);
        int32_t t = i % DB_TARGETS;
        int32_t p = i / DB_TARGETS;
        assert_string_equal(json_string_value(json_object_get(run, "point")), p ? "4/s" : "2/s");
        check_run(run, &f, t, p);
        check_rates(run, &f, t, p);
    }
    const json_t *failed = json_object_get(
        json_object_get(json_array_get(runs, DB_TARGETS + 1), "requests"), "failed");
    assert_int_equal(json_integer_value(json_object_get(failed, "timeout")), 1);
    json_decref(j);
    buf_fini(&out);
    close_fixture(s, dir);
}

static void test_report_html_escapes_and_stays_offline(void **state) {
    (void)state;
    char dir[FILE_PATH_MAX];
    struct db_fixture f;
    struct store *s = open_fixture(dir, &f);
    struct buf out;
    buf_init(&out, MEM_TEST, REPORT_BYTES_MAX);
    assert_ok(report_html(s, &(struct report_opts){0}, &out));
    const char *page = buf_cstr(&out);
    assert_null(strstr(page, "<script"));
    assert_non_null(strstr(page, "&lt;script&gt;alert(1)&lt;/script&gt;"));
    assert_non_null(strstr(page, "a note with &lt;angle&gt; brackets"));
    assert_null(strstr(page, "\x1b"));
    assert_null(strstr(page, "src="));
    assert_null(strstr(page, "@import"));
    assert_non_null(strstr(page, "gptq against base"));
    assert_non_null(
        strstr(page, "0000000000000000000000000000000000000000000000000000000000000003"));
    assert_true(out.len < REPORT_BYTES_MAX);
    const char *keep = getenv("TRILEMMA_KEEP_REPORT");
    if (keep) {
        assert_ok(file_write(keep, out.data, out.len));
    }
    buf_fini(&out);
    close_fixture(s, dir);
}

static void test_report_text_is_plain(void **state) {
    (void)state;
    char dir[FILE_PATH_MAX];
    struct db_fixture f;
    struct store *s = open_fixture(dir, &f);
    struct buf out;
    buf_init(&out, MEM_TEST, REPORT_BYTES_MAX);
    assert_ok(report_text(s, &(struct report_opts){0}, &out));
    for (int64_t i = 0; i < out.len; i++) {
        assert_true(out.data[i] == '\n' || (unsigned char)out.data[i] >= 0x20);
    }
    assert_non_null(strstr(buf_cstr(&out), "Latency\n-------"));
    assert_non_null(strstr(buf_cstr(&out), "21.8"));
    const char *keep = getenv("TRILEMMA_KEEP_TEXT");
    if (keep) {
        assert_ok(file_write(keep, out.data, out.len));
    }
    buf_fini(&out);
    close_fixture(s, dir);
}

static void test_report_without_gnuplot_says_so(void **state) {
    (void)state;
    char dir[FILE_PATH_MAX];
    char path[FILE_PATH_MAX];
    struct db_fixture f;
    struct store *s = open_fixture(dir, &f);
    struct buf out;
    const char *old = getenv("PATH");
    assert_true(snprintf(path, sizeof path, "%s", old ? old : "") < (int)sizeof path);
    buf_init(&out, MEM_TEST, REPORT_BYTES_MAX);
    setenv("PATH", dir, 1);
    int rc = report_html(s, &(struct report_opts){0}, &out);
    setenv("PATH", path, 1);
    assert_ok(rc);
    assert_non_null(
        strstr(buf_cstr(&out), "gnuplot is not installed (Debian package gnuplot-nox)"));
    buf_fini(&out);
    close_fixture(s, dir);
}

/* Makes every run of blanks one space, so that wrapping does not matter. */
static const char *unwrapped(struct buf *b) {
    int64_t n = 0;
    for (int64_t i = 0; i < b->len; i++) {
        bool blank = b->data[i] == '\n' || b->data[i] == ' ';
        if (!blank || (n > 0 && b->data[n - 1] != ' ')) {
            b->data[n++] = blank ? ' ' : b->data[i];
        }
    }
    b->len = n;
    b->data[n] = '\0';
    return b->data;
}

static void test_compare_verdict_and_limits(void **state) {
    (void)state;
    char dir[FILE_PATH_MAX];
    struct db_fixture f;
    struct store *s = open_fixture(dir, &f);
    struct buf out;
    bool failed = true;
    buf_init(&out, MEM_TEST, REPORT_BYTES_MAX);
    assert_ok(compare_text(s, &(struct report_opts){0}, NULL, &out, &failed));
    assert_false(failed);
    assert_non_null(strstr(buf_cstr(&out), "gptq against base: 52 % of the memory"));
    assert_non_null(strstr(buf_cstr(&out), "+32.7 %"));
    struct compare_limits limits = compare_no_limits();
    limits.perplexity_increase_pct = 35;
    buf_clear(&out);
    assert_ok(compare_text(s, &(struct report_opts){0}, &limits, &out, &failed));
    assert_true(failed);
    assert_non_null(strstr(unwrapped(&out), "the perplexity increase in % is 41"));
    limits = compare_no_limits();
    limits.perplexity_increase_pct = 50;
    limits.kl = 0.4;
    limits.top1_min_pct = 70;
    limits.ttft_increase_pct = 0;
    limits.tpot_increase_pct = 0;
    buf_clear(&out);
    assert_ok(compare_text(s, &(struct report_opts){0}, &limits, &out, &failed));
    assert_false(failed);
    buf_fini(&out);
    close_fixture(s, dir);
}

static void test_compare_json_ratios(void **state) {
    (void)state;
    char dir[FILE_PATH_MAX];
    struct db_fixture f;
    struct store *s = open_fixture(dir, &f);
    struct buf out;
    json_t *j = NULL;
    bool failed = true;
    buf_init(&out, MEM_TEST, REPORT_BYTES_MAX);
    assert_ok(compare_json(s, &(struct report_opts){0}, NULL, &out, &failed));
    assert_ok(json_parse("compare", buf_cstr(&out), out.len, &j));
    const json_t *rtn = json_array_get(json_object_get(j, "comparisons"), 0);
    const json_t *point = json_array_get(json_object_get(rtn, "points"), 1);
    double a = 0;
    double b = 0;
    for (int32_t i = 0; i < DB_REQUESTS; i++) {
        a += i == DB_FAILED ? 0 : f.runs[0][1].gap[i];
        b += i == DB_FAILED ? 0 : f.runs[1][1].gap[i];
    }
    assert_rel(member(point, "tpot_ratio", "value"), b / a, 1e-6);
    assert_true(member(point, "tpot_ratio", "lo") < b / a);
    assert_true(member(point, "tpot_ratio", "hi") > b / a);
    json_decref(j);
    buf_fini(&out);
    close_fixture(s, dir);
}

static void test_report_of_nothing_is_an_error(void **state) {
    (void)state;
    char dir[FILE_PATH_MAX];
    char path[FILE_PATH_MAX];
    struct store *s = NULL;
    struct buf out;
    bool failed = false;
    test_tmpdir(dir);
    assert_ok(file_join(path, dir, "results.db"));
    assert_ok(store_open(path, STORE_WRITE, &s));
    buf_init(&out, MEM_TEST, REPORT_BYTES_MAX);
    assert_err(report_html(s, &(struct report_opts){0}, &out), ERR_NOTFOUND, "holds no");
    assert_err(report_json(s, &(struct report_opts){.session_id = 4}, &out), ERR_NOTFOUND,
               "no session 4");
    int64_t session = 0;
    int64_t target = 0;
    assert_ok(store_session_begin(s, &(struct store_session){.kind = "eval"}, &session));
    assert_ok(store_target(
        s, &(struct store_target){session, "only", "engine", true, STORE_NULL, NULL}, &target));
    assert_ok(report_html(s, &(struct report_opts){0}, &out));
    assert_non_null(strstr(buf_cstr(&out), "not measured"));
    assert_err(compare_text(s, &(struct report_opts){0}, NULL, &out, &failed), ERR_NOTFOUND,
               "no base and other target");
    buf_fini(&out);
    close_fixture(s, dir);
}

static void test_html_escape_every_kind_of_byte(void **state) {
    (void)state;
    struct buf b;
    buf_init(&b, MEM_TEST, 1 << 16);
    assert_ok(html_escape(&b, "<a href=\"x\" id='y'>&\x01\xff\xc3\xa9\xed\xa0\x80\n"));
    assert_string_equal(buf_cstr(&b),
                        "&lt;a href=&quot;x&quot; id=&#39;y&#39;&gt;&amp;\xef\xbf\xbd\xef\xbf\xbd"
                        "\xc3\xa9\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\n");
    buf_fini(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_report_json_equals_independent_numbers),
        TEST(test_report_html_escapes_and_stays_offline),
        TEST(test_report_text_is_plain),
        TEST(test_report_without_gnuplot_says_so),
        TEST(test_compare_verdict_and_limits),
        TEST(test_compare_json_ratios),
        TEST(test_report_of_nothing_is_an_error),
        TEST(test_html_escape_every_kind_of_byte),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
