/* For every decoder layer, with the hidden states of all samples in front of it:
 *
 *     observe: forward through the original layer, collect X X^T at its four inputs
 *     solve:   the seven matrices
 *     write:   append them to the output file
 *     advance: forward through the quantized layer; those are the next layer's inputs
 *
 * src: llm-compressor, pipelines/sequential: the error of the quantized layers is propagated. We
 * share one Hessian among q, k, v and one among gate, up, which have one input. */
#include "engine/quant/quant.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/base/err.h"
#include "engine/base/mem.h"
#include "engine/base/str.h"
#include "engine/quant/quant_int.h"

enum dtype quant_dense_default(const struct weights *w) {
    enum dtype t = w->embed.type;
    return t == DTYPE_F32 || t == DTYPE_F16 || t == DTYPE_BF16 ? t : DTYPE_F16;
}

static int32_t gcd(int32_t a, int32_t b) {
    while (b) {
        int32_t t = a % b;
        a = b;
        b = t;
    }
    return a;
}

/* Lists the modules whose columns the group does not divide. */
static int check_group(const struct model_cfg *c, const struct quant_opts *o) {
    static const char *const names[LINEAR_N] = {"q_proj",    "k_proj",  "v_proj",   "o_proj",
                                                "gate_proj", "up_proj", "down_proj"};
    char list[256] = "";
    int32_t common = 128;
    for (int32_t r = 0; r < LINEAR_N; r++) {
        int32_t n = 0;
        int32_t k = 0;
        weights_linear_shape(c, (enum linear_role)r, &n, &k);
        common = gcd(common, k);
        if (o->grid.group < 1 || k % o->grid.group != 0) {
            size_t len = strlen(list);
            snprintf(list + len, sizeof list - len, "%s%s (%d columns)", len ? ", " : "", names[r],
                     k);
        }
    }
    return list[0] ? err_set(ERR_CONFIG, "group size %d does not divide the columns of %s; %d does",
                             o->grid.group, list, common)
                   : 0;
}

/* Writing over the source would pull the map from under the weights; beside the index of an older,
 * sharded checkpoint the new file would not be found. */
static int check_target(const struct model *m, const char *out_dir) {
    struct stat a;
    struct stat b;
    if (stat(m->ckpt->path, &a) == 0 && stat(out_dir, &b) == 0 && a.st_dev == b.st_dev &&
        a.st_ino == b.st_ino) {
        return err_set(ERR_CONFIG, "%s is the source; choose another folder", out_dir);
    }
    char index[FILE_PATH_MAX];
    int rc = file_join(index, out_dir, "model.safetensors.index.json");
    if (!rc && file_exists(index)) {
        rc = err_set(ERR_CONFIG,
                     "%s would be read instead of what is written; remove it or choose "
                     "another folder",
                     index);
    }
    return rc;
}

static int check_opts(const struct model *m, const struct quant_opts *o) {
    enum dtype d = o->dense_type;
    if (d != DTYPE_F32 && d != DTYPE_F16 && d != DTYPE_BF16) {
        return err_set(ERR_CONFIG, "dense type %s, want F32, F16 or BF16", dtype_info(d)->name);
    }
    if (o->method == QUANT_NONE) {
        return 0;
    }
    if (o->grid.bits != 4) {
        return err_set(ERR_UNSUPPORTED, "%d bits: weights of 4 bits are written", o->grid.bits);
    }
    if (o->method == QUANT_GPTQ && (!o->calib || o->n_sample < 1)) {
        return err_set(ERR_CONFIG, "GPTQ needs calibration samples");
    }
    return check_group(&m->weights->cfg, o);
}

/* Work units: two passes and seven solves a layer count alike; only for the progress bar. */
static double units_per_layer(const struct quant_job *j) {
    return LINEAR_N + (j->calib ? 2.0 * j->calib->n_sample : 0);
}

static int tick(struct quant_job *j, double units) {
    j->done += units;
    return j->sink && j->sink->progress ? j->sink->progress(j->sink->ctx, j->done, j->total) : 0;
}

static int tick_sample(void *ctx) {
    return tick(ctx, 1);
}

/* The first value that is no number: its layer is to be named. */
static int check_hidden(const struct quant_job *j, int32_t layer) {
    const struct calib *c = j->calib;
    int64_t n = (int64_t)c->n_sample * c->sample_tok * c->one.hidden;
    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(c->hidden[i])) {
            return err_set(ERR_NUMERIC, "layer %d gives %g at token %lld of the calibration", layer,
                           (double)c->hidden[i], (long long)(i / c->one.hidden));
        }
    }
    return 0;
}

