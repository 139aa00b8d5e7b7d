/* Texts by name: the order of the places, labels, hashes; no network is touched. */
#include "tests/support/support.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/str.h"
#include "harness/textdata.h"

struct fixture {
    char dir[FILE_PATH_MAX];
    char data[FILE_PATH_MAX];
    char shared[FILE_PATH_MAX];
    char cache[FILE_PATH_MAX];
    struct cli_env env;
    struct textdata t;
};

static void put(const char *dir, const char *rel, const char *text) {
    char path[FILE_PATH_MAX];
    assert_ok(file_join(path, dir, rel));
    *strrchr(path, '/') = '\0';
    assert_ok(file_mkdirs(path));
    assert_ok(file_join(path, dir, rel));
    assert_ok(file_write(path, text, (int64_t)strlen(text)));
}

/* A manifest whose shared text is "shared\n" and whose stand-in is <dir>/deb.txt. */
static struct fixture *begin(void) {
    struct fixture *f = mem_calloc(MEM_TEST, (int64_t)sizeof *f);
    char manifest[4 * FILE_PATH_MAX];
    char sha[FILE_SHA256_HEX];
    assert_non_null(f);
    test_tmpdir(f->dir);
    assert_ok(mem_sha256("shared\n", 7, sha));
    assert_ok(file_join(f->data, f->dir, "data"));
    assert_ok(file_join(f->shared, f->dir, "shared"));
    assert_ok(file_join(f->cache, f->dir, "cache"));
    snprintf(manifest, sizeof manifest,
             "{\"name\": \"words\", \"kind\": \"text\", \"title\": \"t\", \"licence\": \"l\","
             "\"sources\": [{\"type\": \"shared\", \"label\": \"the real text\", \"path\": "
             "\"w/words.txt\", \"file\": {\"path\": \"words.txt\", \"size\": 7, \"sha256\": "
             "\"%s\"}}, {\"type\": \"debian\", \"label\": \"a stand-in\", \"package\": \"p\", "
             "\"paths\": [\"%s/deb.txt\", \"%s/deb.txt\"], \"file\": {\"path\": \"deb.txt\", "
             "\"size\": null, \"sha256\": null}}]}",
             sha, f->dir, f->dir);
    put(f->dir, "datasets/words.json", manifest);
    put(f->dir, "deb.txt", "stand-in\n");
    f->env = (struct cli_env){
        .share_dir = f->dir, .cache = f->cache, .data = f->data, .shared = f->shared};
    return f;
}

static void end(struct fixture *f) {
    textdata_fini(&f->t);
    test_rmdir(f->dir);
    mem_free(f);
}

static void test_textdata_open_when_path(void **state) {
    (void)state;
    struct fixture *f = begin();
    char path[FILE_PATH_MAX];
    char sha[FILE_SHA256_HEX];
    put(f->dir, "mine.txt", "my text");
    assert_ok(file_join(path, f->dir, "mine.txt"));
    assert_ok(textdata_open(&f->env, path, &f->t));
    assert_string_equal(f->t.label, "mine.txt");
    assert_string_equal(buf_cstr(&f->t.text), "my text");
    assert_ok(mem_sha256("my text", 7, sha));
    assert_string_equal(f->t.sha256, sha);
    end(f);
}

static void test_textdata_open_when_order_of_places(void **state) {
    (void)state;
    struct fixture *f = begin();
    assert_ok(textdata_open(&f->env, "words", &f->t));
    assert_string_equal(f->t.label, "a stand-in");
    assert_string_equal(buf_cstr(&f->t.text), "stand-in\nstand-in\n");
    textdata_fini(&f->t);
    put(f->dir, "deb.txt", "changed"); /* the cached copy stands */
    assert_ok(textdata_open(&f->env, "words", &f->t));
    assert_string_equal(buf_cstr(&f->t.text), "stand-in\nstand-in\n");
    textdata_fini(&f->t);
    put(f->shared, "w/words.txt", "shared\n");
    assert_ok(textdata_open(&f->env, "words", &f->t));
    assert_string_equal(f->t.label, "the real text");
    textdata_fini(&f->t);
    put(f->data, "w/words.txt", "damaged");
    assert_err(textdata_open(&f->env, "words", &f->t), ERR_CHECKSUM,
               "data/w/words.txt: SHA-256 is");
    end(f);
}

