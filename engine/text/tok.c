/* Making a tokenizer, and what is asked of one.
 *
 * A reader (GGUF's arrays here, JSON in tok_json.c) fills a tok_cfg with borrowed strings;
 * tok_build checks and copies it:
 *
 *     token texts --> keys (bytes that merging works on) --> vocab table
 *                 --> pieces (bytes that decoding writes)
 *     merges, or scores --> merge table        added tokens --> tries
 *     steps --> compiled patterns
 *
 * Invariants: ids are 0..n_vocab - 1; a token has a piece iff TOK_F_HAVE; in a byte vocabulary a
 * token whose text is outside of GPT-2's alphabet (an added one) has no key and stands for its own
 * UTF-8. SentencePiece scores become merges: every cut of a token into two tokens is a merge whose
 * rank is the token's place among all scores, highest first, so equal scores merge left to right.
 * src: tokenizers, bpe/model.rs; google/sentencepiece, bpe_model.cc */
#include "engine/text/tok.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/text/tok_int.h"
#include "engine/text/utf8.h"

static const char blank_mark[] = "\xe2\x96\x81"; /* U+2581 */

static int keep(struct tok *t, struct tok_str *s) {
    struct tok_span span = {.at = t->strings.len, .n = s->n};
    int rc = buf_add(&t->strings, s->p, s->n);
    if (!rc) {
        s->p = t->strings.data + span.at;
    }
    return rc;
}

/* Copies all strings of the settings. why: the buffer gets its full size first, so that pointers
 * into it stay good. */
static int keep_strings(struct tok *t, const struct tok_cfg *c) {
    struct tok_cfg *d = &t->cfg;
    int64_t total = (int64_t)strlen(c->where) + 1 + c->dec.from.n + c->dec.to.n;
    for (int32_t i = 0; i < c->n_added; i++) {
        total += c->added[i].text.n;
    }
    for (int32_t i = 0; i < c->n_norm; i++) {
        total += (int64_t)c->norm[i].from.n + c->norm[i].to.n;
    }
    for (int32_t i = 0; i < c->n_steps; i++) {
        total += c->step[i].pattern.n;
    }
    buf_init(&t->strings, MEM_TEXT, total);
    t->strings.data = mem_calloc(MEM_TEXT, total + 1);
    t->added = mem_array(MEM_TEXT, c->n_added, sizeof *t->added);
    if (!t->strings.data || !t->added) {
        return ERR_NOMEM;
    }
    t->strings.cap = total;
    d->where = t->strings.data;
    int rc = buf_add(&t->strings, c->where, (int64_t)strlen(c->where) + 1);
    for (int32_t i = 0; i < c->n_added && !rc; i++) {
        t->added[i] = c->added[i];
        rc = keep(t, &t->added[i].text);
    }
    t->n_added = c->n_added;
    for (int32_t i = 0; i < c->n_norm && !rc; i++) {
        rc = keep(t, &d->norm[i].from);
        rc = rc ? rc : keep(t, &d->norm[i].to);
    }
    for (int32_t i = 0; i < c->n_steps && !rc; i++) {
        rc = keep(t, &d->step[i].pattern);
    }
    rc = rc ? rc : keep(t, &d->dec.from);
    return rc ? rc : keep(t, &d->dec.to);
}

