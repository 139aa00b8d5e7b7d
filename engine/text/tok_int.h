/* What the files of the tokenizer share. Not for other folders.
 *
 * Layers, each calling only those above it in this list:
 *
 *     tok_alpha tok_vocab tok_trie tok_regex tok_charsmap   tables and machines over bytes
 *     tok_scan                                              known patterns by hand
 *     tok_norm                                              normaliser
 *     tok_added                                             added tokens
 *     tok_small, tok_merge, tok_window, tok_bpe, tok_unigram, tok_piece
 *                                                           pieces -> ids
 *     tok_pre                                               text -> pieces
 *     tok_dec                                               ids -> text
 *     tok_work, tok_encode                                  one call
 *     tok_build                                             settings -> tokenizer
 *     tok_pre_tab, tok_json, tok_pipe, tok_pipedec, tok_proto, tok_rank, tok_files, tok_spec,
 * tok_save
 */
#ifndef ENGINE_TEXT_TOK_INT_H
#define ENGINE_TEXT_TOK_INT_H

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <pthread.h>

#include "engine/base/json.h"
#include "engine/text/tok.h"

enum {
    TOK_TOKEN_MAX = 1 << 16, /* bytes of one token's text */
    TOK_NORM_MAX = 16,       /* normaliser steps */
    TOK_DEC_MAX = 8,         /* decoder steps, as many as a stream has stages (detok.h) */
    TOK_AFFIX_MAX = 16,      /* ids that a template adds in front or behind */
    TOK_POOL_MAX = 64,       /* scratches kept */
};

/* token flags */
enum { TOK_F_HAVE = 1, TOK_F_SPECIAL = 2, TOK_F_BYTE = 4 };

/* Where bytes lie in an arena. */
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

/* Most pairs that are asked for are no merge; a filter of one bit a hash, small enough for the
 * cache, says so for most of them. */
struct tok_merges {
    struct tok_merge *slot; /* own, [mask + 1] */
    uint64_t *filter;       /* own, [(filter_mask + 1) / 64] */
    uint32_t mask;
    uint32_t filter_mask;
};

/* Prefix search over bytes: a double array. Node s goes to t = base ^ byte of s when unit t's check
 * is s. */
struct tok_unit {
    int32_t base;
    int32_t check; /* parent, -1 free */
    int32_t value; /* what ends here, -1 nothing */
};

struct tok_trie {
    struct tok_unit *unit; /* own, [n]; 0 is the root; NULL: nothing is in it */
    int32_t n;
};

/* A key for tok_trie_build. */
struct tok_key {
    const uint8_t *p; /* ref */
    int32_t n;        /* bytes, at least 1 */
    int32_t value;    /* >= 0 */
};

/* A rewriting table of SentencePiece (the "precompiled charsmap"), parsed. */
struct tok_charsmap {
    const uint8_t *unit; /* ref, little-endian u32 of Darts-clone, [n_unit] */
    int64_t n_unit;
    const uint8_t *text; /* ref, UTF-8 strings each ended by NUL */
    int64_t n_text;
};

struct tok_added {
    struct tok_str text; /* own: cfg's while reading, then tok->strings' */
    int32_t id;
    bool special;
    bool lstrip;
    bool rstrip;
    bool single_word;
    bool normalized;
};

enum tok_norm_kind {
    TOK_NORM_FORM,     /* form: enum utf8_form */
    TOK_NORM_PREPEND,  /* to in front, unless the text is empty */
    TOK_NORM_REPLACE,  /* from, a plain text, by to */
    TOK_NORM_REGEX,    /* from, a pattern, by to */
    TOK_NORM_LOWER,    /* lower case, each character on its own */
    TOK_NORM_STRIP,    /* White_Space off the front (left), off the end (right) */
    TOK_NORM_MARKS,    /* all of M taken out */
    TOK_NORM_NMT,      /* controls out, odd blanks to blanks */
    TOK_NORM_BERT,     /* as told by clean, chinese, marks, lower */
    TOK_NORM_CHARSMAP, /* from is a charsmap, applied as tokenizers does */
    TOK_NORM_BYTES,    /* each byte becomes its letter of GPT-2's alphabet */
    TOK_NORM_SPM,      /* SentencePiece's own normaliser with charsmap from ("" for none) */
};

