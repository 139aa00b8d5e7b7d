/* What the files of the tokenizer share. Not for other folders. */
#ifndef ENGINE_TEXT_TOK_INT_H
#define ENGINE_TEXT_TOK_INT_H

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <pthread.h>

#include "engine/base/json.h"
#include "engine/text/tok.h"

enum {
    TOK_TOKEN_MAX = 1 << 16, /* bytes of one token's text */
    TOK_NORM_MAX = 8,        /* normaliser steps */
    TOK_AFFIX_MAX = 16,      /* ids that a template adds in front or behind */
    TOK_POOL_MAX = 64,       /* scratches kept */
};

/* token flags */
enum { TOK_F_HAVE = 1, TOK_F_SPECIAL = 2, TOK_F_BYTE = 4 };

/* Where a token's bytes lie in an arena. */
struct tok_span {
    int64_t at;
    int32_t n;
};

/* text -> id, open addressing. Keys are spans of the key arena. */
struct tok_vocab {
    struct tok_span *key; /* own, [n_vocab]; n < 0: not to be found by text */
    struct buf bytes;     /* own, the arena of keys */
    int32_t *slot;        /* own, [mask + 1], id or -1 */
    uint32_t mask;
    int32_t n; /* ids */
};

/* (left, right) -> (rank, id), open addressing; left < 0 is an empty slot. */
struct tok_merge {
    int32_t left;
    int32_t right;
    int32_t rank;
    int32_t id;
};

struct tok_merges {
    struct tok_merge *slot; /* own, [mask + 1] */
    uint32_t mask;
};

/* Added tokens: a trie over bytes, first child and next sibling. */
struct tok_node {
    int32_t child; /* -1 none */
    int32_t next;  /* -1 none */
    int32_t added; /* index of the added token that ends here, -1 none */
    uint8_t byte;
};

struct tok_trie {
    struct tok_node *node; /* own, [cap] */
    int32_t n;
    int32_t cap;
    int32_t root[256]; /* node of each first byte, -1 none */
};

struct tok_added {
    struct tok_str text; /* own: cfg's while reading, then tok->added_bytes' */
    int32_t id;
    bool special;
    bool lstrip;
    bool rstrip;
    bool single_word;
    bool normalized;
};

enum tok_norm_kind { TOK_NORM_FORM, TOK_NORM_PREPEND, TOK_NORM_REPLACE };

struct tok_norm {
    enum tok_norm_kind kind;
    int32_t form;        /* enum utf8_form */
    struct tok_str from; /* REPLACE */
    struct tok_str to;   /* REPLACE, PREPEND */
};

enum tok_dec_kind { TOK_DEC_BYTE_LEVEL, TOK_DEC_CHARS };

/* How ids become text again. */
struct tok_dec {
    enum tok_dec_kind kind;
    struct tok_str from; /* CHARS: replaced in every token ... */
    struct tok_str to;   /* ... by this */
    bool byte_fallback;
    int32_t strip; /* characters equal to strip_cp taken off the front of the whole */
    uint32_t strip_cp;
};

/* Everything that the readers find out, in borrowed strings; tok_build copies it. */
struct tok_cfg {
    const char *where;
    int32_t n_vocab;
    const struct tok_str *text; /* [n_vocab], p NULL: no such token in the model */
    bool byte_level;            /* texts are in GPT-2's byte alphabet */
    int32_t n_merges;
    const struct tok_str *merge; /* [2 * n_merges] left, right */
    const float *score;          /* [n_vocab], instead of merges */
    const uint8_t *kind;         /* [n_vocab] or NULL; with score: which tokens may be merged to */
    int32_t n_added;
    const struct tok_added *added;
    int32_t n_norm;
    struct tok_norm norm[TOK_NORM_MAX];
    int32_t n_steps;
    struct tok_step step[TOK_STEPS_MAX];
    struct tok_dec dec;
    bool ignore_merges;
    bool byte_fallback;
    bool fuse_unk;
    int32_t unk; /* -1 none */
    int32_t n_prefix;
    int32_t prefix[TOK_AFFIX_MAX];
    int32_t n_suffix;
    int32_t suffix[TOK_AFFIX_MAX];
    int32_t bos; /* -1 none */
    int32_t n_eos;
    int32_t eos[TOK_EOS_MAX];
    const char *chat_template;
};

struct tok_work;

struct tok {
    struct tok_vocab vocab;
    struct tok_merges merges;
    int32_t *rank_id;        /* own, [n_merges] id that a rank makes; NULL with scores */
    struct tok_span *piece;  /* own, [n_vocab] decoded bytes */
    struct buf piece_bytes;  /* own */
    uint8_t *flags;          /* own, [n_vocab] TOK_F_* */
    int32_t byte_id[256];    /* byte level: token of a byte; byte fallback: token <0xXX>; -1 */
    struct buf strings;      /* own: texts of added tokens, norm steps and step patterns */
    struct tok_added *added; /* own, [n_added] */
    int32_t n_added;
    struct tok_trie raw;              /* added tokens matched before normalising */
    struct tok_trie normal;           /* ... after */
    pcre2_general_context *gctx;      /* own */
    pcre2_code *regex[TOK_STEPS_MAX]; /* own, of REGEX steps */
    char *chat_template;              /* own or NULL */
    bool byte_level;
    bool all_bytes;        /* every byte has a token */
    struct tok_cfg cfg;    /* settings; its borrowed arrays are cleared, strings are in `strings` */
    pthread_mutex_t lock;  /* guards the pool */
    struct tok_work *pool; /* own */
    int32_t n_pool;
};

