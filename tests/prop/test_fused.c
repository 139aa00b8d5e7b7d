/* The fused decoder of a backend against the single ops of cpu, on random weights of several
 * shapes: logits of every position of mixed steps, greedy tokens, and what does not depend on the
 * schedule. Skipped where no backend fuses. */
#include "tests/support/support.h"

#include <math.h>
#include <string.h>

#include "engine/base/rng.h"
#include "engine/model/random.h"
#include "engine/run/engine.h"

enum { SEQS_MAX = 40, LEN_MAX = 700, VOCAB = 512 };

/* why: activations are rounded to 8 bits at about 7 places a layer; 2e-2 is the project's bound for
 * such arithmetic, here on logits of unit variance as a root of mean squares */
static const double TOLERANCE = 2e-2;

struct rows {
    float *v; /* own, [n, V] */
    int32_t n;
    int32_t from; /* position of the first */
};

static int keep_row(void *ctx, int32_t pos, const float *logits, int32_t vocab) {
    struct rows *r = ctx;
    assert_true(pos >= r->from && pos - r->from < LEN_MAX);
    memcpy(r->v + (int64_t)(pos - r->from) * vocab, logits, (size_t)vocab * sizeof *logits);
    r->n++;
    return 0;
}

struct shape {
    const char *name;
    int32_t n_head;
    int32_t n_kv_head;
    int32_t head_dim;
    int32_t hidden;
    int32_t ffn;
    bool qk_norm;
    bool attn_bias;
    bool tied;
    int32_t window; /* of every second layer */
};

static const struct shape shapes[] = {
    {"heads of 64", 4, 2, 64, 256, 512, false, false, true, 0},
    {"heads of 128, norms on heads", 8, 2, 128, 512, 1024, true, false, false, 0},
    {"8 query heads a kv head, biases", 8, 1, 64, 384, 640, false, true, false, 0},
    {"one query head a kv head, window", 2, 2, 128, 256, 512, true, false, true, 50},
    {"group of 5", 5, 1, 64, 320, 512, false, false, true, 0},
};

static struct model_cfg make_cfg(const struct shape *s) {
    struct model_cfg c;
    model_cfg_init(&c);
    memcpy(c.family, "llama", sizeof "llama");
    c.n_layer = 3;
    c.n_head = s->n_head;
    c.n_kv_head = s->n_kv_head;
    c.head_dim = s->head_dim;
    c.hidden = s->hidden;
    c.ffn = s->ffn;
    c.vocab = VOCAB;
    c.ctx_max = 2048;
    c.rms_eps = 1e-6F;
    c.tied = s->tied;
    c.qk_norm = s->qk_norm;
    c.attn_bias = s->attn_bias;
    c.attn.scale = 1 / sqrtf((float)s->head_dim);
    c.layer[1].window = s->window;
    return c;
}

static struct engine_opts opts(const char *backend) {
    return (struct engine_opts){.backend = backend,
                                .batch_tok_max = 256,
                                .running_max = SEQS_MAX,
                                .ctx_max = 1024,
                                .n_blocks = 4096,
                                .kv_type = strcmp(backend, "cuda") == 0 ? DTYPE_BF16 : DTYPE_F32};
}

static bool fuses(const struct weights *w) {
    struct engine *e = NULL;
    struct engine_opts o = opts("cuda");
    int rc = engine_open(w, &o, &e);
    engine_close(e);
    if (rc) {
        print_message("not on this machine: %s\n", err_msg());
    }
    return rc == 0;
}

static void prompt(int32_t *ids, int32_t n, uint64_t stream) {
    struct rng r;
    rng_init(&r, 3, stream);
    for (int32_t i = 0; i < n; i++) {
        ids[i] = (int32_t)rng_below(&r, VOCAB);
    }
}

/* Runs n requests at once to their ends. tokens [n, n_new]; rows of the first request */
static void run(const struct weights *w,
                const struct engine_opts *o,
                int32_t n,
                const int32_t *len,
                int32_t n_new,
                int32_t *tokens,
                struct rows *rows) {
    struct engine *e = NULL;
    uint64_t first = 0;
    assert_ok(engine_open(w, o, &e));
    for (int32_t i = 0; i < n; i++) {
        int32_t ids[LEN_MAX];
        uint64_t id = 0;
        prompt(ids, len[i], (uint64_t)i);
        struct engine_request r = {
            .ids = ids, .n_ids = len[i], .max_new = n_new, .ignore_stop = true};
        if (i == 0 && rows) {
            r.row = keep_row;
            r.row_ctx = rows;
            rows->from = len[0] - 1;
        }
        assert_ok(engine_submit(e, &r, &id));
        first = first ? first : id;
    }
    for (int32_t over = 0; over < n;) {
        struct event ev[64];
        bool busy = false;
        assert_ok(engine_step(e, &busy));
        int32_t got = engine_poll(e, ev, ARRAY_LEN(ev));
        for (int32_t i = 0; i < got; i++) {
            over += ev[i].kind == EVENT_END;
            if (ev[i].kind == EVENT_TOKEN && tokens) {
                tokens[(int64_t)(ev[i].id - first) * n_new + ev[i].index] = ev[i].token;
            }
        }
        assert_ok(engine_check(e));
    }
    engine_close(e);
}

