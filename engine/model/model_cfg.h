/* What a decoder-only transformer of our families needs to know about itself. */
#ifndef ENGINE_MODEL_MODEL_CFG_H
#define ENGINE_MODEL_MODEL_CFG_H

#include "kernels/ops.h"

enum rope_type { ROPE_DEFAULT, ROPE_LINEAR, ROPE_LLAMA3, ROPE_YARN };

struct rope_cfg {
    enum rope_type type;
    double theta;             /* base of the frequencies */
    double factor;            /* linear, llama3, yarn */
    double low_freq_factor;   /* llama3 */
    double high_freq_factor;  /* llama3 */
    int32_t original_ctx;     /* llama3, yarn: context of the pre-training */
    double beta_fast;         /* yarn, default 32 */
    double beta_slow;         /* yarn, default 1 */
    double attention_factor;  /* yarn; 0: 0.1 ln(factor) + 1 */
    const float *freq_factor; /* ref, [D/2] GGUF rope_freqs; NULL */
};

/* What may differ from layer to layer. */
struct layer_cfg {
    int32_t window; /* attention sees positions > p - window; 0: all */
    uint8_t rope;   /* rotary table: 0 is that of rope, 1 that of rope_local */
    bool moe;       /* routed experts instead of the MLP */
};

enum { MODEL_EOS_MAX = 8, MODEL_LAYERS_MAX = 1024, MODEL_VOCAB_MAX = 1 << 21 };

struct model_cfg {
    char family[32];   /* "llama", "gemma3" */
    int32_t n_layer;   /* L */
    int32_t n_head;    /* H */
    int32_t n_kv_head; /* K */
    int32_t head_dim;  /* D */
    int32_t hidden;    /* E */
    int32_t ffn;       /* F */
    int32_t vocab;     /* V */
    int32_t ctx_max;   /* positions the model was made for */
    float rms_eps;
    float norm_offset; /* added to norm weights before use */
    float embed_scale; /* multiplies the embedding rows */
    bool tied;         /* lm_head shares the embedding table */
    bool qk_norm;      /* RMS norm of q and k heads */
    bool post_norm;    /* RMS norm of what attention and MLP add */
    bool attn_bias;    /* q, k, v carry biases */
    bool o_bias;       /* the output projection carries one */
    bool mlp_bias;
    enum act act;
    struct attn_args attn; /* window is the layer's */
    float logit_softcap;   /* 0: none; else logits are cap * tanh(logits / cap) */
    struct rope_cfg rope;
    struct rope_cfg rope_local; /* of layers with rope 1 */
    bool has_rope_local;
    int32_t n_expert;      /* of layers with moe; 0: there are none */
    int32_t n_expert_used; /* experts a token goes through */
    int32_t expert_ffn;    /* F of one expert */
    bool expert_renorm;    /* the chosen experts' weights are made to sum to 1 */
    int32_t bos;           /* -1: none */
    int32_t eos[MODEL_EOS_MAX];
    int32_t n_eos;
    struct layer_cfg layer[MODEL_LAYERS_MAX]; /* [L] */
};

/* Layers whose caches keep the same positions: group 0 sees everything where a model has such
 * layers; windowed layers form the last group, with the largest of their windows. */
enum { MODEL_KV_GROUPS = 2 };

struct kv_groups {
    int32_t n;                        /* 1..MODEL_KV_GROUPS */
    int32_t window[MODEL_KV_GROUPS];  /* 0: all positions */
    int32_t n_layer[MODEL_KV_GROUPS]; /* at least 1 */
};

void model_cfg_kv_groups(const struct model_cfg *c, struct kv_groups *out);

/* The group of a layer. */
int32_t model_cfg_kv_group_of(const struct kv_groups *g, const struct layer_cfg *layer);

/* KV cache bytes of one token: 2 x L x K x D x bytes of an element; in block formats a head takes
 * whole blocks. */
int64_t model_cfg_kv_bytes_per_token(const struct model_cfg *c, enum dtype kv_type);

/* Demands that the numbers fit together (heads divide, sizes positive, ...). where: for messages */
int model_cfg_check(const struct model_cfg *c, const char *where);

/* Rotary parameters of the plain form with one base. */
struct rope_cfg model_cfg_rope(double theta);

/* Fills defaults that every family starts from. */
void model_cfg_init(struct model_cfg *c);

#endif
