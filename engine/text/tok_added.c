/* Added tokens: texts that are found in the input before anything else.
 *
 * Two tries, of the tokens matched in the raw text and of those matched behind the normaliser
 * (whose texts are normalised as well). Leftmost match, longest among those that begin there. A
 * match may be refused (single_word, special tokens not asked for); the search goes on behind it.
 * lstrip and rstrip widen a match over the blanks beside it. src: tokenizers, added_vocabulary.rs
 * find_matches */
#include "engine/base/err.h"
#include "engine/text/tok_int.h"
#include "engine/text/utf8.h"

static int add_key(const struct tok_added *a, int32_t i, struct tok_str s, struct tok_key *key) {
    if (s.n > TOK_TOKEN_MAX) {
        return err_set(ERR_LIMIT, "added token %d has %d bytes, at most %d", a->id, s.n,
                       TOK_TOKEN_MAX);
    }
    *key = (struct tok_key){(const uint8_t *)s.p, s.n, i};
    return 0;
}

static void begins(const struct tok_trie *t, bool *byte) {
    for (int32_t b = 0; b < 256; b++) {
        byte[b] = t->unit && tok_trie_child(t, 0, (uint8_t)b) >= 0;
    }
}

/* Normalised texts go to w's buffer `clean`, at the places in at[]. */
static int normal_texts(struct tok_work *w, struct tok_span *at) {
    const struct tok *t = w->tok;
    int rc = 0;
    buf_clear(&w->clean);
    for (int32_t i = 0; i < t->n_added && !rc; i++) {
        const struct tok_added *a = &t->added[i];
        if (!a->normalized) {
            continue;
        }
        buf_clear(&w->norm);
        rc = tok_norm_run(w, (const uint8_t *)a->text.p, a->text.n, &w->norm);
        at[i] = (struct tok_span){w->clean.len, (int32_t)w->norm.len};
        rc = rc ? rc : buf_add(&w->clean, buf_cstr(&w->norm), w->norm.len);
    }
    return rc;
}

/* why: the tries keep no pointers to the keys */
static int build(struct tok *t, struct tok_work *w, struct tok_key *key, struct tok_span *at) {
    int64_t n = 0;
    int rc = 0;
    for (int32_t i = 0; i < t->n_added && !rc; i++) {
        if (!t->added[i].normalized && t->added[i].text.n > 0) {
            rc = add_key(&t->added[i], i, t->added[i].text, &key[n++]);
        }
    }
    rc = rc ? rc : tok_trie_build(&t->raw, key, n);
    rc = rc ? rc : normal_texts(w, at);
    n = 0;
    for (int32_t i = 0; i < t->n_added && !rc; i++) {
        if (t->added[i].normalized && at[i].n > 0) {
            struct tok_str s = {buf_cstr(&w->clean) + at[i].at, at[i].n};
            rc = add_key(&t->added[i], i, s, &key[n++]);
        }
    }
    rc = rc ? rc : tok_trie_build(&t->normal, key, n);
    return rc;
}

int tok_added_build(struct tok *t, struct tok_work *w) {
    struct tok_key *key = mem_array(MEM_TEXT, t->n_added, sizeof *key);
    struct tok_span *at = mem_array(MEM_TEXT, t->n_added, sizeof *at);
    int rc = key && at ? build(t, w, key, at) : ERR_NOMEM;
    begins(&t->raw, t->raw_start);
    begins(&t->normal, t->normal_start);
    mem_free(key);
    mem_free(at);
    return rc;
}

/* Start of the character that ends before p[end]. */
static int64_t back(const uint8_t *p, int64_t end) {
    int64_t i = end - 1;
    while (i > 0 && (p[i] & 0xc0) == 0x80) {
        i--;
    }
    return i;
}

static bool word_beside(const uint8_t *p, int64_t n, int64_t start, int64_t end) {
    uint32_t cp;
    if (start > 0) {
        utf8_get(p + back(p, start), &cp);
        if (utf8_is_word(cp)) {
            return true;
        }
    }
    if (end < n) {
        utf8_get(p + end, &cp);
        return utf8_is_word(cp);
    }
    return false;
}

/* Start of the run of blanks that ends at start, but not before floor. */
static int64_t blanks_before(const uint8_t *p, int64_t start, int64_t floor) {
    while (start > floor) {
        uint32_t cp;
        int64_t i = back(p, start);
        utf8_get(p + i, &cp);
        if (!utf8_is_space(cp)) {
            break;
        }
        start = i;
    }
    return i64_max(start, floor);
}

static int64_t blanks_after(const uint8_t *p, int64_t n, int64_t end) {
    while (end < n) {
        uint32_t cp;
        int32_t k = utf8_get(p + end, &cp);
        if (!utf8_is_space(cp)) {
            break;
        }
        end += k;
    }
    return end;
}

bool tok_added_next(const struct tok *tok, struct tok_search *f, struct tok_hit *hit) {
    const uint8_t *p = (const uint8_t *)f->s.p;
    int64_t n = f->s.n;
    int64_t i = f->from;
    while (i < n) {
        int64_t len = 0;
        int32_t k = f->begins[p[i]] ? tok_trie_longest(f->trie, p + i, n - i, &len) : -1;
        if (k < 0) {
            i++;
            continue;
        }
        const struct tok_added *a = &tok->added[k];
        int64_t start = i;
        int64_t end = i + len;
        i = end;
        if ((a->special && !f->parse_special) ||
            (a->single_word && word_beside(p, n, start, end))) {
            continue;
        }
        start = a->lstrip ? blanks_before(p, start, f->done) : start;
        if (a->rstrip) {
            /* why: the run of blanks is looked through once, however many tokens are in it */
            f->blank_end = end < f->blank_end ? f->blank_end : blanks_after(p, n, end);
            end = f->blank_end;
        }
        f->done = end;
        if (start >= end) { /* why: its text went to the blanks of the match before */
            continue;
        }
        *hit = (struct tok_hit){.start = start, .end = end, .id = a->id};
        f->from = i;
        return true;
    }
    f->from = n;
    return false;
}
