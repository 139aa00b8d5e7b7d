/* The folders of tests/golden/data/quant and what they should give. */
#ifndef TESTS_SUPPORT_QUANT_GOLDEN_H
#define TESTS_SUPPORT_QUANT_GOLDEN_H

#include <jansson.h>

#include "engine/model/weights.h"

enum { QUANT_IDS_MAX = 64 };

/* How far logits may be off (README of the vectors, "How far a right program may be off"). */
enum quant_kind {
    QUANT_EXACT,   /* weights alone, or static inputs: 1e-3 */
    QUANT_EXPERTS, /* the same with experts: 5e-3 */
    QUANT_DYNAMIC, /* inputs quantized at run time: 0.15, in the mean 0.03 */
    QUANT_NO_REF   /* the writer of the vectors could not compute them */
};

struct quant_folder {
    const char *name;
    const char *scheme; /* text of the weights */
    enum quant_kind kind;
    const char *logits; /* key in logits_last; "": the list itself */
};

extern const struct quant_folder quant_folders[];
extern const int32_t quant_n_folders;

/* One folder, opened. */
struct quant_golden {
    json_t *e; /* own, expected.json */
    struct ckpt *c;
    struct weights *w;
    int32_t ids[QUANT_IDS_MAX];
    int32_t n;
};

/* Fails the test when anything is missing. own: caller, quant_golden_close */
void quant_golden_open(const char *name, struct quant_golden *g);
void quant_golden_close(struct quant_golden *g);

/* The list under logits_last / argmax_all and key; NULL when there is none. */
const json_t *quant_golden_list(const struct quant_golden *g, const char *what, const char *key);

/* Calls see for every linear layer under its module's name. */
void quant_golden_each(const struct weights *w,
                       void (*see)(void *ctx, const char *module, const struct linear *lin),
                       void *ctx);

#endif
