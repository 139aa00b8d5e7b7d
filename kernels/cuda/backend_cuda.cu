/* The CUDA backend behind struct backend_ops: buffers in managed memory, weights and small host
 * vectors uploaded once and found again by their host address.
 *
 * 1. An upload is keyed by host address and size. The address of weights lives as long as the
 * model; vectors that change between calls (token ids, positions, slots) are copied at every call
 * into arrays of the size that open() was told.
 * 2. Every launch goes to one stream; what the host reads is valid after sync.
 * 3. Models of the usual shape run through the fused decoder (dec_decoder.cu); these single ops
 * serve all others, and the variant "f32". */
#include <new>
#include <stdio.h>
#include <string.h>

#include "kernels/cuda/backend_cuda.h"
#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/dec_decoder.cuh"
extern "C" {
#include "kernels/host.h"
}

enum { UPLOADS_MAX = 1 << 15, TEXT_MAX = 320 };

struct upload {
    const void *host;
    int64_t bytes;
    void *dev;
};

struct backend {
    struct backend_opts opts;
    cudaStream_t stream;
    struct upload *up; /* own, [UPLOADS_MAX] open addressing by host address */
    int32_t n_up;
    int32_t *tok;    /* own, device [n_tok_max]: ids, positions, slots or rows of a call */
    int32_t *pos;    /* own, device [n_tok_max] */
    int32_t *seq_of; /* own, device [n_tok_max] */
    int32_t *table;  /* own, device, grows */
    int64_t table_cap;
    int32_t *host_seq;  /* own, host [n_tok_max] */
    int64_t shared_max; /* bytes of shared memory a block may have */
    char text[TEXT_MAX];
};

static void backend_close(struct backend *be) {
    if (!be) {
        return;
    }
    for (int32_t i = 0; be->up && i < UPLOADS_MAX; i++) {
        if (be->up[i].dev) {
            cudaFree(be->up[i].dev);
        }
    }
    cudaFree(be->tok);
    cudaFree(be->pos);
    cudaFree(be->seq_of);
    cudaFree(be->table);
    if (be->stream) {
        cudaStreamDestroy(be->stream);
    }
    delete[] be->up;
    delete[] be->host_seq;
    delete be;
}

static int open_device(struct backend *be) {
    int n = 0;
    cudaDeviceProp prop;
    if (cudaGetDeviceCount(&n) != cudaSuccess || n < 1) {
        return err_set(ERR_DEVICE, "backend cuda: no card that this driver can use (%s)",
                       cudaGetErrorString(cudaGetLastError()));
    }
    int rc = CUDA_CHECK(cudaGetDeviceProperties(&prop, 0));
    rc = rc ? rc : CUDA_CHECK(cudaStreamCreate(&be->stream));
    size_t bytes = (size_t)be->opts.n_tok_max * sizeof(int32_t);
    rc = rc ? rc : CUDA_CHECK(cudaMalloc(&be->tok, bytes));
    rc = rc ? rc : CUDA_CHECK(cudaMalloc(&be->pos, bytes));
    rc = rc ? rc : CUDA_CHECK(cudaMalloc(&be->seq_of, bytes));
    be->shared_max = (int64_t)prop.sharedMemPerBlockOptin;
    if (!rc) {
        snprintf(be->text, sizeof be->text, "%s, sm_%d%d, %d SMs", prop.name, prop.major,
                 prop.minor, prop.multiProcessorCount);
    }
    return rc;
}

static int backend_open(const struct backend_opts *opts, struct backend **out) {
    int rc = host_check_opts(opts);
    if (!rc && opts->variant && strcmp(opts->variant, "f32") != 0) {
        rc = err_set(ERR_UNSUPPORTED, "backend cuda: variant \"%s\", it has f32 and the default",
                     opts->variant);
    }
    if (rc) {
        return rc;
    }
    struct backend *be = new (std::nothrow) backend();
    if (!be) {
        return err_set(ERR_NOMEM, "backend cuda: no memory");
    }
    be->opts = *opts;
    be->up = new (std::nothrow) upload[UPLOADS_MAX]();
    be->host_seq = new (std::nothrow) int32_t[opts->n_tok_max]();
    rc = be->up && be->host_seq ? open_device(be) : err_set(ERR_NOMEM, "backend cuda: no memory");
    if (rc) {
        backend_close(be);
        return rc;
    }
    *out = be;
    return 0;
}

