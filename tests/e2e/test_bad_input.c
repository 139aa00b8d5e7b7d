/* Everything that can be wrong with what is given to the program: each has its exit code, one line
 * that says what was found, what was wanted and where, and leaves no half-written file. */
#include "tests/support/cli.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sqlite3.h>

#include "engine/base/str.h"
#include "tests/support/tiny.h"
#include "tests/support/vectors.h"

enum { FULL_AT = 34 << 10 /* the reader of a database needs 32 KiB itself */ };

static char dir[FILE_PATH_MAX];

static const char scenario[] =
    "scenario: s\ntargets:\n  base: {engine: {model: llama, threads: 1}}\n"
    "workload: {synthetic: {input: {fixed: 8}, output: {fixed: 4}}}\n"
    "arrival: {burst: {requests: 12}}\n";

static char *in(char dst[FILE_PATH_MAX], const char *name) {
    assert_ok(file_join(dst, dir, name));
    return dst;
}

static int make(void **state) {
    struct cli_result r;
    (void)state;
    test_tmpdir(dir);
    tiny_model(dir, "llama", 512);
    tiny_text(dir, "text.txt", 60);
    tiny_ids(dir, "good.json", 40, TINY_VOCAB);
    tiny_file(dir, "s.yaml", scenario);
    cli_line(dir, 0, &r, "run s.yaml --db good.db");
    cli_fini(&r);
    return 0;
}

static int unmake(void **state) {
    (void)state;
    test_rmdir(dir);
    return 0;
}

/* No file "*.part.*" is left under a folder. */
static void check_no_parts(const char *folder) {
    DIR *d = opendir(folder);
    assert_non_null(d);
    for (const struct dirent *e = readdir(d); e; e = readdir(d)) {
        if (strstr(e->d_name, ".part")) {
            fail_msg("%s/%s is left", folder, e->d_name);
        }
    }
    closedir(d);
}

/* A copy of the tiny model as dir/name. */
static void copy_model(const char *name) {
    tiny_model(dir, name, 512);
}

static void test_bad_checkpoint_truncated(void **state) {
    (void)state;
    static const int64_t sizes[] = {0, 4, 100, 5000, 200000, 360351};
    char from[FILE_PATH_MAX];
    char to[FILE_PATH_MAX];
    copy_model("cut");
    for (int32_t i = 0; i < ARRAY_LEN(sizes); i++) {
        tiny_copy(in(from, "llama/model.safetensors"), in(to, "cut/model.safetensors"), 0, NULL, 0,
                  sizes[i]);
        cli_says(dir, 3, "cut/model.safetensors", "generate cut --ids good.json");
        cli_says(dir, 3, "cut/model.safetensors", "quantize cut --method rtn --out out");
        assert_false(file_exists(in(to, "out/model.safetensors")));
    }
}

static void test_bad_checkpoint_corrupt(void **state) {
    (void)state;
    char from[FILE_PATH_MAX];
    char to[FILE_PATH_MAX];
    const uint8_t long_header[8] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f};
    copy_model("bad");
    tiny_copy(in(from, "llama/model.safetensors"), in(to, "bad/model.safetensors"), 0, long_header,
              8, -1);
    cli_says(dir, 3, "bad/model.safetensors", "inspect bad");
    tiny_copy(from, to, 8, "{{{{", 4, -1);
    cli_says(dir, 3, "bad/model.safetensors", "inspect bad");
    tiny_copy(from, to, 0, NULL, 0, -1);
    tiny_file(dir, "bad/config.json", "{\"model_type\": \"llama\",");
    cli_says(dir, 3, "config.json", "inspect bad");
    tiny_file(dir, "bad/config.json", "[]");
    cli_says(dir, 3, "bad/config.json: no object", "inspect bad");
}

