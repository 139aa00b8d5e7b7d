/* Random ids and texts: the stream equals the whole, the whole equals a plain oracle, text that is
 * UTF-8 survives encode and decode. A failure prints its seed. */
#include "tests/support/support.h"

#include <string.h>

#include "engine/base/rng.h"
#include "engine/text/detok.h"
#include "engine/text/utf8.h"
#include "tests/support/toy_tok.h"

enum { N_SEEDS = 300, IDS_MAX = 60 };

static struct tok *toy(void) {
    struct buf b;
    struct tok *t = NULL;
    buf_init(&b, MEM_TEST, 1 << 16);
    toy_json(&b);
    assert_ok(tok_parse("toy", b.data, b.len, &t));
    buf_fini(&b);
    return t;
}

static bool same(const struct buf *a, const struct buf *b) {
    return a->len == b->len && memcmp(buf_cstr(a), buf_cstr(b), (size_t)a->len) == 0;
}

/* Bytes of all pieces, repaired as one string. */
static void oracle_bytes(const struct tok *t, const int32_t *ids, int32_t n, struct buf *out) {
    struct buf raw;
    buf_init(&raw, MEM_TEST, 1 << 16);
    for (int32_t i = 0; i < n; i++) {
        int32_t len;
        const uint8_t *p = tok_piece(t, ids[i], &len);
        assert_ok(buf_add(&raw, p, len));
    }
    assert_ok(utf8_repair((const uint8_t *)buf_cstr(&raw), raw.len, out));
    buf_fini(&raw);
}

/* Runs of byte tokens as wholes; one blank off the front. */
static void oracle_runs(const struct tok *t, const int32_t *ids, int32_t n, struct buf *out) {
    struct buf all;
    buf_init(&all, MEM_TEST, 1 << 16);
    for (int32_t i = 0; i < n;) {
        uint8_t run[IDS_MAX];
        int32_t k = 0;
        while (i + k < n && ids[i + k] >= 3 && ids[i + k] < 259) {
            run[k] = (uint8_t)(ids[i + k] - 3);
            k++;
        }
        bool good = utf8_valid(run, k) == k;
        for (int32_t j = 0; j < k; j++) {
            assert_ok(good ? buf_add(&all, &run[j], 1) : buf_utf8(&all, UTF8_REPLACEMENT));
        }
        if (k == 0) {
            int32_t len;
            const uint8_t *p = tok_piece(t, ids[i], &len);
            assert_ok(buf_add(&all, p, len));
        }
        i += k + (k == 0);
    }
    bool blank = all.len > 0 && all.data[0] == ' ';
    assert_ok(buf_add(out, buf_cstr(&all) + blank, all.len - blank));
    buf_fini(&all);
}

static void check_stream(const struct tok *t, bool runs, uint64_t seed) {
    struct rng r;
    int32_t ids[IDS_MAX];
    struct buf whole;
    struct buf stream;
    struct buf want;
    struct detok d;
    rng_init(&r, seed, runs);
    int32_t n = (int32_t)rng_below(&r, IDS_MAX);
    buf_init(&whole, MEM_TEST, 1 << 16);
    buf_init(&stream, MEM_TEST, 1 << 16);
    buf_init(&want, MEM_TEST, 1 << 16);
    detok_init(&d, t, false);
    for (int32_t i = 0; i < n; i++) {
        int64_t before = stream.len;
        ids[i] = (int32_t)rng_below(&r, tok_n_vocab(t));
        assert_ok(detok_push(&d, ids[i], &stream));
        const uint8_t *part = (const uint8_t *)buf_cstr(&stream) + before;
        if (utf8_valid(part, stream.len - before) != stream.len - before) {
            fail_msg("seed %llu: a part is no UTF-8", (unsigned long long)seed);
        }
    }
    assert_ok(detok_flush(&d, &stream));
    assert_ok(tok_decode(t, ids, n, false, &whole));
    (runs ? oracle_runs : oracle_bytes)(t, ids, n, &want);
    if (!same(&whole, &stream) || !same(&whole, &want)) {
        fail_msg("seed %llu: stream, whole and oracle differ", (unsigned long long)seed);
    }
    detok_fini(&d);
    buf_fini(&whole);
    buf_fini(&stream);
    buf_fini(&want);
}

static void test_detok_stream_equals_whole(void **state) {
    (void)state;
    struct tok *bytes = toy();
    struct tok *spm = toy_spm();
    for (uint64_t seed = 1; seed <= N_SEEDS; seed++) {
        check_stream(bytes, false, seed);
        check_stream(spm, true, seed);
    }
    tok_destroy(bytes);
    tok_destroy(spm);
}

static void random_text(struct rng *r, struct buf *b) {
    int64_t n = rng_below(r, 40);
    for (int64_t i = 0; i < n; i++) {
        static const uint32_t top[] = {0x80, 0x300, 0x3000, 0x110000};
        uint32_t cp = (uint32_t)rng_below(r, top[rng_below(r, 4)]);
        cp = cp >= 0xd800 && cp < 0xe000 ? ' ' : cp;
        assert_ok(rng_below(r, 5) == 0 ? buf_str(b, " hello") : buf_utf8(b, cp));
    }
}

static void test_tok_round_trip(void **state) {
    (void)state;
    struct tok *t = toy();
    for (uint64_t seed = 1; seed <= N_SEEDS; seed++) {
        struct rng r;
        struct buf text;
        struct buf norm;
        struct buf back;
        struct tok_ids ids;
        rng_init(&r, seed, 7);
        buf_init(&text, MEM_TEST, 1 << 16);
        buf_init(&norm, MEM_TEST, 1 << 16);
        buf_init(&back, MEM_TEST, 1 << 16);
        tok_ids_init(&ids);
        random_text(&r, &text);
        assert_ok(tok_encode(t, buf_cstr(&text), text.len, 0, &ids));
        assert_ok(tok_decode(t, ids.v, ids.n, false, &back));
        assert_ok(utf8_normalize(UTF8_NFC, (const uint8_t *)buf_cstr(&text), text.len, &norm));
        if (!same(&norm, &back)) {
            fail_msg("seed %llu: text does not come back", (unsigned long long)seed);
        }
        tok_ids_fini(&ids);
        buf_fini(&text);
        buf_fini(&norm);
        buf_fini(&back);
    }
    tok_destroy(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_detok_stream_equals_whole),
        TEST(test_tok_round_trip),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
