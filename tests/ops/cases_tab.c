/* The table of op cases: which shapes, formats and schemes, their names, tolerances and costs. */
#include <math.h>
#include <stdio.h>

#include "tests/ops/cases.h"
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

/* The group 0 of a format is all columns; a group larger than the row is cut to it. */
static void put_weight(struct list *l, struct op_case c) {
    if (dtype_is_scaled(c.type)) {
        c.group = c.group == 0 ? c.k : i32_min(c.group, c.k);
        c.row_group = c.row_group == CASE_ALL_ROWS ? c.n : i32_min(c.row_group, c.n);
    }
    c.input.group = i32_min(c.input.group, c.k);
    if (dtype_row_bytes(c.type, c.k) > 0) {
        put(l, &c);
    }
}

static void put_matmul(struct list *l, const struct op_case *format) {
    static const int32_t ks[] = {16, 64, 72, 160, 576, 1536};
    static const int32_t ns[] = {1, 3, 5, 384};
    static const int32_t ts[] = {1, 2, 3, 7, 16, 33};
    /* why: these are decoded without vectors, and the cases are to stay quick */
    bool scalar =
        format->type == DTYPE_F64 || (format->type >= DTYPE_Q5_0 && format->type <= DTYPE_MXFP4);
    bool many = dtype_is_scaled(format->type) && format->type != DTYPE_W4;
    bool thin = many || format->input.type != ACTQ_NONE || format->order;
    for (int32_t i = 0; i < ARRAY_LEN(ks) * ARRAY_LEN(ns) * ARRAY_LEN(ts); i += thin ? 5 : 1) {
        struct op_case c = *format;
        c.op = CASE_MATMUL;
        c.n_tok = ts[i % ARRAY_LEN(ts)];
        c.n = ns[i / ARRAY_LEN(ts) % ARRAY_LEN(ns)];
        c.n = scalar ? i32_min(c.n, 96) : c.n;
        c.k = ks[i / ARRAY_LEN(ts) / ARRAY_LEN(ns)];
        c.bias = i % 3 == 1;
        c.accumulate = i % 4 == 2;
        put_weight(l, c);
    }
}

#define I8_TOKEN .input = {.type = ACTQ_I8}
#define F8_TOKEN .input = {.type = ACTQ_F8_E4M3}
#define F4_LOCAL .input = {.type = ACTQ_F4, .group = 16, .global = 700}
#define ALL_ROWS .row_group = CASE_ALL_ROWS
#define BF       .scale_type = DTYPE_BF16

static const struct op_case plain[] = {
    {.type = DTYPE_F32},     {.type = DTYPE_F16},    {.type = DTYPE_BF16},  {.type = DTYPE_Q4_0},
    {.type = DTYPE_Q4_1},    {.type = DTYPE_Q8_0},   {.type = DTYPE_F64},   {.type = DTYPE_Q5_0},
    {.type = DTYPE_Q5_1},    {.type = DTYPE_Q2_K},   {.type = DTYPE_Q3_K},  {.type = DTYPE_Q4_K},
    {.type = DTYPE_Q5_K},    {.type = DTYPE_Q6_K},   {.type = DTYPE_Q8_K},  {.type = DTYPE_IQ4_NL},
    {.type = DTYPE_IQ4_XS},  {.type = DTYPE_TQ1_0},  {.type = DTYPE_TQ2_0}, {.type = DTYPE_MXFP4},
    {.type = DTYPE_NVFP4},   {.type = DTYPE_Q8_1},   {.type = DTYPE_IQ1_S}, {.type = DTYPE_IQ1_M},
    {.type = DTYPE_IQ2_XXS}, {.type = DTYPE_IQ2_XS}, {.type = DTYPE_IQ2_S}, {.type = DTYPE_IQ3_XXS},
    {.type = DTYPE_IQ3_S},
};

