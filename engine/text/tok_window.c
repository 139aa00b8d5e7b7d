/* Long pieces, window by window.
 *
 * Merging a piece of millions of symbols jumps about in memory: ranks decide the order, not places.
 * But what is far apart does not meet. A sequence of tokens is the result for a text if every two
 * neighbours are the result for their own text: look at the first merge that would cross a border
 * of the sequence; so far every token was made by its own merges alone, so the same merge would
 * come first in the text of the two neighbours, and cross their border too.
 *
 *     ...done| the last few | WINDOW more symbols |
 *            ^ merged anew as one text ...........^
 *            the border here is tried: are the two tokens beside it the result for themselves?
 *
 * If not, more of what was done is taken back, and beyond BACK_MAX tokens the whole piece is merged
 * at once, which costs more but is never wrong. So the working set stays in the cache, whatever the
 * length of the piece. */
#include <string.h>

#include "engine/base/err.h"
#include "engine/text/tok_int.h"

enum { WINDOW = 4096, BACK = 6, BACK_MAX = 400 };

static int reserve(struct tok_work *w, int64_t n) {
    if (n <= w->n_sym) {
        return 0;
    }
    struct tok_sym *sym = mem_realloc(MEM_TEXT, w->sym, n * (int64_t)sizeof *sym);
    if (!sym) {
        return ERR_NOMEM;
    }
    w->sym = sym;
    w->n_sym = n;
    return 0;
}

/* Merges symbols [from, to) as a text of their own. out: the list in w->sym from 0 on */
static int merge_range(struct tok_work *w, const uint8_t *bytes, int32_t from, int32_t to) {
    const struct tok *t = w->tok;
    int32_t n = to - from;
    int rc = reserve(w, n);
    if (rc) {
        return rc;
    }
    const int32_t *id = w->init + from;
    struct tok_sym *s = w->sym;
    for (int32_t i = 0; i < n; i++) {
        s[i] = (struct tok_sym){.id = id[i], .prev = i - 1, .next = i + 1, .rank = -1};
    }
    for (int32_t i = 0; i + 1 < n && bytes; i++) {
        int32_t rank = t->pair_rank[bytes[from + i] << 8 | bytes[from + i + 1]];
        s[i].rank = rank == INT32_MAX ? -1 : rank;
    }
    for (int32_t i = 0; i + 1 < n && !bytes; i++) {
        const struct tok_merge *m = tok_merges_find(&t->merges, id[i], id[i + 1]);
        s[i].rank = m ? m->rank : -1;
    }
    w->n_ops += n;
    return tok_merge_all(w, n);
}

/* Is the border in front of token k of the output, at symbol `at` of the piece, the result for the
 * two tokens beside it? in: w->lens[k - base] is the length of token k */
static int border_holds(
    struct tok_work *w, const uint8_t *bytes, int32_t base, int32_t k, int32_t at, bool *holds) {
    int32_t left = w->lens.v[k - 1 - base];
    int32_t right = w->lens.v[k - base];
    int rc = merge_range(w, bytes, at - left, at + right);
    const struct tok_sym *s = w->sym;
    *holds = !rc && s[0].next == left && s[0].id == w->out->v[k - 1] &&
             s[left].id == w->out->v[k] && s[left].next == left + right;
    return rc;
}

/* Appends the list's tokens and their lengths in symbols. */
static int emit(struct tok_work *w, int32_t n) {
    int rc = 0;
    for (int32_t i = 0; i < n && !rc; i = w->sym[i].next) {
        rc = tok_ids_add(w->out, w->sym[i].id);
        rc = rc ? rc : tok_ids_add(&w->lens, w->sym[i].next - i);
    }
    return rc;
}

/* Takes tokens back until n are left, or n_back are taken. in: the place behind the last. out: the
 * place where they began */
static int32_t take_back(struct tok_work *w, int32_t n_left, int32_t n_back, int32_t at) {
    while (n_back > 0 && w->out->n > n_left) {
        w->out->n--;
        at -= w->lens.v[--w->lens.n];
        n_back--;
    }
    return at;
}

int tok_window_run(struct tok_work *w, const uint8_t *bytes, int32_t n) {
    int32_t base = w->out->n;
    int32_t done = 0;
    int32_t back = BACK;
    int rc = 0;
    w->lens.n = 0;
    while (done < n && !rc) {
        bool all = back > BACK_MAX;
        int32_t end = all ? n : i32_min(n, done + WINDOW);
        int32_t from = take_back(w, base, all ? INT32_MAX : back, done);
        int32_t k = w->out->n;
        bool holds = true;
        rc = merge_range(w, bytes, from, end);
        rc = rc ? rc : emit(w, end - from);
        if (!rc && k > base) {
            rc = border_holds(w, bytes, base, k, from, &holds);
        }
        if (!rc && !holds) {
            done = take_back(w, k, INT32_MAX, end);
            back *= 3;
        } else {
            done = end;
            back = BACK;
        }
    }
    return rc;
}
