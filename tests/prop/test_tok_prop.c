/* Random vocabularies and texts: merging equals the law written as a plain loop, hand-made scanners
 * equal their patterns, text comes back, and the work a text takes grows as its length, whatever
 * the text. A failure prints its seed. LABELS: threads */
#include "tests/support/support.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/rng.h"
#include "engine/text/detok.h"
#include "engine/text/tok.h"
#include "engine/text/utf8.h"
#include "tests/support/textshape.h"
#include "tests/support/tok_parts.h"

enum { TEXT_MAX = 1 << 24 };

/* A random byte-pair vocabulary over a few letters. */
enum { N_LETTERS = 4, N_MERGES = 70, TOKEN_MAX = 64, N_VOCAB = N_LETTERS + N_MERGES };

struct bpe {
    int32_t n;
    char text[N_VOCAB][TOKEN_MAX + 1];
    char pair[N_MERGES][2 * TOKEN_MAX + 2];
    int32_t rank[N_VOCAB][N_VOCAB]; /* N_MERGES: no merge */
};

static int32_t find(const struct bpe *v, const char *text) {
    for (int32_t i = 0; i < v->n; i++) {
        if (strcmp(v->text[i], text) == 0) {
            return i;
        }
    }
    return -1;
}

/* Merges of two tokens each, every whole a new token: what training makes, in any order. */
static void random_vocab(struct rng *r, struct bpe *v) {
    memset(v, 0, sizeof *v);
    for (int32_t i = 0; i < N_VOCAB * N_VOCAB; i++) {
        v->rank[i / N_VOCAB][i % N_VOCAB] = N_MERGES;
    }
    for (int32_t i = 0; i < N_LETTERS; i++) {
        v->text[v->n++][0] = (char)('a' + i);
    }
    for (int32_t m = 0; m < N_MERGES;) {
        int32_t a = (int32_t)rng_below(r, v->n);
        int32_t b = (int32_t)rng_below(r, v->n);
        char whole[2 * TOKEN_MAX + 1];
        snprintf(whole, sizeof whole, "%s%s", v->text[a], v->text[b]);
        if (strlen(whole) <= TOKEN_MAX && find(v, whole) < 0) {
            snprintf(v->text[v->n], sizeof v->text[0], "%.*s", TOKEN_MAX, whole);
            size_t n = strlen(v->text[a]);
            memcpy(v->pair[m], whole, n);
            v->pair[m][n] = ' ';
            memcpy(v->pair[m] + n + 1, whole + n, strlen(whole + n) + 1);
            v->rank[a][b] = m;
            v->n++;
            m++;
        }
    }
}

static struct tok *make_bpe(const struct bpe *v) {
    struct tok_str text[N_VOCAB];
    struct tok_str merges[N_MERGES];
    struct tok *t = NULL;
    struct tok_step whole = {.kind = TOK_STEP_STRING, .pattern = {"\n", 1}};
    for (int32_t i = 0; i < N_VOCAB; i++) {
        text[i] = (struct tok_str){v->text[i], (int32_t)strlen(v->text[i])};
    }
    for (int32_t i = 0; i < N_MERGES; i++) {
        merges[i] = (struct tok_str){v->pair[i], (int32_t)strlen(v->pair[i])};
    }
    struct tok_spec s = {.where = "random",
                         .n_vocab = N_VOCAB,
                         .text = text,
                         .n_merges = N_MERGES,
                         .merges = merges,
                         .n_steps = 1,
                         .steps = &whole};
    assert_ok(tok_create(&s, &t));
    return t;
}

/* The law: the lowest rank, then the leftmost, until there is none. out: ids in place */
static int32_t merge_plainly(const struct bpe *v, int32_t *id, int32_t n) {
    for (;;) {
        int32_t best = N_MERGES;
        int32_t at = -1;
        for (int32_t i = 0; i + 1 < n; i++) {
            int32_t rank = v->rank[id[i]][id[i + 1]];
            at = rank < best ? i : at;
            best = i32_min(best, rank);
        }
        if (at < 0) {
            return n;
        }
        id[at] = N_LETTERS + best;
        n--;
        memmove(id + at + 1, id + at + 2, (size_t)(n - at - 1) * sizeof *id);
    }
}

