/* compressed-tensors: quantization_config of config.json.
 *
 *     config_groups: { NAME: { targets, weights: ARGS, input_activations: ARGS|null,
 *                              output_activations: null, format } }
 *     ARGS: num_bits, type, symmetric, strategy, group_size, block_structure, dynamic, actorder,
 *           scale_dtype, zp_dtype, observer, observer_kwargs
 *
 * Groups and ARGS forbid keys that they do not know, as the writer's own reader does; the outer
 * object may hold any. A group's format is its own or the outer one. block_structure is a list
 * [r,c], in old files a string "rxc". */
#include <stdio.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/base/json.h"
#include "engine/base/str.h"
#include "engine/model/qformat_int.h"

enum { GROUP_MAX = 1 << 24, PLACE = 512, GROUPS_MAX = 1024 };

#define S(x) (1U << QSTRATEGY_##x)

/* What each format may hold. bits: a set of 1 << num_bits */
static const struct row {
    const char *name;
    enum qlayout layout;
    uint32_t int_bits;
    uint32_t float_bits;
    uint32_t strategies;
    int32_t group; /* 0: any */
} rows[] = {
    {"pack-quantized", QLAYOUT_PACK, 0x1fc, 0, S(TENSOR) | S(CHANNEL) | S(GROUP), 0},
    {"int-quantized", QLAYOUT_INT, 0x1fc, 0, S(TENSOR) | S(CHANNEL) | S(GROUP) | S(BLOCK), 0},
    {"float-quantized", QLAYOUT_FLOAT, 0, 0x100, S(TENSOR) | S(CHANNEL) | S(GROUP) | S(BLOCK), 0},
    {"naive-quantized", QLAYOUT_INT, 0x1fc, 0, S(TENSOR) | S(CHANNEL) | S(GROUP) | S(BLOCK), 0},
    {"naive-quantized", QLAYOUT_FLOAT, 0, 0x100, S(TENSOR) | S(CHANNEL) | S(GROUP) | S(BLOCK), 0},
    {"nvfp4-pack-quantized", QLAYOUT_NVFP4, 0, 0x10, S(TENSOR_GROUP) | S(GROUP), 16},
    {"mxfp4-pack-quantized", QLAYOUT_MXFP4, 0, 0x10, S(GROUP), 32},
    {"mxfp8-quantized", QLAYOUT_MXFP8, 0, 0x100, S(GROUP), 32},
};

static const char *const strategies[QSTRATEGY_N] = {
    [QSTRATEGY_TENSOR] = "tensor", [QSTRATEGY_CHANNEL] = "channel",
    [QSTRATEGY_GROUP] = "group",   [QSTRATEGY_BLOCK] = "block",
    [QSTRATEGY_TOKEN] = "token",   [QSTRATEGY_TENSOR_GROUP] = "tensor_group"};

static bool among(const char *const *names, int32_t n, const char *name) {
    for (int32_t i = 0; i < n; i++) {
        if (str_eq(names[i], name)) {
            return true;
        }
    }
    return false;
}

static int known_keys(const json_t *o, const char *where, const char *const *names, int32_t n) {
    const char *key = NULL;
    json_t *value = NULL;
    json_object_foreach((json_t *)(uintptr_t)o, key, value) {
        if (!among(names, n, key)) {
            return err_set(ERR_UNSUPPORTED, "%s: key \"%s\" is not known", where, key);
        }
    }
    return 0;
}

static int read_strategy(const json_t *o, const char *where, struct qargs *a) {
    const char *name = NULL;
    int rc = json_opt_str(o, where, "strategy", &name);
    if (rc) {
        return rc;
    }
    if (!name) {
        a->strategy = a->group > 0     ? QSTRATEGY_GROUP
                      : a->group == -1 ? QSTRATEGY_CHANNEL
                                       : QSTRATEGY_TENSOR;
        return 0;
    }
    for (int32_t i = 0; i < QSTRATEGY_N; i++) {
        if (str_eq(strategies[i], name)) {
            a->strategy = (enum qstrategy)i;
            return 0;
        }
    }
    return err_set(ERR_UNSUPPORTED, "%s: strategy \"%s\" is not known", where, name);
}

