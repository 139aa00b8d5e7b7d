/* Bytes of a container (little-endian):
 *
 *     "GGUF" | u32 version | u64 n_tensors | u64 n_kv
 *     n_kv times:      string key | u32 type | value
 *                      (array: u32 element type | u64 n | elements)
 *     n_tensors times: string name | u32 n_dims | u64 dims[] innermost first | u32 type | u64
 * offset padding to general.alignment (32 when absent) | tensor bytes
 *
 *     string: u64 length | bytes
 *
 * Laws checked here: every count and length fits what is left of the file before it is used; a
 * tensor's offset is aligned and its bytes lie inside the file; keys and names are unique. */
#include "engine/model/gguf.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/base/mem.h"

enum {
    ALIGN_DEFAULT = 32,
    KV_MAX = 1 << 16,
    KEY_MAX = 65535,
    ARRAY_MAX = 1 << 28,
    TENSOR_ENTRY_MIN = 24, /* bytes of an entry with an empty name and no dimension */
    KV_ENTRY_MIN = 13,     /* bytes of an entry with an empty key and one byte of value */
    VERSION_MIN = 2,
    VERSION_MAX = 3
};

/* A cursor over the file; every read checks what is left. */
struct cur {
    const char *where;
    const uint8_t *base;
    const uint8_t *p;
    const uint8_t *end;
};

static int cut(const struct cur *c, const char *what) {
    return err_set(ERR_EOF, "%s: file ends at byte %lld inside %s (truncated download?)", c->where,
                   (long long)(c->end - c->base), what);
}

static int take(struct cur *c, void *dst, int64_t n, const char *what) {
    if (c->end - c->p < n) {
        return cut(c, what);
    }
    memcpy(dst, c->p, (size_t)n);
    c->p += n;
    return 0;
}

static int take_str(struct cur *c, struct gguf_str *s, int64_t max, const char *what) {
    uint64_t n = 0;
    int rc = take(c, &n, 8, what);
    if (rc) {
        return rc;
    }
    if (n > (uint64_t)(c->end - c->p)) {
        return cut(c, what);
    }
    if (n > (uint64_t)max) {
        return err_set(ERR_LIMIT, "%s: %s of %llu bytes at byte %lld, at most %lld", c->where, what,
                       (unsigned long long)n, (long long)(c->p - c->base), (long long)max);
    }
    *s = (struct gguf_str){.data = (const char *)c->p, .len = (int64_t)n};
    c->p += n;
    return 0;
}

static int32_t type_bytes(uint32_t t) {
    static const int32_t bytes[GGUF_TYPE_N] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    return t < GGUF_TYPE_N ? bytes[t] : 0;
}

/* Steps over n values of one type. */
static int skip_values(struct cur *c, uint32_t type, int64_t n, const char *what) {
    if (type == GGUF_STRING) {
        for (int64_t i = 0; i < n; i++) {
            struct gguf_str s;
            int rc = take_str(c, &s, INT32_MAX, what);
            if (rc) {
                return rc;
            }
        }
        return 0;
    }
    int32_t size = type_bytes(type);
    if (size == 0) {
        return err_set(ERR_FORMAT, "%s: value type %u at byte %lld is unknown", c->where, type,
                       (long long)(c->p - c->base));
    }
    if (n > (c->end - c->p) / size) {
        return cut(c, what);
    }
    c->p += n * size;
    return 0;
}

static int take_kv(struct cur *c, struct gguf_kv *kv) {
    uint32_t type = 0;
    int rc = take_str(c, &kv->key, KEY_MAX, "a metadata key");
    if (!rc) {
        rc = take(c, &type, 4, "a metadata type");
    }
    if (rc) {
        return rc;
    }
    kv->n = 1;
    if (type == GGUF_ARRAY) {
        uint64_t n = 0;
        kv->is_array = true;
        rc = take(c, &type, 4, "an array's type");
        if (!rc) {
            rc = take(c, &n, 8, "an array's length");
        }
        if (rc) {
            return rc;
        }
        if (n > ARRAY_MAX) {
            return err_set(ERR_LIMIT, "%s: array of %llu elements, at most %d", c->where,
                           (unsigned long long)n, ARRAY_MAX);
        }
        kv->n = (int64_t)n;
    }
    kv->type = (enum gguf_type)type;
    kv->data = c->p;
    return skip_values(c, type, kv->n, "a metadata value");
}