static void test_bad_checkpoint_gguf(void **state) {
    (void)state;
    char path[FILE_PATH_MAX];
    /* version 3 with 2^60 tensors; version 77; a text */
    uint8_t huge[24] = {'G', 'G', 'U', 'F', 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10};
    assert_ok(file_write(in(path, "huge.gguf"), huge, (int64_t)sizeof huge));
    cli_says(dir, 3, "huge.gguf", "inspect huge.gguf");
    huge[4] = 77;
    assert_ok(file_write(in(path, "new.gguf"), huge, (int64_t)sizeof huge));
    cli_says(dir, 3, "77", "inspect new.gguf");
    tiny_file(dir, "text.gguf", "hello, this is no model at all");
    cli_says(dir, 3, "text.gguf", "inspect text.gguf");
    const char *good = test_shared("stories260K/stories260K-f32.gguf");
    if (good) {
        tiny_copy(good, in(path, "cut.gguf"), 0, NULL, 0, 500000);
        cli_says(dir, 3, "cut.gguf", "inspect cut.gguf");
        tiny_copy(good, path, 0, NULL, 0, 40);
        cli_says(dir, 3, "cut.gguf", "inspect cut.gguf");
    }
}

static void test_bad_architecture(void **state) {
    (void)state;
    struct cli_result r;
    copy_model("other");
    tiny_file(dir, "other/config.json",
              "{\"architectures\": [\"MambaForCausalLM\"], \"model_type\": \"mamba\", "
              "\"hidden_size\": 64, \"vocab_size\": 384}");
    cli_line(dir, 0, &r, "inspect other"); /* it is listed all the same */
    assert_non_null(strstr(buf_cstr(&r.out),
                           "not read             family: other/config.json: architecture "
                           "\"mamba\" is not known; known are llama"));
    assert_non_null(strstr(buf_cstr(&r.out), "3 x self_attn.q_proj: BF16"));
    cli_fini(&r);
    cli_says(dir, 3, "mamba", "plan other");
    cli_says(dir, 3, "qwen3", "generate other --ids good.json");
}

static void test_bad_tokenizer(void **state) {
    (void)state;
    char path[FILE_PATH_MAX];
    copy_model("mute");
    assert_int_equal(unlink(in(path, "mute/tokenizer.json")), 0);
    cli_says(dir, 3, "tokenizer", "generate mute -p hello");
    cli_says(dir, 3, "tokenizer", "tokenize mute --text hello");
    cli_says(dir, 3, "tokenizer", "eval mute --dataset text.txt --window 32");
    cli_says(dir, 3, "tokenizer", "quantize mute --calib text.txt --out out --group 32");
    assert_false(file_exists(in(path, "out/config.json")));
    tiny_file(dir, "mute/tokenizer.json", "{\"model\": {\"type\": \"Divination\"}}");
    cli_says(dir, 3, "Divination", "generate mute -p hello");
}

/* Replaces the first element of a tensor of the tiny model. */
static void patch(const char *model, const char *tensor, const void *bf16) {
    char from[FILE_PATH_MAX];
    char to[FILE_PATH_MAX];
    char rel[128];
    struct vectors v;
    vectors_open(in(from, "llama/model.safetensors"), &v);
    const struct tensor *t = tensor_dir_find(&v.dir, tensor);
    assert_non_null(t);
    snprintf(rel, sizeof rel, "%s/model.safetensors", model);
    tiny_copy(from, in(to, rel), (const uint8_t *)t->data - v.map.data, bf16, 2, -1);
    vectors_close(&v);
}

static void test_bad_weights_nan(void **state) {
    (void)state;
    static const uint8_t nan_bf16[2] = {0xc0, 0x7f};
    static const uint8_t inf_bf16[2] = {0x80, 0x7f};
    copy_model("nan");
    patch("nan", "model.layers.1.mlp.up_proj.weight", nan_bf16);
    cli_says(dir, 3, "model.layers.1.mlp.up_proj.weight", "generate nan --ids good.json");
    patch("nan", "model.norm.weight", inf_bf16);
    cli_says(dir, 3, "model.norm.weight", "quantize nan --method rtn --out out --group 32");
}

