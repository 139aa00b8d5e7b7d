/* Token counts of prompts and answers: a distribution from a scenario, drawn with a seeded stream.
 *
 * A draw is rounded to whole tokens and clamped into [min, max]; the parameters are those of the
 * distribution before the clamp. Input and output lengths are drawn independently of each other. */
#ifndef SCENARIOS_LENGTHS_H
#define SCENARIOS_LENGTHS_H

#include "engine/base/buf.h"
#include "engine/base/rng.h"
#include "engine/base/types.h"

enum length_kind {
    LENGTH_UNSET,
    LENGTH_FIXED,
    LENGTH_UNIFORM,   /* whole numbers min..max */
    LENGTH_NORMAL,    /* mean, sd */
    LENGTH_LOGNORMAL, /* mean, coefficient of variation */
    LENGTH_EMPIRICAL, /* a table of quantiles, named or in a file */
    LENGTH_N
};

/* Which column of a table serves. */
enum length_column { LENGTH_COLUMN_INPUT, LENGTH_COLUMN_OUTPUT };

enum { LENGTH_TOKENS_MAX = 1 << 24, LENGTH_QUANTILES_MAX = 1001 };

struct lengths_spec {
    enum length_kind kind;
    int32_t fixed;     /* tokens */
    int32_t min;       /* tokens, 0 = 1 */
    int32_t max;       /* tokens, 0 = LENGTH_TOKENS_MAX */
    double mean;       /* tokens */
    double sd;         /* tokens */
    double cv;         /* sd / mean */
    double scale;      /* factor on an empirical draw, 0 = 1 */
    const char *table; /* ref: name of a built-in table ("azure-2023-conv") */
    const char *file;  /* ref: path of a table */
};

struct lengths {
    enum length_kind kind;
    int32_t min; /* tokens */
    int32_t max;
    double a; /* mean, or mu of the logarithm; the scale of a table */
    double b; /* sd, or sigma of the logarithm */
    int32_t n_quantiles;
    double *quantiles; /* own, [n_quantiles]: tokens at probability i / (n_quantiles - 1) */
};

/* Makes a generator.
 * in:   spec complete; file read relative to the working folder
 * err:  ERR_CONFIG (impossible parameters, unknown table), ERR_NOTFOUND, ERR_FORMAT with the line
 *       of the table, ERR_NOMEM
 * own:  caller, lengths_fini */
int lengths_init(struct lengths *l, const struct lengths_spec *spec, enum length_column column);
void lengths_fini(struct lengths *l);

/* One length, in tokens, min..max. cost: O(log quantiles) or less */
int32_t lengths_draw(const struct lengths *l, struct rng *r);

/* Reads a table: a header "p,input_tokens,output_tokens", then rows with p = 0 ... 1 in equal
 * steps and counts that never fall. where names it in errors.
 * out:  *quantiles own by the caller (mem_free), *n its length
 * err:  ERR_FORMAT with the line, ERR_NOMEM */
int lengths_parse_table(const char *where,
                        const char *text,
                        int64_t n_bytes,
                        enum length_column column,
                        double **quantiles,
                        int32_t *n);

#endif
