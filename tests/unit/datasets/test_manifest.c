/* The strict reader of manifests, and the manifests that are committed. */
#include "tests/support/support.h"

#include <stdio.h>
#include <string.h>

#include "datasets/manifest.h"
#include "engine/base/str.h"

#define SHA     "173c87a53759e0201f33e0ccf978e510c2042d7f2cb78229d9a50d79b9e7dd08"
#define TOP     "\"name\": \"x\", \"kind\": \"text\", \"title\": \"t\", \"licence\": \"l\""
#define FILE_OK "{\"path\": \"a.txt\", \"size\": 3, \"sha256\": null}"
#define SHARED(file)                                                                               \
    "{" TOP ", \"sources\": [{\"type\": \"shared\", \"label\": \"b\", \"path\": \"d/a.txt\", "     \
    "\"file\": " file "}]}"

static void refused(const char *text, int code, const char *part) {
    struct manifest *m = NULL;
    assert_err(manifest_parse("m.json", text, (int64_t)strlen(text), &m), code, part);
    assert_null(m);
}

static void test_manifest_parse_when_whole(void **state) {
    (void)state;
    struct manifest *m = NULL;
    const char *text = SHARED("{\"path\": \"a.txt\", \"size\": null, \"sha256\": \"" SHA "\"}");
    assert_ok(manifest_parse("m.json", text, (int64_t)strlen(text), &m));
    assert_string_equal(m->name, "x");
    assert_int_equal(m->kind, MANIFEST_TEXT);
    assert_int_equal(m->n_sources, 1);
    assert_int_equal(m->sources[0].type, MANIFEST_SHARED);
    assert_string_equal(m->sources[0].shared, "d/a.txt");
    assert_int_equal(m->sources[0].files[0].size, -1);
    assert_string_equal(m->sources[0].files[0].sha256, SHA);
    manifest_destroy(m);
}

static void test_manifest_parse_when_key_unknown(void **state) {
    (void)state;
    refused("{" TOP ", \"licens\": 1, \"sources\": [1]}", ERR_FORMAT,
            "m.json: key \"licens\" is not known, did you mean \"licence\"?");
    refused(SHARED("{\"path\": \"a\", \"size\": 1, \"sha256\": null, \"md5\": null}"), ERR_FORMAT,
            "m.json: source 1: file: key \"md5\" is not known");
    refused(SHARED("{\"path\": \"a\", \"size\": 1, \"sha265\": null}"), ERR_FORMAT,
            "m.json: source 1: file: \"sha256\" is missing");
    refused(SHARED(FILE_OK ", \"repo\": \"a/b\""), ERR_FORMAT,
            "m.json: source 1: key \"repo\" is not known");
}

static void test_manifest_parse_when_hash_is_bad(void **state) {
    (void)state;
    refused(SHARED("{\"path\": \"a\", \"size\": 1, \"sha256\": \"abc\"}"), ERR_FORMAT,
            "\"sha256\" has 3 characters, want 64 lower-case hexadecimal digits");
    refused(SHARED("{\"path\": \"a\", \"size\": 1, \"sha256\": \"\"}"), ERR_FORMAT,
            "\"sha256\" is empty, want 64 digits or null");
    refused(SHARED("{\"path\": \"a\", \"size\": -1, \"sha256\": null}"), ERR_RANGE, "\"size\"");
}

static void test_manifest_parse_when_path_leaves_folder(void **state) {
    (void)state;
    static const char *const bad[] = {"../a", "/a",   "a/../b", "a//b", "a/",  "",
                                      "-a",   "a/-b", ".a",     "a b",  "a*b", "a\\\\b"};
    for (int32_t i = 0; i < ARRAY_LEN(bad); i++) {
        char text[1024];
        snprintf(text, sizeof text, SHARED("{\"path\": \"%s\", \"size\": 1, \"sha256\": null}"),
                 bad[i]);
        struct manifest *m = NULL;
        int rc = manifest_parse("m.json", text, (int64_t)strlen(text), &m);
        assert_true(rc == ERR_FORMAT || rc == ERR_LIMIT);
    }
    refused(SHARED("{\"path\": \"a/b\", \"size\": 1, \"sha256\": null}"), ERR_FORMAT,
            "want a plain file name");
}