struct tok_norm {
    enum tok_norm_kind kind;
    int32_t form;
    bool left;
    bool right;
    bool clean;
    bool chinese;
    bool marks;
    bool lower;
    bool prefix;  /* SPM: add_dummy_prefix */
    bool squeeze; /* SPM: remove_extra_whitespaces */
    bool suffix;  /* SPM: treat_whitespace_as_suffix */
    struct tok_str from;
    struct tok_str to;
    struct tok_charsmap map; /* set by the building */
};

enum tok_dec_kind {
    TOK_DEC_BYTES,    /* letters of GPT-2's alphabet to bytes, all as one string of UTF-8 */
    TOK_DEC_REPLACE,  /* from by to in every token */
    TOK_DEC_REGEX,    /* the same by a pattern */
    TOK_DEC_FALLBACK, /* runs of <0xXX> to bytes */
    TOK_DEC_FUSE,     /* all tokens to one */
    TOK_DEC_STRIP,    /* up to start cp off the front of each token, stop off the end */
    TOK_DEC_META,     /* from to a blank; in the first token to nothing when prefix */
    TOK_DEC_SUFFIX,   /* from to a blank; in the last token to nothing */
    TOK_DEC_BLANKS,   /* a blank between tokens: what tokenizers does without a decoder */
};

/* One step from ids to text. */
struct tok_dec {
    enum tok_dec_kind kind;
    struct tok_str from;
    struct tok_str to;
    uint32_t cp;
    int32_t start;
    int32_t stop;
    bool prefix;
    bool fused; /* set by the building: what comes in is one token, in parts */
};

enum tok_kind_of_model { TOK_IS_BPE, TOK_IS_UNIGRAM };

/* Everything that the readers find out, in borrowed strings; tok_build copies it. */
struct tok_cfg {
    const char *where;
    enum tok_kind_of_model model;
    int32_t n_vocab;
    const struct tok_str *text; /* [n_vocab], p NULL: no such token in the model */
    bool byte_level;            /* the last pre-tokenizer writes bytes as letters */
    bool byte_text;             /* texts are bytes as they are, not letters (ranks) */
    int32_t n_merges;
    const struct tok_str *merge; /* [2 * n_merges] left, right */
    const double *score;         /* [n_vocab], instead of merges; UNIGRAM always */
    const uint8_t *kind;         /* [n_vocab] enum tok_kind, or NULL */
    bool spm;                    /* as SentencePiece: USER tokens are symbols of their own, and
                                  * UNIGRAM's sums are rounded to float */
    int32_t n_added;
    const struct tok_added *added;
    int32_t n_norm;
    struct tok_norm norm[TOK_NORM_MAX];
    int32_t n_steps;
    struct tok_step step[TOK_STEPS_MAX];
    int32_t n_dec;
    struct tok_dec dec[TOK_DEC_MAX];
    struct tok_str sub_prefix; /* BPE: in front of every character but a piece's first */
    struct tok_str word_end;   /* BPE: behind the last */
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
    int32_t *rank_id;        /* own, [n_rank] id that a rank makes; NULL with scores */
    int32_t n_rank;          /* ranks are 0..n_rank - 1 */
    int32_t *pair_rank;      /* own, [65536] rank of two one-byte symbols, TOK_NO_RANK; BPE */
    int32_t sym_id[256];     /* token of a one-byte symbol, -1; BPE */
    struct tok_trie pieces;  /* UNIGRAM: all tokens that may be found in text */
    double *score;           /* own, [n_vocab], UNIGRAM */
    double unk_score;        /* UNIGRAM */
    struct tok_span *piece;  /* own, [n_vocab] decoded bytes */
    struct tok_span *first;  /* own, [n_vocab] the same for a first token, or NULL */
    struct buf piece_bytes;  /* own */
    uint8_t *flags;          /* own, [n_vocab] TOK_F_* */
    int32_t byte_id[256];    /* byte level: token of a byte; byte fallback: token <0xXX>; -1 */
    bool glue[256];          /* chars: a token has this byte right before U+2581 */
    bool cut_marks;          /* chars: pieces may be cut in front of U+2581 */
    struct buf strings;      /* own: texts of added tokens, norms, steps, decoders */
    struct tok_added *added; /* own, [n_added] */
    int32_t n_added;
    struct tok_trie raw;    /* added tokens matched before normalising */
    struct tok_trie normal; /* ... after */
    bool raw_start[256];    /* bytes that a raw added token begins with */
    bool normal_start[256];
    struct tok_trie user;                 /* USER tokens that SPM's normaliser leaves alone */
    pcre2_general_context *gctx;          /* own */
    pcre2_code *regex[TOK_STEPS_MAX];     /* own, of REGEX steps */
    int32_t scan[TOK_STEPS_MAX];          /* enum tok_scan_kind of REGEX steps */
    pcre2_code *norm_regex[TOK_NORM_MAX]; /* own */
    pcre2_code *dec_regex[TOK_DEC_MAX];   /* own */
    uint8_t *class;                       /* own, [65536] tok_scan's classes, or NULL */
    char *chat_template;                  /* own or NULL */
    bool byte_level;                      /* merging works on bytes */
    int32_t n_folded;                     /* decoder steps that are already in the pieces */
    struct tok_cfg cfg;    /* settings; its borrowed arrays are cleared, strings are in `strings` */
    pthread_mutex_t lock;  /* guards the rest */
    struct tok_work *pool; /* own */
    int32_t n_pool;
    int64_t n_ops; /* units of work of all calls */
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
static inline uint64_t tok_merges_hash(int32_t left, int32_t right) {
    return ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) * 0x9e3779b97f4a7c15U;
}
static inline uint32_t
tok_merges_slot(const struct tok_merges *m, uint64_t h, int32_t left, int32_t right) {
    uint32_t i = (uint32_t)(h >> 32) & m->mask;
    while (m->slot[i].left >= 0 && (m->slot[i].left != left || m->slot[i].right != right)) {
        i = (i + 1) & m->mask;
    }
    return i;
}
/* out: NULL when the pair is no merge */
static inline const struct tok_merge *
tok_merges_find(const struct tok_merges *m, int32_t left, int32_t right) {
    uint64_t h = tok_merges_hash(left, right);
    uint32_t bit = (uint32_t)(h >> 36) & m->filter_mask;
    if (!(m->filter[bit >> 6] >> (bit & 63) & 1)) {
        return NULL;
    }
    const struct tok_merge *e = &m->slot[tok_merges_slot(m, h, left, right)];
    return e->left >= 0 ? e : NULL;
}

