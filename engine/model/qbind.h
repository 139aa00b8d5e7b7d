/* Quantized modules: the tensors of a folder brought to struct wmat.
 *
 * What lies as the kernels want it is used in the map; fields packed across rows are laid out anew
 * and the map's pages are given back, so that a load never holds more than the weights as stored
 * and QBIND_BAND bytes.
 * src: compressed-tensors, compressors; GPTQModel, nn_modules/qlinear; AutoAWQ,
 * modules/linear/gemm.py; transformers, integrations/finegrained_fp8.py */
#ifndef ENGINE_MODEL_QBIND_H
#define ENGINE_MODEL_QBIND_H

#include "engine/model/qformat.h"

enum { QBIND_BAND = 8 << 20, QBIND_NOTE = 320 };

/* Memory that lives as long as the matrices is asked from here. err: NULL with ERR_NOMEM set */
typedef void *(*qbind_alloc)(void *ctx, int64_t bytes);

struct qbind {
    const struct ckpt *c;    /* ref */
    const struct qformat *q; /* ref */
    qbind_alloc alloc;
    void *ctx;             /* of alloc */
    bool check;            /* look for NaN, infinity and scales that are zero */
    int64_t bytes;         /* out: stored bytes of what was bound, added up */
    char note[QBIND_NOTE]; /* out: what was read otherwise than the file says; "": nothing */
};

/* Binds module ("model.layers.0.mlp.up_proj") as a [n,k] matrix under its scheme.
 * in:   cls "Linear" or "Embedding"; may_be_dense: a module of that class may be stored as a plain
 *       float although a rule for its class fits (routers)
 * out:  *s its scheme and *w; *s NULL and *w untouched when the module is dense
 * err:  ERR_NOTFOUND (tensor), ERR_FORMAT naming tensor, type and shape found and wanted, or an
 *       index out of range; ERR_NUMERIC (NaN, infinity, a scale that is zero), ERR_UNSUPPORTED,
 *       ERR_NOMEM
 * cost: with check reads what it binds; layouts that are packed across rows are copied */
int qbind_module(struct qbind *b,
                 const char *module,
                 const char *cls,
                 bool may_be_dense,
                 int32_t n,
                 int32_t k,
                 const struct qscheme **s,
                 struct wmat *w);

/* The scheme under which qbind_module binds. out: *s NULL when the module is dense
 * err: ERR_FORMAT when the tensors are quantized and the configuration says dense; qformat_find's
 */
int qbind_scheme(const struct ckpt *c,
                 const struct qformat *q,
                 const char *module,
                 const char *cls,
                 bool may_be_dense,
                 const struct qscheme **s);

/* Reads the scale of a static cache, module "model.layers.0.self_attn", part "k_scale".
 * err: ERR_NOTFOUND, ERR_FORMAT, ERR_NUMERIC */
int qbind_kv_scale(struct qbind *b, const char *module, const char *part, float *out);

/* How a module is stored, told by the names of its tensors; QLAYOUT_FLOAT and the layouts that
 * share its names by the types. out: QLAYOUT_N when the module has none that we know */
enum qlayout qbind_stored(const struct ckpt *c, const char *module);

#endif
