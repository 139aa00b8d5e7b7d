#include "tests/support/vectors.h"

#include <string.h>

void vectors_open(const char *path, struct vectors *v) {
    memset(v, 0, sizeof *v);
    assert_ok(file_map(path, &v->map));
    assert_ok(safetensors_parse(path, v->map.data, v->map.size, &v->dir));
    assert_ok(tensor_dir_sort(&v->dir, path));
}

void vectors_close(struct vectors *v) {
    tensor_dir_fini(&v->dir);
    file_unmap(&v->map);
}

static const void *
find(const struct vectors *v, const char *name, enum dtype type, int64_t *n_out) {
    const struct tensor *t = tensor_dir_find(&v->dir, name);
    if (!t || t->type != type) {
        fail_msg("tensor %s is missing or of another type", name);
    }
    int64_t n = 1;
    for (int32_t i = 0; i < t->n_dim; i++) {
        n *= t->dim[i];
    }
    if (n_out) {
        *n_out = n;
    }
    return t->data;
}

const float *vectors_f32(const struct vectors *v, const char *name, int64_t *n) {
    return find(v, name, DTYPE_F32, n);
}

const double *vectors_f64(const struct vectors *v, const char *name, int64_t *n) {
    return find(v, name, DTYPE_F64, n);
}

const int32_t *vectors_i32(const struct vectors *v, const char *name, int64_t *n) {
    return find(v, name, DTYPE_I32, n);
}
