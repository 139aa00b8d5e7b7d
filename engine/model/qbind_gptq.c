/* Layouts that pack across rows: AutoGPTQ's down the inputs, AutoAWQ's over the outputs.
 *
 *     gptq   qweight I32 [k*b/32, n]   field i of column r at bit b*i of the column's words: the
 *                                      words of a column are a row of ours, turned
 *            qzeros  I32 [G, n*b/32]   field r of group g at bit b*r of the row's words
 *            scales  F16 [G, n]        g_idx I32 [k]
 *     awq    qweight I32 [k, n/8]      nibble i of word c is output 8c + order[i],
 *            qzeros  I32 [G, n/8]      order 0 2 4 6 1 3 5 7; scales F16 [G, n]
 *
 * w = scale * (q - z). b = 3 straddles words (10 fields, 2 + 1 bits, 10, 1 + 2, 10): the stream of
 * bits is the same law. Our rows store q as it is, for both sides lose 2^(b-1).
 *
 * gptq stores z - 1 ("gptq", v1) or z ("gptq_v2"); v1 wraps in its field, so 15 is 0. Files lie:
 * where "sym" is set the words decide, all fields 2^(b-1) - 1 being v1 and all 2^(b-1) v2; a label
 * that says otherwise is noted. Asymmetric files are read as labelled; a v1 zero that wraps is
 * noted, because some readers take it for 2^b.
 * src: GPTQModel, nn_modules/qlinear/__init__.py (pack, dequantize_weight); AutoAWQ,
 * utils/packing_utils.py */
#include <string.h>

#include "engine/base/err.h"
#include "engine/base/file.h"
#include "engine/base/mem.h"
#include "engine/model/qbind_int.h"

enum { WORD = 32, NIBBLES = 8, TILE = 16 };

#define FLOATS (QTYPE(F32) | QTYPE(F16) | QTYPE(BF16))

/* dst [cols,rows] = src [rows,cols] of size bytes an element, in tiles. */
static void
turn(uint8_t *dst, int64_t dst_row, const uint8_t *src, int64_t rows, int64_t cols, int32_t size) {
    for (int64_t c0 = 0; c0 < cols; c0 += TILE) {
        int64_t c1 = i64_min(cols, c0 + TILE);
        for (int64_t r = 0; r < rows; r++) {
            for (int64_t c = c0; c < c1; c++) {
                memcpy(dst + c * dst_row + r * size, src + (r * cols + c) * size, (size_t)size);
            }
        }
    }
}

/* Rows of a source that make a band. */
static int64_t band_rows(int64_t row_bytes, int64_t multiple) {
    int64_t rows = i64_max(1, QBIND_BAND / row_bytes);
    return i64_max(multiple, rows - rows % multiple);
}

/* scales [G,n] become [n,G]. */
static int bind_scales(struct qmodule *m, int64_t groups) {
    const struct tensor *t = NULL;
    const struct qwant want = {FLOATS, "F16, BF16 or F32", 2, {groups, m->w.n}};
    int rc = qbind_part(m, "scales", true, &t);
    rc = rc ? rc : qbind_want(m, t, &want);
    rc = rc ? rc : qbind_no_zero(m, t);
    if (rc) {
        return rc;
    }
    int32_t size = dtype_info(t->type)->block_bytes;
    uint8_t *dst = m->b->alloc(m->b->ctx, t->bytes);
    if (!dst) {
        return ERR_NOMEM;
    }
    turn(dst, groups * size, t->data, groups, m->w.n, size);
    file_drop(t->data, t->bytes);
    m->w.scale = dst;
    m->w.scale_type = t->type;
    return 0;
}

/* What the fields of a symmetric file say. out: 1 or 2 for v1 or v2, 0 for neither */
static int32_t version_of_words(const struct tensor *t, int64_t groups, int64_t n, int32_t b) {
    uint32_t first = qbind_field(t->data, 1, 0, b);
    uint32_t half = 1U << (b - 1);
    for (int64_t g = 0; g < groups; g++) {
        const uint8_t *row = t->data + g * t->dim[1] * 4;
        for (int64_t r = 0; r < n; r++) {
            if (qbind_field(row, 1, r, b) != first) {
                return 0;
            }
        }
    }
    return first == half - 1 ? 1 : first == half ? 2 : 0;
}

