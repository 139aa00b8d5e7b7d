/* Lengths by inversion or by the seeded draws of rng.h.
 *
 * Empirical tables hold K + 1 quantiles q_0 ... q_K at probabilities i / K. A uniform u in [0,1)
 * falls between two of them and is interpolated linearly, that is, the distribution function is
 * piecewise linear through the table. Lognormal: sigma^2 = ln(1 + cv^2), mu = ln(mean) - sigma^2/2,
 * so that mean and cv are those of the variable, not of its logarithm. */
#include "scenarios/lengths.h"

#include <math.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/base/file.h"
#include "engine/base/str.h"

enum { TABLE_BYTES_MAX = 1 << 20, ROW_MAX = 128 };

static const char azure_2023_conv[] = {
#include "azure_2023_conv.csv.inc"
};

static const struct {
    const char *name;
    const char *text;
    int64_t n;
} tables[] = {{"azure-2023-conv", azure_2023_conv, (int64_t)sizeof azure_2023_conv}};

/* Splits "p,input,output" and gives the probability and the wanted count. */
static int parse_row(const char *where,
                     int32_t line,
                     const char *s,
                     int64_t n,
                     enum length_column column,
                     double *p,
                     double *tokens) {
    char row[ROW_MAX];
    if (n >= ROW_MAX) {
        return err_set(ERR_FORMAT, "%s:%d: a row of %lld bytes", where, line, (long long)n);
    }
    memcpy(row, s, (size_t)n);
    row[n] = '\0';
    char *second = strchr(row, ',');
    char *third = second ? strchr(second + 1, ',') : NULL;
    if (!third) {
        return err_set(ERR_FORMAT, "%s:%d: \"%s\", want p,input_tokens,output_tokens", where, line,
                       row);
    }
    *second = '\0';
    *third = '\0';
    int rc = str_f64(row, p);
    rc = rc ? rc : str_f64(column == LENGTH_COLUMN_INPUT ? second + 1 : third + 1, tokens);
    if (!rc && (*tokens < 0 || *tokens > LENGTH_TOKENS_MAX)) {
        rc = err_set(ERR_FORMAT, "%.6g tokens, want 0..%d", *tokens, (int)LENGTH_TOKENS_MAX);
    }
    return rc ? err_ctx(ERR_FORMAT, "%s:%d", where, line) : 0;
}

static int check_steps(const char *where, const double *p, const double *q, int32_t n) {
    if (n < 2) {
        return err_set(ERR_FORMAT, "%s: %d rows, want at least 2", where, n);
    }
    for (int32_t i = 0; i < n; i++) {
        if (fabs(p[i] - (double)i / (n - 1)) > 1e-6) {
            return err_set(ERR_FORMAT, "%s:%d: probability %.6g, want %.6g (equal steps 0..1)",
                           where, i + 2, p[i], (double)i / (n - 1));
        }
        if (i > 0 && q[i] < q[i - 1]) {
            return err_set(ERR_FORMAT, "%s:%d: %.6g tokens after %.6g, want no less", where, i + 2,
                           q[i], q[i - 1]);
        }
    }
    return 0;
}

int lengths_parse_table(const char *where,
                        const char *text,
                        int64_t n_bytes,
                        enum length_column column,
                        double **quantiles,
                        int32_t *n) {
    static const char header[] = "p,input_tokens,output_tokens\n";
    const int64_t n_header = (int64_t)sizeof header - 1;
    if (n_bytes < n_header || memcmp(text, header, (size_t)n_header) != 0) {
        return err_set(ERR_FORMAT, "%s:1: want the header p,input_tokens,output_tokens", where);
    }
    double *q = mem_array(MEM_DATA, 2 * LENGTH_QUANTILES_MAX, sizeof *q);
    double *p = q + LENGTH_QUANTILES_MAX;
    int rc = q ? 0 : ERR_NOMEM;
    int32_t rows = 0;
    for (int64_t at = n_header; !rc && at < n_bytes;) {
        const char *end = memchr(text + at, '\n', (size_t)(n_bytes - at));
        int64_t len = end ? end - (text + at) : n_bytes - at;
        if (rows == LENGTH_QUANTILES_MAX) {
            rc = err_set(ERR_FORMAT, "%s: more than %d rows", where, (int)LENGTH_QUANTILES_MAX);
        } else if (len > 0) {
            rc = parse_row(where, rows + 2, text + at, len, column, &p[rows], &q[rows]);
            rows++;
        }
        at += len + 1;
    }
    rc = rc ? rc : check_steps(where, p, q, rows);
    if (rc) {
        mem_free(q);
        return rc;
    }
    *quantiles = q;
    *n = rows;
    return 0;
}

