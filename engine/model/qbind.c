/* Parts, checks and the layouts that are used as they lie.
 *
 *     scale       tensor [1]   channel [n,1]   group [n,k/g]   block [ceil(n/r), ceil(k/c)]
 *     zero point  I8, as the scale; pack-quantized: qbind_pack.c
 *     input       input_scale [1], input_zero_point [1] I8; NVFP4: input_global_scale [1]
 *
 * 1. A scheme's module has exactly its layout's tensors in exactly these shapes.
 * 2. A scale of F32, F16 or BF16 is never zero; one of F8_E4M3 may have been rounded to it.
 * 3. Old symmetric files may hold zero points; they must be zero.
 * 4. gptq, awq and fp8 do not say which modules they quantize: the tensors do. */
#include "engine/model/qbind.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/base/log.h"
#include "engine/model/finite.h"
#include "engine/model/qbind_int.h"

enum { NAME_MAX_ALL = TENSOR_NAME_MAX + 64 };

#define FLOATS (QTYPE(F32) | QTYPE(F16) | QTYPE(BF16))

static const struct tensor *find(const struct ckpt *c, const char *module, const char *part) {
    char name[NAME_MAX_ALL];
    snprintf(name, sizeof name, "%s.%s", module, part);
    return ckpt_find(c, name);
}

int qbind_part(struct qmodule *m, const char *part, bool need, const struct tensor **t) {
    *t = find(m->b->c, m->name, part);
    if (!*t) {
        return need ? err_set(ERR_NOTFOUND, "%s: tensor \"%s.%s\" is missing (%s)", m->b->c->path,
                              m->name, part, m->s->text)
                    : 0;
    }
    m->b->bytes += (*t)->bytes;
    return m->b->check ? finite_check(*t, m->b->c->path) : 0;
}

int qbind_want(const struct qmodule *m, const struct tensor *t, const struct qwant *w) {
    char found[TENSOR_SHAPE_TEXT];
    char want[TENSOR_SHAPE_TEXT];
    if ((w->ok >> t->type & 1) && t->n_dim == w->n_dim &&
        memcmp(t->dim, w->dim, (size_t)w->n_dim * sizeof *w->dim) == 0) {
        return 0;
    }
    return err_set(ERR_FORMAT, "%s: tensor \"%s\": %s %s, want %s %s (%s)", m->b->c->path, t->name,
                   dtype_info(t->type)->name, tensor_shape_text(found, t->dim, t->n_dim), w->types,
                   tensor_shape_text(want, w->dim, w->n_dim), m->s->text);
}

static float number_at(const struct tensor *t, int64_t i) {
    uint16_t h = 0;
    float f = 0;
    if (t->type == DTYPE_F32) {
        memcpy(&f, t->data + 4 * i, 4);
        return f;
    }
    memcpy(&h, t->data + 2 * i, 2);
    return t->type == DTYPE_F16 ? f16_to_f32(h) : bf16_to_f32(h);
}

int qbind_scalar(const struct qmodule *m, const struct tensor *t, float *out) {
    char found[TENSOR_SHAPE_TEXT];
    bool one = t->n_dim <= 2;
    for (int32_t i = 0; i < t->n_dim; i++) {
        one = one && t->dim[i] == 1;
    }
    if (!one || !(FLOATS >> t->type & 1)) {
        return err_set(ERR_FORMAT, "%s: tensor \"%s\": %s %s, want one F32, F16 or BF16",
                       m->b->c->path, t->name, dtype_info(t->type)->name,
                       tensor_shape_text(found, t->dim, t->n_dim));
    }
    float f = number_at(t, 0);
    if (!isfinite(f) || !(f > 0)) {
        return err_set(ERR_NUMERIC, "%s: tensor \"%s\" is %g, want a finite number above 0",
                       m->b->c->path, t->name, (double)f);
    }
    *out = f;
    return 0;
}

const void *qbind_aligned(const struct qmodule *m, const struct tensor *t, int32_t align) {
    if ((uintptr_t)t->data % (uintptr_t)align == 0) {
        return t->data;
    }
    void *copy = m->b->alloc(m->b->ctx, t->bytes);
    return copy ? memcpy(copy, t->data, (size_t)t->bytes) : NULL;
}

int qbind_no_zero(const struct qmodule *m, const struct tensor *t) {
    if (!m->b->check || !(FLOATS >> t->type & 1)) {
        return 0;
    }
    int64_t n = t->bytes / dtype_info(t->type)->block_bytes;
    for (int64_t i = 0; i < n; i++) {
        if (number_at(t, i) == 0) {
            return err_set(ERR_NUMERIC, "%s: tensor \"%s\": scale %lld is zero", m->b->c->path,
                           t->name, (long long)i);
        }
    }
    return 0;
}