static const char *describe(struct backend *be) {
    return be->text;
}

static int buf_alloc(struct backend *be, int64_t bytes, void **out) {
    void *p = NULL;
    (void)be;
    int rc = CUDA_CHECK(cudaMallocManaged(&p, (size_t)(bytes > 0 ? bytes : 1)));
    rc = rc ? rc : CUDA_CHECK(cudaMemset(p, 0, (size_t)bytes));
    if (rc) {
        cudaFree(p);
        return rc;
    }
    *out = p;
    return 0;
}

static int cache_alloc(struct backend *be, int64_t bytes, void **out) {
    void *p = NULL;
    int rc = CUDA_CHECK(cudaMalloc(&p, (size_t)(bytes > 0 ? bytes : 1)));
    rc = rc ? rc : CUDA_CHECK(cudaMemsetAsync(p, 0, (size_t)bytes, be->stream));
    if (rc) {
        cudaFree(p);
        return rc;
    }
    *out = p;
    return 0;
}

cudaStream_t cuda_stream(struct backend *be) {
    return be->stream;
}

static bool supports_kv(struct backend *be, enum dtype type) {
    (void)be;
    return type == DTYPE_F32 || type == DTYPE_F16 || type == DTYPE_BF16;
}

/* The variant "f32" keeps to the single ops, whose arithmetic is f32. */
static int decoder_open(struct backend *be, const struct decoder *d, struct decoder_dev **out) {
    if (be->opts.variant && strcmp(be->opts.variant, "f32") == 0) {
        return err_set(ERR_UNSUPPORTED, "backend cuda: variant f32 has no fused decoder");
    }
    return cuda_decoder_open(be, d, out);
}

static void buf_free(struct backend *be, void *p) {
    (void)be;
    cudaFree(p);
}

static int sync_stream(struct backend *be) {
    return CUDA_CHECK(cudaStreamSynchronize(be->stream));
}

static int copy_in(struct backend *be, void *dst, const void *host, int64_t bytes) {
    int rc = CUDA_CHECK(cudaMemcpyAsync(dst, host, (size_t)bytes, cudaMemcpyDefault, be->stream));
    return rc ? rc : sync_stream(be);
}

static int copy_out(struct backend *be, void *host, const void *src, int64_t bytes) {
    return copy_in(be, host, src, bytes);
}

/* The device copy of bytes at host; NULL stays NULL. */
static int resident(struct backend *be, const void *host, int64_t bytes, const void **dev) {
    if (!host) {
        *dev = NULL;
        return 0;
    }
    uint32_t i = (uint32_t)(((uintptr_t)host / 16 * 2654435761u) % UPLOADS_MAX);
    while (be->up[i].dev && (be->up[i].host != host || be->up[i].bytes != bytes)) {
        i = (i + 1) % UPLOADS_MAX;
    }
    if (be->up[i].dev) {
        *dev = be->up[i].dev;
        return 0;
    }
    if (be->n_up >= UPLOADS_MAX / 2) {
        return err_set(ERR_LIMIT, "backend cuda: more than %d arrays", UPLOADS_MAX / 2);
    }
    void *p = NULL;
    int rc = CUDA_CHECK(cudaMalloc(&p, (size_t)bytes));
    rc = rc ? rc : copy_in(be, p, host, bytes);
    if (rc) {
        cudaFree(p);
        return rc;
    }
    be->up[i] = upload{host, bytes, p};
    be->n_up++;
    *dev = p;
    return 0;
}

/* The formats of decode_at; host_supports_weight knows more. */
static bool supports_weight(struct backend *be, enum dtype type) {
    (void)be;
    return type == DTYPE_F32 || type == DTYPE_F16 || type == DTYPE_BF16 || type == DTYPE_Q4_0 ||
           type == DTYPE_Q4_1 || type == DTYPE_Q8_0 || type == DTYPE_W4;
}