/* Zero points of any kind become signed bytes [n,G]. */
static int unpack_zeros(struct qmodule *m, const struct tensor *t, int64_t groups, bool v1) {
    int32_t b = m->s->w.bits;
    int32_t half = 1 << (b - 1);
    uint32_t top = (1U << b) - 1;
    int64_t n_wrap = 0;
    int8_t *zero = m->b->alloc(m->b->ctx, m->w.n * groups);
    if (!zero) {
        return ERR_NOMEM;
    }
    for (int64_t g = 0; g < groups; g++) {
        const uint8_t *row = t->data + g * t->dim[1] * 4;
        for (int64_t r = 0; r < m->w.n; r++) {
            uint32_t u = qbind_field(row, 1, r, b);
            n_wrap += v1 && u == top;
            u = v1 ? (u + 1) & top : u;
            zero[r * groups + g] = (int8_t)((int32_t)u - half);
        }
    }
    if (n_wrap > 0) {
        qbind_note(m,
                   "%lld zero points of the v1 layout are stored as %u and read as 0; old "
                   "readers take them for %u",
                   (long long)n_wrap, top, top + 1);
    }
    m->w.zero = zero;
    return 0;
}

static int bind_gptq_zeros(struct qmodule *m, int64_t groups) {
    const struct tensor *t = NULL;
    int32_t b = m->s->w.bits;
    const struct qwant want = {
        QTYPE(I32), "I32", 2, {groups, i64_div_up((int64_t)m->w.n * b, WORD)}};
    int rc = qbind_part(m, "qzeros", true, &t);
    rc = rc ? rc : qbind_want(m, t, &want);
    if (rc) {
        return rc;
    }
    int32_t words = m->s->w.asymmetric ? 0 : version_of_words(t, groups, m->w.n, b);
    if (words == 0) {
        if (!m->s->w.asymmetric) {
            qbind_note(m, "labelled symmetric, but its zero points differ; read as stored");
        }
        return unpack_zeros(m, t, groups, !m->s->v2);
    }
    if ((words == 2) != m->s->v2) {
        qbind_note(m, "labelled %s, but its zero points are those of %s; read as such",
                   m->s->v2 ? "gptq_v2" : "gptq", m->s->v2 ? "gptq" : "gptq_v2");
    }
    return 0;
}

/* The tensors' common sizes. out: *groups; m->w.group and row_bytes set */
static int size_up(struct qmodule *m, int64_t *groups) {
    struct wmat *w = &m->w;
    int64_t bits = (int64_t)w->k * m->s->w.bits;
    *groups = i64_div_up(w->k, w->group);
    w->type = (enum dtype)(DTYPE_W2 + m->s->w.bits - 2);
    w->row_bytes = dtype_row_bytes(w->type, w->k);
    return bits % WORD == 0
               ? 0
               : err_set(ERR_FORMAT, "%s: module \"%s\": %d columns of %d bits end inside a word",
                         m->b->c->path, m->name, w->k, m->s->w.bits);
}

static int bind_gptq_words(struct qmodule *m) {
    struct wmat *w = &m->w;
    const struct tensor *t = NULL;
    int64_t rows = w->row_bytes / 4;
    const struct qwant want = {QTYPE(I32), "I32", 2, {rows, w->n}};
    int rc = qbind_part(m, "qweight", true, &t);
    rc = rc ? rc : qbind_want(m, t, &want);
    uint8_t *dst = rc ? NULL : m->b->alloc(m->b->ctx, w->n * w->row_bytes);
    if (!dst) {
        return rc ? rc : ERR_NOMEM;
    }
    int64_t src_row = 4 * (int64_t)w->n;
    int64_t band = band_rows(src_row, 1);
    for (int64_t r = 0; r < rows; r += band) {
        int64_t n = i64_min(band, rows - r);
        turn(dst + 4 * r, w->row_bytes, t->data + r * src_row, n, w->n, 4);
        file_drop(t->data + r * src_row, n * src_row);
    }
    w->data = dst;
    return 0;
}

