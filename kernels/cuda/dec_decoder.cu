/* The fused decoder: weights on the card, one upload and a chain of launches a step.
 *
 * 1. A step's arrays (ids, positions, slots, block tables) are packed into one pinned buffer and
 *    copied at once. Block tables are cut to the columns that the step uses.
 * 2. A step of decode rows alone is a CUDA graph: made at the first step of its size (rows rounded
 * up by dec_round, columns of the table to a power of two) and launched again for every later one.
 *    Rounding adds rows of position -1, which no kernel follows.
 * 3. Gate and up rows are interleaved, q, k and v rows joined, when the weights are taken in.
 * 4. Up to PERSIST_ROWS decode rows are one kernel, head and picks included (dec_persist.cu).
 * 5. Up to DEC_SKINNY rows: products of our own, which leave h = x w of the next norm and parts of
 * the squares of x; the norm's factor is applied behind the product that reads h. More: cuBLASLt.
 */
#include <new>
#include <string.h>

#include "kernels/cuda/dec_decoder.cuh"
#include "kernels/cuda/dec_persist.cuh"
extern "C" {
#include "engine/base/mem.h"
}

enum {
    GRAPHS_MAX = 96,
    BLOCKS_WANTED = 132 * 10,
    Q = 0,
    K = 1,
    V = 2,
    O = 3,
    GATE = 4,
    UP = 5,
    DOWN = 6
};

struct dec_layer {
    bf16 *qkv;
    bf16 *o;
    bf16 *gate_up;
    bf16 *down;
    float *attn_norm; /* offset added */
    float *mlp_norm;
    float *q_norm; /* NULL: none */
    float *k_norm;
    float *bias; /* [(H + 2K) D] or NULL */
    struct kv_view kv;
    int32_t kv_group;
    int32_t window;
    int32_t rope;
};

struct dec_graph {
    int32_t rows;   /* T of a step, or R of logits */
    int32_t stride; /* 0: of logits */
    cudaGraphExec_t exec;
};

struct decoder_dev {
    struct decoder d;
    struct dec_layer *layer; /* own, [L] */
    bf16 *embed;
    bf16 *head; /* embed when they are one */
    float *head_bias;
    float *final_norm;
    float *rope[2];
    struct dec_gemm *gemm;
    float *x;
    bf16 *h;
    float *part;
    bf16 *qkv;
    bf16 *att;
    bf16 *gu;
    bf16 *act;
    bf16 *out_h;
    float *logit;
    unsigned long long *pick;
    float *partial;
    int32_t *count;
    int32_t split_max;
    int32_t *ints; /* device, the step's arrays */
    int32_t *host; /* pinned, the same */
    int64_t ints_max;
    int32_t *row; /* device [out_max] */
    int32_t *host_row;
    unsigned long long *host_pick;
    cudaEvent_t copied;
    struct persist *persist; /* own, filled but for the step; NULL: not on this card */
    int32_t blocks;          /* of a persistent launch */
    int32_t n_ready;         /* rows whose picks and logits the step itself has made */
    struct dec_graph graph[GRAPHS_MAX];
    int32_t n_graph;
    void *owned[4096]; /* device memory */
    int32_t n_owned;
};

static int dev_alloc(struct decoder_dev *v, int64_t bytes, void **out) {
    if (v->n_owned == (int32_t)(sizeof v->owned / sizeof v->owned[0])) {
        return err_set(ERR_LIMIT, "backend cuda: more than %d arrays of a decoder", v->n_owned);
    }
    int rc = CUDA_CHECK(cudaMalloc(out, (size_t)(bytes > 0 ? bytes : 1)));
    if (!rc) {
        v->owned[v->n_owned++] = *out;
    }
    return rc;
}

template <typename T> static int alloc(struct decoder_dev *v, int64_t n, T **out) {
    return dev_alloc(v, n * (int64_t)sizeof(T), (void **)out);
}

/* A host vector on the card, offset added. NULL stays NULL. */
static int
take_vector(struct decoder_dev *v, const float *host, int32_t n, float offset, float **out) {
    *out = NULL;
    if (!host) {
        return 0;
    }
    float *tmp = (float *)mem_array(MEM_KERNEL, n, (int64_t)sizeof *tmp);
    if (!tmp) {
        return err_set(ERR_NOMEM, "backend cuda: no memory for a vector");
    }
    for (int32_t i = 0; i < n; i++) {
        tmp[i] = host[i] + offset;
    }
    int rc = alloc(v, n, out);
    rc = rc ? rc
            : CUDA_CHECK(cudaMemcpy(*out, tmp, (size_t)n * sizeof *tmp, cudaMemcpyHostToDevice));
    mem_free(tmp);
    return rc;
}

