/* Typed access to the metadata of a GGUF container. */
#include "engine/model/gguf.h"

#include <math.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/base/mem.h"

const struct gguf_kv *gguf_find(const struct gguf *g, const char *key) {
    int64_t n = (int64_t)strlen(key);
    for (int64_t i = 0; i < g->n_kv; i++) {
        const struct gguf_kv *kv = &g->kv[i];
        if (kv->key.len == n && memcmp(kv->key.data, key, (size_t)n) == 0) {
            return kv;
        }
    }
    return NULL;
}

/* Reads an unaligned value of a fixed type. */
#define LOAD(type, p)                                                                              \
    do {                                                                                           \
        type v_;                                                                                   \
        memcpy(&v_, (p), sizeof v_);                                                               \
        return (double)v_;                                                                         \
    } while (0)

double gguf_number(const struct gguf_kv *kv, int64_t i) {
    const uint8_t *p = kv->data;
    switch (kv->type) {
    case GGUF_U8:
    case GGUF_BOOL:
        return p[i];
    case GGUF_I8:
        LOAD(int8_t, p + i);
    case GGUF_U16:
        LOAD(uint16_t, p + 2 * i);
    case GGUF_I16:
        LOAD(int16_t, p + 2 * i);
    case GGUF_U32:
        LOAD(uint32_t, p + 4 * i);
    case GGUF_I32:
        LOAD(int32_t, p + 4 * i);
    case GGUF_F32:
        LOAD(float, p + 4 * i);
    case GGUF_U64:
        LOAD(uint64_t, p + 8 * i);
    case GGUF_I64:
        LOAD(int64_t, p + 8 * i);
    case GGUF_F64:
        LOAD(double, p + 8 * i);
    case GGUF_STRING:
    case GGUF_ARRAY:
    case GGUF_TYPE_N:
        break;
    }
    return 0;
}

static int wrong(const struct gguf *g, const char *key, const char *want) {
    return err_set(ERR_FORMAT, "%s: metadata \"%s\" is no %s", g->where, key, want);
}

static bool is_number(const struct gguf_kv *kv) {
    return !kv->is_array && kv->type != GGUF_STRING && kv->type != GGUF_BOOL;
}

/* Reads a whole number without a detour over double. out: false when it is past INT64_MAX */
static bool load_whole(const struct gguf_kv *kv, int64_t *out) {
    uint64_t u = 0;
    if (kv->type != GGUF_U64 && kv->type != GGUF_I64) {
        *out = (int64_t)gguf_number(kv, 0);
        return true;
    }
    memcpy(&u, kv->data, sizeof u);
    memcpy(out, kv->data, sizeof *out);
    return kv->type == GGUF_I64 || u <= (uint64_t)INT64_MAX;
}

int gguf_opt_i64(const struct gguf *g, const char *key, int64_t lo, int64_t hi, int64_t *out) {
    const struct gguf_kv *kv = gguf_find(g, key);
    if (!kv) {
        return 0;
    }
    if (!is_number(kv) || kv->type == GGUF_F32 || kv->type == GGUF_F64) {
        return wrong(g, key, "whole number");
    }
    int64_t v = 0;
    if (!load_whole(kv, &v) || v < lo || v > hi) {
        return err_set(ERR_RANGE, "%s: metadata \"%s\" is %.17g, want %lld..%lld", g->where, key,
                       gguf_number(kv, 0), (long long)lo, (long long)hi);
    }
    *out = v;
    return 0;
}

int gguf_opt_i32(const struct gguf *g, const char *key, int32_t lo, int32_t hi, int32_t *out) {
    int64_t v = *out;
    int rc = gguf_opt_i64(g, key, lo, hi, &v);
    if (!rc) {
        *out = (int32_t)v;
    }
    return rc;
}

int gguf_need_i32(const struct gguf *g, const char *key, int32_t lo, int32_t hi, int32_t *out) {
    if (!gguf_find(g, key)) {
        return err_set(ERR_FORMAT, "%s: metadata \"%s\" is missing", g->where, key);
    }
    return gguf_opt_i32(g, key, lo, hi, out);
}

int gguf_opt_f64(const struct gguf *g, const char *key, double *out) {
    const struct gguf_kv *kv = gguf_find(g, key);
    if (!kv) {
        return 0;
    }
    double d = is_number(kv) ? gguf_number(kv, 0) : (double)NAN;
    if (!isfinite(d)) {
        return wrong(g, key, "finite number");
    }
    *out = d;
    return 0;
}

int gguf_opt_bool(const struct gguf *g, const char *key, bool *out) {
    const struct gguf_kv *kv = gguf_find(g, key);
    if (!kv) {
        return 0;
    }
    if (kv->is_array || kv->type != GGUF_BOOL) {
        return wrong(g, key, "truth value");
    }
    *out = kv->data[0] != 0;
    return 0;
}

static void load_str(const uint8_t **p, struct gguf_str *s) {
    uint64_t n = 0;
    memcpy(&n, *p, 8);
    *s = (struct gguf_str){.data = (const char *)*p + 8, .len = (int64_t)n};
    *p += 8 + n;
}

int gguf_opt_str(const struct gguf *g, const char *key, struct gguf_str *out) {
    const struct gguf_kv *kv = gguf_find(g, key);
    if (!kv) {
        return 0;
    }
    if (kv->is_array || kv->type != GGUF_STRING) {
        return wrong(g, key, "string");
    }
    const uint8_t *p = kv->data;
    load_str(&p, out);
    return 0;
}

int gguf_strings(const struct gguf *g, const struct gguf_kv *kv, struct gguf_str **items) {
    if (!kv->is_array || kv->type != GGUF_STRING) {
        return err_set(ERR_FORMAT, "%s: metadata \"%.*s\" is no array of strings", g->where,
                       (int)kv->key.len, kv->key.data);
    }
    struct gguf_str *s = mem_array(MEM_MODEL, kv->n, (int64_t)sizeof *s);
    if (!s) {
        return ERR_NOMEM;
    }
    const uint8_t *p = kv->data;
    for (int64_t i = 0; i < kv->n; i++) {
        load_str(&p, &s[i]);
    }
    *items = s;
    return 0;
}
