#include "tests/support/smollm2.h"

#include <math.h>
#include <string.h>

enum { TOP = 20, GREEDY = 48, IDS_MAX = 2048 };

void smollm2_open(struct model **m) {
    const char *path = test_smollm2();
    if (!path) {
        print_message("SmolLM2 is not in the cache (trilemma fetch smollm2-135m)\n");
        skip();
    }
    assert_ok(model_open(path, NULL, m));
}

void smollm2_engine(const struct model *m, const char *backend, struct engine **e) {
    struct engine_opts o = {.backend = backend,
                            .batch_tok_max = 256,
                            .running_max = 4,
                            .ctx_max = 4096,
                            .n_blocks = 320};
    assert_ok(engine_open(m->weights, &o, e));
}

void smollm2_greedy(
    struct engine *e, const int32_t *ids, int32_t n_ids, int32_t n, int32_t *tokens) {
    uint64_t id = 0;
    int32_t at = 0;
    struct engine_request r = {.ids = ids, .n_ids = n_ids, .max_new = n, .ignore_stop = true};
    assert_ok(engine_submit(e, &r, &id));
    for (bool over = false; !over;) {
        struct event ev;
        bool busy = false;
        assert_ok(engine_step(e, &busy));
        while (engine_poll(e, &ev, 1) == 1) {
            over = ev.kind == EVENT_END;
            if (!over) {
                tokens[at++] = ev.token;
            }
        }
    }
    assert_int_equal(at, n);
}

struct check {
    const json_t *want; /* list of {position, top20, logsumexp} */
    const int32_t *ids;
    int32_t n;
    double sum;
    int32_t n_compared;
};

static const json_t *want_at(const json_t *list, int32_t pos) {
    size_t i = 0;
    const json_t *o = NULL;
    json_array_foreach(list, i, o) {
        if (json_integer_value(json_object_get(o, "position")) == pos) {
            return o;
        }
    }
    return NULL;
}

static int compare_row(void *ctx, int32_t pos, const float *logits, int32_t vocab) {
    struct check *c = ctx;
    double lse = sampler_logsumexp(logits, vocab);
    if (pos + 1 < c->n) {
        c->sum += (double)logits[c->ids[pos + 1]] - lse;
    }
    const json_t *o = want_at(c->want, pos);
    if (!o) {
        return 0;
    }
    size_t i = 0;
    const json_t *pair = NULL;
    json_array_foreach(json_object_get(o, "top20"), i, pair) {
        json_int_t id = json_integer_value(json_array_get(pair, 0));
        double want = json_number_value(json_array_get(pair, 1));
        if (fabs((double)logits[id] - want) > 2e-3) {
            fail_msg("position %d, token %d: logit %.6f, want %.6f", pos, (int)id,
                     (double)logits[id], want);
        }
        c->n_compared++;
    }
    return 0;
}

static int32_t ids_of(const json_t *list, int32_t *ids) {
    size_t n = json_array_size(list);
    assert_true(n > 0 && n <= IDS_MAX);
    for (size_t i = 0; i < n; i++) {
        ids[i] = (int32_t)json_integer_value(json_array_get(list, i));
    }
    return (int32_t)n;
}

void smollm2_check_prompt(struct engine *e, const json_t *p, bool greedy) {
    static int32_t ids[IDS_MAX];
    int32_t want[IDS_MAX];
    int32_t tokens[GREEDY];
    int32_t n = ids_of(json_object_get(p, "ids"), ids);
    struct check c = {.want = json_object_get(p, "logits"), .ids = ids, .n = n};
    assert_ok(engine_score(e, ids, n, 0, compare_row, &c));
    assert_int_equal(c.n_compared, TOP * (int)json_array_size(c.want));
    double sum = json_number_value(json_object_get(p, "sum_logprob"));
    if (fabs(c.sum - sum) > 1e-3) {
        fail_msg("%s: sum of log-probabilities %.6f, want %.6f",
                 json_string_value(json_object_get(p, "name")), c.sum, sum);
    }
    if (!greedy) {
        return;
    }
    assert_int_equal(ids_of(json_object_get(p, "greedy48"), want), GREEDY);
    smollm2_greedy(e, ids, n, GREEDY, tokens);
    assert_memory_equal(tokens, want, sizeof tokens);
}
