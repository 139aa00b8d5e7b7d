/* pack-quantized, 4 bits (compressed-tensors), per linear module of shape [n,k]:
 *
 *     weight_packed      I32 [n, ceil(k/8)]        nibble i of word j = column 8j+i, value q + 8
 *     weight_scale       F32|F16|BF16 [n, k/g]     g columns share a scale ([n,1] for channel)
 *     weight_shape       I64 [2]                   n, k
 *     weight_zero_point  I32 [ceil(n/8), k/g]      optional; nibble i of word [j,c] = row 8j+i,
 *                                                  value z + 8 (packed down the rows)
 *     weight_g_idx       I32 [k]                   old act-order layout: refused here */
#include "engine/model/qformat.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/base/json.h"
#include "engine/base/str.h"

enum { NIBBLES = 8, BITS = 4 };

static int read_weights(const json_t *group, const char *where, struct qformat *out) {
    int32_t bits = 0;
    int32_t group_size = 0;
    bool symmetric = true;
    const char *type = "int";
    const char *strategy = "";
    const json_t *w = json_object_get(group, "weights");
    if (!json_is_object(w)) {
        return err_set(ERR_FORMAT, "%s: quantization_config: a group has no \"weights\"", where);
    }
    const json_t *act = json_object_get(group, "input_activations");
    int rc = json_need_i32(w, where, "num_bits", 1, 32, &bits);
    rc = rc ? rc : json_opt_str(w, where, "type", &type);
    rc = rc ? rc : json_opt_str(w, where, "strategy", &strategy);
    rc = rc ? rc : json_opt_bool(w, where, "symmetric", &symmetric);
    rc = rc ? rc : json_opt_i32(w, where, "group_size", -1, 1 << 24, &group_size);
    if (rc) {
        return rc;
    }
    bool known = bits == BITS && str_eq(type, "int") &&
                 (str_eq(strategy, "group") || str_eq(strategy, "channel"));
    if (!known || (act && !json_is_null(act))) {
        return err_set(
            ERR_UNSUPPORTED,
            "%s: quantization scheme %s%d, strategy \"%s\"%s is not computed; computed is "
            "weight-only int4 by group or channel",
            where, type, bits, strategy,
            act && !json_is_null(act) ? " with quantized activations" : "");
    }
    char by[32] = "per channel";
    if (str_eq(strategy, "group")) {
        snprintf(by, sizeof by, "group %d", group_size);
    }
    snprintf(out->text, sizeof out->text, "pack-quantized, int%d, %s, %s", bits, by,
             symmetric ? "symmetric" : "asymmetric");
    return 0;
}

int qformat_read(const json_t *config, const char *where, struct qformat *out) {
    const char *method = "";
    const char *format = "";
    struct qformat q = {.text = "none"};
    const json_t *o = json_object_get(config, "quantization_config");
    if (!o || json_is_null(o)) {
        *out = q;
        return 0;
    }
    int rc = json_need_str(o, where, "quant_method", &method);
    rc = rc ? rc : json_opt_str(o, where, "format", &format);
    if (rc) {
        return rc;
    }
    if (!str_eq(method, "compressed-tensors") || !str_eq(format, "pack-quantized")) {
        return err_set(ERR_UNSUPPORTED,
                       "%s: quantization method \"%s\", format \"%s\" is not read; read is "
                       "compressed-tensors, pack-quantized",
                       where, method, format);
    }
    const char *name = NULL;
    json_t *group = NULL;
    json_object_foreach(json_object_get(o, "config_groups"), name, group) {
        rc = read_weights(group, where, &q);
        if (rc) {
            return rc;
        }
        q.present = true;
    }
    if (!q.present) {
        return err_set(ERR_FORMAT, "%s: quantization_config has no config_groups", where);
    }
    *out = q;
    return 0;
}

static int
need(const struct ckpt *c, const char *module, const char *part, const struct tensor **t) {
    char name[TENSOR_NAME_MAX + 32];
    snprintf(name, sizeof name, "%s.%s", module, part);
    *t = ckpt_find(c, name);
    return *t ? 0 : err_set(ERR_NOTFOUND, "%s: tensor \"%s\" is missing", c->path, name);
}

static int
wrong_shape(const struct ckpt *c, const struct tensor *t, int64_t n, int64_t k, const char *why) {
    char shape[TENSOR_SHAPE_TEXT];
    return err_set(ERR_FORMAT, "%s: tensor \"%s\": %s %s, want [%lld, %lld]%s", c->path, t->name,
                   dtype_info(t->type)->name, tensor_shape_text(shape, t->dim, t->n_dim),
                   (long long)n, (long long)k, why);
}

