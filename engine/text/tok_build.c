/* Making a tokenizer.
 *
 * A reader fills a tok_cfg with borrowed strings; tok_build checks and copies it:
 *
 *     token texts --> keys (bytes that the model works on) --> vocab table, or trie
 *                 --> pieces (bytes that decoding writes; tok_dec.c)
 *     merges, or scores --> merge table        added tokens --> tries
 *     steps --> compiled patterns
 *
 * Invariants: ids are 0..n_vocab - 1; a token has a piece iff TOK_F_HAVE; in a byte vocabulary a
 * token whose text is outside of GPT-2's alphabet (an added one) has no key and stands for its own
 * UTF-8. Scores of a BPE become merges: every cut of a token into two tokens is a merge whose rank
 * is the token's place among all scores, highest first, so equal scores merge left to right.
 *
 * A vocabulary behind ByteLevel works on bytes where it can; with byte fallback or decorated
 * characters it works on the letters, as a last step that writes them.
 * src: tokenizers, bpe/model.rs; google/sentencepiece, bpe_model.cc */
#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/text/tok_int.h"
#include "engine/text/utf8.h"

enum { UNK_PENALTY = 10 };

static int keep(struct tok *t, struct tok_str *s) {
    struct tok_span span = {.at = t->strings.len, .n = s->n};
    int rc = buf_add(&t->strings, s->p, s->n);
    if (!rc) {
        s->p = t->strings.data + span.at;
    }
    return rc;
}

/* Calls f for every string of the settings. */
static int each_string(struct tok *t, int (*f)(struct tok *, struct tok_str *)) {
    struct tok_cfg *c = &t->cfg;
    int rc = f(t, &c->sub_prefix);
    rc = rc ? rc : f(t, &c->word_end);
    for (int32_t i = 0; i < t->n_added && !rc; i++) {
        rc = f(t, &t->added[i].text);
    }
    for (int32_t i = 0; i < c->n_norm && !rc; i++) {
        rc = f(t, &c->norm[i].from);
        rc = rc ? rc : f(t, &c->norm[i].to);
    }
    for (int32_t i = 0; i < c->n_steps && !rc; i++) {
        rc = f(t, &c->step[i].pattern);
    }
    for (int32_t i = 0; i < c->n_dec && !rc; i++) {
        rc = f(t, &c->dec[i].from);
        rc = rc ? rc : f(t, &c->dec[i].to);
    }
    return rc;
}

static int count(struct tok *t, struct tok_str *s) {
    t->strings.max += s->n;
    return 0;
}

/* Copies all strings. why: the buffer gets its full size first, so that pointers into it stay
 * good. */
static int keep_strings(struct tok *t, const struct tok_cfg *c) {
    struct tok_cfg *d = &t->cfg;
    t->added = mem_array(MEM_TEXT, c->n_added, sizeof *t->added);
    if (!t->added) {
        return ERR_NOMEM;
    }
    for (int32_t i = 0; i < c->n_added; i++) {
        t->added[i] = c->added[i];
    }
    t->n_added = c->n_added;
    buf_init(&t->strings, MEM_TEXT, (int64_t)strlen(c->where) + 1);
    each_string(t, count);
    t->strings.data = mem_calloc(MEM_TEXT, t->strings.max + 1);
    if (!t->strings.data) {
        return ERR_NOMEM;
    }
    t->strings.cap = t->strings.max;
    d->where = t->strings.data;
    int rc = buf_add(&t->strings, c->where, (int64_t)strlen(c->where) + 1);
    return rc ? rc : each_string(t, keep);
}

/* Gives token id its key: what the model sees. why: in a byte vocabulary the added tokens of a GGUF
 * file stand in the same list; merging must not find them. */
static int add_key(struct tok *t, int32_t id, struct tok_str s, struct buf *tmp) {
    const uint8_t *kind = t->cfg.kind;
    if (t->byte_level && kind && kind[id] != TOK_NORMAL && kind[id] != TOK_UNUSED) {
        return 0;
    }
    if (s.n > TOK_TOKEN_MAX) {
        return err_set(ERR_LIMIT, "token %d has %d bytes, at most %d", id, s.n, TOK_TOKEN_MAX);
    }
    bool ok = t->cfg.byte_text;
    if (!ok && utf8_valid((const uint8_t *)s.p, s.n) != s.n) {
        return err_set(ERR_FORMAT, "token %d is no UTF-8", id);
    }
    if (!t->byte_level || ok) {
        return tok_vocab_add(&t->vocab, id, (const uint8_t *)s.p, s.n);
    }
    buf_clear(tmp);
    int rc = tok_alpha_bytes(s, tmp, &ok);
    return rc || !ok
               ? rc
               : tok_vocab_add(&t->vocab, id, (const uint8_t *)buf_cstr(tmp), (int32_t)tmp->len);
}