static int add_piece(struct tok *t, int32_t id, struct tok_str s) {
    struct buf *b = &t->piece_bytes;
    const struct tok_dec *d = &t->cfg.dec;
    int64_t at = b->len;
    int rc = 0;
    if (d->kind == TOK_DEC_BYTE_LEVEL) {
        bool ok = false;
        rc = tok_alpha_bytes(s, b, &ok);
        rc = rc || ok ? rc : buf_add(b, s.p, s.n);
    } else if (utf8_valid((const uint8_t *)s.p, s.n) != s.n) {
        return err_set(ERR_FORMAT, "token %d is no UTF-8", id);
    } else {
        int32_t byte = d->byte_fallback ? tok_alpha_fallback(s) : -1;
        uint8_t c = (uint8_t)byte;
        t->flags[id] |= byte >= 0 ? TOK_F_BYTE : 0;
        for (int32_t i = 0; i < s.n && byte < 0 && !rc;) {
            bool hit = d->from.n > 0 && s.n - i >= d->from.n &&
                       memcmp(s.p + i, d->from.p, (size_t)d->from.n) == 0;
            rc = hit ? buf_add(b, d->to.p, d->to.n) : buf_add(b, s.p + i, 1);
            i += hit ? d->from.n : 1;
        }
        rc = byte >= 0 ? buf_add(b, &c, 1) : rc;
    }
    if (b->len - at > TOK_TOKEN_MAX) {
        return err_set(ERR_LIMIT, "token %d has %lld bytes, at most %d", id,
                       (long long)(b->len - at), TOK_TOKEN_MAX);
    }
    t->piece[id] = (struct tok_span){.at = at, .n = (int32_t)(b->len - at)};
    t->flags[id] |= TOK_F_HAVE;
    return rc;
}

/* Gives token id its key: what merging sees. why: in a byte vocabulary the added tokens of a GGUF
 * file stand in the same list; merging must not find them. */
static int add_key(struct tok *t, int32_t id, struct tok_str s, struct buf *tmp) {
    const uint8_t *kind = t->cfg.kind;
    if (t->byte_level && kind && kind[id] != TOK_NORMAL && kind[id] != TOK_UNUSED) {
        return 0;
    }
    if (s.n > TOK_TOKEN_MAX) {
        return err_set(ERR_LIMIT, "token %d has %d bytes, at most %d", id, s.n, TOK_TOKEN_MAX);
    }
    if (!t->byte_level) {
        if (utf8_valid((const uint8_t *)s.p, s.n) != s.n) {
            return err_set(ERR_FORMAT, "token %d is no UTF-8", id);
        }
        int32_t byte = tok_alpha_fallback(s);
        if (byte >= 0) {
            t->byte_id[byte] = id;
        }
        return tok_vocab_add(&t->vocab, id, (const uint8_t *)s.p, s.n);
    }
    bool ok = false;
    buf_clear(tmp);
    int rc = tok_alpha_bytes(s, tmp, &ok);
    if (rc || !ok) {
        return rc;
    }
    if (tmp->len == 1) {
        t->byte_id[(uint8_t)tmp->data[0]] = id;
    }
    return tok_vocab_add(&t->vocab, id, (const uint8_t *)buf_cstr(tmp), (int32_t)tmp->len);
}

static int add_tokens(struct tok *t, const struct tok_cfg *c) {
    struct buf tmp;
    buf_init(&tmp, MEM_TEXT, 2 * TOK_TOKEN_MAX);
    memset(t->byte_id, 0xff, sizeof t->byte_id);
    int rc = 0;
    for (int32_t i = 0; i < c->n_vocab && !rc; i++) {
        if (c->text[i].p) {
            rc = add_key(t, i, c->text[i], &tmp);
            rc = rc ? rc : add_piece(t, i, c->text[i]);
        }
    }
    for (int32_t i = 0; i < c->n_added && !rc; i++) {
        const struct tok_added *a = &c->added[i];
        if (a->id < 0 || a->id >= c->n_vocab) {
            rc = err_set(ERR_FORMAT, "added token \"%.*s\" has id %d of %d", a->text.n, a->text.p,
                         a->id, c->n_vocab);
            break;
        }
        if (utf8_valid((const uint8_t *)a->text.p, a->text.n) != a->text.n) {
            rc = err_set(ERR_FORMAT, "added token %d is no UTF-8", a->id);
            break;
        }
        t->flags[a->id] |= a->special ? TOK_F_SPECIAL : 0;
        rc = add_piece(t, a->id, a->text);
    }
    t->all_bytes = true;
    for (int32_t i = 0; i < 256; i++) {
        t->all_bytes = t->all_bytes && t->byte_id[i] >= 0;
    }
    buf_fini(&tmp);
    return rc;
}

