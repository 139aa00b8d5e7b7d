/* Ids in, numbers out: score, and eval --ids against the perplexities of transformers. */
#include "tests/support/cli.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/json.h"
#include "engine/base/str.h"
#include "tests/support/tiny.h"
#include "tests/support/vectors.h"

static char dir[FILE_PATH_MAX];

static int make(void **state) {
    (void)state;
    test_tmpdir(dir);
    return 0;
}

static int unmake(void **state) {
    (void)state;
    test_rmdir(dir);
    return 0;
}

static json_t *ask_json(const char *line) {
    struct cli_result r;
    json_t *j = NULL;
    cli_line(dir, 0, &r, "%s", line);
    assert_ok(json_parse("output", buf_cstr(&r.out), r.out.len, &j));
    cli_fini(&r);
    return j;
}

/* dir/name: [[ids 0 .. n-1], [ids from n]] or one plain list when n is 0. */
static void write_ids(const char *name, const int32_t *ids, int64_t n_all, int64_t n) {
    struct buf b;
    buf_init(&b, MEM_TEST, 1 << 20);
    assert_ok(buf_str(&b, n > 0 ? "[[" : "["));
    for (int64_t i = 0; i < n_all; i++) {
        const char *before = i == 0 ? "" : (i == n ? "],[" : ",");
        assert_ok(buf_fmt(&b, "%s%d", before, ids[i]));
    }
    assert_ok(buf_str(&b, n > 0 ? "]]" : "]"));
    tiny_file(dir, name, buf_cstr(&b));
    buf_fini(&b);
}

static double log_sum_exp(const float *x) {
    double sum = 0;
    double top = -(double)INFINITY;
    for (int32_t i = 0; i < TINY_VOCAB; i++) {
        top = fmax(top, (double)x[i]);
    }
    for (int32_t i = 0; i < TINY_VOCAB; i++) {
        sum += exp((double)x[i] - top);
    }
    return top + log(sum);
}

/* One entry of "results" against golden logits [n,V] of the same ids. */
static void check_list(const json_t *r, const int32_t *ids, int32_t n, const float *logits) {
    const json_t *lp = json_object_get(r, "logprobs");
    const json_t *rows = json_object_get(r, "rows");
    double sum = 0;
    assert_int_equal(json_integer_value(json_object_get(r, "n")), n);
    assert_int_equal(json_array_size(lp), n);
    assert_true(json_is_null(json_array_get(lp, 0)));
    for (int32_t t = 0; t < n; t++) {
        const float *row = logits + (int64_t)t * TINY_VOCAB;
        double lse = log_sum_exp(row);
        const json_t *got = json_array_get(rows, (size_t)t);
        const json_t *top = json_object_get(got, "top");
        double before = (double)INFINITY;
        assert_true(fabs(json_number_value(json_object_get(got, "logsumexp")) - lse) < 1e-3);
        assert_int_equal(json_array_size(top), 20);
        for (size_t k = 0; k < 20; k++) {
            const json_t *pair = json_array_get(top, k);
            json_int_t id = json_integer_value(json_array_get(pair, 0));
            double value = json_number_value(json_array_get(pair, 1));
            assert_true(value <= before);
            assert_true(fabs(value - (double)row[id]) < 1e-3);
            before = value;
        }
        if (t + 1 < n) {
            double want = (double)row[ids[t + 1]] - lse;
            assert_true(fabs(json_number_value(json_array_get(lp, (size_t)t + 1)) - want) < 1e-3);
            sum += want;
        }
    }
    assert_true(fabs(json_number_value(json_object_get(r, "sum")) - sum) < 1e-2);
}

static void test_score_equals_golden_logits(void **state) {
    (void)state;
    char line[FILE_PATH_MAX];
    char path[FILE_PATH_MAX];
    struct vectors want;
    struct vectors got;
    int64_t n = 0;
    int64_t n_got = 0;
    vectors_open(test_golden("models/llama/golden.safetensors"), &want);
    const int32_t *ids = vectors_i32(&want, "input_ids", &n);
    const float *logits = vectors_f32(&want, "logits", NULL);
    write_ids("two.json", ids, n, n / 2);
    snprintf(line, sizeof line,
             "score %s --ids two.json --top 20 --logits l.safetensors --backend ref --json",
             test_golden("models/llama"));
    json_t *j = ask_json(line);
    const json_t *results = json_object_get(j, "results");
    assert_int_equal(json_array_size(results), 2);
    /* the first half is a prefix of the golden sequence; of the second only the shape is known */
    check_list(json_array_get(results, 0), ids, (int32_t)(n / 2), logits);
    assert_ok(file_join(path, dir, "l.safetensors"));
    vectors_open(path, &got);
    const float *l0 = vectors_f32(&got, "logits.0", &n_got);
    assert_int_equal(n_got, n / 2 * TINY_VOCAB);
    assert_close(l0, logits, n_got, 1e-3);
    const float *l1 = vectors_f32(&got, "logits.1", &n_got);
    assert_int_equal(n_got, n / 2 * TINY_VOCAB);
    const json_t *row = json_array_get(json_object_get(json_array_get(results, 1), "rows"), 0);
    assert_true(fabs(json_number_value(json_object_get(row, "logsumexp")) - log_sum_exp(l1)) <
                1e-6);
    json_decref(j);
    vectors_close(&got);
    vectors_close(&want);
}

