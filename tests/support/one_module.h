/* One quantized module in a folder of its own, every tensor of which a test may make wrong. */
#ifndef TESTS_SUPPORT_ONE_MODULE_H
#define TESTS_SUPPORT_ONE_MODULE_H

#include "engine/model/qbind.h"
#include "tests/support/toy_model.h"

enum { ONE_OWNED_MAX = 32 };

struct one {
    char dir[FILE_PATH_MAX];
    struct toy_model toy; /* tensors "m.PART" */
    struct ckpt *c;       /* own, of the last one_bind */
    struct qformat q;     /* own */
    struct qbind b;       /* of the last one_bind */
    void *owned[ONE_OWNED_MAX];
    int32_t n_owned;
    int32_t n_left; /* allocations that are granted; -1: all */
    int32_t n;
    int32_t k;
};

/* in: config: the text of quantization_config; the module is [n,k]. own: caller, one_fini */
void one_init(struct one *o, const char *config, int32_t n, int32_t k);
void one_fini(struct one *o);

/* Adds tensor "m.PART": floats are 1, all else 0. in: cols 0 for a vector */
struct toy_tensor *
one_put(struct one *o, const char *part, enum dtype type, int64_t rows, int64_t cols);

/* Adds "m.weight_shape". */
void one_put_shape(struct one *o, int64_t n, int64_t k);

/* Writes and opens the folder, and binds "m" with checks; pad misaligns the data. returns
 * qbind_module's code */
int one_bind(struct one *o, struct wmat *w, int32_t pad);

/* Writes and opens the folder alone; o->b is ready. in: check as in struct qbind */
void one_open(struct one *o, bool check, int32_t pad);

/* A quantization_config of compressed-tensors with one group for "Linear". */
#define ONE_CT(fmt, w, act)                                                                        \
    "{\"quant_method\":\"compressed-tensors\",\"format\":\"" fmt                                   \
    "\",\"config_groups\":{\"g\":{\"targets\":[\"Linear\"],\"weights\":{" w "}" act "}}}"
#define ONE_INT(b, g) "\"num_bits\":" #b ",\"group_size\":" #g ",\"strategy\":\"group\""
#define ONE_ASYM      ",\"symmetric\":false"

#endif
