/* The table of ids against a plain list, and the table of connections. */
#include "tests/support/support.h"

#include <sys/socket.h>
#include <unistd.h>

#include "engine/base/rng.h"
#include "engine/serve/conns.h"
#include "engine/serve/idmap.h"

enum { SEED = 12, IDS = 64, STEPS = 20000 };

static void test_idmap_as_a_list(void **state) {
    (void)state;
    static char value[4096];
    bool in[4096] = {false};
    struct idmap m;
    struct rng r;
    int32_t n = 0;
    rng_init(&r, SEED, 1);
    assert_ok(idmap_init(&m, IDS));
    for (int32_t i = 0; i < STEPS; i++) {
        /* strides of the table's size make long chains */
        uint64_t id = 1 + (uint64_t)rng_below(&r, 30) * 128 % 4000 + (uint64_t)rng_below(&r, 3);
        if (in[id]) {
            idmap_remove(&m, id);
            in[id] = false;
            n--;
        } else if (n < IDS) {
            assert_ok(idmap_put(&m, id, &value[id]));
            in[id] = true;
            n++;
        } else {
            assert_err(idmap_put(&m, id, value), ERR_LIMIT, "full");
        }
        assert_int_equal(m.n, n);
        uint64_t ask = 1 + (uint64_t)rng_below(&r, 4000);
        assert_true(idmap_get(&m, ask) == (in[ask] ? &value[ask] : NULL));
    }
    for (uint64_t id = 1; id < 4096; id++) {
        assert_true(idmap_get(&m, id) == (in[id] ? &value[id] : NULL));
    }
    idmap_fini(&m);
    assert_err(idmap_init(&m, 0), ERR_RANGE, "want 1..");
}

static bool is_shut(int fd) {
    char c = 0;
    return recv(fd, &c, 1, MSG_DONTWAIT) == 0;
}

static void test_conns_limits_are_on_the_whole(void **state) {
    (void)state;
    struct conns c;
    int a[2];
    int b[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, a), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, b), 0);
    assert_ok(conns_init(&c, 2));
    uint64_t na = conns_add(&c, a[0], 0);
    uint64_t nb = conns_add(&c, b[0], 0);
    assert_true(na && nb && na != nb && conns_add(&c, 99, 0) == 0);
    assert_int_equal(conns_n_open(&c), 2);
    conns_phase(&c, nb, CONNS_BUSY, 5);
    assert_int_equal(conns_sweep(&c, 10, 10, 100), 0);
    assert_int_equal(conns_sweep(&c, 11, 10, 100), 1); /* a's head takes too long */
    assert_true(is_shut(a[1]) && !is_shut(b[1]));
    assert_int_equal(conns_sweep(&c, 12, 10, 100), 0);      /* once */
    assert_int_equal(conns_sweep(&c, 1000000, 10, 100), 0); /* busy has no limit */
    conns_phase(&c, nb, CONNS_IDLE, 2000000);
    assert_int_equal(conns_sweep(&c, 2000100, 10, 100), 0);
    assert_int_equal(conns_sweep(&c, 2000101, 10, 100), 1);
    assert_true(is_shut(b[1]));
    conns_remove(&c, na);
    conns_remove(&c, na);
    assert_int_equal(conns_n_open(&c), 1);
    uint64_t again = conns_add(&c, a[0], 0);
    assert_true(again && again != na); /* the slot, another name */
    assert_true(conns_hung_up(&c, na) && !conns_hung_up(&c, again));
    conns_hang_up(&c, na, 0);
    assert_false(conns_hung_up(&c, again));
    conns_hang_up(&c, again, 3);
    assert_true(conns_hung_up(&c, again));
    assert_int_equal(conns_sweep(&c, 100000003, INT64_MAX, INT64_MAX), 0);
    assert_false(c.slot[0].cut);
    assert_int_equal(conns_sweep(&c, 100000004, INT64_MAX, INT64_MAX), 0);
    assert_true(c.slot[0].cut); /* hung up long enough; no time-out */
    conns_fini(&c);
    for (int32_t i = 0; i < 2; i++) {
        close(a[i]);
        close(b[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {TEST(test_idmap_as_a_list),
                                       TEST(test_conns_limits_are_on_the_whole)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
