/* Pre-tokenizers by the names that GGUF files give them (tokenizer.ggml.pre).
 *
 * A name stands for a list of patterns, each an isolating split of what the one before left, and
 * for habits of its family: NFC first, ignore_merges, BOS in front unless the file says otherwise.
 * F_NUMBERS puts a split at every single character of \p{N} in front. Names whose patterns work on
 * other than bytes, or are built into a program (gemma4, kimi-k2, afmoe, whitespace, ...), are
 * refused like unknown ones.
 * src: the tokenizer.json files of the families; llama.cpp, llama-vocab.cpp and
 * convert_hf_to_gguf.py for the names */
#include <string.h>

#include "engine/base/err.h"
#include "engine/base/str.h"
#include "engine/text/tok_int.h"
#include "engine/text/utf8.h"

#define UPPERS "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWERS "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define O200K                                                                                      \
    "[^\\r\\n\\p{L}\\p{N}]?" UPPERS "*" LOWERS "+" TOK_PAT_ENDINGS                                 \
    "?|[^\\r\\n\\p{L}\\p{N}]?" UPPERS "+" LOWERS "*" TOK_PAT_ENDINGS                               \
    "?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" TOK_PAT_BLANKS
#define TEKKEN                                                                                     \
    "[^\\r\\n\\p{L}\\p{N}]?" UPPERS "*" LOWERS "+|[^\\r\\n\\p{L}\\p{N}]?" UPPERS "+" LOWERS        \
    "*|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" TOK_PAT_BLANKS
#define CJK "[\xe4\xb8\x80-\xe9\xbe\xa5\xe0\xa0\x80-\xe4\xb8\x80\xea\xb0\x80-\xed\x9f\xbf]+"
#define DEEPSEEK_LETTERS                                                                           \
    "\\s?[A-Za-z\\xb5\\xc0-\\xd6\\xd8-\\xf6\\xf8-\\x{1ba}\\x{1bc}-\\x{1bf}\\x{1c4}-\\x{293}"       \
    "\\x{295}-\\x{2af}\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37b}-\\x{37d}\\x{37f}\\x{386}"          \
    "\\x{388}-\\x{38a}\\x{38c}\\x{38e}-\\x{3a1}\\x{3a3}-\\x{3f5}\\x{3f7}-\\x{481}"                 \
    "\\x{48a}-\\x{52f}\\x{531}-\\x{556}\\x{10a0}-\\x{10c5}\\x{13a0}-\\x{13f5}"                     \
    "\\x{13f8}-\\x{13fd}\\x{1c90}-\\x{1cba}\\x{1cbd}-\\x{1cbf}\\x{1d00}-\\x{1d2b}"                 \
    "\\x{1d6b}-\\x{1d77}\\x{1d79}-\\x{1d9a}\\x{1e00}-\\x{1f15}\\x{1f18}-\\x{1f1d}"                 \
    "\\x{1f20}-\\x{1f45}\\x{1f48}-\\x{1f4d}\\x{1f50}-\\x{1f57}\\x{1f59}\\x{1f5b}\\x{1f5d}"         \
    "\\x{1f5f}-\\x{1f7d}\\x{1f80}-\\x{1fb4}\\x{1fb6}-\\x{1fbc}\\x{1fbe}\\x{1fc2}-\\x{1fc4}"        \
    "\\x{1fc6}-\\x{1fcc}\\x{1fd0}-\\x{1fd3}\\x{1fd6}-\\x{1fdb}\\x{1fe0}-\\x{1fec}"                 \
    "\\x{1ff2}-\\x{1ff4}\\x{1ff6}-\\x{1ffc}\\x{2102}\\x{2107}\\x{210a}-\\x{2113}\\x{2115}"         \
    "\\x{2119}-\\x{211d}\\x{2124}\\x{2126}\\x{2128}\\x{212a}-\\x{212d}\\x{212f}-\\x{2134}"         \
    "\\x{2139}\\x{213c}-\\x{213f}\\x{2145}-\\x{2149}\\x{214e}\\x{2183}\\x{2184}"                   \
    "\\x{2c00}-\\x{2c7b}\\x{2c7e}-\\x{2ce4}\\x{2ceb}-\\x{2cee}\\x{2cf2}\\x{2cf3}"                  \
    "\\x{a640}-\\x{a66d}\\x{a680}-\\x{a69b}\\x{a722}-\\x{a76f}\\x{a771}-\\x{a787}"                 \
    "\\x{a78b}-\\x{a78e}\\x{ab70}-\\x{abbf}\\x{fb00}-\\x{fb06}\\x{fb13}-\\x{fb17}"                 \
    "\\x{ff21}-\\x{ff3a}\\x{ff41}-\\x{ff5a}\\x{10400}-\\x{1044f}\\x{104b0}-\\x{104d3}"             \
    "\\x{104d8}-\\x{104fb}\\x{10c80}-\\x{10cb2}\\x{10cc0}-\\x{10cf2}\\x{118a0}-\\x{118df}"         \
    "\\x{1e900}-\\x{1e943}]+"