/* Copies the rows of w to dst, every step-th row of dst. */
static int take_rows(bf16 *dst, const struct wmat *w, int32_t step) {
    size_t row = (size_t)w->k * sizeof(bf16);
    return CUDA_CHECK(cudaMemcpy2D(dst, row * (size_t)step, w->data, (size_t)w->row_bytes, row,
                                   (size_t)w->n, cudaMemcpyHostToDevice));
}

static int take_layer(struct decoder_dev *v, const struct decoder_layer *in, struct dec_layer *l) {
    const struct decoder *d = &v->d;
    int64_t E = d->hidden;
    int64_t q = (int64_t)d->n_head * d->head_dim;
    int64_t kv = (int64_t)d->n_kv_head * d->head_dim;
    l->kv = in->kv;
    l->kv_group = in->kv_group;
    l->window = in->window;
    l->rope = in->rope;
    int rc = alloc(v, (q + 2 * kv) * E, &l->qkv);
    rc = rc ? rc : alloc(v, q * E, &l->o);
    rc = rc ? rc : alloc(v, 2 * (int64_t)d->ffn * E, &l->gate_up);
    rc = rc ? rc : alloc(v, (int64_t)d->ffn * E, &l->down);
    rc = rc ? rc : take_rows(l->qkv, &in->lin[Q].w, 1);
    rc = rc ? rc : take_rows(l->qkv + q * E, &in->lin[K].w, 1);
    rc = rc ? rc : take_rows(l->qkv + (q + kv) * E, &in->lin[V].w, 1);
    rc = rc ? rc : take_rows(l->o, &in->lin[O].w, 1);
    rc = rc ? rc : take_rows(l->gate_up, &in->lin[GATE].w, 2);
    rc = rc ? rc : take_rows(l->gate_up + E, &in->lin[UP].w, 2);
    rc = rc ? rc : take_rows(l->down, &in->lin[DOWN].w, 1);
    rc = rc ? rc : take_vector(v, in->attn_norm, d->hidden, d->norm_offset, &l->attn_norm);
    rc = rc ? rc : take_vector(v, in->mlp_norm, d->hidden, d->norm_offset, &l->mlp_norm);
    rc = rc ? rc : take_vector(v, in->q_norm, d->head_dim, d->norm_offset, &l->q_norm);
    rc = rc ? rc : take_vector(v, in->k_norm, d->head_dim, d->norm_offset, &l->k_norm);
    if (!rc && in->lin[Q].bias) {
        float *b = NULL;
        rc = alloc(v, q + 2 * kv, &b);
        const int64_t at[3] = {0, q, q + kv};
        for (int i = Q; i <= V && !rc; i++) {
            rc = CUDA_CHECK(cudaMemcpy(b + at[i], in->lin[i].bias,
                                       (size_t)in->lin[i].w.n * sizeof(float),
                                       cudaMemcpyHostToDevice));
        }
        l->bias = b;
    }
    return rc;
}

static int refuse(const char *what) {
    return err_set(ERR_UNSUPPORTED, "backend cuda: no fused decoder with %s", what);
}

static bool plain(const struct wmat *w) {
    return w->type == DTYPE_BF16 && w->k % 32 == 0 && w->n % 8 == 0 && w->act.type == ACTQ_NONE;
}

static int check_decoder(const struct decoder *d) {
    int32_t group = d->n_head / d->n_kv_head;
    if (d->head_dim != 64 && d->head_dim != 128) {
        return refuse("heads of other sizes than 64 and 128");
    }
    if (group > DEC_GROUP_MAX || d->attn.softcap > 0 || d->logit_softcap > 0) {
        return refuse("more than 8 query heads a kv head, or soft caps");
    }
    if (!plain(&d->embed) || !plain(&d->head.w)) {
        return refuse("tables that are not BF16");
    }
    for (int32_t i = 0; i < d->n_layer; i++) {
        const struct decoder_layer *l = &d->layer[i];
        for (int32_t j = 0; j < DECODER_LINEARS; j++) {
            if (!plain(&l->lin[j].w) || (j >= O && l->lin[j].bias)) {
                return refuse("weights that are not BF16, or biases behind attention");
            }
        }
        if (l->kv.type != DTYPE_BF16) {
            return refuse("a cache that is not BF16");
        }
    }
    return 0;
}

