/* The table of op cases, their random inputs, and how a case runs on any backend.
 *
 * 1. A case depends on (case, seed) alone. Inputs go through buf_alloc and copy_in, so a backend
 *    with memory of its own runs the same cases.
 * 2. A case can be run on a range of its rows; an attention case then gets a batch of the sequences
 *    that have rows there. Rows must come out with the same bits (law 5 of kernels/ops.h).
 * 3. Sequences lie in blocks drawn at random, so that nothing works by contiguity. */
#include "tests/ops/cases.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/base/mem.h"
#include "engine/base/rng.h"
#include "tests/support/tol.h"

struct list {
    struct op_case *dst;
    int32_t n;
};

static void put(struct list *l, const struct op_case *c) {
    if (l->n < CASES_MAX) {
        l->dst[l->n++] = *c;
    }
}

static void put_matmul(struct list *l, const struct op_case *format) {
    static const int32_t ks[] = {16, 64, 72, 160, 576, 1536};
    static const int32_t ns[] = {1, 3, 5, 384};
    static const int32_t ts[] = {1, 2, 3, 7, 16, 33};
    /* why: these are decoded without vectors, and the cases are to stay quick */
    bool scalar =
        format->type == DTYPE_F64 || (format->type >= DTYPE_Q5_0 && format->type <= DTYPE_MXFP4);
    for (int32_t i = 0; i < ARRAY_LEN(ks) * ARRAY_LEN(ns) * ARRAY_LEN(ts); i++) {
        struct op_case c = *format;
        c.op = CASE_MATMUL;
        c.n_tok = ts[i % ARRAY_LEN(ts)];
        c.n = ns[i / ARRAY_LEN(ts) % ARRAY_LEN(ns)];
        c.n = scalar ? i32_min(c.n, 96) : c.n;
        c.k = ks[i / ARRAY_LEN(ts) / ARRAY_LEN(ns)];
        c.bias = i % 3 == 1;
        c.accumulate = i % 4 == 2;
        c.group = c.type == DTYPE_W4 && c.group == 0 ? c.k : c.group;
        bool fits = c.type == DTYPE_W4 ? c.k % c.group == 0 : dtype_row_bytes(c.type, c.k) > 0;
        if (fits) {
            put(l, &c);
        }
    }
}

static void put_formats(struct list *l) {
    static const struct op_case formats[] = {
        {.type = DTYPE_F32},
        {.type = DTYPE_F16},
        {.type = DTYPE_BF16},
        {.type = DTYPE_Q4_0},
        {.type = DTYPE_Q4_1},
        {.type = DTYPE_Q8_0},
        {.type = DTYPE_F64},
        {.type = DTYPE_Q5_0},
        {.type = DTYPE_Q5_1},
        {.type = DTYPE_Q2_K},
        {.type = DTYPE_Q3_K},
        {.type = DTYPE_Q4_K},
        {.type = DTYPE_Q5_K},
        {.type = DTYPE_Q6_K},
        {.type = DTYPE_Q8_K},
        {.type = DTYPE_IQ4_NL},
        {.type = DTYPE_IQ4_XS},
        {.type = DTYPE_TQ1_0},
        {.type = DTYPE_TQ2_0},
        {.type = DTYPE_MXFP4},
        {.type = DTYPE_NVFP4},
        {.type = DTYPE_Q8_1},
        {.type = DTYPE_IQ1_S},
        {.type = DTYPE_IQ1_M},
        {.type = DTYPE_IQ2_XXS},
        {.type = DTYPE_IQ2_XS},
        {.type = DTYPE_IQ2_S},
        {.type = DTYPE_IQ3_XXS},
        {.type = DTYPE_IQ3_S},
        {.type = DTYPE_W4, .group = 32, .scale_type = DTYPE_BF16},
        {.type = DTYPE_W4, .group = 64, .scale_type = DTYPE_F16, .zero = true},
        {.type = DTYPE_W4, .group = 0, .scale_type = DTYPE_F32},
        {.type = DTYPE_W4, .group = 8, .scale_type = DTYPE_F16},
    };
    for (int32_t i = 0; i < ARRAY_LEN(formats); i++) {
        put_matmul(l, &formats[i]);
    }
    for (int32_t i = 0; i < ARRAY_LEN(formats) - 1; i++) {
        struct op_case c = formats[i];
        c.op = CASE_EMBED;
        c.n_tok = 9;
        c.n = 20;
        c.k = 768;
        c.group = c.type == DTYPE_W4 && c.group == 0 ? c.k : c.group;
        put(l, &c);
    }
}

