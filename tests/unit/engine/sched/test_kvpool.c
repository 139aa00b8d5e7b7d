/* The pool's laws, one by one: kept by every call, and seen by kvpool_check when broken. */
#include "tests/support/support.h"

#include <string.h>

#include "engine/sched/kvpool.h"

enum { N = 4, P = 2 };

static const int32_t A[P] = {1, 2};
static const int32_t B[P] = {3, 4};

static void init(struct kvpool *p) {
    assert_ok(kvpool_init(p, N, P, 7));
    assert_ok(kvpool_check(p));
}

/* Takes a block and publishes it behind parent. out: its hash */
static struct hash128 make(struct kvpool *p, int32_t *id, struct hash128 parent, const int32_t *t) {
    assert_ok(kvpool_take(p, 1, id));
    return kvpool_publish(p, *id, parent, t);
}

static void test_kvpool_init_ranges(void **state) {
    (void)state;
    struct kvpool p;
    assert_err(kvpool_init(&p, 0, 16, 0), ERR_RANGE, "0 blocks of 16 tokens");
    assert_err(kvpool_init(&p, KVPOOL_BLOCKS_MAX + 1, 16, 0), ERR_RANGE, "want 1..");
    assert_err(kvpool_init(&p, 1, 0, 0), ERR_RANGE, "of 0 tokens");
    assert_err(kvpool_init(&p, 1, KVPOOL_BLOCK_TOK_MAX + 1, 0), ERR_RANGE, "257");
    init(&p);
    assert_int_equal(kvpool_n_available(&p), N);
    kvpool_fini(&p);
}

static void test_kvpool_take_is_all_or_nothing(void **state) {
    (void)state;
    struct kvpool p;
    int32_t ids[N + 1] = {-1, -1, -1, -1, -1};
    init(&p);
    assert_int_equal(kvpool_take(&p, N + 1, ids), ERR_BUSY);
    assert_int_equal(ids[0], -1);
    assert_int_equal(p.n_free, N);
    assert_ok(kvpool_take(&p, N, ids));
    for (int32_t i = 0; i < N; i++) {
        for (int32_t j = 0; j < i; j++) {
            assert_int_not_equal(ids[i], ids[j]);
        }
        assert_int_equal(p.block[ids[i]].ref, 1);
    }
    assert_int_equal(kvpool_take(&p, 1, ids + N), ERR_BUSY);
    assert_ok(kvpool_take(&p, 0, ids));
    assert_ok(kvpool_check(&p));
    kvpool_release(&p, ids, N);
    assert_int_equal(p.n_free, N);
    assert_ok(kvpool_check(&p));
    kvpool_fini(&p);
}

static void test_kvpool_free_blocks_go_before_cached_ones(void **state) {
    (void)state;
    struct kvpool p;
    int32_t a = -1;
    int32_t ids[N];
    struct hash128 h;
    init(&p);
    make(&p, &a, p.root, A);
    kvpool_release(&p, &a, 1);
    assert_int_equal(p.block[a].state, KVBLOCK_CACHED);
    assert_ok(kvpool_take(&p, N - 1, ids));
    for (int32_t i = 0; i < N - 1; i++) {
        assert_int_not_equal(ids[i], a);
    }
    assert_int_equal(kvpool_find(&p, p.root, A, &h), a);
    assert_int_equal(p.n_evicted, 0);
    assert_ok(kvpool_take(&p, 1, &ids[N - 1]));
    assert_int_equal(ids[N - 1], a);
    assert_int_equal(p.n_evicted, 1);
    assert_int_equal(kvpool_find(&p, p.root, A, &h), -1);
    assert_ok(kvpool_check(&p));
    kvpool_release(&p, ids, N);
    kvpool_fini(&p);
}

static void test_kvpool_least_recently_used_goes_first(void **state) {
    (void)state;
    struct kvpool p;
    int32_t id[3];
    const int32_t toks[3][P] = {{1, 1}, {2, 2}, {3, 3}};
    init(&p);
    for (int32_t i = 0; i < 3; i++) {
        make(&p, &id[i], p.root, toks[i]);
    }
    kvpool_release(&p, &id[1], 1);
    kvpool_release(&p, &id[2], 1);
    kvpool_release(&p, &id[0], 1);
    kvpool_share(&p, id[1]); /* used again: now the last in the order */
    kvpool_release(&p, &id[1], 1);
    int32_t got[4];
    assert_ok(kvpool_take(&p, 4, got));
    assert_true(got[1] == id[2] && got[2] == id[0] && got[3] == id[1]);
    kvpool_release(&p, got, 4);
    kvpool_fini(&p);
}

