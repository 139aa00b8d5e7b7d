/* What fits: memory of weights, cache and workspace, before anything is allocated. */
#ifndef ENGINE_MODEL_MEMPLAN_H
#define ENGINE_MODEL_MEMPLAN_H

#include "engine/model/model_cfg.h"
#include "engine/model/qformat.h"

struct memplan {
    int64_t n_param;      /* parameters from the shapes; a tied table once */
    int64_t weight_bytes; /* at weight_type */
    int64_t kv_bytes_per_token;
    int64_t kv_bytes_per_seq; /* one sequence of ctx tokens; sliding layers keep their window */
    int64_t kv_bytes_full;    /* the same if every layer kept all tokens */
    int64_t memory_bytes;     /* given */
    int64_t kv_bytes_free;    /* memory - weights, >= 0 */
    int64_t n_seq_max;        /* sequences of ctx tokens that fit */
    int64_t n_tok_max;        /* tokens of cache that fit */
};

/* in: ctx tokens a sequence, memory_bytes >= 0 (0: not given, n_seq_max and n_tok_max are 0) */
void memplan_make(const struct model_cfg *c,
                  enum dtype weight_type,
                  enum dtype kv_type,
                  int32_t ctx,
                  int64_t memory_bytes,
                  struct memplan *out);

/* Makes weight_bytes those of a quantized checkpoint whose dense parts are of that type, and what
 * follows from it. in: *p from memplan_make. err: those of qformat_find, *p untouched */
int memplan_quantize(const struct model_cfg *c,
                     enum dtype dense,
                     const struct qformat *q,
                     struct memplan *p);

/* Parameters of a model from its shapes. */
int64_t memplan_n_param(const struct model_cfg *c);

#endif