/* Texts that repeat themselves, so that long tokens come about, and some that do not. */
static int32_t random_letters(struct rng *r, const struct bpe *v, char *text, int32_t most) {
    int32_t n = 0;
    int64_t habit = rng_below(r, 3);
    while (n + TOKEN_MAX < most && rng_below(r, 400) > 0) {
        const char *s = v->text[rng_below(r, habit == 0 ? N_LETTERS : N_VOCAB)];
        int64_t times = habit == 2 ? 1 + rng_below(r, 40) : 1;
        for (int64_t k = 0; k < times && n + TOKEN_MAX < most; k++) {
            n += snprintf(text + n, (size_t)(most - n), "%s", s);
        }
    }
    return n;
}

static void test_tok_merging_is_the_law(void **state) {
    (void)state;
    static char text[3000];
    static int32_t want[3000];
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct rng r;
        struct bpe v;
        rng_init(&r, seed, 3);
        random_vocab(&r, &v);
        struct tok *t = make_bpe(&v);
        for (int32_t k = 0; k < 4; k++) {
            struct tok_ids ids;
            int32_t n = random_letters(&r, &v, text, k % 2 ? 3000 : 300);
            for (int32_t i = 0; i < n; i++) {
                want[i] = text[i] - 'a';
            }
            tok_ids_init(&ids);
            assert_ok(tok_encode(t, text, n, 0, &ids));
            int32_t n_want = merge_plainly(&v, want, n);
            if (ids.n != n_want || memcmp(ids.v, want, (size_t)n_want * sizeof *want) != 0) {
                fail_msg("seed %llu, text %d of %d bytes differs", (unsigned long long)seed, k, n);
            }
            tok_ids_fini(&ids);
        }
        tok_destroy(t);
    }
}

/* All bytes, and a merge for every two of the bytes that scan_text uses: a piece's tokens pair up
 * from its beginning, so every other cut shows. */
enum { N_SCAN = 24, N_SCAN_VOCAB = 256 + N_SCAN * N_SCAN };

static const uint8_t scan_bytes[N_SCAN] = {' ',  '\n', '\r', '\t', '\'', 'a',  's',  'S',
                                           't',  'r',  'e',  'l',  '1',  '2',  '.',  '-',
                                           0xc5, 0xbf, 0xe3, 0x80, 0x81, 0xa0, 0xc2, 'V'};

struct scan_vocab {
    char text[N_SCAN_VOCAB][8];
    char pair[N_SCAN * N_SCAN][12];
};

/* The letter of a byte in GPT-2's alphabet. */
static int32_t letter(uint8_t b, char *out) {
    bool same = (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b != 0xad);
    uint32_t cp = same ? b : b < 0x21 ? 0x100U + b : b == 0xad ? 0x143U : 0x121U + b - 0x7fU;
    if (cp < 0x80) {
        out[0] = (char)cp;
        return 1;
    }
    out[0] = (char)(0xc0 | cp >> 6);
    out[1] = (char)(0x80 | (cp & 0x3f));
    return 2;
}

