/* Tokens to text: stop strings across token borders, stop tokens, log-probabilities.
 *
 * The oracle decodes every beginning of the token sequence whole and looks for stop strings in it.
 * Random tokens of random bytes make broken UTF-8 on purpose. */
#include "tests/support/support.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

#include "engine/base/json.h"
#include "engine/base/rng.h"
#include "engine/serve/choice.h"
#include "engine/text/utf8.h"
#include "tests/support/toy_tok.h"

enum { SEED = 5, ROUNDS = 3000, TOKENS = 24 };

static struct tok *tok;

static int setup(void **state) {
    struct buf b;
    test_setup(state);
    buf_init(&b, MEM_TEST, 1 << 20);
    toy_json(&b);
    int rc = tok_parse("toy", buf_cstr(&b), b.len, &tok);
    buf_fini(&b);
    return rc;
}

static int teardown(void **state) {
    tok_destroy(tok);
    return test_teardown(state);
}

static struct apireq request(int32_t max_new) {
    return (struct apireq){.kind = APIREQ_CHAT, .n = 1, .max_new = max_new};
}

/* Text of the first n tokens as a stream has it: without what waits for a character's end. */
static void decode(const int32_t *ids, int32_t n, bool flush, struct buf *out) {
    struct detok d;
    detok_init(&d, tok, true);
    for (int32_t i = 0; i < n; i++) {
        assert_ok(detok_push(&d, ids[i], out));
    }
    if (flush) {
        assert_ok(detok_flush(&d, out));
    }
    detok_fini(&d);
}

/* out: tokens up to the end, the text in b */
static int32_t
oracle(const struct apireq *r, const int32_t *ids, int32_t n, bool *stopped, struct buf *b) {
    for (int32_t k = r->min_new > 1 ? r->min_new : 1; k <= n + 1; k++) {
        buf_clear(b);
        decode(ids, i32_min(k, n), k > n, b);
        int64_t first = -1;
        for (int32_t i = 0; i < r->stop.n; i++) {
            const char *at =
                memmem(buf_cstr(b), (size_t)b->len, r->stop.word[i], (size_t)r->stop.len[i]);
            first = at && (first < 0 || at - b->data < first) ? at - b->data : first;
        }
        if (first >= 0) {
            b->len = first;
            *stopped = true;
            return i32_min(k, n);
        }
    }
    *stopped = false;
    return n;
}

static void push(struct choice *c, int32_t i, int32_t id) {
    const struct event ev = {.kind = EVENT_TOKEN, .token = id, .index = i, .t_ns = 1 + i};
    int64_t ready = c->n_ready;
    assert_ok(choice_token(c, &ev));
    assert_true(c->n_ready >= ready || c->reason);
    assert_true(c->n_ready >= ready); /* what was sent stays */
    assert_true(utf8_valid((const uint8_t *)buf_cstr(&c->text), c->n_ready) == c->n_ready);
}

static void end(struct choice *c, enum finish f) {
    const struct event ev = {.kind = EVENT_END, .finish = f, .n_cached = 3, .first_run_ns = 1};
    assert_ok(choice_end(c, &ev));
    assert_true(c->ended && c->n_cached == 3);
    assert_int_equal(c->n_ready, c->text.len);
}

