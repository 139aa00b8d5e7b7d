/* Long pieces, window by window.
 *
 * Merging a piece of millions of symbols jumps about in memory: ranks decide the order, not places.
 * But what is far apart does not meet. A sequence of tokens is the result for a text if every two
 * neighbours are the result for their own text: look at the first merge that would cross a border
 * of the sequence; so far every token was made by its own merges alone, so the same merge would
 * come first in the text of the two neighbours, and cross their border too.
 *
 *     ... tokens so far | WINDOW more symbols | ...
 *                       ^ is this border the result for the two tokens beside it?
 *
 * If not, the last tokens are taken back and merged anew together with the window, first a few,
 * then more; beyond BACK_MAX the whole piece is merged at once (tok_merge.c), which costs more but
 * is never wrong. Windows end where the pair that is cut has the highest rank of the last LOOK, or
 * is no merge at all, and between characters, so most borders hold. Where tokens are long, so that
 * a window holds only a FEW, windows grow; they are powers of two from where they begin, and so are
 * the tokens of a long run of one character, whose borders then hold. A window that equals the one
 * before has its tokens. The working set stays in the cache, whatever the length of the piece. */
#include <string.h>

#include "engine/base/err.h"
#include "engine/text/tok_int.h"

enum { WINDOW = 64, WINDOW_MAX = 8192, LOOK = 32, FEW = 8, MANY = 200 };
enum { BACK_FIRST = 2, BACK_TIMES = 3, BACK_MAX = 500 };

static int reserve(struct tok_work *w, int64_t n) {
    if (n <= w->n_sym) {
        return 0;
    }
    int64_t cap = i64_max(n, 4 * (int64_t)WINDOW);
    struct tok_sym *sym = mem_realloc(MEM_TEXT, w->sym, cap * (int64_t)sizeof *sym);
    if (!sym) {
        return ERR_NOMEM;
    }
    w->sym = sym;
    w->n_sym = cap;
    return 0;
}

/* Rank of symbols i and i + 1 of the piece. */
static int32_t rank_at(const struct tok_work *w, const uint8_t *bytes, int64_t i) {
    if (bytes) {
        return w->tok->pair_rank[bytes[i] << 8 | bytes[i + 1]];
    }
    const struct tok_merge *m = tok_merges_find(&w->tok->merges, w->init[i], w->init[i + 1]);
    return m ? m->rank : TOK_NO_RANK;
}

/* A token and its length in symbols. */
static int add(struct tok_work *w, int32_t id, int32_t len) {
    int rc = tok_ids_add(w->out, id);
    return rc ? rc : tok_ids_add(&w->lens, len);
}

static int emit_long(struct tok_work *w, const uint8_t *bytes, int32_t from, int32_t n) {
    int rc = reserve(w, n);
    if (rc) {
        return rc;
    }
    struct tok_sym *s = w->sym;
    for (int32_t i = 0; i < n; i++) {
        int32_t rank = i + 1 < n ? rank_at(w, bytes, from + i) : TOK_NO_RANK;
        s[i] = (struct tok_sym){.id = w->init[from + i],
                                .prev = i - 1,
                                .next = i + 1,
                                .rank = rank == TOK_NO_RANK ? -1 : rank};
    }
    w->n_ops += n;
    rc = tok_merge_all(w, n);
    for (int32_t i = 0; i < n && !rc; i = s[i].next) {
        rc = add(w, s[i].id, s[i].next - i);
    }
    return rc;
}

/* Merges symbols [from, from + n) as a text of their own, in w->small. in: n <= TOK_SMALL */
static void merge_short(struct tok_work *w, const uint8_t *bytes, int32_t from, int32_t n) {
    struct tok_small *s = &w->small;
    s->n = n;
    memcpy(s->id, w->init + from, (size_t)n * sizeof *s->id);
    tok_small_merge(w, s, bytes ? bytes + from : NULL);
}

/* Appends the tokens of symbols [from, from + n). */
static int emit(struct tok_work *w, const uint8_t *bytes, int32_t from, int32_t n) {
    const struct tok_small *s = &w->small;
    int rc = 0;
    if (n > TOK_SMALL) {
        return emit_long(w, bytes, from, n);
    }
    merge_short(w, bytes, from, n);
    for (int32_t i = 0; i < n && !rc; i = s->next[i]) {
        rc = add(w, s->id[i], s->next[i] - i);
    }
    return rc;
}

/* Takes tokens back until n_left are left, or n_back are taken. in: the place behind the last.
 * out: the place where they began */
static int32_t take_back(struct tok_work *w, int32_t n_left, int32_t n_back, int32_t at) {
    while (n_back > 0 && w->out->n > n_left) {
        w->out->n--;
        at -= w->lens.v[--w->lens.n];
        n_back--;
    }
    return at;
}

/* Is the border in front of token k of the output, at symbol `at` of the piece, the result for the
 * two tokens beside it? in: base: the piece's first token */