static void put_attn(struct list *l,
                     enum case_op op,
                     int32_t dim,
                     int32_t heads,
                     int32_t kv_heads,
                     enum dtype type) {
    static const struct op_case layouts[] = {
        {.n_seq = 1, .rows = {1}, .len = {1}, .block_tok = 16},
        {.n_seq = 1, .rows = {1}, .len = {203}, .block_tok = 16},
        {.n_seq = 1, .rows = {33}, .len = {33}, .block_tok = 16},
        {.n_seq = 1, .rows = {50}, .len = {177}, .block_tok = 16, .window = 24},
        {.n_seq = 4, .rows = {1, 1, 7, 17}, .len = {40, 1, 7, 90}, .block_tok = 4},
        {.n_seq = 3, .rows = {1, 2, 12}, .len = {65, 30, 70}, .block_tok = 32, .softcap = 2},
        {.n_seq = 2, .rows = {5, 6}, .len = {5, 50}, .block_tok = 5, .window = 3},
    };
    for (int32_t i = 0; i < ARRAY_LEN(layouts); i++) {
        struct op_case c = layouts[i];
        c.op = op;
        c.head_dim = dim;
        c.n_head = heads;
        c.n_kv_head = kv_heads;
        c.type = type;
        for (int32_t s = 0; s < c.n_seq; s++) {
            c.n_tok += c.rows[s];
        }
        put(l, &c);
    }
}

static void put_heads(struct list *l) {
    static const int32_t dims[] = {8, 16, 32, 64, 128, 80};
    static const int32_t heads[][2] = {{4, 4}, {9, 3}, {8, 1}};
    for (int32_t i = 0; i < ARRAY_LEN(dims) * ARRAY_LEN(heads); i++) {
        int32_t dim = dims[i / ARRAY_LEN(heads)];
        const int32_t *h = heads[i % ARRAY_LEN(heads)];
        put_attn(l, CASE_ATTN, dim, h[0], h[1], DTYPE_F32);
        put_attn(l, CASE_ATTN, dim, h[0], h[1], DTYPE_F16);
        put_attn(l, CASE_KV_WRITE, dim, h[0], h[1], i % 2 ? DTYPE_F16 : DTYPE_F32);
        struct op_case rope = {.op = CASE_NORM_ROPE, .n_tok = 13, .n_head = h[0], .head_dim = dim};
        put(l, &rope);
        rope.norm = true;
        put(l, &rope);
        rope.n_tok = 200;
        put(l, &rope);
    }
}

static void put_rows(struct list *l) {
    static const int32_t ks[] = {1, 16, 72, 576, 1536};
    static const int32_t ts[] = {1, 7, 40};
    for (int32_t i = 0; i < ARRAY_LEN(ks) * ARRAY_LEN(ts); i++) {
        struct op_case c = {.n_tok = ts[i % ARRAY_LEN(ts)], .k = ks[i / ARRAY_LEN(ts)]};
        static const enum case_op ops[] = {CASE_RMSNORM, CASE_ADD, CASE_GATHER, CASE_SOFTCAP,
                                           CASE_ACT_MUL};
        for (int32_t j = 0; j < ARRAY_LEN(ops); j++) {
            c.op = ops[j];
            put(l, &c);
        }
        c.act = ACT_GELU_TANH;
        put(l, &c);
    }
}

