/* Downloads from a loopback hub: every class of answer, its sentence, and what is on disk. */
#include "tests/support/support.h"

#include "tests/support/fakehub.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/rng.h"
#include "engine/base/str.h"
#include "harness/hub.h"

enum { BODY = 300000, HALF = 120000 };

#define TAG   "\"v1\""
#define TOKEN "hf_secretsecret"

struct fixture {
    struct fakehub *hub;
    char dir[FILE_PATH_MAX];
    char path[FILE_PATH_MAX];
    char part[FILE_PATH_MAX];
    char etag[FILE_PATH_MAX];
    char url[HUB_URL_MAX];
    char sha[FILE_SHA256_HEX];
    char linked[FILE_SHA256_HEX + 2];
    uint8_t body[BODY];
    int64_t slept_ns[8];
    int32_t n_slept;
    struct hub_net net;
    struct hub_opts o;
    struct hub_result r;
};

static bool never(void) {
    return false;
}

static bool always(void) {
    return true;
}

static void note_sleep(void *ctx, int64_t ns) {
    struct fixture *f = ctx;
    if (f->n_slept < ARRAY_LEN(f->slept_ns)) {
        f->slept_ns[f->n_slept++] = ns;
    }
}

static struct fixture *begin(void) {
    struct fixture *f = mem_calloc(MEM_TEST, (int64_t)sizeof *f);
    struct rng r;
    assert_non_null(f);
    rng_init(&r, 5, 0);
    for (int32_t i = 0; i < BODY; i++) {
        f->body[i] = (uint8_t)rng_u64(&r);
    }
    f->hub = fakehub_create();
    test_tmpdir(f->dir);
    assert_ok(file_join(f->path, f->dir, "model.bin"));
    assert_ok(file_join(f->part, f->dir, "model.bin.part"));
    assert_ok(file_join(f->etag, f->dir, "model.bin.part.etag"));
    assert_ok(mem_sha256(f->body, BODY, f->sha));
    snprintf(f->linked, sizeof f->linked, "\"%s\"", f->sha);
    fakehub_file(f->hub, "model.bin", f->body, BODY, TAG, NULL);
    assert_ok(hub_url(fakehub_url(f->hub, FAKE_HUB), false, "a/b", "main", "model.bin", f->url));
    f->net = (struct hub_net){
        .stall_ms = 2000, .tries = 1, .sleep = note_sleep, .sleep_ctx = f, .stop = never};
    f->o =
        (struct hub_opts){.url = f->url, .path = f->path, .size = -1, .sha256 = "", .net = &f->net};
    return f;
}

static void end(struct fixture *f) {
    fakehub_destroy(f->hub);
    test_rmdir(f->dir);
    mem_free(f);
}

#define SCRIPT(f, port, ...)                                                                       \
    fakehub_script((f)->hub, (port), (const struct fake_step[]){__VA_ARGS__},                      \
                   ARRAY_LEN(((const struct fake_step[]){__VA_ARGS__})))

/* The final name holds the body, and nothing else is left. */
static void assert_whole(struct fixture *f) {
    char hex[FILE_SHA256_HEX];
    assert_ok(file_sha256(f->path, hex));
    assert_string_equal(hex, f->sha);
    assert_string_equal(f->r.sha256, f->sha);
    assert_int_equal(f->r.bytes, BODY);
    assert_false(file_exists(f->part));
    assert_false(file_exists(f->etag));
}

static void assert_nothing(const struct fixture *f) {
    assert_false(file_exists(f->path));
    assert_false(file_exists(f->part));
    assert_false(file_exists(f->etag));
}

/* Leaves a part of HALF bytes of the first version. */
static void cut_once(struct fixture *f) {
    SCRIPT(f, FAKE_HUB, {.act = FAKE_CUT, .n = HALF});
    assert_int_equal(hub_get(&f->o, &f->r), ERR_NET);
    assert_int_equal(file_size(f->part), HALF);
    assert_false(file_exists(f->path));
}

static void test_hub_url_when_endpoint_given(void **state) {
    (void)state;
    char url[HUB_URL_MAX];
    assert_ok(hub_url(NULL, false, "a/b", "main", "c.json", url));
    assert_string_equal(url, "https://huggingface.co/a/b/resolve/main/c.json");
    assert_ok(hub_url("http://h:1//", true, "a/b", "r1", "d/c.json", url));
    assert_string_equal(url, "http://h:1/datasets/a/b/resolve/r1/d/c.json");
    assert_err(hub_url("ftp://h", true, "a/b", "r1", "c", url), ERR_CONFIG,
               "HF_ENDPOINT does not begin with https:// or http://");
}

