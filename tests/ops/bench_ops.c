/* Speed of the ops, with the share of what this machine could do.
 *
 *   bench_ops [--json] [--variant NAME] [--threads N] [--all] [--ms MS] [--only PART]
 *
 * Each case runs for MS milliseconds (default 200); the best run counts, after one that warms up.
 * Roofs are measured first by the same program: multiply-adds in registers, and a read of memory
 * far larger than the caches. A weight that fits a cache may be read faster than the roof. Without
 * --all only the shapes of SmolLM2-135M run; with it the whole table of cases.h as well. */
#include <stdio.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/base/mem.h"
#include "engine/base/str.h"
#include "kernels/cpu/backend_cpu.h"
#include "tests/ops/cases.h"

struct bench {
    bool json;
    bool all;
    int64_t ms;
    const char *only;
    const struct backend_ops *ops;
    struct backend *be;
    struct cpu_roof roof;
};

static void show(const struct bench *b, const char *name, double ns, double gflops, double gbytes) {
    double flops_share = gflops / b->roof.gflops;
    double bytes_share = gbytes / b->roof.gbytes;
    if (b->json) {
        printf("{\"case\": \"%s\", \"us\": %.2f, \"gflops\": %.2f, \"gflops_share\": %.3f, "
               "\"gbytes\": %.2f, \"gbytes_share\": %.3f}\n",
               name, ns * 1e-3, gflops, flops_share, gbytes, bytes_share);
    } else {
        printf("%-58s %9.1f us %6.1f GFLOP/s (%.2f) %5.1f GB/s (%.2f)\n", name, ns * 1e-3, gflops,
               flops_share, gbytes, bytes_share);
    }
}

static int bench_case(const struct bench *b, const struct op_case *c) {
    struct case_data d;
    struct case_run r;
    char name[160];
    case_name(c, name);
    if (b->only && !strstr(name, b->only)) {
        return 0;
    }
    int rc = case_make(c, 1, &d);
    if (rc) {
        return rc;
    }
    rc = case_load(c, &d, b->ops, b->be, 0, c->n_tok, &r);
    if (rc) {
        case_drop(&d);
        return rc;
    }
    int64_t best = INT64_MAX;
    int64_t end = clock_now_ns() + b->ms * 1000000;
    rc = case_exec(&r);
    while (!rc && clock_now_ns() < end) {
        int64_t t = clock_now_ns();
        rc = case_exec(&r);
        best = i64_min(best, clock_now_ns() - t);
    }
    show(b, name, (double)best, case_flops(c) / (double)best, case_bytes(c, &d) / (double)best);
    case_unload(&r);
    case_drop(&d);
    return rc;
}

static const struct op_case smollm2[] = {
    {.op = CASE_MATMUL, .n = 576, .k = 576, .type = DTYPE_Q4_1},
    {.op = CASE_MATMUL, .n = 192, .k = 576, .type = DTYPE_Q4_1},
    {.op = CASE_MATMUL, .n = 1536, .k = 576, .type = DTYPE_Q4_1},
    {.op = CASE_MATMUL, .n = 576, .k = 1536, .type = DTYPE_Q4_1},
    {.op = CASE_MATMUL, .n = 1536, .k = 576, .type = DTYPE_F32},
    {.op = CASE_MATMUL, .n = 1536, .k = 576, .type = DTYPE_F16},
    {.op = CASE_MATMUL, .n = 1536, .k = 576, .type = DTYPE_BF16},
    {.op = CASE_MATMUL, .n = 1536, .k = 576, .type = DTYPE_Q4_0},
    {.op = CASE_MATMUL, .n = 1536, .k = 576, .type = DTYPE_Q8_0},
    {.op = CASE_MATMUL,
     .n = 1536,
     .k = 576,
     .type = DTYPE_W4,
     .group = 64,
     .scale_type = DTYPE_BF16},
    {.op = CASE_MATMUL,
     .n = 1536,
     .k = 576,
     .type = DTYPE_W8,
     .group = 64,
     .scale_type = DTYPE_BF16},
    {.op = CASE_MATMUL,
     .n = 1536,
     .k = 576,
     .type = DTYPE_F8_E4M3,
     .group = 576,
     .scale_type = DTYPE_BF16},
    {.op = CASE_MATMUL,
     .n = 1536,
     .k = 576,
     .type = DTYPE_F4,
     .group = 16,
     .scale_type = DTYPE_F8_E4M3,
     .global = 300},
    {.op = CASE_MATMUL,
     .n = 1536,
     .k = 576,
     .type = DTYPE_I8,
     .group = 576,
     .scale_type = DTYPE_BF16,
     .input = {.type = ACTQ_I8}},
    {.op = CASE_MATMUL,
     .n = 1536,
     .k = 576,
     .type = DTYPE_W4,
     .group = 64,
     .scale_type = DTYPE_BF16,
     .input = {.type = ACTQ_I8}},
    {.op = CASE_MATMUL,
     .n = 1536,
     .k = 576,
     .type = DTYPE_F8_E4M3,
     .group = 576,
     .scale_type = DTYPE_BF16,
     .input = {.type = ACTQ_F8_E4M3}},
    {.op = CASE_MATMUL,
     .n = 1536,
     .k = 576,
     .type = DTYPE_F4,
     .group = 16,
     .scale_type = DTYPE_F8_E4M3,
     .global = 300,
     .input = {.type = ACTQ_F4, .group = 16, .global = 700}},
};

