/* Any bytes as a GGUF container: everything that a parsed file hands out is read, its
 * configuration and its tokenizer are asked for. */
#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/model/arch.h"
#include "engine/model/finite.h"
#include "engine/run/toksource.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static uint32_t touch(const char *p, int64_t n) {
    uint32_t sum = 0;
    for (int64_t i = 0; i < n; i++) {
        sum += (uint8_t)p[i];
    }
    return sum;
}

static uint32_t walk(const struct gguf *g) {
    uint32_t sum = 0;
    for (int64_t i = 0; i < g->n_kv; i++) {
        const struct gguf_kv *kv = &g->kv[i];
        struct gguf_str *items = NULL;
        sum += touch(kv->key.data, kv->key.len);
        if (kv->is_array && kv->type == GGUF_STRING && gguf_strings(g, kv, &items) == 0) {
            for (int64_t j = 0; j < kv->n; j++) {
                sum += touch(items[j].data, items[j].len);
            }
            mem_free(items);
        }
        for (int64_t j = 0; j < kv->n && kv->type != GGUF_STRING; j++) {
            sum += gguf_number(kv, j) > 0 ? 1 : 0;
        }
    }
    for (int32_t i = 0; i < g->dir.n; i++) {
        const struct tensor *t = &g->dir.items[i];
        if (t->bytes != tensor_bytes_wanted(t->type, t->dim, t->n_dim)) {
            abort();
        }
        sum += touch((const char *)t->data, t->bytes) + (finite_check(t, "fuzz") ? 1 : 0);
    }
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    static struct ckpt c;
    struct model_cfg cfg;
    struct tok *tok = NULL;
    struct gguf *g = NULL;
    if (gguf_parse("fuzz", data, (int64_t)n, &g)) {
        return 0;
    }
    walk(g);
    c = (struct ckpt){.kind = CKPT_GGUF, .path = "fuzz", .gguf = g};
    if (arch_read_cfg(&c, &cfg) == 0 && model_cfg_check(&cfg, "fuzz") != 0) {
        abort();
    }
    if (toksource_gguf(g, &tok) == 0) {
        tok_destroy(tok);
    }
    gguf_close(g);
    return 0;
}
