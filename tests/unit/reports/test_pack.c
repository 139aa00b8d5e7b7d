/* Packed token events: every event comes back, every other byte string is refused. */
#include "tests/support/support.h"

#include <string.h>

#include "engine/base/rng.h"
#include "reports/pack.h"

enum { N = 300 };

static void make(struct store_event *e, int64_t n, uint64_t seed) {
    struct rng r;
    int64_t t = 0;
    rng_init(&r, seed, 2);
    for (int64_t i = 0; i < n; i++) {
        int64_t gap = rng_below(&r, INT64_C(1) << rng_below(&r, 50));
        t += gap;
        e[i] = (struct store_event){t, i ? gap : STORE_NULL, rng_below(&r, i % 7 ? 3 : 1 << 20)};
    }
}

static void pack(struct buf *b, const struct store_event *e, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        int64_t before = i ? e[i - 1].t_ns : 0;
        assert_true(pack_fits(&e[i], i, before));
        assert_ok(pack_add(b, &e[i], before));
    }
}

static void test_pack_read_gives_back_what_was_added(void **state) {
    (void)state;
    struct store_event e[N];
    struct store_event back[N];
    for (uint64_t seed = 0; seed < 50; seed++) {
        struct buf b;
        buf_init(&b, MEM_TEST, 1 << 20);
        make(e, N, seed);
        pack(&b, e, N);
        assert_in_range(b.len, N * PACK_EVENT_MIN, N * PACK_EVENT_MAX);
        assert_ok(pack_read(b.data, b.len, N, back));
        assert_memory_equal(e, back, sizeof e);
        buf_fini(&b);
    }
}

static void test_pack_read_keeps_extremes(void **state) {
    (void)state;
    const struct store_event e[] = {{0, STORE_NULL, 0}, {INT64_MAX, INT64_MAX, INT64_MAX}};
    struct store_event back[2];
    struct buf b;
    buf_init(&b, MEM_TEST, 1 << 10);
    pack(&b, e, 2);
    assert_ok(pack_read(b.data, b.len, 2, back));
    assert_memory_equal(e, back, sizeof e);
    buf_fini(&b);
}

static void test_pack_fits_only_sound_events(void **state) {
    (void)state;
    assert_true(pack_fits(&(struct store_event){5, STORE_NULL, 1}, 0, 0));
    assert_false(pack_fits(&(struct store_event){5, 5, 1}, 0, 0));
    assert_false(pack_fits(&(struct store_event){-5, STORE_NULL, 1}, 0, 0));
    assert_false(pack_fits(&(struct store_event){5, STORE_NULL, -1}, 0, 0));
    assert_true(pack_fits(&(struct store_event){5, 2, 1}, 1, 3));
    assert_false(pack_fits(&(struct store_event){5, 1, 1}, 1, 3));
    assert_false(pack_fits(&(struct store_event){5, -1, 1}, 1, 6));
    assert_false(pack_fits(&(struct store_event){5, STORE_NULL, 1}, 1, 3));
}

static void test_pack_read_refuses_cut_and_long_bytes(void **state) {
    (void)state;
    struct store_event e[N];
    struct store_event back[N + 1];
    struct buf b;
    buf_init(&b, MEM_TEST, 1 << 20);
    make(e, N, 9);
    pack(&b, e, N);
    for (int64_t n = 0; n < b.len; n++) {
        assert_err(pack_read(b.data, n, N, back), ERR_FORMAT, "no number");
    }
    assert_err(pack_read(b.data, b.len, N + 1, back), ERR_FORMAT, "no number");
    assert_err(pack_read(b.data, b.len, N - 1, back), ERR_FORMAT, "bytes behind");
    assert_err(pack_read("\x01\x80\x00", 3, 1, back), ERR_FORMAT, "no number");
    assert_err(pack_read("\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11, 1, back), ERR_FORMAT,
               "no number");
    assert_err(pack_read("\x01\xff\xff\xff\xff\xff\xff\xff\xff\x7f\x01\x01", 12, 2, back),
               ERR_FORMAT, "event 1");
    buf_fini(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_pack_read_gives_back_what_was_added),
        TEST(test_pack_read_keeps_extremes),
        TEST(test_pack_fits_only_sound_events),
        TEST(test_pack_read_refuses_cut_and_long_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
