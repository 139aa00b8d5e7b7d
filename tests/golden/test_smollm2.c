/* SmolLM2-135M (dequantized Q4_1 GGUF, f32 arithmetic) against transformers: logits, sums of
 * log-probabilities, greedy answers, losses of 2,048 tokens.
 * LABELS: slow */
#include "tests/support/smollm2.h"

#include <math.h>
#include <string.h>

#include "engine/base/json.h"
#include "engine/model/safetensors.h"

enum { WINDOW = 2048 };

static void test_smollm2_prompts_equal_transformers(void **state) {
    (void)state;
    struct model *m = NULL;
    struct engine *e = NULL;
    json_t *all = NULL;
    smollm2_open(&m);
    smollm2_engine(m, "cpu", &e);
    assert_ok(json_read(test_golden("smollm2/prompts.json"), &all));
    const json_t *prompts = json_object_get(all, "prompts");
    assert_int_equal(json_array_size(prompts), 13);
    size_t i = 0;
    const json_t *p = NULL;
    json_array_foreach(prompts, i, p) {
        smollm2_check_prompt(e, p, true);
    }
    json_decref(all);
    engine_close(e);
    model_close(m);
}

static void test_smollm2_short_prompt_on_ref_equals_transformers(void **state) {
    (void)state;
    struct model *m = NULL;
    struct engine *e = NULL;
    json_t *all = NULL;
    smollm2_open(&m);
    smollm2_engine(m, "ref", &e);
    assert_ok(json_read(test_golden("smollm2/prompts.json"), &all));
    size_t i = 0;
    const json_t *p = NULL;
    json_array_foreach(json_object_get(all, "prompts"), i, p) {
        if (json_integer_value(json_object_get(p, "n_tokens")) <= 8) {
            smollm2_check_prompt(e, p, false);
        }
    }
    json_decref(all);
    engine_close(e);
    model_close(m);
}

struct losses {
    const int32_t *ids;
    const float *want;
    double worst;
    double sum;
    double sum_want;
};

static int compare_loss(void *ctx, int32_t pos, const float *logits, int32_t vocab) {
    struct losses *l = ctx;
    if (pos + 1 < WINDOW) {
        double nll = sampler_logsumexp(logits, vocab) - (double)logits[l->ids[pos + 1]];
        double d = fabs(nll - (double)l->want[pos + 1]);
        l->worst = d > l->worst || isnan(d) ? d : l->worst;
        l->sum += nll;
        l->sum_want += (double)l->want[pos + 1];
    }
    return 0;
}

static void test_smollm2_losses_of_first_window_equal_transformers(void **state) {
    (void)state;
    struct model *m = NULL;
    struct engine *e = NULL;
    struct filemap map;
    struct tensor_dir dir = {0};
    smollm2_open(&m);
    smollm2_engine(m, "cpu", &e);
    const char *path = test_golden("smollm2/wikitext.safetensors");
    assert_ok(file_map(path, &map));
    assert_ok(safetensors_parse(path, map.data, map.size, &dir));
    assert_ok(tensor_dir_sort(&dir, path));
    const struct tensor *ids = tensor_dir_find(&dir, "ids_first40000");
    const struct tensor *nll = tensor_dir_find(&dir, "nll_first2048");
    assert_true(ids && nll);
    struct losses l = {.ids = (const int32_t *)(const void *)ids->data,
                       .want = (const float *)(const void *)nll->data};
    assert_ok(engine_score(e, l.ids, WINDOW, 0, compare_loss, &l));
    print_message("worst loss off by %.2e, sum %.6f against %.6f\n", l.worst, l.sum, l.sum_want);
    assert_true(l.worst <= 1e-4);
    tensor_dir_fini(&dir);
    file_unmap(&map);
    engine_close(e);
    model_close(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_smollm2_prompts_equal_transformers),
        TEST(test_smollm2_short_prompt_on_ref_equals_transformers),
        TEST(test_smollm2_losses_of_first_window_equal_transformers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