static void round_of(struct rng *r) {
    static const char letters[] = "helo";
    struct apireq q = request(TOKENS);
    struct choice c;
    struct buf want;
    int32_t ids[TOKENS];
    int32_t n = (int32_t)(1 + rng_below(r, TOKENS));
    bool stopped = false;
    for (int32_t i = 0; i < n; i++) { /* mostly h, e, l, o and their merges; some bytes */
        ids[i] = rng_below(r, 6) == 0   ? (int32_t)rng_below(r, 256)
                 : rng_below(r, 2) == 0 ? 256 + (int32_t)rng_below(r, 5)
                                        : letters[rng_below(r, 4)] - '!';
    }
    for (int32_t i = (int32_t)rng_below(r, 3); i >= 0; i--) {
        char word[5];
        int32_t len = (int32_t)(1 + rng_below(r, 5));
        for (int32_t k = 0; k < len; k++) {
            word[k] = letters[rng_below(r, 4)];
        }
        assert_ok(stopwords_add(&q.stop, word, len));
    }
    buf_init(&want, MEM_TEST, 1 << 20);
    int32_t n_want = oracle(&q, ids, n, &stopped, &want);
    assert_ok(choice_init(&c, &q, tok, 0, 64));
    for (int32_t i = 0; i < n; i++) {
        push(&c, i, ids[i]);
    }
    end(&c, FINISH_LENGTH);
    bool same = c.n_tok == n_want && c.text.len == want.len &&
                memcmp(buf_cstr(&c.text), buf_cstr(&want), (size_t)want.len) == 0 &&
                strcmp(c.reason, stopped ? "stop" : "length") == 0;
    if (!same) {
        fail_msg("seed %d: \"%s\" after %d tokens, want \"%.*s\" after %d", SEED, buf_cstr(&c.text),
                 c.n_tok, (int)want.len, buf_cstr(&want), n_want);
    }
    choice_fini(&c);
    stopwords_fini(&q.stop);
    buf_fini(&want);
}

static void test_choice_stop_strings_as_the_oracle(void **state) {
    (void)state;
    struct rng r;
    rng_init(&r, SEED, 1);
    for (int32_t i = 0; i < ROUNDS; i++) {
        round_of(&r);
    }
}

static void test_choice_no_stop_string_before_min_tokens(void **state) {
    (void)state;
    struct apireq q = request(8);
    struct choice c;
    q.min_new = 3;
    assert_ok(stopwords_add(&q.stop, "hello", 5));
    assert_ok(choice_init(&c, &q, tok, 0, 64));
    push(&c, 0, 259);
    push(&c, 1, 259);
    assert_true(!c.reason && c.n_ready == 10);
    push(&c, 2, 259);
    assert_string_equal(c.reason, "stop");
    assert_int_equal(c.text.len, 10);
    end(&c, FINISH_ABORT);
    choice_fini(&c);
    stopwords_fini(&q.stop);
}

/* The end token is counted and has no text; ignored, it is a token like others. */
static void test_choice_stop_token_has_no_text(void **state) {
    (void)state;
    for (int32_t ignore = 0; ignore < 2; ignore++) {
        struct apireq q = request(8);
        struct choice c;
        q.stop_id[q.n_stop_id++] = 256; /* "he", which is not special */
        q.ignore_eos = ignore;
        assert_ok(choice_init(&c, &q, tok, 0, 64));
        push(&c, 0, 259);
        push(&c, 1, 256);
        end(&c, FINISH_STOP);
        assert_int_equal(c.n_tok, 2);
        assert_string_equal(buf_cstr(&c.text), ignore ? "hellohe" : "hello");
        assert_string_equal(c.reason, "stop");
        choice_fini(&c);
    }
}

static void test_choice_aborted_has_no_reason(void **state) {
    (void)state;
    struct apireq q = request(8);
    struct choice c;
    assert_ok(choice_init(&c, &q, tok, 0, 64));
    push(&c, 0, 259);
    end(&c, FINISH_ABORT);
    assert_null(c.reason);
    choice_fini(&c);
}

static void test_choice_request_and_seeds(void **state) {
    (void)state;
    struct apireq q = request(8);
    struct choice c;
    int32_t ids[] = {1, 2};
    q.n = 3;
    q.n_prompt = 2;
    q.prompt[1] = (struct tok_ids){.v = ids, .n = 2};
    q.sampling.seed = 10;
    assert_ok(choice_init(&c, &q, tok, 5, 64));
    struct engine_request r = choice_request(&c);
    assert_true(r.ids == ids && r.n_ids == 2 && r.sampling.seed == 12 && r.max_new == 8);
    assert_true(r.row == NULL && !r.logprob);
    choice_fini(&c);
}

static json_t *parse(const struct buf *b) {
    json_t *j = NULL;
    assert_ok(json_parse("out", buf_cstr(b), b->len, &j));
    return j;
}