/* tok_alpha.c: GPT-2's alphabet of bytes. Appends the bytes that text stands for.
 * out: false in *ok when a character is outside of the alphabet */
int tok_alpha_bytes(struct tok_str text, struct buf *out, bool *ok);
/* The letter of a byte, U+0021..U+0143. */
uint32_t tok_alpha_letter(uint8_t byte);
/* Appends the letters of n bytes. */
int tok_alpha_text(const uint8_t *p, int64_t n, struct buf *out);
/* -1, or the byte of "<0xXX>" */
int32_t tok_alpha_fallback(struct tok_str text);

/* tok_trie.c. Of equal keys the last in order of the array wins.
 * in: key is sorted in place. err: ERR_LIMIT, ERR_NOMEM. own: caller, tok_trie_fini */
int tok_trie_build(struct tok_trie *t, struct tok_key *key, int64_t n);
void tok_trie_fini(struct tok_trie *t);
/* Longest key that p[0..n) begins with. out: its value, -1 none; *len its bytes */
int32_t tok_trie_longest(const struct tok_trie *t, const uint8_t *p, int64_t n, int64_t *len);
/* One step down from node. out: the child, -1 none */
static inline int32_t tok_trie_child(const struct tok_trie *t, int32_t node, uint8_t byte) {
    int32_t to = t->unit[node].base ^ byte;
    return to < t->n && t->unit[to].check == node ? to : -1;
}

/* tok_charsmap.c. Parses a blob; m points into it.
 * err: ERR_FORMAT */
int tok_charsmap_parse(const uint8_t *p, int64_t n, struct tok_charsmap *m);
/* The rewriting of a text that p[0..n) begins with: the first found (shortest), or the longest.
 * out: its bytes (*n_out) and the length *used of what is rewritten; NULL when there is none */
