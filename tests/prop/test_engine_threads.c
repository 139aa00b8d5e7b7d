/* Thousands of random requests against an engine that another thread steps.
 * LABELS: threads
 *
 * The null backend's next token depends on (token, position) alone, so a table of it, made by
 * scoring, foretells every answer whatever the schedule was. The client thread submits, aborts and
 * polls; the owner thread steps and checks the laws after each step; a third asks for statistics
 * and aborts at random. Every request must end exactly once, with the foretold tokens in order. */
#include "tests/support/support.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/rng.h"
#include "engine/run/engine.h"
#include "engine/sched/seq.h"
#include "tests/support/toy_model.h"

enum { N_REQUESTS = 3000, SEED = 31, CTX = 96, LIVE = 40 };

struct record {
    int32_t max_new;
    int32_t n_prompt;
    int32_t last; /* last known token */
    int32_t n_tok;
    bool score;
    bool ended;
};

struct shared {
    struct engine *e;
    _Atomic bool stop;
    _Atomic uint64_t n_id; /* ids given out so far */
    _Atomic int failed;    /* first error of the owner */
};

static int32_t next_of[TOY_V][CTX];
static struct record records[N_REQUESTS + 1];

static int learn(void *ctx, int32_t pos, const float *logits, int32_t vocab) {
    int32_t best = 0;
    int32_t *row = ctx;
    for (int32_t i = 1; i < vocab; i++) {
        best = logits[i] > logits[best] ? i : best;
    }
    row[pos] = best;
    return 0;
}

static void learn_all(struct engine *e) {
    for (int32_t t = 0; t < TOY_V; t++) {
        int32_t ids[CTX];
        for (int32_t i = 0; i < CTX; i++) {
            ids[i] = t;
        }
        assert_ok(engine_score(e, ids, CTX, 0, learn, next_of[t]));
    }
}

static void *own(void *arg) {
    struct shared *s = arg;
    while (!atomic_load(&s->stop)) {
        bool busy = false;
        int rc = engine_step(s->e, &busy);
        if (rc == 0) {
            rc = engine_check(s->e);
        }
        if (rc && rc != ERR_AGAIN) {
            atomic_store(&s->failed, rc);
            return NULL;
        }
        if (!busy || rc) {
            sched_yield();
        }
    }
    return NULL;
}

static void *meddle(void *arg) {
    struct shared *s = arg;
    struct rng r;
    int64_t generated = 0;
    rng_init(&r, SEED, 2);
    while (!atomic_load(&s->stop)) {
        struct engine_stats st;
        uint64_t n = atomic_load(&s->n_id);
        engine_stats(s->e, &st);
        bool sane = st.n_blocks_active + st.n_blocks_cached <= st.n_blocks && st.n_running <= 8 &&
                    st.n_tok_generated >= generated;
        generated = st.n_tok_generated;
        if (!sane) {
            atomic_store(&s->failed, ERR_INTERNAL);
        }
        if (n > 0 && rng_below(&r, 50) == 0) {
            engine_abort(s->e, 1 + (uint64_t)rng_below(&r, (int64_t)n));
        }
        sched_yield();
    }
    return NULL;
}

static int32_t take(const struct event *ev) {
    assert_true(ev->id >= 1 && ev->id <= N_REQUESTS);
    struct record *q = &records[ev->id];
    assert_false(q->ended);
    if (ev->kind == EVENT_TOKEN) {
        int32_t want = next_of[q->last][q->n_prompt + q->n_tok - 1];
        assert_false(q->score);
        assert_int_equal(ev->index, q->n_tok);
        assert_int_equal(ev->token, want);
        q->last = want;
        q->n_tok++;
        return 0;
    }
    q->ended = true;
    assert_int_equal(ev->index, q->n_tok);
    assert_int_equal(ev->n_prompt, q->n_prompt);
    if (ev->finish == FINISH_LENGTH) {
        assert_int_equal(q->n_tok, q->max_new);
    } else if (ev->finish == FINISH_SCORED) {
        assert_true(q->score);
    } else {
        assert_int_equal(ev->finish, FINISH_ABORT);
    }
    return 1;
}