#define DEEPSEEK_SIGNS                                                                             \
    "\\s?[!-/:-~\\x{ff01}-\\x{ff0f}\\x{ff1a}-\\x{ff5e}\\x{2018}-\\x{201f}\\x{3000}-\\x{3002}]+"
#define DEEPSEEK_V3                                                                                \
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?"           \
    "[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|" TOK_PAT_BLANKS
#define BLOOM " ?[^(\\s|.,!?\\x{2026}\\x{3002}\\x{ff0c}\\x{3001}\\x{964}\\x{6d4}\\x{60c})]+"

#define JAIS2                                                                                      \
    TOK_PAT_WORDS "\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s{512}(?!\\S)|"      \
                  "\\s{256}(?!\\S)|\\s{128}(?!\\S)|\\s{64}(?!\\S)|\\s{32}(?!\\S)|\\s{16}(?!\\S)|"  \
                  "\\s{8}(?!\\S)|\\s{4}(?!\\S)|\\s{1,2}(?!\\S)|\\s{1}"
#define QWEN35                                                                                     \
    TOK_PAT_ENDINGS "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}|"                               \
                    " ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" TOK_PAT_BLANKS
#define BAILING                                                                                    \
    "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|" \
    "\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"
#define SEED     TOK_PAT_WORDS "\\p{N}{1}| ?[^\\s\\p{L}\\p{N}\\r\\n]+|" TOK_PAT_BLANKS
#define UFAKZEKA "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}" TOK_PAT_SIGNS
#define MINICPM5 TOK_PAT_WORDS "\\p{N}+" TOK_PAT_SIGNS
#define YOUTU_CJK                                                                                  \
    "[\\x{ac00}-\\x{d7a3}\\x{3131}-\\x{318e}]+|[\\x{ff01}\\x{2026}\\x{201c}\\x{201d}\\x{2018}"     \
    "\\x{2019}\\x{2014}\\x{ff1a}\\x{ff1b}\\x{ff0c}\\x{3001}-\\x{303f}\\x{fe30}-\\x{fe4f}]+|"       \
    "[\\x{3105}-\\x{312f}]+|[\\x{4e00}-\\x{9fa5}\\x{3040}-\\x{309f}\\x{30a0}-\\x{30ff}]+"
#define YOUTU                                                                                      \
    "[^\\r\\n\\p{L}\\p{N}]?" UPPERS "*" LOWERS "+" TOK_PAT_ENDINGS                                 \
    "?|[^\\r\\n\\p{L}\\p{N}]?" UPPERS "+" LOWERS "*" TOK_PAT_ENDINGS                               \
    "?|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" TOK_PAT_BLANKS
#define JAPANESE "[\\x{4e00}-\\x{9fa5}\\x{3040}-\\x{309f}\\x{30a0}-\\x{30ff}]+"
#define SPARK                                                                                      \
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?"           \
    "[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+|[\\r\\n]|\\s+(?!\\S)|\\s+"

enum { PATTERNS_MAX = 6, F_NFC = 1, F_WHOLE = 2, F_NUMBERS = 4, F_BOS = 8 };

struct family {
    const char *names; /* separated by blanks */
    int32_t flags;
    const char *pattern[PATTERNS_MAX];
};

static const struct family families[] = {
    {"gpt-2 gpt2 mpt olmo phi-2 jina-es jina-de jina-v1-en jina-v2-es jina-v2-de jina-v2-code "
     "roberta-bpe jais gigachat a.x-4.0 mellum modern-bert exaone4 trillion granite-docling",
     0,
     {TOK_PAT_GPT2}},
    {"smollm starcoder refact command-r codeshell exaone minerva-7b mellum2",
     F_NUMBERS,
     {TOK_PAT_GPT2}},
    {"qwen2 qwen3 deepseek-r1-qwen megrez f2llmv2", F_NFC, {TOK_PAT_QWEN2}},
    {"stablelm2 hunyuan solar-open grok-2 kormo", 0, {TOK_PAT_QWEN2}},
    {"qwen35", F_NFC, {QWEN35}},
    {"llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano",
     F_WHOLE | F_BOS,
     {TOK_PAT_LLAMA3}},
    {"dbrx smaug-bpe chatglm-bpe", 0, {TOK_PAT_LLAMA3}},
    {"glm4 glm5", F_WHOLE, {TOK_PAT_LLAMA3}},
    {"gpt-4o llama4 kanana2 talkie minimax-m2", 0, {O200K}},
    {"granite-embed-multi-97m", F_WHOLE, {O200K}},
    {"tiny_aya cohere2moe", 0, {TOK_PAT_GROUPS, O200K}},
    {"tekken", F_WHOLE | F_BOS, {TEKKEN}},
    {"falcon", 0, {"[\\p{P}\\$\\+<=>\\^~\\|`]+", TOK_PAT_GPT2, "[0-9][0-9][0-9]"}},
    {"deepseek-llm", 0, {"[\\r\\n]", DEEPSEEK_LETTERS, DEEPSEEK_SIGNS, "\\s+$", CJK, "\\p{N}+"}},
    {"deepseek-coder", 0, {"[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", CJK, "\\p{N}"}},
    {"deepseek-v3 hunyuan-dense joyai-llm hy_v4", 0, {"\\p{N}{1,3}", JAPANESE, DEEPSEEK_V3}},
    {"spark2_5", 0, {"\\p{N}{1,3}", JAPANESE, SPARK, "\\p{N}"}},
    {"youtu", F_WHOLE, {YOUTU_CJK, YOUTU}},
    {"jais-2", 0, {JAIS2}},
    {"bailingmoe bailingmoe2 llada-moe", 0, {BAILING}},
    {"seed-coder", 0, {SEED}},
    {"ufakzeka", 0, {UFAKZEKA}},
    {"laguna", 0, {"[^\\n]+|[\\n]+", TOK_PAT_QWEN2}},
    {"minicpm5", F_WHOLE, {"\\p{N}{1,3}", MINICPM5}},
    {"chameleon",
     F_BOS,
     {"<sentinel:[0-9]+>", "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z", "([\\t\\n]|    |  )", "\\p{N}",
      "[\\p{P}!-/:-@\\[-`{-~]", TOK_PAT_GPT2}},
    {"bloom gpt3-finnish poro-chat", 0, {BLOOM}},
    {"viking", 0, {BLOOM, "\\p{N}"}},
    {"default", 0, {"[\\p{P}\\$\\+<=>\\^~\\|]+", TOK_PAT_GPT2, "\\p{N}+", "[0-9][0-9][0-9]"}},
};

static bool listed(const char *names, const char *name) {
    size_t n = strlen(name);
    for (const char *p = names; *p;) {
        size_t len = strcspn(p, " ");
        if (len == n && memcmp(p, name, n) == 0) {
            return true;
        }
        p += len + (p[len] == ' ');
    }
    return false;
}

static struct tok_step isolated(const char *pattern) {
    return (struct tok_step){.kind = TOK_STEP_REGEX,
                             .behavior = TOK_ISOLATED,
                             .pattern = {pattern, (int32_t)strlen(pattern)}};
}

struct tok_step tok_pre_gpt2(void) {
    return isolated(TOK_PAT_GPT2);
}

struct tok_step tok_pre_qwen2(void) {
    return isolated(TOK_PAT_QWEN2);
}

struct tok_step tok_pre_llama3(void) {
    return isolated(TOK_PAT_LLAMA3);
}

static int unknown(const char *where, const char *name) {
    char known[2048] = "";
    int64_t at = 0;
    for (int32_t i = 0; i < ARRAY_LEN(families); i++) {
        at += i > 0 && str_copy(known + at, (int64_t)sizeof known - at, " ");
        str_copy(known + at, (int64_t)sizeof known - at, families[i].names);
        at = (int64_t)strlen(known);
    }
    return err_set(ERR_UNSUPPORTED, "%s: pre-tokenizer \"%.64s\" is unknown; known are: %s", where,
                   name, known);
}

int tok_pre_named(const char *where, const char *name, struct tok_cfg *cfg, bool *bos) {
    for (int32_t i = 0; i < ARRAY_LEN(families); i++) {
        const struct family *f = &families[i];
        if (!listed(f->names, name)) {
            continue;
        }
        cfg->n_steps = 0;
        *bos = f->flags & F_BOS;
        if (f->flags & F_NUMBERS) {
            cfg->step[cfg->n_steps++] =
                (struct tok_step){.kind = TOK_STEP_NUMBERS, .behavior = TOK_ISOLATED};
        }
        for (int32_t k = 0; k < PATTERNS_MAX && f->pattern[k]; k++) {
            cfg->step[cfg->n_steps++] = isolated(f->pattern[k]);
        }
        if (f->flags & F_NFC) {
            cfg->norm[cfg->n_norm++] =
                (struct tok_norm){.kind = TOK_NORM_FORM, .form = (int32_t)UTF8_NFC};
        }
        cfg->ignore_merges = cfg->ignore_merges || (f->flags & F_WHOLE);
        return 0;
    }
    return unknown(where, name);
}
