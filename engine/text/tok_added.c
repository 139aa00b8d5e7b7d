/* Added tokens: texts that are found in the input before anything is merged.
 *
 * Two tries, of the tokens matched in the raw text and of those matched behind the normaliser
 * (whose texts are normalised as well). Leftmost match, longest among those that begin there. A
 * match may be refused (single_word, special tokens not asked for); the search goes on behind it.
 * lstrip and rstrip widen a match over the blanks beside it. src: tokenizers, added_vocabulary.rs
 * find_matches */
#include "engine/base/err.h"
#include "engine/text/tok_int.h"
#include "engine/text/utf8.h"

enum { NODES_MAX = 1 << 24 };

static int new_node(struct tok_trie *t, uint8_t byte, int32_t *out) {
    if (t->n == t->cap) {
        int32_t cap = t->cap ? t->cap * 2 : 256;
        if (cap > NODES_MAX) {
            return err_set(ERR_LIMIT, "added tokens of more than %d bytes", NODES_MAX / 2);
        }
        struct tok_node *p = mem_realloc(MEM_TEXT, t->node, (int64_t)cap * (int64_t)sizeof *p);
        if (!p) {
            return ERR_NOMEM;
        }
        t->node = p;
        t->cap = cap;
    }
    t->node[t->n] = (struct tok_node){.child = -1, .next = -1, .added = -1, .byte = byte};
    *out = t->n++;
    return 0;
}

static int32_t sibling(const struct tok_trie *t, int32_t first, uint8_t byte) {
    while (first >= 0 && t->node[first].byte != byte) {
        first = t->node[first].next;
    }
    return first;
}

static int trie_add(struct tok_trie *t, const uint8_t *p, int64_t n, int32_t added) {
    int32_t at = t->root[p[0]];
    if (at < 0) {
        int rc = new_node(t, p[0], &at);
        if (rc) {
            return rc;
        }
        t->root[p[0]] = at;
    }
    for (int64_t i = 1; i < n; i++) {
        int32_t next = sibling(t, t->node[at].child, p[i]);
        if (next < 0) {
            int rc = new_node(t, p[i], &next);
            if (rc) {
                return rc;
            }
            t->node[next].next = t->node[at].child;
            t->node[at].child = next;
        }
        at = next;
    }
    t->node[at].added = added;
    return 0;
}

static void trie_init(struct tok_trie *t) {
    for (int32_t i = 0; i < 256; i++) {
        t->root[i] = -1;
    }
}

static int add_normal(struct tok *tok, int32_t i, struct buf *text, struct buf *tmp) {
    const struct tok_added *a = &tok->added[i];
    buf_clear(text);
    int rc = tok_norm_run(tok, (const uint8_t *)a->text.p, a->text.n, text, tmp);
    if (rc || text->len == 0) {
        return rc;
    }
    return trie_add(&tok->normal, (const uint8_t *)text->data, text->len, i);
}

int tok_trie_build(struct tok *tok) {
    struct buf text;
    struct buf tmp;
    int rc = 0;
    buf_init(&text, MEM_TEXT, TOK_TEXT_MAX);
    buf_init(&tmp, MEM_TEXT, TOK_TEXT_MAX);
    trie_init(&tok->raw);
    trie_init(&tok->normal);
    for (int32_t i = 0; i < tok->n_added && !rc; i++) {
        const struct tok_added *a = &tok->added[i];
        if (a->text.n > 0 && a->normalized) {
            rc = add_normal(tok, i, &text, &tmp);
        } else if (a->text.n > 0) {
            rc = trie_add(&tok->raw, (const uint8_t *)a->text.p, a->text.n, i);
        }
    }
    buf_fini(&text);
    buf_fini(&tmp);
    return rc;
}

void tok_trie_fini(struct tok_trie *t) {
    mem_free(t->node);
}

/* Longest added token that begins at p. out: its index or -1, *len */
static int32_t longest(const struct tok_trie *t, const uint8_t *p, int64_t n, int64_t *len) {
    int32_t found = -1;
    int32_t at = t->root[p[0]];
    for (int64_t i = 1; at >= 0; i++) {
        if (t->node[at].added >= 0) {
            found = t->node[at].added;
            *len = i;
        }
        at = i < n ? sibling(t, t->node[at].child, p[i]) : -1;
    }
    return found;
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

static int64_t blanks_before(const uint8_t *p, int64_t start) {
    while (start > 0) {
        uint32_t cp;
        int64_t i = back(p, start);
        utf8_get(p + i, &cp);
        if (!utf8_is_space(cp)) {
            break;
        }
        start = i;
    }
    return start;
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

bool tok_added_next(const struct tok *tok,
                    const struct tok_trie *t,
                    bool parse_special,
                    struct tok_str s,
                    int64_t *from,
                    int64_t floor,
                    struct tok_hit *hit) {
    const uint8_t *p = (const uint8_t *)s.p;
    int64_t i = *from;
    while (i < s.n) {
        int64_t len = 0;
        int32_t k = t->root[p[i]] < 0 ? -1 : longest(t, p + i, s.n - i, &len);
        if (k < 0) {
            i++;
            continue;
        }
        const struct tok_added *a = &tok->added[k];
        int64_t start = i;
        int64_t end = i + len;
        i = end;
        if ((a->special && !parse_special) || (a->single_word && word_beside(p, s.n, start, end))) {
            continue;
        }
        start = a->lstrip ? i64_max(blanks_before(p, start), floor) : start;
        end = a->rstrip ? blanks_after(p, s.n, end) : end;
        *hit = (struct tok_hit){.start = start, .end = end, .id = a->id};
        *from = i;
        return true;
    }
    *from = s.n;
    return false;
}