/* The tokens of single bytes. */
static void find_bytes(struct tok *t) {
    static const char digits[] = "0123456789ABCDEF";
    for (int32_t b = 0; b < 256; b++) {
        char name[] = {'<', '0', 'x', digits[b >> 4], digits[b & 15], '>'};
        uint8_t byte = (uint8_t)b;
        t->byte_id[b] = t->byte_level ? tok_vocab_find(&t->vocab, &byte, 1)
                                      : tok_vocab_find(&t->vocab, (const uint8_t *)name, 6);
    }
}

/* Which bytes stand before U+2581 inside of tokens, and whether that helps. */
static void find_glue(struct tok *t) {
    static const uint8_t mark[] = {0xe2, 0x96, 0x81};
    for (int32_t id = 0; id < t->vocab.n; id++) {
        struct tok_span k = t->vocab.key[id];
        const uint8_t *p = (const uint8_t *)t->vocab.bytes.data + k.at;
        for (int32_t i = 1; i + 2 < k.n; i++) {
            if (memcmp(p + i, mark, 3) == 0) {
                t->glue[p[i - 1]] = true;
            }
        }
    }
    t->cut_marks = !t->byte_level && t->cfg.model == TOK_IS_BPE && t->cfg.sub_prefix.n == 0 &&
                   t->cfg.word_end.n == 0 && tok_vocab_find(&t->vocab, mark, 3) >= 0;
}

static int add_tokens(struct tok *t, const struct tok_cfg *c) {
    struct buf tmp;
    buf_init(&tmp, MEM_TEXT, 2 * TOK_TOKEN_MAX);
    int rc = 0;
    for (int32_t i = 0; i < c->n_vocab && !rc; i++) {
        rc = c->text[i].p ? add_key(t, i, c->text[i], &tmp) : 0;
    }
    for (int32_t i = 0; i < c->n_added && !rc; i++) {
        const struct tok_added *a = &c->added[i];
        if (a->id < 0 || a->id >= c->n_vocab) {
            rc = err_set(ERR_FORMAT, "added token \"%.*s\" has id %d of %d", a->text.n, a->text.p,
                         a->id, c->n_vocab);
        } else if (utf8_valid((const uint8_t *)a->text.p, a->text.n) != a->text.n) {
            rc = err_set(ERR_FORMAT, "added token %d is no UTF-8", a->id);
        } else {
            t->flags[a->id] |= a->special ? TOK_F_SPECIAL : 0;
        }
    }
    find_bytes(t);
    find_glue(t);
    buf_fini(&tmp);
    return rc;
}

/* What decoding writes. why: an added token that is normalised comes back in its normalised form,
 * which the decoder turns round. */
static int add_pieces(struct tok *t, const struct tok_cfg *c, struct tok_work *w) {
    int rc = 0;
    for (int32_t i = 0; i < c->n_vocab && !rc; i++) {
        rc = c->text[i].p ? tok_dec_piece(w, i, c->text[i]) : 0;
    }
    for (int32_t i = 0; i < t->n_added && !rc; i++) {
        struct tok_str s = t->added[i].text;
        buf_clear(&w->norm);
        if (t->added[i].normalized) {
            rc = tok_norm_run(w, (const uint8_t *)s.p, s.n, &w->norm);
            s = (struct tok_str){buf_cstr(&w->norm), (int32_t)w->norm.len};
        }
        rc = rc ? rc : tok_dec_piece(w, t->added[i].id, s);
    }
    return rc;
}

/* The key that the text of one side of a merge has. */
static int side(const struct tok *t, struct tok_str s, struct buf *out) {
    bool ok = true;
    int rc =
        t->byte_level && !t->cfg.byte_text ? tok_alpha_bytes(s, out, &ok) : buf_add(out, s.p, s.n);
    if (!rc && !ok) {
        return err_set(ERR_FORMAT, "\"%.*s\" is not in the alphabet of bytes", s.n, s.p);
    }
    return rc;
}

/* The right side without the decoration that its being inside of a word brings. */
static struct tok_str undecorated(const struct tok *t, struct tok_str s) {
    int32_t n = t->cfg.sub_prefix.n;
    bool has = n > 0 && s.n >= n;
    return has ? (struct tok_str){s.p + n, s.n - n} : s;
}