static void test_kvpool_a_prefix_is_evicted_tail_first(void **state) {
    (void)state;
    struct kvpool p;
    int32_t id[3];
    int32_t got = -1;
    struct hash128 h = {0};
    init(&p);
    h = make(&p, &id[0], p.root, A);
    struct hash128 h1 = make(&p, &id[1], h, A);
    make(&p, &id[2], h1, A);
    kvpool_release(&p, id, 3);
    assert_ok(kvpool_take(&p, 1, &got));
    for (int32_t i = 2; i >= 0; i--) {
        assert_ok(kvpool_take(&p, 1, &got));
        assert_int_equal(got, id[i]);
    }
    kvpool_fini(&p);
}

static void test_kvpool_equal_blocks_are_published_once(void **state) {
    (void)state;
    struct kvpool p;
    int32_t a = -1;
    int32_t b = -1;
    struct hash128 found;
    init(&p);
    struct hash128 x = make(&p, &a, p.root, A);
    struct hash128 y = make(&p, &b, p.root, A);
    assert_true(hash_eq(x, y));
    assert_true(p.block[a].published && !p.block[b].published);
    assert_int_equal(kvpool_find(&p, p.root, A, &found), a);
    assert_ok(kvpool_check(&p));
    kvpool_release(&p, &b, 1);
    assert_int_equal(p.block[b].state, KVBLOCK_FREE);
    kvpool_release(&p, &a, 1);
    assert_int_equal(p.block[a].state, KVBLOCK_CACHED);
    assert_ok(kvpool_check(&p));
    kvpool_fini(&p);
}

static void test_kvpool_shared_block_lives_until_its_last_holder(void **state) {
    (void)state;
    struct kvpool p;
    int32_t a = -1;
    init(&p);
    make(&p, &a, p.root, A);
    kvpool_share(&p, a);
    assert_int_equal(p.block[a].ref, 2);
    kvpool_release(&p, &a, 1);
    assert_int_equal(p.block[a].state, KVBLOCK_ACTIVE);
    assert_int_equal(p.n_active, 1);
    kvpool_release(&p, &a, 1);
    assert_int_equal(p.block[a].state, KVBLOCK_CACHED);
    kvpool_share(&p, a);
    assert_int_equal(p.block[a].state, KVBLOCK_ACTIVE);
    assert_int_equal(p.n_cached, 0);
    assert_ok(kvpool_check(&p));
    kvpool_fini(&p);
}

static void test_kvpool_hit_needs_parent_and_tokens(void **state) {
    (void)state;
    struct kvpool p;
    int32_t a = -1;
    struct hash128 h;
    init(&p);
    struct hash128 x = make(&p, &a, p.root, A);
    assert_int_equal(kvpool_find(&p, p.root, A, &h), a);
    assert_true(hash_eq(h, x));
    assert_int_equal(kvpool_find(&p, x, A, &h), -1);
    assert_int_equal(kvpool_find(&p, p.root, B, &h), -1);
    /* a collision: the hash of A stands over the tokens of B */
    memcpy(p.tok + a * P, B, sizeof B);
    assert_int_equal(kvpool_find(&p, p.root, A, &h), -1);
    memcpy(p.tok + a * P, A, sizeof A);
    p.block[a].parent.hi ^= 1;
    assert_int_equal(kvpool_find(&p, p.root, A, &h), -1);
    kvpool_fini(&p);
}

static void test_kvpool_salt_separates(void **state) {
    (void)state;
    struct kvpool p;
    struct kvpool q;
    assert_ok(kvpool_init(&p, N, P, 1));
    assert_ok(kvpool_init(&q, N, P, 2));
    assert_false(hash_eq(p.root, q.root));
    kvpool_fini(&p);
    kvpool_fini(&q);
}

static void test_kvpool_flush_forgets_active_blocks_too(void **state) {
    (void)state;
    struct kvpool p;
    int32_t a = -1;
    int32_t b = -1;
    struct hash128 h;
    init(&p);
    make(&p, &a, p.root, A);
    make(&p, &b, p.root, B);
    kvpool_release(&p, &b, 1);
    kvpool_flush(&p);
    assert_int_equal(kvpool_find(&p, p.root, A, &h), -1);
    assert_int_equal(kvpool_find(&p, p.root, B, &h), -1);
    assert_true(p.n_free == N - 1 && p.n_active == 1 && p.n_cached == 0);
    assert_ok(kvpool_check(&p));
    kvpool_release(&p, &a, 1);
    assert_int_equal(p.n_free, N);
    assert_ok(kvpool_check(&p));
    kvpool_fini(&p);
}