int32_t cases_all(struct op_case *dst) {
    struct list l = {.dst = dst};
    put_formats(&l);
    put_heads(&l);
    put_rows(&l);
    return l.n;
}

char *case_name(const struct op_case *c, char dst[160]) {
    static const char *const names[CASE_N] = {"matmul",   "embed",  "rmsnorm", "norm_rope",
                                              "kv_write", "attn",   "act_mul", "add",
                                              "gather",   "softcap"};
    bool heads = c->op == CASE_ATTN || c->op == CASE_KV_WRITE || c->op == CASE_NORM_ROPE;
    if (heads) {
        snprintf(dst, 160, "%s T=%d B=%d S=%d H=%d K=%d D=%d P=%d %s%s window %d cap %g",
                 names[c->op], c->n_tok, c->n_seq, c->len[0], c->n_head, c->n_kv_head, c->head_dim,
                 c->block_tok, dtype_info(c->type)->name, c->norm ? " norm" : "", c->window,
                 (double)c->softcap);
    } else if (c->op == CASE_MATMUL || c->op == CASE_EMBED) {
        snprintf(dst, 160, "%s T=%d n=%d k=%d %s group %d %s%s%s%s", names[c->op], c->n_tok, c->n,
                 c->k, dtype_info(c->type)->name, c->group,
                 c->type == DTYPE_W4 ? dtype_info(c->scale_type)->name : "", c->zero ? " zero" : "",
                 c->bias ? " bias" : "", c->accumulate ? " accumulate" : "");
    } else {
        snprintf(dst, 160, "%s T=%d k=%d act %d", names[c->op], c->n_tok, c->k, (int)c->act);
    }
    return dst;
}

/* A random number of mean 0 and deviation 1 in -3..3. why: three uniform numbers out of one draw
 * are near enough to a bell, and the cases draw many millions */
static double bell(struct rng *r) {
    uint64_t u = rng_u64(r);
    uint64_t mask = (1U << 21) - 1;
    double sum = (double)((u & mask) + (u >> 21 & mask) + (u >> 42 & mask));
    return sum * 0x1p-20 - 3;
}

static float *normal(struct rng *r, int64_t n, double sd) {
    float *p = mem_array(MEM_TEST, n, (int64_t)sizeof(float));
    for (int64_t i = 0; p && i < n; i++) {
        p[i] = (float)(bell(r) * sd);
    }
    return p;
}

static void put_half(uint8_t *p, enum dtype type, float f) {
    uint16_t h = type == DTYPE_BF16 ? f32_to_bf16(f) : f32_to_f16(f);
    memcpy(p, &h, sizeof(h));
}

/* The f16 numbers of a block: bytes from its start, and their deviation, which brings weights to
 * about 0.2. */
static const struct {
    enum dtype type;
    int32_t at;
    double sd;
} scales[] = {
    {DTYPE_Q4_0, 0, 0.05},    {DTYPE_Q4_1, 0, 0.05},   {DTYPE_Q4_1, 2, 0.1},
    {DTYPE_Q8_0, 0, 0.003},   {DTYPE_Q5_0, 0, 0.02},   {DTYPE_Q5_1, 0, 0.02},
    {DTYPE_Q5_1, 2, 0.1},     {DTYPE_Q2_K, 80, 0.02},  {DTYPE_Q2_K, 82, 0.02},
    {DTYPE_Q3_K, 108, 0.005}, {DTYPE_Q4_K, 0, 1e-3},   {DTYPE_Q4_K, 2, 5e-3},
    {DTYPE_Q5_K, 0, 5e-4},    {DTYPE_Q5_K, 2, 5e-3},   {DTYPE_Q6_K, 208, 2e-4},
    {DTYPE_IQ4_NL, 0, 3e-3},  {DTYPE_IQ4_XS, 0, 3e-4}, {DTYPE_TQ1_0, 52, 0.2},
    {DTYPE_TQ2_0, 64, 0.2},   {DTYPE_Q8_1, 0, 0.003},  {DTYPE_IQ1_S, 0, 0.03},
    {DTYPE_IQ2_XXS, 0, 4e-3}, {DTYPE_IQ2_XS, 0, 4e-3}, {DTYPE_IQ2_S, 0, 4e-3},
    {DTYPE_IQ3_XXS, 0, 2e-3}, {DTYPE_IQ3_S, 0, 1e-3},
};