static int take_weights(struct decoder_dev *v, const struct decoder *d) {
    int64_t table = (int64_t)d->vocab * d->hidden;
    int rc = alloc(v, table, &v->embed);
    rc = rc ? rc : take_rows(v->embed, &d->embed, 1);
    v->head = v->embed;
    if (!rc && d->head.w.data != d->embed.data) {
        rc = alloc(v, table, &v->head);
        rc = rc ? rc : take_rows(v->head, &d->head.w, 1);
    }
    rc = rc ? rc : take_vector(v, d->head.bias, d->vocab, 0, &v->head_bias);
    rc = rc ? rc : take_vector(v, d->final_norm, d->hidden, d->norm_offset, &v->final_norm);
    for (int i = 0; i < 2 && !rc; i++) {
        rc = take_vector(v, d->rope[i], d->ctx_max * d->head_dim, 0, &v->rope[i]);
    }
    for (int32_t i = 0; i < d->n_layer && !rc; i++) {
        rc = take_layer(v, &d->layer[i], &v->layer[i]);
    }
    return rc;
}

/* Rows of partial sums of decode attention: every head of every row, for each of its splits. Many
 * rows have few splits. */
static int64_t partial_rows(const struct decoder *d) {
    int64_t group = d->n_head / d->n_kv_head;
    int64_t pairs = (int64_t)d->seq_max * d->n_kv_head;
    return group * (pairs + BLOCKS_WANTED + (int64_t)DEC_SPLIT_MAX * d->n_kv_head);
}

static int make_buffers(struct decoder_dev *v) {
    const struct decoder *d = &v->d;
    int64_t T = d->tok_max;
    int64_t q = (int64_t)d->n_head * d->head_dim;
    int64_t kv = (int64_t)d->n_kv_head * d->head_dim;
    int32_t P = d->layer[0].kv.block_tok;
    v->split_max = DEC_SPLIT_MAX;
    /* why: a table is rounded up to a power of two columns */
    v->ints_max = 8 * T + (int64_t)d->seq_max * (4 * ((int64_t)d->ctx_max / P + 2) + 2);
    int rc = alloc(v, T * d->hidden, &v->x);
    rc = rc ? rc : alloc(v, T * d->hidden, &v->h);
    rc = rc ? rc : alloc(v, (int64_t)DEC_SKINNY * d->hidden / 8, &v->part);
    rc = rc ? rc : alloc(v, T * (q + 2 * kv), &v->qkv);
    rc = rc ? rc : alloc(v, T * q, &v->att);
    rc = rc ? rc : alloc(v, T * 2 * d->ffn, &v->gu);
    rc = rc ? rc : alloc(v, T * d->ffn, &v->act);
    rc = rc ? rc : alloc(v, (int64_t)d->out_max * d->hidden, &v->out_h);
    rc = rc ? rc : alloc(v, (int64_t)d->out_max * d->vocab, &v->logit);
    rc = rc ? rc : alloc(v, d->out_max, &v->pick);
    rc = rc ? rc : alloc(v, partial_rows(d) * (d->head_dim + 2), &v->partial);
    rc = rc ? rc : alloc(v, (int64_t)d->seq_max * d->n_kv_head, &v->count);
    rc = rc ? rc
            : CUDA_CHECK(cudaMemset(v->count, 0,
                                    (size_t)d->seq_max * (size_t)d->n_kv_head * sizeof(int32_t)));
    rc = rc ? rc : alloc(v, v->ints_max, &v->ints);
    rc = rc ? rc : alloc(v, d->out_max, &v->row);
    rc = rc ? rc
            : CUDA_CHECK(cudaMallocHost((void **)&v->host, (size_t)v->ints_max * sizeof(int32_t)));
    rc = rc ? rc
            : CUDA_CHECK(
                  cudaMallocHost((void **)&v->host_row, (size_t)d->out_max * sizeof(int32_t)));
    rc = rc ? rc
            : CUDA_CHECK(cudaMallocHost((void **)&v->host_pick,
                                        (size_t)d->out_max * sizeof *v->host_pick));
    rc = rc ? rc : CUDA_CHECK(cudaEventCreateWithFlags(&v->copied, cudaEventDisableTiming));
    return rc;
}

