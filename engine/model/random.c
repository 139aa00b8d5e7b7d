/* Values are uniform in -a..a with a = sqrt(3 / k), so that a product of unit inputs has unit
 * outputs, as in a trained model at its start. */
#include "engine/model/random.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/base/mem.h"
#include "engine/base/rng.h"

static void *own(struct weights *w, int64_t n, int64_t size) {
    void **list = mem_realloc(MEM_WEIGHTS, w->owned, (w->n_owned + 1) * (int64_t)sizeof *list);
    if (!list) {
        return NULL;
    }
    w->owned = list;
    void *p = mem_array(MEM_WEIGHTS, n, size);
    if (p) {
        w->owned[w->n_owned++] = p;
    }
    return p;
}

static int matrix(struct weights *w, int32_t n, int32_t k, struct rng *r, struct wmat *m) {
    uint16_t *v = own(w, (int64_t)n * k, (int64_t)sizeof *v);
    if (!v) {
        return ERR_NOMEM;
    }
    /* why: 256 values drawn once, for billions of draws would take minutes */
    uint16_t value[1 << 8];
    double a = sqrt(3.0 / k);
    for (int32_t i = 0; i < ARRAY_LEN(value); i++) {
        double u = (double)rng_below(r, 1 << 24) * 0x1p-24;
        value[i] = f32_to_bf16((float)((2 * u - 1) * a));
    }
    for (int64_t i = 0; i < (int64_t)n * k;) {
        uint64_t u = rng_u64(r);
        for (int32_t j = 0; j < 8 && i < (int64_t)n * k; j++, u >>= 8) {
            v[i++] = value[u & 255];
        }
    }
    *m = (struct wmat){.type = DTYPE_BF16, .n = n, .k = k, .data = v, .row_bytes = 2 * (int64_t)k};
    return 0;
}

static int ones(struct weights *w, int32_t n, const float **out) {
    float *v = own(w, n, (int64_t)sizeof *v);
    for (int32_t i = 0; v && i < n; i++) {
        v[i] = 1 - w->cfg.norm_offset;
    }
    *out = v;
    return v ? 0 : ERR_NOMEM;
}

static int zeros(struct weights *w, int32_t n, const float **out) {
    float *v = own(w, n, (int64_t)sizeof *v);
    *out = v;
    return v ? 0 : ERR_NOMEM;
}

static int first_layer(struct weights *w, struct rng *r, struct layer_weights *l) {
    const struct model_cfg *c = &w->cfg;
    int rc = ones(w, c->hidden, &l->attn_norm);
    rc = rc ? rc : ones(w, c->hidden, &l->mlp_norm);
    rc = rc || !c->qk_norm ? rc : ones(w, c->head_dim, &l->q_norm);
    rc = rc || !c->qk_norm ? rc : ones(w, c->head_dim, &l->k_norm);
    rc = rc || !c->post_norm ? rc : ones(w, c->hidden, &l->attn_post_norm);
    rc = rc || !c->post_norm ? rc : ones(w, c->hidden, &l->mlp_post_norm);
    for (int32_t i = 0; i < LINEAR_N && !rc; i++) {
        int32_t n = 0;
        int32_t k = 0;
        weights_linear_shape(c, (enum linear_role)i, &n, &k);
        rc = matrix(w, n, k, r, &l->lin[i].w);
        bool bias = i == LINEAR_O ? c->o_bias : (i <= LINEAR_V ? c->attn_bias : c->mlp_bias);
        rc = rc || !bias ? rc : zeros(w, n, &l->lin[i].bias);
        w->n_param += ((int64_t)n * k + (bias ? n : 0)) * c->n_layer;
    }
    return rc;
}

static int fill(struct weights *w, struct rng *r) {
    const struct model_cfg *c = &w->cfg;
    int rc = matrix(w, c->vocab, c->hidden, r, &w->embed);
    w->head.w = w->embed;
    rc = rc || c->tied ? rc : matrix(w, c->vocab, c->hidden, r, &w->head.w);
    rc = rc ? rc : ones(w, c->hidden, &w->final_norm);
    rc = rc ? rc : first_layer(w, r, &w->layer[0]);
    for (int32_t i = 0; i < c->n_layer && !rc; i++) {
        w->layer[i] = w->layer[0];
        w->layer[i].cfg = c->layer[i];
    }
    w->n_param += (int64_t)c->vocab * c->hidden * (c->tied ? 1 : 2);
    w->bytes = 2 * w->n_param;
    snprintf(w->scheme, sizeof w->scheme, "BF16, random");
    return rc;
}

int weights_random(const struct model_cfg *c, uint64_t seed, struct weights **out) {
    struct rng r;
    if (c->n_expert > 0) {
        return err_set(ERR_UNSUPPORTED, "random weights of a mixture of experts are not made");
    }
    struct weights *w = mem_calloc(MEM_WEIGHTS, (int64_t)sizeof *w);
    if (!w) {
        return ERR_NOMEM;
    }
    w->cfg = *c;
    w->layer = mem_array(MEM_WEIGHTS, c->n_layer, (int64_t)sizeof *w->layer);
    rng_init(&r, seed, 0);
    int rc = w->layer ? fill(w, &r) : ERR_NOMEM;
    if (rc) {
        weights_free(w);
        return rc;
    }
    *out = w;
    return 0;
}
