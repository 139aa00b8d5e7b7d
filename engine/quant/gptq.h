/* GPTQ: one matrix, one Hessian, one pass over the columns.
 * src: Frantar et al., "GPTQ", 2022, algorithm 1; llm-compressor, modifiers/gptq/gptq_quantize.py
 * (static act-order: columns are visited in the order of falling diag(H), scales stay those of the
 * unpermuted weight's groups). We differ: the inverse factor is computed in f64. */
#ifndef ENGINE_QUANT_GPTQ_H
#define ENGINE_QUANT_GPTQ_H

#include "engine/quant/grid.h"

enum gptq_order { GPTQ_ORDER_STATIC, GPTQ_ORDER_NONE };

struct gptq_opts {
    struct grid_opts grid;
    int32_t block;    /* columns updated at once, 128 */
    double dampening; /* times mean(diag H), 0.01 */
    enum gptq_order order;
    int32_t n_threads;
};

struct gptq_result {
    double loss;     /* sum of (w - q)^2 / (2 d^2), d the diagonal of the inverse factor */
    double damp;     /* what was added to the diagonal */
    int32_t n_dead;  /* columns that calibration never saw: set to 0 */
    int32_t n_retry; /* times the dampening was raised before the factorization succeeded */
    bool fell_back;  /* no dampening helped: plain rounding */
};

/* Quantizes w [n,k].
 * in:   h [k,k] f32 = 2 / n_sequences * sum x x^T; scale [n, k/group], zero likewise or NULL, from
 *       grid_scales on the original weight
 * out:  codes [n,k]; w is destroyed
 * err:  ERR_NOMEM, ERR_NUMERIC (NaN or infinity in h)
 * cost: k^3 + n k^2 multiply-adds; the same result for any number of threads */
int gptq_solve(const struct gptq_opts *o,
               float *w,
               int32_t n,
               int32_t k,
               const float *h,
               const float *scale,
               const int8_t *zero,
               int8_t *codes,
               struct gptq_result *out);

#endif