/* What of a persistent step does not change. out: v->persist NULL where the card or the model is
 * not for it */
static int make_persist(struct decoder_dev *v) {
    const struct decoder *d = &v->d;
    int rc = dec_persist_blocks(d->head_dim, &v->blocks);
    if (rc || v->blocks == 0 || d->n_layer > PERSIST_LAYERS) {
        return rc;
    }
    struct persist *p = new (std::nothrow) persist();
    if (!p) {
        return err_set(ERR_NOMEM, "backend cuda: no memory");
    }
    v->persist = p;
    rc = alloc(v, 2, &p->barrier);
    rc = rc ? rc : CUDA_CHECK(cudaMemset(p->barrier, 0, 2 * sizeof *p->barrier));
    for (int32_t i = 0; i < d->n_layer; i++) {
        const struct dec_layer *l = &v->layer[i];
        p->layer[i] = persist_layer{
            l->qkv,    l->o,    l->gate_up,       l->down, l->attn_norm, l->mlp_norm, l->q_norm,
            l->k_norm, l->bias, v->rope[l->rope], l->kv.k, l->kv.v,      l->window,   l->kv_group};
    }
    p->n_layer = d->n_layer;
    p->n_head = d->n_head;
    p->hidden = d->hidden;
    p->ffn = d->ffn;
    p->vocab = d->vocab;
    p->eps = d->rms_eps;
    p->attn_scale = d->attn.scale;
    p->embed_scale = d->embed_scale;
    p->act = d->act;
    p->kv = v->layer[0].kv;
    p->embed = v->embed;
    p->head = v->head;
    p->head_bias = v->head_bias;
    p->final_norm = v->final_norm;
    p->x = v->x;
    p->h = v->h;
    p->part = v->part;
    p->qkv = v->qkv;
    p->att = v->att;
    p->act_out = v->act;
    p->partial = v->partial;
    p->count = v->count;
    p->logit = v->logit;
    p->pick = v->pick;
    return rc;
}

int cuda_decoder_open(struct backend *be, const struct decoder *d, struct decoder_dev **out) {
    int rc = check_decoder(d);
    if (rc) {
        return rc;
    }
    struct decoder_dev *v = new (std::nothrow) decoder_dev();
    if (!v) {
        return err_set(ERR_NOMEM, "backend cuda: no memory");
    }
    v->d = *d;
    v->layer = new (std::nothrow) dec_layer[d->n_layer]();
    rc = v->layer ? 0 : err_set(ERR_NOMEM, "backend cuda: no memory");
    rc = rc ? rc : take_weights(v, d);
    rc = rc ? rc : make_buffers(v);
    rc = rc ? rc : dec_gemm_open(&v->gemm);
    rc = rc ? rc : make_persist(v);
    if (rc) {
        cuda_decoder_close(be, v);
        return rc;
    }
    *out = v;
    return 0;
}

void cuda_decoder_close(struct backend *be, struct decoder_dev *v) {
    if (!v) {
        return;
    }
    cudaStreamSynchronize(cuda_stream(be));
    for (int32_t i = 0; i < v->n_graph; i++) {
        cudaGraphExecDestroy(v->graph[i].exec);
    }
    for (int32_t i = 0; i < v->n_owned; i++) {
        cudaFree(v->owned[i]);
    }
    cudaFreeHost(v->host);
    cudaFreeHost(v->host_row);
    cudaFreeHost(v->host_pick);
    if (v->copied) {
        cudaEventDestroy(v->copied);
    }
    dec_gemm_close(v->gemm);
    delete v->persist;
    delete[] v->layer;
    delete v;
}

/* Rows of a graph for n decode rows: 1, 2, 4, 8, then multiples of 8, of 16 from 64 on. */
static int32_t dec_round(int32_t n) {
    int32_t up = 1;
    while (up < n && up < 8) {
        up *= 2;
    }
    if (n > 8) {
        up = n <= 64 ? (n + 7) / 8 * 8 : (n + 15) / 16 * 16;
    }
    return up;
}

