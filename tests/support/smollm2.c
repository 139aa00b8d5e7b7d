#include "tests/support/smollm2.h"

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