static int add_merge(struct tok *t, int32_t rank, const struct tok_str *lr, struct buf *b) {
    buf_clear(b);
    int rc = side(t, lr[1], b);
    const uint8_t *p = (const uint8_t *)buf_cstr(b);
    int32_t right = rc ? -1 : tok_vocab_find(&t->vocab, p, b->len);
    b->len = 0;
    rc = rc ? rc : side(t, lr[0], b);
    p = (const uint8_t *)buf_cstr(b);
    int32_t left = rc ? -1 : tok_vocab_find(&t->vocab, p, b->len);
    rc = rc ? rc : side(t, undecorated(t, lr[1]), b);
    if (rc) {
        return err_ctx(rc, "merge %d", rank);
    }
    p = (const uint8_t *)buf_cstr(b);
    struct tok_merge m = {
        .left = left, .right = right, .rank = rank, .id = tok_vocab_find(&t->vocab, p, b->len)};
    if (m.left < 0 || m.right < 0 || m.id < 0) {
        return err_set(ERR_FORMAT, "merge %d, \"%.*s\" and \"%.*s\": %s is no token", rank, lr[0].n,
                       lr[0].p, lr[1].n, lr[1].p,
                       m.left < 0    ? "the left"
                       : m.right < 0 ? "the right"
                                     : "the whole");
    }
    tok_merges_add(&t->merges, m);
    t->rank_id[rank] = m.id;
    return 0;
}

static int add_merges(struct tok *t, const struct tok_cfg *c) {
    struct buf b;
    buf_init(&b, MEM_TEXT, 4 * TOK_TOKEN_MAX);
    t->rank_id = mem_array(MEM_TEXT, c->n_merges, sizeof *t->rank_id);
    t->n_rank = c->n_merges;
    int rc = t->rank_id ? tok_merges_init(&t->merges, c->n_merges) : ERR_NOMEM;
    for (int32_t i = 0; i < c->n_merges && !rc; i++) {
        rc = add_merge(t, i, c->merge + 2 * (int64_t)i, &b);
    }
    buf_fini(&b);
    return rc;
}

struct scored {
    double score;
    int32_t id;
};

static int by_score(const void *a, const void *b) {
    const struct scored *x = a;
    const struct scored *y = b;
    if (x->score > y->score || x->score < y->score) {
        return x->score > y->score ? -1 : 1;
    }
    return (x->id > y->id) - (x->id < y->id);
}

/* Calls tok_merges_add for every cut of token id into two tokens (add), or counts the cuts. */
static int64_t cuts(struct tok *t, int32_t id, int32_t rank, bool add) {
    struct tok_span k = t->vocab.key[id];
    const uint8_t *p = (const uint8_t *)t->vocab.bytes.data + k.at;
    int64_t n = 0;
    for (int32_t i = 1; i < k.n; i++) {
        if (!t->byte_level && (p[i] & 0xc0) == 0x80) {
            continue;
        }
        int32_t left = tok_vocab_find(&t->vocab, p, i);
        int32_t right = left < 0 ? -1 : tok_vocab_find(&t->vocab, p + i, k.n - i);
        if (right >= 0) {
            n++;
            if (add) {
                tok_merges_add(&t->merges, (struct tok_merge){left, right, rank, id});
            }
        }
    }
    return n;
}

static bool mergeable(const struct tok_cfg *c, int32_t id) {
    uint8_t kind = c->kind ? c->kind[id] : TOK_NORMAL;
    return c->text[id].p &&
           (kind == TOK_NORMAL || kind == TOK_UNUSED || (kind == TOK_USER && !c->spm));
}

static int add_scores(struct tok *t, const struct tok_cfg *c) {
    struct scored *s = mem_array(MEM_TEXT, c->n_vocab, sizeof *s);
    if (!s) {
        return ERR_NOMEM;
    }
    int32_t n = 0;
    int64_t n_cuts = 0;
    int rc = 0;
    for (int32_t i = 0; i < c->n_vocab; i++) {
        if (mergeable(c, i)) {
            s[n++] = (struct scored){.score = c->score[i], .id = i};
            n_cuts += cuts(t, i, 0, false);
            rc = c->score[i] == c->score[i] ? rc : err_set(ERR_FORMAT, "score %d is no number", i);
        }
    }
    rc = rc ? rc : tok_merges_init(&t->merges, n_cuts);
    if (!rc) {
        qsort(s, (size_t)n, sizeof *s, by_score);
    }
    int32_t rank = 0;
    for (int32_t i = 0; i < n && !rc; i++) {
        rank += i > 0 && s[i].score < s[i - 1].score;
        cuts(t, s[i].id, rank, true);
    }
    t->n_rank = rank + 1;
    mem_free(s);
    return rc;
}

