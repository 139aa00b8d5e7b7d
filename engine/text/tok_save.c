/* A byte-level BPE tokenizer as tokenizer.json and tokenizer_config.json, for readers of Hugging
 * Face folders. src: tokenizers 0.23, serialization of Tokenizer; transformers,
 * PreTrainedTokenizerFast */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/base/file.h"
#include "engine/text/tok_int.h"
#include "engine/text/utf8.h"

/* Appends the token's text in the byte alphabet. */
static int alpha_text(const struct tok *t, int32_t id, struct buf *b) {
    const uint8_t *p = (const uint8_t *)t->piece_bytes.data + t->piece[id].at;
    int rc = 0;
    for (int32_t i = 0; i < t->piece[id].n && !rc; i++) {
        rc = buf_utf8(b, tok_alpha_letter(p[i]));
    }
    return rc;
}

static const struct tok_added *added_of(const struct tok *t, int32_t id) {
    for (int32_t i = 0; i < t->n_added; i++) {
        if (t->added[i].id == id) {
            return &t->added[i];
        }
    }
    return NULL;
}

/* {"text": id, ...}; an added token stands as it is written. */
static int save_vocab(const struct tok *t, json_t *vocab) {
    int rc = 0;
    struct buf b;
    buf_init(&b, MEM_TEXT, TOK_TOKEN_MAX * 4);
    for (int32_t id = 0; id < t->vocab.n && !rc; id++) {
        const struct tok_added *a = added_of(t, id);
        if (!(t->flags[id] & TOK_F_HAVE)) {
            continue;
        }
        buf_clear(&b);
        rc = a ? buf_add(&b, a->text.p, a->text.n) : alpha_text(t, id, &b);
        if (!rc && json_object_setn_new(vocab, buf_cstr(&b), (size_t)b.len, json_integer(id))) {
            rc = err_set(ERR_FORMAT, "token %d cannot be written as JSON", id);
        }
    }
    buf_fini(&b);
    return rc;
}

static int by_rank(const void *a, const void *b) {
    const struct tok_merge *x = a;
    const struct tok_merge *y = b;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

/* [["left", "right"], ...] in order of rank. */
static int save_merges(const struct tok *t, json_t *list) {
    int64_t n = 0;
    int rc = 0;
    struct buf b;
    struct tok_merge *m = mem_array(MEM_TEXT, (int64_t)t->merges.mask + 1, (int64_t)sizeof *m);
    if (!m) {
        return ERR_NOMEM;
    }
    for (uint32_t i = 0; i <= t->merges.mask; i++) {
        if (t->merges.slot[i].left >= 0) {
            m[n++] = t->merges.slot[i];
        }
    }
    qsort(m, (size_t)n, sizeof *m, by_rank);
    buf_init(&b, MEM_TEXT, TOK_TOKEN_MAX * 8);
    for (int64_t i = 0; i < n && !rc; i++) {
        buf_clear(&b);
        rc = alpha_text(t, m[i].left, &b);
        int64_t cut = b.len;
        rc = rc ? rc : alpha_text(t, m[i].right, &b);
        json_t *pair = rc ? NULL : json_array();
        json_array_append_new(pair, json_stringn(buf_cstr(&b), (size_t)cut));
        json_array_append_new(pair, json_stringn(buf_cstr(&b) + cut, (size_t)(b.len - cut)));
        if (!rc && json_array_append_new(list, pair)) {
            rc = err_set(ERR_NOMEM, "merges cannot be written");
        }
    }
    buf_fini(&b);
    mem_free(m);
    return rc;
}

static json_t *added_list(const struct tok *t) {
    json_t *list = json_array();
    for (int32_t id = 0; id < t->vocab.n; id++) {
        const struct tok_added *a = added_of(t, id);
        if (a) {
            json_array_append_new(list, json_pack("{s:i, s:s%, s:b, s:b, s:b, s:b, s:b}", "id", id,
                                                  "content", a->text.p, (size_t)a->text.n,
                                                  "single_word", a->single_word, "lstrip",
                                                  a->lstrip, "rstrip", a->rstrip, "normalized",
                                                  a->normalized, "special", a->special));
        }
    }
    return list;
}

static json_t *step_json(const struct tok_step *s) {
    static const char *const behaviors[] = {"Isolated", "Removed", "MergedWithPrevious",
                                            "MergedWithNext", "Contiguous"};
    switch (s->kind) {
    case TOK_STEP_REGEX:
    case TOK_STEP_STRING:
        return json_pack("{s:s, s:{s:s%}, s:s, s:b}", "type", "Split", "pattern",
                         s->kind == TOK_STEP_REGEX ? "Regex" : "String", s->pattern.p,
                         (size_t)s->pattern.n, "behavior", behaviors[s->behavior], "invert",
                         s->invert);
    case TOK_STEP_NUMBERS:
        return json_pack("{s:s, s:b}", "type", "Digits", "individual_digits",
                         s->behavior == TOK_ISOLATED);
    case TOK_STEP_BYTE_LEVEL:
        return json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space",
                         s->prefix_space, "trim_offsets", 1, "use_regex", 0);
    case TOK_STEP_PUNCT:
        return json_pack("{s:s, s:s}", "type", "Punctuation", "behavior", behaviors[s->behavior]);
    case TOK_STEP_SPACES:
    case TOK_STEP_METASPACE:
    case TOK_STEP_SCRIPTS:
    case TOK_STEP_LENGTH:
    case TOK_STEP_LETTERS:
        break;
    }
    return NULL;
}

