/* plan -> batch: every array of a plan of three kinds of items, by hand. */
#include "tests/support/support.h"

#include <string.h>

#include "engine/sched/batch.h"

enum { P = 4 };

static struct seq *make(int32_t first, int32_t n, int32_t max_new, const int32_t *blocks) {
    int32_t ids[32];
    struct seq *q = NULL;
    for (int32_t i = 0; i < n; i++) {
        ids[i] = first + i;
    }
    assert_ok(seq_create(ids, n, max_new, P, 1, &q));
    q->held[0].n = q->cap_block;
    memcpy(q->held[0].id, blocks, (size_t)q->cap_block * sizeof *blocks);
    return q;
}

static void expect(const int32_t *got, const int32_t *want, int32_t n) {
    for (int32_t i = 0; i < n; i++) {
        assert_int_equal(got[i], want[i]);
    }
}

static void test_batch_of_decode_chunk_and_score(void **state) {
    (void)state;
    struct batch_set set;
    struct plan p;
    struct seq *q[3] = {make(100, 6, 2, (const int32_t[]){7, 3}),
                        make(200, 9, 0, (const int32_t[]){2, 9, 5}),
                        make(300, 5, 0, (const int32_t[]){4, 8})};
    q[2]->score = true;
    q[2]->score_from = 2;
    assert_ok(batch_init(&set, 1, 16, 4, 3));
    assert_ok(plan_init(&p, 4));
    p.item[0] = (struct plan_item){.seq = q[0], .start = 5, .n = 1, .sample = true};
    p.item[1] = (struct plan_item){.seq = q[1], .start = 2, .n = 4, .sample = false};
    p.item[2] = (struct plan_item){.seq = q[2], .start = 1, .n = 4, .sample = false};
    p.n_item = 3;
    for (int32_t pass = 0; pass < 2; pass++) { /* a second build forgets the first */
        batch_build(&set, &p, P);
        struct batch b = set.group[0];
        assert_true(b.n_tok == 9 && b.n_seq == 3 && b.n_out == 4);
        expect(b.tok, (const int32_t[]){105, 202, 203, 204, 205, 301, 302, 303, 304}, 9);
        expect(b.pos, (const int32_t[]){5, 2, 3, 4, 5, 1, 2, 3, 4}, 9);
        expect(b.slot, (const int32_t[]){13, 10, 11, 36, 37, 17, 18, 19, 32}, 9);
        expect(b.seq_start, (const int32_t[]){0, 1, 5, 9}, 4);
        expect(b.ctx_len, (const int32_t[]){6, 6, 5}, 3);
        expect(b.block_table, (const int32_t[]){7, 3}, 2);
        expect(b.block_table + b.table_stride, (const int32_t[]){2, 9}, 2);
        expect(b.block_table + 2 * b.table_stride, (const int32_t[]){4, 8}, 2);
        expect(b.out_row, (const int32_t[]){0, 6, 7, 8}, 4);
    }
    p.n_item = 0;
    batch_build(&set, &p, P);
    const struct batch *b = &set.group[0];
    assert_true(b->n_tok == 0 && b->n_seq == 0 && b->n_out == 0 && b->seq_start[0] == 0);
    for (int32_t i = 0; i < 3; i++) {
        seq_destroy(q[i]);
    }
    plan_fini(&p);
    batch_fini(&set);
}

static void test_batch_of_two_groups(void **state) {
    (void)state;
    struct batch_set set;
    struct plan p;
    int32_t ids[10] = {0};
    struct seq *q = NULL;
    assert_ok(seq_create(ids, 10, 0, P, 2, &q));
    memcpy(q->held[0].id, (const int32_t[]){5, 6, 7}, 3 * sizeof(int32_t));
    memcpy(q->held[1].id, (const int32_t[]){-1, 2, 0}, 3 * sizeof(int32_t));
    assert_ok(batch_init(&set, 2, 16, 4, 3));
    assert_ok(plan_init(&p, 4));
    p.item[0] = (struct plan_item){.seq = q, .start = 7, .n = 2};
    p.n_item = 1;
    batch_build(&set, &p, P);
    const struct batch *b = set.group;
    assert_true(b[1].n_tok == 2 && b[1].n_seq == 1 && b[1].pos == b[0].pos);
    expect(b[0].slot, (const int32_t[]){27, 28}, 2);
    expect(b[1].slot, (const int32_t[]){11, 0}, 2);
    expect(b[0].block_table, (const int32_t[]){5, 6, 7}, 3);
    expect(b[1].block_table, (const int32_t[]){-1, 2, 0}, 3);
    seq_destroy(q);
    plan_fini(&p);
    batch_fini(&set);
}

static int init_once(void *ctx) {
    (void)ctx;
    struct batch_set b;
    int rc = batch_init(&b, 2, 16, 4, 3);
    if (!rc) {
        batch_fini(&b);
    }
    return rc;
}

static void test_batch_without_memory(void **state) {
    (void)state;
    static const int codes[] = {ERR_NOMEM, 0};
    test_fault_loop(FAULT_ALLOC, init_once, NULL, codes);
}

int main(void) {
    const struct CMUnitTest tests[] = {TEST(test_batch_of_decode_chunk_and_score),
                                       TEST(test_batch_of_two_groups),
                                       TEST(test_batch_without_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