static const struct {
    uint32_t id;
    enum dtype type;
} tensor_types[] = {{0, DTYPE_F32},    {1, DTYPE_F16},      {2, DTYPE_Q4_0},    {3, DTYPE_Q4_1},
                    {6, DTYPE_Q5_0},   {7, DTYPE_Q5_1},     {8, DTYPE_Q8_0},    {10, DTYPE_Q2_K},
                    {11, DTYPE_Q3_K},  {12, DTYPE_Q4_K},    {13, DTYPE_Q5_K},   {14, DTYPE_Q6_K},
                    {15, DTYPE_Q8_K},  {20, DTYPE_IQ4_NL},  {23, DTYPE_IQ4_XS}, {24, DTYPE_I8},
                    {25, DTYPE_I16},   {26, DTYPE_I32},     {27, DTYPE_I64},    {28, DTYPE_F64},
                    {30, DTYPE_BF16},  {34, DTYPE_TQ1_0},   {35, DTYPE_TQ2_0},  {39, DTYPE_MXFP4},
                    {9, DTYPE_Q8_1},   {16, DTYPE_IQ2_XXS}, {17, DTYPE_IQ2_XS}, {18, DTYPE_IQ3_XXS},
                    {19, DTYPE_IQ1_S}, {21, DTYPE_IQ3_S},   {22, DTYPE_IQ2_S},  {29, DTYPE_IQ1_M},
                    {40, DTYPE_NVFP4}};

/* Names of ggml types by id, for messages. */
static const char *foreign_name(uint32_t id) {
    static const char *const names[] = {
        "F32",     "F16",   "Q4_0",   "Q4_1",  "4",     "5",      "Q5_0", "Q5_1",    "Q8_0",
        "Q8_1",    "Q2_K",  "Q3_K",   "Q4_K",  "Q5_K",  "Q6_K",   "Q8_K", "IQ2_XXS", "IQ2_XS",
        "IQ3_XXS", "IQ1_S", "IQ4_NL", "IQ3_S", "IQ2_S", "IQ4_XS", "I8",   "I16",     "I32",
        "I64",     "F64",   "IQ1_M",  "BF16",  "31",    "32",     "33",   "TQ1_0",   "TQ2_0",
        "36",      "37",    "38",     "MXFP4", "NVFP4", "Q1_0"};
    return id < (uint32_t)ARRAY_LEN(names) ? names[id] : "unknown";
}

static int
find_tensor_type(const struct cur *c, struct gguf_str name, uint32_t id, enum dtype *out) {
    for (int32_t i = 0; i < ARRAY_LEN(tensor_types); i++) {
        if (tensor_types[i].id == id) {
            *out = tensor_types[i].type;
            return 0;
        }
    }
    return err_set(ERR_UNSUPPORTED,
                   "%s: tensor \"%.*s\" has block type %s (%u); read are F64, F32, F16, BF16, "
                   "Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q8_1, Q2_K to Q8_K, IQ1_S to IQ4_XS, TQ1_0, "
                   "TQ2_0, MXFP4, NVFP4",
                   c->where, (int)name.len, name.data, foreign_name(id), id);
}

