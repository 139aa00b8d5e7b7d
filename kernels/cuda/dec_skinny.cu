/* Products with few rows: y[t,n] = sum_k in[t,k] w[n,k], t < 16, w read once at the speed of
 * memory.
 *
 * A block walks over tiles of 8 rows of w, in pieces of 1,024 columns. Warps of their own bring
 * pieces into a ring of shared memory by bulk copies, across tiles and, since weights are there
 * before the step begins, before the kernel in front has ended. Eight warps multiply: each takes 4
 * of a piece's 32 steps of 32 columns. A lane (g, q) = (lane / 4, lane % 4) reads 16 bytes: w[n0 +
 * g, 32 i + 8 q
 * ..+7], and the same columns of in's rows g and g + 8. Those are the fragments of two m16n8k16
 * products whose k is taken in another order: a sum does not mind, as long as both sides agree.
 *
 * Law: a sum is its 8 warps' f32 accumulators, added in order of the warps. It depends on w's row
 * and in's row alone, not on T. src: PTX ISA, cp.async.bulk and mbarrier */
#include "kernels/cuda/dec_ring.cuh"

enum { STAGES = 4, PIECE = 1024, BLOCKS_MAX = 264 /* two a multiprocessor */ };

template <int HALVES, enum skinny_end END>
__global__ void __launch_bounds__((WARPS + BRINGERS) * 32) skinny_kernel(const struct skinny a) {
    extern __shared__ uint4 raw[];
    struct ring<STAGES, PIECE> &r = *(struct ring<STAGES, PIECE> *)raw;
    dec_release();
    if (threadIdx.x == 0) {
        ring_init(r);
    }
    __syncthreads();
    if (threadIdx.x / 32 >= WARPS) {
        int n = 0;
        bring(a.w, a.n, a.k, n, r); /* weights were there before; all else is our predecessor's */
    } else {
        int n = 0;
        int turn = 0;
        dec_wait();
        const struct rows_in in = {a.in, a.k};
        multiply<STAGES, PIECE, HALVES, INPUT_OLD, END>(a, in, n, turn, r);
    }
}

template <int HALVES, enum skinny_end END>
static int launch(cudaStream_t s, const struct skinny *a) {
    int tiles = a->n / 8;
    int rounds = (tiles + BLOCKS_MAX - 1) / BLOCKS_MAX;
    dim3 grid((unsigned)((tiles + rounds - 1) / rounds));
    int shared = (int)sizeof(struct ring<STAGES, PIECE>);
    int rc = CUDA_CHECK(cudaFuncSetAttribute(skinny_kernel<HALVES, END>,
                                             cudaFuncAttributeMaxDynamicSharedMemorySize, shared));
    return rc ? rc
              : dec_launch(s, "skinny", skinny_kernel<HALVES, END>, grid, (WARPS + BRINGERS) * 32,
                           (size_t)shared, *a);
}

template <enum skinny_end END> static int by_rows(cudaStream_t s, const struct skinny *a) {
    return a->n_tok <= 8 ? launch<1, END>(s, a) : launch<2, END>(s, a);
}

int dec_skinny(cudaStream_t s, enum skinny_end end, const struct skinny *a) {
    switch (end) {
    case SKINNY_STORE:
        return by_rows<SKINNY_STORE>(s, a);
    case SKINNY_ADD:
        return by_rows<SKINNY_ADD>(s, a);
    case SKINNY_GLU:
        return by_rows<SKINNY_GLU>(s, a);
    case SKINNY_LOGIT:
        return by_rows<SKINNY_LOGIT>(s, a);
    }
    return 0;
}