/* A pool with block a active and published, b cached, the others free. */
static void mixed(struct kvpool *p, int32_t *a, int32_t *b) {
    init(p);
    make(p, a, p->root, A);
    make(p, b, p->root, B);
    kvpool_release(p, b, 1);
    assert_ok(kvpool_check(p));
}

static void test_kvpool_check_sees_broken_counts_and_states(void **state) {
    (void)state;
    struct kvpool p;
    int32_t a = -1;
    int32_t b = -1;
    mixed(&p, &a, &b);
    p.n_free++;
    assert_err(kvpool_check(&p), ERR_INTERNAL, "law 1");
    p.n_free--;
    p.block[a].ref = 0;
    assert_err(kvpool_check(&p), ERR_INTERNAL, "law 2");
    p.block[a].ref = 1;
    p.block[b].ref = 1;
    assert_err(kvpool_check(&p), ERR_INTERNAL, "law 2");
    p.block[b].ref = 0;
    p.block[b].published = false;
    assert_err(kvpool_check(&p), ERR_INTERNAL, "law 1");
    p.block[b].published = true;
    assert_ok(kvpool_check(&p));
    kvpool_fini(&p);
}

static void test_kvpool_check_sees_broken_lists(void **state) {
    (void)state;
    struct kvpool p;
    int32_t a = -1;
    int32_t b = -1;
    mixed(&p, &a, &b);
    int32_t top = p.free_top;
    p.free_top = a;
    assert_err(kvpool_check(&p), ERR_INTERNAL, "law 3");
    p.free_top = p.block[top].next;
    assert_err(kvpool_check(&p), ERR_INTERNAL, "law 1");
    p.free_top = top;
    p.block[top].published = true;
    assert_err(kvpool_check(&p), ERR_INTERNAL, "law 3");
    p.block[top].published = false;
    p.lru_head = -1;
    assert_err(kvpool_check(&p), ERR_INTERNAL, "law 1");
    p.lru_head = b;
    p.block[b].prev = a;
    assert_err(kvpool_check(&p), ERR_INTERNAL, "law 3");
    p.block[b].prev = -1;
    p.block[top].next = top; /* a circle must not hang the check */
    assert_int_equal(kvpool_check(&p), ERR_INTERNAL);
    kvpool_fini(&p);
}

static void test_kvpool_check_sees_a_broken_map(void **state) {
    (void)state;
    struct kvpool p;
    int32_t a = -1;
    int32_t b = -1;
    mixed(&p, &a, &b);
    p.block[a].published = false;
    assert_err(kvpool_check(&p), ERR_INTERNAL, "law 6");
    p.block[a].published = true;
    p.tok[a * P] = 9;
    assert_err(kvpool_check(&p), ERR_INTERNAL, "law 5");
    p.tok[a * P] = A[0];
    /* b pretends to be a */
    struct kvblock keep = p.block[b];
    p.block[b].hash = p.block[a].hash;
    memcpy(p.tok + b * P, A, sizeof A);
    assert_err(kvpool_check(&p), ERR_INTERNAL, "law 5");
    p.block[b] = keep;
    memcpy(p.tok + b * P, B, sizeof B);
    assert_ok(kvpool_check(&p));
    kvpool_fini(&p);
}

static int init_once(void *ctx) {
    (void)ctx;
    struct kvpool p;
    int rc = kvpool_init(&p, N, P, 0);
    if (!rc) {
        kvpool_fini(&p);
    }
    return rc;
}

static void test_kvpool_without_memory(void **state) {
    (void)state;
    static const int codes[] = {ERR_NOMEM, 0};
    test_fault_loop(FAULT_ALLOC, init_once, NULL, codes);
}

int main(void) {
    const struct CMUnitTest tests[] = {TEST(test_kvpool_init_ranges),
                                       TEST(test_kvpool_take_is_all_or_nothing),
                                       TEST(test_kvpool_free_blocks_go_before_cached_ones),
                                       TEST(test_kvpool_least_recently_used_goes_first),
                                       TEST(test_kvpool_a_prefix_is_evicted_tail_first),
                                       TEST(test_kvpool_equal_blocks_are_published_once),
                                       TEST(test_kvpool_shared_block_lives_until_its_last_holder),
                                       TEST(test_kvpool_hit_needs_parent_and_tokens),
                                       TEST(test_kvpool_salt_separates),
                                       TEST(test_kvpool_flush_forgets_active_blocks_too),
                                       TEST(test_kvpool_check_sees_broken_counts_and_states),
                                       TEST(test_kvpool_check_sees_broken_lists),
                                       TEST(test_kvpool_check_sees_a_broken_map),
                                       TEST(test_kvpool_without_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