/* Reads one tensor entry; data holds the offset until the data region is known. */
static int take_tensor(struct cur *c, struct gguf_str *name, struct tensor *t, uint64_t *offset) {
    uint32_t n_dim = 0;
    uint32_t type = 0;
    int rc = take_str(c, name, TENSOR_NAME_MAX, "a tensor name");
    if (!rc) {
        rc = take(c, &n_dim, 4, "a tensor's rank");
    }
    if (rc) {
        return rc;
    }
    if (n_dim > TENSOR_DIMS_MAX) {
        return err_set(ERR_FORMAT, "%s: tensor \"%.*s\" has %u dimensions, at most %d", c->where,
                       (int)name->len, name->data, n_dim, TENSOR_DIMS_MAX);
    }
    t->n_dim = (int32_t)n_dim;
    for (int32_t i = t->n_dim - 1; i >= 0; i--) {
        rc = take(c, &t->dim[i], 8, "a tensor's shape");
        if (rc) {
            return rc;
        }
        if (t->dim[i] < 0) {
            return err_set(ERR_FORMAT, "%s: tensor \"%.*s\": dimension %llu", c->where,
                           (int)name->len, name->data, (unsigned long long)t->dim[i]);
        }
    }
    rc = take(c, &type, 4, "a tensor's type");
    if (!rc) {
        rc = take(c, offset, 8, "a tensor's offset");
    }
    return rc ? rc : find_tensor_type(c, *name, type, &t->type);
}

/* Turns the offset into a checked pointer. */
static int place_tensor(const struct cur *c,
                        const uint8_t *region,
                        int64_t align,
                        struct gguf_str name,
                        struct tensor *t,
                        uint64_t offset) {
    char shape[TENSOR_SHAPE_TEXT];
    int64_t room = c->end - region;
    int64_t bytes = tensor_bytes_wanted(t->type, t->dim, t->n_dim);
    if (bytes < 0) {
        return err_set(ERR_FORMAT, "%s: tensor \"%.*s\": shape %s is impossible for %s", c->where,
                       (int)name.len, name.data, tensor_shape_text(shape, t->dim, t->n_dim),
                       dtype_info(t->type)->name);
    }
    if (offset % (uint64_t)align != 0) {
        return err_set(ERR_FORMAT, "%s: tensor \"%.*s\": offset %llu is no multiple of %lld",
                       c->where, (int)name.len, name.data, (unsigned long long)offset,
                       (long long)align);
    }
    if (offset > (uint64_t)room || bytes > room - (int64_t)offset) {
        return err_set(ERR_EOF,
                       "%s: tensor \"%.*s\": %lld bytes at %llu, but the data region has %lld "
                       "(truncated download?)",
                       c->where, (int)name.len, name.data, (long long)bytes,
                       (unsigned long long)offset, (long long)room);
    }
    t->data = region + offset;
    t->bytes = bytes;
    return 0;
}

static int take_head(struct cur *c, uint64_t *n_tensor, uint64_t *n_kv) {
    char magic[4];
    uint32_t version = 0;
    int rc = take(c, magic, 4, "the magic");
    if (!rc && memcmp(magic, "GGUF", 4) != 0) {
        rc = err_set(ERR_FORMAT, "%s: begins with %02x %02x %02x %02x, want \"GGUF\"", c->where,
                     (uint8_t)magic[0], (uint8_t)magic[1], (uint8_t)magic[2], (uint8_t)magic[3]);
    }
    if (!rc) {
        rc = take(c, &version, 4, "the version");
    }
    if (!rc && (version & 0xffff) == 0 && version != 0) {
        rc = err_set(ERR_UNSUPPORTED, "%s: big-endian GGUF is not read", c->where);
    }
    if (!rc && (version < VERSION_MIN || version > VERSION_MAX)) {
        rc = err_set(ERR_UNSUPPORTED, "%s: GGUF version %u, read are 2 and 3", c->where, version);
    }
    if (!rc) {
        rc = take(c, n_tensor, 8, "the tensor count");
    }
    if (!rc) {
        rc = take(c, n_kv, 8, "the metadata count");
    }
    if (!rc && (*n_tensor > TENSORS_MAX || *n_kv > KV_MAX)) {
        rc = err_set(ERR_LIMIT, "%s: %llu tensors and %llu metadata entries, at most %d and %d",
                     c->where, (unsigned long long)*n_tensor, (unsigned long long)*n_kv,
                     TENSORS_MAX, KV_MAX);
    }
    if (!rc && (int64_t)(*n_tensor * TENSOR_ENTRY_MIN + *n_kv * KV_ENTRY_MIN) > c->end - c->p) {
        rc = cut(c, "the directory");
    }
    return rc;
}