/* Packs a step of rows rows (padded) and table columns stride. out: ints used, and the device view
 */
static int64_t pack(struct decoder_dev *v,
                    const struct batch *group,
                    int32_t n_group,
                    int32_t rows,
                    int32_t stride,
                    struct dec_batch *b) {
    const struct batch *in = &group[0];
    int32_t seqs = rows > in->n_tok ? rows : in->n_seq;
    int32_t *p = v->host;
    int32_t *tok = p;
    int32_t *pos = tok + rows;
    int32_t *start = pos + rows;
    int32_t *at = start + seqs + 1;
    memcpy(tok, in->tok, (size_t)in->n_tok * sizeof *tok);
    memcpy(pos, in->pos, (size_t)in->n_tok * sizeof *pos);
    memcpy(start, in->seq_start, ((size_t)in->n_seq + 1) * sizeof *start);
    for (int32_t i = in->n_tok; i < rows; i++) {
        tok[i] = 0;
        pos[i] = -1;
    }
    b->n_tok = rows;
    b->n_seq = seqs;
    b->stride = stride;
    b->tok = v->ints + (tok - p);
    b->pos = v->ints + (pos - p);
    b->start = v->ints + (start - p);
    for (int32_t g = 0; g < n_group; g++) {
        const struct batch *o = &group[g];
        memcpy(at, o->slot, (size_t)o->n_tok * sizeof *at);
        b->slot[g] = v->ints + (at - p);
        at += rows;
        b->table[g] = v->ints + (at - p);
        for (int32_t i = 0; i < o->n_seq; i++) {
            int32_t n = stride < o->table_stride ? stride : o->table_stride;
            memcpy(at + (int64_t)i * stride, o->block_table + (int64_t)i * o->table_stride,
                   (size_t)n * sizeof *at);
        }
        at += (int64_t)seqs * stride;
    }
    return at - p;
}

/* A layer with few rows. */
static int skinny_layer(struct decoder_dev *v,
                        cudaStream_t s,
                        int32_t i,
                        const struct dec_batch *b,
                        const struct dec_rope *rope,
                        const struct dec_attn *attn) {
    const struct decoder *d = &v->d;
    const struct dec_layer *l = &v->layer[i];
    struct skinny a = {};
    a.eps = d->rms_eps;
    a.n_tok = b->n_tok;
    a.act = d->act;
    a.n_square = d->hidden / 8;
    struct skinny qkv = a;
    qkv.w = l->qkv;
    qkv.in = v->h;
    qkv.square = v->part;
    qkv.n = (d->n_head + 2 * d->n_kv_head) * d->head_dim;
    qkv.k = d->hidden;
    qkv.bias = l->bias;
    qkv.out = v->qkv;
    struct skinny o = a;
    o.w = l->o;
    o.in = v->att;
    o.n = d->hidden;
    o.k = d->n_head * d->head_dim;
    o.x = v->x;
    o.h = v->h;
    o.next = l->mlp_norm;
    o.part = v->part;
    struct skinny gu = a;
    gu.w = l->gate_up;
    gu.in = v->h;
    gu.square = v->part;
    gu.n = 2 * d->ffn;
    gu.k = d->hidden;
    gu.out = v->act;
    struct skinny down = o;
    down.w = l->down;
    down.in = v->act;
    down.k = d->ffn;
    down.next = i + 1 < d->n_layer ? v->layer[i + 1].attn_norm : v->final_norm;
    int rc = dec_skinny(s, SKINNY_STORE, &qkv);
    rc = rc ? rc : dec_rope(s, rope);
    rc = rc || b->n_decode == 0 ? rc : dec_attn_decode(s, attn);
    rc = rc || b->n_decode == b->n_seq ? rc : dec_attn_prefill(s, attn);
    rc = rc ? rc : dec_skinny(s, SKINNY_ADD, &o);
    rc = rc ? rc : dec_skinny(s, SKINNY_GLU, &gu);
    return rc ? rc : dec_skinny(s, SKINNY_ADD, &down);
}

