/* A random llama of a few kilobytes, as a folder or a GGUF file, every tensor of which a test may
 * change before it is written. */
#ifndef TESTS_SUPPORT_TOY_MODEL_H
#define TESTS_SUPPORT_TOY_MODEL_H

#include "engine/base/buf.h"
#include "kernels/dtype.h"

enum {
    TOY_E = 32,
    TOY_F = 64,
    TOY_H = 2,
    TOY_K = 1,
    TOY_D = 16,
    TOY_V = 40,
    TOY_CTX = 128,
    TOY_EOS = 2,
    TOY_TENSORS = 64
};

struct toy_tensor {
    char name[96]; /* Hugging Face */
    char gguf[64]; /* llama.cpp */
    bool permuted; /* q and k: rows are interleaved in GGUF */
    bool absent;   /* not written */
    enum dtype type;
    int32_t n_dim;
    int64_t dim[2]; /* outermost first */
    uint8_t *data;  /* own */
    int64_t bytes;
};

struct toy_model {
    struct toy_tensor t[TOY_TENSORS];
    int32_t n;
    int32_t n_layer;
};

/* Makes the tensors from a fixed seed: matrices of that type, vectors F32. own: toy_model_fini */
void toy_model_init(struct toy_model *m, int32_t n_layer, enum dtype matrices);
void toy_model_fini(struct toy_model *m);

/* The tensor of that Hugging Face name; fails the test when there is none. */
struct toy_tensor *toy_model_at(struct toy_model *m, const char *name);

/* Appends a tensor of zeros. in: name whole, up to two dimensions (cols 0: a vector) */
struct toy_tensor *
toy_model_add(struct toy_model *m, const char *name, enum dtype type, int64_t rows, int64_t cols);

/* config.json of the model. in: more is inserted behind the brace ("" or "\"key\":1,") */
void toy_model_config(struct buf *b, int32_t n_layer, const char *more);

/* Writes config.json and model.safetensors into dir; pad more blanks end the header, so that odd
 * numbers misalign the data. */
void toy_model_write_hf(const struct toy_model *m, const char *dir, const char *more, int32_t pad);

/* Writes a GGUF v3 file. */
void toy_model_write_gguf(const struct toy_model *m, const char *path);

#endif
