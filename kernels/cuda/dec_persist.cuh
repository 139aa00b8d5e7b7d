/* A whole decode step of up to 8 rows in one kernel. */
#ifndef KERNELS_CUDA_DEC_PERSIST_CUH
#define KERNELS_CUDA_DEC_PERSIST_CUH

#include "kernels/cuda/dec_ops.cuh"

enum { PERSIST_ROWS = 8, PERSIST_LAYERS = 96 };

struct persist_layer {
    const bf16 *qkv;
    const bf16 *o;
    const bf16 *gate_up;
    const bf16 *down;
    const float *attn_norm; /* offsets added */
    const float *mlp_norm;
    const float *q_norm;
    const float *k_norm;
    const float *bias; /* [(H + 2K) D] or NULL */
    const float *cos_sin;
    void *k;
    void *v;
    int32_t window;
    int32_t kv_group;
};

/* Passed by value: the layers lie in constant memory. */
struct persist {
    struct persist_layer layer[PERSIST_LAYERS];
    int32_t n_layer;
    int32_t n_head;
    int32_t hidden;
    int32_t ffn;
    int32_t vocab;
    float eps;
    float attn_scale;
    float embed_scale;
    enum act act;
    struct kv_view kv; /* shape of every layer's cache */
    struct dec_batch b;
    int32_t n_split;
    const bf16 *embed;
    const bf16 *head;
    const float *head_bias;
    const float *final_norm;
    float *x;
    bf16 *h;
    float *part;
    bf16 *qkv;
    bf16 *att;
    bf16 *act_out;
    float *partial;
    int32_t *count;
    float *logit;
    unsigned long long *pick;
    unsigned *barrier; /* [2] zero between launches */
};

/* Blocks of a launch on this card: one a multiprocessor. out: 0 when the card cannot hold one */
int dec_persist_blocks(int32_t head_dim, int32_t *blocks);

/* Runs the step, picks and logits of all its rows included. in: b.n_tok decode rows, at most
 * PERSIST_ROWS */
int dec_persist(cudaStream_t s, const struct persist *p, int32_t blocks);

#endif