/* A layer with many rows. */
static int wide_layer(struct decoder_dev *v,
                      cudaStream_t s,
                      int32_t i,
                      const struct dec_batch *b,
                      const struct dec_rope *rope,
                      const struct dec_attn *attn) {
    const struct decoder *d = &v->d;
    const struct dec_layer *l = &v->layer[i];
    int32_t T = b->n_tok;
    int32_t E = d->hidden;
    int32_t q = d->n_head * d->head_dim;
    int32_t n = (d->n_head + 2 * d->n_kv_head) * d->head_dim;
    const struct dec_product qkv = {v->qkv, false, false, v->h, l->qkv, T, n, E};
    const struct dec_product o = {v->x, true, true, v->att, l->o, T, E, q};
    const struct dec_product gu = {v->gu, false, false, v->h, l->gate_up, T, 2 * d->ffn, E};
    const struct dec_product down = {v->x, true, true, v->act, l->down, T, E, d->ffn};
    int rc = dec_norm(s, v->h, v->x, l->attn_norm, NULL, T, E, d->rms_eps, NULL);
    rc = rc ? rc : dec_gemm_run(v->gemm, s, &qkv);
    rc = rc || !l->bias ? rc : dec_bias(s, v->qkv, l->bias, T, n);
    rc = rc ? rc : dec_rope(s, rope);
    rc = rc || b->n_decode == 0 ? rc : dec_attn_decode(s, attn);
    rc = rc || b->n_decode == b->n_seq ? rc : dec_attn_prefill(s, attn);
    rc = rc ? rc : dec_gemm_run(v->gemm, s, &o);
    rc = rc ? rc : dec_norm(s, v->h, v->x, l->mlp_norm, NULL, T, E, d->rms_eps, NULL);
    rc = rc ? rc : dec_gemm_run(v->gemm, s, &gu);
    rc = rc ? rc : dec_glu(s, v->act, v->gu, (int64_t)T * d->ffn, d->act);
    return rc ? rc : dec_gemm_run(v->gemm, s, &down);
}

/* Decode rows alone, and few of them? */
static bool is_persistent(const struct decoder_dev *v, const struct dec_batch *b) {
    return v->persist && b->n_tok == b->n_decode && b->n_tok <= PERSIST_ROWS &&
           b->n_tok <= v->d.out_max;
}

/* Every launch of a step, in order. */
static int launch_step(struct decoder_dev *v,
                       cudaStream_t s,
                       const struct dec_batch *b,
                       int32_t rows_max,
                       int32_t n_split) {
    const struct decoder *d = &v->d;
    bool skinny = b->n_tok <= DEC_SKINNY;
    if (is_persistent(v, b)) {
        v->persist->b = *b;
        v->persist->n_split = n_split;
        return dec_persist(s, v->persist, v->blocks);
    }
    const struct dec_embedding e = {
        v->x,     v->h,      v->part,       skinny ? v->layer[0].attn_norm : NULL, v->embed, b->tok,
        b->n_tok, d->hidden, d->embed_scale};
    int rc = dec_embed(s, &e);
    for (int32_t i = 0; i < d->n_layer && !rc; i++) {
        const struct dec_layer *l = &v->layer[i];
        struct dec_rope rope = {
            v->qkv,   l->q_norm, l->k_norm, v->rope[l->rope], l->kv, b->pos, b->slot[l->kv_group],
            b->n_tok, d->n_head, d->rms_eps};
        struct dec_attn attn = {v->qkv,      v->att,     l->kv,     *b,
                                l->kv_group, d->n_head,  l->window, d->attn.scale,
                                n_split,     v->partial, v->count,  rows_max};
        rc = skinny ? skinny_layer(v, s, i, b, &rope, &attn) : wide_layer(v, s, i, b, &rope, &attn);
    }
    return rc;
}

static cudaGraphExec_t *find_graph(struct decoder_dev *v, int32_t rows, int32_t stride) {
    for (int32_t i = 0; i < v->n_graph; i++) {
        if (v->graph[i].rows == rows && v->graph[i].stride == stride) {
            return &v->graph[i].exec;
        }
    }
    return NULL;
}

/* Ends a capture and keeps it; rc is what the launches said. */
static int keep_graph(struct decoder_dev *v, cudaStream_t s, int32_t rows, int32_t stride, int rc) {
    cudaGraph_t graph = NULL;
    int ended = CUDA_CHECK(cudaStreamEndCapture(s, &graph));
    rc = rc ? rc : ended;
    struct dec_graph *g = &v->graph[v->n_graph];
    *g = dec_graph{rows, stride, NULL};
    rc = rc ? rc : CUDA_CHECK(cudaGraphInstantiate(&g->exec, graph, 0));
    if (graph) {
        cudaGraphDestroy(graph);
    }
    v->n_graph += rc ? 0 : 1;
    return rc;
}