static void test_bad_scenario(void **state) {
    (void)state;
    static const struct {
        const char *find;
        const char *put;
        const char *says;
    } typos[] = {{"arrival:", "arival:", "\"arrival\""},
                 {"arrival:", "arival:", "bad.yaml:5:1"},
                 {"{fixed: 8}", "{fixd: 8}", "\"fixed\""},
                 {"{fixed: 8}", "{fixed: lots}", "bad.yaml:4:"},
                 {"model: llama", "modell: llama", "\"model\""},
                 {"{burst: {requests: 12}}", "{constant: {rate: 4}}", "bad.yaml:5:"},
                 {"threads: 1", "threads: 1, threads: 2", "bad.yaml:3:"},
                 {"workload: {synthetic", "workload: {synthetic", NULL}};
    for (int32_t i = 0; typos[i].says; i++) {
        struct buf b;
        const char *at = strstr(scenario, typos[i].find);
        buf_init(&b, MEM_TEST, 1 << 16);
        assert_ok(buf_add(&b, scenario, at - scenario));
        assert_ok(buf_str(&b, typos[i].put));
        assert_ok(buf_str(&b, at + strlen(typos[i].find)));
        tiny_file(dir, "bad.yaml", buf_cstr(&b));
        buf_fini(&b);
        cli_says(dir, 3, typos[i].says, "run bad.yaml --db bad.db");
    }
    char path[FILE_PATH_MAX];
    assert_false(file_exists(in(path, "bad.db")));
    cli_says(dir, 3, "nowhere.yaml", "run nowhere.yaml");
    cli_says(dir, 3, "llama", "run llama"); /* a directory */
}

static void test_bad_scenario_that_parses(void **state) {
    (void)state;
    char path[FILE_PATH_MAX];
    static const struct {
        const char *keys;
        const char *says;
    } http[] = {
        {"url: \"http://127.0.0.1:99999/v1\"", "target \"far\": url \"http://127.0.0.1:99999/v1\""},
        {"url: \"gpu1:8000/v1\"", "http.yaml:3:32: url: \"gpu1:8000/v1\" does not begin with"},
        {"url: \"http://a/v1\", key_env: TRILEMMA_NO_KEY",
         "target \"far\": the environment variable TRILEMMA_NO_KEY is not set"},
        {"url: \"https://a/v1\", ca_file: no.pem", "target \"far\": ca_file no.pem: no such file"},
        {"url: \"http://a/v1\", tokenizer: none", "target \"far\": none"},
        {"url: \"http://a/v1\", body: '{\"a\" 1}'", "http.yaml:3:53: body: line 1, column"},
        {"url: \"http://a/v1\", timeout: 5", "timeout: \"5\" has no unit"}};
    for (int32_t i = 0; i < ARRAY_LEN(http); i++) {
        char text[512];
        snprintf(text, sizeof text,
                 "scenario: s\ntargets:\n  far: {http: {model: m, %s}}\n"
                 "workload: {synthetic: {input: {fixed: 8}, output: {fixed: 4}}}\n"
                 "arrival: {burst: {requests: 2}}\n",
                 http[i].keys);
        tiny_file(dir, "http.yaml", text);
        cli_says(dir, 3, http[i].says, "run http.yaml --db bad.db");
    }
    tiny_file(dir, "backend.yaml",
              "scenario: s\ntargets:\n  fast: {engine: {model: llama, backend: cuda}}\n"
              "workload: {synthetic: {input: {fixed: 8}, output: {fixed: 4}}}\n"
              "arrival: {burst: {requests: 2}}\n");
    cli_says(dir, 3, "target \"fast\"", "run backend.yaml --db bad.db");
    tiny_file(dir, "unfetched.yaml",
              "scenario: s\ntargets:\n  big: {engine: {model: smollm9-1000b}}\n"
              "workload: {synthetic: {input: {fixed: 8}, output: {fixed: 4}}}\n"
              "arrival: {burst: {requests: 2}}\n");
    cli_says(dir, 3, "trilemma fetch smollm9-1000b", "run unfetched.yaml --db bad.db");
    tiny_file(dir, "trace.yaml",
              "scenario: s\ntargets:\n  t: {engine: {model: llama}}\n"
              "workload: {trace: {file: nowhere.csv}}\n");
    cli_says(dir, 3, "nowhere.csv", "run trace.yaml --db bad.db");
    assert_false(file_exists(in(path, "bad.db")));
    cli_says(dir, 3, "trilemma fetch smollm9-1000b", "generate smollm9-1000b -p x");
}

