#include "tests/support/toy_tok.h"

#include "tests/support/support.h"

#include <stdio.h>
#include <string.h>

enum { N_PIECES = 5, N_SPM = 3 + 256 + N_PIECES };

/* The character that stands for byte number i of the alphabet's order. */
static uint32_t letter(int32_t i) {
    if (i < 94) {
        return 0x21 + (uint32_t)i;
    }
    if (i < 106) {
        return 0xa1 + (uint32_t)i - 94;
    }
    return i < 188 ? 0xae + (uint32_t)i - 106 : 0x100 + (uint32_t)i - 188;
}

static void add_letter(struct buf *b, int32_t i) {
    uint32_t cp = letter(i);
    assert_ok(buf_str(b, "\""));
    if (cp == '"' || cp == '\\') {
        assert_ok(buf_str(b, "\\"));
    }
    assert_ok(buf_utf8(b, cp));
    assert_ok(buf_fmt(b, "\":%d,", i));
}

void toy_json(struct buf *b) {
    assert_ok(buf_str(b, "{\"added_tokens\":[{\"id\":261,\"content\":\"<|end|>\",\"special\":true,"
                         "\"normalized\":false}],\"normalizer\":{\"type\":\"NFC\"},"
                         "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,"
                         "\"use_regex\":true},\"post_processor\":{\"type\":\"TemplateProcessing\","
                         "\"single\":[{\"Sequence\":{\"id\":\"A\",\"type_id\":0}},"
                         "{\"SpecialToken\":{\"id\":\"<|end|>\",\"type_id\":0}}],"
                         "\"special_tokens\":{\"<|end|>\":{\"ids\":[261]}}},"
                         "\"decoder\":{\"type\":\"ByteLevel\"},"
                         "\"model\":{\"type\":\"BPE\",\"vocab\":{"));
    for (int32_t i = 0; i < 256; i++) {
        add_letter(b, i);
    }
    assert_ok(buf_str(b, "\"he\":256,\"ll\":257,\"hell\":258,\"hello\":259,\"\xc4\xa0hello\":260},"
                         "\"merges\":[\"h e\",\"l l\",[\"he\",\"ll\"],\"hell o\","
                         "\"\xc4\xa0 hello\"]}}"));
}

struct tok *toy_spm(void) {
    static const char *const pieces[N_PIECES] = {"\xe2\x96\x81", "a", "b", "ab", "\342\226\201ab"};
    static const char *const first[3] = {"<unk>", "<s>", "</s>"};
    char bytes[256][8];
    struct tok_str text[N_SPM];
    uint8_t kind[N_SPM];
    float score[N_SPM] = {0};
    struct tok *t = NULL;
    for (int32_t i = 0; i < N_SPM; i++) {
        const char *s = i < 3 ? first[i] : i < 259 ? bytes[i - 3] : pieces[i - 259];
        if (i >= 3 && i < 259) {
            snprintf(bytes[i - 3], sizeof bytes[0], "<0x%02X>", (unsigned)(i - 3));
        }
        text[i] = (struct tok_str){s, (int32_t)strlen(s)};
        kind[i] = i == 0 ? TOK_UNKNOWN : i < 3 ? TOK_CONTROL : i < 259 ? TOK_BYTE : TOK_NORMAL;
        score[i] = i < 259 ? 0 : (float)(259 - i);
    }
    struct tok_spec s = {.where = "toy",
                         .model = TOK_MODEL_SPM,
                         .n_vocab = N_SPM,
                         .text = text,
                         .kind = kind,
                         .score = score,
                         .has_bos = true,
                         .bos = 1,
                         .has_unk = true,
                         .unk = 0,
                         .add_bos = true,
                         .n_eos = 1,
                         .eos = {2}};
    assert_ok(tok_create(&s, &t));
    return t;
}