static bool is_shape(const struct tensor *t, int64_t n, int64_t k) {
    return t->n_dim == 2 && t->dim[0] == n && t->dim[1] == k;
}

static int bind_scale(const struct ckpt *c, const char *module, struct wmat *w) {
    const struct tensor *t = NULL;
    int rc = need(c, module, "weight_scale", &t);
    if (rc) {
        return rc;
    }
    int64_t groups = t->n_dim == 2 ? t->dim[1] : 0;
    bool type_ok = t->type == DTYPE_F32 || t->type == DTYPE_F16 || t->type == DTYPE_BF16;
    if (!type_ok || groups < 1 || !is_shape(t, w->n, groups) || w->k % groups != 0) {
        return wrong_shape(c, t, w->n, groups, ", F32, F16 or BF16, with groups that divide k");
    }
    w->scale = t->data;
    w->scale_type = t->type;
    w->group = (int32_t)(w->k / groups);
    return 0;
}

static int bind_zero(
    const struct ckpt *c, const char *module, qformat_alloc alloc, void *ctx, struct wmat *w) {
    char name[TENSOR_NAME_MAX + 32];
    snprintf(name, sizeof name, "%s.weight_zero_point", module);
    const struct tensor *t = ckpt_find(c, name);
    if (!t) {
        return 0;
    }
    int32_t groups = w->k / w->group;
    if (t->type != DTYPE_I32 || !is_shape(t, i64_div_up(w->n, NIBBLES), groups)) {
        return wrong_shape(c, t, i64_div_up(w->n, NIBBLES), groups, ", I32");
    }
    int8_t *zero = alloc(ctx, (int64_t)w->n * groups);
    if (!zero) {
        return ERR_NOMEM;
    }
    for (int32_t r = 0; r < w->n; r++) {
        for (int32_t g = 0; g < groups; g++) {
            uint32_t word = 0;
            memcpy(&word, t->data + 4 * ((int64_t)(r / NIBBLES) * groups + g), 4);
            zero[(int64_t)r * groups + g] =
                (int8_t)((int32_t)(word >> (BITS * (r % NIBBLES)) & 15) - 8);
        }
    }
    w->zero = zero;
    return 0;
}

static int check_stored_shape(const struct ckpt *c, const char *module, const struct wmat *w) {
    const struct tensor *t = NULL;
    int64_t dims[2];
    int rc = need(c, module, "weight_shape", &t);
    if (rc) {
        return rc;
    }
    if (t->type != DTYPE_I64 || t->n_dim != 1 || t->dim[0] != 2) {
        return err_set(ERR_FORMAT, "%s: tensor \"%s\" is no pair of I64", c->path, t->name);
    }
    memcpy(dims, t->data, sizeof dims);
    if (dims[0] != w->n || dims[1] != w->k) {
        return err_set(ERR_FORMAT, "%s: tensor \"%s\" says [%lld, %lld], the model wants [%d, %d]",
                       c->path, t->name, (long long)dims[0], (long long)dims[1], w->n, w->k);
    }
    return 0;
}

int qformat_bind_packed(const struct ckpt *c,
                        const char *module,
                        int32_t n,
                        int32_t k,
                        qformat_alloc alloc,
                        void *ctx,
                        struct wmat *w) {
    char name[TENSOR_NAME_MAX + 32];
    const struct tensor *t = NULL;
    struct wmat m = {.type = DTYPE_W4, .n = n, .k = k};
    int rc = need(c, module, "weight_packed", &t);
    if (rc) {
        return rc;
    }
    snprintf(name, sizeof name, "%s.weight_g_idx", module);
    if (ckpt_find(c, name)) {
        return err_set(ERR_UNSUPPORTED, "%s: tensor \"%s\" (act-order by group) is not computed",
                       c->path, name);
    }
    if (t->type != DTYPE_I32 || !is_shape(t, n, i64_div_up(k, NIBBLES))) {
        return wrong_shape(c, t, n, i64_div_up(k, NIBBLES), ", I32");
    }
    m.data = t->data;
    m.row_bytes = 4 * i64_div_up(k, NIBBLES);
    rc = check_stored_shape(c, module, &m);
    rc = rc ? rc : bind_scale(c, module, &m);
    rc = rc ? rc : bind_zero(c, module, alloc, ctx, &m);
    if (!rc) {
        *w = m;
    }
    return rc;
}