static int check_ids(const struct tok_cfg *c) {
    int32_t bad = c->bos >= c->n_vocab ? c->bos : c->unk >= c->n_vocab ? c->unk : -1;
    for (int32_t i = 0; i < c->n_eos; i++) {
        bad = c->eos[i] < 0 || c->eos[i] >= c->n_vocab ? c->eos[i] : bad;
    }
    for (int32_t i = 0; i < c->n_prefix + c->n_suffix; i++) {
        int32_t id = i < c->n_prefix ? c->prefix[i] : c->suffix[i - c->n_prefix];
        bad = id < 0 || id >= c->n_vocab ? id : bad;
    }
    if (bad != -1) {
        return err_set(ERR_FORMAT, "special id %d, want 0..%d", bad, c->n_vocab - 1);
    }
    return 0;
}

/* PCRE2's memory comes from ours. */
static void *pcre_malloc(PCRE2_SIZE n, void *data) {
    (void)data;
    return n > INT32_MAX ? NULL : mem_calloc(MEM_TEXT, (int64_t)n);
}

static void pcre_free(void *p, void *data) {
    (void)data;
    mem_free(p);
}

/* The ranks of pairs of bytes, as an array; in a character vocabulary of pairs of ASCII. */
static int add_pairs(struct tok *t) {
    for (int32_t b = 0; b < 256; b++) {
        uint8_t c = (uint8_t)b;
        t->sym_id[b] = t->byte_level || b < 0x80 ? tok_vocab_find(&t->vocab, &c, 1) : -1;
    }
    t->pair_rank = mem_array(MEM_TEXT, 65536, sizeof *t->pair_rank);
    if (!t->pair_rank) {
        return ERR_NOMEM;
    }
    for (int32_t i = 0; i < 65536; i++) {
        const struct tok_merge *m =
            tok_merges_find(&t->merges, t->sym_id[i >> 8], t->sym_id[i & 255]);
        t->pair_rank[i] = m ? m->rank : TOK_NO_RANK;
    }
    return 0;
}

/* UNIGRAM: scores and the trie of what may be found in text. why: special tokens are found on
 * request only, before the model sees the text. */
static int add_unigram(struct tok *t, const struct tok_cfg *c) {
    double low = 0;
    double high = 0;
    int64_t n = 0;
    struct tok_key *key = mem_array(MEM_TEXT, c->n_vocab, sizeof *key);
    t->score = mem_array(MEM_TEXT, c->n_vocab, sizeof *t->score);
    int rc = key && t->score ? 0 : ERR_NOMEM;
    for (int32_t i = 0; i < c->n_vocab && !rc; i++) {
        uint8_t kind = c->kind ? c->kind[i] : TOK_NORMAL;
        if (!c->text[i].p) {
            continue;
        }
        if (!(c->score[i] >= -DBL_MAX && c->score[i] <= DBL_MAX)) {
            rc = err_set(ERR_FORMAT, "score %d is no number", i);
        }
        if (!c->kind || kind == TOK_NORMAL) {
            low = n == 0 || c->score[i] < low ? c->score[i] : low;
            high = n == 0 || c->score[i] > high ? c->score[i] : high;
        }
        bool found = kind == TOK_NORMAL || kind == TOK_USER;
        t->score[i] = c->score[i];
        if (found && c->text[i].n > 0 && !(t->flags[i] & TOK_F_SPECIAL)) {
            key[n++] = (struct tok_key){(const uint8_t *)c->text[i].p, c->text[i].n, i};
        }
    }
    for (int32_t i = 0; i < c->n_vocab && !rc && c->kind; i++) {
        if (c->kind[i] == TOK_USER) {
            t->score[i] = (double)(float)(c->text[i].n * high) - 0.1;
        }
    }
    t->unk_score = low - UNK_PENALTY;
    rc = rc ? rc : tok_trie_build(&t->pieces, key, n);
    mem_free(key);
    return rc;
}

