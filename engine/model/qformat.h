/* What a checkpoint's configuration says about quantization: a list of schemes and the rules that
 * give each module one of them.
 * src: compressed-tensors, quantization/{quant_config,quant_scheme,quant_args}.py; GPTQModel,
 * quantization/config.py; AutoAWQ, models/_config.py; transformers, FineGrainedFP8Config */
#ifndef ENGINE_MODEL_QFORMAT_H
#define ENGINE_MODEL_QFORMAT_H

#include "engine/model/ckpt.h"
#include "engine/model/qrule.h"
#include "kernels/dtype.h"

enum qmethod {
    QMETHOD_NONE,
    QMETHOD_CT,   /* compressed-tensors */
    QMETHOD_GPTQ, /* AutoGPTQ, GPTQModel */
    QMETHOD_AWQ,  /* AutoAWQ */
    QMETHOD_FP8   /* transformers' fine-grained FP8 and the per-tensor files of the same name */
};

/* How a module's tensors are laid out. */
enum qlayout {
    QLAYOUT_DENSE, /* weight, a plain float */
    QLAYOUT_PACK,  /* weight_packed I32, weight_scale, weight_shape, weight_zero_point */
    QLAYOUT_INT,   /* weight I8, weight_scale, weight_zero_point */
    QLAYOUT_FLOAT, /* weight F8_E4M3 or F8_E5M2, weight_scale or weight_scale_inv */
    QLAYOUT_NVFP4, /* weight_packed U8, weight_scale F8_E4M3, weight_global_scale */
    QLAYOUT_MXFP4, /* weight_packed U8, weight_scale E8M0 */
    QLAYOUT_MXFP8, /* weight F8_E4M3, weight_scale E8M0 */
    QLAYOUT_GPTQ,  /* qweight, qzeros, scales, g_idx: fields down the inputs */
    QLAYOUT_AWQ,   /* qweight, qzeros, scales: fields across the outputs */
    QLAYOUT_N
};

enum qstrategy {
    QSTRATEGY_TENSOR,
    QSTRATEGY_CHANNEL,
    QSTRATEGY_GROUP,
    QSTRATEGY_BLOCK,
    QSTRATEGY_TOKEN,
    QSTRATEGY_TENSOR_GROUP,
    QSTRATEGY_N
};

enum qdynamic { QDYNAMIC_NO, QDYNAMIC_YES, QDYNAMIC_LOCAL };

/* One number format with its scales. */
struct qargs {
    int32_t bits;
    bool is_float;
    bool asymmetric;
    bool mx; /* scales are powers of two in a byte */
    enum qstrategy strategy;
    enum qdynamic dynamic;
    int32_t group; /* columns of a group or block; GPTQ, AWQ: -1 for the whole row */
    int32_t rows;  /* rows of a block */
};

enum { QSCHEME_TEXT = 112 };

/* How modules are stored, and how their input is quantized. */
struct qscheme {
    enum qlayout layout;
    struct qargs w;
    bool has_act;
    struct qargs act;
    bool scale_inv;          /* QLAYOUT_FLOAT: the scale's name is weight_scale_inv */
    bool v2;                 /* QLAYOUT_GPTQ: zero points are stored as they are, not less one */
    char text[QSCHEME_TEXT]; /* "pack-quantized, int4, group 64, symmetric" */
};

struct qformat {
    enum qmethod method;
    struct qscheme *scheme; /* own, [n_scheme] */
    int32_t n_scheme;
    struct qrules *targets;  /* own; CT: values are schemes. GPTQ: exceptions; a value past the
                                schemes is a module that stays dense */
    struct qrules *ignore;   /* own; modules that stay dense; NULL: none */
    bool kv_f8;              /* keys and values are cached as F8_E4M3 with stored scales */
    bool lm_head;            /* GPTQ: the head is quantized too */
    int32_t writer;          /* CT: 1000 * major + minor of its version; 0: not said */
    char text[QSCHEME_TEXT]; /* of the only scheme, or of the first with the others counted */
};

/* Reads quantization_config of config.json; what is missing is no quantization.
 * err: ERR_UNSUPPORTED naming a method, format, scheme or key that is not known; ERR_FORMAT,
 *      ERR_LIMIT, ERR_NOMEM. own: caller, qformat_fini (also when nothing is quantized) */
int qformat_read(const json_t *config, const char *where, struct qformat *out);

/* The same for the folder of config.json, which may have quantize_config.json instead. */
int qformat_folder(const json_t *config, const char *dir, struct qformat *out);

/* The same for an open checkpoint. GGUF: none. */
int qformat_open(const struct ckpt *c, struct qformat *out);
void qformat_fini(struct qformat *q);

/* The scheme of a module. in: cls, the module's class: "Linear" or "Embedding"
 * out: *s NULL when it is dense. own: q's. err: those of qrules_find */
int qformat_find(const struct qformat *q,
                 const char *module,
                 const char *cls,
                 const struct qscheme **s);

/* Bytes of an [n,k] module as it is stored under a scheme, scales and zero points included. */
int64_t qscheme_bytes(const struct qscheme *s, int64_t n, int64_t k);

/* Bits of a scale that is stored with a scheme. */
int32_t qscheme_scale_bits(const struct qscheme *s);

#endif