static int read_block(const json_t *o, const char *where, struct qargs *a) {
    const json_t *v = json_object_get(o, "block_structure");
    int64_t size[2] = {0, 0};
    const char *text = json_string_value(v);
    if (!v || json_is_null(v)) {
        return 0;
    }
    if (text) {
        const char *x = strchr(text, 'x');
        char rows_text[32] = "";
        if (x && x - text < (int64_t)sizeof rows_text) {
            memcpy(rows_text, text, (size_t)(x - text));
            int rc = str_i64(rows_text, 1, GROUP_MAX, &size[0]);
            size[1] = 0;
            rc = rc ? rc : str_i64(x + 1, 1, GROUP_MAX, &size[1]);
            size[0] = rc ? 0 : size[0];
        }
    } else if (json_array_size(v) == 2) {
        size[0] = json_integer_value(json_array_get(v, 0));
        size[1] = json_integer_value(json_array_get(v, 1));
    }
    if (size[0] < 1 || size[1] < 1 || size[0] > GROUP_MAX || size[1] > GROUP_MAX) {
        return err_set(ERR_FORMAT, "%s: block_structure is no pair [rows, columns] of 1..%d", where,
                       (int)GROUP_MAX);
    }
    a->rows = (int32_t)size[0];
    a->group = a->strategy == QSTRATEGY_BLOCK ? (int32_t)size[1] : a->group;
    return 0;
}

static int read_dynamic(const json_t *o, const char *where, struct qargs *a) {
    const json_t *v = json_object_get(o, "dynamic");
    const char *text = json_string_value(v);
    if (!v || json_is_null(v) || json_is_false(v)) {
        a->dynamic = QDYNAMIC_NO;
    } else if (json_is_true(v)) {
        a->dynamic = QDYNAMIC_YES;
    } else if (text && str_eq(text, "local")) {
        a->dynamic = QDYNAMIC_LOCAL;
    } else {
        return err_set(ERR_FORMAT, "%s: dynamic is neither true, false nor \"local\"", where);
    }
    return 0;
}

/* The order of the solver; only "group" leaves a trace in the file, weight_g_idx. */
static int check_actorder(const json_t *o, const char *where) {
    static const char *const known[] = {"group", "weight", "static", "dynamic"};
    const json_t *v = json_object_get(o, "actorder");
    const char *text = json_string_value(v);
    if (!v || json_is_null(v) || json_is_boolean(v) ||
        (text && among(known, ARRAY_LEN(known), text))) {
        return 0;
    }
    return err_set(ERR_UNSUPPORTED, "%s: actorder \"%s\" is not known", where, text ? text : "?");
}

static int read_args(const json_t *o, const char *where, struct qargs *out) {
    static const char *const keys[] = {
        "num_bits", "type",     "symmetric",   "strategy", "group_size", "block_structure",
        "dynamic",  "actorder", "scale_dtype", "zp_dtype", "observer",   "observer_kwargs"};
    struct qargs a = {.bits = 8};
    bool symmetric = true;
    const char *type = "int";
    const char *scale = "";
    if (!json_is_object(o)) {
        return err_set(ERR_FORMAT, "%s: no object", where);
    }
    int rc = known_keys(o, where, keys, ARRAY_LEN(keys));
    rc = rc ? rc : json_need_i32(o, where, "num_bits", 1, 32, &a.bits);
    rc = rc ? rc : json_opt_str(o, where, "type", &type);
    rc = rc ? rc : json_opt_bool(o, where, "symmetric", &symmetric);
    rc = rc ? rc : json_opt_i32(o, where, "group_size", -1, GROUP_MAX, &a.group);
    rc = rc ? rc : json_opt_str(o, where, "scale_dtype", &scale);
    rc = rc ? rc : read_strategy(o, where, &a);
    rc = rc ? rc : read_block(o, where, &a);
    rc = rc ? rc : read_dynamic(o, where, &a);
    rc = rc ? rc : check_actorder(o, where);
    if (rc) {
        return rc;
    }
    a.is_float = str_eq(type, "float");
    if (!a.is_float && !str_eq(type, "int")) {
        return err_set(ERR_UNSUPPORTED, "%s: type \"%s\" is not known", where, type);
    }
    bool grouped = a.strategy == QSTRATEGY_GROUP || a.strategy == QSTRATEGY_TENSOR_GROUP;
    if ((grouped && a.group < 1) || (a.strategy == QSTRATEGY_BLOCK && a.rows < 1)) {
        return err_set(ERR_FORMAT, "%s: strategy \"%s\" without %s", where, strategies[a.strategy],
                       grouped ? "group_size" : "block_structure");
    }
    a.asymmetric = !symmetric;
    a.mx = str_ends(scale, "uint8") || str_ends(scale, "e8m0fnu");
    *out = a;
    return 0;
}