static int begin_capture(cudaStream_t s) {
    return CUDA_CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
}

static int upload(struct decoder_dev *v, cudaStream_t s, int64_t n) {
    return CUDA_CHECK(
        cudaMemcpyAsync(v->ints, v->host, (size_t)n * sizeof(int32_t), cudaMemcpyHostToDevice, s));
}

/* Columns of the block table that the step needs, and its longest chunk. */
static void
measure(const struct batch *b, int32_t P, int32_t *blocks, int32_t *rows_max, int32_t *n_decode) {
    *blocks = 1;
    *rows_max = 0;
    *n_decode = 0;
    for (int32_t i = 0; i < b->n_seq; i++) {
        int32_t rows = b->seq_start[i + 1] - b->seq_start[i];
        int32_t n = (b->ctx_len[i] + P - 1) / P;
        *blocks = n > *blocks ? n : *blocks;
        if (rows == 1 && *n_decode == i) {
            (*n_decode)++;
        } else {
            *rows_max = rows > *rows_max ? rows : *rows_max;
        }
    }
}

/* Splits of decode attention that make so many blocks, none shorter than 64 positions. */
static int32_t splits_for(const struct decoder_dev *v, int32_t rows, int32_t ctx, int32_t blocks) {
    int32_t pairs = rows * v->d.n_kv_head;
    int32_t want = pairs > 0 ? (blocks + pairs - 1) / pairs : 1;
    int32_t most = (ctx + 63) / 64;
    want = want < most ? want : most;
    return want < v->split_max ? want : v->split_max;
}

int cuda_decoder_run(struct backend *be,
                     struct decoder_dev *v,
                     const struct batch *group,
                     int32_t n_group) {
    cudaStream_t s = cuda_stream(be);
    struct dec_batch b = {};
    int32_t P = v->d.layer[0].kv.block_tok;
    int32_t blocks = 0;
    int32_t rows_max = 0;
    int32_t n_decode = 0;
    int32_t stride = 1;
    measure(&group[0], P, &blocks, &rows_max, &n_decode);
    while (stride < blocks) {
        stride *= 2;
    }
    int rc = CUDA_CHECK(cudaEventSynchronize(v->copied)); /* the last upload has read v->host */
    bool all = n_decode == group[0].n_tok;
    int32_t rows = all ? dec_round(n_decode) : group[0].n_tok;
    rows = rows > v->d.seq_max && all ? n_decode : rows;
    int64_t n = pack(v, group, n_group, rows, stride, &b);
    if (!rc && n > v->ints_max) {
        rc = err_set(ERR_INTERNAL, "backend cuda: a step of %lld numbers", (long long)n);
    }
    b.n_decode = all ? rows : n_decode;
    bool persistent = is_persistent(v, &b);
    int32_t wanted = persistent ? v->blocks : BLOCKS_WANTED;
    int32_t n_split = splits_for(v, b.n_decode, stride * P, wanted);
    v->n_ready = persistent ? group[0].n_tok : 0;
    if (rc || !all || v->n_graph == GRAPHS_MAX) {
        rc = rc ? rc : upload(v, s, n);
        rc = rc ? rc : CUDA_CHECK(cudaEventRecord(v->copied, s));
        return rc ? rc : launch_step(v, s, &b, rows_max, n_split);
    }
    cudaGraphExec_t *exec = find_graph(v, rows, stride);
    if (!exec) {
        rc = begin_capture(s);
        if (!rc) {
            rc = upload(v, s, n);
            rc = rc ? rc : launch_step(v, s, &b, 0, n_split);
            rc = keep_graph(v, s, rows, stride, rc);
        }
        exec = find_graph(v, rows, stride);
    }
    rc = rc ? rc : CUDA_CHECK(cudaGraphLaunch(*exec, s));
    return rc ? rc : CUDA_CHECK(cudaEventRecord(v->copied, s));
}