void qbind_note(struct qmodule *m, const char *fmt, ...) {
    char text[QBIND_NOTE];
    va_list ap;
    if (m->b->note[0]) {
        return;
    }
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    snprintf(m->b->note, sizeof m->b->note, "%.100s: %.200s", m->name, text);
    log_warn("%s: %s", m->b->c->path, m->b->note);
}

int qbind_g_idx(struct qmodule *m, const struct tensor *t, int32_t n_group, bool unused) {
    const struct qwant want = {QTYPE(I32), "I32", 1, {m->w.k}};
    bool plain = true;
    int32_t n_unused = 0;
    int rc = qbind_want(m, t, &want);
    if (rc) {
        return rc;
    }
    const int32_t *g = qbind_aligned(m, t, 4);
    if (!g) {
        return ERR_NOMEM;
    }
    for (int32_t i = 0; i < m->w.k; i++) {
        plain = plain && g[i] == i / m->w.group;
        n_unused += g[i] == -1;
        if ((g[i] < 0 || g[i] >= n_group) && !(unused && n_unused == i + 1)) {
            return err_set(ERR_FORMAT, "%s: tensor \"%s\": column %d is of group %d, want 0..%d",
                           m->b->c->path, t->name, i, g[i], n_group - 1);
        }
    }
    if (n_unused > 0 && n_unused < m->w.k) {
        return err_set(ERR_FORMAT, "%s: tensor \"%s\": some groups are -1", m->b->c->path, t->name);
    }
    m->w.g_idx = plain || n_unused > 0 ? NULL : g;
    return 0;
}

/* Rows and columns of the scales. */
static void scale_shape(const struct qmodule *m, int64_t dim[2]) {
    const struct wmat *w = &m->w;
    dim[0] = i64_div_up(w->n, w->row_group > 0 ? w->row_group : 1);
    dim[1] = i64_div_up(w->k, w->group);
}

/* A tensor's scale is [1] or a scalar, a channel's may lack the last dimension. */
static void as_stored(const struct qmodule *m, const struct tensor *t, struct qwant *want) {
    bool tensor = m->s->w.strategy == QSTRATEGY_TENSOR;
    scale_shape(m, want->dim);
    want->n_dim = 2;
    if ((tensor || m->s->w.strategy == QSTRATEGY_CHANNEL) && t->n_dim == 1) {
        want->n_dim = 1;
    }
    if (tensor && t->n_dim == 0) {
        want->n_dim = 0;
    }
}

/* The scales of every layout but gptq and awq. */
static int bind_scale(struct qmodule *m) {
    static const struct {
        uint64_t ok;
        const char *types;
    } kinds[] = {{FLOATS, "F32, F16 or BF16"},
                 {QTYPE(F8_E4M3), "F8_E4M3"},
                 {QTYPE(U8) | QTYPE(F8_E8M0), "U8 (E8M0)"}};
    enum qlayout layout = m->s->layout;
    bool mx = layout == QLAYOUT_MXFP4 || layout == QLAYOUT_MXFP8;
    int32_t kind = mx ? 2 : layout == QLAYOUT_NVFP4 ? 1 : 0;
    struct qwant want = {.ok = kinds[kind].ok, .types = kinds[kind].types};
    const struct tensor *t = NULL;
    int rc = qbind_part(m, m->s->scale_inv ? "weight_scale_inv" : "weight_scale", true, &t);
    if (rc) {
        return rc;
    }
    as_stored(m, t, &want);
    rc = qbind_want(m, t, &want);
    rc = rc ? rc : qbind_no_zero(m, t);
    if (!rc && mx && m->b->check) { /* why: stored as U8, where every byte passes */
        struct tensor e8 = *t;
        e8.type = DTYPE_F8_E8M0;
        rc = finite_check(&e8, m->b->c->path);
    }
    if (rc) {
        return rc;
    }
    m->w.scale_type = mx ? DTYPE_F8_E8M0 : t->type;
    m->w.scale = qbind_aligned(m, t, dtype_info(m->w.scale_type)->block_bytes);
    return m->w.scale ? 0 : ERR_NOMEM;
}

/* Zero points in bytes. in: symmetric schemes may hold zeros of any type */
static int bind_zero(struct qmodule *m) {
    struct qwant want = {.ok = QTYPE(I8), .types = "I8"};
    const struct tensor *t = NULL;
    bool asym = m->s->w.asymmetric;
    int rc = qbind_part(m, "weight_zero_point", asym, &t);
    if (rc || !t) {
        return rc;
    }
    for (int64_t i = 0; !asym && i < t->bytes; i++) {
        if (t->data[i] != 0) {
            return err_set(ERR_FORMAT, "%s: tensor \"%s\": byte %lld is not zero, but %s",
                           m->b->c->path, t->name, (long long)i, m->s->text);
        }
    }
    if (!asym) {
        return 0;
    }
    as_stored(m, t, &want);
    rc = qbind_want(m, t, &want);
    if (!rc) {
        m->w.zero = (const int8_t *)t->data;
    }
    return rc;
}

