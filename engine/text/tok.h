/* Tokenizer: bytes <-> token ids, with the results of Hugging Face tokenizers.
 *
 * A `struct tok` is immutable after its making; any number of threads may encode with it at once
 * (each call takes a scratch from a pool inside). Supported: BPE over bytes (GPT-2, SmolLM2, Qwen,
 * Llama 3, ...), BPE over characters with byte fallback (Llama 2, Gemma; also as SentencePiece
 * scores) and Unigram. All else (WordPiece, WordLevel) is refused by name. */
#ifndef ENGINE_TEXT_TOK_H
#define ENGINE_TEXT_TOK_H

#include "engine/base/buf.h"

struct tok;

enum {
    TOK_VOCAB_MAX = 1 << 22, /* ids 0..TOK_VOCAB_MAX - 1 */
    TOK_TEXT_MAX = 1 << 28,  /* bytes of one text */
    TOK_STEPS_MAX = 16,      /* pre-tokenizer steps */
    TOK_EOS_MAX = 16,
};

/* A string with a length, as files hold it; not terminated. */
struct tok_str {
    const char *p; /* ref */
    int32_t n;     /* bytes */
};

/* Token kinds, numbered as GGUF's tokenizer.ggml.token_type. */
enum tok_kind {
    TOK_NORMAL = 1,
    TOK_UNKNOWN = 2,
    TOK_CONTROL = 3, /* special: parsed on request only, skipped by decode with skip_special */
    TOK_USER = 4,    /* matched in the text before anything else */
    TOK_UNUSED = 5,
    TOK_BYTE = 6,
};

enum tok_model {
    TOK_MODEL_BYTE_BPE, /* token texts in GPT-2's byte alphabet, merges in order of rank */
    TOK_MODEL_SPM, /* token texts in UTF-8 with U+2581 for the blank, scores instead of merges */
};

/* One step that cuts a text into smaller pieces. src: tokenizers' pre_tokenizers */
enum tok_step_kind {
    TOK_STEP_REGEX,      /* pattern is a regular expression (Oniguruma's common part with PCRE2) */
    TOK_STEP_STRING,     /* pattern is plain text */
    TOK_STEP_NUMBERS,    /* characters of Nd, Nl, No */
    TOK_STEP_SPACES,     /* characters of White_Space */
    TOK_STEP_PUNCT,      /* punctuation characters */
    TOK_STEP_BYTE_LEVEL, /* bytes are tokens; prefix_space puts a blank in front of a piece without
                          */
    TOK_STEP_METASPACE,  /* blanks become pattern (U+2581); prefix as told */
    TOK_STEP_SCRIPTS,    /* where the script changes; Japanese ones count as Han */
    TOK_STEP_LENGTH,     /* every `length` characters */
    TOK_STEP_LETTERS,    /* each byte becomes its letter of GPT-2's alphabet */
};

/* What becomes of a match. */
enum tok_behavior {
    TOK_ISOLATED,
    TOK_REMOVED,
    TOK_MERGED_WITH_PREVIOUS,
    TOK_MERGED_WITH_NEXT,
    TOK_CONTIGUOUS,
};

/* Where METASPACE puts a U+2581 in front. */
enum tok_prefix { TOK_PREFIX_NEVER, TOK_PREFIX_FIRST, TOK_PREFIX_ALWAYS };

struct tok_step {
    enum tok_step_kind kind;
    enum tok_behavior behavior;
    enum tok_prefix prefix;
    bool invert;       /* matches and the rest change roles */
    bool prefix_space; /* BYTE_LEVEL */
    int32_t length;    /* LENGTH, at least 1 */
    struct tok_str pattern;
};

/* A vocabulary as a GGUF file holds it. Zero means default. Everything is copied. */
struct tok_spec {
    const char *where; /* names the source in errors */
    enum tok_model model;
    int32_t n_vocab;
    const struct tok_str *text; /* [n_vocab] */
    const uint8_t *kind;        /* [n_vocab] enum tok_kind; NULL: all normal */
    const float *score;         /* [n_vocab]; SPM only */
    int32_t n_merges;
    const struct tok_str *merges; /* [n_merges] "left right"; BYTE_BPE only */
    const char *pre; /* tokenizer.ggml.pre; NULL: steps below, or "gpt-2" without any */
    int32_t n_steps;
    const struct tok_step *steps;
    bool nfc;             /* normalise to NFC first (pre names bring their own) */
    bool ignore_merges;   /* a piece that is a token stays whole (pre names bring their own) */
    bool no_prefix_space; /* SPM: no U+2581 in front (add_space_prefix false) */
    bool add_bos;
    bool add_bos_told; /* add_bos stands; else the family of pre decides */
    bool add_eos;
    bool has_bos; /* bos below is meant */
    bool has_unk;
    int32_t bos;
    int32_t unk;
    int32_t n_eos; /* 0..TOK_EOS_MAX */
    int32_t eos[TOK_EOS_MAX];
    const char *chat_template; /* NULL when there is none */
};