static void fill_scales(struct rng *r, enum dtype type, uint8_t *block) {
    for (int32_t i = 0; i < ARRAY_LEN(scales); i++) {
        if (scales[i].type == type) {
            put_half(block + scales[i].at, type, (float)(bell(r) * scales[i].sd));
        }
    }
    if (type == DTYPE_MXFP4) {
        block[0] = (uint8_t)(122 + rng_below(r, 4));
    }
    for (int32_t i = 0; i < 4 && type == DTYPE_NVFP4; i++) {
        block[i] = (uint8_t)(8 + rng_below(r, 16));
    }
    uint16_t h = f32_to_f16((float)(bell(r) * 0.03));
    for (int32_t i = 0; i < 4 && type == DTYPE_IQ1_M; i++) {
        block[49 + 2 * i] = (uint8_t)((block[49 + 2 * i] & 15) | (h >> (4 * i) & 15) << 4);
    }
}

/* Fills one weight row of a plain or block format. */
static void fill_row(struct rng *r, enum dtype type, uint8_t *p, int32_t k) {
    int32_t block = dtype_info(type)->block;
    int32_t bytes = dtype_info(type)->block_bytes;
    for (int32_t i = 0; i < k; i += block, p += bytes) {
        for (int32_t j = 0; j < bytes && block > 1; j++) {
            p[j] = (uint8_t)(rng_u64(r) >> 32);
        }
        float f = (float)(bell(r) * 0.05);
        double d = (double)f;
        if (type == DTYPE_F32 || type == DTYPE_Q8_K) {
            f = type == DTYPE_F32 ? f : f / 16;
            memcpy(p, &f, sizeof(f));
        } else if (type == DTYPE_F64) {
            memcpy(p, &d, sizeof(d));
        } else if (type == DTYPE_F16 || type == DTYPE_BF16) {
            put_half(p, type, f);
        }
        fill_scales(r, type, p);
    }
}

static int make_scales(const struct op_case *c, struct rng *r, struct case_data *d) {
    int64_t n = (int64_t)c->n * (c->k / c->group);
    d->scale = mem_array(MEM_TEST, n, 4);
    d->zero = mem_calloc(MEM_TEST, n);
    if (!d->scale || !d->zero) {
        return ERR_NOMEM;
    }
    for (int64_t i = 0; i < n; i++) {
        float f = (float)(bell(r) * 0.02);
        if (c->scale_type == DTYPE_F32) {
            memcpy(d->scale + i * 4, &f, sizeof(f));
        } else {
            put_half(d->scale + i * 2, c->scale_type, f);
        }
        d->zero[i] = (int8_t)(rng_below(r, 16) - 8);
    }
    d->mat.scale = d->scale;
    d->mat.scale_type = c->scale_type;
    d->mat.zero = c->zero ? d->zero : NULL;
    d->mat.group = c->group;
    return 0;
}

static int make_weight(const struct op_case *c, struct rng *r, struct case_data *d) {
    int64_t row = dtype_row_bytes(c->type, c->k);
    d->bytes = mem_array(MEM_TEST, c->n, row);
    float *tmp = mem_array(MEM_TEST, c->k, (int64_t)sizeof(float));
    if (!d->bytes || !tmp) {
        mem_free(tmp);
        return ERR_NOMEM;
    }
    for (int32_t n = 0; n < c->n; n++) {
        fill_row(r, c->type, d->bytes + n * row, c->k);
    }
    d->mat =
        (struct wmat){.type = c->type, .n = c->n, .k = c->k, .data = d->bytes, .row_bytes = row};
    int rc = c->type == DTYPE_W4 ? make_scales(c, r, d) : 0;
    double sum = 0;
    int32_t n_seen = i32_min(c->n, 8);
    for (int32_t n = 0; n < n_seen && !rc; n++) {
        ref_decode(&d->mat, n, 0, c->k, tmp);
        for (int32_t i = 0; i < c->k; i++) {
            sum += (double)tmp[i] * (double)tmp[i];
        }
    }
    d->size = 1 + sqrt(sum / n_seen);
    mem_free(tmp);
    return rc;
}