/* Codes that are whole bytes or nibble pairs in the kernels' own order. */
static int bind_codes(struct qmodule *m, const char *part, enum dtype type, const struct qwant *w) {
    const struct tensor *t = NULL;
    int rc = qbind_part(m, part, true, &t);
    rc = rc ? rc : qbind_want(m, t, w);
    if (rc) {
        return rc;
    }
    m->w.type = type == DTYPE_N ? t->type : type;
    m->w.row_bytes = dtype_row_bytes(m->w.type, m->w.k);
    m->w.data = t->data;
    return m->w.row_bytes > 0 ? 0
                              : err_set(ERR_FORMAT, "%s: tensor \"%s\": %d columns, want even",
                                        m->b->c->path, t->name, m->w.k);
}

static int bind_int(struct qmodule *m) {
    const struct qwant want = {QTYPE(I8), "I8", 2, {m->w.n, m->w.k}};
    int rc = bind_codes(m, "weight", DTYPE_I8, &want);
    rc = rc ? rc : bind_scale(m);
    return rc ? rc : bind_zero(m);
}

static int bind_float(struct qmodule *m) {
    bool mx = m->s->layout == QLAYOUT_MXFP8;
    const struct qwant want = {
        QTYPE(F8_E4M3) | (mx ? 0 : QTYPE(F8_E5M2)), "F8_E4M3", 2, {m->w.n, m->w.k}};
    int rc = bind_codes(m, "weight", DTYPE_N, &want);
    rc = rc ? rc : bind_scale(m);
    return rc || mx ? rc : bind_zero(m);
}

static int bind_fp4(struct qmodule *m) {
    const struct qwant want = {QTYPE(U8), "U8", 2, {m->w.n, i64_div_up(m->w.k, 2)}};
    const struct tensor *t = NULL;
    int rc = bind_codes(m, "weight_packed", DTYPE_F4, &want);
    rc = rc ? rc : bind_scale(m);
    if (rc || m->s->layout == QLAYOUT_MXFP4) {
        return rc;
    }
    rc = qbind_part(m, "weight_global_scale", true, &t);
    return rc ? rc : qbind_scalar(m, t, &m->w.global);
}

static int bind_packed(struct qmodule *m) {
    const struct tensor *t = NULL;
    int rc = qbind_pack(m);
    rc = rc ? rc : bind_scale(m);
    rc = rc ? rc : qbind_part(m, "weight_g_idx", false, &t);
    if (!rc && t) {
        rc = qbind_g_idx(m, t, (int32_t)i64_div_up(m->w.k, m->w.group), true);
    }
    return rc;
}

static int bind_static_act(struct qmodule *m) {
    struct actq *a = &m->w.act;
    const struct tensor *t = NULL;
    const struct qwant want = {QTYPE(I8), "I8", 1, {1}};
    int rc = qbind_part(m, "input_scale", true, &t);
    rc = rc ? rc : qbind_scalar(m, t, &a->scale);
    rc = rc ? rc : qbind_part(m, "input_zero_point", a->asymmetric, &t);
    if (rc || !a->asymmetric) {
        return rc;
    }
    rc = qbind_want(m, t, &want);
    if (!rc) {
        a->zero = (int8_t)t->data[0];
    }
    return rc;
}

static int bind_act(struct qmodule *m) {
    const struct qargs *from = &m->s->act;
    const struct tensor *t = NULL;
    if (!m->s->has_act) {
        return 0;
    }
    m->w.act = (struct actq){.type = !from->is_float   ? ACTQ_I8
                                     : from->bits == 8 ? ACTQ_F8_E4M3
                                                       : ACTQ_F4,
                             .is_static = from->dynamic == QDYNAMIC_NO,
                             .asymmetric = from->asymmetric,
                             .group = from->strategy == QSTRATEGY_GROUP ||
                                              from->strategy == QSTRATEGY_TENSOR_GROUP
                                          ? i32_min(from->group, m->w.k)
                                          : 0};
    if (m->w.act.is_static) {
        return bind_static_act(m);
    }
    if (m->w.act.type != ACTQ_F4) {
        return 0;
    }
    int rc = qbind_part(m, "input_global_scale", true, &t);
    return rc ? rc : qbind_scalar(m, t, &m->w.act.global);
}