static void test_hub_get_when_redirected(void **state) {
    (void)state;
    struct fixture *f = begin();
    fakehub_file(f->hub, "model.bin", f->body, BODY, TAG, f->linked);
    SCRIPT(f, FAKE_HUB, {.act = FAKE_REDIRECT});
    f->o.token = TOKEN;
    assert_ok(hub_get(&f->o, &f->r));
    assert_whole(f);
    assert_int_equal(fakehub_n_seen(f->hub), 2);
    const struct fake_seen *hub = fakehub_seen(f->hub, 0);
    const struct fake_seen *cdn = fakehub_seen(f->hub, 1);
    assert_string_equal(hub->path, "/a/b/resolve/main/model.bin");
    assert_string_equal(hub->auth, "Bearer " TOKEN);
    assert_true(str_starts(hub->agent, "trilemma/"));
    assert_int_equal(cdn->port, FAKE_CDN);
    assert_string_equal(cdn->auth, "");
    end(f);
}

static void test_hub_get_when_cut_then_resumed(void **state) {
    (void)state;
    struct fixture *f = begin();
    f->o.token = TOKEN;
    SCRIPT(f, FAKE_HUB, {.act = FAKE_REDIRECT});
    SCRIPT(f, FAKE_CDN, {.act = FAKE_CUT, .n = HALF}, {.act = FAKE_SERVE});
    assert_err(hub_get(&f->o, &f->r), ERR_NET,
               "model.bin was cut after 120000 of 300000 bytes (kept: the same command goes on "
               "there): 127.0.0.1: the connection broke: ");
    assert_null(strstr(err_msg(), "SECRET"));
    assert_int_equal(file_size(f->part), HALF);
    assert_false(file_exists(f->path));
    assert_ok(hub_get(&f->o, &f->r));
    assert_whole(f);
    assert_string_equal(fakehub_seen(f->hub, 1)->range, "");
    assert_string_equal(fakehub_seen(f->hub, 3)->range, "bytes=120000-");
    assert_string_equal(fakehub_seen(f->hub, 3)->if_range, TAG);
    assert_string_equal(fakehub_seen(f->hub, 3)->auth, "");
    end(f);
}

static void test_hub_get_when_cut_and_tries_left(void **state) {
    (void)state;
    struct fixture *f = begin();
    f->net.tries = 3;
    SCRIPT(f, FAKE_HUB, {.act = FAKE_CUT, .n = HALF}, {.act = FAKE_CUT, .n = HALF},
           {.act = FAKE_SERVE});
    assert_ok(hub_get(&f->o, &f->r));
    assert_whole(f);
    assert_string_equal(fakehub_seen(f->hub, 2)->range, "bytes=240000-");
    assert_int_equal(f->n_slept, 2);
    end(f);
}

static void test_hub_get_when_file_changed_meanwhile(void **state) {
    (void)state;
    struct fixture *f = begin();
    cut_once(f);
    f->body[0] ^= 1;
    assert_ok(mem_sha256(f->body, BODY, f->sha));
    fakehub_file(f->hub, "model.bin", f->body, BODY, "\"v2\"", NULL);
    SCRIPT(f, FAKE_HUB, {.act = FAKE_SERVE});
    assert_ok(hub_get(&f->o, &f->r));
    assert_string_equal(fakehub_seen(f->hub, 0)->if_range, TAG);
    assert_int_equal(fakehub_n_seen(f->hub), 1);
    assert_whole(f);
    end(f);
}

static void test_hub_get_when_ranges_are_ignored(void **state) {
    (void)state;
    struct fixture *f = begin();
    cut_once(f);
    SCRIPT(f, FAKE_HUB, {.act = FAKE_NO_RANGE});
    assert_ok(hub_get(&f->o, &f->r));
    assert_whole(f);
    end(f);
}