/* Rows of logits with known largest entries; more tokens than slots. */
static void test_choice_logprobs(void **state) {
    (void)state;
    enum { V = 300, N = 6, SLOTS = 2 };
    for (int32_t chat = 0; chat < 2; chat++) {
        struct apireq q = request(N);
        struct choice c;
        struct buf b;
        q.kind = chat ? APIREQ_CHAT : APIREQ_COMPLETION;
        q.logprobs = true;
        q.n_top = 3;
        buf_init(&b, MEM_TEST, 1 << 20);
        assert_ok(choice_init(&c, &q, tok, 0, SLOTS));
        struct engine_request r = choice_request(&c);
        assert_true(r.row && r.logprob && r.row_ctx == &c);
        for (int32_t i = 0; i < N; i++) {
            float x[V] = {0};
            x[40 + i] = 9;
            x[30] = x[20] = 8;
            x[7] = NAN;
            x[8] = -INFINITY;
            assert_ok(r.row(r.row_ctx, i, x, V));
            double sum = exp(9) + 2 * exp(8) + V - 5;
            const struct event ev = {
                .kind = EVENT_TOKEN, .token = 256, .index = i, .logprob = (float)-log(sum)};
            assert_ok(choice_token(&c, &ev));
            const struct lpout_top *top = c.top + (int64_t)(i % SLOTS) * 3;
            assert_true(top[0].id == 40 + i && top[1].id == 20 && top[2].id == 30);
            assert_rel((double)top[0].logprob, 9 - log(sum), 1e-5);
        }
        end(&c, FINISH_LENGTH);
        assert_ok(lpout_format(&c.lp, &b));
        json_t *j = parse(&b);
        if (chat) {
            json_t *list = json_object_get(j, "content");
            assert_int_equal(json_array_size(list), N);
            json_t *last = json_array_get(list, N - 1);
            assert_string_equal(json_string_value(json_object_get(last, "token")), "he");
            assert_int_equal(json_array_size(json_object_get(last, "top_logprobs")), 3);
            assert_int_equal(json_array_size(json_object_get(last, "bytes")), 2);
        } else {
            json_t *tops = json_object_get(j, "top_logprobs");
            assert_int_equal(json_array_size(json_object_get(j, "tokens")), N);
            assert_int_equal(json_array_size(tops), N);
            assert_int_equal(json_object_size(json_array_get(tops, 2)), 4); /* and the token */
            json_t *at = json_array_get(json_object_get(j, "text_offset"), N - 1);
            assert_int_equal(json_integer_value(at), 2 * (N - 1));
        }
        json_decref(j);
        buf_fini(&b);
        choice_fini(&c);
    }
}

static int whole(void *ctx) {
    struct apireq q = request(8);
    struct choice c;
    struct buf b;
    (void)ctx;
    q.logprobs = true;
    q.n_top = 2;
    int rc = stopwords_add(&q.stop, "zz", 2);
    rc = rc ? rc : choice_init(&c, &q, tok, 0, 4);
    if (rc) {
        stopwords_fini(&q.stop);
        return rc;
    }
    buf_init(&b, MEM_TEST, 1 << 20);
    for (int32_t i = 0; i < 5 && !rc; i++) {
        const struct event ev = {.kind = EVENT_TOKEN, .token = 150 + i, .index = i};
        rc = choice_token(&c, &ev);
    }
    rc = rc ? rc : choice_end(&c, &(struct event){.kind = EVENT_END, .finish = FINISH_LENGTH});
    rc = rc ? rc : lpout_format(&c.lp, &b);
    buf_fini(&b);
    choice_fini(&c);
    stopwords_fini(&q.stop);
    return rc;
}

static void test_choice_without_memory(void **state) {
    (void)state;
    static const int codes[] = {ERR_NOMEM, 0};
    test_fault_loop(FAULT_ALLOC, whole, NULL, codes);
}

#define CHOICE_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {CHOICE_TEST(test_choice_stop_strings_as_the_oracle),
                                       CHOICE_TEST(test_choice_no_stop_string_before_min_tokens),
                                       CHOICE_TEST(test_choice_stop_token_has_no_text),
                                       CHOICE_TEST(test_choice_aborted_has_no_reason),
                                       CHOICE_TEST(test_choice_request_and_seeds),
                                       CHOICE_TEST(test_choice_logprobs),
                                       CHOICE_TEST(test_choice_without_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
