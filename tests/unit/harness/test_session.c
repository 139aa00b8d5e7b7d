/* Lists of ids from strangers' files; the engine's options; the sentence beside a checkpoint. */
#include "tests/support/support.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/json.h"
#include "harness/provenance.h"
#include "harness/session.h"
#include "tests/support/tiny.h"

static char dir[FILE_PATH_MAX];

static int make(void **state) {
    (void)state;
    test_tmpdir(dir);
    return 0;
}

static int unmake(void **state) {
    (void)state;
    test_rmdir(dir);
    return 0;
}

static const char *write_text(const char *text) {
    static char path[FILE_PATH_MAX];
    tiny_file(dir, "ids.json", text);
    assert_ok(file_join(path, dir, "ids.json"));
    return path;
}

static void test_session_ids_forms(void **state) {
    (void)state;
    json_t *lists = NULL;
    const json_t *one = NULL;
    struct tok_ids ids;
    tok_ids_init(&ids);
    assert_ok(session_read_ids(write_text("[3, 1, 2]"), &lists));
    assert_ok(session_one_list("f", lists, &one));
    assert_ok(session_ids("f", one, 4, &ids));
    assert_int_equal(ids.n, 3);
    assert_int_equal(ids.v[0], 3);
    json_decref(lists);
    assert_ok(session_read_ids(write_text("[[0], [1, 2]]"), &lists));
    assert_int_equal(json_array_size(lists), 2);
    assert_err(session_one_list("f", lists, &one), ERR_FORMAT, "f: 2 lists of token ids, want one");
    assert_ok(session_ids("f", json_array_get(lists, 1), 4, &ids)); /* appends */
    assert_int_equal(ids.n, 5);
    json_decref(lists);
    tok_ids_fini(&ids);
}

static void test_session_ids_refuses(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int code;
        const char *says;
    } bad[] = {{"[[]]", ERR_FORMAT, "an empty list"},
               {"[[1], 2]", ERR_FORMAT, NULL},
               {"[1, null]", ERR_FORMAT, "element 1 is no whole number"},
               {"[1, true]", ERR_FORMAT, "element 1"},
               {"[1, 1.0]", ERR_FORMAT, "element 1"},
               {"[-1]", ERR_RANGE, "element 0 is -1, the vocabulary has 0..3"},
               {"[0, 4]", ERR_RANGE, "element 1 is 4"},
               {"[9223372036854775807]", ERR_RANGE, "element 0"}};
    for (int32_t i = 0; i < ARRAY_LEN(bad); i++) {
        json_t *lists = NULL;
        struct tok_ids ids;
        tok_ids_init(&ids);
        assert_ok(session_read_ids(write_text(bad[i].text), &lists));
        size_t last = json_array_size(lists) - 1;
        assert_err(session_ids("f", json_array_get(lists, last), 4, &ids), bad[i].code,
                   bad[i].says ? bad[i].says : "an entry that is no list");
        tok_ids_fini(&ids);
        json_decref(lists);
    }
    json_t *lists = NULL;
    assert_err(session_read_ids(write_text("[]"), &lists), ERR_FORMAT, "want a JSON list");
    assert_err(session_read_ids(write_text("{\"ids\": [1]}"), &lists), ERR_FORMAT, "want a JSON");
    assert_err(session_read_ids(write_text("[1,"), &lists), ERR_FORMAT, "ids.json");
}

static void test_session_engine_options(void **state) {
    (void)state;
    struct session s;
    struct cli_env env = {.home = "/nonexistent"};
    struct engine_stats es;
    struct session_opts o = {.backend = "ref", .ctx_max = 64, .kv_bytes = 1 << 20, .kv_f16 = true};
    assert_ok(session_model(&env, test_golden("models/llama"), &s));
    assert_ok(session_engine(&s, &o, &(struct engine_opts){.running_max = 1}));
    engine_stats(s.engine, &es);
    assert_int_equal(es.ctx_max, 64);
    /* 2 x 3 layers x 2 kv heads x 16 x 2 bytes */
    assert_int_equal(es.kv_bytes_per_token, 384);
    assert_true(es.kv_bytes <= 1 << 20);
    session_close(&s);
    assert_err(session_model(&env, "nowhere", &s), ERR_NOTFOUND, "trilemma fetch nowhere");
    session_close(&s);
}

