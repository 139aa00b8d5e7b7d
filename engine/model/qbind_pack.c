/* pack-quantized (compressed-tensors): fields of b = 2..8 bits, value q + 2^(b-1).
 *
 *     weight_packed      I32 [n, words]   dense:  field i of a row at its bit b*i, across words
 *                                         padded: floor(32/b) fields a word, high bits idle
 *     weight_shape       I64 [2]          n, k
 *     weight_zero_point  I32 [words, k/g] the same two layouts, down the rows: field r of a column
 *                        I8  [n, k/g]     as it is
 *
 * b = 2, 4, 8 divide a word: both layouts are one. For 3, 5, 6, 7 writers up to 0.17 padded, later
 * ones do not, under one name. Rules in this order: a width that fits one layout alone; an idle bit
 * that is set means dense; a writer of 0.18 or later is dense; else padded. */
#include <string.h>

#include "engine/base/err.h"
#include "engine/base/file.h"
#include "engine/model/qbind_int.h"

enum { WRITER_DENSE = 18, WORD = 32 };

struct layout {
    int32_t bits;
    int32_t a_word;  /* whole fields of a padded word */
    int64_t n_dense; /* words of a row in each layout */
    int64_t n_padded;
};

static struct layout layout_of(int32_t bits, int64_t n_fields) {
    int32_t a_word = WORD / bits;
    return (struct layout){.bits = bits,
                           .a_word = a_word,
                           .n_dense = i64_div_up(n_fields * bits, WORD),
                           .n_padded = i64_div_up(n_fields, a_word)};
}

/* Is any bit set that padded words leave idle? */
static bool idle_bits(const struct layout *l, const struct tensor *t) {
    int32_t used = l->a_word * l->bits;
    for (int64_t i = 0; used < WORD && i < t->bytes / 4; i++) {
        uint32_t word = 0;
        memcpy(&word, t->data + 4 * i, 4);
        if (word >> used) {
            return true;
        }
    }
    return false;
}

/* Which of the two is it? in: words: found width. out: *padded */
static bool decide(const struct qmodule *m,
                   const struct layout *l,
                   const struct tensor *t,
                   int64_t words,
                   bool *padded) {
    if (words != l->n_dense && words != l->n_padded) {
        return false;
    }
    if (WORD % l->bits == 0) {
        *padded = false;
    } else if (l->n_dense != l->n_padded) {
        *padded = words == l->n_padded;
    } else {
        *padded = !idle_bits(l, t) && m->b->q->writer < WRITER_DENSE;
    }
    return true;
}

static uint32_t padded_field(const struct layout *l, const uint8_t *p, int64_t stride, int64_t i) {
    uint32_t word = 0;
    memcpy(&word, p + 4 * stride * (i / l->a_word), 4);
    return word >> (l->bits * (i % l->a_word)) & ((1U << l->bits) - 1);
}

/* Lays padded rows out densely. */
static int repack(struct qmodule *m, const struct layout *l, const struct tensor *t) {
    struct wmat *w = &m->w;
    uint8_t *dst = m->b->alloc(m->b->ctx, w->n * w->row_bytes);
    int64_t src_row = 4 * l->n_padded;
    int64_t kept = 0; /* first byte of the map not yet given back */
    if (!dst) {
        return ERR_NOMEM;
    }
    for (int64_t r = 0; r < w->n; r++) {
        uint64_t out = 0;
        int32_t n_out = 0;
        uint8_t *at = dst + r * w->row_bytes;
        for (int64_t i = 0; i < w->k; i++) {
            out |= (uint64_t)padded_field(l, t->data + r * src_row, 1, i) << n_out;
            n_out += l->bits;
            if (n_out >= WORD || i == w->k - 1) {
                uint32_t word = (uint32_t)out;
                memcpy(at, &word, 4);
                at += 4;
                out >>= WORD;
                n_out = n_out > WORD ? n_out - WORD : 0;
                if (i == w->k - 1 && n_out > 0) {
                    word = (uint32_t)out;
                    memcpy(at, &word, 4);
                }
            }
        }
        if ((r + 1) * src_row - kept >= QBIND_BAND || r == w->n - 1) {
            file_drop(t->data + kept, (r + 1) * src_row - kept);
            kept = (r + 1) * src_row;
        }
    }
    w->data = dst;
    return 0;
}