static void make_batch_data(const struct op_case *c, struct rng *r, struct case_data *d) {
    int32_t n_block = c->n_seq * d->stride;
    for (int32_t i = 0; i < n_block; i++) {
        int32_t j = (int32_t)rng_below(r, i + 1);
        d->table[i] = d->table[j];
        d->table[j] = i;
    }
    int32_t t = 0;
    for (int32_t s = 0; s < c->n_seq; s++) {
        for (int32_t i = 0; i < c->rows[s]; i++) {
            d->pos[t++] = c->len[s] - c->rows[s] + i;
        }
    }
}

static int make_cache(const struct op_case *c, struct rng *r, struct case_data *d) {
    int32_t len = 0;
    for (int32_t s = 0; s < c->n_seq; s++) {
        len = i32_max(len, c->len[s]);
    }
    d->stride = (int32_t)i64_div_up(len, c->block_tok);
    int64_t n = (int64_t)c->n_seq * d->stride * c->n_kv_head * c->block_tok * c->head_dim;
    d->table = mem_array(MEM_TEST, (int64_t)c->n_seq * d->stride, (int64_t)sizeof(int32_t));
    d->cache_bytes = n * dtype_info(c->type)->block_bytes;
    d->cache_k = mem_calloc(MEM_TEST, d->cache_bytes);
    d->cache_v = mem_calloc(MEM_TEST, d->cache_bytes);
    if (!d->table || !d->cache_k || !d->cache_v) {
        return ERR_NOMEM;
    }
    for (int64_t i = 0; i < n; i++) {
        float k = (float)bell(r);
        float v = (float)bell(r);
        if (c->type == DTYPE_F32) {
            memcpy(d->cache_k + i * 4, &k, sizeof(k));
            memcpy(d->cache_v + i * 4, &v, sizeof(v));
        } else {
            put_half(d->cache_k + i * 2, c->type, k);
            put_half(d->cache_v + i * 2, c->type, v);
        }
    }
    make_batch_data(c, r, d);
    return 0;
}

/* Floats of one row of x and of the result. */
static void row_sizes(const struct op_case *c, int32_t *in, int32_t *out) {
    *in = c->k;
    *out = c->k;
    if (c->op == CASE_MATMUL) {
        *out = c->n;
    } else if (c->op == CASE_KV_WRITE) {
        *in = c->n_kv_head * c->head_dim;
        *out = *in;
    } else if (c->op == CASE_ATTN || c->op == CASE_NORM_ROPE) {
        *in = c->n_head * c->head_dim;
        *out = *in;
    }
}

