/* The one table of op cases: test_ops (truth), test_ops_invariant (bits) and bench_ops (speed) all
 * run it. */
#ifndef TESTS_OPS_CASES_H
#define TESTS_OPS_CASES_H

#include "kernels/backend.h"

enum case_op {
    CASE_MATMUL,
    CASE_EMBED,
    CASE_RMSNORM,
    CASE_NORM_ROPE,
    CASE_KV_WRITE,
    CASE_ATTN,
    CASE_ACT_MUL,
    CASE_ADD,
    CASE_GATHER,
    CASE_SOFTCAP,
    CASE_N
};

enum { CASE_SEQ_MAX = 16, CASES_MAX = 6144, CASE_ALL_ROWS = -1 };

/* Limits a backend must be opened with to run every case of the table and of bench_ops. */
enum { CASE_TOK_MAX = 512, CASE_K_MAX = 1536, CASE_CTX_MAX = 2304, CASE_HEAD_MAX = 16 };

/* Fields an op does not name are 0. */
struct op_case {
    enum case_op op;
    int32_t n_tok;         /* T; attention: the sum of rows */
    int32_t n;             /* matmul: output size */
    int32_t k;             /* matmul, embed, rmsnorm, act_mul, add, gather, softcap: row size */
    enum dtype type;       /* weight or cache */
    enum dtype scale_type; /* scaled weights, as in struct wmat */
    int32_t group;
    int32_t row_group;
    bool zero;
    bool order; /* with g_idx */
    float global;
    struct actq input;
    float k_scale; /* F8_E4M3 cache */
    float v_scale;
    bool bias;
    bool accumulate;
    bool norm; /* norm_rope: with head norm */
    enum act act;
    int32_t n_head; /* H; norm_rope: heads of x */
    int32_t n_kv_head;
    int32_t head_dim;
    int32_t block_tok;
    int32_t window;
    float softcap;
    int32_t n_seq;
    int32_t rows[CASE_SEQ_MAX]; /* attention, kv_write: rows of each sequence */
    int32_t len[CASE_SEQ_MAX];  /* and its length with them */
};

/* Fills dst with the table and returns the count, at most CASES_MAX. */
int32_t cases_all(struct op_case *dst);

/* One line: "matmul T=3 n=5 k=72 W4 group 0x72 F16 zero bias". out: dst */
char *case_name(const struct op_case *c, char dst[160]);

/* Random inputs of a case on the host. All own; one mem_* block each, NULL where unused. */
struct case_data {
    float *x;       /* activations: [T,k], q [T,H,D], gate */
    float *x2;      /* second operand: up, v, old y */
    float *w;       /* small vector: norm weights [D or k], bias [n] */
    float *angle;   /* [CASE_CTX_MAX,D] */
    int32_t *tok;   /* [T] tokens or rows */
    int32_t *pos;   /* [T] */
    uint8_t *bytes; /* stored weights */
    uint8_t *scale;
    int8_t *zero;
    int32_t *g_idx;
    uint8_t *cache_k; /* [n_blocks,K,P,D] in type */
    uint8_t *cache_v;
    int64_t cache_bytes;
    int32_t *table; /* [B,stride] */
    int32_t stride;
    struct wmat mat;
    double size;     /* natural size of a result, what tolerances are a fraction of */
    int32_t out_dim; /* floats of one output row */
};

int case_make(const struct op_case *c, uint64_t seed, struct case_data *d);
void case_drop(struct case_data *d);

/* A case loaded into an open backend: rows t0..t1-1 of it. */
struct case_run {
    const struct op_case *c;
    const struct case_data *d;
    const struct backend_ops *ops;
    struct backend *be;
    int32_t t0;
    int32_t t1;
    float *x;
    float *x2;
    float *y;
    struct kv_view kv;
    struct batch b; /* own arrays, in ints */
    int32_t *ints;
};

int case_load(const struct op_case *c,
              const struct case_data *d,
              const struct backend_ops *ops,
              struct backend *be,
              int32_t t0,
              int32_t t1,
              struct case_run *r);
int case_exec(struct case_run *r);
/* The result, [t1-t0, out_dim]; for kv_write the whole cache as f32, k then v. */
int case_read(struct case_run *r, float *out);
void case_unload(struct case_run *r);

/* Floats that case_read writes. */
int64_t case_out_floats(const struct case_run *r);

/* The allowed error of the case, a fraction of size. */
double case_tol(const struct op_case *c);

/* Multiply-adds and bytes that must move once, for speed. */
double case_flops(const struct op_case *c);
double case_bytes(const struct op_case *c, const struct case_data *d);

#endif
