/* tokenizer.json: model and added tokens (the pipeline is in tok_pipe.c).
 *
 *     {"added_tokens": [{"id", "content", "special", "lstrip", "rstrip", "single_word",
 *                        "normalized"}],
 *      "model": {"type": "BPE", "vocab": {text: id}, "merges": ["a b" or ["a", "b"]], "unk_token",
 *                "byte_fallback", "fuse_unk", "ignore_merges", ...}}
 *      or       {"type": "Unigram", "vocab": [[text, score]], "unk_id", "byte_fallback"}
 *
 * Strings stay in the JSON tree until tok_build has copied them. What would change ids and is not
 * known here is refused by name.
 * src: tokenizers, tokenizer/serialization.rs, models/bpe/serialization.rs */
#include <string.h>

#include "engine/base/err.h"
#include "engine/base/json.h"
#include "engine/text/tok_int.h"

enum { MERGE_ODD_MAX = 64 }; /* bytes of a merge with several blanks */

struct tok_str tok_json_str(const json_t *s) {
    return (struct tok_str){json_string_value(s), (int32_t)json_string_length(s)};
}

static int id_of(const char *where, const char *text, const json_t *v, int32_t *out) {
    json_int_t id = json_is_integer(v) ? json_integer_value(v) : -1;
    if (id < 0 || id >= TOK_VOCAB_MAX) {
        return err_set(ERR_FORMAT, "%s: token \"%.64s\" has no id in 0..%d", where, text,
                       TOK_VOCAB_MAX - 1);
    }
    *out = (int32_t)id;
    return 0;
}

int tok_json_vocab(struct tok_reader *r, const json_t *vocab, int32_t n_least) {
    const char *where = r->cfg.where;
    if (!json_is_object(vocab)) {
        return err_set(ERR_FORMAT, "%s: the vocabulary is no object", where);
    }
    int32_t n = n_least;
    const char *key;
    size_t n_key;
    json_t *v;
    /* why: jansson's iterators want a mutable object and do not change it */
    json_t *o = (json_t *)(uintptr_t)vocab;
    json_object_keylen_foreach(o, key, n_key, v) {
        int32_t id = 0;
        int rc = id_of(where, key, v, &id);
        if (rc) {
            return rc;
        }
        n = i32_max(n, id + 1);
    }
    r->text = mem_array(MEM_TEXT, n, sizeof *r->text);
    if (!r->text) {
        return ERR_NOMEM;
    }
    json_object_keylen_foreach(o, key, n_key, v) {
        int32_t id = (int32_t)json_integer_value(v);
        if (r->text[id].p) {
            return err_set(ERR_FORMAT, "%s: tokens \"%.64s\" and \"%.64s\" share id %d", where,
                           r->text[id].p, key, id);
        }
        r->text[id] = (struct tok_str){key, (int32_t)n_key};
    }
    r->cfg.text = r->text;
    r->cfg.n_vocab = n;
    return 0;
}

int tok_json_added(const struct tok_reader *r, const json_t *o, int32_t id, struct tok_added *out) {
    const char *where = r->cfg.where;
    const json_t *content = json_object_get(o, "content");
    if (!json_is_string(content)) {
        return err_set(ERR_FORMAT, "%s: added token %d has no \"content\"", where, id);
    }
    struct tok_added a = {.text = tok_json_str(content), .id = id};
    int rc = json_opt_bool(o, where, "special", &a.special);
    a.normalized = !a.special;
    rc = rc ? rc : json_opt_bool(o, where, "normalized", &a.normalized);
    rc = rc ? rc : json_opt_bool(o, where, "lstrip", &a.lstrip);
    rc = rc ? rc : json_opt_bool(o, where, "rstrip", &a.rstrip);
    rc = rc ? rc : json_opt_bool(o, where, "single_word", &a.single_word);
    if (!rc) {
        *out = a;
    }
    return rc;
}

/* out: *n_least is one more than the highest id */
static int read_added(struct tok_reader *r, int32_t *n_least) {
    const json_t *list = json_object_get(r->root, "added_tokens");
    int64_t n = list ? (int64_t)json_array_size(list) : 0;
    if (list && !json_is_array(list) && !json_is_null(list)) {
        return err_set(ERR_FORMAT, "%s: \"added_tokens\" is no array", r->cfg.where);
    }
    if (n > TOK_VOCAB_MAX) {
        return err_set(ERR_LIMIT, "%s: %lld added tokens", r->cfg.where, (long long)n);
    }
    r->added = mem_array(MEM_TEXT, n, sizeof *r->added);
    if (!r->added) {
        return ERR_NOMEM;
    }
    for (int64_t i = 0; i < n; i++) {
        const json_t *o = json_array_get(list, (size_t)i);
        int32_t id = 0;
        int rc = json_need_i32(o, r->cfg.where, "id", 0, TOK_VOCAB_MAX - 1, &id);
        rc = rc ? rc : tok_json_added(r, o, id, &r->added[i]);
        if (rc) {
            return rc;
        }
        *n_least = i32_max(*n_least, id + 1);
    }
    r->cfg.added = r->added;
    r->cfg.n_added = (int32_t)n;
    return 0;
}

