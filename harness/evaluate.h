/* Teacher-forced scoring of several models over the same windows, in lockstep: losses of every
 * token, and KL divergence and top-1 agreement of each model against a base, without any logits on
 * disk. */
#ifndef HARNESS_EVALUATE_H
#define HARNESS_EVALUATE_H

#include "engine/run/engine.h"
#include "harness/ppl.h"

enum { EVALUATE_MODELS_MAX = 16 };

/* What one model gave. All arrays [n_scored] in window order. */
struct evaluate_out {
    double *nll;   /* own, nats */
    double *kl;    /* own, nats: KL(base || model) of the whole distribution; NULL without a base */
    uint8_t *same; /* own, 1 where both have the same most likely token; NULL without a base */
};

struct evaluate_job {
    struct engine *engine[EVALUATE_MODELS_MAX]; /* ref; all with one vocabulary and batch budget */
    int32_t n_model;
    int32_t base;                /* index of the base, -1: no divergence is computed */
    const int32_t *ids;          /* ref, the text's tokens */
    const struct ppl_windows *w; /* ref */
    int32_t vocab;
    int32_t batch_tok_max; /* of the engines: rows kept for the comparison */
    /* Called after each window; non-zero stops with ERR_CANCELED. May be NULL. */
    int (*progress)(void *ctx, int64_t n_scored);
    void *ctx;
};

/* Scores everything. out: [n_model], to be given back with evaluate_fini
 * err:  those of the engine; ERR_CANCELED
 * cost: memory for batch_tok_max rows of logits; reads the text once through every model */
int evaluate_run(const struct evaluate_job *job, struct evaluate_out *out);
void evaluate_fini(struct evaluate_out *out, int32_t n_model);

/* Mean and order statistics of a divergence. */
struct evaluate_kl {
    double mean;
    double lo;
    double hi;
    double p50;
    double p90;
    double p99;
    double max;
    double top1; /* share of tokens with the same most likely token */
    double top1_lo;
    double top1_hi;
};

/* in: n >= 1. err: ERR_NOMEM */
int evaluate_kl_figure(const struct evaluate_out *o, int64_t n, struct evaluate_kl *out);

#endif