/* What decode_at does not know of a matrix whose type it decodes. */
static int check_weight(struct backend *be, const struct wmat *w) {
    int rc = host_check_weight(w);
    if (rc) {
        return rc;
    }
    if (!supports_weight(be, w->type)) {
        return err_set(ERR_UNSUPPORTED, "backend cuda: weight of type %s",
                       dtype_info(w->type)->name);
    }
    const char *what = w->act.type != ACTQ_NONE                      ? "a quantized input"
                       : w->g_idx                                    ? "act-order"
                       : w->row_group != 0                           ? "scales by row group"
                       : w->global != 0                              ? "a global scale"
                       : w->type == DTYPE_W4 && w->k % w->group != 0 ? "a short last group"
                                                                     : NULL;
    return what ? err_set(ERR_UNSUPPORTED, "backend cuda: %s weight with %s",
                          dtype_info(w->type)->name, what)
                : 0;
}

static int check_kv(struct backend *be, const struct kv_view *kv) {
    int rc = host_check_kv(kv);
    if (rc) {
        return rc;
    }
    return supports_kv(be, kv->type)
               ? 0
               : err_set(ERR_UNSUPPORTED,
                         "backend cuda: KV cache of type %s, want F32, F16 or BF16",
                         dtype_info(kv->type)->name);
}

static int resident_weight(struct backend *be, const struct wmat *w, struct wmat *dev) {
    int rc = check_weight(be, w);
    *dev = *w;
    rc = rc ? rc : resident(be, w->data, w->n * w->row_bytes, &dev->data);
    if (!rc && w->type == DTYPE_W4) {
        int64_t n = (int64_t)w->n * (w->k / w->group);
        rc = resident(be, w->scale, n * dtype_info(w->scale_type)->block_bytes, &dev->scale);
        rc = rc ? rc : resident(be, w->zero, n, (const void **)&dev->zero);
    }
    return rc;
}

/* Copies n int32 into a device array of this call. */
static int send(struct backend *be, int32_t *dst, const int32_t *host, int64_t n) {
    return CUDA_CHECK(
        cudaMemcpyAsync(dst, host, (size_t)n * sizeof *host, cudaMemcpyHostToDevice, be->stream));
}

static int embed(struct backend *be,
                 float *y,
                 const struct wmat *table,
                 const int32_t *tok,
                 int32_t n_tok,
                 float scale) {
    struct wmat dev;
    int rc = host_check_tok(table, tok, n_tok);
    rc = rc ? rc : resident_weight(be, table, &dev);
    rc = rc ? rc : send(be, be->tok, tok, n_tok);
    return rc ? rc : cuda_embed(be->stream, y, &dev, be->tok, n_tok, scale);
}

static int rmsnorm(struct backend *be,
                   float *y,
                   const float *x,
                   const float *w,
                   int32_t n_tok,
                   int32_t dim,
                   float eps,
                   float offset) {
    const void *dev = NULL;
    int rc = resident(be, w, dim * (int64_t)sizeof *w, &dev);
    return rc ? rc : cuda_rmsnorm(be->stream, y, x, (const float *)dev, n_tok, dim, eps, offset);
}

static int matmul(struct backend *be,
                  float *y,
                  const float *x,
                  const struct wmat *w,
                  const float *bias,
                  int32_t n_tok,
                  bool accumulate) {
    struct wmat dev;
    const void *b = NULL;
    int rc = resident_weight(be, w, &dev);
    rc = rc ? rc : resident(be, bias, w->n * (int64_t)sizeof *bias, &b);
    return rc ? rc : cuda_matmul(be->stream, y, x, &dev, (const float *)b, n_tok, accumulate);
}

static int norm_rope(struct backend *be,
                     float *x,
                     const float *w,
                     float eps,
                     float offset,
                     const float *cos_sin,
                     const int32_t *pos,
                     int32_t n_tok,
                     int32_t n_head,
                     int32_t D) {
    const void *dev = NULL;
    const void *cs = NULL;
    int rc = host_check_rope(pos, n_tok, D, be->opts.ctx_max);
    rc = rc ? rc : resident(be, w, D * (int64_t)sizeof *w, &dev);
    rc = rc ? rc : resident(be, cos_sin, (int64_t)be->opts.ctx_max * D * 4, &cs);
    rc = rc ? rc : send(be, be->pos, pos, n_tok);
    return rc ? rc
              : cuda_norm_rope(be->stream, x, (const float *)dev, eps, offset, (const float *)cs,
                               be->pos, n_tok, n_head, D);
}