static int border_holds(
    struct tok_work *w, const uint8_t *bytes, int32_t base, int32_t k, int32_t at, bool *holds) {
    int32_t left = w->lens.v[k - 1 - base];
    int32_t n = left + w->lens.v[k - base];
    int32_t a = w->out->v[k - 1];
    int32_t b = w->out->v[k];
    if (n <= TOK_SMALL) {
        const struct tok_small *s = &w->small;
        merge_short(w, bytes, at - left, n);
        *holds = s->next[0] == left && s->id[0] == a && s->id[left] == b && s->next[left] == n;
        return 0;
    }
    int32_t end = w->out->n;
    int rc = emit_long(w, bytes, at - left, n);
    *holds = !rc && w->out->n == end + 2 && w->out->v[end] == a && w->out->v[end + 1] == b;
    take_back(w, end, n, 0);
    return rc;
}

/* Where to end a window that may go up to symbol `to` of n, behind
 * `past`. */
static int32_t
window_end(const struct tok_work *w, const uint8_t *bytes, int64_t to, int32_t past, int32_t n) {
    int32_t most = (int32_t)to;
    int32_t best = most;
    int32_t high = -1;
    if (most >= n) {
        return n;
    }
    for (int32_t e = most; e > most - LOOK && e > past && high != TOK_NO_RANK; e--) {
        if (bytes && (bytes[e] & 0xc0) == 0x80) {
            continue;
        }
        int32_t rank = rank_at(w, bytes, e - 1);
        best = rank > high ? e : best;
        high = i32_max(high, rank);
    }
    return best;
}

/* The length of the next window when one of this length held n tokens. */
static int32_t next_window(int32_t window, int32_t n) {
    if (n < FEW) {
        return i32_min(2 * window, WINDOW_MAX);
    }
    return n > MANY ? i32_max(window / 2, WINDOW) : window;
}

/* The window before, when its tokens are the last of the output. */
struct before {
    int32_t from; /* symbols */
    int32_t n;    /* of them; 0: there is none */
    int32_t k;    /* its first token */
    int32_t a;    /* a border that held: tokens a and b */
    int32_t b;
    int32_t a_len; /* of these lengths */
    int32_t b_len;
};

/* Copies the tokens of the window before, whose symbols are the same. */
static int repeat(struct tok_work *w, const struct before *o, int32_t base) {
    int32_t k = w->out->n;
    int rc = 0;
    w->n_ops += k - o->k;
    for (int32_t i = o->k; i < k && !rc; i++) {
        rc = add(w, w->out->v[i], w->lens.v[i - base]);
    }
    return rc;
}

static bool
same_symbols(const struct tok_work *w, const struct before *o, int32_t from, int32_t n) {
    return o->n == n && o->from + n == from &&
           memcmp(w->init + o->from, w->init + from, (size_t)n * sizeof *w->init) == 0;
}

/* border_holds, unless the same was asked last. */
static int ask(struct tok_work *w,
               const uint8_t *bytes,
               int32_t base,
               int32_t from,
               int32_t k,
               struct before *o,
               bool *holds) {
    int32_t a_len = w->lens.v[k - 1 - base];
    int32_t b_len = w->lens.v[k - base];
    int32_t a = w->out->v[k - 1];
    int32_t b = w->out->v[k];
    *holds = a == o->a && b == o->b && a_len == o->a_len && b_len == o->b_len;
    int rc = *holds ? 0 : border_holds(w, bytes, base, k, from, holds);
    if (!rc && *holds) {
        o->a = a;
        o->b = b;
        o->a_len = a_len;
        o->b_len = b_len;
    }
    return rc;
}

int tok_window_run(struct tok_work *w, const uint8_t *bytes, int32_t n) {
    struct before o = {.a = -1};
    int32_t base = w->out->n;
    int32_t at = 0;   /* symbols in the tokens so far */
    int32_t past = 0; /* the window must end behind this one */
    int32_t back = 0;
    int32_t window = WINDOW;
    int rc = 0;
    w->lens.n = 0;
    while (at < n && !rc) {
        bool all = back > BACK_MAX;
        int32_t from = take_back(w, base, all ? INT32_MAX : back, at);
        int64_t to = from + i64_div_up((int64_t)past + 1 - from, window) * window;
        int32_t end = all ? n : window_end(w, bytes, i64_min(to, n), past, n);
        int32_t k = w->out->n;
        bool holds = true;
        rc = same_symbols(w, &o, from, end - from) ? repeat(w, &o, base)
                                                   : emit(w, bytes, from, end - from);
        if (!rc && k > base) {
            rc = ask(w, bytes, base, from, k, &o, &holds);
        }
        if (!rc && !holds) {
            at = take_back(w, k, INT32_MAX, end);
            back = back > 0 ? back * BACK_TIMES : BACK_FIRST;
            o.n = 0;
            continue;
        }
        window = next_window(window, w->out->n - k);
        o.from = from;
        o.n = end - from;
        o.k = k;
        at = end;
        past = end;
        back = 0;
    }
    return rc;
}