static struct tok *scanner(struct scan_vocab *v, const char *pattern) {
    static struct tok_str text[N_SCAN_VOCAB];
    static struct tok_str merges[N_SCAN * N_SCAN];
    struct tok *t = NULL;
    struct tok_step step = {.kind = TOK_STEP_REGEX, .pattern = {pattern, (int32_t)strlen(pattern)}};
    for (int32_t i = 0; i < 256; i++) {
        text[i] = (struct tok_str){v->text[i], letter((uint8_t)i, v->text[i])};
    }
    for (int32_t i = 0; i < N_SCAN * N_SCAN; i++) {
        const uint8_t a = scan_bytes[i / N_SCAN];
        const uint8_t b = scan_bytes[i % N_SCAN];
        int32_t n = letter(a, v->pair[i]);
        v->pair[i][n++] = ' ';
        n += letter(b, v->pair[i] + n);
        merges[i] = (struct tok_str){v->pair[i], n};
        int32_t k = letter(a, v->text[256 + i]);
        k += letter(b, v->text[256 + i] + k);
        text[256 + i] = (struct tok_str){v->text[256 + i], k};
    }
    struct tok_spec s = {.where = "scan",
                         .n_vocab = N_SCAN_VOCAB,
                         .text = text,
                         .n_merges = N_SCAN * N_SCAN,
                         .merges = merges,
                         .n_steps = 1,
                         .steps = &step};
    assert_ok(tok_create(&s, &t));
    return t;
}

static void scan_text(struct rng *r, struct buf *b) {
    static const char *const part[] = {
        " ",        "  ",  "\n",        "\r",           "\t",
        "'s",       "'S",  "'\xc5\xbf", "'re",          "'VE",
        "'l",       "'ll", "a",         "Sta",          "12",
        "1234",     ".",   "--",        "\xe3\x80\x81", "\xe3\x80\x80",
        "\xc2\xa0", "'",   "\xc2\xaa",  "\xc2\xa1",     "\xc5\x81"};
    int64_t n = rng_below(r, 12);
    for (int64_t i = 0; i < n; i++) {
        assert_ok(buf_str(b, part[rng_below(r, ARRAY_LEN(part))]));
    }
}

static void test_tok_scanners_are_their_patterns(void **state) {
    (void)state;
#define TAIL "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define HEAD "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|"
    static const char *const patterns[] = {
        "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
        HEAD "\\p{N}" TAIL, HEAD "\\p{N}{1,3}" TAIL, "\\s+$", "\\d{1,3}(?=(?:\\d{3})*\\b)"};
    static struct scan_vocab v[2];
    for (int32_t k = 0; k < ARRAY_LEN(patterns); k++) {
        char by_regex[512];
        snprintf(by_regex, sizeof by_regex, "(?:%s)", patterns[k]);
        struct tok *hand = scanner(&v[0], patterns[k]);
        struct tok *regex = scanner(&v[1], by_regex);
        for (uint64_t seed = 1; seed <= 4000; seed++) {
            struct rng r;
            struct buf b;
            struct tok_ids got;
            struct tok_ids want;
            rng_init(&r, seed, (uint64_t)k);
            buf_init(&b, MEM_TEST, TEXT_MAX);
            tok_ids_init(&got);
            tok_ids_init(&want);
            scan_text(&r, &b);
            assert_ok(tok_encode(hand, buf_cstr(&b), b.len, 0, &got));
            assert_ok(tok_encode(regex, buf_cstr(&b), b.len, 0, &want));
            if (got.n != want.n ||
                (got.n > 0 && memcmp(got.v, want.v, (size_t)got.n * sizeof *got.v) != 0)) {
                fail_msg("pattern %d, seed %llu, \"%s\": cuts differ", k, (unsigned long long)seed,
                         buf_cstr(&b));
            }
            tok_ids_fini(&got);
            tok_ids_fini(&want);
            buf_fini(&b);
        }
        tok_destroy(hand);
        tok_destroy(regex);
    }
}

/* Units of work for n bytes of a shape. */
static int64_t ops_of(const struct tok *t, int32_t shape, int64_t n, int64_t *bytes) {
    struct buf b;
    struct tok_ids ids;
    buf_init(&b, MEM_TEST, TEXT_MAX);
    tok_ids_init(&ids);
    assert_ok(textshape_make(shape, n, &b));
    int64_t before = tok_ops(t);
    assert_ok(tok_encode(t, b.data, b.len, 0, &ids));
    *bytes = b.len;
    buf_fini(&b);
    tok_ids_fini(&ids);
    return tok_ops(t) - before;
}

