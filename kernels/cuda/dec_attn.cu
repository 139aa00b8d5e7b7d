/* Attention of decode rows over the paged bf16 cache.
 *
 * A block takes one row, one kv head (all its query heads: each cache row is read once) and one
 * split of the positions; its 4 warps take tiles of 16 positions in turn, and the next tile is on
 * its way while one is computed. Scores by m16n8k16 with the query heads as rows, cache rows read
 * straight from memory as fragments (k in another order, the same on both sides); the values by
 * fused multiply-adds, a lane owning 8 dimensions.
 *
 * Order of a sum: a warp's tiles ascending, then warps, then splits (by the last block to arrive).
 * A row of n positions is cut into n_split equal parts, so its order depends on its position, its
 * window and n_split.
 * src: Dao et al., "Flash-Decoding", 2023; online softmax: Milakov and Gimelshein, 2018 */
#include "kernels/cuda/dec_heads.cuh"

enum { WARPS = 4 };

template <int D, int G>
__global__ void __launch_bounds__(WARPS * 32) decode_kernel(const struct dec_attn a) {
    __shared__ struct shared<D, G, WARPS> sh;
    struct work w;
    int row = (int)blockIdx.x;
    dec_release();
    dec_wait();
    if (!find_work<WARPS>(a, row, (int)blockIdx.y, (int)blockIdx.z, w)) {
        return;
    }
    int lane = (int)threadIdx.x % 32;
    const bf16 *q = a.qkv + ((int64_t)row * (a.n_head + 2 * a.kv.n_kv_head) + w.head * w.group) * D;
    uint4 qf[shape<D>::quads];
#pragma unroll
    for (int j = 0; j < shape<D>::quads; j++) {
        qf[j] = lane / 4 < w.group ? *(const uint4 *)(q + lane / 4 * D + 32 * j + 8 * (lane % 4))
                                   : make_uint4(0, 0, 0, 0);
    }
    struct sums<G> sum = no_sums<G>();
    walk<D, G, WARPS>(a, w, qf, sum, sh);
    join<D, G, WARPS>(a, w, row, sum, sh);
}

template <int D, int G> static int launch(cudaStream_t s, const struct dec_attn *a) {
    dim3 grid((unsigned)a->b.n_decode, (unsigned)a->kv.n_kv_head, (unsigned)a->n_split);
    return dec_launch(s, "decode attention", decode_kernel<D, G>, grid, WARPS * 32, 0, *a);
}

template <int D> static int by_group(cudaStream_t s, const struct dec_attn *a) {
    int group = a->n_head / a->kv.n_kv_head;
    if (group <= 2) {
        return group == 1 ? launch<D, 1>(s, a) : launch<D, 2>(s, a);
    }
    return group <= 4 ? launch<D, 4>(s, a) : launch<D, 8>(s, a);
}

int dec_attn_decode(cudaStream_t s, const struct dec_attn *a) {
    return a->kv.head_dim == 64 ? by_group<64>(s, a) : by_group<128>(s, a);
}