const uint8_t *tok_charsmap_find(const struct tok_charsmap *m,
                                 const uint8_t *p,
                                 int64_t n,
                                 bool longest,
                                 int64_t *used,
                                 int64_t *n_out);
/* Appends p rewritten as tokenizers' Precompiled does. */
int tok_charsmap_run(const struct tok_charsmap *m, const uint8_t *p, int64_t n, struct buf *out);
/* Standard base64 with or without padding. err: ERR_FORMAT */
int tok_base64(const char *p, int64_t n, struct buf *out);

/* tok_regex.c. Compiles a pattern written for Oniguruma.
 * err: ERR_UNSUPPORTED, ERR_FORMAT, ERR_NOMEM. own: caller, pcre2_code_free */
int tok_regex_compile(const struct tok *tok, struct tok_str pat, pcre2_code **out);
/* Walks over the matches in p[0..n), in the manner of Oniguruma's iterator. */
struct tok_finder {
    const pcre2_code *re;
    bool jit; /* re has machine code */
    const uint8_t *p;
    int64_t n;
    int64_t from;     /* the search goes on here */
    int64_t last_end; /* end of the last match, -1 none */
    int64_t start;    /* of the match */
    int64_t end;
};
void tok_regex_start(struct tok_finder *f, const pcre2_code *re, const uint8_t *p, int64_t n);
/* out: *found. err: ERR_LIMIT, ERR_NOMEM */
int tok_regex_next(struct tok_work *w, struct tok_finder *f, bool *found);
/* Appends p with every match replaced. */
int tok_regex_replace(struct tok_work *w,
                      const pcre2_code *re,
                      const uint8_t *p,
                      int64_t n,
                      struct tok_str to,
                      struct buf *out);

/* tok_scan.c: patterns that are known, scanned by hand. */
#define TOK_PAT_GPT2                                                                               \
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
#define TOK_PAT_ENDINGS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define TOK_PAT_WORDS   TOK_PAT_ENDINGS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|"
#define TOK_PAT_BLANKS  "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define TOK_PAT_SIGNS   "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" TOK_PAT_BLANKS
#define TOK_PAT_QWEN2   TOK_PAT_WORDS "\\p{N}" TOK_PAT_SIGNS
#define TOK_PAT_GROUPS  "\\d{1,3}(?=(?:\\d{3})*\\b)"
#define TOK_PAT_LLAMA3  TOK_PAT_WORDS "\\p{N}{1,3}" TOK_PAT_SIGNS
enum tok_scan_kind {
    TOK_SCAN_NONE,
    TOK_SCAN_GPT2,
    TOK_SCAN_QWEN2,    /* one number a piece */
    TOK_SCAN_LLAMA3,   /* up to three */
    TOK_SCAN_LINE_END, /* \s+$ */
    TOK_SCAN_GROUPS,   /* digits in threes, counted from the right */
    TOK_SCAN_N
};
enum tok_scan_kind tok_scan_known(struct tok_str pattern);
/* Makes the table of classes. err: ERR_NOMEM */
int tok_scan_init(struct tok *tok);
/* End of the match that begins at p[i] for the kinds that leave nothing between matches, i < n.
 * LINE_END: the next match at or behind i, *start; n and *start n when there is none. */
int64_t tok_scan_next(
    const uint8_t *class, enum tok_scan_kind kind, const uint8_t *p, int64_t n, int64_t i);
int64_t tok_scan_line_end(const uint8_t *p, int64_t n, int64_t i, int64_t *start);
/* GROUPS: the next run of digits at or behind i that no word character follows; *start, its end,
 * and its number of digits in *count; n and *start n when there is none. */
int64_t tok_scan_digits(const uint8_t *p, int64_t n, int64_t i, int64_t *start, int64_t *count);

/* tok_script_tab.c: a number for each script, 0 for none. */
uint8_t tok_script(uint32_t cp);

/* tok_norm.c */
int tok_norm_compile(struct tok *tok);
/* Appends the normalised text. */
int tok_norm_run(struct tok_work *w, const uint8_t *p, int64_t n, struct buf *out);