int case_make(const struct op_case *c, uint64_t seed, struct case_data *d) {
    struct rng r;
    int32_t in = 0;
    rng_init(&r, seed, (uint64_t)c->op);
    *d = (struct case_data){.size = 4};
    row_sizes(c, &in, &d->out_dim);
    int32_t small = i32_max(i32_max(c->n, c->k), c->head_dim);
    int64_t angles = c->op == CASE_NORM_ROPE ? (int64_t)CASE_CTX_MAX * c->head_dim : 1;
    d->x = normal(&r, (int64_t)c->n_tok * in, 1);
    d->x2 = normal(&r, (int64_t)c->n_tok * i32_max(d->out_dim, in), 1);
    d->w = normal(&r, small, 1);
    d->angle = normal(&r, angles, 1);
    d->tok = mem_array(MEM_TEST, c->n_tok, (int64_t)sizeof(int32_t));
    d->pos = mem_array(MEM_TEST, c->n_tok, (int64_t)sizeof(int32_t));
    int rc = d->x && d->x2 && d->w && d->angle && d->tok && d->pos ? 0 : ERR_NOMEM;
    for (int32_t t = 0; t < c->n_tok && !rc; t++) {
        d->tok[t] = (int32_t)rng_below(&r, c->op == CASE_EMBED ? c->n : c->n_tok);
        d->pos[t] = (int32_t)rng_below(&r, CASE_CTX_MAX);
    }
    for (int64_t i = 0; i + 1 < angles && !rc; i++) {
        d->angle[i] = (i % c->head_dim) * 2 < c->head_dim ? cosf((float)i) : sinf((float)i);
    }
    if (!rc && (c->op == CASE_MATMUL || c->op == CASE_EMBED)) {
        rc = make_weight(c, &r, d);
    }
    if (!rc && (c->op == CASE_ATTN || c->op == CASE_KV_WRITE)) {
        rc = make_cache(c, &r, d);
    }
    if (rc) {
        case_drop(d);
    }
    return rc;
}

void case_drop(struct case_data *d) {
    void *const all[] = {d->x,     d->x2,    d->w,    d->angle,   d->tok,     d->pos,
                         d->bytes, d->scale, d->zero, d->cache_k, d->cache_v, d->table};
    for (int32_t i = 0; i < ARRAY_LEN(all); i++) {
        mem_free(all[i]);
    }
    *d = (struct case_data){0};
}

/* The batch of rows t0..t1-1: sequences without a row there are left out. */
static int load_batch(struct case_run *r) {
    const struct op_case *c = r->c;
    const struct case_data *d = r->d;
    int32_t n = r->t1 - r->t0;
    int64_t ints = 3 * (int64_t)n + 2 * CASE_SEQ_MAX + 2 + (int64_t)CASE_SEQ_MAX * d->stride;
    r->ints = mem_array(MEM_TEST, ints, (int64_t)sizeof(int32_t));
    if (!r->ints) {
        return ERR_NOMEM;
    }
    struct batch *b = &r->b;
    *b = (struct batch){.n_tok = n, .table_stride = d->stride, .tok = r->ints};
    b->pos = b->tok + n;
    b->slot = b->pos + n;
    b->seq_start = b->slot + n;
    b->ctx_len = b->seq_start + CASE_SEQ_MAX + 1;
    b->block_table = b->ctx_len + CASE_SEQ_MAX;
    int32_t first = 0;
    for (int32_t s = 0; s < c->n_seq; first += c->rows[s], s++) {
        int32_t lo = i32_max(first, r->t0);
        int32_t hi = i32_min(first + c->rows[s], r->t1);
        if (lo >= hi) {
            continue;
        }
        int32_t *table = b->block_table + (int64_t)b->n_seq * d->stride;
        memcpy(table, d->table + (int64_t)s * d->stride, (size_t)d->stride * sizeof(int32_t));
        b->seq_start[b->n_seq] = lo - r->t0;
        b->ctx_len[b->n_seq++] = d->pos[hi - 1] + 1;
        for (int32_t t = lo; t < hi; t++) {
            int32_t p = d->pos[t];
            b->pos[t - r->t0] = p;
            b->slot[t - r->t0] = table[p / c->block_tok] * c->block_tok + p % c->block_tok;
        }
    }
    b->seq_start[b->n_seq] = n;
    return 0;
}

static int upload(struct case_run *r, const void *host, int64_t bytes, void **out) {
    int rc = r->ops->buf_alloc(r->be, bytes, out);
    return rc ? rc : r->ops->copy_in(r->be, *out, host, bytes);
}

static int load_cache(struct case_run *r) {
    const struct op_case *c = r->c;
    r->kv = (struct kv_view){.type = c->type,
                             .n_kv_head = c->n_kv_head,
                             .head_dim = c->head_dim,
                             .block_tok = c->block_tok};
    int rc = upload(r, r->d->cache_k, r->d->cache_bytes, &r->kv.k);
    rc = rc ? rc : upload(r, r->d->cache_v, r->d->cache_bytes, &r->kv.v);
    return rc ? rc : load_batch(r);
}