static void test_hub_get_when_range_is_another(void **state) {
    (void)state;
    struct fixture *f = begin();
    cut_once(f);
    SCRIPT(f, FAKE_HUB, {.act = FAKE_SHIFTED});
    assert_err(hub_get(&f->o, &f->r), ERR_HTTP,
               "model.bin: HTTP 206, but not the bytes from 120000 on");
    f->net.tries = 2;
    SCRIPT(f, FAKE_HUB, {.act = FAKE_SHIFTED});
    assert_ok(hub_get(&f->o, &f->r));
    assert_whole(f);
    assert_int_equal(f->n_slept, 0);
    end(f);
}

static void test_hub_get_when_part_is_already_whole(void **state) {
    (void)state;
    struct fixture *f = begin();
    assert_ok(file_write(f->part, f->body, BODY));
    f->o.sha256 = f->sha;
    SCRIPT(f, FAKE_HUB, {.act = FAKE_SERVE});
    assert_ok(hub_get(&f->o, &f->r));
    assert_whole(f);
    assert_string_equal(fakehub_seen(f->hub, 0)->range, "bytes=300000-");
    end(f);
}

static void test_hub_get_when_416_and_part_too_long(void **state) {
    (void)state;
    struct fixture *f = begin();
    assert_ok(file_write(f->part, f->body, BODY));
    assert_ok(file_write(f->etag, TAG, 4));
    fakehub_file(f->hub, "model.bin", f->body, HALF, TAG, NULL);
    assert_ok(mem_sha256(f->body, HALF, f->sha));
    SCRIPT(f, FAKE_HUB, {.act = FAKE_SERVE});
    f->net.tries = 2;
    assert_ok(hub_get(&f->o, &f->r));
    assert_int_equal(file_size(f->path), HALF);
    assert_string_equal(f->r.sha256, f->sha);
    end(f);
}

static void test_hub_get_when_part_has_no_tag(void **state) {
    (void)state;
    struct fixture *f = begin();
    assert_ok(file_write(f->part, "other bytes", 11));
    SCRIPT(f, FAKE_HUB, {.act = FAKE_SERVE});
    assert_ok(hub_get(&f->o, &f->r));
    assert_string_equal(fakehub_seen(f->hub, 0)->range, "");
    assert_whole(f);
    end(f);
}

static void test_hub_get_when_token_is_missing_or_refused(void **state) {
    (void)state;
    struct fixture *f = begin();
    char want[HUB_URL_MAX + 128];
    SCRIPT(f, FAKE_HUB, {.act = FAKE_STATUS, .status = 401});
    snprintf(want, sizeof want, "HTTP 401: 127.0.0.1 wants a token for %s: HF_TOKEN is needed",
             f->url);
    assert_err(hub_get(&f->o, &f->r), ERR_HTTP, want);
    f->o.token = TOKEN;
    snprintf(want, sizeof want,
             "HTTP 401: 127.0.0.1 does not take this token for %s: HF_TOKEN was refused", f->url);
    assert_err(hub_get(&f->o, &f->r), ERR_HTTP, want);
    assert_null(strstr(err_msg(), TOKEN));
    SCRIPT(f, FAKE_HUB, {.act = FAKE_STATUS, .status = 403});
    assert_err(hub_get(&f->o, &f->r), ERR_HTTP,
               "HF_TOKEN was refused (is the repository's licence accepted?)");
    assert_int_equal(fakehub_n_seen(f->hub), 1);
    assert_nothing(f);
    end(f);
}

static void test_hub_get_when_cdn_refuses(void **state) {
    (void)state;
    struct fixture *f = begin();
    f->o.token = TOKEN;
    SCRIPT(f, FAKE_HUB, {.act = FAKE_REDIRECT});
    SCRIPT(f, FAKE_CDN, {.act = FAKE_STATUS, .status = 403});
    assert_err(hub_get(&f->o, &f->r), ERR_HTTP,
               "HTTP 403: 127.0.0.1, to which the hub sent us for ");
    assert_null(strstr(err_msg(), "SECRET"));
    assert_nothing(f);
    end(f);
}

static void test_hub_get_when_token_is_malformed(void **state) {
    (void)state;
    struct fixture *f = begin();
    f->o.token = TOKEN "\r\nX-Evil: 1";
    assert_err(hub_get(&f->o, &f->r), ERR_CONFIG, "HF_TOKEN holds a blank or a byte");
    assert_null(strstr(err_msg(), "secret"));
    assert_int_equal(fakehub_n_seen(f->hub), 0);
    end(f);
}

