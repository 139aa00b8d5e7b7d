/* Test vectors of other programs against every vocabulary that is at hand: llama.cpp's (46 texts,
 * ids without special tokens) and swift-transformers' (one long text a model, and a list a model).
 *
 *     set                                     vocabulary
 *     gguf-vocab  gpt-2                       its own GGUF; tokenizer-gpt2
 *                 starcoder deepseek-coder    their own GGUFs
 *                 llama-spm phi-3             their own GGUFs; tokenizer-llama2's json and model
 *                 qwen2 deepseek-r1-qwen      tokenizer-qwen
 *                 llama-bpe                   tokenizer-llama3: vocab and merges; ranks
 *                 bert-bge                    none (WordPiece: refused by name)
 *                 chameleon command-r deepseek-llm falcon mpt refact roberta-bpe gemma-4
 *                                             none at hand
 *     swift       gpt2, distilgpt2, whisper-tiny.en (its texts)    tokenizer-gpt2
 *                 llama, Llama-2-7b-chat      tokenizer-llama2
 *                 llama_3.2, Llama-3.2-1B     tokenizer-llama3
 *                 falcon gemma t5 whisper-large-v2                 none at hand
 *                 bert                        none (WordPiece)
 * The GGUFs are in test_smollm2_tok.c. The tokenizer.json of tokenizer-llama2 has plain blanks
 * where tokenizer.model has U+00A0 (tokens 8655, 17891, 20246, 30081), so that texts with U+00A0
 * come out otherwise; they are tried with the model alone. */
#include "tests/support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/json.h"
#include "engine/text/tok.h"

enum { FILE_MAX = 1 << 26, N_TEXTS = 46 };

/* A vocabulary: a file or folder of the shared data, or such files under other names. */
struct source {
    const char *path; /* of the shared data */
    const char *const
        *files;         /* pairs "name there", "name here", ended by NULL; NULL: path itself */
    const char *config; /* tokenizer_config.json, or NULL */
};

static const char *const qwen_files[] = {"vocab.json",
                                         "vocab.json",
                                         "merges.txt",
                                         "merges.txt",
                                         "qwen3_tokenizer_config.json",
                                         "tokenizer_config.json",
                                         NULL};
static const char *const llama3_files[] = {"vocab.json", "vocab.json", "merges.txt", "merges.txt",
                                           NULL};
static const char *const model_file[] = {"tokenizer.model", "tokenizer.model", NULL};

static const char llama3_config[] =
    "{\"tokenizer_class\": \"PreTrainedTokenizerFast\", \"bos_token\": \"<|begin_of_text|>\","
    " \"eos_token\": \"<|eot_id|>\", \"added_tokens_decoder\": {"
    "\"128000\": {\"content\": \"<|begin_of_text|>\", \"special\": true},"
    "\"128009\": {\"content\": \"<|eot_id|>\", \"special\": true}}}";

static const struct source gpt2 = {"tokenizer-gpt2", NULL, NULL};
static const struct source qwen = {"tokenizer-qwen", qwen_files, NULL};
static const struct source llama2 = {"tokenizer-llama2", NULL, NULL};
static const struct source llama2_model = {"tokenizer-llama2", model_file, NULL};
static const struct source llama3 = {"tokenizer-llama3", llama3_files, llama3_config};
static const struct source llama3_ranks = {"tokenizer-llama3", model_file, NULL};

static void copy(const char *from_dir, const char *from, const char *to_dir, const char *to) {
    char path[FILE_PATH_MAX];
    struct buf b;
    buf_init(&b, MEM_TEST, FILE_MAX);
    assert_ok(file_join(path, from_dir, from));
    assert_ok(file_read(path, &b));
    assert_ok(file_join(path, to_dir, to));
    assert_ok(file_write(path, b.data, b.len));
    buf_fini(&b);
}