/* Weights with scales: dense bits, bytes, small floats; by group, channel, block, tensor. */
static const struct op_case scaled[] = {
    {.type = DTYPE_W4, .group = 32, BF},
    {.type = DTYPE_W4, .group = 64, .scale_type = DTYPE_F16, .zero = true},
    {.type = DTYPE_W4, .group = 0, .scale_type = DTYPE_F32},
    {.type = DTYPE_W4, .group = 8, .scale_type = DTYPE_F16},
    {.type = DTYPE_W4, .group = 32, BF, .zero = true, .order = true},
    {.type = DTYPE_W4, .group = 128, BF, .row_group = 32},
    {.type = DTYPE_W2, .group = 16, .scale_type = DTYPE_F16},
    {.type = DTYPE_W3, .group = 32, BF, .zero = true},
    {.type = DTYPE_W5, .group = 64, BF},
    {.type = DTYPE_W6, .group = 0, .scale_type = DTYPE_F32},
    {.type = DTYPE_W7, .group = 48, BF, .zero = true},
    {.type = DTYPE_W8, .group = 128, BF},
    {.type = DTYPE_W8, .group = 0, .scale_type = DTYPE_F32, .zero = true},
    {.type = DTYPE_W8, .group = 64, .scale_type = DTYPE_F16, .order = true},
    {.type = DTYPE_I8, .group = 0, BF},
    {.type = DTYPE_I8, .group = 0, .scale_type = DTYPE_F32, ALL_ROWS},
    {.type = DTYPE_I8, .group = 32, .scale_type = DTYPE_F8_E8M0, .zero = true},
    {.type = DTYPE_F8_E4M3, .group = 0, BF},
    {.type = DTYPE_F8_E4M3, .group = 128, .scale_type = DTYPE_F32, .row_group = 128},
    {.type = DTYPE_F8_E4M3, .group = 32, BF, .row_group = 32},
    {.type = DTYPE_F8_E4M3, .group = 32, .scale_type = DTYPE_F8_E8M0},
    {.type = DTYPE_F8_E5M2, .group = 0, .scale_type = DTYPE_F16},
    {.type = DTYPE_F4, .group = 16, .scale_type = DTYPE_F8_E4M3, .global = 300},
    {.type = DTYPE_F4, .group = 32, .scale_type = DTYPE_F8_E8M0},
    {.type = DTYPE_F4, .group = 48, .scale_type = DTYPE_F32},
};

/* Products with a quantized input. */
static const struct op_case quantized[] = {
    {.type = DTYPE_I8, .group = 0, BF, I8_TOKEN},
    {.type = DTYPE_I8, .group = 0, BF, .input = {.type = ACTQ_I8, .asymmetric = true}},
    {.type = DTYPE_I8,
     .group = 0,
     .scale_type = DTYPE_F32,
     ALL_ROWS,
     .input = {.type = ACTQ_I8, .is_static = true, .scale = 0.021F}},
    {.type = DTYPE_I8,
     .group = 0,
     .scale_type = DTYPE_F32,
     .zero = true,
     .input = {.type = ACTQ_I8, .is_static = true, .asymmetric = true, .scale = 0.02F, .zero = 9}},
    {.type = DTYPE_I8, .group = 32, BF, .input = {.type = ACTQ_I8, .group = 48}},
    {.type = DTYPE_W8, .group = 128, BF, I8_TOKEN},
    {.type = DTYPE_W8, .group = 0, BF, .order = true, I8_TOKEN},
    {.type = DTYPE_W4, .group = 128, BF, I8_TOKEN},
    {.type = DTYPE_W4, .group = 32, BF, .zero = true, I8_TOKEN},
    {.type = DTYPE_W4,
     .group = 32,
     BF,
     .order = true,
     .input = {.type = ACTQ_I8, .asymmetric = true}},
    {.type = DTYPE_W4, .group = 7, BF, I8_TOKEN},
    {.type = DTYPE_W4, .group = 1, BF, .zero = true, I8_TOKEN},
    {.type = DTYPE_W3, .group = 32, BF, .row_group = 8, I8_TOKEN},
    {.type = DTYPE_F8_E4M3, .group = 0, BF, F8_TOKEN},
    {.type = DTYPE_F8_E4M3,
     .group = 0,
     .scale_type = DTYPE_F32,
     ALL_ROWS,
     .input = {.type = ACTQ_F8_E4M3, .is_static = true, .scale = 0.01F}},
    {.type = DTYPE_F8_E4M3,
     .group = 128,
     .scale_type = DTYPE_F32,
     .row_group = 128,
     .input = {.type = ACTQ_F8_E4M3, .group = 128}},
    {.type = DTYPE_F8_E4M3,
     .group = 32,
     BF,
     .row_group = 32,
     .input = {.type = ACTQ_F8_E4M3, .group = 24}},
    {.type = DTYPE_F8_E5M2, .group = 0, BF, .order = true, F8_TOKEN},
    {.type = DTYPE_W4, .group = 32, BF, .zero = true, F8_TOKEN},
    {.type = DTYPE_F4, .group = 16, .scale_type = DTYPE_F8_E4M3, .global = 300, F4_LOCAL},
    {.type = DTYPE_F4, .group = 32, .scale_type = DTYPE_F8_E8M0, I8_TOKEN},
    {.type = DTYPE_W4, .group = 64, BF, .zero = true, F4_LOCAL},
    {.type = DTYPE_F8_E4M3, .group = 64, BF, F4_LOCAL},
};