/* Sets group and row_group. err: ERR_FORMAT for groups that do not divide the columns */
static int set_groups(struct qmodule *m) {
    const struct qargs *a = &m->s->w;
    struct wmat *w = &m->w;
    bool grouped = a->strategy == QSTRATEGY_GROUP || a->strategy == QSTRATEGY_TENSOR_GROUP;
    w->group = grouped || a->strategy == QSTRATEGY_BLOCK ? a->group : w->k;
    w->row_group = a->strategy == QSTRATEGY_TENSOR  ? w->n
                   : a->strategy == QSTRATEGY_BLOCK ? a->rows
                                                    : 0;
    if (grouped && w->k % w->group != 0 && m->s->layout != QLAYOUT_GPTQ) {
        return err_set(ERR_FORMAT, "%s: module \"%s\": %d columns are no multiple of group %d",
                       m->b->c->path, m->name, w->k, w->group);
    }
    w->group = i32_min(w->group, w->k); /* one block, larger than the matrix */
    w->row_group = i32_min(w->row_group, w->n);
    return 0;
}

enum qlayout qbind_stored(const struct ckpt *c, const char *module) {
    const struct tensor *t = find(c, module, "qweight");
    if (t) { /* AutoAWQ has no order of columns */
        return find(c, module, "g_idx") ? QLAYOUT_GPTQ : QLAYOUT_AWQ;
    }
    t = find(c, module, "weight_packed");
    const struct tensor *scale = find(c, module, "weight_scale");
    bool e8 = scale && (scale->type == DTYPE_U8 || scale->type == DTYPE_F8_E8M0);
    if (t) {
        return t->type == DTYPE_I32 ? QLAYOUT_PACK : e8 ? QLAYOUT_MXFP4 : QLAYOUT_NVFP4;
    }
    t = find(c, module, "weight");
    if (!t) {
        return QLAYOUT_N;
    }
    if (t->type == DTYPE_I8) {
        return QLAYOUT_INT;
    }
    bool f8 = t->type == DTYPE_F8_E4M3 || t->type == DTYPE_F8_E5M2;
    return !f8 ? QLAYOUT_DENSE : e8 ? QLAYOUT_MXFP8 : QLAYOUT_FLOAT;
}

/* Rule 4, and routers. */
int qbind_scheme(const struct ckpt *c,
                 const struct qformat *q,
                 const char *module,
                 const char *cls,
                 bool may_be_dense,
                 const struct qscheme **s) {
    const struct qscheme *found = NULL;
    enum qlayout stored = qbind_stored(c, module);
    bool plain = stored == QLAYOUT_DENSE || stored == QLAYOUT_N;
    int rc = qformat_find(q, module, cls, &found);
    if (rc || q->n_scheme == 0) {
        *s = rc ? *s : NULL;
        return rc;
    }
    if (q->method != QMETHOD_CT && strcmp(cls, "Linear") == 0) {
        found = plain ? NULL : found ? found : &q->scheme[0];
    }
    if (may_be_dense && stored == QLAYOUT_DENSE) {
        found = NULL;
    }
    if (!found && !plain) {
        return err_set(ERR_FORMAT,
                       "%s: module \"%s\" is stored quantized, but quantization_config leaves it "
                       "dense",
                       c->path, module);
    }
    *s = found;
    return 0;
}

int qbind_module(struct qbind *b,
                 const char *module,
                 const char *cls,
                 bool may_be_dense,
                 int32_t n,
                 int32_t k,
                 const struct qscheme **s,
                 struct wmat *w) {
    static int (*const bind[QLAYOUT_N])(struct qmodule *) = {
        [QLAYOUT_PACK] = bind_packed, [QLAYOUT_INT] = bind_int,   [QLAYOUT_FLOAT] = bind_float,
        [QLAYOUT_NVFP4] = bind_fp4,   [QLAYOUT_MXFP4] = bind_fp4, [QLAYOUT_MXFP8] = bind_float,
        [QLAYOUT_GPTQ] = qbind_gptq,  [QLAYOUT_AWQ] = qbind_awq};
    const struct qscheme *found = NULL;
    int rc = qbind_scheme(b->c, b->q, module, cls, may_be_dense, &found);
    if (rc || !found) {
        *s = rc ? *s : NULL;
        return rc;
    }
    struct qmodule m = {.b = b, .name = module, .s = found, .w = {.n = n, .k = k}};
    rc = set_groups(&m);
    rc = rc ? rc : bind[found->layout](&m);
    rc = rc ? rc : bind_act(&m);
    if (!rc) {
        *w = m.w;
        *s = found;
    }
    return rc;
}

int qbind_kv_scale(struct qbind *b, const char *module, const char *part, float *out) {
    static const struct qscheme cache = {.text = "kv_cache_scheme"};
    struct qmodule m = {.b = b, .name = module, .s = &cache};
    const struct tensor *t = NULL;
    char old[] = "?_proj.output_scale"; /* the name before compressed-tensors 0.7 */
    old[0] = part[0];
    bool is_old = !find(b->c, module, part) && find(b->c, module, old);
    int rc = qbind_part(&m, is_old ? old : part, true, &t);
    return rc ? rc : qbind_scalar(&m, t, out);
}