/* SPM's normaliser leaves user-defined symbols alone. */
static int add_users(struct tok *t, const struct tok_cfg *c) {
    if (!c->spm || !c->kind) {
        return 0;
    }
    int64_t n = 0;
    struct tok_key *key = mem_array(MEM_TEXT, c->n_vocab, sizeof *key);
    if (!key) {
        return ERR_NOMEM;
    }
    for (int32_t i = 0; i < c->n_vocab; i++) {
        if (c->kind[i] == TOK_USER && c->text[i].n > 0) {
            key[n++] = (struct tok_key){(const uint8_t *)c->text[i].p, c->text[i].n, i};
        }
    }
    int rc = tok_trie_build(&t->user, key, n);
    mem_free(key);
    return rc;
}

/* Bytes or letters? */
static int choose_space(struct tok *t) {
    struct tok_cfg *c = &t->cfg;
    t->byte_level = c->byte_level && c->model == TOK_IS_BPE && c->sub_prefix.n == 0 &&
                    c->word_end.n == 0 && !c->byte_fallback;
    if (t->byte_level || !c->byte_level) {
        return 0;
    }
    if (c->n_steps == TOK_STEPS_MAX) {
        return err_set(ERR_LIMIT, "more than %d pre-tokenizer steps", TOK_STEPS_MAX);
    }
    c->step[c->n_steps++] = (struct tok_step){.kind = TOK_STEP_LETTERS};
    return 0;
}

static int allocate(struct tok *t, const struct tok_cfg *c) {
    bool meta = t->n_folded < c->n_dec && c->dec[t->n_folded].kind == TOK_DEC_META;
    buf_init(&t->piece_bytes, MEM_TEXT, INT32_MAX);
    t->piece = mem_array(MEM_TEXT, c->n_vocab, sizeof *t->piece);
    t->first = meta ? mem_array(MEM_TEXT, c->n_vocab, sizeof *t->first) : NULL;
    t->flags = mem_calloc(MEM_TEXT, c->n_vocab);
    return t->piece && t->flags && (t->first || !meta) ? 0 : ERR_NOMEM;
}

static int compile(struct tok *t) {
    t->gctx = pcre2_general_context_create(pcre_malloc, pcre_free, NULL);
    int rc = t->gctx ? 0 : ERR_NOMEM;
    rc = rc ? rc : tok_norm_compile(t);
    rc = rc ? rc : tok_pre_compile(t);
    return rc ? rc : tok_dec_compile(t);
}

static int fill(struct tok *t, const struct tok_cfg *c) {
    if (c->n_vocab < 1 || c->n_vocab > TOK_VOCAB_MAX) {
        return err_set(ERR_LIMIT, "%d tokens, want 1..%d", c->n_vocab, TOK_VOCAB_MAX);
    }
    struct tok_work *w = NULL;
    int rc = check_ids(c);
    rc = rc ? rc : keep_strings(t, c);
    rc = rc ? rc : choose_space(t);
    rc = rc ? rc : tok_vocab_init(&t->vocab, c->n_vocab);
    rc = rc ? rc : compile(t);
    rc = rc ? rc : allocate(t, c);
    rc = rc ? rc : add_tokens(t, c);
    if (!rc && c->model == TOK_IS_UNIGRAM) {
        rc = add_unigram(t, c);
    } else if (!rc) {
        rc = c->score ? add_scores(t, c) : add_merges(t, c);
        rc = rc ? rc : add_pairs(t);
    }
    rc = rc ? rc : add_users(t, c);
    rc = rc ? rc : tok_work_take(t, &w);
    rc = rc ? rc : add_pieces(t, c, w);
    rc = rc ? rc : tok_added_build(t, w);
    tok_work_destroy(w);
    if (!rc && c->chat_template) {
        t->chat_template = mem_strdup(MEM_TEXT, c->chat_template, -1);
        rc = t->chat_template ? 0 : ERR_NOMEM;
    }
    return rc;
}

int tok_build(const struct tok_cfg *cfg, struct tok **out) {
    struct tok *t = mem_calloc(MEM_TEXT, sizeof *t);
    if (!t) {
        return ERR_NOMEM;
    }
    pthread_mutex_init(&t->lock, NULL);
    t->cfg = *cfg;
    int rc = fill(t, cfg);
    if (rc) {
        tok_destroy(t);
        return err_ctx(rc, "%s", cfg->where);
    }
    t->cfg.text = NULL;
    t->cfg.merge = NULL;
    t->cfg.score = NULL;
    t->cfg.kind = NULL;
    t->cfg.added = NULL;
    t->cfg.chat_template = NULL;
    *out = t;
    return 0;
}
