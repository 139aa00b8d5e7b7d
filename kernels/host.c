/* The floor under the backends that compute in ordinary memory.
 *
 * 1. A check walks counts and ids, never activations, and costs O(rows of the batch).
 * 2. Sizes of a weight come from a file, so its rows are proven to hold k elements before any
 *    decoder runs; after that the decoders check nothing. */
#include "kernels/host.h"

#include <math.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/base/mem.h"
#include "kernels/scaled.h"

int host_buf_alloc(struct backend *be, int64_t bytes, void **out) {
    (void)be;
    void *p = mem_calloc(MEM_KERNEL, bytes);
    if (!p) {
        return ERR_NOMEM;
    }
    *out = p;
    return 0;
}

void host_buf_free(struct backend *be, void *p) {
    (void)be;
    mem_free(p);
}

int host_copy(struct backend *be, void *dst, const void *src, int64_t bytes) {
    (void)be;
    if (bytes > 0) {
        memcpy(dst, src, (size_t)bytes);
    }
    return 0;
}

int host_sync(struct backend *be) {
    (void)be;
    return 0;
}

int host_kv_copy(struct backend *be, const struct kv_view *kv, int32_t src, int32_t dst) {
    (void)be;
    int rc = host_check_kv(kv);
    if (rc) {
        return rc;
    }
    if (src < 0 || dst < 0 || src == dst) {
        return err_set(ERR_RANGE, "copy of cache block %d to %d", src, dst);
    }
    int64_t bytes = dtype_row_bytes(kv->type, kv->head_dim) * kv->n_kv_head * kv->block_tok;
    uint8_t *k = kv->k;
    uint8_t *v = kv->v;
    memcpy(k + dst * bytes, k + src * bytes, (size_t)bytes);
    memcpy(v + dst * bytes, v + src * bytes, (size_t)bytes);
    return 0;
}

/* One row of route. Comparisons are false for NaN, so the choice is distinct whatever the row. */
static void route_row(const float *logits,
                      int32_t n_expert,
                      int32_t n_used,
                      bool renorm,
                      int32_t *expert,
                      float *weight) {
    bool taken[OPS_EXPERT_MAX] = {false};
    double max = (double)logits[0];
    double all = 0;
    double used = 0;
    for (int32_t i = 1; i < n_expert; i++) {
        max = (double)logits[i] > max ? (double)logits[i] : max;
    }
    for (int32_t i = 0; i < n_expert; i++) {
        all += exp((double)logits[i] - max);
    }
    for (int32_t j = 0; j < n_used; j++) {
        int32_t best = -1;
        for (int32_t i = 0; i < n_expert; i++) {
            if (!taken[i] && (best < 0 || logits[i] > logits[best])) {
                best = i;
            }
        }
        taken[best] = true;
        expert[j] = best;
        used += exp((double)logits[best] - max);
    }
    for (int32_t j = 0; j < n_used; j++) {
        weight[j] = (float)(exp((double)logits[expert[j]] - max) / (renorm ? used : all));
    }
}

int host_route(struct backend *be,
               const float *logits,
               int32_t n_tok,
               int32_t n_expert,
               int32_t n_used,
               bool renorm,
               int32_t *expert,
               float *weight) {
    (void)be;
    if (n_used < 1 || n_used > n_expert || n_expert > OPS_EXPERT_MAX) {
        return err_set(ERR_RANGE, "%d of %d experts, want 1 of at most %d", n_used, n_expert,
                       (int)OPS_EXPERT_MAX);
    }
    for (int32_t t = 0; t < n_tok; t++) {
        route_row(logits + (int64_t)t * n_expert, n_expert, n_used, renorm,
                  expert + (int64_t)t * n_used, weight + (int64_t)t * n_used);
    }
    return 0;
}

bool host_supports_weight(struct backend *be, enum dtype type) {
    (void)be;
    return (unsigned)type < DTYPE_N && (dtype_info(type)->is_weight || dtype_is_scaled(type));
}

bool host_supports_kv(struct backend *be, enum dtype type) {
    (void)be;
    return type == DTYPE_F32 || type == DTYPE_F16 || type == DTYPE_BF16 || type == DTYPE_F8_E4M3;
}

int host_check_kv(const struct kv_view *kv) {
    if (!host_supports_kv(NULL, kv->type)) {
        return err_set(ERR_UNSUPPORTED, "KV cache of type %s, want F32, F16, BF16 or F8_E4M3",
                       (unsigned)kv->type < DTYPE_N ? dtype_info(kv->type)->name : "?");
    }
    const float scale[2] = {kv->k_scale, kv->v_scale};
    for (int32_t i = 0; i < 2; i++) {
        bool set = scale[i] != 0;
        if (set && (kv->type != DTYPE_F8_E4M3 || !isfinite(scale[i]) || scale[i] < 0)) {
            return err_set(ERR_RANGE, "%s cache with a %c scale of %g, want %s",
                           dtype_info(kv->type)->name, "kv"[i], (double)scale[i],
                           kv -> type == DTYPE_F8_E4M3 ? "a finite one above 0" : "none");
        }
    }
    return 0;
}