/* The key that the text of one side of a merge has. */
static int side(const struct tok *t, struct tok_str s, struct buf *out) {
    bool ok = true;
    int rc = t->byte_level ? tok_alpha_bytes(s, out, &ok) : buf_add(out, s.p, s.n);
    if (!rc && !ok) {
        return err_set(ERR_FORMAT, "\"%.*s\" is not in the alphabet of bytes", s.n, s.p);
    }
    return rc;
}

static int add_merge(struct tok *t, int32_t rank, const struct tok_str *lr, struct buf *b) {
    buf_clear(b);
    int rc = side(t, lr[0], b);
    int64_t cut = b->len;
    rc = rc ? rc : side(t, lr[1], b);
    if (rc) {
        return err_ctx(rc, "merge %d", rank);
    }
    const uint8_t *p = (const uint8_t *)buf_cstr(b);
    struct tok_merge m = {.left = tok_vocab_find(&t->vocab, p, cut),
                          .right = tok_vocab_find(&t->vocab, p + cut, b->len - cut),
                          .rank = rank,
                          .id = tok_vocab_find(&t->vocab, p, b->len)};
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
    int rc = t->rank_id ? tok_merges_init(&t->merges, c->n_merges) : ERR_NOMEM;
    for (int32_t i = 0; i < c->n_merges && !rc; i++) {
        rc = add_merge(t, i, c->merge + 2 * (int64_t)i, &b);
    }
    buf_fini(&b);
    return rc;
}