static const struct op_case heads[] = {
    {.n_seq = 1, .rows = {512}, .len = {512}},
    {.n_seq = 1, .rows = {512}, .len = {2048}},
    {.n_seq = 1, .rows = {1}, .len = {128}},
    {.n_seq = 1, .rows = {1}, .len = {2048}},
    {.n_seq = 16,
     .rows = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1},
     .len = {256, 256, 256, 256, 256, 256, 256, 256, 256, 256, 256, 256, 256, 256, 256, 256}},
};

static int bench_smollm2(const struct bench *b) {
    static const int32_t ts[] = {1, 2, 4, 16, 64, 512};
    int rc = 0;
    for (int32_t i = 0; i < ARRAY_LEN(ts) && !rc; i++) {
        for (int32_t j = 0; j < ARRAY_LEN(smollm2) && !rc; j++) {
            struct op_case c = smollm2[j];
            c.n_tok = ts[i];
            rc = bench_case(b, &c);
        }
    }
    struct op_case head = {.op = CASE_MATMUL, .n = 49152, .k = 576, .type = DTYPE_Q8_0};
    for (head.n_tok = 1; head.n_tok <= 16 && !rc; head.n_tok += 15) {
        rc = bench_case(b, &head);
    }
    for (int32_t i = 0; i < 2 * ARRAY_LEN(heads) && !rc; i++) {
        struct op_case c = heads[i / 2];
        c.op = CASE_ATTN;
        c.type = i % 2 ? DTYPE_F16 : DTYPE_F32;
        c.n_head = 9;
        c.n_kv_head = 3;
        c.head_dim = 64;
        c.block_tok = 16;
        for (int32_t s = 0; s < c.n_seq; s++) {
            c.n_tok += c.rows[s];
        }
        rc = bench_case(b, &c);
    }
    for (int32_t t = 1; t <= 512 && !rc; t += 511) {
        const struct op_case small[] = {
            {.op = CASE_RMSNORM, .n_tok = t, .k = 576},
            {.op = CASE_NORM_ROPE, .n_tok = t, .n_head = 9, .head_dim = 64},
            {.op = CASE_ACT_MUL, .n_tok = t, .k = 1536},
            {.op = CASE_ADD, .n_tok = t, .k = 576},
        };
        for (int32_t i = 0; i < ARRAY_LEN(small) && !rc; i++) {
            rc = bench_case(b, &small[i]);
        }
    }
    return rc;
}

static int bench_table(const struct bench *b) {
    struct op_case *cases = mem_array(MEM_TEST, CASES_MAX, (int64_t)sizeof(*cases));
    if (!cases) {
        return ERR_NOMEM;
    }
    int32_t n = cases_all(cases);
    int rc = 0;
    for (int32_t i = 0; i < n && !rc; i++) {
        rc = bench_case(b, &cases[i]);
    }
    mem_free(cases);
    return rc;
}

/* Value of --name, or NULL. */
static const char *option(int argc, char **argv, const char *name) {
    for (int i = 1; i + 1 < argc; i++) {
        if (str_eq(argv[i], name)) {
            return argv[i + 1];
        }
    }
    return NULL;
}

static bool flag(int argc, char **argv, const char *name) {
    for (int i = 1; i < argc; i++) {
        if (str_eq(argv[i], name)) {
            return true;
        }
    }
    return false;
}

static int bench_main(int argc, char **argv) {
    struct bench b = {.json = flag(argc, argv, "--json"), .all = flag(argc, argv, "--all")};
    b.only = option(argc, argv, "--only");
    b.ms = 200;
    int64_t threads = 0;
    const char *ms = option(argc, argv, "--ms");
    const char *n = option(argc, argv, "--threads");
    int rc = ms ? str_i64(ms, 1, 60000, &b.ms) : 0;
    rc = rc || !n ? rc : str_i64(n, 0, 256, &threads);
    rc = rc ? rc : backend_find("cpu", &b.ops);
    if (rc) {
        return rc;
    }
    struct backend_opts o = {.n_threads = (int32_t)threads,
                             .n_tok_max = CASE_TOK_MAX,
                             .k_max = CASE_K_MAX,
                             .ctx_max = CASE_CTX_MAX,
                             .n_head_max = CASE_HEAD_MAX,
                             .variant = option(argc, argv, "--variant")};
    rc = b.ops->open(&o, &b.be);
    if (rc) {
        return rc;
    }
    rc = backend_cpu_roof(b.be, &b.roof);
    if (!rc) {
        printf(b.json ? "{\"backend\": \"%s\", \"roof_gflops\": %.1f, \"roof_gbytes\": %.1f}\n"
                      : "%s: roof %.1f GFLOP/s, %.1f GB/s read\n",
               b.ops->describe(b.be), b.roof.gflops, b.roof.gbytes);
        rc = bench_smollm2(&b);
    }
    rc = rc || !b.all ? rc : bench_table(&b);
    b.ops->close(b.be);
    return rc;
}

int main(int argc, char **argv) {
    int rc = bench_main(argc, argv);
    if (rc) {
        fprintf(stderr, "bench_ops: %s\n", err_msg());
    }
    return rc ? 1 : 0;
}