static void test_session_type_of_the_cache(void **state) {
    (void)state;
    struct weights plain = {0};
    struct weights scaled = {.q = {.kv_f8 = true}};
    enum dtype t = DTYPE_N;
    static const struct {
        struct session_opts o;
        enum dtype plain;
        enum dtype scaled;
    } rows[] = {{{0}, DTYPE_F32, DTYPE_F8_E4M3},
                {{.kv_f16 = true}, DTYPE_F16, DTYPE_F16},
                {{.kv_type = "f32"}, DTYPE_F32, DTYPE_F32},
                {{.kv_type = "f16", .kv_f16 = true}, DTYPE_F16, DTYPE_F16},
                {{.kv_type = "f8"}, DTYPE_F8_E4M3, DTYPE_F8_E4M3}};
    for (int32_t i = 0; i < ARRAY_LEN(rows); i++) {
        assert_ok(session_kv_type(&rows[i].o, &plain, &t));
        assert_int_equal(t, rows[i].plain);
        assert_ok(session_kv_type(&rows[i].o, &scaled, &t));
        assert_int_equal(t, rows[i].scaled);
    }
    /* a checkpoint with scales: 2 x 3 layers x 2 kv heads x 16 x 1 byte */
    struct session s;
    struct cli_env env = {.home = "/nonexistent"};
    struct engine_stats es;
    struct session_opts o = {.backend = "ref", .ctx_max = 64, .kv_bytes = 1 << 20};
    assert_ok(session_model(&env, test_golden("quant/llama__kv_fp8_static"), &s));
    assert_ok(session_engine(&s, &o, NULL));
    engine_stats(s.engine, &es);
    assert_int_equal(es.kv_bytes_per_token, 192);
    session_close(&s);
    struct session_opts two = {.kv_type = "f8", .kv_f16 = true};
    assert_err(session_kv_type(&two, &plain, &t), ERR_USAGE, "beside --kv-f16");
    two = (struct session_opts){.kv_type = "int8"};
    assert_err(session_kv_type(&two, &plain, &t), ERR_USAGE, "known are f32, f16, bf16, f8");
}

static void test_provenance_round_trip(void **state) {
    (void)state;
    char text[PROVENANCE_MAX];
    char file[FILE_PATH_MAX];
    assert_ok(provenance_write(dir, "gptq of \"x\" \xe2\x82\xac"));
    provenance_read(dir, text);
    assert_string_equal(text, "gptq of \"x\" \xe2\x82\xac");
    tiny_file(dir, "model.gguf", "x");
    assert_ok(file_join(file, dir, "model.gguf"));
    provenance_read(file, text); /* beside a file, in its folder */
    assert_string_equal(text, "gptq of \"x\" \xe2\x82\xac");
    tiny_file(dir, "trilemma.json", "{\"source\": 3}");
    provenance_read(dir, text);
    assert_string_equal(text, "");
    tiny_file(dir, "trilemma.json", "{");
    provenance_read(dir, text);
    assert_string_equal(text, "");
    provenance_read("/nonexistent/x", text);
    assert_string_equal(text, "");
}

int main(void) {
    const struct CMUnitTest tests[] = {TEST(test_session_ids_forms), TEST(test_session_ids_refuses),
                                       TEST(test_session_engine_options),
                                       TEST(test_session_type_of_the_cache),
                                       TEST(test_provenance_round_trip)};
    return cmocka_run_group_tests(tests, make, unmake);
}