/* tok_added.c. Builds the tries; w is a scratch for the normaliser. */
int tok_added_build(struct tok *tok, struct tok_work *w);
struct tok_hit {
    int64_t start;
    int64_t end;
    int32_t id;
};
struct tok_search {
    const struct tok_trie *trie;
    const bool *begins;
    struct tok_str s;
    bool parse_special;
    int64_t from;      /* the search goes on here */
    int64_t done;      /* end of the last hit with its blanks */
    int64_t blank_end; /* end of the run of blanks seen last */
};
/* The next hit. out: false when none */
bool tok_added_next(const struct tok *tok, struct tok_search *s, struct tok_hit *hit);

/* tok_pre.c */
int tok_pre_compile(struct tok *tok);
/* Cuts p[0..n) by all steps and hands each piece to the model. first: the text's very start */
int tok_pre_run(struct tok_work *w, const uint8_t *p, int64_t n, bool first);

/* tok_pre_tab.c: the steps behind a GGUF name. out: *bos: the family begins with BOS unless told.
 * err: ERR_UNSUPPORTED with the known names */
int tok_pre_named(const char *where, const char *name, struct tok_cfg *cfg, bool *bos);
struct tok_step tok_pre_gpt2(void);
struct tok_step tok_pre_qwen2(void);
struct tok_step tok_pre_llama3(void);

/* tok_piece.c: appends the ids of one piece to the scratch's output, by the model and the cache */
int tok_piece_run(struct tok_work *w, const uint8_t *p, int64_t n);

/* The models at work on a piece of n >= 1 bytes: tok_bpe.c (merging), tok_unigram.c (the most
 * probable cut). */
int tok_bpe_word(struct tok_work *w, const uint8_t *p, int64_t n);
int tok_unigram_word(struct tok_work *w, const uint8_t *p, int64_t n);

/* tok_small.c: merges of at most TOK_SMALL symbols. in: s->n, s->id. out: the list from 0 over next
 * to n. bytes[n]: as in tok_window_run */
enum { TOK_SMALL = 128, TOK_NO_RANK = INT32_MAX };
struct tok_small {
    int32_t n;
    int32_t id[TOK_SMALL];
    uint64_t key[TOK_SMALL];
    int32_t made[TOK_SMALL]; /* what the pair at a place becomes; -1: ask by rank */
    uint8_t prev[TOK_SMALL];
    uint8_t next[TOK_SMALL];
};
void tok_small_merge(struct tok_work *w, struct tok_small *s, const uint8_t *bytes);

/* tok_window.c: merges w->init[0..n) and appends the ids to the scratch's output. in: bytes[n] when
 * every symbol is one byte's token, else NULL */
int tok_window_run(struct tok_work *w, const uint8_t *bytes, int32_t n);

/* Symbols of a piece under merging: a doubly linked list in an array. */
struct tok_sym {
    int32_t id;
    int32_t prev; /* -1 none */
    int32_t next; /* n none */
    int32_t rank; /* of the pair with the next symbol; -1: none, or merged away */
};

/* tok_merge.c: applies the merges of a long piece, lowest rank first. */
struct tok_chunk;
struct tok_bucket;
struct tok_queue {
    struct tok_chunk *chunk; /* own, [cap] */
    int32_t n_chunk;
    int32_t cap;
    int32_t free;              /* head of the free chunks, -1 none */
    struct tok_bucket *bucket; /* own, [n_bucket] by rank */
    int32_t n_bucket;
    uint64_t *bits[4]; /* own: which buckets hold something, and three summaries over it */
    uint64_t *now;     /* own, [cap_now] heap of candidates below the bucket at work */
    int64_t n_now;
    int64_t cap_now;
    int32_t *sort; /* own, [2 * cap_sort] */
    int64_t cap_sort;
};
int tok_merge_all(struct tok_work *w, int32_t n);
void tok_queue_fini(struct tok_queue *q);

enum { TOK_CACHE_SLOTS = 1 << 15, TOK_CACHE_KEY = 20, TOK_CACHE_IDS = 6 };

/* A short piece and its ids; direct-mapped. n_key 0: empty. 48 bytes */
struct tok_cached {
    int32_t id[TOK_CACHE_IDS];
    uint8_t key[TOK_CACHE_KEY];
    uint8_t n_key;
    uint8_t n_id;
};