int case_load(const struct op_case *c,
              const struct case_data *d,
              const struct backend_ops *ops,
              struct backend *be,
              int32_t t0,
              int32_t t1,
              struct case_run *r) {
    *r = (struct case_run){.c = c, .d = d, .ops = ops, .be = be, .t0 = t0, .t1 = t1};
    int32_t in = 0;
    int32_t out = 0;
    row_sizes(c, &in, &out);
    int64_t rows = t1 - t0;
    int64_t in_bytes = rows * in * (int64_t)sizeof(float);
    int64_t out_bytes = rows * out * (int64_t)sizeof(float);
    void *x = NULL;
    void *x2 = NULL;
    void *y = NULL;
    bool whole_x = c->op == CASE_GATHER; /* rows are taken from all of x */
    int rc = upload(r, whole_x ? d->x : d->x + (int64_t)t0 * in,
                    whole_x ? (int64_t)c->n_tok * in * (int64_t)sizeof(float) : in_bytes, &x);
    rc = rc ? rc : upload(r, d->x2 + (int64_t)t0 * out, out_bytes, &x2);
    rc = rc ? rc : upload(r, d->x2 + (int64_t)t0 * out, out_bytes, &y);
    r->x = x;
    r->x2 = x2;
    r->y = y;
    if (!rc && (c->op == CASE_ATTN || c->op == CASE_KV_WRITE)) {
        rc = load_cache(r);
    }
    if (rc) {
        case_unload(r);
    }
    return rc;
}

void case_unload(struct case_run *r) {
    void *const all[] = {r->x, r->x2, r->y, r->kv.k, r->kv.v};
    for (int32_t i = 0; i < ARRAY_LEN(all); i++) {
        if (all[i]) {
            r->ops->buf_free(r->be, all[i]);
        }
    }
    mem_free(r->ints);
    *r = (struct case_run){0};
}

static int exec_heads(struct case_run *r) {
    const struct op_case *c = r->c;
    const struct case_data *d = r->d;
    if (c->op == CASE_NORM_ROPE) {
        return r->ops->norm_rope(r->be, r->x, c->norm ? d->w : NULL, 1e-5F, 0.5F, d->angle,
                                 d->pos + r->t0, r->t1 - r->t0, c->n_head, c->head_dim);
    }
    if (c->op == CASE_KV_WRITE) {
        return r->ops->kv_write(r->be, &r->kv, r->x, r->x2, &r->b);
    }
    struct attn_args args = {.window = c->window, .softcap = c->softcap};
    args.scale = 1.0F / sqrtf((float)c->head_dim);
    return r->ops->attn(r->be, r->y, r->x, &r->kv, &r->b, c->n_head, &args);
}

int case_exec(struct case_run *r) {
    const struct op_case *c = r->c;
    const struct case_data *d = r->d;
    const struct backend_ops *o = r->ops;
    int32_t n = r->t1 - r->t0;
    switch (c->op) {
    case CASE_MATMUL:
        return o->matmul(r->be, r->y, r->x, &d->mat, c->bias ? d->w : NULL, n, c->accumulate);
    case CASE_EMBED:
        return o->embed(r->be, r->y, &d->mat, d->tok + r->t0, n, 1.5F);
    case CASE_RMSNORM:
        return o->rmsnorm(r->be, r->y, r->x, d->w, n, c->k, 1e-5F, 1);
    case CASE_ACT_MUL:
        return o->act_mul(r->be, r->y, r->x, r->x2, (int64_t)n * c->k, c->act);
    case CASE_ADD:
        return o->add(r->be, r->y, r->x, (int64_t)n * c->k);
    case CASE_GATHER:
        return o->gather(r->be, r->y, r->x, d->tok + r->t0, n, c->k);
    case CASE_SOFTCAP:
        return o->softcap(r->be, r->y, (int64_t)n * c->k, 0.75F);
    case CASE_NORM_ROPE:
    case CASE_KV_WRITE:
    case CASE_ATTN:
        return exec_heads(r);
    case CASE_N:
        break;
    }
    return err_set(ERR_INTERNAL, "case op %d", (int)c->op);
}

