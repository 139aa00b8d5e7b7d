/* The null backend: logits that depend on token and position alone, at almost no cost. */
#include "tests/support/support.h"

#include <string.h>

#include "kernels/backend.h"
#include "kernels/null/backend_null.h"

enum { T_MAX = 4, E = 8, V = 100, H = 2, D = 4 };

struct net {
    struct backend *be;
    float x[T_MAX * E];
    float h[T_MAX * E];
    float q[T_MAX * E];
    float logits[T_MAX * V];
};

/* One block of a decoder and the head, as the engine runs them. */
static void forward(struct net *n, const int32_t *tok, const int32_t *pos, int32_t T) {
    const struct backend_ops *o = &backend_null;
    static const float weights[V * E];
    struct wmat table = {.type = DTYPE_F32, .n = V, .k = E, .data = weights, .row_bytes = E * 4};
    struct wmat square = table;
    square.n = E;
    struct kv_view kv = {.type = DTYPE_F32, .n_kv_head = H, .head_dim = D, .block_tok = 4};
    struct batch b = {.n_tok = T};
    struct attn_args args = {.scale = 1};
    assert_ok(o->embed(n->be, n->x, &table, tok, T, 1));
    assert_ok(o->rmsnorm(n->be, n->h, n->x, weights, T, E, 0, 0));
    assert_ok(o->matmul(n->be, n->q, n->h, &square, NULL, T, false));
    assert_ok(o->norm_rope(n->be, n->q, NULL, 0, 0, NULL, pos, T, H, D));
    assert_ok(o->kv_write(n->be, &kv, n->q, n->q, &b));
    assert_ok(o->attn(n->be, n->h, n->q, &kv, &b, H, &args));
    assert_ok(o->matmul(n->be, n->x, n->h, &square, NULL, T, true));
    assert_ok(o->act_mul(n->be, n->h, n->h, n->q, T * E, ACT_SILU));
    assert_ok(o->matmul(n->be, n->x, n->h, &square, NULL, T, true));
    assert_ok(o->gather(n->be, n->h, n->x, (const int32_t[]){0, 1, 2, 3}, T, E));
    assert_ok(o->matmul(n->be, n->logits, n->h, &table, NULL, T, false));
}

static void net_open(struct net *n) {
    struct backend_opts opts = {.n_tok_max = T_MAX, .k_max = E, .ctx_max = 64, .n_head_max = H};
    memset(n, 0, sizeof(*n));
    assert_ok(backend_null.open(&opts, &n->be));
}

static int32_t argmax(const float *x) {
    int32_t best = 0;
    for (int32_t i = 1; i < V; i++) {
        best = x[i] > x[best] ? i : best;
    }
    return best;
}

static void test_backend_null_logits_have_one_peak(void **state) {
    (void)state;
    struct net n;
    net_open(&n);
    forward(&n, (const int32_t[]){5, 6, 7}, (const int32_t[]){0, 1, 2}, 3);
    for (int32_t t = 0; t < 3; t++) {
        float sum = 0;
        for (int32_t i = 0; i < V; i++) {
            sum += n.logits[t * V + i];
        }
        assert_close(&sum, &(float){NULL_PEAK}, 1, 0);
    }
    backend_null.close(n.be);
}

static void test_backend_null_rows_are_independent(void **state) {
    (void)state;
    struct net a;
    struct net b;
    net_open(&a);
    net_open(&b);
    forward(&a, (const int32_t[]){9, 42, 7}, (const int32_t[]){3, 17, 2}, 3);
    forward(&b, (const int32_t[]){42}, (const int32_t[]){17}, 1);
    assert_memory_equal(a.logits + V, b.logits, V * sizeof(float));
    backend_null.close(a.be);
    backend_null.close(b.be);
}

static void test_backend_null_token_and_position_matter(void **state) {
    (void)state;
    struct net n;
    int32_t differ_tok = 0;
    int32_t differ_pos = 0;
    net_open(&n);
    for (int32_t i = 0; i < 20; i++) {
        const int32_t tok[3] = {i, i + 1, i};
        const int32_t pos[3] = {i, i, i + 1};
        forward(&n, tok, pos, 3);
        differ_tok += argmax(n.logits) != argmax(n.logits + V);
        differ_pos += argmax(n.logits) != argmax(n.logits + 2 * V);
    }
    assert_in_range(differ_tok, 15, 20);
    assert_in_range(differ_pos, 15, 20);
    backend_null.close(n.be);
}

static void test_backend_null_refuses_foreign_tokens(void **state) {
    (void)state;
    struct net n;
    struct wmat table = {.type = DTYPE_F32, .n = V, .k = E};
    net_open(&n);
    assert_err(backend_null.embed(n.be, n.x, &table, (const int32_t[]){V}, 1, 1), ERR_RANGE,
               "token 100");
    backend_null.close(n.be);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_backend_null_logits_have_one_peak),
        TEST(test_backend_null_rows_are_independent),
        TEST(test_backend_null_token_and_position_matter),
        TEST(test_backend_null_refuses_foreign_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
