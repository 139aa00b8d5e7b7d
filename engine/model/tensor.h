/* One tensor of a checkpoint, as it lies in the mapped file. */
#ifndef ENGINE_MODEL_TENSOR_H
#define ENGINE_MODEL_TENSOR_H

#include "kernels/dtype.h"

enum { TENSOR_DIMS_MAX = 4, TENSOR_NAME_MAX = 256, TENSORS_MAX = 1 << 20 };

struct tensor {
    char *name; /* own, the directory's */
    enum dtype type;
    int32_t n_dim;
    int64_t dim[TENSOR_DIMS_MAX]; /* row-major, outermost first */
    const uint8_t *data;          /* ref, the map */
    int64_t bytes;
};

/* A sorted directory of tensors. */
struct tensor_dir {
    struct tensor *items; /* own, sorted by name */
    int32_t n;
    int32_t cap;
};

/* Appends one tensor; the name is copied. err: ERR_NOMEM, ERR_LIMIT */
int tensor_dir_add(struct tensor_dir *d, const struct tensor *t, const char *name, int64_t n_name);

/* Sorts by name. err: ERR_FORMAT naming where and the name when two are equal */
int tensor_dir_sort(struct tensor_dir *d, const char *where);

/* The tensor of that name, or NULL. in: a sorted directory. own: the directory's */
const struct tensor *tensor_dir_find(const struct tensor_dir *d, const char *name);

/* Appends all of src (names copied), to join shards. */
int tensor_dir_join(struct tensor_dir *d, const struct tensor_dir *src);

void tensor_dir_fini(struct tensor_dir *d);

/* Bytes that type and dims ask for. err: -1 on overflow, a negative dimension or a broken block */
int64_t tensor_bytes_wanted(enum dtype type, const int64_t *dim, int32_t n_dim);

/* "[576, 1536]" for messages; dst holds TENSOR_SHAPE_TEXT bytes; returns dst. */
enum { TENSOR_SHAPE_TEXT = 96 };
char *tensor_shape_text(char *dst, const int64_t *dim, int32_t n_dim);

#endif
