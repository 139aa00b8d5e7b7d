/* 1. A checkpoint has one method; the method's reader fills schemes and rules.
 * 2. A module that no rule names, or that is ignored, is dense.
 * 3. What would change a result and is not known is refused by its name.
 *
 * Methods other than compressed-tensors quantize the linear layers of the decoder; the head only
 * where they say so. */
#include "engine/model/qformat.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/base/json.h"
#include "engine/base/mem.h"
#include "engine/base/str.h"
#include "engine/model/qformat_int.h"

enum { LIST_MAX = QRULES_MAX };

static const char *const layout_names[QLAYOUT_N] = {
    [QLAYOUT_DENSE] = "dense",
    [QLAYOUT_PACK] = "pack-quantized",
    [QLAYOUT_INT] = "int-quantized",
    [QLAYOUT_FLOAT] = "float-quantized",
    [QLAYOUT_NVFP4] = "nvfp4-pack-quantized",
    [QLAYOUT_MXFP4] = "mxfp4-pack-quantized",
    [QLAYOUT_MXFP8] = "mxfp8-quantized",
    [QLAYOUT_GPTQ] = "gptq",
    [QLAYOUT_AWQ] = "awq gemm",
};

/* "int4, group 64" */
static void args_text(char *dst, size_t n, const struct qargs *a) {
    static const char *const plain[QSTRATEGY_N] = {[QSTRATEGY_TENSOR] = "per tensor",
                                                   [QSTRATEGY_CHANNEL] = "per channel",
                                                   [QSTRATEGY_TOKEN] = "per token"};
    char by[48] = "";
    if (plain[a->strategy]) {
        snprintf(by, sizeof by, "%s", plain[a->strategy]);
    } else if (a->strategy == QSTRATEGY_BLOCK) {
        snprintf(by, sizeof by, "block %dx%d", a->rows, a->group);
    } else {
        snprintf(by, sizeof by, "group %d", a->group);
    }
    snprintf(dst, n, "%s%d, %s", a->is_float ? "fp" : "int", a->bits, by);
}

static void scheme_text(struct qscheme *s) {
    char w[64];
    char act[64];
    size_t cap = sizeof s->text;
    if (s->layout == QLAYOUT_DENSE) {
        snprintf(s->text, cap, "dense");
        return;
    }
    args_text(w, sizeof w, &s->w);
    const char *sign = s->w.is_float ? "" : s->w.asymmetric ? ", asymmetric" : ", symmetric";
    int n = snprintf(s->text, cap, "%s, %s%s", layout_names[s->layout], w, sign);
    if (s->has_act && n > 0 && (size_t)n < cap) {
        args_text(act, sizeof act, &s->act);
        snprintf(s->text + n, cap - (size_t)n, "; input %s%s%s", act,
                 s->act.dynamic == QDYNAMIC_NO ? " static" : "",
                 s->act.asymmetric ? ", asymmetric" : "");
    }
}

int qformat_add(struct qformat *q, const struct qscheme *s) {
    struct qscheme *p = mem_realloc(MEM_MODEL, q->scheme, (q->n_scheme + 1) * (int64_t)sizeof *p);
    if (!p) {
        return ERR_NOMEM;
    }
    q->scheme = p;
    p[q->n_scheme] = *s;
    scheme_text(&p[q->n_scheme]);
    q->n_scheme++;
    return 0;
}

int qformat_names(
    const json_t *list, const char *where, const char *key, int32_t value, struct qrules **rules) {
    if (!list || json_is_null(list)) {
        return 0;
    }
    if (!json_is_array(list)) {
        return err_set(ERR_FORMAT, "%s: %s is no list of names", where, key);
    }
    int rc = *rules ? 0 : qrules_create(rules);
    for (size_t i = 0; i < json_array_size(list) && !rc; i++) {
        const char *name = json_string_value(json_array_get(list, i));
        rc = name ? qrules_add(*rules, where, name, value)
                  : err_set(ERR_FORMAT, "%s: %s[%zu] is no name", where, key, i);
    }
    return rc;
}

static const struct {
    const char *name;
    enum qmethod method;
    int (*read)(const json_t *o, const char *where, struct qformat *q);
} methods[] = {{"compressed-tensors", QMETHOD_CT, qformat_ct},
               {"gptq", QMETHOD_GPTQ, qformat_gptq},
               {"awq", QMETHOD_AWQ, qformat_awq},
               {"fp8", QMETHOD_FP8, qformat_fp8}};

/* Reads one object; name: its method. */
static int read_method(const json_t *o, const char *where, const char *name, struct qformat *out) {
    struct qformat q = {.text = "none"};
    int32_t i = 0;
    while (i < ARRAY_LEN(methods) && !str_eq(methods[i].name, name)) {
        i++;
    }
    if (i == ARRAY_LEN(methods)) {
        return err_set(ERR_UNSUPPORTED,
                       "%s: quantization method \"%s\" is not read; read are compressed-tensors, "
                       "gptq, awq, fp8",
                       where, name);
    }
    q.method = methods[i].method;
    int rc = methods[i].read(o, where, &q);
    if (rc) {
        qformat_fini(&q);
        return rc;
    }
    if (q.n_scheme > 0) {
        str_copy(q.text, (int64_t)sizeof q.text, q.scheme[0].text);
    }
    if (q.n_scheme > 1) {
        snprintf(q.text, sizeof q.text, "%.80s; %d more", q.scheme[0].text, q.n_scheme - 1);
    }
    *out = q;
    return 0;
}