static bool is_token(const json_t *vocab, const char *p, const char *end) {
    return end > p && json_object_getn(vocab, p, (size_t)(end - p));
}

/* Cuts "a b" at its blank. why: a file may have lost odd blanks to plain ones, so that there are
 * several; then the cut is the one place where both parts are tokens, and their whole */
static bool cut_merge(const json_t *vocab, struct tok_str s, struct tok_str *lr) {
    char whole[2 * MERGE_ODD_MAX];
    const char *end = s.p + s.n;
    const char *blank = memchr(s.p, ' ', (size_t)s.n);
    const char *at = blank;
    int32_t n = blank != NULL;
    if (blank && memchr(blank + 1, ' ', (size_t)(end - blank - 1))) {
        n = 0;
        for (const char *p = s.p; p < end && s.n <= MERGE_ODD_MAX; p++) {
            int64_t left = p - s.p;
            memcpy(whole, s.p, (size_t)left);
            memcpy(whole + left, p + 1, (size_t)(end - p - 1));
            bool fits = *p == ' ' && is_token(vocab, s.p, p) && is_token(vocab, p + 1, end) &&
                        is_token(vocab, whole, whole + s.n - 1);
            at = fits ? p : at;
            n += fits;
        }
    }
    if (n != 1) {
        return false;
    }
    lr[0] = (struct tok_str){s.p, (int32_t)(at - s.p)};
    lr[1] = (struct tok_str){at + 1, (int32_t)(end - at) - 1};
    return true;
}

static int read_merge(const struct tok_reader *r,
                      const json_t *vocab,
                      const json_t *m,
                      int64_t i,
                      struct tok_str *lr) {
    if (json_is_string(m) && cut_merge(vocab, tok_json_str(m), lr)) {
        return 0;
    }
    if (json_array_size(m) == 2 && json_is_string(json_array_get(m, 0)) &&
        json_is_string(json_array_get(m, 1))) {
        lr[0] = tok_json_str(json_array_get(m, 0));
        lr[1] = tok_json_str(json_array_get(m, 1));
        return 0;
    }
    return err_set(ERR_FORMAT, "%s: merge %lld is neither \"a b\" nor [\"a\", \"b\"]", r->cfg.where,
                   (long long)i);
}

static int read_merges(struct tok_reader *r, const json_t *vocab, const json_t *list) {
    int64_t n = (int64_t)json_array_size(list);
    if (!json_is_array(list) || n > 4 * (int64_t)TOK_VOCAB_MAX) {
        return err_set(ERR_FORMAT, "%s: \"merges\" is no array of at most %d", r->cfg.where,
                       4 * TOK_VOCAB_MAX);
    }
    r->merge = mem_array(MEM_TEXT, 2 * n, sizeof *r->merge);
    if (!r->merge) {
        return ERR_NOMEM;
    }
    for (int64_t i = 0; i < n; i++) {
        int rc = read_merge(r, vocab, json_array_get(list, (size_t)i), i, r->merge + 2 * i);
        if (rc) {
            return rc;
        }
    }
    r->cfg.merge = r->merge;
    r->cfg.n_merges = (int32_t)n;
    return 0;
}

/* "BPE" or "Unigram"; others are refused by name. why: old files have no type; merges say BPE */
static int read_type(struct tok_reader *r, const json_t *model) {
    const char *type = json_object_get(model, "merges") ? "BPE" : "?";
    int rc = json_opt_str(model, r->cfg.where, "type", &type);
    if (rc) {
        return rc;
    }
    bool unigram = strcmp(type, "Unigram") == 0 ||
                   (type[0] == '?' && json_is_array(json_object_get(model, "vocab")));
    if (!unigram && strcmp(type, "BPE") != 0) {
        return err_set(ERR_UNSUPPORTED, "%s: model type \"%.64s\", want \"BPE\" or \"Unigram\"",
                       r->cfg.where, type);
    }
    r->cfg.model = unigram ? TOK_IS_UNIGRAM : TOK_IS_BPE;
    return 0;
}

static void text_of(const json_t *model, const char *key, struct tok_str *out) {
    const json_t *v = json_object_get(model, key);
    if (json_is_string(v)) {
        *out = tok_json_str(v);
    }
}

