/* The null backend: the engine's data flow with no arithmetic.
 *
 * 1. State travels in the first element of each row; see the header for each op.
 * 2. mix is two rounds of a 64-bit finaliser cut to 24 bits, so a state is exact in f32. */
#include "kernels/null/backend_null.h"

#include <string.h>

#include "engine/base/err.h"
#include "engine/base/mem.h"
#include "engine/base/rng.h"
#include "kernels/host.h"

struct backend {
    int32_t n_vocab; /* rows of the last embedding table */
};

static float mix(float a, float b) {
    uint32_t ua;
    uint32_t ub;
    memcpy(&ua, &a, sizeof(ua));
    memcpy(&ub, &b, sizeof(ub));
    return (float)(rng_keyed(0, ua, ub) >> 40);
}

static int null_open(const struct backend_opts *opts, struct backend **out) {
    int rc = host_check_opts(opts);
    if (rc) {
        return rc;
    }
    struct backend *be = mem_calloc(MEM_KERNEL, (int64_t)sizeof(*be));
    if (!be) {
        return ERR_NOMEM;
    }
    *out = be;
    return 0;
}

static void null_close(struct backend *be) {
    mem_free(be);
}

static const char *null_describe(struct backend *be) {
    (void)be;
    return "null, no arithmetic";
}

static bool null_supports(struct backend *be, enum dtype type) {
    (void)be;
    return (unsigned)type < DTYPE_N;
}

static int null_embed(struct backend *be,
                      float *y,
                      const struct wmat *table,
                      const int32_t *tok,
                      int32_t n_tok,
                      float scale) {
    (void)scale;
    int rc = host_check_tok(table, tok, n_tok);
    if (rc) {
        return rc;
    }
    be->n_vocab = table->n;
    for (int32_t t = 0; t < n_tok; t++) {
        y[(int64_t)t * table->k] = (float)tok[t];
    }
    return 0;
}

static int null_rmsnorm(struct backend *be,
                        float *y,
                        const float *x,
                        const float *w,
                        int32_t n_tok,
                        int32_t dim,
                        float eps,
                        float w_offset) {
    (void)be;
    (void)w;
    (void)eps;
    (void)w_offset;
    for (int32_t t = 0; t < n_tok; t++) {
        y[(int64_t)t * dim] = x[(int64_t)t * dim];
    }
    return 0;
}

static void head_row(float *y, float state, int32_t n) {
    memset(y, 0, (size_t)n * sizeof(float));
    y[(int64_t)mix(state, 0) % n] = NULL_PEAK;
}

static int null_matmul(struct backend *be,
                       float *y,
                       const float *x,
                       const struct wmat *w,
                       const float *bias,
                       int32_t n_tok,
                       bool accumulate) {
    (void)bias;
    for (int32_t t = 0; t < n_tok; t++) {
        float state = x[(int64_t)t * w->k];
        float *out = y + (int64_t)t * w->n;
        if (w->n == be->n_vocab) {
            head_row(out, state, w->n);
        } else {
            *out = accumulate ? mix(*out, state) : state;
        }
    }
    return 0;
}

static int null_norm_rope(struct backend *be,
                          float *x,
                          const float *w,
                          float eps,
                          float w_offset,
                          const float *cos_sin,
                          const int32_t *pos,
                          int32_t n_tok,
                          int32_t n_head,
                          int32_t head_dim) {
    (void)be;
    (void)w;
    (void)eps;
    (void)w_offset;
    (void)cos_sin;
    for (int32_t t = 0; t < n_tok; t++) {
        float *state = x + (int64_t)t * n_head * head_dim;
        *state = mix(*state, (float)pos[t]);
    }
    return 0;
}

static int null_kv_write(struct backend *be,
                         const struct kv_view *kv,
                         const float *k,
                         const float *v,
                         const struct batch *b) {
    (void)be;
    (void)kv;
    (void)k;
    (void)v;
    (void)b;
    return 0;
}

static int null_kv_copy(struct backend *be, const struct kv_view *kv, int32_t src, int32_t dst) {
    (void)be;
    (void)kv;
    (void)src;
    (void)dst;
    return 0;
}

static int null_attn(struct backend *be,
                     float *y,
                     const float *q,
                     const struct kv_view *kv,
                     const struct batch *b,
                     int32_t n_head,
                     const struct attn_args *args) {
    (void)be;
    (void)args;
    for (int32_t t = 0; t < b->n_tok; t++) {
        int64_t at = (int64_t)t * n_head * kv->head_dim;
        y[at] = q[at];
    }
    return 0;
}

static int null_act_mul(
    struct backend *be, float *y, const float *gate, const float *up, int64_t n, enum act act) {
    (void)be;
    (void)up;
    (void)act;
    if (y != gate && n > 0) {
        memmove(y, gate, (size_t)n * sizeof(float));
    }
    return 0;
}

static int null_add(struct backend *be, float *y, const float *x, int64_t n) {
    (void)be;
    for (int64_t i = 0; i < n; i++) {
        y[i] += x[i];
    }
    return 0;
}

static int null_gather(
    struct backend *be, float *y, const float *x, const int32_t *row, int32_t n_row, int32_t dim) {
    (void)be;
    for (int32_t r = 0; r < n_row; r++) {
        y[(int64_t)r * dim] = x[(int64_t)row[r] * dim];
    }
    return 0;
}

static int null_softcap(struct backend *be, float *y, int64_t n, float cap) {
    (void)be;
    (void)y;
    (void)n;
    (void)cap;
    return 0;
}

static int null_route(struct backend *be,
                      const float *logits,
                      int32_t n_tok,
                      int32_t n_expert,
                      int32_t n_used,
                      bool renorm,
                      int32_t *expert,
                      float *weight) {
    (void)be;
    (void)logits;
    (void)n_expert;
    (void)renorm;
    for (int32_t i = 0; i < n_tok * n_used; i++) {
        expert[i] = i % n_used;
        weight[i] = 1;
    }
    return 0;
}

static int null_scatter_add(struct backend *be,
                            float *y,
                            const float *x,
                            const int32_t *row,
                            const float *weight,
                            int32_t n_row,
                            int32_t dim) {
    (void)be;
    (void)weight;
    for (int32_t r = 0; r < n_row; r++) {
        float *state = y + (int64_t)row[r] * dim;
        *state = mix(*state, x[(int64_t)r * dim]);
    }
    return 0;
}

const struct backend_ops backend_null = {
    .name = "null",
    .open = null_open,
    .close = null_close,
    .describe = null_describe,
    .supports_weight = null_supports,
    .supports_kv = null_supports,
    .buf_alloc = host_buf_alloc,
    .buf_free = host_buf_free,
    .copy_in = host_copy,
    .copy_out = host_copy,
    .sync = host_sync,
    .embed = null_embed,
    .rmsnorm = null_rmsnorm,
    .matmul = null_matmul,
    .norm_rope = null_norm_rope,
    .kv_write = null_kv_write,
    .kv_copy = null_kv_copy,
    .attn = null_attn,
    .act_mul = null_act_mul,
    .add = null_add,
    .gather = null_gather,
    .softcap = null_softcap,
    .route = null_route,
    .scatter_add = null_scatter_add,
};