int qformat_read(const json_t *config, const char *where, struct qformat *out) {
    const char *method = NULL;
    const json_t *o = json_object_get(config, "quantization_config");
    if (!o || json_is_null(o)) { /* why: some multimodal folders keep it with the text part */
        o = json_object_get(json_object_get(config, "text_config"), "quantization_config");
    }
    if (!o || json_is_null(o)) { /* the key of the first folders of compressed-tensors */
        o = json_object_get(config, "compression_config");
    }
    if (!o || json_is_null(o)) {
        *out = (struct qformat){.text = "none"};
        return 0;
    }
    if (!json_is_object(o)) {
        return err_set(ERR_FORMAT, "%s: quantization_config is no object", where);
    }
    int rc = json_opt_str(o, where, "method", &method); /* the key of GPTQModel */
    rc = rc || method ? rc : json_need_str(o, where, "quant_method", &method);
    return rc ? rc : read_method(o, where, method, out);
}

/* A folder of AutoGPTQ may have its settings beside config.json alone. */
static int read_beside(const char *dir, struct qformat *out) {
    char path[FILE_PATH_MAX];
    json_t *o = NULL;
    const char *method = "gptq";
    int rc = file_join(path, dir, "quantize_config.json");
    if (rc || !file_exists(path)) {
        return rc;
    }
    rc = json_read(path, &o);
    if (!rc && !json_is_object(o)) {
        rc = err_set(ERR_FORMAT, "%s: no object", path);
    }
    rc = rc ? rc : json_opt_str(o, path, "quant_method", &method);
    if (!rc) {
        rc = read_method(o, path, method, out);
    }
    json_decref(o);
    return rc;
}

int qformat_folder(const json_t *config, const char *dir, struct qformat *out) {
    char where[FILE_PATH_MAX];
    struct qformat q = {.text = "none"};
    int rc = file_join(where, dir, "config.json");
    rc = rc ? rc : qformat_read(config, where, &q);
    rc = rc || q.method != QMETHOD_NONE ? rc : read_beside(dir, &q);
    if (!rc) {
        *out = q;
    }
    return rc;
}

int qformat_open(const struct ckpt *c, struct qformat *out) {
    if (c->kind == CKPT_HF) {
        return qformat_folder(c->config, c->path, out);
    }
    *out = (struct qformat){.text = "none"};
    return 0;
}

void qformat_fini(struct qformat *q) {
    qrules_free(q->targets);
    qrules_free(q->ignore);
    mem_free(q->scheme);
    *q = (struct qformat){0};
}

int qformat_find(const struct qformat *q,
                 const char *module,
                 const char *cls,
                 const struct qscheme **s) {
    int32_t ignored = -1;
    int32_t i = -1;
    *s = NULL;
    if (q->n_scheme == 0) {
        return 0;
    }
    int rc = qrules_find(q->ignore, module, cls, &ignored);
    if (rc || ignored >= 0) {
        return rc;
    }
    if (q->method == QMETHOD_CT) {
        rc = qrules_find(q->targets, module, cls, &i);
    } else if (str_eq(cls, "Linear") && (q->lm_head || !str_ends(module, "lm_head"))) {
        rc = qrules_first(q->targets, module, &i);
        i = rc || i >= 0 ? i : 0;
    }
    if (!rc && i >= 0 && i < q->n_scheme && q->scheme[i].layout != QLAYOUT_DENSE) {
        *s = &q->scheme[i];
    }
    return rc;
}

int32_t qscheme_scale_bits(const struct qscheme *s) {
    bool byte =
        s->layout == QLAYOUT_NVFP4 || s->layout == QLAYOUT_MXFP4 || s->layout == QLAYOUT_MXFP8;
    return byte ? 8 : s->scale_inv ? 32 : 16;
}

int64_t qscheme_bytes(const struct qscheme *s, int64_t n, int64_t k) {
    const struct qargs *a = &s->w;
    bool grouped = a->strategy == QSTRATEGY_GROUP || a->strategy == QSTRATEGY_TENSOR_GROUP ||
                   a->strategy == QSTRATEGY_BLOCK;
    int64_t cols = grouped && a->group > 0 ? i64_div_up(k, a->group) : 1;
    int64_t rows = a->strategy == QSTRATEGY_TENSOR  ? 1
                   : a->strategy == QSTRATEGY_BLOCK ? i64_div_up(n, i32_max(1, a->rows))
                                                    : n;
    bool whole = s->layout == QLAYOUT_INT; /* a byte a code, however few its bits */
    int64_t codes = n * i64_div_up(k * (whole ? 8 : a->bits), 8);
    bool zeros = a->asymmetric || s->layout == QLAYOUT_GPTQ || s->layout == QLAYOUT_AWQ;
    int64_t bits = qscheme_scale_bits(s) + (zeros ? (whole ? 8 : a->bits) : 0);
    int64_t rest = s->layout == QLAYOUT_GPTQ    ? 4 * k                /* g_idx */
                   : s->layout == QLAYOUT_NVFP4 ? (s->has_act ? 8 : 4) /* global scales */
                                                : 0;
    return codes + i64_div_up(rows * cols * bits, 8) + rest;
}