static void set_version(const char *name, int32_t version) {
    char path[FILE_PATH_MAX];
    char sql[64];
    sqlite3 *db = NULL;
    tiny_copy(in(path, "good.db"), in((char[FILE_PATH_MAX]){0}, name), 0, NULL, 0, -1);
    assert_int_equal(sqlite3_open(in(path, name), &db), SQLITE_OK);
    snprintf(sql, sizeof sql, "PRAGMA user_version = %d", version);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

static void test_bad_database(void **state) {
    (void)state;
    char path[FILE_PATH_MAX];
    char db[FILE_PATH_MAX];
    set_version("new.db", 99);
    cli_says(dir, 3, "version 99", "report new.db");
    cli_says(dir, 3, "version 99", "run s.yaml --db new.db");
    cli_says(dir, 3, "version 99", "eval llama --dataset text.txt --window 32 --db new.db");
    cli_says(dir, 3, "not a database", "report text.txt");
    cli_says(dir, 3, "not a database", "run s.yaml --db text.txt");
    cli_says(dir, 3, "llama: a directory", "report llama");
    cli_says(dir, 3, "llama: no results database", "compare llama");
    cli_says(dir, 3, "nowhere.db", "report nowhere.db");
    tiny_copy(in(db, "good.db"), in(path, "cut.db"), 0, NULL, 0, 10000);
    cli_says(dir, 3, "cut.db", "report cut.db");
    /* what was given is as it was */
    assert_true(file_size(in(path, "text.txt")) > 1000);
}

static void full(const char *const *args, const char *part) {
    struct cli_opts o = {.cwd = dir, .file_bytes_max = FULL_AT};
    struct cli_result r;
    cli_run(&o, args, &r);
    assert_int_equal(r.code, 4);
    cli_check_error(&r, part);
    cli_fini(&r);
}

static void test_bad_disk_full(void **state) {
    (void)state;
    char path[FILE_PATH_MAX];
    const char *const quantize[] = {"quantize", "llama", "--method", "rtn",    "--group",
                                    "32",       "--out", "full",     "--json", NULL};
    const char *const report[] = {"report", "good.db", "--out", "full.html", NULL};
    const char *const score[] = {"score",    "llama",   "--ids", "good.json",
                                 "--logits", "full.st", NULL};
    full(quantize, "full/model.safetensors");
    check_no_parts(in(path, "full"));
    assert_false(file_exists(in(path, "full/model.safetensors")));
    assert_false(file_exists(in(path, "full/config.json")));
    full(score, "full.st");
    assert_false(file_exists(in(path, "full.st")));
    full(report, "full.html");
    assert_false(file_exists(in(path, "full.html")));
    check_no_parts(dir);
}

static int64_t one_number(const char *name, const char *sql) {
    char path[FILE_PATH_MAX];
    sqlite3 *db = NULL;
    sqlite3_stmt *q = NULL;
    assert_int_equal(sqlite3_open(in(path, name), &db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &q, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(q), SQLITE_ROW);
    int64_t v = sqlite3_column_int64(q, 0);
    sqlite3_finalize(q);
    sqlite3_close(db);
    return v;
}

/* The disk fills up in the middle of a run: what was committed stays readable. */
static void test_bad_disk_full_results(void **state) {
    (void)state;
    struct cli_opts o = {.cwd = dir, .file_bytes_max = 1 << 20};
    /* why: --json prints no progress, which on a slow machine would be a line of its own */
    const char *const args[] = {"run", "many.yaml", "--db", "small.db", "--json", NULL};
    struct cli_result r;
    tiny_file(dir, "many.yaml",
              "scenario: s\ntargets:\n  base: {engine: {model: llama, threads: 1}}\n"
              "workload: {synthetic: {input: {fixed: 8}, output: {fixed: 400}}}\n"
              "arrival: {closed: {concurrency: 16}}\nduration: 60s\n");
    cli_run(&o, args, &r);
    assert_int_equal(r.code, 4);
    cli_check_error(&r, "small.db");
    cli_fini(&r);
    assert_true(one_number("small.db", "SELECT count(*) FROM session") == 1);
    assert_true(one_number("small.db", "SELECT count(*) FROM pragma_integrity_check WHERE "
                                       "integrity_check = 'ok'") == 1);
    cli_line(dir, 0, &r, "report small.db --text");
    cli_fini(&r);
}

static void test_bad_prompts(void **state) {
    (void)state;
    static const struct {
        const char *text;
        const char *says;
    } lists[] = {{"", "bad.json"},
                 {"[", "bad.json"},
                 {"[]", "bad.json: want"},
                 {"[[]]", "bad.json: an empty list"},
                 {"{}", "bad.json: want"},
                 {"[1, 2.5]", "bad.json: element 1"},
                 {"[1, \"2\"]", "bad.json: element 1"},
                 {"[1, -1]", "element 1 is -1, the vocabulary has 0..383"},
                 {"[1, 2, 384]", "element 2 is 384, the vocabulary has 0..383"},
                 {"[1, 99999999999999999999]", "bad.json"}};
    for (int32_t i = 0; i < ARRAY_LEN(lists); i++) {
        tiny_file(dir, "bad.json", lists[i].text);
        cli_says(dir, 3, lists[i].says, "generate llama --ids bad.json");
        cli_says(dir, 3, lists[i].says, "score llama --ids bad.json");
        cli_says(dir, 3, lists[i].says, "eval llama --ids bad.json --window 8");
    }
    tiny_file(dir, "bad.json", "[[1, 2], [3]]");
    cli_says(dir, 3, "2 lists of token ids, want one", "generate llama --ids bad.json");
    cli_says(dir, 3, "2 lists of token ids, want one", "eval llama --ids bad.json --window 8");
    tiny_ids(dir, "long.json", 600, TINY_VOCAB);
    cli_says(dir, 3, "prompt of 600 tokens, the context holds 512",
             "generate llama --ids long.json");
    cli_says(dir, 3, "600 tokens, the context holds 512", "score llama --ids long.json");
    cli_says(dir, 3, "window of 600 tokens, llama has a context of 512",
             "eval llama --ids long.json --window 4096");
    cli_says(dir, 3, "too few", "eval llama --ids good.json --window 4096 --definition llama.cpp");
    cli_says(dir, 3, "nowhere.json", "generate llama --ids nowhere.json");
    cli_says(dir, 3, "llama", "generate llama --ids llama");
    cli_says(dir, 3, "temperature", "generate llama --ids good.json --temperature -1");
}

static void test_bad_quantize_options(void **state) {
    (void)state;
    char path[FILE_PATH_MAX];
    cli_says(dir, 3, "group size 48 does not divide",
             "quantize llama --method rtn --group 48 --out g");
    cli_says(dir, 2, "--method \"awq\" is not known", "quantize llama --method awq --out g");
    cli_says(dir, 2, "--dtype \"I8\"", "quantize llama --method rtn --dtype I8 --out g");
    cli_says(dir, 3, "llama is the source", "quantize llama --method rtn --group 32 --out llama");
    cli_says(dir, 3, "nowhere.txt", "quantize llama --calib nowhere.txt --out g");
    cli_says(dir, 3, "one sample is 511",
             "quantize llama --calib good.json --sample-tokens 511 --out g --group 32");
    tiny_file(dir, "calib.json", "[[1, 2, 3, 4], [1, 2, 3, 400]]");
    cli_says(dir, 3, "element 3 is 400",
             "quantize llama --calib-ids calib.json --sample-tokens 4 --out g --group 32");
    cli_says(dir, 3, "list 0 has 4 ids, want 8",
             "quantize llama --calib-ids calib.json --sample-tokens 8 --out g --group 32");
    assert_false(file_exists(in(path, "g/config.json")));
    cli_says(dir, 4, "text.txt", "quantize llama --method rtn --group 32 --out text.txt/g");
}

static void test_bad_files(void **state) {
    (void)state;
    char path[FILE_PATH_MAX];
    struct cli_result r;
    cli_says(dir, 3, "nowhere: no such file", "inspect nowhere");
    cli_says(dir, 4, "text.txt/page.html", "report good.db --out text.txt/page.html");
    cli_says(dir, 3, "chat.json", "render llama --messages chat.json");
    tiny_file(dir, "chat.json", "{\"messages\": 3}");
    cli_says(dir, 3, "chat.json: want", "render llama --messages chat.json");
    tiny_file(dir, "t.jinja", "{% for m in messages %}{{ m.content }");
    tiny_file(dir, "chat.json", "{\"messages\": []}");
    cli_says(dir, 3, "t.jinja", "render --template t.jinja --messages chat.json");
    tiny_file(dir, "l.jsonl", "{\"text\": \"a\"}\n{\"txt\": \"b\"}\n");
    cli_line(dir, 3, &r, "tokenize llama --jsonl l.jsonl");
    cli_check_error(&r, "l.jsonl:2: want an object with a string \"text\"");
    cli_fini(&r);
    if (geteuid() != 0) {
        assert_int_equal(chmod(in(path, "t.jinja"), 0), 0);
        cli_says(dir, 4, "t.jinja", "render --template t.jinja --messages chat.json");
    }
}

static void test_bad_standard_output(void **state) {
    (void)state;
    static const char *const lines[][8] = {
        {"--version"},
        {"run", "--help"},
        {"generate", "llama", "--ids", "good.json", "--max-tokens", "4"},
        {"generate", "llama", "--ids", "good.json", "--max-tokens", "4", "--json"},
        {"inspect", "llama"},
        {"report", "good.db", "--json"},
        {"score", "llama", "--ids", "good.json"},
        {"run", "s.yaml", "--db", "out.db"}};
    for (int32_t i = 0; i < ARRAY_LEN(lines); i++) {
        struct cli_opts o = {.cwd = dir, .out_path = "/dev/full"};
        struct cli_result r;
        for (int32_t k = 0; k < 2; k++) {
            cli_run(&o, lines[i], &r);
            if (r.code != 4) {
                fail_msg("line %d, %s: exit code %d", i, k ? "closed" : "full", r.code);
            }
            cli_check_error(&r, "cannot write standard output");
            cli_fini(&r);
            o = (struct cli_opts){.cwd = dir, .out_closed = true};
        }
    }
    /* the database took the lowest free descriptor, which must not have been that of the output */
    assert_true(one_number("out.db", "SELECT count(*) FROM run WHERE status = 'done'") == 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {TEST(test_bad_checkpoint_truncated),
                                       TEST(test_bad_checkpoint_corrupt),
                                       TEST(test_bad_checkpoint_gguf),
                                       TEST(test_bad_architecture),
                                       TEST(test_bad_tokenizer),
                                       TEST(test_bad_weights_nan),
                                       TEST(test_bad_scenario),
                                       TEST(test_bad_scenario_that_parses),
                                       TEST(test_bad_database),
                                       TEST(test_bad_disk_full),
                                       TEST(test_bad_disk_full_results),
                                       TEST(test_bad_prompts),
                                       TEST(test_bad_quantize_options),
                                       TEST(test_bad_files),
                                       TEST(test_bad_standard_output)};
    return cmocka_run_group_tests(tests, make, unmake);
}
