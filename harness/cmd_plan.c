/* trilemma plan: what fits, from a configuration alone. */
#include <stdio.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/base/json.h"
#include "engine/base/str.h"
#include "engine/model/arch.h"
#include "engine/model/memplan.h"
#include "engine/model/qformat.h"
#include "harness/cmds.h"
#include "harness/paths.h"

struct plan_opts {
    int64_t memory;
    int32_t ctx;
    const char *weights;
    const char *kv;
    bool json;
};

static int find_type(const char *name, enum dtype *out) {
    for (int32_t t = 0; t < DTYPE_N; t++) {
        if (str_eq(dtype_info((enum dtype)t)->name, name)) {
            *out = (enum dtype)t;
            return 0;
        }
    }
    return err_set(ERR_USAGE, "type \"%s\" is not known (F32, F16, BF16, Q8_0, Q4_0, Q4_1)", name);
}

/* config.json of a folder, or alone (dir NULL). */
static int read_json(const char *path, const char *dir, struct model_cfg *c, struct qformat *q) {
    json_t *j = NULL;
    int rc = json_read(path, &j);
    rc = rc ? rc : arch_read_hf_cfg(j, path, c);
    if (!rc) {
        rc = dir ? qformat_folder(j, dir, q) : qformat_read(j, path, q);
    }
    json_decref(j);
    return rc;
}

/* A model folder or file, or a bare config.json. */
static int read_cfg(const char *path, struct model_cfg *c, struct qformat *q) {
    if (str_ends(path, ".json")) {
        return read_json(path, NULL, c, q);
    }
    if (file_is_dir(path)) {
        char config[FILE_PATH_MAX];
        int rc = file_join(config, path, "config.json");
        if (rc || file_exists(config)) {
            return rc ? rc : read_json(config, path, c, q);
        }
    }
    struct ckpt *ck = NULL;
    int rc = ckpt_open(path, &ck);
    rc = rc ? rc : arch_read_cfg(ck, c);
    c->rope.freq_factor = NULL; /* why: it points into the checkpoint, which is closed now */
    ckpt_close(ck);
    return rc;
}

static void print_json(const struct model_cfg *c,
                       const struct memplan *p,
                       int32_t ctx,
                       const char *weights,
                       const char *kv) {
    json_t *o = json_pack(
        "{s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:i, s:o, s:o, s:o}", "family", c->family,
        "weights", weights, "kv", kv, "parameters", (json_int_t)p->n_param, "weight_bytes",
        (json_int_t)p->weight_bytes, "kv_bytes_per_token", (json_int_t)p->kv_bytes_per_token,
        "kv_bytes_per_sequence", (json_int_t)p->kv_bytes_per_seq, "kv_bytes_without_windows",
        (json_int_t)p->kv_bytes_full, "context", ctx, "memory_bytes",
        p->memory_bytes ? json_integer(p->memory_bytes) : json_null(), "sequences_that_fit",
        p->memory_bytes ? json_integer(p->n_seq_max) : json_null(), "tokens_that_fit",
        p->memory_bytes ? json_integer(p->n_tok_max) : json_null());
    json_dumpf(o, stdout, JSON_COMPACT);
    printf("\n");
    json_decref(o);
}