/* The launches of n rows of logits. */
static int launch_logits(struct decoder_dev *v, cudaStream_t s, int32_t n) {
    const struct decoder *d = &v->d;
    int rc = CUDA_CHECK(cudaMemcpyAsync(v->row, v->host_row, (size_t)n * sizeof *v->row,
                                        cudaMemcpyHostToDevice, s));
    rc = rc ? rc
            : dec_norm(s, v->out_h, v->x, v->final_norm, v->row, n, d->hidden, d->rms_eps, v->pick);
    if (n <= DEC_SKINNY) {
        struct skinny a = {};
        a.w = v->head;
        a.in = v->out_h;
        a.n_tok = n;
        a.n = d->vocab;
        a.k = d->hidden;
        a.bias = v->head_bias;
        a.logit = v->logit;
        a.pick = v->pick;
        rc = rc ? rc : dec_skinny(s, SKINNY_LOGIT, &a);
    } else {
        const struct dec_product head = {v->logit, true, false,    v->out_h,
                                         v->head,  n,    d->vocab, d->hidden};
        rc = rc ? rc : dec_gemm_run(v->gemm, s, &head);
        rc = rc ? rc : dec_argmax(s, v->pick, v->logit, n, d->vocab);
    }
    return rc ? rc
              : CUDA_CHECK(cudaMemcpyAsync(v->host_pick, v->pick, (size_t)n * sizeof *v->pick,
                                           cudaMemcpyDeviceToHost, s));
}

static void put_picks(const struct decoder_dev *v, int32_t n, int32_t *pick) {
    for (int32_t i = 0; i < n && pick; i++) {
        unsigned long long k = v->host_pick[i];
        pick[i] = k ? (int32_t)(0xffffffffu - (unsigned)k) : -1;
    }
}

/* Are these the rows of a persistent step, in order? */
static bool is_ready(const struct decoder_dev *v, const int32_t *row, int32_t n) {
    bool ready = n <= v->n_ready;
    for (int32_t i = 0; i < n && ready; i++) {
        ready = row[i] == i;
    }
    return ready;
}

/* Waits for a persistent step and copies what it found. */
static int
take_ready(struct decoder_dev *v, cudaStream_t s, int32_t n, float *logits, int32_t *pick) {
    int rc = CUDA_CHECK(cudaMemcpyAsync(v->host_pick, v->pick, (size_t)n * sizeof *v->pick,
                                        cudaMemcpyDeviceToHost, s));
    if (!rc && logits) {
        rc = CUDA_CHECK(cudaMemcpyAsync(logits, v->logit,
                                        (size_t)n * (size_t)v->d.vocab * sizeof(float),
                                        cudaMemcpyDeviceToHost, s));
    }
    rc = rc ? rc : CUDA_CHECK(cudaStreamSynchronize(s));
    if (!rc) {
        put_picks(v, n, pick);
    }
    return rc;
}

int cuda_decoder_logits(struct backend *be,
                        struct decoder_dev *v,
                        const int32_t *row,
                        int32_t n,
                        float *logits,
                        int32_t *pick) {
    cudaStream_t s = cuda_stream(be);
    if (n > v->d.out_max) {
        return err_set(ERR_RANGE, "backend cuda: %d rows of logits, at most %d", n, v->d.out_max);
    }
    if (n > DEC_SKINNY && v->head_bias) {
        return err_set(ERR_UNSUPPORTED, "backend cuda: a head with biases");
    }
    if (is_ready(v, row, n)) {
        return take_ready(v, s, n, logits, pick);
    }
    memcpy(v->host_row, row, (size_t)n * sizeof *row);
    cudaGraphExec_t *exec = find_graph(v, n, 0);
    int rc = 0;
    if (!exec && v->n_graph < GRAPHS_MAX) {
        rc = begin_capture(s);
        rc = rc ? rc : keep_graph(v, s, n, 0, launch_logits(v, s, n));
        exec = find_graph(v, n, 0);
    }
    if (!rc) {
        rc = exec ? CUDA_CHECK(cudaGraphLaunch(*exec, s)) : launch_logits(v, s, n);
    }
    if (!rc && logits) {
        rc = CUDA_CHECK(cudaMemcpyAsync(logits, v->logit,
                                        (size_t)n * (size_t)v->d.vocab * sizeof(float),
                                        cudaMemcpyDeviceToHost, s));
    }
    rc = rc ? rc : CUDA_CHECK(cudaStreamSynchronize(s));
    if (!rc) {
        put_picks(v, n, pick);
    }
    return rc;
}