/* Which input formats a product can take: struct actq. */
static int check_act(const struct qargs *a, const char *where) {
    bool i8 = !a->is_float && a->bits == 8;
    bool f8 = a->is_float && a->bits == 8 && !a->asymmetric && !a->mx;
    bool f4 = a->is_float && a->bits == 4 && !a->asymmetric && !a->mx;
    bool is_static = a->dynamic == QDYNAMIC_NO && a->strategy == QSTRATEGY_TENSOR;
    bool dynamic = a->dynamic == QDYNAMIC_YES &&
                   (a->strategy == QSTRATEGY_TOKEN || a->strategy == QSTRATEGY_GROUP);
    bool local =
        a->dynamic == QDYNAMIC_LOCAL && a->strategy == QSTRATEGY_TENSOR_GROUP && a->group == 16;
    if (((i8 || f8) && (is_static || dynamic)) || (f4 && local)) {
        return 0;
    }
    static const char *const how[] = {"static", "dynamic", "local"};
    return err_set(ERR_UNSUPPORTED,
                   "%s: %s %s%d inputs with strategy \"%s\"%s%s are not computed; computed are "
                   "int8 and fp8 (static by tensor, dynamic by token or group) and fp4 (local, "
                   "tensor_group 16)",
                   where, how[a->dynamic], a->is_float ? "fp" : "int", a->bits,
                   strategies[a->strategy], a->asymmetric ? ", asymmetric," : "",
                   a->mx ? ", scaled by powers of two," : "");
}

static bool fits(const struct row *r, const struct qargs *a) {
    uint32_t bits = a->is_float ? r->float_bits : r->int_bits;
    return bits >> a->bits & 1U && r->strategies >> a->strategy & 1U &&
           (r->group == 0 || r->group == a->group) && a->dynamic == QDYNAMIC_NO &&
           !(a->is_float && a->asymmetric);
}

static int find_layout(const char *format, const char *where, struct qscheme *s) {
    bool known = false;
    if (str_eq(format, "dense")) {
        s->layout = QLAYOUT_DENSE;
        return 0;
    }
    format = str_eq(format, "naive_quantized") ? "naive-quantized" : format;
    for (int32_t i = 0; i < ARRAY_LEN(rows); i++) {
        known = known || str_eq(rows[i].name, format);
        if (str_eq(rows[i].name, format) && fits(&rows[i], &s->w)) {
            s->layout = rows[i].layout;
            return 0;
        }
    }
    if (known) {
        return err_set(ERR_UNSUPPORTED,
                       "%s: format \"%s\" of %s%d weights, strategy \"%s\", group_size %d%s%s is "
                       "not computed",
                       where, format, s->w.is_float ? "fp" : "int", s->w.bits,
                       strategies[s->w.strategy], s->w.group, s->w.asymmetric ? ", asymmetric" : "",
                       s->w.dynamic ? ", dynamic" : "");
    }
    return err_set(ERR_UNSUPPORTED,
                   "%s: format \"%s\" is not read; read are dense, pack-quantized, int-quantized, "
                   "float-quantized, naive-quantized, nvfp4-pack-quantized, mxfp4-pack-quantized, "
                   "mxfp8-quantized",
                   where, format);
}

static int read_act(const json_t *o, const char *where, struct qscheme *s) {
    char place[PLACE];
    const json_t *act = json_object_get(o, "input_activations");
    if (!act || json_is_null(act)) {
        return 0;
    }
    snprintf(place, sizeof place, "%.400s.input_activations", where);
    int rc = read_args(act, place, &s->act);
    rc = rc ? rc : check_act(&s->act, place);
    if (!rc && s->layout == QLAYOUT_DENSE) {
        rc = err_set(ERR_UNSUPPORTED, "%s: quantized inputs of dense weights are not computed",
                     place);
    }
    s->has_act = true;
    return rc;
}

static int read_group(const json_t *o, const char *where, const char *outer, struct qformat *q) {
    static const char *const keys[] = {"targets", "weights", "input_activations",
                                       "output_activations", "format"};
    char place[PLACE];
    struct qscheme s = {0};
    const char *format = outer;
    const json_t *out = json_object_get(o, "output_activations");
    if (!json_is_object(o)) {
        return err_set(ERR_FORMAT, "%s: no object", where);
    }
    int rc = known_keys(o, where, keys, ARRAY_LEN(keys));
    rc = rc ? rc : json_opt_str(o, where, "format", &format);
    if (rc) {
        return rc;
    }
    if (out && !json_is_null(out)) {
        return err_set(ERR_UNSUPPORTED, "%s: output_activations are not computed", where);
    }
    if (!json_is_array(json_object_get(o, "targets"))) {
        return err_set(ERR_FORMAT, "%s: \"targets\" is no list", where);
    }
    if (!str_eq(format, "dense")) {
        snprintf(place, sizeof place, "%.400s.weights", where);
        if (!json_is_object(json_object_get(o, "weights"))) {
            return err_set(ERR_FORMAT, "%s: \"weights\" is missing", where);
        }
        rc = read_args(json_object_get(o, "weights"), place, &s.w);
    }
    rc = rc ? rc : find_layout(format, where, &s);
    rc = rc ? rc : read_act(o, where, &s);
    rc = rc ? rc : qformat_add(q, &s);
    return rc ? rc
              : qformat_names(json_object_get(o, "targets"), where, "targets", q->n_scheme - 1,
                              &q->targets);
}