struct scored {
    float score;
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
        if ((p[i] & 0xc0) == 0x80) {
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
    return c->text[id].p && (!c->kind || c->kind[id] == TOK_NORMAL || c->kind[id] == TOK_USER ||
                             c->kind[id] == TOK_UNUSED);
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

static int fill(struct tok *t, const struct tok_cfg *c) {
    if (c->n_vocab < 1 || c->n_vocab > TOK_VOCAB_MAX) {
        return err_set(ERR_LIMIT, "%d tokens, want 1..%d", c->n_vocab, TOK_VOCAB_MAX);
    }
    int rc = check_ids(c);
    rc = rc ? rc : keep_strings(t, c);
    rc = rc ? rc : tok_vocab_init(&t->vocab, c->n_vocab);
    if (rc) {
        return rc;
    }
    buf_init(&t->piece_bytes, MEM_TEXT, INT32_MAX);
    t->piece = mem_array(MEM_TEXT, c->n_vocab, sizeof *t->piece);
    t->flags = mem_calloc(MEM_TEXT, c->n_vocab);
    t->gctx = pcre2_general_context_create(pcre_malloc, pcre_free, NULL);
    if (!t->piece || !t->flags || !t->gctx) {
        return ERR_NOMEM;
    }
    rc = add_tokens(t, c);
    if (!rc && t->byte_level && c->byte_fallback && !t->all_bytes) {
        rc =
            err_set(ERR_UNSUPPORTED, "byte_fallback with a byte-level vocabulary that lacks bytes");
    }
    rc = rc ? rc : c->score ? add_scores(t, c) : add_merges(t, c);
    rc = rc ? rc : tok_trie_build(t);
    rc = rc ? rc : tok_pre_compile(t);
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
    t->byte_level = cfg->byte_level;
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

void tok_destroy(struct tok *t) {
    if (!t) {
        return;
    }
    while (t->pool) {
        struct tok_work *w = t->pool;
        t->pool = w->next;
        tok_work_destroy(w);
    }
    tok_pre_fini(t);
    pcre2_general_context_free(t->gctx);
    tok_trie_fini(&t->raw);
    tok_trie_fini(&t->normal);
    tok_vocab_fini(&t->vocab);
    tok_merges_fini(&t->merges);
    mem_free(t->rank_id);
    mem_free(t->piece);
    buf_fini(&t->piece_bytes);
    mem_free(t->flags);
    mem_free(t->added);
    buf_fini(&t->strings);
    mem_free(t->chat_template);
    pthread_mutex_destroy(&t->lock);
    mem_free(t);
}

void tok_close(struct tok *t) {
    tok_destroy(t);
}

const uint8_t *tok_piece(const struct tok *t, int32_t id, int32_t *n) {
    if (id < 0 || id >= t->vocab.n || !(t->flags[id] & TOK_F_HAVE)) {
        *n = 0;
        return NULL;
    }
    *n = t->piece[id].n;
    return (const uint8_t *)buf_cstr(&t->piece_bytes) + t->piece[id].at;
}

int32_t tok_n_vocab(const struct tok *t) {
    return t->vocab.n;
}

bool tok_is_byte_level(const struct tok *tok) {
    return tok->byte_level;
}

int32_t tok_bos(const struct tok *t) {
    return t->cfg.bos;
}

const int32_t *tok_eos(const struct tok *t, int32_t *n) {
    *n = t->cfg.n_eos;
    return t->cfg.eos;
}

bool tok_is_eos(const struct tok *t, int32_t id) {
    for (int32_t i = 0; i < t->cfg.n_eos; i++) {
        if (t->cfg.eos[i] == id) {
            return true;
        }
    }
    return false;
}

bool tok_is_special(const struct tok *t, int32_t id) {
    return id >= 0 && id < t->vocab.n && (t->flags[id] & TOK_F_SPECIAL);
}

int32_t tok_find(const struct tok *t, const char *text) {
    int64_t n = (int64_t)strlen(text);
    for (int32_t i = 0; i < t->n_added; i++) {
        if (t->added[i].text.n == n && memcmp(t->added[i].text.p, text, (size_t)n) == 0) {
            return t->added[i].id;
        }
    }
    return tok_vocab_find(&t->vocab, (const uint8_t *)text, n);
}

const char *tok_chat_template(const struct tok *t) {
    return t->chat_template;
}

/* Splits "left right" at the first blank behind the first character. */
static int cut_merge(struct tok_str s, int32_t i, struct tok_str *lr) {
    const char *blank = s.n > 1 ? memchr(s.p + 1, ' ', (size_t)s.n - 1) : NULL;
    if (!blank || blank + 1 == s.p + s.n) {
        return err_set(ERR_FORMAT, "merge %d is \"%.*s\", want two texts and a blank", i, s.n, s.p);
    }
    lr[0] = (struct tok_str){s.p, (int32_t)(blank - s.p)};
    lr[1] = (struct tok_str){blank + 1, (int32_t)(s.p + s.n - blank) - 1};
    return 0;
}

static int spec_arrays(const struct tok_spec *s,
                       struct tok_cfg *c,
                       struct tok_str *merge,
                       struct tok_added *added) {
    for (int32_t i = 0; i < s->n_merges && merge; i++) {
        int rc = cut_merge(s->merges[i], i, merge + 2 * (int64_t)i);
        if (rc) {
            return rc;
        }
    }
    for (int32_t i = 0; i < s->n_vocab && s->kind; i++) {
        bool special = s->kind[i] == TOK_CONTROL || s->kind[i] == TOK_UNKNOWN;
        if (special || s->kind[i] == TOK_USER) {
            added[c->n_added++] =
                (struct tok_added){.text = s->text[i], .id = i, .special = special};
        }
    }
    c->merge = merge;
    c->added = added;
    c->kind = s->kind;
    return 0;
}

static int spec_byte_level(const struct tok_spec *s, struct tok_cfg *c) {
    c->byte_level = true;
    c->dec.kind = TOK_DEC_BYTE_LEVEL;
    if (s->nfc) {
        c->norm[c->n_norm++] = (struct tok_norm){.kind = TOK_NORM_FORM, .form = (int32_t)UTF8_NFC};
    }
    if (s->pre) {
        c->n_norm = 0;
        return tok_pre_named(c->where, s->pre, c);
    }
    if (s->n_steps > TOK_STEPS_MAX || s->n_steps < 0) {
        return err_set(ERR_LIMIT, "%d pre-tokenizer steps, at most %d", s->n_steps, TOK_STEPS_MAX);
    }
    for (int32_t i = 0; i < s->n_steps; i++) {
        c->step[i] = s->steps[i];
    }
    c->n_steps = s->n_steps;
    if (c->n_steps == 0) {
        c->step[c->n_steps++] = tok_pre_gpt2();
    }
    return 0;
}

static void spec_spm(const struct tok_spec *s, struct tok_cfg *c) {
    struct tok_str mark = {blank_mark, 3};
    struct tok_str blank = {" ", 1};
    c->score = s->score;
    c->byte_fallback = true;
    c->fuse_unk = true;
    if (!s->no_prefix_space) {
        c->norm[c->n_norm++] = (struct tok_norm){.kind = TOK_NORM_PREPEND, .to = mark};
    }
    c->norm[c->n_norm++] = (struct tok_norm){.kind = TOK_NORM_REPLACE, .from = blank, .to = mark};
    c->dec = (struct tok_dec){.kind = TOK_DEC_CHARS,
                              .from = mark,
                              .to = blank,
                              .byte_fallback = true,
                              .strip = !s->no_prefix_space,
                              .strip_cp = ' '};
}

static int spec_check(const struct tok_spec *s) {
    if (s->n_vocab < 1 || s->n_vocab > TOK_VOCAB_MAX || s->n_merges < 0 || s->n_eos < 0 ||
        s->n_eos > TOK_EOS_MAX) {
        return err_set(ERR_LIMIT, "%s: %d tokens (1..%d), %d merges, %d eos ids (0..%d)", s->where,
                       s->n_vocab, TOK_VOCAB_MAX, s->n_merges, s->n_eos, TOK_EOS_MAX);
    }
    if (s->model == TOK_MODEL_SPM && !s->score) {
        return err_set(ERR_FORMAT, "%s: a SentencePiece vocabulary without scores", s->where);
    }
    return 0;
}

int tok_create(const struct tok_spec *s, struct tok **out) {
    int rc = spec_check(s);
    if (rc) {
        return rc;
    }
    struct tok_cfg c = {.where = s->where,
                        .n_vocab = s->n_vocab,
                        .text = s->text,
                        .ignore_merges = s->ignore_merges,
                        .unk = s->has_unk ? s->unk : -1,
                        .bos = s->has_bos ? s->bos : -1,
                        .n_eos = s->n_eos,
                        .chat_template = s->chat_template};
    bool bpe = s->model == TOK_MODEL_BYTE_BPE;
    c.n_merges = bpe ? s->n_merges : 0;
    memcpy(c.eos, s->eos, sizeof c.eos);
    if (s->add_bos && s->has_bos) {
        c.prefix[c.n_prefix++] = s->bos;
    }
    if (s->add_eos && s->n_eos > 0) {
        c.suffix[c.n_suffix++] = s->eos[0];
    }
    struct tok_str *merge =
        bpe ? mem_array(MEM_TEXT, 2 * (int64_t)s->n_merges, sizeof *merge) : NULL;
    struct tok_added *added = mem_array(MEM_TEXT, s->n_vocab, sizeof *added);
    rc = (bpe && !merge) || !added ? ERR_NOMEM : spec_arrays(s, &c, merge, added);
    if (!rc && bpe) {
        rc = spec_byte_level(s, &c);
    } else if (!rc) {
        spec_spm(s, &c);
    }
    rc = rc ? rc : tok_build(&c, out);
    mem_free(merge);
    mem_free(added);
    return rc;
}
