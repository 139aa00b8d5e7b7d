/* Prefix search over bytes.
 *
 * A double array: node s has the child t = base(s) ^ byte iff check(t) = s. Blocks of 256 units
 * share the high bits, so a child is found with one read. Built once from sorted keys, node by
 * node; the first base whose children's units are all free is taken, looked for from the first
 * block that is not full. A block that was tried TRIES_MAX times in vain is closed, which bounds
 * the building at a little lost room.
 * src: Aoe, "An Efficient Digital Search Algorithm by Using a Double-Array Structure", 1989; the
 * exclusive or is Yata's (darts-clone) */
#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/text/tok_int.h"

enum { BLOCK = 256, UNITS_MAX = 1 << 28, TRIES_MAX = 64, OPEN_MAX = 16 };

struct maker {
    struct tok_unit *unit; /* own, [cap] */
    int32_t cap;
    int32_t open[OPEN_MAX]; /* blocks with room, oldest first */
    uint8_t tried[OPEN_MAX];
    int32_t n_open;
};

/* A node whose children are keys [lo, hi), equal in their first `depth` bytes. */
struct task {
    int32_t node;
    int32_t depth;
    int64_t lo;
    int64_t hi;
};

static int by_bytes(const void *a, const void *b) {
    const struct tok_key *x = a;
    const struct tok_key *y = b;
    int c = memcmp(x->p, y->p, (size_t)i32_min(x->n, y->n));
    if (c || x->n != y->n) {
        return c ? c : x->n - y->n;
    }
    return (x->value > y->value) - (x->value < y->value);
}

static int add_block(struct maker *m) {
    if (m->cap > UNITS_MAX - BLOCK) {
        return err_set(ERR_LIMIT, "a trie of more than %d units", UNITS_MAX);
    }
    struct tok_unit *unit =
        mem_realloc(MEM_TEXT, m->unit, ((int64_t)m->cap + BLOCK) * (int64_t)sizeof *unit);
    if (!unit) {
        return ERR_NOMEM;
    }
    for (int32_t i = m->cap; i < m->cap + BLOCK; i++) {
        unit[i] = (struct tok_unit){.base = 0, .check = -1, .value = -1};
    }
    if (m->n_open == OPEN_MAX) {
        memmove(m->open, m->open + 1, sizeof m->open - sizeof m->open[0]);
        memmove(m->tried, m->tried + 1, sizeof m->tried - sizeof m->tried[0]);
        m->n_open--;
    }
    m->tried[m->n_open] = 0;
    m->open[m->n_open++] = m->cap;
    m->unit = unit;
    m->cap += BLOCK;
    return 0;
}

/* A base in one block under which all n bytes are free; -1 when there is none. */
static int32_t fit_block(const struct maker *m, int32_t block, const uint8_t *byte, int32_t n) {
    for (int32_t u = block; u < block + BLOCK; u++) {
        int32_t base = u ^ byte[0];
        bool fits = true;
        for (int32_t i = 0; i < n && fits; i++) {
            fits = m->unit[base ^ byte[i]].check == -1;
        }
        if (fits) {
            return base;
        }
    }
    return -1;
}

static int find_base(struct maker *m, const uint8_t *byte, int32_t n, int32_t *base) {
    for (int32_t k = 0; k < m->n_open;) {
        *base = fit_block(m, m->open[k], byte, n);
        if (*base >= 0) {
            return 0;
        }
        if (++m->tried[k] >= TRIES_MAX || n == 1) {
            m->n_open--;
            memmove(m->open + k, m->open + k + 1, (size_t)(m->n_open - k) * sizeof m->open[0]);
            memmove(m->tried + k, m->tried + k + 1, (size_t)(m->n_open - k));
        } else {
            k++;
        }
    }
    int rc = add_block(m);
    *base = rc ? -1 : fit_block(m, m->cap - BLOCK, byte, n);
    return rc;
}

struct tasks {
    struct task *v; /* own, [cap] */
    int64_t n;
    int64_t cap;
};

static int push(struct tasks *s, struct task t) {
    if (s->n == s->cap) {
        int64_t cap = i64_max(256, 2 * s->cap);
        struct task *v = mem_realloc(MEM_TEXT, s->v, cap * (int64_t)sizeof *v);
        if (!v) {
            return ERR_NOMEM;
        }
        s->v = v;
        s->cap = cap;
    }
    s->v[s->n++] = t;
    return 0;
}

/* Places the children of one node. */
static int place(struct maker *m, struct tasks *todo, const struct tok_key *key, struct task t) {
    uint8_t byte[256];
    int64_t first[257];
    int32_t n = 0;
    while (t.lo < t.hi && key[t.lo].n == t.depth) {
        m->unit[t.node].value = key[t.lo++].value;
    }
    for (int64_t i = t.lo; i < t.hi; i++) {
        uint8_t b = key[i].p[t.depth];
        if (n == 0 || b != byte[n - 1]) {
            first[n] = i;
            byte[n++] = b;
        }
    }
    if (n == 0) {
        return 0;
    }
    int32_t base;
    int rc = find_base(m, byte, n, &base);
    if (rc) {
        return rc;
    }
    first[n] = t.hi;
    m->unit[t.node].base = base;
    for (int32_t i = 0; i < n; i++) {
        m->unit[base ^ byte[i]].check = t.node;
    }
    for (int32_t i = 0; i < n && !rc; i++) {
        rc = push(todo, (struct task){base ^ byte[i], t.depth + 1, first[i], first[i + 1]});
    }
    return rc;
}

int tok_trie_build(struct tok_trie *t, struct tok_key *key, int64_t n) {
    *t = (struct tok_trie){0};
    if (n == 0) {
        return 0;
    }
    struct maker m = {0};
    struct tasks todo = {0};
    qsort(key, (size_t)n, sizeof *key, by_bytes);
    int rc = add_block(&m);
    if (!rc) {
        m.unit[0].check = -2; /* why: the root is nobody's child and never free */
        rc = push(&todo, (struct task){0, 0, 0, n});
    }
    while (todo.n > 0 && !rc) {
        rc = place(&m, &todo, key, todo.v[--todo.n]);
    }
    mem_free(todo.v);
    if (rc) {
        mem_free(m.unit);
        return rc;
    }
    *t = (struct tok_trie){.unit = m.unit, .n = m.cap};
    return 0;
}

void tok_trie_fini(struct tok_trie *t) {
    mem_free(t->unit);
    *t = (struct tok_trie){0};
}

int32_t tok_trie_longest(const struct tok_trie *t, const uint8_t *p, int64_t n, int64_t *len) {
    int32_t found = -1;
    int32_t at = t->unit ? 0 : -1;
    for (int64_t i = 0; i < n && at >= 0; i++) {
        at = tok_trie_child(t, at, p[i]);
        if (at >= 0 && t->unit[at].value >= 0) {
            found = t->unit[at].value;
            *len = i + 1;
        }
    }
    return found;
}