static void test_hub_get_when_404(void **state) {
    (void)state;
    struct fixture *f = begin();
    char want[HUB_URL_MAX + 64];
    SCRIPT(f, FAKE_HUB, {.act = FAKE_STATUS, .status = 404});
    f->net.tries = 5;
    snprintf(want, sizeof want, "HTTP 404: %s is not there", f->url);
    assert_err(hub_get(&f->o, &f->r), ERR_NOTFOUND, want);
    assert_int_equal(fakehub_n_seen(f->hub), 1);
    assert_nothing(f);
    end(f);
}

static void test_hub_get_when_429_then_served(void **state) {
    (void)state;
    struct fixture *f = begin();
    f->net.tries = 4;
    SCRIPT(f, FAKE_HUB, {.act = FAKE_STATUS, .status = 429, .headers = "Retry-After: 7\r\n"},
           {.act = FAKE_STATUS, .status = 429},
           {.act = FAKE_STATUS,
            .status = 503,
            .headers = "Retry-After: Thu, 01 Jan 2015 00:00:00 GMT\r\n"},
           {.act = FAKE_SERVE});
    assert_ok(hub_get(&f->o, &f->r));
    assert_whole(f);
    assert_int_equal(f->n_slept, 3);
    assert_int_equal(f->slept_ns[0], INT64_C(7000000000));
    assert_int_equal(f->slept_ns[1], INT64_C(2000000000)); /* back-off after the second */
    assert_int_equal(f->slept_ns[2], 0);                   /* a date that has gone by */
    end(f);
}

static void test_hub_get_when_429_for_too_long(void **state) {
    (void)state;
    struct fixture *f = begin();
    f->net.tries = 4;
    SCRIPT(f, FAKE_HUB, {.act = FAKE_STATUS, .status = 429, .headers = "Retry-After: 3600\r\n"});
    assert_err(hub_get(&f->o, &f->r), ERR_HTTP,
               "asks to wait 3600 s, at most 120 s are waited: try again later");
    assert_int_equal(f->n_slept, 0);
    assert_nothing(f);
    end(f);
}

static void test_hub_get_when_500_then_served(void **state) {
    (void)state;
    struct fixture *f = begin();
    f->net.tries = 3;
    SCRIPT(f, FAKE_HUB, {.act = FAKE_STATUS, .status = 500}, {.act = FAKE_STATUS, .status = 502},
           {.act = FAKE_SERVE});
    assert_ok(hub_get(&f->o, &f->r));
    assert_whole(f);
    assert_int_equal(f->slept_ns[0], INT64_C(1000000000));
    assert_int_equal(f->slept_ns[1], INT64_C(2000000000));
    SCRIPT(f, FAKE_HUB, {.act = FAKE_STATUS, .status = 500});
    assert_err(hub_get(&f->o, &f->r), ERR_HTTP, "HTTP 500 from 127.0.0.1 for ");
    assert_int_equal(fakehub_n_seen(f->hub), 3);
    end(f);
}

static void test_hub_get_when_silent_midway(void **state) {
    (void)state;
    struct fixture *f = begin();
    f->net.stall_ms = 60;
    SCRIPT(f, FAKE_HUB, {.act = FAKE_STALL, .n = HALF});
    assert_err(hub_get(&f->o, &f->r), ERR_NET,
               "model.bin was cut after 120000 of 300000 bytes (kept: the same command goes on "
               "there): 127.0.0.1: nothing came for ");
    assert_int_equal(file_size(f->part), HALF);
    end(f);
}

static void test_hub_get_when_silent_from_the_start(void **state) {
    (void)state;
    struct fixture *f = begin();
    f->net.stall_ms = 40;
    f->net.connect_ms = 40;
    f->net.tries = 5;
    SCRIPT(f, FAKE_HUB, {.act = FAKE_SILENT});
    assert_err(hub_get(&f->o, &f->r), ERR_NET, "127.0.0.1: nothing came for ");
    assert_int_equal(fakehub_n_seen(f->hub), 1);
    assert_nothing(f);
    end(f);
}

static void test_hub_get_when_unreachable(void **state) {
    (void)state;
    struct fixture *f = begin();
    char gone[64];
    snprintf(gone, sizeof gone, "%s/x", fakehub_url(f->hub, FAKE_HUB));
    fakehub_destroy(f->hub);
    f->o.url = gone;
    f->net.tries = 5;
    assert_err(hub_get(&f->o, &f->r), ERR_NET, "cannot reach 127.0.0.1: ");
    /* a label of more than 63 bytes: refused by the resolver itself, no name server is asked */
    f->o.url = "http://aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.test/x";
    assert_err(hub_get(&f->o, &f->r), ERR_NET, ".test: Could not resolve host");
    assert_int_equal(f->n_slept, 0);
    assert_nothing(f);
    test_rmdir(f->dir);
    mem_free(f);
}

