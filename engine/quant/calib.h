/* Calibration: the hidden states of all samples on their way through the layers, and the Hessians
 * of one layer's inputs.
 *
 * Memory: the hidden states [n_sample, T, E], one layer's KV cache for one sample, four Hessians.
 */
#ifndef ENGINE_QUANT_CALIB_H
#define ENGINE_QUANT_CALIB_H

#include "engine/run/forward.h"

enum { CALIB_POINTS = TAP_DOWN + 1 };

struct calib {
    const struct backend_ops *ops; /* ref */
    struct backend *be;            /* own */
    struct kvmem kv;
    struct forward fw;
    struct model_cfg one; /* the model's, with one layer: for the cache */
    const int32_t *ids;   /* ref, [n_sample, T] */
    int32_t n_sample;
    int32_t sample_tok;     /* T */
    float *hidden;          /* own, [n_sample, T, E] inputs of the layer at hand */
    float *xt;              /* own, [k_max, T] transposed activations */
    float *h[CALIB_POINTS]; /* own, [k,k] 2 / n_sample * sum x x^T */
    int32_t k[CALIB_POINTS];
    int32_t *rows; /* own: the batch's arrays */
};

/* Opens the machine and embeds all samples.
 * in:   ids [n_sample, sample_tok], each below the vocabulary
 * err:  ERR_RANGE, ERR_NOMEM, those of the backend. own: caller, calib_close */
int calib_open(const struct weights *w,
               const char *backend,
               int32_t n_threads,
               const int32_t *ids,
               int32_t n_sample,
               int32_t sample_tok,
               struct calib **out);
void calib_close(struct calib *c);

/* Runs every sample through the layer as it is and collects the four Hessians; the hidden states
 * stay those before the layer. progress may be NULL; non-zero stops with ERR_CANCELED. */
int calib_observe(struct calib *c,
                  const struct layer_weights *lw,
                  int (*progress)(void *ctx),
                  void *ctx);

/* Runs every sample through the (quantized) layer: the hidden states become the next layer's. */
int calib_advance(struct calib *c,
                  const struct layer_weights *lw,
                  int (*progress)(void *ctx),
                  void *ctx);

/* The Hessian that a linear layer's input belongs to. */
enum tap_point calib_point(enum linear_role role);

/* sum over rows of d [n,k] of d h d^T, with the Hessian of that point: 2 / n_sample * |x d^T|^2.
 * err: ERR_NOMEM */
int calib_energy(struct calib *c, enum tap_point p, const float *d, int32_t n, double *out);

#endif
