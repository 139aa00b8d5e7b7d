/* The random inputs of an op case, and how a case runs on any backend.
 *
 * 1. A case depends on (case, seed) alone. Inputs go through buf_alloc and copy_in, so a backend
 *    with memory of its own runs the same cases.
 * 2. A case can be run on a range of its rows; an attention case then gets a batch of the sequences
 *    that have rows there. Rows must come out with the same bits (law 5 of kernels/ops.h).
 * 3. Sequences lie in blocks drawn at random, so that nothing works by contiguity. */
#include "tests/ops/cases.h"

#include <math.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/base/mem.h"
#include "engine/base/rng.h"

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

/* Codes of one row of a scaled type: any bits, but for fp8, where those of a bell. */
static void fill_codes(struct rng *r, enum dtype type, uint8_t *p, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        if (type == DTYPE_F8_E4M3) {
            p[i] = f32_to_f8_e4m3((float)(bell(r) * 60));
        } else if (type == DTYPE_F8_E5M2) {
            p[i] = (uint8_t)(f32_to_f16((float)(bell(r) * 60)) >> 8);
        } else {
            p[i] = (uint8_t)(rng_u64(r) >> 32);
        }
    }
}

/* One scale that brings weights of the type to about 0.1. */
static void fill_scale(struct rng *r, const struct op_case *c, uint8_t *p) {
    static const double code_size[DTYPE_N] = {
        [DTYPE_W2] = 1,   [DTYPE_W3] = 2,       [DTYPE_W4] = 5,      [DTYPE_W5] = 9,
        [DTYPE_W6] = 18,  [DTYPE_W7] = 37,      [DTYPE_W8] = 74,     [DTYPE_I8] = 74,
        [DTYPE_F4] = 2.5, [DTYPE_F8_E4M3] = 60, [DTYPE_F8_E5M2] = 60};
    float f = (float)(bell(r) * 0.1 / code_size[c->type] * (c->global > 0 ? (double)c->global : 1));
    if (c->scale_type == DTYPE_F32) {
        memcpy(p, &f, sizeof(f));
    } else if (c->scale_type == DTYPE_F8_E4M3) {
        *p = f32_to_f8_e4m3(f);
    } else if (c->scale_type == DTYPE_F8_E8M0) {
        *p = (uint8_t)(f32_to_bf16(fabsf(f)) >> 7);
    } else {
        put_half(p, c->scale_type, f);
    }
}

static int make_scales(const struct op_case *c, struct rng *r, struct case_data *d) {
    int64_t n_group = i64_div_up(c->k, c->group);
    int64_t n = (c->row_group ? i64_div_up(c->n, c->row_group) : c->n) * n_group;
    int32_t bytes = dtype_info(c->scale_type)->block_bytes;
    d->scale = mem_array(MEM_TEST, n, bytes);
    d->zero = mem_calloc(MEM_TEST, n);
    d->g_idx = mem_array(MEM_TEST, c->k, (int64_t)sizeof(int32_t));
    if (!d->scale || !d->zero || !d->g_idx) {
        return ERR_NOMEM;
    }
    for (int64_t i = 0; i < n; i++) {
        fill_scale(r, c, d->scale + i * bytes);
        d->zero[i] = (int8_t)(rng_below(r, 16) - 8);
    }
    for (int32_t i = 0; i < c->k; i++) {
        d->g_idx[i] = (int32_t)rng_below(r, n_group);
    }
    d->mat.scale = d->scale;
    d->mat.scale_type = c->scale_type;
    d->mat.zero = c->zero ? d->zero : NULL;
    d->mat.group = c->group;
    d->mat.row_group = c->row_group;
    d->mat.global = c->global;
    d->mat.g_idx = c->order ? d->g_idx : NULL;
    d->mat.act = c->input;
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
        if (dtype_is_scaled(c->type)) {
            fill_codes(r, c->type, d->bytes + n * row, row);
        } else {
            fill_row(r, c->type, d->bytes + n * row, c->k);
        }
    }
    d->mat =
        (struct wmat){.type = c->type, .n = c->n, .k = c->k, .data = d->bytes, .row_bytes = row};
    int rc = dtype_is_scaled(c->type) ? make_scales(c, r, d) : 0;
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
        } else if (c->type == DTYPE_F8_E4M3) {
            d->cache_k[i] = f32_to_f8_e4m3(c->k_scale > 0 ? k / c->k_scale : k);
            d->cache_v[i] = f32_to_f8_e4m3(c->v_scale > 0 ? v / c->v_scale : v);
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
    void *const all[] = {d->x,     d->x2,   d->w,       d->angle,   d->tok,   d->pos,  d->bytes,
                         d->scale, d->zero, d->cache_k, d->cache_v, d->table, d->g_idx};
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
                             .block_tok = c->block_tok,
                             .k_scale = c->k_scale,
                             .v_scale = c->v_scale};
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
    int32_t size = dtype_info(type)->block_bytes;
    const uint8_t *src = (const uint8_t *)(out + n) - n * size;
    for (int64_t i = 0; i < n; i++) {
        uint16_t h = 0;
        memcpy(&h, src + i * size, (size_t)size);
        if (size == 1) {
            out[i] = f8_e4m3_to_f32((uint8_t)h);
        } else {
            out[i] = type == DTYPE_F16 ? f16_to_f32(h) : bf16_to_f32(h);
        }
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