/* Makes a tokenizer from plain arrays.
 * err:  ERR_UNSUPPORTED naming an unknown pre with the known ones, ERR_FORMAT (a merge of texts
 * that are no tokens, ids out of range), ERR_LIMIT, ERR_NOMEM own:  caller, tok_destroy cost:
 * proportional to the vocabulary; about 0.1 s for 150,000 tokens */
int tok_create(const struct tok_spec *spec, struct tok **out);

/* Opens a tokenizer.json, a tokenizer.model, or a folder with, looked for in this order:
 *   tokenizer.json                     the whole tokenizer
 *   vocab.json, merges.txt             byte-level BPE; tokenizer_config.json, when there, tells
 *                                      the class and has the added tokens
 *   tokenizer.model                    SentencePiece (BPE, Unigram), or tiktoken's ranks when their
 *                                      pattern is known
 * BOS, EOS and the chat template come from tokenizer_config.json and chat_template.jinja.
 * err: ERR_NOTFOUND, ERR_UNSUPPORTED naming file and component, ERR_FORMAT, ERR_LIMIT, ERR_NOMEM
 * own: caller, tok_close */
int tok_open(const char *path, struct tok **out);

/* Parses tokenizer.json, or a SentencePiece model (tokenizer.model), from memory; where names it in
 * errors. */
int tok_parse(const char *where, const char *text, int64_t n, struct tok **out);
int tok_parse_model(const char *where, const uint8_t *p, int64_t n, struct tok **out);

/* Writes tokenizer.json and tokenizer_config.json (with the chat template) into dir, which tok_open
 * and transformers read back.
 * err: ERR_UNSUPPORTED for anything but byte-level BPE; ERR_IO, ERR_NOMEM */
int tok_save(const struct tok *tok, const char *dir);

/* Both free everything; NULL is fine. No other thread may be inside. */
void tok_destroy(struct tok *tok);
void tok_close(struct tok *tok);

/* Ids that grow. */
struct tok_ids {
    int32_t *v; /* own, [cap] */
    int32_t n;
    int32_t cap;
};

void tok_ids_init(struct tok_ids *ids);
void tok_ids_fini(struct tok_ids *ids);
int tok_ids_add(struct tok_ids *ids, int32_t id); /* err: ERR_NOMEM, ERR_LIMIT */

enum {
    TOK_PARSE_SPECIAL = 1, /* special tokens written in the text become themselves */
    TOK_ADD_SPECIAL = 2,   /* add what the tokenizer adds (BOS, EOS) */
};

/* Appends the ids of n bytes of text to out.
 * in:   any bytes; what is no UTF-8 is read as U+FFFD. flags of TOK_*
 * err:  ERR_LIMIT past TOK_TEXT_MAX or a pattern that does not end, ERR_UNSUPPORTED for a character
 *       that a Unigram without unknown token lacks, ERR_NOMEM; out keeps its ids and may have got
 *       some more
 * cost: proportional to n, whatever the text (an unknown regular expression may cost more);
 *       thread-safe
 * src:  tokenizers 0.23, TokenizerImpl::encode */
int tok_encode(
    const struct tok *tok, const char *text, int64_t n, uint32_t flags, struct tok_ids *out);

/* Appends the text of n ids to out, as tokenizers' decode does: bytes that are no UTF-8 become
 * U+FFFD, ids without a token are left out, special tokens too when skip_special. See detok.h for
 * one id at a time.
 * err: ERR_LIMIT, ERR_NOMEM */
int tok_decode(
    const struct tok *tok, const int32_t *ids, int64_t n, bool skip_special, struct buf *out);

/* Raw bytes that id stands for, before any repair; NULL and *n = 0 when there is no such token.
 * own: the tokenizer's */
const uint8_t *tok_piece(const struct tok *tok, int32_t id, int32_t *n);

/* The text of an added token as it is written, else tok_piece. out: *n bytes, not terminated */
const char *tok_written(const struct tok *tok, int32_t id, int32_t *n);

/* Units of work that all encode calls took: symbols, merges asked for, trie steps. For tests of
 * cost. */
int64_t tok_ops(const struct tok *tok);

int32_t tok_n_vocab(const struct tok *tok);
bool tok_is_byte_level(const struct tok *tok); /* BPE over bytes; else over characters */
int32_t tok_bos(const struct tok *tok);        /* -1 when there is none */
const int32_t *tok_eos(const struct tok *tok, int32_t *n);
bool tok_is_eos(const struct tok *tok, int32_t id);
bool tok_is_special(const struct tok *tok, int32_t id);

/* Id of an added token by its text ("<|im_end|>"), else of the token of exactly these bytes; -1. */
int32_t tok_find(const struct tok *tok, const char *text);

/* The Jinja source that came with the tokenizer; NULL when none. own: the tokenizer's */
const char *tok_chat_template(const struct tok *tok);

#endif