static void put_formats(struct list *l) {
    for (int32_t i = 0; i < ARRAY_LEN(plain); i++) {
        put_matmul(l, &plain[i]);
    }
    for (int32_t i = 0; i < ARRAY_LEN(scaled); i++) {
        put_matmul(l, &scaled[i]);
    }
    for (int32_t i = 0; i < ARRAY_LEN(quantized); i++) {
        put_matmul(l, &quantized[i]);
    }
    for (int32_t i = 0; i < ARRAY_LEN(plain) + ARRAY_LEN(scaled); i++) {
        struct op_case c = i < ARRAY_LEN(plain) ? plain[i] : scaled[i - ARRAY_LEN(plain)];
        c.op = CASE_EMBED;
        c.n_tok = 9;
        c.n = 20;
        c.k = 768;
        put_weight(l, c);
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
        if (type == DTYPE_F8_E4M3 && i % 2 == 0) {
            c.k_scale = 0.013F;
            c.v_scale = 0.5F; /* why: the largest values are then clamped */
        }
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
        put_attn(l, CASE_ATTN, dim, h[0], h[1], i % 2 ? DTYPE_BF16 : DTYPE_F8_E4M3);
        put_attn(l, CASE_KV_WRITE, dim, h[0], h[1], i % 2 ? DTYPE_F16 : DTYPE_F32);
        put_attn(l, CASE_KV_WRITE, dim, h[0], h[1], i % 2 ? DTYPE_F8_E4M3 : DTYPE_BF16);
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

static void name_weight(const struct op_case *c, const char *op, char dst[160]) {
    static const char *const acts[] = {"", " x I8", " x F8", " x F4"};
    char groups[48] = "";
    char act[48] = "";
    bool has_scale = dtype_is_scaled(c->type);
    if (has_scale) {
        snprintf(groups, sizeof(groups), " group %dx%d %s", c->row_group, c->group,
                 dtype_info(c->scale_type)->name);
    }
    if (c->input.type != ACTQ_NONE) {
        snprintf(act, sizeof(act), "%s group %d%s%s", acts[c->input.type], c->input.group,
                 c->input.is_static ? " static" : "", c->input.asymmetric ? " asymmetric" : "");
    }
    snprintf(dst, 160, "%s T=%d n=%d k=%d %s%s%s%s%s%s%s", op, c->n_tok, c->n, c->k,
             dtype_info(c->type)->name, groups, c->zero ? " zero" : "", c->order ? " order" : "",
             act, c->bias ? " bias" : "", c->accumulate ? " accumulate" : "");
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
        name_weight(c, names[c->op], dst);
    } else {
        snprintf(dst, 160, "%s T=%d k=%d act %d", names[c->op], c->n_tok, c->k, (int)c->act);
    }
    return dst;
}

double case_tol(const struct op_case *c) {
    int32_t len = 0;
    for (int32_t s = 0; s < c->n_seq; s++) {
        len = i32_max(len, c->len[s]);
    }
    switch (c->op) {
    case CASE_MATMUL:
        return c->input.type == ACTQ_NONE ? tol_dot(c->k) : tol_actq(c->k);
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
