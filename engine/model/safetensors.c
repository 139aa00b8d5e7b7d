/* Bytes of a container:
 *
 *     0        8            8+n                                   size
 *     | u64 n  | JSON, n B  | tensor bytes ............................ |
 *
 *     {"name": {"dtype": "BF16", "shape": [r, c], "data_offsets": [begin, end]}, ...,
 *      "__metadata__": {"key": "text"}}
 *
 * Laws checked here: n fits the file and the limit; offsets are relative to 8+n, ascending without
 * overlap or hole, and cover the rest of the file exactly; end - begin is what dtype and shape ask
 * for. */
#include "engine/model/safetensors.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/base/json.h"
#include "engine/base/mem.h"

enum { HEADER_MAX = 100 << 20 }; /* src: the format's own limit, 100 MB */

static const struct {
    const char *name;
    enum dtype type;
} types[] = {{"F32", DTYPE_F32},
             {"F16", DTYPE_F16},
             {"BF16", DTYPE_BF16},
             {"F64", DTYPE_F64},
             {"I8", DTYPE_I8},
             {"U8", DTYPE_U8},
             {"I16", DTYPE_I16},
             {"I32", DTYPE_I32},
             {"I64", DTYPE_I64},
             {"BOOL", DTYPE_BOOL},
             {"F8_E4M3", DTYPE_F8_E4M3},
             {"F8_E5M2", DTYPE_F8_E5M2},
             {"F8_E8M0", DTYPE_F8_E8M0},
             {"F8_E4M3FNUZ", DTYPE_F8_E4M3FNUZ},
             {"F8_E5M2FNUZ", DTYPE_F8_E5M2FNUZ},
             {"F6_E2M3", DTYPE_F6_E2M3},
             {"F6_E3M2", DTYPE_F6_E3M2},
             {"F4", DTYPE_F4},
             {"U16", DTYPE_U16},
             {"U32", DTYPE_U32},
             {"U64", DTYPE_U64},
             {"C64", DTYPE_C64}};

static int find_type(const char *where, const char *tensor, const char *name, enum dtype *out) {
    for (int32_t i = 0; i < ARRAY_LEN(types); i++) {
        if (strcmp(types[i].name, name) == 0) {
            *out = types[i].type;
            return 0;
        }
    }
    return err_set(ERR_UNSUPPORTED, "%s: tensor \"%s\" has dtype \"%s\", which is not read", where,
                   tensor, name);
}

static int whole(const json_t *v, int64_t *out) {
    if (!json_is_integer(v) || json_integer_value(v) < 0) {
        return ERR_FORMAT;
    }
    *out = json_integer_value(v);
    return 0;
}

static int parse_shape(const char *where, const char *name, const json_t *shape, struct tensor *t) {
    if (!json_is_array(shape) || json_array_size(shape) > TENSOR_DIMS_MAX) {
        return err_set(ERR_FORMAT, "%s: tensor \"%s\": shape is no list of at most %d numbers",
                       where, name, TENSOR_DIMS_MAX);
    }
    t->n_dim = (int32_t)json_array_size(shape);
    for (int32_t i = 0; i < t->n_dim; i++) {
        if (whole(json_array_get(shape, (size_t)i), &t->dim[i])) {
            return err_set(ERR_FORMAT, "%s: tensor \"%s\": dimension %d is no whole number", where,
                           name, i);
        }
    }
    return 0;
}

/* Reads one directory entry; *begin is its offset. */
static int parse_entry(const char *where,
                       const char *name,
                       const json_t *o,
                       int64_t n_data,
                       struct tensor *t,
                       int64_t *begin) {
    const char *dtype = NULL;
    int64_t end = 0;
    if (!json_is_object(o)) {
        return err_set(ERR_FORMAT, "%s: tensor \"%s\": entry is no object", where, name);
    }
    int rc = json_need_str(o, where, "dtype", &dtype);
    if (!rc) {
        rc = find_type(where, name, dtype, &t->type);
    }
    if (!rc) {
        rc = parse_shape(where, name, json_object_get(o, "shape"), t);
    }
    if (rc) {
        return rc;
    }
    const json_t *off = json_object_get(o, "data_offsets");
    if (!json_is_array(off) || json_array_size(off) != 2 || whole(json_array_get(off, 0), begin) ||
        whole(json_array_get(off, 1), &end)) {
        return err_set(ERR_FORMAT, "%s: tensor \"%s\": data_offsets is no pair of whole numbers",
                       where, name);
    }
    if (*begin > end || end > n_data) {
        return err_set(end > n_data ? ERR_EOF : ERR_FORMAT,
                       "%s: tensor \"%s\": bytes %lld..%lld, but the file holds 0..%lld", where,
                       name, (long long)*begin, (long long)end, (long long)n_data);
    }
    char shape[TENSOR_SHAPE_TEXT];
    int64_t want = tensor_bytes_wanted(t->type, t->dim, t->n_dim);
    if (want != end - *begin) {
        return err_set(ERR_FORMAT, "%s: tensor \"%s\": %lld bytes, but %s %s needs %lld", where,
                       name, (long long)(end - *begin), dtype,
                       tensor_shape_text(shape, t->dim, t->n_dim), (long long)want);
    }
    t->bytes = end - *begin;
    return 0;
}