static int bind_words(struct qmodule *m) {
    struct wmat *w = &m->w;
    const struct tensor *t = NULL;
    bool padded = false;
    struct layout l = layout_of(m->s->w.bits, w->k);
    struct qwant want = {QTYPE(I32), "I32", 2, {w->n, l.n_dense}};
    int rc = qbind_part(m, "weight_packed", true, &t);
    if (rc) {
        return rc;
    }
    bool fits = t->n_dim == 2 && t->dim[0] == w->n && t->type == DTYPE_I32 &&
                decide(m, &l, t, t->dim[1], &padded);
    if (!fits) {
        return qbind_want(m, t, &want);
    }
    w->type = (enum dtype)(DTYPE_W2 + l.bits - 2);
    w->row_bytes = 4 * l.n_dense;
    if (padded) {
        return repack(m, &l, t);
    }
    w->data = qbind_aligned(m, t, 4);
    return w->data ? 0 : ERR_NOMEM;
}

static int check_shape(struct qmodule *m) {
    const struct tensor *t = NULL;
    const struct qwant want = {QTYPE(I64), "I64", 1, {2}};
    int64_t dims[2];
    int rc = qbind_part(m, "weight_shape", true, &t);
    rc = rc ? rc : qbind_want(m, t, &want);
    if (rc) {
        return rc;
    }
    m->b->bytes -= t->bytes; /* why: it says, it holds nothing of the weight */
    memcpy(dims, t->data, sizeof dims);
    if (dims[0] != m->w.n || dims[1] != m->w.k) {
        return err_set(ERR_FORMAT, "%s: tensor \"%s\" says [%lld, %lld], the model wants [%d, %d]",
                       m->b->c->path, t->name, (long long)dims[0], (long long)dims[1], m->w.n,
                       m->w.k);
    }
    return 0;
}

/* Zero points go down the rows of each group's column. */
static int unpack_zero(struct qmodule *m, const struct tensor *t) {
    const struct wmat *w = &m->w;
    int64_t groups = i64_div_up(w->k, w->group);
    int64_t rows = i64_div_up(w->n, w->row_group > 0 ? w->row_group : 1);
    int32_t half = 1 << (m->s->w.bits - 1);
    bool padded = false;
    struct layout l = layout_of(m->s->w.bits, rows);
    struct qwant want = {QTYPE(I32), "I32", 2, {l.n_dense, groups}};
    bool fits = t->n_dim == 2 && t->dim[1] == groups && t->type == DTYPE_I32 &&
                decide(m, &l, t, t->dim[0], &padded);
    if (!fits) {
        return qbind_want(m, t, &want);
    }
    int8_t *zero = m->b->alloc(m->b->ctx, rows * groups);
    if (!zero) {
        return ERR_NOMEM;
    }
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t g = 0; g < groups; g++) {
            const uint8_t *p = t->data + 4 * g;
            uint32_t u =
                padded ? padded_field(&l, p, groups, r) : qbind_field(p, groups, r, l.bits);
            zero[r * groups + g] = (int8_t)((int32_t)u - half);
        }
    }
    m->w.zero = zero;
    return 0;
}

static int bind_zero(struct qmodule *m) {
    const struct wmat *w = &m->w;
    const struct tensor *t = NULL;
    struct qwant want = {QTYPE(I8), "I8", 2, {w->n, i64_div_up(w->k, w->group)}};
    int rc = qbind_part(m, "weight_zero_point", m->s->w.asymmetric, &t);
    if (rc || !t) {
        return rc;
    }
    if (t->type != DTYPE_I8) {
        return unpack_zero(m, t);
    }
    if (m->s->w.strategy == QSTRATEGY_TENSOR) {
        want.dim[0] = want.dim[1] = 1;
        want.n_dim = i32_min(2, t->n_dim);
    }
    rc = qbind_want(m, t, &want);
    if (!rc) {
        m->w.zero = (const int8_t *)t->data;
    }
    return rc;
}

int qbind_pack(struct qmodule *m) {
    int rc = bind_words(m);
    rc = rc ? rc : check_shape(m);
    return rc ? rc : bind_zero(m);
}
