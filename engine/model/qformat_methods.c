/* The configurations of AutoGPTQ and GPTQModel, AutoAWQ, and transformers' fp8.
 *
 * gptq: bits 2, 3, 4, 8; group_size (-1: the whole row); sym; checkpoint_format "gptq" (zero points
 * are stored less one) or "gptq_v2"; lm_head; dynamic: { "[+:|-:]regex": { bits, ... } }, of which
 * the first that matches (as re.match) changes the settings of a module, or with "-:" leaves it
 * dense. desc_act needs no attention: g_idx says all.
 * awq: bits 4, version "gemm".
 * fp8: weight_block_size [r,c] with inputs in groups of c; without it one scale a tensor.
 *
 * Which modules are quantized the tensors tell (qbind.h); the names of modules_to_not_convert only
 * serve plans without tensors. */
#include <stdio.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/base/json.h"
#include "engine/base/str.h"
#include "engine/model/qformat_int.h"

enum { GROUP_MAX = 1 << 24, PLACE = 512 };

/* A setting that has one value here. */
struct fixed {
    const char *key;
    const char *value; /* in lower case */
};

static int check_fixed(const json_t *o, const char *where, const struct fixed *f, int32_t n) {
    for (int32_t i = 0; i < n; i++) {
        const char *v = NULL;
        int rc = json_opt_str(o, where, f[i].key, &v);
        if (rc) {
            return rc;
        }
        bool same = true;
        for (size_t j = 0; v && same && j <= strlen(f[i].value); j++) {
            char c = v[j] >= 'A' && v[j] <= 'Z' ? (char)(v[j] + ('a' - 'A')) : v[j];
            same = c == f[i].value[j];
        }
        if (v && !same) {
            return err_set(ERR_UNSUPPORTED, "%s: %s \"%s\" is not read; read is \"%s\"", where,
                           f[i].key, v, f[i].value);
        }
    }
    return 0;
}

/* Names that a module's own name must hold as whole parts: NAME becomes re:(.*\.)?NAME(\..*)?$ */
static int read_skip(const json_t *o, const char *where, const char *key, struct qformat *q) {
    const json_t *list = json_object_get(o, key);
    if (!list || json_is_null(list)) {
        return 0;
    }
    if (!json_is_array(list)) {
        return err_set(ERR_FORMAT, "%s: %s is no list of names", where, key);
    }
    int rc = q->ignore ? 0 : qrules_create(&q->ignore);
    for (size_t i = 0; i < json_array_size(list) && !rc; i++) {
        const char *name = json_string_value(json_array_get(list, i));
        char regex[PLACE];
        if (!name || strlen(name) > sizeof regex / 2) {
            return err_set(ERR_FORMAT, "%s: %s[%zu] is no name", where, key, i);
        }
        snprintf(regex, sizeof regex, "(.*\\.)?\\Q%s\\E(\\..*)?$", name);
        rc = qrules_add_regex(q->ignore, where, regex, 0);
    }
    return rc;
}

/* Sizes of a linear layer's settings, with the defaults of *s. */
static int read_sizes(const json_t *o, const char *where, struct qscheme *s) {
    bool sym = !s->w.asymmetric;
    int rc = json_opt_i32(o, where, "bits", 1, 32, &s->w.bits);
    rc = rc ? rc : json_opt_i32(o, where, "group_size", -1, GROUP_MAX, &s->w.group);
    rc = rc ? rc : json_opt_bool(o, where, "sym", &sym);
    if (rc) {
        return rc;
    }
    if (s->w.group == 0) {
        return err_set(ERR_FORMAT, "%s: group_size 0, want -1 or at least 1", where);
    }
    s->w.asymmetric = !sym;
    s->w.strategy = s->w.group < 0 ? QSTRATEGY_CHANNEL : QSTRATEGY_GROUP;
    return 0;
}

static int check_gptq_bits(const struct qscheme *s, const char *where) {
    int32_t b = s->w.bits;
    if (b == 2 || b == 3 || b == 4 || b == 8) {
        return 0;
    }
    return err_set(ERR_UNSUPPORTED, "%s: gptq with %d bits is not read; read are 2, 3, 4, 8%s",
                   where, b, b >= 5 && b <= 7 ? " (5 to 7 bits are stored in planes)" : "");
}

/* One exception of "dynamic". */
static int read_exception(const json_t *o, const char *where, const char *rule, struct qformat *q) {
    static const char *const stored[] = {"checkpoint_format", "format", "pack_dtype"};
    struct qscheme s = q->scheme[0];
    bool off = str_starts(rule, "-:");
    const char *regex = rule + (off || str_starts(rule, "+:") ? 2 : 0);
    char place[PLACE];
    snprintf(place, sizeof place, "%.300s: dynamic \"%.100s\"", where, rule);
    if (off) {
        return qrules_add_regex(q->targets, place, regex, INT32_MAX);
    }
    if (!json_is_object(o)) {
        return err_set(ERR_FORMAT, "%s: no object", place);
    }
    for (int32_t i = 0; i < ARRAY_LEN(stored); i++) {
        if (json_object_get(o, stored[i])) {
            return err_set(ERR_UNSUPPORTED, "%s: \"%s\" of some modules is not read", place,
                           stored[i]);
        }
    }
    int rc = read_sizes(o, place, &s);
    rc = rc ? rc : check_gptq_bits(&s, place);
    rc = rc ? rc : qformat_add(q, &s);
    return rc ? rc : qrules_add_regex(q->targets, place, regex, q->n_scheme - 1);
}

