/* Any JSON as a config.json: a configuration that holds together, or an error. What is accepted is
 * used: frequencies, memory plan. */
#include <stdlib.h>

#include "engine/base/json.h"
#include "engine/base/mem.h"
#include "engine/model/arch.h"
#include "engine/model/memplan.h"
#include "engine/model/qformat.h"
#include "engine/model/rope.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void use(const struct model_cfg *c) {
    struct memplan p;
    if (model_cfg_check(c, "fuzz") || c->n_layer < 1 || c->head_dim < 2 || c->n_kv_head < 1 ||
        c->n_eos > MODEL_EOS_MAX) {
        abort();
    }
    memplan_make(c, DTYPE_BF16, DTYPE_F16, c->ctx_max, INT64_C(1) << 40, &p);
    if (p.n_param < 1 || p.kv_bytes_per_seq < 1 || p.weight_bytes < p.n_param) {
        abort();
    }
    float *freq = mem_array(MEM_TEST, c->head_dim / 2, (int64_t)sizeof *freq);
    if (freq) {
        rope_frequencies(&c->rope, c->head_dim, freq);
        mem_free(freq);
    }
}

/* What is read has a text, layouts that exist, and gives sizes. */
static void use_schemes(const struct qformat *q, const struct model_cfg *c, bool has_cfg) {
    static const char *const modules[] = {"lm_head", "model.layers.0.mlp.down_proj", ""};
    if (q->text[0] == '\0' || (q->method == QMETHOD_NONE) != (q->n_scheme == 0 && !q->kv_f8)) {
        abort();
    }
    for (int32_t i = 0; i < q->n_scheme; i++) {
        const struct qscheme *s = &q->scheme[i];
        if ((unsigned)s->layout >= QLAYOUT_N || s->text[0] == '\0' || s->w.bits < 0 ||
            (s->layout != QLAYOUT_DENSE && (s->w.bits < 2 || s->w.bits > 8)) ||
            qscheme_bytes(s, 256, 4096) < 1) {
            abort();
        }
    }
    for (int32_t i = 0; i < ARRAY_LEN(modules); i++) {
        const struct qscheme *s = NULL;
        if (qformat_find(q, modules[i], "Linear", &s) == 0 && s &&
            (s < q->scheme || s >= q->scheme + q->n_scheme)) {
            abort();
        }
    }
    if (has_cfg && c->n_layer * (c->n_expert + 1) < 64) { /* not the largest, for speed */
        struct memplan p;
        memplan_make(c, DTYPE_BF16, DTYPE_F16, c->ctx_max, INT64_C(1) << 40, &p);
        if (memplan_quantize(c, DTYPE_BF16, q, &p) == 0 && p.weight_bytes < 0) {
            abort();
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    json_t *j = NULL;
    struct model_cfg cfg;
    struct qformat q;
    if (json_parse("fuzz", (const char *)data, (int64_t)n, &j)) {
        return 0;
    }
    bool has_cfg = arch_read_hf_cfg(j, "fuzz", &cfg) == 0;
    if (has_cfg) {
        use(&cfg);
    }
    if (qformat_read(j, "fuzz", &q) == 0) {
        use_schemes(&q, &cfg, has_cfg);
        qformat_fini(&q);
    }
    json_decref(j);
    return 0;
}
