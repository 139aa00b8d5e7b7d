/* A whole decoder as one operation, for backends that fuse its parts and launch a step at once.
 *
 * The arithmetic is that of engine/run/forward.c over struct backend_ops; a backend that offers it
 * may keep activations in a shorter type. Letters as in kernels/ops.h.
 * This header is valid C17 and C++17. */
#ifndef KERNELS_DECODER_H
#define KERNELS_DECODER_H

#include "kernels/ops.h"

enum { DECODER_LINEARS = 7 };

/* One product of a layer. */
struct decoder_linear {
    struct wmat w;
    const float *bias; /* host [n] or NULL */
};

struct decoder_layer {
    const float *attn_norm;                     /* host [E] */
    const float *mlp_norm;                      /* host [E] */
    const float *q_norm;                        /* host [D] or NULL */
    const float *k_norm;                        /* host [D] or NULL */
    struct decoder_linear lin[DECODER_LINEARS]; /* q, k, v, o, gate, up, down */
    struct kv_view kv;                          /* backend buffers */
    int32_t kv_group;                           /* which batch of a step it takes */
    int32_t window;                             /* 0: all */
    int32_t rope;                               /* table 0 or 1 */
};

struct decoder {
    int32_t n_layer;
    int32_t n_head;
    int32_t n_kv_head;
    int32_t head_dim;
    int32_t hidden;
    int32_t ffn;
    int32_t vocab;
    int32_t ctx_max;
    int32_t tok_max; /* largest T */
    int32_t seq_max; /* largest B */
    int32_t out_max; /* largest R of decoder_logits */
    float rms_eps;
    float norm_offset;
    float embed_scale;
    float logit_softcap; /* 0: none */
    enum act act;
    struct attn_args attn; /* window is the layer's */
    const float *rope[2];  /* host [ctx_max, D]; the second may be NULL */
    struct wmat embed;     /* [V,E] */
    struct decoder_linear head;
    const float *final_norm;           /* host [E] */
    const struct decoder_layer *layer; /* [L] */
};

/* An open decoder; layout private to each backend. */
struct decoder_dev;

#endif