static int save_steps(const struct tok *t, json_t *list) {
    bool bytes = false;
    for (int32_t i = 0; i < t->cfg.n_steps; i++) {
        json_t *o = step_json(&t->cfg.step[i]);
        bytes = bytes || t->cfg.step[i].kind == TOK_STEP_BYTE_LEVEL;
        if (!o || json_array_append_new(list, o)) {
            return err_set(ERR_UNSUPPORTED, "step %d of the pre-tokenizer cannot be written", i);
        }
    }
    if (!bytes) {
        struct tok_step last = {.kind = TOK_STEP_BYTE_LEVEL};
        json_array_append_new(list, step_json(&last));
    }
    return 0;
}

static json_t *normalizer(const struct tok *t) {
    return t->cfg.n_norm == 1 ? json_pack("{s:s}", "type", "NFC") : json_null();
}

static int make_tokenizer(const struct tok *t, json_t **out) {
    json_t *vocab = json_object();
    json_t *merges = json_array();
    json_t *steps = json_array();
    int rc = save_vocab(t, vocab);
    rc = rc ? rc : save_merges(t, merges);
    rc = rc ? rc : save_steps(t, steps);
    if (!rc) {
        *out = json_pack("{s:s, s:n, s:n, s:O, s:o, s:{s:s, s:O}, s:n, s:{s:s, s:b, s:b, s:b}, "
                         "s:{s:s, s:n, s:n, s:n, s:n, s:b, s:b, s:b, s:O, s:O}}",
                         "version", "1.0", "truncation", "padding", "added_tokens", added_list(t),
                         "normalizer", normalizer(t), "pre_tokenizer", "type", "Sequence",
                         "pretokenizers", steps, "post_processor", "decoder", "type", "ByteLevel",
                         "add_prefix_space", 0, "trim_offsets", 1, "use_regex", 1, "model", "type",
                         "BPE", "dropout", "unk_token", "continuing_subword_prefix",
                         "end_of_word_suffix", "fuse_unk", 0, "byte_fallback", 0, "ignore_merges",
                         t->cfg.ignore_merges, "vocab", vocab, "merges", merges);
        rc = *out ? 0 : err_set(ERR_NOMEM, "tokenizer.json cannot be made");
    }
    json_decref(vocab);
    json_decref(merges);
    json_decref(steps);
    return rc;
}

static void set_text(json_t *o, const char *key, const struct tok *t, int32_t id) {
    const struct tok_added *a = id >= 0 ? added_of(t, id) : NULL;
    if (a) {
        json_object_set_new(o, key, json_stringn(a->text.p, (size_t)a->text.n));
    }
}

static json_t *make_config(const struct tok *t) {
    json_t *o = json_pack("{s:s, s:b, s:b, s:b}", "tokenizer_class", "PreTrainedTokenizerFast",
                          "clean_up_tokenization_spaces", 0, "add_bos_token",
                          t->cfg.n_prefix > 0 && t->cfg.prefix[0] == t->cfg.bos, "add_eos_token",
                          t->cfg.n_suffix > 0);
    set_text(o, "bos_token", t, t->cfg.bos);
    set_text(o, "eos_token", t, t->cfg.n_eos > 0 ? t->cfg.eos[0] : -1);
    if (o && t->chat_template) {
        json_object_set_new(o, "chat_template", json_string(t->chat_template));
    }
    return o;
}

static int write_one(const char *dir, const char *name, const json_t *o) {
    char path[FILE_PATH_MAX];
    int rc = file_join(path, dir, name);
    char *text = rc ? NULL : json_dumps(o, JSON_INDENT(1));
    if (!rc && !text) {
        rc = err_set(ERR_NOMEM, "%s: cannot format", path);
    }
    rc = rc ? rc : file_write(path, text, (int64_t)strlen(text));
    free(text); /* why: memory of jansson, not of mem_* */
    return rc;
}

int tok_save(const struct tok *tok, const char *dir) {
    json_t *tokenizer = NULL;
    const struct tok_norm *norm = tok->cfg.norm;
    bool plain = tok->cfg.n_norm == 0 || (tok->cfg.n_norm == 1 && norm->kind == TOK_NORM_FORM &&
                                          norm->form == (int32_t)UTF8_NFC);
    if (!tok->byte_level || !tok->rank_id || !plain) {
        return err_set(ERR_UNSUPPORTED,
                       "%s: only byte-level BPE tokenizers with merges and at most NFC are written",
                       dir);
    }
    int rc = make_tokenizer(tok, &tokenizer);
    json_t *config = rc ? NULL : make_config(tok);
    rc = rc ? rc : write_one(dir, "tokenizer.json", tokenizer);
    rc = rc ? rc : write_one(dir, "tokenizer_config.json", config);
    json_decref(tokenizer);
    json_decref(config);
    return rc;
}