static void print_text(const struct model_cfg *c,
                       const struct memplan *p,
                       int32_t ctx,
                       const char *weights,
                       const char *kv) {
    char b[STR_NUM_MAX];
    printf("%s: %d layers, %d query heads, %d kv heads of %d\n", c->family, c->n_layer, c->n_head,
           c->n_kv_head, c->head_dim);
    printf("  weights          %s (%lld parameters as %s)\n", str_show_bytes(b, p->weight_bytes),
           (long long)p->n_param, weights);
    printf("  KV cache         %lld bytes a token = 2 x %d layers x %d kv heads x %d x %d bytes "
           "(%s)\n",
           (long long)p->kv_bytes_per_token, c->n_layer, c->n_kv_head, c->head_dim,
           (int)(p->kv_bytes_per_token / 2 / c->n_layer / c->n_kv_head / c->head_dim), kv);
    printf("  one sequence     %s at %d tokens\n", str_show_bytes(b, p->kv_bytes_per_seq), ctx);
    if (p->kv_bytes_per_seq < p->kv_bytes_full) {
        printf("  without windows  %s: sliding layers keep no more than they can see\n",
               str_show_bytes(b, p->kv_bytes_full));
    }
    if (p->memory_bytes == 0) {
        return;
    }
    printf("  memory           %s given", str_show_bytes(b, p->memory_bytes));
    printf(", %s left for the cache\n", str_show_bytes(b, p->kv_bytes_free));
    if (p->kv_bytes_free == 0) {
        printf("  does not fit: the weights alone need more\n");
        return;
    }
    printf("  fits             %lld sequences of %d tokens, %lld tokens in all\n",
           (long long)p->n_seq_max, ctx, (long long)p->n_tok_max);
}

/* Options first, then what the checkpoint says, then BF16 and F16. */
static int
choose_types(struct plan_opts *o, const struct qformat *q, enum dtype *wt, enum dtype *kt) {
    const char *kv = o->kv ? o->kv : q->kv_f8 ? "F8_E4M3" : "F16";
    int rc = find_type(o->weights ? o->weights : "BF16", wt);
    rc = rc ? rc : find_type(kv, kt);
    o->kv = kv;
    return rc;
}

static int plan(struct plan_opts *o, const struct model_cfg *cfg, const struct qformat *q) {
    struct memplan p;
    enum dtype wt = DTYPE_BF16;
    enum dtype kt = DTYPE_F16;
    int32_t ctx = o->ctx ? o->ctx : cfg->ctx_max;
    bool quantized = !o->weights && q->n_scheme > 0;
    int rc = choose_types(o, q, &wt, &kt);
    if (rc) {
        return rc;
    }
    memplan_make(cfg, wt, kt, ctx, o->memory, &p);
    rc = quantized ? memplan_quantize(cfg, wt, q, &p) : 0;
    if (rc) {
        return rc;
    }
    const char *weights = quantized ? q->text : dtype_info(wt)->name;
    if (o->json) {
        print_json(cfg, &p, ctx, weights, o->kv);
    } else {
        print_text(cfg, &p, ctx, weights, o->kv);
    }
    return 0;
}

static int run(const struct cmd *self, const struct cli_env *env, int argc, char **argv) {
    struct plan_opts o = {0};
    struct cli_args args;
    struct model_cfg cfg;
    struct qformat q = {.text = "none"};
    char path[FILE_PATH_MAX];
    const struct cli_opt opts[] = {
        {"memory", CLI_BYTES, &o.memory, "SIZE", "memory of the machine, e.g. 24GiB", 0, 0},
        {"ctx", CLI_I32, &o.ctx, "N", "tokens of one sequence [the model's context]", 1, 1 << 24},
        {"weights", CLI_STR, &o.weights, "TYPE", "of all weights [as quantized, else BF16]", 0, 0},
        {"kv", CLI_STR, &o.kv, "TYPE", "of the cache [the checkpoint's, else F16]", 0, 0},
        {"json", CLI_FLAG, &o.json, NULL, "JSON instead of text", 0, 0}};
    int rc = cli_parse(self, opts, ARRAY_LEN(opts), argc, argv, 1, 1, &args);
    if (rc || args.help) {
        return rc;
    }
    rc = paths_model(env, args.pos[0], path);
    rc = rc ? rc : read_cfg(path, &cfg, &q);
    rc = rc ? rc : plan(&o, &cfg, &q);
    qformat_fini(&q);
    return rc;
}

const struct cmd cmd_plan = {
    .name = "plan",
    .summary = "What fits: weights, KV bytes per token, sequences in a given memory.",
    .usage = "(MODEL | config.json) [--memory SIZE] [--ctx N] [options]",
    .example = "trilemma plan smollm2-135m --memory 1GiB --ctx 2048",
    .run = run};