int qbind_gptq(struct qmodule *m) {
    const struct tensor *t = NULL;
    int64_t groups = 0;
    int rc = size_up(m, &groups);
    rc = rc ? rc : bind_gptq_words(m);
    rc = rc ? rc : bind_scales(m, groups);
    rc = rc ? rc : bind_gptq_zeros(m, groups);
    rc = rc ? rc : qbind_part(m, "g_idx", false, &t);
    return rc || !t ? rc : qbind_g_idx(m, t, (int32_t)groups, false);
}

/* Where output 8c + j sits in its word: the order's inverse. */
static const uint8_t awq_at[NIBBLES] = {0, 4, 1, 5, 2, 6, 3, 7};

/* Eight inputs of one column of words become one word in each of eight rows. */
static void turn_awq(uint8_t *dst, int64_t dst_row, const uint8_t *src, int64_t n_word) {
    uint32_t in[NIBBLES];
    for (int64_t c = 0; c < n_word; c++) {
        for (int32_t i = 0; i < NIBBLES; i++) {
            memcpy(&in[i], src + (i * n_word + c) * 4, 4);
        }
        for (int32_t j = 0; j < NIBBLES; j++) {
            uint32_t out = 0;
            for (int32_t i = 0; i < NIBBLES; i++) {
                out |= (in[i] >> (4 * awq_at[j]) & 15) << (4 * i);
            }
            memcpy(dst + (NIBBLES * c + j) * dst_row, &out, 4);
        }
    }
}

static int bind_awq_words(struct qmodule *m) {
    struct wmat *w = &m->w;
    const struct tensor *t = NULL;
    const struct qwant want = {QTYPE(I32), "I32", 2, {w->k, w->n / NIBBLES}};
    int rc = qbind_part(m, "qweight", true, &t);
    rc = rc ? rc : qbind_want(m, t, &want);
    uint8_t *dst = rc ? NULL : m->b->alloc(m->b->ctx, w->n * w->row_bytes);
    if (!dst) {
        return rc ? rc : ERR_NOMEM;
    }
    int64_t src_row = 4 * want.dim[1];
    int64_t band = band_rows(src_row, NIBBLES);
    for (int64_t k = 0; k < w->k; k += NIBBLES) {
        turn_awq(dst + k / 2, w->row_bytes, t->data + k * src_row, want.dim[1]);
        if ((k + NIBBLES) % band == 0 || k + NIBBLES == w->k) {
            int64_t from = k / band * band;
            file_drop(t->data + from * src_row, (k + NIBBLES - from) * src_row);
        }
    }
    w->data = dst;
    return 0;
}

static int bind_awq_zeros(struct qmodule *m, int64_t groups) {
    const struct tensor *t = NULL;
    const struct qwant want = {QTYPE(I32), "I32", 2, {groups, m->w.n / NIBBLES}};
    int rc = qbind_part(m, "qzeros", true, &t);
    rc = rc ? rc : qbind_want(m, t, &want);
    int8_t *zero = rc ? NULL : m->b->alloc(m->b->ctx, m->w.n * groups);
    if (!zero) {
        return rc ? rc : ERR_NOMEM;
    }
    for (int64_t g = 0; g < groups; g++) {
        for (int64_t r = 0; r < m->w.n; r++) {
            uint32_t word = 0;
            memcpy(&word, t->data + (g * want.dim[1] + r / NIBBLES) * 4, 4);
            uint32_t u = word >> (4 * awq_at[r % NIBBLES]) & 15;
            zero[r * groups + g] = (int8_t)((int32_t)u - 8);
        }
    }
    m->w.zero = zero;
    return 0;
}

int qbind_awq(struct qmodule *m) {
    int64_t groups = 0;
    int rc = size_up(m, &groups);
    if (!rc && m->w.n % NIBBLES != 0) {
        rc = err_set(ERR_FORMAT, "%s: module \"%s\": %d rows are no multiple of %d", m->b->c->path,
                     m->name, m->w.n, (int)NIBBLES);
    }
    rc = rc ? rc : bind_awq_words(m);
    rc = rc ? rc : bind_scales(m, groups);
    return rc ? rc : bind_awq_zeros(m, groups);
}
