/* Text -> ids.
 *
 *     text --repair--> UTF-8 --raw added tokens--> segments --normalise--> --normalised added
 * tokens-->
 *          --pre-tokenizer--> pieces --merge--> ids
 *
 * The order is that of tokenizers: added tokens first, then the normaliser on what is between them,
 * each segment on its own. All state is in the scratch.
 * src: tokenizers, added_vocabulary.rs extract_and_normalize */
#include "engine/base/err.h"
#include "engine/text/tok_int.h"
#include "engine/text/utf8.h"

enum { IDS_MIN = 64, IDS_MAX = 1 << 30 };

void tok_ids_init(struct tok_ids *ids) {
    *ids = (struct tok_ids){0};
}

void tok_ids_fini(struct tok_ids *ids) {
    mem_free(ids->v);
    *ids = (struct tok_ids){0};
}

static int grow(struct tok_ids *ids) {
    if (ids->cap >= IDS_MAX) {
        return err_set(ERR_LIMIT, "more than %d tokens", IDS_MAX);
    }
    int32_t cap = ids->cap ? ids->cap * 2 : IDS_MIN;
    int32_t *v = mem_realloc(MEM_TEXT, ids->v, (int64_t)cap * (int64_t)sizeof *v);
    if (!v) {
        return ERR_NOMEM;
    }
    ids->v = v;
    ids->cap = cap;
    return 0;
}

int tok_ids_add(struct tok_ids *ids, int32_t id) {
    if (ids->n == ids->cap) {
        int rc = grow(ids);
        if (rc) {
            return rc;
        }
    }
    ids->v[ids->n++] = id;
    return 0;
}

static struct tok_str sub(struct tok_str s, int64_t start, int64_t end) {
    return (struct tok_str){s.p + start, (int32_t)(end - start)};
}

/* Cuts s at the added tokens of a trie; what is between goes to rest(). */
typedef int (*rest_fn)(struct tok_work *w, struct tok_str s, bool parse_special, bool first);

static int around_added(
    struct tok_work *w, bool raw, struct tok_str s, bool parse_special, bool first, rest_fn rest) {
    const struct tok *t = w->tok;
    struct tok_search f = {.trie = raw ? &t->raw : &t->normal,
                           .begins = raw ? t->raw_start : t->normal_start,
                           .s = s,
                           .parse_special = parse_special};
    int64_t done = 0;
    struct tok_hit hit;
    int rc = 0;
    while (!rc && f.trie->unit && tok_added_next(t, &f, &hit)) {
        if (hit.start > done) {
            rc = rest(w, sub(s, done, hit.start), parse_special, first && done == 0);
        }
        rc = rc ? rc : tok_ids_add(w->out, hit.id);
        done = hit.end;
    }
    if (!rc && done < s.n) {
        rc = rest(w, sub(s, done, s.n), parse_special, first && done == 0);
    }
    return rc;
}

static int plain(struct tok_work *w, struct tok_str s, bool parse_special, bool first) {
    (void)parse_special;
    return tok_pre_run(w, (const uint8_t *)s.p, s.n, first);
}

static int segment(struct tok_work *w, struct tok_str s, bool parse_special, bool first) {
    if (w->tok->cfg.n_norm > 0) {
        buf_clear(&w->norm);
        int rc = tok_norm_run(w, (const uint8_t *)s.p, s.n, &w->norm);
        if (rc) {
            return rc;
        }
        s = (struct tok_str){buf_cstr(&w->norm), (int32_t)w->norm.len};
    }
    return around_added(w, false, s, parse_special, first, plain);
}

static int add_all(struct tok_ids *out, const int32_t *id, int32_t n) {
    int rc = 0;
    for (int32_t i = 0; i < n && !rc; i++) {
        rc = tok_ids_add(out, id[i]);
    }
    return rc;
}

static int encode(struct tok_work *w, struct tok_str s, uint32_t flags) {
    const struct tok_cfg *c = &w->tok->cfg;
    bool add = flags & TOK_ADD_SPECIAL;
    if (utf8_valid((const uint8_t *)s.p, s.n) != s.n) {
        buf_clear(&w->clean);
        int rc = utf8_repair((const uint8_t *)s.p, s.n, &w->clean);
        if (rc) {
            return rc;
        }
        s = (struct tok_str){buf_cstr(&w->clean), (int32_t)w->clean.len};
    }
    int rc = add ? add_all(w->out, c->prefix, c->n_prefix) : 0;
    if (!rc && s.n > 0) {
        rc = around_added(w, true, s, flags & TOK_PARSE_SPECIAL, true, segment);
    }
    return rc || !add ? rc : add_all(w->out, c->suffix, c->n_suffix);
}

int tok_encode(
    const struct tok *tok, const char *text, int64_t n, uint32_t flags, struct tok_ids *out) {
    if (n < 0 || n > TOK_TEXT_MAX) {
        return err_set(ERR_LIMIT, "text of %lld bytes, at most %d", (long long)n, TOK_TEXT_MAX);
    }
    struct tok_work *w = NULL;
    int rc = tok_work_take(tok, &w);
    if (rc) {
        return rc;
    }
    w->out = out;
    rc = encode(w, (struct tok_str){text, (int32_t)n}, flags);
    tok_work_give(tok, w);
    return rc;
}
