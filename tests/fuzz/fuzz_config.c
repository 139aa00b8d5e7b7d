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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    json_t *j = NULL;
    struct model_cfg cfg;
    struct qformat q;
    if (json_parse("fuzz", (const char *)data, (int64_t)n, &j)) {
        return 0;
    }
    if (arch_read_hf_cfg(j, "fuzz", &cfg) == 0) {
        use(&cfg);
    }
    if (qformat_read(j, "fuzz", &q) == 0 && q.text[0] == '\0') {
        abort();
    }
    json_decref(j);
    return 0;
}