static void test_textdata_open_when_cached_copy_is_damaged(void **state) {
    (void)state;
    struct fixture *f = begin();
    assert_ok(textdata_open(&f->env, "words", &f->t));
    textdata_fini(&f->t);
    put(f->cache, "words/deb.txt", "stand-in\nstand-IN\n");
    assert_err(textdata_open(&f->env, "words", &f->t), ERR_CHECKSUM, "words/deb.txt: SHA-256 is");
    put(f->cache, "words/deb.txt", "short");
    assert_ok(textdata_open(&f->env, "words", &f->t));
    assert_string_equal(buf_cstr(&f->t.text), "stand-in\nstand-in\n");
    end(f);
}

static void test_textdata_open_when_nothing_there(void **state) {
    (void)state;
    struct fixture *f = begin();
    assert_err(textdata_open(&f->env, "./none.txt", &f->t), ERR_NOTFOUND,
               "./none.txt: no such file");
    assert_err(textdata_open(&f->env, "none", &f->t), ERR_NOTFOUND,
               "none: no such file: no manifest knows \"none\"");
    char path[FILE_PATH_MAX];
    assert_ok(file_join(path, f->dir, "deb.txt"));
    remove(path);
    assert_err(textdata_open(&f->env, "words", &f->t), ERR_NOTFOUND,
               "words: no source worked\n  shared: w/words.txt: not under TRILEMMA_DATA (");
    assert_non_null(strstr(err_msg(), "/deb.txt is not there (Debian package p)"));
    end(f);
}

static void test_textdata_open_when_model(void **state) {
    (void)state;
    struct fixture *f = begin();
    f->env.share_dir = NULL;
    assert_err(textdata_open(&f->env, "smollm2-135m", &f->t), ERR_CONFIG,
               "smollm2-135m is a model, want a text");
    end(f);
}

/* The real texts, where the shared data folder is. */
static void test_textdata_open_when_committed_manifests(void **state) {
    (void)state;
    const char *wiki = test_shared("wikitext2/wiki.test.raw");
    if (!wiki || !test_shared("calibration-text/calibration_datav3.txt")) {
        print_message("no shared data folder\n");
        skip();
    }
    char root[FILE_PATH_MAX];
    struct fixture *f = begin();
    str_copy(root, FILE_PATH_MAX, wiki);
    root[strlen(root) - strlen("/wikitext2/wiki.test.raw")] = '\0';
    f->env.share_dir = NULL;
    f->env.data = NULL;
    f->env.shared = root;
    assert_ok(textdata_open(&f->env, "wikitext2", &f->t));
    assert_string_equal(f->t.label, "WikiText-2 raw test");
    assert_int_equal(f->t.text.len, 1290590);
    textdata_fini(&f->t);
    assert_ok(textdata_open(&f->env, "calibration", &f->t));
    assert_int_equal(f->t.text.len, 279515);
    end(f);
}

static void test_textdata_ids_when_limited(void **state) {
    (void)state;
    struct fixture *f = begin();
    const struct tok_str text[] = {{"a", 1}, {"b", 1}, {"c", 1}};
    const struct tok_spec spec = {
        .where = "test", .model = TOK_MODEL_BYTE_BPE, .n_vocab = 3, .text = text, .pre = "gpt-2"};
    struct tok *tok = NULL;
    struct tok_ids ids;
    assert_ok(tok_create(&spec, &tok));
    tok_ids_init(&ids);
    put(f->data, "abc", "abcabc");
    char path[FILE_PATH_MAX];
    assert_ok(file_join(path, f->data, "abc"));
    assert_ok(textdata_open(&f->env, path, &f->t));
    assert_ok(textdata_ids(&f->t, tok, 0, &ids));
    assert_int_equal(ids.n, 6);
    assert_ok(textdata_ids(&f->t, tok, 4, &ids));
    assert_int_equal(ids.n, 10);
    assert_int_equal(ids.v[9], 0);
    tok_ids_fini(&ids);
    tok_destroy(tok);
    end(f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_textdata_open_when_path),
        TEST(test_textdata_open_when_order_of_places),
        TEST(test_textdata_open_when_cached_copy_is_damaged),
        TEST(test_textdata_open_when_nothing_there),
        TEST(test_textdata_open_when_model),
        TEST(test_textdata_open_when_committed_manifests),
        TEST(test_textdata_ids_when_limited),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