/* What BPE does to a piece besides merging. */
static int read_habits(struct tok_reader *r, const json_t *model) {
    const char *where = r->cfg.where;
    double dropout = 0;
    int rc = json_opt_f64(model, where, "dropout", &dropout);
    if (!rc && dropout > 0) {
        rc = err_set(ERR_UNSUPPORTED, "%s: model with dropout %g", where, dropout);
    }
    text_of(model, "continuing_subword_prefix", &r->cfg.sub_prefix);
    text_of(model, "end_of_word_suffix", &r->cfg.word_end);
    rc = rc ? rc : json_opt_bool(model, where, "byte_fallback", &r->cfg.byte_fallback);
    rc = rc ? rc : json_opt_bool(model, where, "fuse_unk", &r->cfg.fuse_unk);
    return rc ? rc : json_opt_bool(model, where, "ignore_merges", &r->cfg.ignore_merges);
}

/* "vocab": [["text", score], ...], by id; the last of equal texts has it. */
static int read_unigram(struct tok_reader *r, const json_t *model, int32_t n_least) {
    const char *where = r->cfg.where;
    const json_t *vocab = json_object_get(model, "vocab");
    int64_t n = (int64_t)json_array_size(vocab);
    if (!json_is_array(vocab) || n < 1 || n > TOK_VOCAB_MAX) {
        return err_set(ERR_FORMAT, "%s: \"vocab\" is no array of 1..%d", where, TOK_VOCAB_MAX);
    }
    int32_t total = i32_max(n_least, (int32_t)n);
    r->text = mem_array(MEM_TEXT, total, sizeof *r->text);
    r->score = mem_array(MEM_TEXT, total, sizeof *r->score);
    if (!r->text || !r->score) {
        return ERR_NOMEM;
    }
    for (int64_t i = 0; i < n; i++) {
        const json_t *e = json_array_get(vocab, (size_t)i);
        const json_t *text = json_array_get(e, 0);
        const json_t *score = json_array_get(e, 1);
        if (!json_is_string(text) || !json_is_number(score)) {
            return err_set(ERR_FORMAT, "%s: token %lld is no [text, score]", where, (long long)i);
        }
        r->text[i] = tok_json_str(text);
        r->score[i] = json_number_value(score);
    }
    r->cfg.text = r->text;
    r->cfg.score = r->score;
    r->cfg.n_vocab = total;
    r->cfg.unk = -1;
    int rc = json_opt_i32(model, where, "unk_id", 0, (int32_t)n - 1, &r->cfg.unk);
    return rc ? rc : json_opt_bool(model, where, "byte_fallback", &r->cfg.byte_fallback);
}

static int read_unk(struct tok_reader *r, const json_t *model) {
    const json_t *unk = json_object_get(model, "unk_token");
    r->cfg.unk = -1;
    if (!unk || json_is_null(unk)) {
        return 0;
    }
    const json_t *id = json_is_string(unk)
                           ? json_object_getn(json_object_get(model, "vocab"),
                                              json_string_value(unk), json_string_length(unk))
                           : NULL;
    if (!id) {
        return err_set(ERR_FORMAT, "%s: \"unk_token\" is no token of the vocabulary", r->cfg.where);
    }
    r->cfg.unk = (int32_t)json_integer_value(id);
    return 0;
}

/* An added token whose text is in the vocabulary has the vocabulary's id, whatever it says. */
static void own_ids(const struct tok_reader *r, const json_t *vocab) {
    for (int32_t i = 0; i < r->cfg.n_added; i++) {
        struct tok_added *a = &r->added[i];
        const json_t *id = json_object_getn(vocab, a->text.p, (size_t)a->text.n);
        if (id && json_integer_value(id) < r->cfg.n_vocab) {
            a->id = (int32_t)json_integer_value(id);
        }
    }
}

static int read_bpe(struct tok_reader *r, const json_t *model, int32_t n_least) {
    const json_t *vocab = json_object_get(model, "vocab");
    int rc = tok_json_vocab(r, vocab, n_least);
    if (rc) {
        return rc;
    }
    own_ids(r, vocab);
    rc = read_merges(r, vocab, json_object_get(model, "merges"));
    rc = rc ? rc : read_unk(r, model);
    return rc ? rc : read_habits(r, model);
}

int tok_json_read(struct tok_reader *r) {
    const json_t *model = json_object_get(r->root, "model");
    if (!json_is_object(model)) {
        return err_set(ERR_FORMAT, "%s: no \"model\"", r->cfg.where);
    }
    int32_t n_least = 1;
    int rc = read_type(r, model);
    rc = rc ? rc : read_added(r, &n_least);
    if (rc) {
        return rc;
    }
    return r->cfg.model == TOK_IS_UNIGRAM ? read_unigram(r, model, n_least)
                                          : read_bpe(r, model, n_least);
}
