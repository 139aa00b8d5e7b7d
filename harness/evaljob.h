/* One evaluation as verbs and scenarios ask for it: perplexity of several models by a definition,
 * and divergence from a base, over one text. */
#ifndef HARNESS_EVALJOB_H
#define HARNESS_EVALJOB_H

#include "engine/run/model.h"
#include "harness/evaluate.h"
#include "harness/session.h"
#include "harness/textdata.h"
#include "reports/stat.h"
#include "reports/store.h"

struct evaljob {
    const struct model *model[EVALUATE_MODELS_MAX]; /* ref */
    const char *name[EVALUATE_MODELS_MAX];          /* ref, for messages and reports */
    int32_t n_model;
    int32_t base; /* -1: no divergence */
    enum ppl_def def;
    int32_t window;
    int32_t stride;              /* hf-strided; 0: window */
    int64_t tokens;              /* limit, 0: all */
    int32_t rows;                /* seed: rows of the text, 0: all */
    bool strip;                  /* seed: rows without their newline */
    const struct textdata *text; /* ref; NULL: ids below */
    const int32_t *ids;          /* ref, used when text is NULL */
    int64_t n_ids;
    struct session_opts engine; /* backend, variant, threads, batch tokens, kv_f16; the cache and
                                 * the context are made for one window */
    bool tty;                   /* progress on a terminal */
    bool quiet;
};

struct evaljob_result {
    struct ppl_figure ppl;
    struct ppl_figure whole; /* whole windows alone; NaN when a window is cut by none */
    struct stat_ci ratio;    /* perplexity / base's, paired by token; NaN without a base */
    struct evaluate_kl kl;   /* mean NaN without a base */
    int64_t n_tok;           /* tokens of the text that were laid out */
    int64_t n_scored;
    double seconds;
};

/* Runs it. All models must share one vocabulary.
 * out:  [n_model]
 * err:  ERR_CONFIG (vocabularies differ: both named), ERR_RANGE (too few tokens), ERR_CANCELED,
 *       those of the engine */
int evaljob_run(const struct evaljob *j, struct evaljob_result *out);

/* Writes results for targets that are in the store. */
int evaljob_store(const struct evaljob *j,
                  const struct evaljob_result *r,
                  struct store *s,
                  const int64_t *target_id);

#endif