/* Work, not time: at most OPS_MAX units a byte, and not more a byte for a text four times as long.
 * Texts are so long that a factor of log n would show. */
static void check_linear(const struct tok *t, const char *name) {
    enum { N = 100000, OPS_MAX = 16 };
    for (int32_t shape = 0; shape < TEXTSHAPE_N; shape++) {
        int64_t n1;
        int64_t n4;
        int64_t one = ops_of(t, shape, N, &n1);
        int64_t four = ops_of(t, shape, 4 * (int64_t)N, &n4);
        double a = (double)one / (double)n1;
        double b = (double)four / (double)n4;
        if (a > OPS_MAX || b > OPS_MAX || b > a * 1.15 + 0.05) {
            fail_msg("%s, %s: %.2f units a byte for %lld bytes, %.2f for %lld", name,
                     textshape_name(shape), a, (long long)n1, b, (long long)n4);
        }
    }
}

static void test_tok_work_is_linear(void **state) {
    (void)state;
    static const char *const parts[] = {"norm_nfc",     "bytes_ignore",    "llama_fall",
                                        "marks_char",   "llama_unifall",   "xlm",
                                        "digits_bytes", "added_both_llama"};
    for (int32_t i = 0; i < ARRAY_LEN(parts); i++) {
        struct tok *t = tok_parts_open(parts[i]);
        check_linear(t, parts[i]);
        tok_destroy(t);
    }
}

static void test_tok_work_is_linear_for_real_ones(void **state) {
    (void)state;
    static const char *const shared[] = {"tokenizer-gpt2", "tokenizer-llama2",
                                         "../golden/tokenizers/qwen3_hf",
                                         "tokenizer-llama2/tokenizer.model"};
    int32_t n = 0;
    for (int32_t i = 0; i < ARRAY_LEN(shared); i++) {
        struct tok *t = NULL;
        const char *path = test_shared(shared[i]);
        if (path) {
            assert_ok(tok_open(path, &t));
            check_linear(t, shared[i]);
            tok_destroy(t);
            n++;
        }
    }
    if (n == 0) {
        print_message("no tokenizer of the shared data is on this machine (TRILEMMA_SHARED)\n");
        skip();
    }
}

/* Bytes of all kinds: characters of every plane, broken ones, blanks. */
static void random_bytes(struct rng *r, struct buf *b) {
    int64_t n = rng_below(r, 60);
    for (int64_t i = 0; i < n; i++) {
        static const uint32_t top[] = {0x80, 0x800, 0x3000, 0x10000, 0x110000};
        uint32_t cp = (uint32_t)rng_below(r, top[rng_below(r, ARRAY_LEN(top))]);
        uint8_t byte = (uint8_t)rng_u64(r);
        cp = cp >= 0xd800 && cp < 0xe000 ? ' ' : cp;
        assert_ok(rng_below(r, 8) == 0 ? buf_add(b, &byte, 1) : buf_utf8(b, cp));
    }
}