static int kv_write(struct backend *be,
                    const struct kv_view *kv,
                    const float *k,
                    const float *v,
                    const struct batch *b) {
    int rc = check_kv(be, kv);
    rc = rc ? rc : send(be, be->tok, b->slot, b->n_tok);
    return rc ? rc : cuda_kv_write(be->stream, kv, k, v, be->tok, b->n_tok);
}

static int kv_copy(struct backend *be, const struct kv_view *kv, int32_t src, int32_t dst) {
    int rc = check_kv(be, kv);
    if (rc) {
        return rc;
    }
    int64_t bytes =
        (int64_t)kv->n_kv_head * kv->block_tok * kv->head_dim * dtype_info(kv->type)->block_bytes;
    char *k = (char *)kv->k;
    char *v = (char *)kv->v;
    rc = CUDA_CHECK(cudaMemcpyAsync(k + dst * bytes, k + src * bytes, (size_t)bytes,
                                    cudaMemcpyDefault, be->stream));
    return rc ? rc
              : CUDA_CHECK(cudaMemcpyAsync(v + dst * bytes, v + src * bytes, (size_t)bytes,
                                           cudaMemcpyDefault, be->stream));
}

static int grow_table(struct backend *be, int64_t n) {
    if (n <= be->table_cap) {
        return 0;
    }
    cudaFree(be->table);
    be->table = NULL;
    be->table_cap = 0;
    int rc = CUDA_CHECK(cudaMalloc(&be->table, (size_t)n * sizeof(int32_t)));
    be->table_cap = rc ? 0 : n;
    return rc;
}

static int attn(struct backend *be,
                float *y,
                const float *q,
                const struct kv_view *kv,
                const struct batch *b,
                int32_t n_head,
                const struct attn_args *args) {
    int64_t n_table = (int64_t)b->n_seq * b->table_stride;
    struct cuda_batch db = {b->n_tok, 1, b->table_stride, be->pos, be->seq_of, NULL};
    int rc = host_check_attn(kv, b, n_head, be->opts.ctx_max);
    int64_t most = (be->shared_max - 1024) / (int64_t)sizeof(float);
    if (!rc && be->opts.ctx_max > most) {
        rc = err_set(ERR_UNSUPPORTED, "backend cuda: context of %d, at most %lld on this card",
                     be->opts.ctx_max, (long long)most);
    }
    rc = rc ? rc : check_kv(be, kv);
    for (int32_t i = 0; i < b->n_seq && !rc; i++) {
        for (int32_t t = b->seq_start[i]; t < b->seq_start[i + 1]; t++) {
            be->host_seq[t] = i;
        }
        db.ctx_max = b->ctx_len[i] > db.ctx_max ? b->ctx_len[i] : db.ctx_max;
    }
    rc = rc ? rc : grow_table(be, n_table);
    db.block_table = be->table;
    rc = rc ? rc : send(be, be->table, b->block_table, n_table);
    rc = rc ? rc : send(be, be->pos, b->pos, b->n_tok);
    rc = rc ? rc : send(be, be->seq_of, be->host_seq, b->n_tok);
    return rc ? rc : cuda_attn(be->stream, y, q, kv, &db, n_head, args);
}

static int
act_mul(struct backend *be, float *y, const float *gate, const float *up, int64_t n, enum act act) {
    return cuda_act_mul(be->stream, y, gate, up, n, act);
}

static int add(struct backend *be, float *y, const float *x, int64_t n) {
    return cuda_add(be->stream, y, x, n);
}

static int gather(
    struct backend *be, float *y, const float *x, const int32_t *row, int32_t n_row, int32_t dim) {
    int rc = send(be, be->tok, row, n_row);
    return rc ? rc : cuda_gather(be->stream, y, x, be->tok, n_row, dim);
}

extern "C" const struct backend_ops backend_cuda = {
    "cuda",
    backend_open,
    backend_close,
    describe,
    supports_weight,
    supports_kv,
    buf_alloc,
    cache_alloc,
    buf_free,
    copy_in,
    copy_out,
    sync_stream,
    embed,
    rmsnorm,
    matmul,
    norm_rope,
    kv_write,
    kv_copy,
    attn,
    act_mul,
    add,
    gather,
    nullptr, /* softcap, route, scatter_add: not yet */
    nullptr,
    nullptr,
    decoder_open,
    cuda_decoder_close,
    cuda_decoder_run,
    cuda_decoder_logits};
