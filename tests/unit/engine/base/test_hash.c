/* The chain hash: equal chains meet, all others part. */
#include "tests/support/support.h"

#include <string.h>

#include "engine/base/hash.h"

static void test_hash_known_answer_of_xxh3(void **state) {
    (void)state;
    /* src: XXH3_128bits of the empty input, xxHash's own test vector (seed 0) */
    struct hash128 h = hash_chain((struct hash128){0}, "", 0);
    assert_true(h.lo == 0x6001c324468d497f);
    assert_true(h.hi == 0x99aa06d3014798d8);
}

static void test_hash_equal_input_equal_hash(void **state) {
    (void)state;
    struct hash128 p = {123, 456};
    int32_t a[4] = {1, 2, 3, 4};
    int32_t b[4] = {1, 2, 3, 4};
    assert_true(hash_eq(hash_chain(p, a, 16), hash_chain(p, b, 16)));
    b[3] = 5;
    assert_false(hash_eq(hash_chain(p, a, 16), hash_chain(p, b, 16)));
    assert_false(hash_eq(hash_chain(p, a, 16), hash_chain(p, a, 12)));
}

static void test_hash_every_bit_of_the_parent_counts(void **state) {
    (void)state;
    struct hash128 p = {0x0123456789abcdef, 0xfedcba9876543210};
    struct hash128 h = hash_chain(p, "data", 4);
    for (int32_t i = 0; i < 64; i++) {
        struct hash128 q = p;
        q.lo ^= UINT64_C(1) << i;
        assert_false(hash_eq(h, hash_chain(q, "data", 4)));
        q = p;
        q.hi ^= UINT64_C(1) << i;
        assert_false(hash_eq(h, hash_chain(q, "data", 4)));
    }
    assert_false(hash_eq((struct hash128){1, 2}, (struct hash128){1, 3}));
    assert_false(hash_eq((struct hash128){1, 2}, (struct hash128){0, 2}));
}

int main(void) {
    const struct CMUnitTest tests[] = {TEST(test_hash_known_answer_of_xxh3),
                                       TEST(test_hash_equal_input_equal_hash),
                                       TEST(test_hash_every_bit_of_the_parent_counts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