int host_check_opts(const struct backend_opts *opts) {
    const struct {
        const char *name;
        int32_t value;
        int32_t min;
    } field[] = {
        {"n_threads", opts->n_threads, 0},   {"n_tok_max", opts->n_tok_max, 1},
        {"k_max", opts->k_max, 1},           {"ctx_max", opts->ctx_max, 1},
        {"n_head_max", opts->n_head_max, 1},
    };
    for (int32_t i = 0; i < ARRAY_LEN(field); i++) {
        if (field[i].value < field[i].min) {
            return err_set(ERR_RANGE, "backend option %s is %d, want at least %d", field[i].name,
                           field[i].value, field[i].min);
        }
    }
    return 0;
}

int host_check_weight(const struct wmat *w) {
    if ((unsigned)w->type >= DTYPE_N || !host_supports_weight(NULL, w->type)) {
        return err_set(
            ERR_UNSUPPORTED,
            "weight of type %s, want a float of 16, 32 or 64 bits, a scaled type or a block format "
            "of kernels/dtype.h",
            (unsigned)w->type < DTYPE_N ? dtype_info(w->type)->name : "?");
    }
    int64_t need = w->k > 0 ? dtype_row_bytes(w->type, w->k) : -1;
    if (w->n < 1 || need < 0 || w->row_bytes < need || !w->data) {
        return err_set(ERR_RANGE, "%s weight [%d,%d] with rows of %lld bytes, want %lld",
                       dtype_info(w->type)->name, w->n, w->k, (long long)w->row_bytes,
                       (long long)need);
    }
    if (dtype_is_scaled(w->type)) {
        return scaled_check(w);
    }
    if (w->act.type != ACTQ_NONE) {
        return err_set(ERR_UNSUPPORTED,
                       "%s weight [%d,%d] with a quantized input, want a scaled type",
                       dtype_info(w->type)->name, w->n, w->k);
    }
    return 0;
}

int host_check_tok(const struct wmat *table, const int32_t *tok, int32_t n_tok) {
    for (int32_t t = 0; t < n_tok; t++) {
        if (tok[t] < 0 || tok[t] >= table->n) {
            return err_set(ERR_RANGE, "token %d in row %d, want 0 to %d", tok[t], t, table->n - 1);
        }
    }
    return 0;
}

int host_check_rope(const int32_t *pos, int32_t n_tok, int32_t head_dim, int32_t ctx_max) {
    if (head_dim < 2 || head_dim % 2 != 0 || head_dim > HOST_HEAD_DIM_MAX) {
        return err_set(ERR_UNSUPPORTED, "head size %d, want an even number up to %d", head_dim,
                       (int)HOST_HEAD_DIM_MAX);
    }
    for (int32_t t = 0; t < n_tok; t++) {
        if (pos[t] < 0 || pos[t] >= ctx_max) {
            return err_set(ERR_RANGE, "position %d in row %d, want 0 to %d", pos[t], t,
                           ctx_max - 1);
        }
    }
    return 0;
}

static int check_rows(const struct kv_view *kv, const struct batch *b, int32_t ctx_max) {
    int64_t table_tok = (int64_t)b->table_stride * kv->block_tok;
    for (int32_t t = 0; t < b->n_tok; t++) {
        if (b->pos[t] < 0 || b->pos[t] >= ctx_max || b->pos[t] >= table_tok) {
            return err_set(ERR_RANGE, "position %d in row %d, want below %d and %lld", b->pos[t], t,
                           ctx_max, (long long)table_tok);
        }
    }
    return 0;
}

int host_check_attn(const struct kv_view *kv,
                    const struct batch *b,
                    int32_t n_head,
                    int32_t ctx_max) {
    int rc = host_check_kv(kv);
    if (rc) {
        return rc;
    }
    if (kv->head_dim < 1 || kv->head_dim > HOST_HEAD_DIM_MAX || kv->block_tok < 1) {
        return err_set(ERR_UNSUPPORTED, "head size %d in blocks of %d tokens, want 1 to %d",
                       kv->head_dim, kv->block_tok, (int)HOST_HEAD_DIM_MAX);
    }
    if (kv->n_kv_head < 1 || n_head < 1 || n_head % kv->n_kv_head != 0) {
        return err_set(ERR_RANGE, "%d query heads do not divide over %d KV heads", n_head,
                       kv->n_kv_head);
    }
    return check_rows(kv, b, ctx_max);
}