static int dense_layer(struct quant_job *j, const struct layer_weights *lw) {
    int rc = 0;
    for (int32_t r = 0; r < LINEAR_N && !rc; r++) {
        rc = qout_matrix(j, &lw->lin[r].w);
        if (!rc && lw->lin[r].bias) {
            rc = qout_vector(j, lw->lin[r].bias, lw->lin[r].w.n);
        }
        rc = rc ? rc : (tick(j, 1) ? err_set(ERR_CANCELED, "interrupted") : 0);
    }
    return rc;
}

static int solve_layer(struct quant_job *j,
                       int32_t layer,
                       struct qlinear q[LINEAR_N],
                       struct layer_weights *out) {
    const struct layer_weights *lw = &j->m->weights->layer[layer];
    int rc = 0;
    for (int32_t r = 0; r < LINEAR_N && !rc; r++) {
        struct quant_module rep = {0};
        weights_module_name(rep.name, layer, (enum linear_role)r);
        rc = qmodule_run(j, &lw->lin[r], (enum linear_role)r, &q[r], &out->lin[r], &rep);
        if (rc) {
            return err_ctx(rc, "%s", rep.name);
        }
        rc = qout_linear(j, &q[r], &out->lin[r].w);
        if (!rc && lw->lin[r].bias) {
            rc = qout_vector(j, lw->lin[r].bias, rep.n);
        }
        if (!rc && j->sink && j->sink->module) {
            j->sink->module(j->sink->ctx, &rep);
        }
        rc = rc ? rc : (tick(j, 1) ? err_set(ERR_CANCELED, "interrupted") : 0);
    }
    return rc;
}

static int quant_layer(struct quant_job *j, int32_t layer) {
    const struct layer_weights *lw = &j->m->weights->layer[layer];
    struct qlinear q[LINEAR_N] = {{0}};
    struct layer_weights ql = *lw;
    int rc = j->calib ? calib_observe(j->calib, lw, tick_sample, j) : 0;
    rc = rc ? rc : solve_layer(j, layer, q, &ql);
    if (!rc && j->calib) {
        rc = calib_advance(j->calib, &ql, tick_sample, j);
        rc = rc ? rc : check_hidden(j, layer);
    }
    for (int32_t r = 0; r < LINEAR_N; r++) {
        qlinear_fini(&q[r]);
    }
    return rc;
}

static int write_norms(struct quant_job *j, const struct layer_weights *lw) {
    const struct model_cfg *c = &j->m->weights->cfg;
    int rc = qout_vector(j, lw->attn_norm, c->hidden);
    rc = rc ? rc : qout_vector(j, lw->mlp_norm, c->hidden);
    if (!rc && c->qk_norm) {
        rc = qout_vector(j, lw->q_norm, c->head_dim);
        rc = rc ? rc : qout_vector(j, lw->k_norm, c->head_dim);
    }
    return rc;
}

static int write_tensors(struct quant_job *j) {
    const struct weights *w = j->m->weights;
    int rc = qout_declare_all(j);
    rc = rc ? rc : stwrite_begin(j->st);
    rc = rc ? rc : qout_matrix(j, &w->embed);
    for (int32_t i = 0; i < w->cfg.n_layer && !rc; i++) {
        rc = write_norms(j, &w->layer[i]);
        if (!rc) {
            rc = j->o->method == QUANT_NONE ? dense_layer(j, &w->layer[i]) : quant_layer(j, i);
        }
    }
    rc = rc ? rc : qout_vector(j, w->final_norm, w->cfg.hidden);
    if (!rc && !w->cfg.tied) {
        rc = qout_matrix(j, &w->head.w);
    }
    return rc;
}

int quant_run(const struct model *m,
              const char *out_dir,
              const struct quant_opts *o,
              const struct quant_sink *sink) {
    struct quant_opts opts = *o;
    struct quant_job j = {.m = m, .o = &opts, .sink = sink};
    char path[FILE_PATH_MAX];
    opts.grid.scale_type = o->dense_type;
    int rc = check_opts(m, &opts);
    rc = rc ? rc : check_target(m, out_dir);
    if (!rc && opts.method != QUANT_NONE && opts.n_sample > 0) {
        rc = calib_open(m->weights, opts.backend, opts.n_threads, opts.calib, opts.n_sample,
                        opts.sample_tok, &j.calib);
    }
    j.total = units_per_layer(&j) * m->weights->cfg.n_layer;
    rc = rc ? rc : file_mkdirs(out_dir);
    rc = rc ? rc : file_join(path, out_dir, "model.safetensors");
    rc = rc ? rc : stwrite_open(path, &j.st);
    rc = rc ? rc : write_tensors(&j);
    if (rc) {
        stwrite_abort(j.st);
    } else {
        rc = stwrite_commit(j.st);
    }
    calib_close(j.calib);
    rc = rc ? rc : qout_text(&j, out_dir);
    return rc ? rc : qout_config(&j, out_dir);
}