/* UNIGRAM: the best way to reach a byte of the piece. */
struct tok_best {
    double score;
    int32_t from; /* -1: not reached */
    int32_t id;
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
    struct buf between;            /* own: between the steps of the normaliser */
    struct buf tmp[2];             /* own: inside of one */
    struct buf key;                /* own: a decorated character */
    struct buf seg[TOK_STEPS_MAX]; /* own: segments rewritten by a step */
    struct tok_sym *sym;           /* own, [n_sym] */
    int64_t n_sym;
    struct tok_small small;
    int32_t *init; /* own, [n_init] symbols of the piece before any merge */
    int64_t n_init;
    struct tok_ids lens;   /* own: symbols in each token of a long piece */
    struct tok_best *best; /* own, [n_best] */
    int64_t n_best;
    struct tok_queue queue;   /* own */
    struct tok_cached *cache; /* own, [TOK_CACHE_SLOTS] */
    int64_t n_ops;            /* symbols made, merges looked up, trie steps, in this call */
};

/* tok_work.c */
int tok_work_take(const struct tok *tok, struct tok_work **out);
void tok_work_give(const struct tok *tok, struct tok_work *w);
void tok_work_destroy(struct tok_work *w);
/* Bytes that a scratch keeps from one call to the next. */
enum { TOK_KEEP_BYTES = 4 << 20 };

/* tok_dec.c */
/* Marks fused steps, checks, compiles. */
int tok_dec_compile(struct tok *tok);
/* Appends s with every `from` replaced; s stripped at its ends. */
int tok_dec_replace(struct tok_str s, struct tok_str from, struct tok_str to, struct buf *out);
int tok_dec_strip(struct tok_str s, const struct tok_dec *d, struct buf *out);
/* Makes the piece of a token out of its text. */
int tok_dec_piece(struct tok_work *w, int32_t id, struct tok_str text);

/* A reader of files: settings that point into the JSON and the arrays held here. */
struct tok_reader {
    struct tok_cfg cfg;
    struct tok_str *text;    /* own, [cfg.n_vocab] */
    struct tok_str *merge;   /* own, [2 * cfg.n_merges] */
    double *score;           /* own, [cfg.n_vocab] */
    uint8_t *kind;           /* own, [cfg.n_vocab] */
    struct tok_added *added; /* own, [cfg.n_added] */
    json_t *root;            /* own: tokenizer.json or vocab.json */
    json_t *config;          /* own: tokenizer_config.json or NULL */
    struct buf bytes;        /* own: merges.txt, tokenizer.model, decoded base64 */
    struct buf more;         /* own: charsmap, texts of ranks */
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

/* tok_pipe.c: normalizer, pre_tokenizer, post_processor */
typedef int (*tok_component)(struct tok_reader *r, const json_t *o, const char *type);
/* Calls f for o, or for each member of a Sequence of such. */
int tok_pipe_each(
    struct tok_reader *r, const json_t *o, const char *part, const char *list, tok_component f);
/* A member that must be a string. out: NULL with *rc set */
const json_t *
tok_pipe_string(const struct tok_reader *r, const json_t *o, const char *key, int *rc);
int tok_pipe_unsupported(const struct tok_reader *r, const char *part, const char *what);
/* {"String": s} or {"Regex": s} of o's "pattern". out: *regex. err: ERR_FORMAT */
int tok_pipe_pattern(const struct tok_reader *r, const json_t *o, struct tok_str *out, bool *regex);
/* The settings of a Metaspace. out: *split: the text is cut at the mark as well */
int tok_pipe_metaspace(struct tok_reader *r, const json_t *o, struct tok_step *out, bool *split);
int tok_pipe_read(struct tok_reader *r);
/* tok_pipedec.c: decoder */
int tok_pipedec_read(struct tok_reader *r);

/* tok_proto.c: SentencePiece's tokenizer.model in r->bytes. err: ERR_FORMAT, ERR_UNSUPPORTED */
int tok_proto_read(struct tok_reader *r);
/* True when the bytes begin as such a file does. */
bool tok_proto_is(const uint8_t *p, int64_t n);

/* tok_rank.c: ranks in tiktoken's form in r->bytes. err: ERR_FORMAT, ERR_UNSUPPORTED */
int tok_rank_read(struct tok_reader *r);

/* tok_build.c: builds the tokenizer out of what a reader found */
int tok_build(const struct tok_cfg *cfg, struct tok **out);

#endif