/* tok_vocab.c */
uint64_t tok_hash(const uint8_t *p, int64_t n);
int tok_vocab_init(struct tok_vocab *v, int32_t n_vocab);
void tok_vocab_fini(struct tok_vocab *v);
/* Gives id the key; the first id that asks for a key has it. err: ERR_NOMEM, ERR_LIMIT */
int tok_vocab_add(struct tok_vocab *v, int32_t id, const uint8_t *key, int32_t n);
int32_t tok_vocab_find(const struct tok_vocab *v, const uint8_t *key, int64_t n);
int tok_merges_init(struct tok_merges *m, int64_t n);
void tok_merges_fini(struct tok_merges *m);
void tok_merges_add(struct tok_merges *m, struct tok_merge e); /* a later equal pair replaces */
const struct tok_merge *tok_merges_find(const struct tok_merges *m, int32_t left, int32_t right);

/* tok_alpha.c: GPT-2's alphabet of bytes. Appends the bytes that text stands for.
 * out: false in *ok when a character is outside of the alphabet */
int tok_alpha_bytes(struct tok_str text, struct buf *out, bool *ok);
/* -1, or the byte of "<0xXX>" */
int32_t tok_alpha_fallback(struct tok_str text);

/* tok_added.c */
int tok_trie_build(struct tok *tok);
void tok_trie_fini(struct tok_trie *t);
struct tok_hit {
    int64_t start;
    int64_t end;
    int32_t id;
};
/* The first hit at or after from that begins no earlier than floor. out: false when none */
bool tok_added_next(const struct tok *tok,
                    const struct tok_trie *t,
                    bool parse_special,
                    struct tok_str s,
                    int64_t *from,
                    int64_t floor,
                    struct tok_hit *hit);

/* tok_norm.c: appends the normalised text */
int tok_norm_run(
    const struct tok *tok, const uint8_t *p, int64_t n, struct buf *out, struct buf *tmp);

/* tok_pre.c */
typedef int (*tok_emit)(struct tok_work *w, const uint8_t *p, int64_t n, void *ctx);
int tok_pre_compile(struct tok *tok);
void tok_pre_fini(struct tok *tok);
/* Cuts p[0..n) by all steps and hands each piece to the merger. first: the text's very start */
int tok_pre_run(struct tok_work *w, const uint8_t *p, int64_t n, bool first);

/* tok_pre_tab.c: the steps behind a GGUF name. err: ERR_UNSUPPORTED with the known names */
int tok_pre_named(const char *where, const char *name, struct tok_cfg *cfg);
struct tok_step tok_pre_gpt2(void);
struct tok_step tok_pre_qwen2(void);

/* tok_bpe.c: merges one piece and appends its ids to the scratch's output */
int tok_bpe_piece(struct tok_work *w, const uint8_t *p, int64_t n);

/* Symbols of a piece under merging: a doubly linked list in an array. */
struct tok_sym {
    int32_t id; /* -1: merged away */
    int32_t prev;
    int32_t next;
};

enum { TOK_CACHE_SLOTS = 1 << 15, TOK_CACHE_KEY = 20, TOK_CACHE_IDS = 6 };

/* A short piece and its ids; direct-mapped. n_key 0: empty. 48 bytes */
struct tok_cached {
    int32_t id[TOK_CACHE_IDS];
    uint8_t key[TOK_CACHE_KEY];
    uint8_t n_key;
    uint8_t n_id;
};

/* Scratch of one encode call. */
struct tok_work {
    const struct tok *tok;         /* ref */
    struct tok_ids *out;           /* ref, during a call */
    struct tok_work *next;         /* pool */
    pcre2_match_data *match;       /* own */
    pcre2_match_context *mctx;     /* own */
    pcre2_jit_stack *stack;        /* own or NULL */
    struct buf clean;              /* own: repaired input */
    struct buf norm;               /* own: normalised segment */
    struct buf tmp;                /* own */
    struct buf seg[TOK_STEPS_MAX]; /* own: segments rewritten by a step */
    struct tok_sym *sym;           /* own, [n_sym] */
    int64_t n_sym;
    uint64_t *heap; /* own, [n_heap] candidates, rank << 32 | position */
    int64_t n_heap;
    struct tok_cached *cache; /* own, [TOK_CACHE_SLOTS] */
};

/* tok_work.c */
int tok_work_take(const struct tok *tok, struct tok_work **out);
void tok_work_give(const struct tok *tok, struct tok_work *w);
void tok_work_destroy(struct tok_work *w);

/* A reader of Hugging Face files: settings that point into the JSON and the arrays held here. */
struct tok_reader {
    struct tok_cfg cfg;
    struct tok_str *text;    /* own, [cfg.n_vocab] */
    struct tok_str *merge;   /* own, [2 * cfg.n_merges] */
    struct tok_added *added; /* own, [cfg.n_added] */
    json_t *root;            /* own: tokenizer.json or vocab.json */
    json_t *config;          /* own: tokenizer_config.json or NULL */
    struct buf merges_txt;   /* own */
    struct buf chat;         /* own: chat_template.jinja */
};

/* tok_json.c */
struct tok_str tok_json_str(const json_t *s); /* in: a JSON string */
/* vocab {"text": id}; leaves room for the added tokens' ids */
int tok_json_vocab(struct tok_reader *r, const json_t *vocab, int32_t n_least);
/* One added token {"content": ..., "special": ...}. */
int tok_json_added(const struct tok_reader *r, const json_t *o, int32_t id, struct tok_added *out);
/* Everything of a tokenizer.json in r->root but the pipeline. */
int tok_json_read(struct tok_reader *r);
/* tok_pipe.c: normalizer, pre_tokenizer, post_processor, decoder */
int tok_pipe_read(struct tok_reader *r);

/* tok.c: builds the tokenizer out of what a reader found */
int tok_build(const struct tok_cfg *cfg, struct tok **out);

#endif
