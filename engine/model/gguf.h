/* Reader of GGUF v3 containers (v2 has the same layout and is read too).
 * src: ggml, docs/gguf.md */
#ifndef ENGINE_MODEL_GGUF_H
#define ENGINE_MODEL_GGUF_H

#include "engine/model/tensor.h"

enum gguf_type {
    GGUF_U8,
    GGUF_I8,
    GGUF_U16,
    GGUF_I16,
    GGUF_U32,
    GGUF_I32,
    GGUF_F32,
    GGUF_BOOL,
    GGUF_STRING,
    GGUF_ARRAY,
    GGUF_U64,
    GGUF_I64,
    GGUF_F64,
    GGUF_TYPE_N
};

struct gguf_str {
    const char *data; /* ref, the map; not NUL-terminated */
    int64_t len;
};

/* One metadata entry. For an array, type is the element type. */
struct gguf_kv {
    struct gguf_str key;
    enum gguf_type type;
    bool is_array;
    int64_t n;           /* elements; 1 for a scalar */
    const uint8_t *data; /* ref, the first element */
};

struct gguf {
    char *where;        /* own, for messages */
    struct gguf_kv *kv; /* own */
    int64_t n_kv;
    struct tensor_dir dir; /* own, sorted; dims outermost first */
};

/* Parses a container in memory, which stays borrowed by the result.
 * err: ERR_EOF, ERR_FORMAT (magic, sizes, offsets, alignment, big-endian), ERR_UNSUPPORTED
 *      (version, tensor type by name), ERR_LIMIT, ERR_NOMEM. own: caller, gguf_close */
int gguf_parse(const char *where, const uint8_t *data, int64_t size, struct gguf **out);
void gguf_close(struct gguf *g);

const struct gguf_kv *gguf_find(const struct gguf *g, const char *key);

/* Typed scalars. A missing key leaves *out untouched and returns 0; a wrong type or range is an
 * error that names file and key. gguf_need_* demand the key. */
int gguf_opt_i64(const struct gguf *g, const char *key, int64_t lo, int64_t hi, int64_t *out);
int gguf_opt_i32(const struct gguf *g, const char *key, int32_t lo, int32_t hi, int32_t *out);
int gguf_opt_f64(const struct gguf *g, const char *key, double *out);
int gguf_opt_bool(const struct gguf *g, const char *key, bool *out);
int gguf_opt_str(const struct gguf *g, const char *key, struct gguf_str *out);
int gguf_need_i32(const struct gguf *g, const char *key, int32_t lo, int32_t hi, int32_t *out);

/* The strings of an array of strings. out: items [kv->n], own: caller, mem_free.
 * err: ERR_FORMAT for another type, ERR_NOMEM */
int gguf_strings(const struct gguf *g, const struct gguf_kv *kv, struct gguf_str **items);

/* Element i of a numeric array as a number. in: i < kv->n; 0 for a non-numeric type */
double gguf_number(const struct gguf_kv *kv, int64_t i);

#endif