static struct tok *open_source(const struct source *s) {
    const char *dir = test_shared(s->path);
    struct tok *t = NULL;
    char tmp[FILE_PATH_MAX];
    char path[FILE_PATH_MAX];
    if (!dir) {
        print_message("%s is not on this machine (TRILEMMA_SHARED)\n", s->path);
        skip();
    }
    if (!s->files) {
        assert_ok(tok_open(dir, &t));
        return t;
    }
    test_tmpdir(tmp);
    for (int32_t i = 0; s->files[i]; i += 2) {
        copy(dir, s->files[i], tmp, s->files[i + 1]);
    }
    if (s->config) {
        assert_ok(file_join(path, tmp, "tokenizer_config.json"));
        assert_ok(file_write(path, s->config, (int64_t)strlen(s->config)));
    }
    assert_ok(tok_open(tmp, &t));
    test_rmdir(tmp);
    return t;
}

/* Texts in NAME.inp, each ended by a marker line; a line of ids for each in NAME.out. */
static void check_llamacpp(const struct source *s, const char *name) {
    static const char mark[] = "\n__ggml_vocab_test__\n";
    struct tok *t = open_source(s);
    struct buf in;
    struct buf want;
    char rel[128];
    int32_t n = 0;
    int32_t n_bad = 0;
    buf_init(&in, MEM_TEST, FILE_MAX);
    buf_init(&want, MEM_TEST, FILE_MAX);
    snprintf(rel, sizeof rel, "gguf-vocab/ggml-vocab-%s.gguf.inp", name);
    assert_ok(file_read(test_shared(rel), &in));
    snprintf(rel, sizeof rel, "gguf-vocab/ggml-vocab-%s.gguf.out", name);
    assert_ok(file_read(test_shared(rel), &want));
    const char *w = want.data;
    for (const char *p = in.data; p < in.data + in.len; n++) {
        const char *end = strstr(p, mark);
        struct tok_ids ids;
        char *next = NULL;
        bool same = true;
        assert_non_null(end);
        tok_ids_init(&ids);
        assert_ok(tok_encode(t, p, end - p, 0, &ids));
        for (int32_t i = 0; i < ids.n; i++) {
            same = same && strtol(w, &next, 10) == ids.v[i];
            w = next ? next : w;
        }
        if (!same || strspn(w, " ") != strcspn(w, "\n")) {
            print_message("%s: text %d, \"%.*s\", differs\n", name, n, (int)(end - p), p);
            n_bad++;
        }
        w = strchr(w, '\n') + 1;
        p = end + sizeof mark - 1;
        tok_ids_fini(&ids);
    }
    assert_int_equal(n, N_TEXTS);
    assert_int_equal(n_bad, 0);
    buf_fini(&in);
    buf_fini(&want);
    tok_destroy(t);
}

/* want[skip..size - drop) are the ids of text. */
static bool ids_equal(const struct tok *t,
                      const json_t *text,
                      uint32_t flags,
                      const json_t *want,
                      size_t skip,
                      size_t drop) {
    struct tok_ids ids;
    tok_ids_init(&ids);
    assert_ok(
        tok_encode(t, json_string_value(text), (int64_t)json_string_length(text), flags, &ids));
    bool same = (size_t)ids.n + skip + drop == json_array_size(want);
    for (size_t i = 0; i < (size_t)ids.n && same; i++) {
        same = ids.v[i] == json_integer_value(json_array_get(want, i + skip));
    }
    tok_ids_fini(&ids);
    return same;
}

static json_t *read_shared(const char *rel) {
    json_t *o = NULL;
    const char *path = test_shared(rel);
    if (!path) {
        print_message("%s is not on this machine (TRILEMMA_SHARED)\n", rel);
        skip();
    }
    assert_ok(json_read(path, &o));
    return o;
}