static int by_data(const void *a, const void *b) {
    const struct tensor *x = *(const struct tensor *const *)a;
    const struct tensor *y = *(const struct tensor *const *)b;
    if (x->data != y->data) {
        return x->data < y->data ? -1 : 1;
    }
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

/* Demands that the tensors added since first tile the data region. */
static int check_cover(const char *where,
                       const struct tensor_dir *dir,
                       int32_t first,
                       const uint8_t *data,
                       int64_t n_data) {
    int32_t n = dir->n - first;
    const struct tensor **order = mem_array(MEM_MODEL, n, (int64_t)sizeof *order);
    if (!order) {
        return ERR_NOMEM;
    }
    for (int32_t i = 0; i < n; i++) {
        order[i] = &dir->items[first + i];
    }
    if (n > 0) {
        qsort(order, (size_t)n, sizeof(struct tensor *), by_data);
    }
    int rc = 0;
    int64_t at = 0;
    for (int32_t i = 0; i < n && !rc; i++) {
        int64_t begin = order[i]->data - data;
        if (begin != at) {
            rc = err_set(ERR_FORMAT, "%s: tensor \"%s\" begins at byte %lld, want %lld (%s)", where,
                         order[i]->name, (long long)begin, (long long)at,
                         begin < at ? "overlap" : "hole");
        }
        at = begin + order[i]->bytes;
    }
    if (!rc && at != n_data) {
        rc = err_set(ERR_FORMAT, "%s: %lld bytes behind the last tensor", where,
                     (long long)(n_data - at));
    }
    mem_free(order);
    return rc;
}

int safetensors_parse(const char *where,
                      const uint8_t *data,
                      int64_t size,
                      struct tensor_dir *dir) {
    uint64_t n = 0;
    if (size < 8) {
        return err_set(ERR_EOF, "%s: %lld bytes, a safetensors file has at least 8", where,
                       (long long)size);
    }
    for (int32_t i = 7; i >= 0; i--) {
        n = n << 8 | data[i];
    }
    if (n > HEADER_MAX || (int64_t)n > size - 8) {
        return err_set(n > HEADER_MAX ? ERR_FORMAT : ERR_EOF,
                       "%s: header of %llu bytes in a file of %lld (is it safetensors, and whole?)",
                       where, (unsigned long long)n, (long long)size);
    }
    json_t *head = NULL;
    int rc = json_parse(where, (const char *)data + 8, (int64_t)n, &head);
    if (rc) {
        return err_ctx(rc, "safetensors header");
    }
    const uint8_t *base = data + 8 + n;
    int64_t n_data = size - 8 - (int64_t)n;
    int32_t first = dir->n;
    if (!json_is_object(head)) {
        rc = err_set(ERR_FORMAT, "%s: safetensors header is no object", where);
    }
    const char *name = NULL;
    json_t *entry = NULL;
    json_object_foreach(head, name, entry) {
        struct tensor t = {0};
        int64_t begin = 0;
        if (strcmp(name, "__metadata__") == 0) {
            continue;
        }
        rc = parse_entry(where, name, entry, n_data, &t, &begin);
        if (!rc) {
            t.data = base + begin;
            rc = tensor_dir_add(dir, &t, name, (int64_t)strlen(name));
        }
        if (rc) {
            break;
        }
    }
    if (!rc) {
        rc = check_cover(where, dir, first, base, n_data);
    }
    json_decref(head);
    return rc;
}
