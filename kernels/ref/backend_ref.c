/* The reference backend: opening, closing and the table of its ops.
 *
 * 1. One thread; every sum in double in ascending order; one rounding per result.
 * 2. Workspace is one decoded weight row, one row of scores, and a few quantized input rows, sized
 *    by open. */
#include "kernels/ref/backend_ref.h"

#include "engine/base/err.h"
#include "engine/base/mem.h"
#include "kernels/host.h"
#include "kernels/ref/ref_int.h"

static void ref_close(struct backend *be) {
    if (!be) {
        return;
    }
    mem_free(be->row);
    mem_free(be->score);
    mem_free(be->wide);
    mem_free(be->act_scale);
    mem_free(be->act_zero);
    mem_free(be);
}

static int ref_open(const struct backend_opts *opts, struct backend **out) {
    int rc = host_check_opts(opts);
    if (rc) {
        return rc;
    }
    struct backend *be = mem_calloc(MEM_KERNEL, (int64_t)sizeof(*be));
    if (!be) {
        return ERR_NOMEM;
    }
    be->opts = *opts;
    be->row = mem_array(MEM_KERNEL, opts->k_max, (int64_t)sizeof(float));
    be->score = mem_array(MEM_KERNEL, opts->ctx_max, (int64_t)sizeof(double));
    be->wide = mem_array(MEM_KERNEL, opts->k_max, (REF_ACT_ROWS + 1) * (int64_t)sizeof(double));
    be->act_scale = mem_array(MEM_KERNEL, opts->k_max, (int64_t)sizeof(float));
    be->act_zero = mem_array(MEM_KERNEL, opts->k_max, (int64_t)sizeof(int32_t));
    if (!be->row || !be->score || !be->wide || !be->act_scale || !be->act_zero) {
        ref_close(be);
        return ERR_NOMEM;
    }
    *out = be;
    return 0;
}

static const char *ref_describe(struct backend *be) {
    (void)be;
    return "ref, 1 thread";
}

const struct backend_ops backend_ref = {
    .name = "ref",
    .open = ref_open,
    .close = ref_close,
    .describe = ref_describe,
    .supports_weight = host_supports_weight,
    .supports_kv = host_supports_kv,
    .buf_alloc = host_buf_alloc,
    .buf_free = host_buf_free,
    .copy_in = host_copy,
    .copy_out = host_copy,
    .sync = host_sync,
    .embed = ref_embed,
    .rmsnorm = ref_rmsnorm,
    .matmul = ref_matmul,
    .norm_rope = ref_norm_rope,
    .kv_write = ref_kv_write,
    .kv_copy = host_kv_copy,
    .attn = ref_attn,
    .act_mul = ref_act_mul,
    .add = ref_add,
    .gather = ref_gather,
    .softcap = ref_softcap,
    .route = host_route,
    .scatter_add = ref_scatter_add,
};
