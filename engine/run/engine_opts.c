#include "engine/run/engine_opts.h"

#include <math.h>

#include "engine/base/err.h"
#include "engine/sched/sched.h"

enum {
    DEFAULT_BLOCK_TOK = 16,
    DEFAULT_BATCH_TOK = 512,
    DEFAULT_RUNNING = 32,
    DEFAULT_WAITING = 4096,
    COUNT_MAX = 1 << 20 /* of each option that counts tokens of a step or requests */
};
static const int64_t DEFAULT_KV_BYTES = 256 << 20;

static void fill_defaults(const struct model_cfg *c, struct engine_opts *o) {
    o->backend = o->backend ? o->backend : "cpu";
    o->block_tok = o->block_tok ? o->block_tok : DEFAULT_BLOCK_TOK;
    o->batch_tok_max = o->batch_tok_max ? o->batch_tok_max : DEFAULT_BATCH_TOK;
    o->running_max = o->running_max ? o->running_max : i32_min(DEFAULT_RUNNING, o->batch_tok_max);
    o->waiting_max = o->waiting_max ? o->waiting_max : DEFAULT_WAITING;
    o->ctx_max = o->ctx_max ? i32_min(o->ctx_max, c->ctx_max) : c->ctx_max;
}

/* Shares the cache's memory out among the groups of layers, so that all run out at the same number
 * of whole contexts; a windowed group gets at least what one sequence needs. */
static void size_pools(const struct model_cfg *c,
                       const struct kv_groups *groups,
                       const struct engine_opts *o,
                       int32_t *n_blocks) {
    struct sched_opts so = {
        .block_tok = o->block_tok, .batch_tok_max = o->batch_tok_max, .chunk_max = o->chunk_max};
    int64_t layer = model_cfg_kv_bytes_per_token(c, o->kv_type) / c->n_layer * o->block_tok;
    int64_t one[MODEL_KV_GROUPS] = {0}; /* blocks of one whole context */
    int64_t bytes = 0;                  /* of those */
    for (int32_t g = 0; g < groups->n; g++) {
        so.group[g].window = groups->window[g];
        one[g] = sched_blocks_needed(&so, g, o->ctx_max);
        bytes += one[g] * layer * groups->n_layer[g];
    }
    double share = fmin(o->running_max, fmax(1, (double)DEFAULT_KV_BYTES / (double)bytes));
    share = o->kv_bytes > 0 ? (double)o->kv_bytes / (double)bytes : share;
    for (int32_t g = 0; g < groups->n; g++) {
        double n = floor(share * (double)one[g] * (1 + 1e-12)); /* why: 5 must not become 4.9999 */
        n = o->n_blocks > 0 ? o->n_blocks : n;
        if (o->n_blocks == 0 && groups->window[g] > 0 && groups->n > 1 && n >= 1) {
            n = fmax(n, (double)one[g]);
        }
        n_blocks[g] = (int32_t)fmin(n, KVPOOL_BLOCKS_MAX);
    }
}

/* Demands that a count as given is 0 (the default) to max. */
static int check_count(const char *name, int64_t v, int64_t max) {
    return v >= 0 && v <= max ? 0
                              : err_set(ERR_RANGE, "engine: %s is %lld, want 0..%lld", name,
                                        (long long)v, (long long)max);
}

/* Checks the options as given, ahead of all arithmetic. */
static int check_given(const struct engine_opts *o) {
    int rc = check_count("n_threads", o->n_threads, COUNT_MAX);
    rc = rc ? rc : check_count("block_tok", o->block_tok, KVPOOL_BLOCK_TOK_MAX);
    rc = rc ? rc : check_count("batch_tok_max", o->batch_tok_max, COUNT_MAX);
    rc = rc ? rc : check_count("running_max", o->running_max, COUNT_MAX);
    rc = rc ? rc : check_count("waiting_max", o->waiting_max, COUNT_MAX);
    rc = rc ? rc : check_count("chunk_max", o->chunk_max, COUNT_MAX);
    rc = rc ? rc : check_count("ctx_max", o->ctx_max, INT32_MAX);
    rc = rc ? rc : check_count("n_blocks", o->n_blocks, KVPOOL_BLOCKS_MAX);
    rc = rc ? rc : check_count("kv_bytes", o->kv_bytes, INT64_MAX);
    return rc ? rc : check_count("kv_type", o->kv_type, DTYPE_N - 1);
}

int engine_opts_fill(const struct model_cfg *c,
                     const struct kv_groups *groups,
                     struct engine_opts *o,
                     int32_t *n_blocks) {
    int rc = check_given(o);
    if (rc) {
        return rc;
    }
    fill_defaults(c, o);
    size_pools(c, groups, o, n_blocks);
    for (int32_t g = 0; g < groups->n; g++) {
        if (n_blocks[g] < 1) {
            return err_set(ERR_RANGE, "engine: %lld bytes hold no KV block of %d tokens",
                           (long long)o->kv_bytes, o->block_tok);
        }
    }
    return 0;
}