/* decode(encode(x)) is x, repaired; the stream is the whole at every split of the ids in two. */
static void come_back(const struct tok *t, const char *name, uint64_t seed) {
    struct rng r;
    struct buf b;
    struct buf want;
    struct buf back;
    struct tok_ids ids;
    rng_init(&r, seed, 9);
    buf_init(&b, MEM_TEST, TEXT_MAX);
    buf_init(&want, MEM_TEST, TEXT_MAX);
    buf_init(&back, MEM_TEST, TEXT_MAX);
    tok_ids_init(&ids);
    random_bytes(&r, &b);
    assert_ok(utf8_repair((const uint8_t *)buf_cstr(&b), b.len, &want));
    assert_ok(tok_encode(t, buf_cstr(&b), b.len, 0, &ids));
    assert_ok(tok_decode(t, ids.v, ids.n, false, &back));
    if (back.len != want.len || memcmp(buf_cstr(&back), buf_cstr(&want), (size_t)back.len) != 0) {
        fail_msg("%s, seed %llu: text does not come back", name, (unsigned long long)seed);
    }
    for (int32_t cut = 0; cut <= ids.n; cut++) {
        struct detok d;
        detok_init(&d, t, false);
        buf_clear(&want);
        for (int32_t i = 0; i < cut; i++) {
            assert_ok(detok_push(&d, ids.v[i], &want));
        }
        int64_t good = utf8_valid((const uint8_t *)buf_cstr(&want), want.len);
        bool prefix =
            want.len <= back.len && memcmp(buf_cstr(&want), buf_cstr(&back), (size_t)want.len) == 0;
        for (int32_t i = cut; i < ids.n; i++) {
            assert_ok(detok_push(&d, ids.v[i], &want));
        }
        assert_ok(detok_flush(&d, &want));
        if (good < 0 || !prefix || want.len != back.len ||
            memcmp(buf_cstr(&want), buf_cstr(&back), (size_t)back.len) != 0) {
            fail_msg("%s, seed %llu: the stream cut at %d differs", name, (unsigned long long)seed,
                     cut);
        }
        detok_fini(&d);
    }
    tok_ids_fini(&ids);
    buf_fini(&b);
    buf_fini(&want);
    buf_fini(&back);
}

static void test_tok_text_comes_back(void **state) {
    (void)state;
    static const char *const parts[] = {"bytes_ignore",  "digits_bytes", "pattern_llama3",
                                        "pattern_o200k", "norm_bytes",   "bytes_then_split"};
    for (int32_t i = 0; i < ARRAY_LEN(parts); i++) {
        struct tok *t = tok_parts_open(parts[i]);
        for (uint64_t seed = 1; seed <= 200; seed++) {
            come_back(t, parts[i], seed);
        }
        tok_destroy(t);
    }
}

struct job {
    const struct tok *t;
    const struct buf *text;
    const struct tok_ids *want;
    int32_t n_bad;
};

static void *encode_often(void *arg) {
    struct job *j = arg;
    for (int32_t i = 0; i < 20; i++) {
        struct tok_ids ids;
        tok_ids_init(&ids);
        int rc = tok_encode(j->t, j->text->data, j->text->len, 0, &ids);
        j->n_bad += rc || ids.n != j->want->n ||
                    memcmp(ids.v, j->want->v, (size_t)ids.n * sizeof *ids.v) != 0;
        tok_ids_fini(&ids);
    }
    return NULL;
}

/* Long pieces, patterns, charsmap, Unigram: all scratch is the call's own. */
static void test_tok_threads_share_all_parts(void **state) {
    (void)state;
    static const char *const parts[] = {"xlm", "llama_fall", "pattern_o200k", "dec_replace_regex"};
    for (int32_t i = 0; i < ARRAY_LEN(parts); i++) {
        struct tok *t = tok_parts_open(parts[i]);
        struct buf b;
        struct tok_ids want;
        pthread_t thread[3];
        struct job job[3];
        buf_init(&b, MEM_TEST, TEXT_MAX);
        tok_ids_init(&want);
        for (int32_t shape = 0; shape < TEXTSHAPE_N; shape++) {
            assert_ok(textshape_make(shape, 300, &b));
        }
        assert_ok(tok_encode(t, b.data, b.len, 0, &want));
        for (int32_t k = 0; k < 3; k++) {
            job[k] = (struct job){.t = t, .text = &b, .want = &want};
            assert_int_equal(pthread_create(&thread[k], NULL, encode_often, &job[k]), 0);
        }
        for (int32_t k = 0; k < 3; k++) {
            pthread_join(thread[k], NULL);
            assert_int_equal(job[k].n_bad, 0);
        }
        tok_ids_fini(&want);
        buf_fini(&b);
        tok_destroy(t);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_tok_merging_is_the_law), TEST(test_tok_scanners_are_their_patterns),
        TEST(test_tok_work_is_linear),     TEST(test_tok_work_is_linear_for_real_ones),
        TEST(test_tok_text_comes_back),    TEST(test_tok_threads_share_all_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