static void test_score_backends_agree(void **state) {
    (void)state;
    char line[FILE_PATH_MAX];
    double sums[2];
    static const char *const backends[] = {"ref", "cpu"};
    tiny_ids(dir, "ids.json", 100, TINY_VOCAB);
    for (int32_t i = 0; i < 2; i++) {
        snprintf(line, sizeof line, "score %s --ids ids.json --backend %s --threads 1",
                 test_golden("quant/llama__gptq_w4a16_g32_static"), backends[i]);
        json_t *j = ask_json(line);
        sums[i] = json_number_value(
            json_object_get(json_array_get(json_object_get(j, "results"), 0), "sum"));
        json_decref(j);
    }
    assert_rel(sums[0], sums[1], 1e-5);
}

static void check_figure(const char *model, const json_t *want) {
    char line[FILE_PATH_MAX];
    char rel[128];
    bool seed = str_eq(json_string_value(json_object_get(want, "kind")), "seed_document");
    json_int_t stride = json_integer_value(json_object_get(want, "stride"));
    json_int_t window = seed ? stride : json_integer_value(json_object_get(want, "max_length"));
    snprintf(rel, sizeof rel, "models/%s", model);
    snprintf(line, sizeof line,
             "eval %s --task perplexity --ids ids.json --window %lld --stride %lld --definition %s "
             "--backend ref --json",
             test_golden(rel), (long long)window, (long long)stride, seed ? "seed" : "hf-strided");
    json_t *j = ask_json(line);
    const json_t *r = json_array_get(json_object_get(j, "results"), 0);
    assert_rel(json_number_value(json_object_get(json_object_get(r, "perplexity"), "value")),
               json_number_value(json_object_get(want, "ppl")), 1e-5);
    if (!seed) {
        assert_int_equal(json_integer_value(json_object_get(r, "n_scored")),
                         json_integer_value(json_object_get(want, "n_tokens")));
        assert_rel(json_number_value(json_object_get(r, "nll_sum")),
                   json_number_value(json_object_get(want, "nll_sum")), 1e-6);
    }
    json_decref(j);
}

static void test_eval_ids_equals_golden_perplexities(void **state) {
    (void)state;
    json_t *all = NULL;
    json_t *entry = NULL;
    const char *model = NULL;
    int32_t n = 0;
    assert_ok(json_read(test_golden("summary.json"), &all));
    json_object_foreach(json_object_get(all, "models"), model, entry) {
        char rel[128];
        struct vectors v;
        int64_t n_ids = 0;
        const json_t *list = json_object_get(entry, "ppl");
        snprintf(rel, sizeof rel, "models/%s/golden.safetensors", model);
        if (!file_exists(test_golden(rel)) || !list) {
            continue;
        }
        vectors_open(test_golden(rel), &v);
        if (tensor_dir_find(&v.dir, "input_ids")) { /* else a model that is elsewhere */
            const int32_t *ids = vectors_i32(&v, "input_ids", &n_ids);
            write_ids("ids.json", ids, n_ids, 0);
        }
        for (size_t i = 0; i < json_array_size(list) && n_ids > 0; i++) {
            check_figure(model, json_array_get(list, i));
            n++;
        }
        vectors_close(&v);
    }
    json_decref(all);
    assert_true(n >= 12);
}

/* A vocabulary without weights is enough to tokenize. */
static void test_tokenize_gguf_vocabulary(void **state) {
    (void)state;
    const char *path = test_shared("gguf-vocab/ggml-vocab-gpt-2.gguf");
    struct cli_result r;
    if (!path) {
        print_message("gguf-vocab is not here (TRILEMMA_SHARED)\n");
        skip();
    }
    tiny_file(dir, "one.jsonl", "{\"text\": \"Hello world\"}\n");
    cli_line(dir, 0, &r, "tokenize %s --jsonl one.jsonl --json", path);
    assert_string_equal(buf_cstr(&r.out), "{\"ids\":[15496,995],\"decoded\":\"Hello world\"}\n");
    cli_fini(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_score_equals_golden_logits), TEST(test_score_backends_agree),
        TEST(test_eval_ids_equals_golden_perplexities), TEST(test_tokenize_gguf_vocabulary)};
    return cmocka_run_group_tests(tests, make, unmake);
}
