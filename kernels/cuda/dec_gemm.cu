/* Products with many rows by cuBLASLt. Row-major y [T,N] = in [T,K] w^T is, to a library that
 * counts columns first, y' [N,T] = (w' [K,N])^T in' [K,T]. A plan (the library's first heuristic)
 * is found once for each shape and kept; T is rounded up to a power of two for that. */
#include <cublasLt.h>
#include <new>

#include "kernels/cuda/dec_ops.cuh"

enum { PLANS_MAX = 256 };
static const size_t WORKSPACE = 64 << 20;

struct plan {
    int32_t n_tok; /* rounded */
    int32_t n;
    int32_t k;
    bool f32;
    cublasLtMatmulAlgo_t algo;
};

struct dec_gemm {
    cublasLtHandle_t lt;
    cublasLtMatmulDesc_t desc;
    void *workspace;
    struct plan plan[PLANS_MAX];
    int32_t n_plan;
};

static int lt_check(cublasStatus_t st, const char *what) {
    return st == CUBLAS_STATUS_SUCCESS
               ? 0
               : err_set(ERR_DEVICE, "cuBLASLt: %s: status %d", what, (int)st);
}

int dec_gemm_open(struct dec_gemm **out) {
    struct dec_gemm *g = new (std::nothrow) dec_gemm();
    if (!g) {
        return err_set(ERR_NOMEM, "backend cuda: no memory");
    }
    cublasOperation_t t = CUBLAS_OP_T;
    int rc = lt_check(cublasLtCreate(&g->lt), "create");
    rc = rc ? rc
            : lt_check(cublasLtMatmulDescCreate(&g->desc, CUBLAS_COMPUTE_32F, CUDA_R_32F), "desc");
    rc = rc ? rc
            : lt_check(cublasLtMatmulDescSetAttribute(g->desc, CUBLASLT_MATMUL_DESC_TRANSA, &t,
                                                      sizeof t),
                       "transpose");
    rc = rc ? rc : CUDA_CHECK(cudaMalloc(&g->workspace, WORKSPACE));
    if (rc) {
        dec_gemm_close(g);
        return rc;
    }
    *out = g;
    return 0;
}

void dec_gemm_close(struct dec_gemm *g) {
    if (g) {
        cudaFree(g->workspace);
        if (g->desc) {
            cublasLtMatmulDescDestroy(g->desc);
        }
        if (g->lt) {
            cublasLtDestroy(g->lt);
        }
        delete g;
    }
}

struct layouts {
    cublasLtMatrixLayout_t a;
    cublasLtMatrixLayout_t b;
    cublasLtMatrixLayout_t d;
};

static void layouts_free(struct layouts *l) {
    cublasLtMatrixLayout_t all[3] = {l->a, l->b, l->d};
    for (int i = 0; i < 3; i++) {
        if (all[i]) {
            cublasLtMatrixLayoutDestroy(all[i]);
        }
    }
}

static int layouts_make(struct layouts *l, int32_t n_tok, int32_t n, int32_t k, bool f32) {
    *l = layouts{};
    uint64_t N = (uint64_t)n;
    uint64_t K = (uint64_t)k;
    uint64_t T = (uint64_t)n_tok;
    int rc = lt_check(cublasLtMatrixLayoutCreate(&l->a, CUDA_R_16BF, K, N, k), "layout");
    rc = rc ? rc : lt_check(cublasLtMatrixLayoutCreate(&l->b, CUDA_R_16BF, K, T, k), "layout");
    cudaDataType_t t = f32 ? CUDA_R_32F : CUDA_R_16BF;
    return rc ? rc : lt_check(cublasLtMatrixLayoutCreate(&l->d, t, N, T, n), "layout");
}

static int find_plan(
    struct dec_gemm *g, int32_t n_tok, int32_t n, int32_t k, bool f32, const struct plan **out) {
    int32_t up = 32;
    while (up < n_tok) {
        up *= 2;
    }
    for (int32_t i = 0; i < g->n_plan; i++) {
        const struct plan *p = &g->plan[i];
        if (p->n_tok == up && p->n == n && p->k == k && p->f32 == f32) {
            *out = p;
            return 0;
        }
    }
    if (g->n_plan == PLANS_MAX) {
        return err_set(ERR_LIMIT, "backend cuda: more than %d shapes of products", PLANS_MAX);
    }
    struct layouts l;
    cublasLtMatmulPreference_t pref = NULL;
    cublasLtMatmulHeuristicResult_t best;
    int found = 0;
    int rc = layouts_make(&l, up, n, k, f32);
    rc = rc ? rc : lt_check(cublasLtMatmulPreferenceCreate(&pref), "preference");
    rc = rc ? rc
            : lt_check(
                  cublasLtMatmulPreferenceSetAttribute(
                      pref, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &WORKSPACE, sizeof WORKSPACE),
                  "preference");
    rc = rc ? rc
            : lt_check(cublasLtMatmulAlgoGetHeuristic(g->lt, g->desc, l.a, l.b, l.d, l.d, pref, 1,
                                                      &best, &found),
                       "heuristic");
    if (!rc && found == 0) {
        rc = err_set(ERR_UNSUPPORTED, "cuBLASLt has no product [%d,%d] by [%d,%d]", up, k, n, k);
    }
    if (!rc) {
        struct plan *p = &g->plan[g->n_plan++];
        *p = plan{up, n, k, f32, best.algo};
        *out = p;
    }
    if (pref) {
        cublasLtMatmulPreferenceDestroy(pref);
    }
    layouts_free(&l);
    return rc;
}

int dec_gemm_run(struct dec_gemm *g, cudaStream_t s, const struct dec_product *p) {
    const struct plan *plan = NULL;
    struct layouts l;
    float one = 1;
    float beta = p->add ? 1 : 0;
    int rc = find_plan(g, p->n_tok, p->n, p->k, p->f32, &plan);
    if (rc) {
        return rc;
    }
    rc = layouts_make(&l, p->n_tok, p->n, p->k, p->f32);
    rc = rc ? rc
            : lt_check(cublasLtMatmul(g->lt, g->desc, &one, p->w, l.a, p->in, l.b, &beta, p->y, l.d,
                                      p->y, l.d, &plan->algo, g->workspace, WORKSPACE, s),
                       "matmul");
    layouts_free(&l);
    return rc;
}