static void test_hub_get_when_size_is_not_the_manifests(void **state) {
    (void)state;
    struct fixture *f = begin();
    f->o.size = BODY - 1;
    SCRIPT(f, FAKE_HUB, {.act = FAKE_SERVE});
    assert_err(hub_get(&f->o, &f->r), ERR_CHECKSUM,
               "model.bin: the server has 300000 bytes, the manifest says 299999");
    assert_nothing(f);
    f->o.size = -1;
    cut_once(f);
    f->o.size = BODY - 1;
    SCRIPT(f, FAKE_HUB, {.act = FAKE_SERVE});
    assert_err(hub_get(&f->o, &f->r), ERR_CHECKSUM, "the manifest says 299999");
    assert_nothing(f);
    end(f);
}

static void test_hub_get_when_length_is_not_told(void **state) {
    (void)state;
    struct fixture *f = begin();
    f->o.size = BODY;
    SCRIPT(f, FAKE_HUB, {.act = FAKE_NO_LENGTH, .n = HALF});
    assert_err(hub_get(&f->o, &f->r), ERR_NET,
               "model.bin was cut after 120000 of 300000 bytes (kept: the same command goes on "
               "there): the answer ended early");
    SCRIPT(f, FAKE_HUB, {.act = FAKE_NO_LENGTH, .n = BODY + 5});
    assert_err(hub_get(&f->o, &f->r), ERR_CHECKSUM,
               "model.bin: more than the 300000 bytes it should have");
    assert_nothing(f);
    SCRIPT(f, FAKE_HUB, {.act = FAKE_NO_LENGTH, .n = BODY});
    assert_ok(hub_get(&f->o, &f->r));
    assert_whole(f);
    end(f);
}

static void test_hub_get_when_content_is_wrong(void **state) {
    (void)state;
    struct fixture *f = begin();
    char want[512];
    char other[FILE_SHA256_HEX];
    SCRIPT(f, FAKE_HUB, {.act = FAKE_SERVE});
    memset(other, 'a', 64);
    other[64] = '\0';
    f->o.sha256 = other;
    snprintf(want, sizeof want, "model.bin: SHA-256 is %s, want %s; the 300000 bytes were removed",
             f->sha, other);
    assert_err(hub_get(&f->o, &f->r), ERR_CHECKSUM, want);
    assert_nothing(f);
    end(f);
}

static void test_hub_get_when_hub_tells_the_hash(void **state) {
    (void)state;
    struct fixture *f = begin();
    fakehub_file(f->hub, "model.bin", f->body, BODY, TAG, f->linked);
    SCRIPT(f, FAKE_HUB, {.act = FAKE_REDIRECT});
    assert_ok(hub_get(&f->o, &f->r));
    assert_whole(f);
    f->body[BODY - 1] ^= 1;
    assert_err(hub_get(&f->o, &f->r), ERR_CHECKSUM, "model.bin: SHA-256 is ");
    f->o.sha256 = "173c87a53759e0201f33e0ccf978e510c2042d7f2cb78229d9a50d79b9e7dd08";
    assert_err(hub_get(&f->o, &f->r), ERR_CHECKSUM, "model.bin: the hub has SHA-256 ");
    end(f);
}

static void test_hub_get_when_redirects_do_not_end(void **state) {
    (void)state;
    struct fixture *f = begin();
    SCRIPT(f, FAKE_HUB, {.act = FAKE_REDIRECT});
    SCRIPT(f, FAKE_CDN, {.act = FAKE_REDIRECT});
    assert_err(hub_get(&f->o, &f->r), ERR_HTTP, "more than 5 redirects");
    assert_int_equal(fakehub_n_seen(f->hub), 6);
    SCRIPT(f, FAKE_HUB, {.act = FAKE_STATUS, .status = 302, .headers = "Location: file:///x\r\n"});
    assert_err(hub_get(&f->o, &f->r), ERR_HTTP, "redirects to something that is not https");
    assert_nothing(f);
    end(f);
}