int64_t case_out_floats(const struct case_run *r) {
    if (r->c->op == CASE_KV_WRITE) {
        return 2 * r->d->cache_bytes / dtype_info(r->c->type)->block_bytes;
    }
    return (int64_t)(r->t1 - r->t0) * r->d->out_dim;
}

/* Cache bytes at the tail of out, widened in place from the front. */
static void widen(enum dtype type, float *out, int64_t n) {
    if (type == DTYPE_F32) {
        return;
    }
    const uint8_t *src = (const uint8_t *)(out + n) - n * 2;
    for (int64_t i = 0; i < n; i++) {
        uint16_t h;
        memcpy(&h, src + i * 2, sizeof(h));
        out[i] = f16_to_f32(h);
    }
}

int case_read(struct case_run *r, float *out) {
    int64_t n = case_out_floats(r);
    if (r->c->op != CASE_KV_WRITE) {
        const float *y = r->c->op == CASE_NORM_ROPE ? r->x : r->y;
        return r->ops->copy_out(r->be, out, y, n * (int64_t)sizeof(float));
    }
    int64_t half = n / 2;
    int64_t bytes = r->d->cache_bytes;
    int rc = r->ops->copy_out(r->be, (uint8_t *)(out + half) - bytes, r->kv.k, bytes);
    rc = rc ? rc : r->ops->copy_out(r->be, (uint8_t *)(out + n) - bytes, r->kv.v, bytes);
    widen(r->c->type, out, half);
    widen(r->c->type, out + half, half);
    return rc;
}

double case_tol(const struct op_case *c) {
    int32_t len = 0;
    for (int32_t s = 0; s < c->n_seq; s++) {
        len = i32_max(len, c->len[s]);
    }
    switch (c->op) {
    case CASE_MATMUL:
        return tol_dot(c->k);
    case CASE_RMSNORM:
        return tol_norm(c->k);
    case CASE_NORM_ROPE:
        return tol_norm(c->head_dim);
    case CASE_ATTN:
        return tol_attn(c->head_dim, len);
    case CASE_ACT_MUL:
    case CASE_SOFTCAP:
        return tol_act();
    case CASE_EMBED:
    case CASE_ADD:
        return tol_elem();
    case CASE_KV_WRITE:
    case CASE_GATHER:
    case CASE_N:
        break;
    }
    return 0;
}

/* Positions seen by all rows of an attention case. */
static double pairs_seen(const struct op_case *c) {
    double n = 0;
    for (int32_t s = 0; s < c->n_seq; s++) {
        for (int32_t i = 0; i < c->rows[s]; i++) {
            int32_t seen = c->len[s] - c->rows[s] + i + 1;
            n += c->window > 0 ? i32_min(seen, c->window) : seen;
        }
    }
    return n;
}

double case_flops(const struct op_case *c) {
    if (c->op == CASE_MATMUL) {
        return 2.0 * c->n_tok * c->n * c->k;
    }
    return c->op == CASE_ATTN ? 4.0 * pairs_seen(c) * c->n_head * c->head_dim : 0;
}

double case_bytes(const struct op_case *c, const struct case_data *d) {
    if (c->op == CASE_MATMUL) {
        return (double)d->mat.row_bytes * c->n;
    }
    if (c->op == CASE_ATTN) {
        double pos = 0;
        for (int32_t s = 0; s < c->n_seq; s++) {
            pos += c->len[s];
        }
        return 2 * pos * c->n_kv_head * c->head_dim * dtype_info(c->type)->block_bytes;
    }
    return 2.0 * c->n_tok * d->out_dim * (double)sizeof(float);
}
