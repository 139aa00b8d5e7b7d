/* A safetensors file of expected values. */
#ifndef TESTS_SUPPORT_VECTORS_H
#define TESTS_SUPPORT_VECTORS_H

#include "engine/model/safetensors.h"
#include "tests/support/support.h"

struct vectors {
    struct filemap map;
    struct tensor_dir dir;
};

/* Opens a file; fails the test when it cannot. own: caller, vectors_close */
void vectors_open(const char *path, struct vectors *v);
void vectors_close(struct vectors *v);

/* A tensor that must be there, as its elements. out: *n their number (may be NULL) */
const float *vectors_f32(const struct vectors *v, const char *name, int64_t *n);
const double *vectors_f64(const struct vectors *v, const char *name, int64_t *n);
const int32_t *vectors_i32(const struct vectors *v, const char *name, int64_t *n);

#endif