/* Parts that would change every layer; an empty object or null says nothing. */
static int check_extras(const json_t *o, const char *where) {
    const json_t *sparse = json_object_get(o, "sparsity_config");
    const json_t *turn = json_object_get(o, "transform_config");
    const char *status = "compressed";
    const char *format = "dense";
    int rc = json_opt_str(o, where, "quantization_status", &status);
    rc = rc ? rc : json_opt_str(sparse, where, "format", &format);
    if (rc) {
        return rc;
    }
    if (!str_eq(status, "compressed") && !str_eq(status, "frozen")) {
        return err_set(ERR_UNSUPPORTED,
                       "%s: quantization_status \"%s\", want \"compressed\" or \"frozen\"", where,
                       status);
    }
    if (turn && !json_is_null(turn) && !(json_is_object(turn) && json_object_size(turn) == 0)) {
        const char *key = json_object_iter_key(json_object_iter((json_t *)(uintptr_t)turn));
        return err_set(ERR_UNSUPPORTED, "%s: transform_config (\"%s\") is not computed", where,
                       key ? key : "?");
    }
    if (sparse && !json_is_null(sparse) && !json_is_object(sparse)) {
        return err_set(ERR_FORMAT, "%s: sparsity_config is no object", where);
    }
    return str_eq(format, "dense")
               ? 0
               : err_set(ERR_UNSUPPORTED, "%s: sparsity_config format \"%s\" is not read", where,
                         format);
}

static int read_kv(const json_t *o, const char *where, struct qformat *q) {
    char place[PLACE];
    struct qargs a;
    const json_t *kv = json_object_get(o, "kv_cache_scheme");
    if (!kv || json_is_null(kv)) {
        return 0;
    }
    snprintf(place, sizeof place, "%.400s: kv_cache_scheme", where);
    int rc = read_args(kv, place, &a);
    if (rc) {
        return rc;
    }
    q->kv_f8 = a.is_float && a.bits == 8 && !a.asymmetric && a.dynamic == QDYNAMIC_NO &&
               a.strategy == QSTRATEGY_TENSOR;
    return q->kv_f8 ? 0
                    : err_set(ERR_UNSUPPORTED,
                              "%s: %s%d by \"%s\"%s is not computed; computed is fp8 by tensor, "
                              "static, symmetric",
                              place, a.is_float ? "fp" : "int", a.bits, strategies[a.strategy],
                              a.dynamic != QDYNAMIC_NO ? ", dynamic," : "");
}

/* "0.17.1" is 17, "1.2" 1002; anything else 0. */
static int32_t read_version(const json_t *o) {
    const char *v = json_string_value(json_object_get(o, "version"));
    int32_t part[2] = {0, 0};
    for (int32_t i = 0; v && i < 2; i++) {
        while (*v >= '0' && *v <= '9' && part[i] < 100) {
            part[i] = 10 * part[i] + (*v++ - '0');
        }
        v = *v == '.' ? v + 1 : NULL;
    }
    return 1000 * part[0] + part[1];
}

int qformat_ct(const json_t *o, const char *where, struct qformat *q) {
    const char *format = "";
    const char *name = NULL;
    json_t *group = NULL;
    const json_t *groups = json_object_get(o, "config_groups");
    int rc = json_opt_str(o, where, "format", &format);
    rc = rc ? rc : check_extras(o, where);
    rc = rc ? rc : read_kv(o, where, q);
    rc = rc ? rc : qformat_names(json_object_get(o, "ignore"), where, "ignore", 0, &q->ignore);
    if (rc) {
        return rc;
    }
    q->writer = read_version(o);
    if (json_object_size(groups) == 0 && !q->kv_f8) {
        return err_set(ERR_FORMAT, "%s: quantization_config has no config_groups", where);
    }
    if (json_object_size(groups) > GROUPS_MAX) {
        return err_set(ERR_LIMIT, "%s: more than %d config_groups", where, (int)GROUPS_MAX);
    }
    json_object_foreach((json_t *)(uintptr_t)groups, name, group) {
        char place[PLACE];
        snprintf(place, sizeof place, "%.300s: config_groups.%.100s", where, name);
        rc = read_group(group, place, format, q);
        if (rc) {
            return rc;
        }
    }
    return 0;
}