static int named_table(const char *name, enum length_column column, struct lengths *l) {
    for (int32_t i = 0; i < ARRAY_LEN(tables); i++) {
        if (str_eq(tables[i].name, name)) {
            return lengths_parse_table(name, tables[i].text, tables[i].n, column, &l->quantiles,
                                       &l->n_quantiles);
        }
    }
    return err_set(ERR_CONFIG, "no length table \"%s\", the built-in one is \"%s\"", name,
                   tables[0].name);
}

static int
init_table(struct lengths *l, const struct lengths_spec *spec, enum length_column column) {
    l->a = spec->scale > 0 ? spec->scale : 1;
    if (spec->table) {
        return named_table(spec->table, column, l);
    }
    if (!spec->file) {
        return err_set(ERR_CONFIG, "empirical lengths need a table or a file");
    }
    struct buf b;
    buf_init(&b, MEM_DATA, TABLE_BYTES_MAX);
    int rc = file_read(spec->file, &b);
    rc = rc ? rc
            : lengths_parse_table(spec->file, buf_cstr(&b), b.len, column, &l->quantiles,
                                  &l->n_quantiles);
    buf_fini(&b);
    return rc;
}

int lengths_init(struct lengths *l, const struct lengths_spec *spec, enum length_column column) {
    struct lengths out = {.kind = spec->kind,
                          .min = spec->min > 0 ? spec->min : 1,
                          .max = spec->max > 0 ? spec->max : LENGTH_TOKENS_MAX,
                          .a = spec->mean,
                          .b = spec->sd};
    int rc = 0;
    if (spec->kind == LENGTH_FIXED) {
        out.min = spec->fixed;
        out.max = spec->fixed;
    }
    if (spec->kind == LENGTH_UNIFORM && spec->max <= 0) {
        return err_set(ERR_CONFIG, "uniform lengths need a max");
    }
    if (spec->kind == LENGTH_NORMAL || spec->kind == LENGTH_LOGNORMAL) {
        rc = spec->mean > 0 ? 0 : err_set(ERR_CONFIG, "lengths need a mean above 0");
    }
    if (spec->kind == LENGTH_LOGNORMAL) {
        double var = log1p(spec->cv * spec->cv);
        out.b = sqrt(var);
        out.a = log(fmax(spec->mean, 1e-9)) - var / 2;
    }
    if (out.min > out.max || out.min < 1 || out.max > LENGTH_TOKENS_MAX) {
        rc = err_set(ERR_CONFIG, "lengths from %d to %d tokens, want 1 <= min <= max <= %d",
                     out.min, out.max, (int)LENGTH_TOKENS_MAX);
    }
    if (!rc && spec->kind == LENGTH_EMPIRICAL) {
        rc = init_table(&out, spec, column);
    }
    if (!rc && (spec->kind == LENGTH_UNSET || spec->kind >= LENGTH_N)) {
        rc = err_set(ERR_CONFIG, "no length distribution is given");
    }
    if (rc) {
        return rc;
    }
    *l = out;
    return 0;
}

void lengths_fini(struct lengths *l) {
    mem_free(l->quantiles);
    *l = (struct lengths){0};
}

static double interpolate(const struct lengths *l, double u) {
    double pos = u * (l->n_quantiles - 1);
    int32_t i = i32_min((int32_t)pos, l->n_quantiles - 2);
    double part = pos - i;
    return l->quantiles[i] + part * (l->quantiles[i + 1] - l->quantiles[i]);
}

int32_t lengths_draw(const struct lengths *l, struct rng *r) {
    double x = 0;
    switch (l->kind) {
    case LENGTH_UNIFORM:
        return l->min + (int32_t)rng_below(r, (int64_t)l->max - l->min + 1);
    case LENGTH_NORMAL:
        x = l->a + l->b * rng_normal(r);
        break;
    case LENGTH_LOGNORMAL:
        x = exp(l->a + l->b * rng_normal(r));
        break;
    case LENGTH_EMPIRICAL:
        x = l->a * interpolate(l, rng_uniform(r));
        break;
    case LENGTH_FIXED:
    case LENGTH_UNSET:
    case LENGTH_N:
    default:
        return l->min;
    }
    x = fmin(fmax(x, l->min), l->max);
    return (int32_t)lround(x);
}