static int read_dynamic(const json_t *o, const char *where, struct qformat *q) {
    const json_t *rules = json_object_get(o, "dynamic");
    const char *rule = NULL;
    json_t *value = NULL;
    if (!rules || json_is_null(rules) || json_is_false(rules)) {
        return 0;
    }
    if (!json_is_object(rules)) {
        return err_set(ERR_FORMAT, "%s: dynamic is no object", where);
    }
    int rc = qrules_create(&q->targets);
    json_object_foreach((json_t *)(uintptr_t)rules, rule, value) {
        rc = rc ? rc : read_exception(value, where, rule, q);
    }
    return rc;
}

int qformat_gptq(const json_t *o, const char *where, struct qformat *q) {
    static const struct fixed fixed[] = {{"pack_dtype", "int32"}};
    struct qscheme s = {.layout = QLAYOUT_GPTQ, .w = {.group = 128}};
    const char *format = "gptq";
    bool marlin = false;
    int rc = json_need_i32(o, where, "bits", 1, 32, &s.w.bits);
    rc = rc ? rc : read_sizes(o, where, &s);
    rc = rc ? rc : check_gptq_bits(&s, where);
    rc = rc ? rc : json_opt_str(o, where, "format", &format);
    rc = rc ? rc : json_opt_str(o, where, "checkpoint_format", &format);
    rc = rc ? rc : json_opt_bool(o, where, "is_marlin_format", &marlin);
    rc = rc ? rc : json_opt_bool(o, where, "lm_head", &q->lm_head);
    rc = rc ? rc : check_fixed(o, where, fixed, ARRAY_LEN(fixed));
    if (rc) {
        return rc;
    }
    s.v2 = str_eq(format, "gptq_v2");
    if ((!s.v2 && !str_eq(format, "gptq")) || marlin) {
        return err_set(ERR_UNSUPPORTED,
                       "%s: checkpoint_format \"%s\" is not read; read are gptq, gptq_v2", where,
                       marlin ? "marlin" : format);
    }
    rc = qformat_add(q, &s);
    return rc ? rc : read_dynamic(o, where, q);
}

int qformat_awq(const json_t *o, const char *where, struct qformat *q) {
    static const struct fixed fixed[] = {{"version", "gemm"}, {"backend", "autoawq"}};
    struct qscheme s = {.layout = QLAYOUT_AWQ, .w = {.group = 128, .asymmetric = true}};
    int rc = json_need_i32(o, where, "bits", 1, 32, &s.w.bits);
    rc = rc ? rc : read_sizes(o, where, &s);
    rc = rc ? rc : check_fixed(o, where, fixed, ARRAY_LEN(fixed));
    rc = rc ? rc : read_skip(o, where, "modules_to_not_convert", q);
    if (!rc && s.w.bits != 4) {
        rc = err_set(ERR_UNSUPPORTED, "%s: awq with %d bits is not read; read is 4", where,
                     s.w.bits);
    }
    s.w.asymmetric = true;
    return rc ? rc : qformat_add(q, &s);
}

/* weight_block_size: inputs in groups of its columns, found at run time. */
static int read_fp8_block(const json_t *o, const char *where, struct qscheme *s) {
    const json_t *v = json_object_get(o, "weight_block_size");
    if (!v || json_is_null(v)) {
        return 0;
    }
    json_int_t rows = json_integer_value(json_array_get(v, 0));
    json_int_t cols = json_integer_value(json_array_get(v, 1));
    if (json_array_size(v) != 2 || rows < 1 || cols < 1 || rows > GROUP_MAX || cols > GROUP_MAX) {
        return err_set(ERR_FORMAT, "%s: weight_block_size is no pair [rows, columns] of 1..%d",
                       where, (int)GROUP_MAX);
    }
    s->scale_inv = true;
    s->w.strategy = QSTRATEGY_BLOCK;
    s->w.rows = (int32_t)rows;
    s->w.group = (int32_t)cols;
    s->act.strategy = QSTRATEGY_GROUP;
    s->act.group = (int32_t)cols;
    s->act.dynamic = QDYNAMIC_YES;
    return 0;
}

int qformat_fp8(const json_t *o, const char *where, struct qformat *q) {
    static const struct fixed fixed[] = {
        {"fmt", "e4m3"}, {"scale_fmt", "float"}, {"kv_cache_scheme", ""}};
    const struct qargs f8 = {.bits = 8, .is_float = true, .strategy = QSTRATEGY_TENSOR};
    struct qscheme s = {.layout = QLAYOUT_FLOAT, .w = f8, .has_act = true, .act = f8};
    const char *scheme = "dynamic";
    int rc = json_opt_str(o, where, "activation_scheme", &scheme);
    rc = rc ? rc : check_fixed(o, where, fixed, ARRAY_LEN(fixed));
    rc = rc ? rc : read_fp8_block(o, where, &s);
    rc = rc ? rc : read_skip(o, where, "modules_to_not_convert", q);
    rc = rc ? rc : read_skip(o, where, "ignored_layers", q);
    if (rc) {
        return rc;
    }
    const char *want = s.scale_inv ? "dynamic" : "static";
    if (!str_eq(scheme, want)) {
        return err_set(ERR_UNSUPPORTED,
                       "%s: activation_scheme \"%s\" with %s is not computed; computed is \"%s\"",
                       where, scheme,
                       s.scale_inv ? "weight_block_size"
                                   : "one scale a tensor (every row's code "
                                     "would depend on its batch)",
                       want);
    }
    return qformat_add(q, &s);
}
