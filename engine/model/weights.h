/* Weights: the tensors of a checkpoint bound to the places where the forward pass uses them.
 *
 * The arrow "weights" of the chain: made by weights_load, taken by forward_run. Matrices stay in
 * their stored format inside the checkpoint's map; only vectors (norms, biases), re-ordered q and k
 * rows of permuted GGUF files, misaligned tensors, unpacked zero points and layouts packed across
 * rows are copied, the last with the map's pages given back. */
#ifndef ENGINE_MODEL_WEIGHTS_H
#define ENGINE_MODEL_WEIGHTS_H

#include "engine/model/ckpt.h"
#include "engine/model/model_cfg.h"
#include "engine/model/qbind.h"

enum linear_role {
    LINEAR_Q,
    LINEAR_K,
    LINEAR_V,
    LINEAR_O,
    LINEAR_GATE,
    LINEAR_UP,
    LINEAR_DOWN,
    LINEAR_N
};

struct linear {
    struct wmat w;      /* [n,k] stored format */
    const float *bias;  /* [n] or NULL */
    const char *scheme; /* ref, how it is stored: "BF16", or the text of its struct qscheme */
};

enum norm_role {
    NORM_ATTN,      /* in front of attention */
    NORM_MLP,       /* in front of the MLP or the experts */
    NORM_Q,         /* of each query head */
    NORM_K,         /* of each key head */
    NORM_ATTN_POST, /* of what attention adds */
    NORM_MLP_POST,  /* of what the MLP adds */
    NORM_N
};

/* One expert of a layer: gate, up [F,E], down [E,F], F that of an expert. */
struct expert {
    struct linear lin[LINEAR_N - LINEAR_GATE];
};

struct layer_weights {
    struct layer_cfg cfg;
    const float *attn_norm;      /* [E] */
    const float *mlp_norm;       /* [E] */
    const float *q_norm;         /* [D] or NULL */
    const float *k_norm;         /* [D] or NULL */
    const float *attn_post_norm; /* [E] or NULL */
    const float *mlp_post_norm;  /* [E] or NULL */
    struct linear lin[LINEAR_N]; /* q [H*D,E] k,v [K*D,E] o [E,H*D] gate,up [F,E] down [E,F]; with
                                    experts the last three are empty */
    struct linear router;        /* [n_expert,E]; empty without experts */
    float k_scale; /* of a static F8 cache: what is cached is k / k_scale; 1 without */
    float v_scale;
    struct expert *expert; /* ref, the weights' memory, [n_expert]; NULL: an MLP */
};

struct weights {
    const struct ckpt *ckpt; /* ref, must outlive the weights */
    struct model_cfg cfg;
    struct wmat embed;           /* [V,E] */
    struct linear head;          /* [V,E]; the embedding table again when tied */
    const float *final_norm;     /* [E] */
    struct layer_weights *layer; /* own, [L] */
    void **owned;                /* own, copies that the bindings point to */
    int32_t n_owned;
    int64_t n_param;           /* parameters, a tied table counted once */
    int64_t bytes;             /* stored bytes of all: scales, zero points and orders included */
    struct qformat q;          /* own, what the configuration says; the schemes' texts */
    const char *embed_scheme;  /* ref, as that of a linear layer */
    char scheme[QSCHEME_TEXT]; /* "BF16", "Q4_1", "pack-quantized, int4, group 64, symmetric" */
    char note[QBIND_NOTE];     /* what was read otherwise than the file says; "": nothing */
};

struct weights_opts {
    bool no_finite_check; /* skip the scan of all floating point data for NaN and infinity */
};

/* Binds and checks every tensor of the model.
 * err:  ERR_NOTFOUND (tensor missing), ERR_FORMAT (shape or type found and wanted), ERR_NUMERIC
 *       (first NaN or infinity: tensor and element), ERR_UNSUPPORTED, ERR_NOMEM
 * own:  caller, weights_free
 * cost: reads all weights once unless no_finite_check */
int weights_load(const struct ckpt *c, const struct weights_opts *opts, struct weights **out);
void weights_free(struct weights *w);

/* Name of a module in Hugging Face form, "model.layers.3.mlp.up_proj"; dst [TENSOR_NAME_MAX]. */
char *weights_module_name(char *dst, int32_t layer, enum linear_role role);

/* Name of a norm of a layer in each container, and its length. */
struct norm_name {
    const char *hf;   /* behind "model.layers.N." */
    const char *gguf; /* behind "blk.N." */
    int32_t n;
};

/* out: false, *out untouched, when the model has no such norm */
bool weights_norm_name(const struct model_cfg *c, enum norm_role role, struct norm_name *out);

/* n and k of a role. */
void weights_linear_shape(const struct model_cfg *c, enum linear_role role, int32_t *n, int32_t *k);

#endif