static void test_hub_get_when_interrupted(void **state) {
    (void)state;
    struct fixture *f = begin();
    cut_once(f);
    f->net.stop = always;
    SCRIPT(f, FAKE_HUB, {.act = FAKE_STALL, .n = 1000});
    assert_err(hub_get(&f->o, &f->r), ERR_CANCELED, "model.bin: the first ");
    assert_true(file_size(f->part) >= HALF);
    assert_false(file_exists(f->path));
    end(f);
}

static void test_hub_get_when_file_is_empty(void **state) {
    (void)state;
    struct fixture *f = begin();
    fakehub_file(f->hub, "model.bin", f->body, 0, TAG, NULL);
    SCRIPT(f, FAKE_HUB, {.act = FAKE_SERVE});
    assert_ok(hub_get(&f->o, &f->r));
    assert_int_equal(file_size(f->path), 0);
    assert_false(file_exists(f->part));
    end(f);
}

/* A download from nothing; success must leave the whole file, failure none under its name. */
static int get_once(void *ctx) {
    struct fixture *f = ctx;
    remove(f->path);
    remove(f->part);
    remove(f->etag);
    int rc = hub_get(&f->o, &f->r);
    if (rc == 0) {
        assert_int_equal(file_size(f->path), BODY);
        assert_false(file_exists(f->part));
    } else {
        assert_false(file_exists(f->path));
    }
    return rc;
}

static void test_hub_get_when_resources_fail(void **state) {
    (void)state;
    struct fixture *f = begin();
    SCRIPT(f, FAKE_HUB, {.act = FAKE_REDIRECT});
    test_fault_loop(FAULT_ALLOC, get_once, f, (const int[]){ERR_NOMEM, 0});
    test_fault_loop(FAULT_WRITE, get_once, f, (const int[]){ERR_IO, 0});
    test_fault_loop(FAULT_RENAME, get_once, f, (const int[]){ERR_IO, 0});
    test_fault_loop(FAULT_READ, get_once, f, (const int[]){ERR_IO, 0});
    assert_int_equal(get_once(f), 0);
    end(f);
}

static void test_hub_get_when_disk_is_full(void **state) {
    (void)state;
    struct fixture *f = begin();
    SCRIPT(f, FAKE_HUB, {.act = FAKE_SERVE});
    fault_arm(FAULT_WRITE, 3, true); /* the first writes the tag */
    int rc = hub_get(&f->o, &f->r);
    fault_disarm();
    assert_err(rc, ERR_IO, "model.bin.part: cannot write: No space left on device");
    int64_t kept = file_size(f->part);
    assert_true(kept > 0 && kept < BODY);
    assert_false(file_exists(f->path));
    assert_ok(hub_get(&f->o, &f->r));
    assert_whole(f);
    end(f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_hub_url_when_endpoint_given),
        TEST(test_hub_get_when_redirected),
        TEST(test_hub_get_when_cut_then_resumed),
        TEST(test_hub_get_when_cut_and_tries_left),
        TEST(test_hub_get_when_file_changed_meanwhile),
        TEST(test_hub_get_when_ranges_are_ignored),
        TEST(test_hub_get_when_range_is_another),
        TEST(test_hub_get_when_part_is_already_whole),
        TEST(test_hub_get_when_416_and_part_too_long),
        TEST(test_hub_get_when_part_has_no_tag),
        TEST(test_hub_get_when_token_is_missing_or_refused),
        TEST(test_hub_get_when_cdn_refuses),
        TEST(test_hub_get_when_token_is_malformed),
        TEST(test_hub_get_when_404),
        TEST(test_hub_get_when_429_then_served),
        TEST(test_hub_get_when_429_for_too_long),
        TEST(test_hub_get_when_500_then_served),
        TEST(test_hub_get_when_silent_midway),
        TEST(test_hub_get_when_silent_from_the_start),
        TEST(test_hub_get_when_unreachable),
        TEST(test_hub_get_when_size_is_not_the_manifests),
        TEST(test_hub_get_when_length_is_not_told),
        TEST(test_hub_get_when_content_is_wrong),
        TEST(test_hub_get_when_hub_tells_the_hash),
        TEST(test_hub_get_when_redirects_do_not_end),
        TEST(test_hub_get_when_interrupted),
        TEST(test_hub_get_when_file_is_empty),
        TEST(test_hub_get_when_resources_fail),
        TEST(test_hub_get_when_disk_is_full),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