static void test_manifest_parse_when_name_or_type_is_bad(void **state) {
    (void)state;
    refused("{\"name\": \"A_b\", \"kind\": \"text\", \"title\": \"t\", \"licence\": \"l\", "
            "\"sources\": [1]}",
            ERR_FORMAT, "\"name\" is \"A_b\"");
    refused("{" TOP ", \"sources\": [{\"type\": \"ftp\"}]}", ERR_FORMAT,
            "source 1: \"type\" is \"ftp\", want hub, pip, shared, hub-zip or debian");
    refused("{" TOP ", \"sources\": []}", ERR_LIMIT, "\"sources\" has 0 entries, want 1..8");
    refused("{" TOP ", \"sources\": [1]}", ERR_FORMAT, "source 1: not an object");
    refused("[]", ERR_FORMAT, "m.json: not an object");
    refused("{", ERR_FORMAT, "m.json: line 1");
}

static void test_manifest_name_ok_when_hostile(void **state) {
    (void)state;
    assert_true(manifest_name_ok("smollm2-135m"));
    assert_true(manifest_name_ok("a.b"));
    assert_false(manifest_name_ok(""));
    assert_false(manifest_name_ok(".."));
    assert_false(manifest_name_ok("-x"));
    assert_false(manifest_name_ok("a/b"));
    assert_false(manifest_name_ok("A"));
    assert_false(
        manifest_name_ok("0123456789012345678901234567890123456789012345678901234567890123"));
}

static void test_manifest_read_when_committed(void **state) {
    (void)state;
    static const char *const paths[] = {"datasets/smollm2-135m.json", "datasets/wikitext2.json",
                                        "datasets/calibration.json"};
    for (int32_t i = 0; i < ARRAY_LEN(paths); i++) {
        struct manifest *m = NULL;
        assert_ok(manifest_read(paths[i], &m));
        assert_true(m->n_sources >= 2);
        manifest_destroy(m);
    }
}

/* What calibrates is never what is scored: no two sources share a file. */
static void test_manifest_read_when_scored_and_calibration_differ(void **state) {
    (void)state;
    struct manifest *a = NULL;
    struct manifest *b = NULL;
    assert_ok(manifest_read("datasets/wikitext2.json", &a));
    assert_ok(manifest_read("datasets/calibration.json", &b));
    for (int32_t i = 0; i < a->n_sources; i++) {
        const struct manifest_source *s = &a->sources[i];
        for (int32_t j = 0; j < b->n_sources; j++) {
            const struct manifest_source *t = &b->sources[j];
            assert_false(s->shared[0] && str_eq(s->shared, t->shared));
            assert_false(s->member[0] && str_eq(s->member, t->member));
            for (int32_t k = 0; k < s->n_paths * t->n_paths; k++) {
                assert_string_not_equal(s->paths[k / t->n_paths], t->paths[k % t->n_paths]);
            }
        }
    }
    manifest_destroy(a);
    manifest_destroy(b);
}

static void test_manifest_read_when_name_is_not_the_files(void **state) {
    (void)state;
    char dir[FILE_PATH_MAX];
    char path[FILE_PATH_MAX];
    struct manifest *m = NULL;
    const char *text = SHARED(FILE_OK);
    test_tmpdir(dir);
    assert_ok(file_join(path, dir, "y.json"));
    assert_ok(file_write(path, text, (int64_t)strlen(text)));
    assert_err(manifest_read(path, &m), ERR_FORMAT, "\"name\" is \"x\", want the file's name");
    test_rmdir(dir);
}

static int read_once(void *ctx) {
    struct manifest *m = NULL;
    int rc = manifest_read(ctx, &m);
    manifest_destroy(m);
    return rc;
}

static void test_manifest_read_when_memory_or_reads_fail(void **state) {
    (void)state;
    char path[] = "datasets/wikitext2.json";
    test_fault_loop(FAULT_ALLOC, read_once, path, (const int[]){ERR_NOMEM, 0});
    test_fault_loop(FAULT_READ, read_once, path, (const int[]){ERR_IO, 0});
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_manifest_parse_when_whole),
        TEST(test_manifest_parse_when_key_unknown),
        TEST(test_manifest_parse_when_hash_is_bad),
        TEST(test_manifest_parse_when_path_leaves_folder),
        TEST(test_manifest_parse_when_name_or_type_is_bad),
        TEST(test_manifest_name_ok_when_hostile),
        TEST(test_manifest_read_when_committed),
        TEST(test_manifest_read_when_scored_and_calibration_differ),
        TEST(test_manifest_read_when_name_is_not_the_files),
        TEST(test_manifest_read_when_memory_or_reads_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