static double distance(const float *a, const float *b, int64_t n) {
    double d = 0;
    double s = 0;
    for (int64_t i = 0; i < n; i++) {
        d += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        s += (double)b[i] * (double)b[i];
    }
    return sqrt(d / s);
}

/* Every position of a prompt, scored in chunks. */
static void
compare_scores(const struct weights *w, const struct shape *s, int32_t len, int32_t chunk) {
    struct rows got[2];
    int32_t ids[LEN_MAX];
    prompt(ids, len, 77);
    for (int32_t i = 0; i < 2; i++) {
        struct engine *e = NULL;
        struct engine_opts o = opts(i ? "cpu" : "cuda");
        o.chunk_max = chunk;
        got[i] = (struct rows){.v = mem_array(MEM_TEST, (int64_t)LEN_MAX * VOCAB, 4)};
        assert_non_null(got[i].v);
        assert_ok(engine_open(w, &o, &e));
        assert_ok(engine_score(e, ids, len, 0, keep_row, &got[i]));
        engine_close(e);
    }
    assert_true(got[0].n == len && got[1].n == len);
    for (int32_t p = 0; p < len; p++) {
        const float *a = got[0].v + (int64_t)p * VOCAB;
        double d = distance(a, got[1].v + (int64_t)p * VOCAB, VOCAB);
        if (!(d <= TOLERANCE)) {
            fail_msg("%s, chunks of %d: position %d of %d is %.4f away", s->name, chunk, p, len, d);
        }
    }
    mem_free(got[0].v);
    mem_free(got[1].v);
}

static void test_fused_logits_are_those_of_the_single_ops(void **state) {
    (void)state;
    static const int32_t chunks[] = {0, 1, 7, 64};
    for (int32_t i = 0; i < ARRAY_LEN(shapes); i++) {
        struct model_cfg c = make_cfg(&shapes[i]);
        struct weights *w = NULL;
        assert_ok(weights_random(&c, 5, &w));
        if (!fuses(w)) {
            weights_free(w);
            skip();
        }
        for (int32_t j = 0; j < ARRAY_LEN(chunks); j++) {
            compare_scores(w, &shapes[i], chunks[j] == 1 ? 90 : 613, chunks[j]);
        }
        weights_free(w);
    }
}

/* Long answers from mixed steps of many sizes: rows near those of cpu as long as the tokens agree.
 */
static void test_fused_mixed_steps(void **state) {
    (void)state;
    static const int32_t counts[] = {1, 3, 8, 13, 17, 40};
    enum { NEW = 24 };
    for (int32_t i = 0; i < ARRAY_LEN(shapes); i++) {
        struct model_cfg c = make_cfg(&shapes[i]);
        struct weights *w = NULL;
        assert_ok(weights_random(&c, 6, &w));
        if (!fuses(w)) {
            weights_free(w);
            skip();
        }
        for (int32_t k = 0; k < ARRAY_LEN(counts); k++) {
            int32_t len[SEQS_MAX];
            int32_t tok[2][SEQS_MAX * NEW];
            struct rows rows[2];
            struct rng r;
            rng_init(&r, 9, (uint64_t)k);
            for (int32_t j = 0; j < counts[k]; j++) {
                len[j] = (int32_t)(1 + rng_below(&r, j == 0 ? 600 : 90));
            }
            for (int32_t b = 0; b < 2; b++) {
                struct engine_opts o = opts(b ? "cpu" : "cuda");
                rows[b] = (struct rows){.v = mem_array(MEM_TEST, (int64_t)LEN_MAX * VOCAB, 4)};
                assert_non_null(rows[b].v);
                run(w, &o, counts[k], len, NEW, tok[b], &rows[b]);
            }
            for (int32_t n = 0; n < NEW; n++) {
                double d = distance(rows[0].v + n * VOCAB, rows[1].v + n * VOCAB, VOCAB);
                if (!(d <= TOLERANCE)) {
                    fail_msg("%s, %d at once: answer row %d is %.4f away", shapes[i].name,
                             counts[k], n, d);
                }
                if (tok[0][n] != tok[1][n]) {
                    break; /* two logits nearer than the arithmetic: other paths from here on */
                }
            }
            mem_free(rows[0].v);
            mem_free(rows[1].v);
        }
        weights_free(w);
    }
}

/* The same answers twice, with picks made on the card and with rows on the host. */
static void test_fused_picks_are_the_largest_logits(void **state) {
    (void)state;
    enum { NEW = 40, N = 20 };
    struct model_cfg c = make_cfg(&shapes[1]);
    struct weights *w = NULL;
    assert_ok(weights_random(&c, 7, &w));
    if (!fuses(w)) {
        weights_free(w);
        skip();
    }
    int32_t len[N];
    int32_t tok[3][N * NEW];
    for (int32_t j = 0; j < N; j++) {
        len[j] = 5 + 11 * j;
    }
    for (int32_t way = 0; way < 3; way++) {
        struct engine_opts o = opts("cuda");
        o.logprobs = way == 1;
        run(w, &o, N, len, NEW, tok[way], NULL);
    }
    assert_memory_equal(tok[0], tok[1], sizeof tok[0]);
    assert_memory_equal(tok[0], tok[2], sizeof tok[0]);
    weights_free(w);
}

int main(void) {
    const struct CMUnitTest tests[] = {TEST(test_fused_logits_are_those_of_the_single_ops),
                                       TEST(test_fused_mixed_steps),
                                       TEST(test_fused_picks_are_the_largest_logits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