static void check_swift_text(const struct source *s, const char *file, bool decodes) {
    char rel[128];
    snprintf(rel, sizeof rel, "tokenizer-tests/%s", file);
    json_t *o = read_shared(rel);
    struct tok *t = open_source(s);
    const json_t *want = json_object_get(o, "token_ids");
    uint32_t flags = TOK_PARSE_SPECIAL | TOK_ADD_SPECIAL;
    assert_true(ids_equal(t, json_object_get(o, "text"), flags, want, 0, 0));
    struct tok_ids ids;
    struct buf b;
    tok_ids_init(&ids);
    buf_init(&b, MEM_TEST, FILE_MAX);
    for (size_t i = 0; i < json_array_size(want); i++) {
        assert_ok(tok_ids_add(&ids, (int32_t)json_integer_value(json_array_get(want, i))));
    }
    assert_ok(tok_decode(t, ids.v, ids.n, !decodes, &b));
    assert_string_equal(buf_cstr(&b),
                        json_string_value(json_object_get(o, decodes ? "decoded_text" : "text")));
    tok_ids_fini(&ids);
    buf_fini(&b);
    tok_destroy(t);
    json_decref(o);
}

/* The list of one model. skip, drop: ids that only that model adds in front and behind */
static void check_swift_list(const struct source *s, const char *model, size_t skip, size_t drop) {
    json_t *o = read_shared("tokenizer-tests/swift_tokenizer_tests.json");
    struct tok *t = open_source(s);
    const json_t *rows = json_object_get(o, model);
    uint32_t flags = TOK_PARSE_SPECIAL | (skip + drop > 0 ? 0 : TOK_ADD_SPECIAL);
    int32_t n_bad = 0;
    assert_true(json_array_size(rows) > 10);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        const json_t *want = json_object_get(json_object_get(row, "encoded"), "input_ids");
        const json_t *text = json_object_get(row, "input");
        if (s == &llama2 && strstr(json_string_value(text), "\xc2\xa0")) {
            continue;
        }
        if (!ids_equal(t, text, flags, want, skip, drop)) {
            print_message("%s: \"%s\" differs\n", model, json_string_value(text));
            n_bad++;
        }
    }
    assert_int_equal(n_bad, 0);
    tok_destroy(t);
    json_decref(o);
}

static void test_tok_vectors_gpt2(void **state) {
    (void)state;
    check_llamacpp(&gpt2, "gpt-2");
    check_swift_text(&gpt2, "swift_gpt2_encoded_tokens.json", true);
    check_swift_list(&gpt2, "distilgpt2", 0, 0);
    check_swift_list(&gpt2, "openai/whisper-tiny.en", 2, 1);
}

static void test_tok_vectors_qwen(void **state) {
    (void)state;
    check_llamacpp(&qwen, "qwen2");
    check_llamacpp(&qwen, "deepseek-r1-qwen");
}

static void test_tok_vectors_llama2_json(void **state) {
    (void)state;
    check_llamacpp(&llama2, "llama-spm");
    check_llamacpp(&llama2, "phi-3");
    check_swift_text(&llama2, "swift_llama_encoded.json", false);
    check_swift_list(&llama2, "coreml-projects/Llama-2-7b-chat-coreml", 0, 0);
}

static void test_tok_vectors_llama2_model(void **state) {
    (void)state;
    check_llamacpp(&llama2_model, "llama-spm");
    check_llamacpp(&llama2_model, "phi-3");
    check_swift_text(&llama2_model, "swift_llama_encoded.json", false);
    check_swift_list(&llama2_model, "coreml-projects/Llama-2-7b-chat-coreml", 0, 0);
}

static void test_tok_vectors_llama3_merges(void **state) {
    (void)state;
    check_llamacpp(&llama3, "llama-bpe");
    check_swift_text(&llama3, "swift_llama_3.2_encoded.json", true);
    check_swift_list(&llama3, "pcuenq/Llama-3.2-1B-Instruct-tokenizer", 0, 0);
}

static void test_tok_vectors_llama3_ranks(void **state) {
    (void)state;
    check_llamacpp(&llama3_ranks, "llama-bpe");
    check_swift_text(&llama3_ranks, "swift_llama_3.2_encoded.json", true);
    check_swift_list(&llama3_ranks, "pcuenq/Llama-3.2-1B-Instruct-tokenizer", 0, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_tok_vectors_gpt2),          TEST(test_tok_vectors_qwen),
        TEST(test_tok_vectors_llama2_json),   TEST(test_tok_vectors_llama2_model),
        TEST(test_tok_vectors_llama3_merges), TEST(test_tok_vectors_llama3_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