struct pending {
    struct gguf_str name;
    struct tensor t;
    uint64_t offset;
};

static int take_tensors(struct cur *c, struct gguf *g, int32_t n) {
    int64_t align = ALIGN_DEFAULT;
    int rc = gguf_opt_i64(g, "general.alignment", 1, 1 << 20, &align);
    struct pending *list = rc ? NULL : mem_array(MEM_MODEL, n, (int64_t)sizeof *list);
    if (!list) {
        return rc ? rc : ERR_NOMEM;
    }
    for (int32_t i = 0; i < n && !rc; i++) {
        rc = take_tensor(c, &list[i].name, &list[i].t, &list[i].offset);
    }
    int64_t at = i64_div_up(c->p - c->base, align) * align;
    if (!rc && n > 0 && at > c->end - c->base) {
        rc = cut(c, "the padding before the tensors");
    }
    for (int32_t i = 0; i < n && !rc; i++) {
        rc = place_tensor(c, c->base + at, align, list[i].name, &list[i].t, list[i].offset);
        if (!rc) {
            rc = tensor_dir_add(&g->dir, &list[i].t, list[i].name.data, list[i].name.len);
        }
    }
    mem_free(list);
    return rc ? rc : tensor_dir_sort(&g->dir, c->where);
}

static int by_key(const void *a, const void *b) {
    const struct gguf_str *x = a;
    const struct gguf_str *y = b;
    int c = memcmp(x->data, y->data, (size_t)i64_min(x->len, y->len));
    return c ? c : (x->len > y->len) - (x->len < y->len);
}

/* Demands that no key is there twice: two readers could pick two values. */
static int check_keys(const struct gguf *g) {
    struct gguf_str *key = mem_array(MEM_MODEL, g->n_kv, (int64_t)sizeof *key);
    int rc = 0;
    if (!key) {
        return ERR_NOMEM;
    }
    for (int64_t i = 0; i < g->n_kv; i++) {
        key[i] = g->kv[i].key;
    }
    qsort(key, (size_t)g->n_kv, sizeof *key, by_key);
    for (int64_t i = 1; i < g->n_kv && !rc; i++) {
        if (by_key(&key[i - 1], &key[i]) == 0) {
            rc = err_set(ERR_FORMAT, "%s: two metadata entries are named \"%.*s\"", g->where,
                         (int)key[i].len, key[i].data);
        }
    }
    mem_free(key);
    return rc;
}

int gguf_parse(const char *where, const uint8_t *data, int64_t size, struct gguf **out) {
    struct cur c = {.where = where, .base = data, .p = data, .end = data + size};
    uint64_t n_tensor = 0;
    uint64_t n_kv = 0;
    int rc = take_head(&c, &n_tensor, &n_kv);
    if (rc) {
        return rc;
    }
    struct gguf *g = mem_calloc(MEM_MODEL, (int64_t)sizeof *g);
    if (!g) {
        return ERR_NOMEM;
    }
    g->where = mem_strdup(MEM_MODEL, where, -1);
    g->kv = mem_array(MEM_MODEL, (int64_t)n_kv, (int64_t)sizeof *g->kv);
    rc = g->where && g->kv ? 0 : ERR_NOMEM;
    for (uint64_t i = 0; i < n_kv && !rc; i++) {
        rc = take_kv(&c, &g->kv[i]);
        g->n_kv = (int64_t)i + 1;
    }
    rc = rc ? rc : check_keys(g);
    rc = rc ? rc : take_tensors(&c, g, (int32_t)n_tensor);
    if (rc) {
        gguf_close(g);
        return rc;
    }
    *out = g;
    return 0;
}

void gguf_close(struct gguf *g) {
    if (!g) {
        return;
    }
    tensor_dir_fini(&g->dir);
    mem_free(g->kv);
    mem_free(g->where);
    mem_free(g);
}