/* Submits one random request. out: false when the engine is busy */
static bool submit(struct shared *s, struct rng *r) {
    int32_t ids[CTX];
    uint64_t id = 0;
    struct record q = {.n_prompt = (int32_t)(1 + rng_below(r, 40))};
    for (int32_t i = 0; i < q.n_prompt; i++) {
        ids[i] = rng_below(r, 12) == 0 ? (int32_t)rng_below(r, TOY_V) : i % TOY_V;
    }
    q.max_new = (int32_t)rng_below(r, 40);
    q.score = rng_below(r, 10) == 0;
    q.last = ids[q.n_prompt - 1];
    struct engine_request req = {.ids = ids,
                                 .n_ids = q.n_prompt,
                                 .max_new = q.max_new,
                                 .ignore_stop = true,
                                 .score = q.score,
                                 .priority = (int32_t)rng_below(r, 3)};
    int rc = engine_submit(s->e, &req, &id);
    if (rc == ERR_BUSY) {
        return false;
    }
    assert_ok(rc);
    records[id] = q;
    atomic_store(&s->n_id, id);
    return true;
}

static void play(struct shared *s) {
    struct rng r;
    int32_t n_sent = 0;
    int32_t n_ended = 0;
    rng_init(&r, SEED, 1);
    while (n_ended < N_REQUESTS) {
        struct event ev[16];
        if (n_sent < N_REQUESTS && n_sent - n_ended < LIVE && submit(s, &r)) {
            n_sent++;
        }
        if (n_sent > 0 && rng_below(&r, 30) == 0) {
            assert_ok(engine_abort(s->e, 1 + (uint64_t)rng_below(&r, n_sent)));
        }
        int32_t n = engine_poll(s->e, ev, 16);
        for (int32_t i = 0; i < n; i++) {
            n_ended += take(&ev[i]);
        }
        if (atomic_load(&s->failed)) {
            fail_msg("seed %d: the owner saw %s", SEED, err_name(atomic_load(&s->failed)));
        }
        if (n == 0) {
            sched_yield();
        }
    }
}

static void on_engine(const struct weights *w) {
    struct shared s = {0};
    pthread_t owner;
    pthread_t third;
    struct engine_stats st;
    struct engine_opts o = {.backend = "null",
                            .n_threads = 1,
                            .block_tok = 4,
                            .batch_tok_max = 24,
                            .running_max = 8,
                            .waiting_max = 32,
                            .chunk_max = 11,
                            .ctx_max = CTX,
                            .n_blocks = 40};
    assert_ok(engine_open(w, &o, &s.e));
    learn_all(s.e);
    engine_close(s.e);
    assert_ok(engine_open(w, &o, &s.e)); /* ids begin at 1 again */
    assert_int_equal(pthread_create(&owner, NULL, own, &s), 0);
    assert_int_equal(pthread_create(&third, NULL, meddle, &s), 0);
    play(&s);
    atomic_store(&s.stop, true);
    assert_int_equal(pthread_join(owner, NULL), 0);
    assert_int_equal(pthread_join(third, NULL), 0);
    engine_stats(s.e, &st);
    print_message("%d requests, %lld steps, %lld preemptions, %lld tokens from the cache\n",
                  N_REQUESTS, (long long)st.n_step, (long long)st.n_preempted,
                  (long long)st.n_prefix_hit_tok);
    assert_true(st.n_preempted > 0 && st.n_prefix_hit_tok > 0 && st.n_blocks_active == 0);
    engine_close(s.e);
}

static void test_engine_random_requests_from_other_threads(void **state) {
    (void)state;
    char dir[FILE_PATH_MAX];
    struct toy_model toy;
    struct ckpt *c = NULL;
    struct weights *w = NULL;
    test_tmpdir(dir);
    toy_model_init(&toy, 1, DTYPE_F32);
    toy_model_write_hf(&toy, dir, "", 0);
    assert_ok(ckpt_open(dir, &c));
    assert_ok(weights_load(c, NULL, &w));
    on_engine(w);
    weights_free(w);
    ckpt_close(c);
    toy_model_fini(&toy);
    test_rmdir(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {TEST(test_engine_random_requests_from_other_threads)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
