/* The one-shot quantizer: a checkpoint in, a compressed-tensors checkpoint folder out, one layer in
 * memory at a time. Each layer is calibrated on the outputs of the already quantized ones. */
#ifndef ENGINE_QUANT_QUANT_H
#define ENGINE_QUANT_QUANT_H

#include "engine/quant/gptq.h"
#include "engine/run/model.h"

enum quant_method {
    QUANT_NONE, /* write the weights unquantized, in dense_type */
    QUANT_RTN,  /* round to nearest */
    QUANT_GPTQ
};

struct quant_opts {
    enum quant_method method;
    struct grid_opts grid; /* bits 4; group; observer; scale_type is set from dense_type */
    int32_t block;         /* GPTQ: [128] columns updated at once */
    double dampening;      /* GPTQ: [0.01] of the mean diagonal */
    enum gptq_order order; /* GPTQ */
    enum dtype dense_type; /* embeddings, norms, scales: F32, F16 or BF16 */
    const char *backend;   /* ["cpu"] */
    int32_t n_threads;     /* [one per core] */
    const int32_t *calib;  /* ref, [n_sample, sample_tok]; GPTQ needs it, RTN does not */
    int32_t n_sample;
    int32_t sample_tok;
};

/* What happened to one linear layer. NaN: not measured. */
struct quant_module {
    char name[TENSOR_NAME_MAX];
    const char *method; /* "gptq", "rtn", or "rtn (gptq failed)" */
    int32_t n;
    int32_t k;
    int32_t group;
    int32_t n_sample;
    int64_t n_tok;
    double damp;
    int32_t n_dead;
    int32_t n_retry;
    double rel_error;    /* |(Wq - W) x|^2 / |W x|^2 over the calibration inputs */
    double weight_error; /* |Wq - W|^2 / |W|^2 */
    double logged;       /* GPTQ's own loss, as llm-compressor logs it */
    double seconds;
    int64_t bytes_before;
    int64_t bytes_after;
};

struct quant_sink {
    void (*module)(void *ctx, const struct quant_module *m); /* may be NULL */
    int (*progress)(void *ctx, double done, double total);   /* non-zero: stop; may be NULL */
    void *ctx;
};

/* The dense type that suits a source: its own when it is plain, F16 for block formats. */
enum dtype quant_dense_default(const struct weights *w);

/* Quantizes m into the folder out_dir (made if absent): model.safetensors, config.json written
 * last, generation_config.json and the tokenizer's files.
 * err:  ERR_CONFIG: group does not divide the columns of named modules, out_dir is the source or
 *       holds a sharded checkpoint (nothing is written);
 *       ERR_CANCELED; ERR_NUMERIC naming the first layer whose activations are not finite; ERR_IO
 *       (disk full), with no half-written file under a final name
 * cost: two forward passes over the samples and one solve a module (GPTQ) */
int quant_run(const struct model *m,
              const char *out_dir,
              const struct quant_opts *o,
              const struct quant_sink *sink);

#endif
