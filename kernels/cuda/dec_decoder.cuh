/* The fused decoder behind decoder_open of struct backend_ops. */
#ifndef KERNELS_CUDA_DEC_DECODER_CUH
#define KERNELS_CUDA_DEC_DECODER_CUH

#include "kernels/cuda/dec_ops.cuh"

/* The stream of an open backend. own: the backend */
cudaStream_t cuda_stream(struct backend *be);

/* As in kernels/ops.h. Taken are BF16 weights without biases but on q, k and v, a BF16 cache, D 64
 * or 128, up to DEC_GROUP_MAX query heads a kv head, no soft caps. */
int cuda_decoder_open(struct backend *be, const struct decoder *d, struct decoder_dev **out);
void cuda_decoder_close(struct backend *be, struct decoder_dev *dev);
int cuda_decoder_run(struct backend *be,
                     struct decoder_dev *dev,
                     const struct batch *group,
                     int32_t n_group);
int cuda_decoder_logits(struct backend *be,
                        struct decoder_dev *dev,
                        const int32_t *row,
                        int32_t n,
                        float *logits,
                        int32_t *pick);

#endif
