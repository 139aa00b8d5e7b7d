/* Perplexity: the windows of every definition in use, and the figures made from token losses.
 *
 *   hf-strided  windows [b, min(b+N, n)), b = 0, M, 2M, ...; only targets not scored before count
 *               (Hugging Face's guide, sums weighted by tokens)
 *   disjoint    hf-strided with M = N: the GPTQ papers' form; a limit on the tokens is cut down to
 *               whole windows, the end of the text itself may leave a short last one
 *   llama.cpp   chunks of N; the second half of each is scored: targets N/2+1 .. N-1; the tail is
 *               dropped
 *   seed        windows of N (or one text row each); mean loss of a window times its length,
 *               summed, over the summed lengths
 *
 * src: transformers docs/source/en/perplexity.md; Frantar et al., "GPTQ", 2022, sec. 4; llama.cpp
 * tools/perplexity */
#ifndef HARNESS_PPL_H
#define HARNESS_PPL_H

#include "engine/base/types.h"

enum ppl_def { PPL_HF_STRIDED, PPL_DISJOINT, PPL_LLAMA_CPP, PPL_SEED, PPL_DEF_N };

/* Tokens [begin, end) are fed; targets [score_from, end) are scored, score_from > begin. */
struct ppl_window {
    int64_t begin;
    int64_t end;
    int64_t score_from;
};

struct ppl_windows {
    struct ppl_window *w; /* own */
    int32_t n;
    int64_t n_scored;
};

/* Name <-> definition ("hf-strided", ...). err: ERR_USAGE naming those that are known */
int ppl_def_parse(const char *name, enum ppl_def *out);
const char *ppl_def_name(enum ppl_def d);

/* Lays the windows over n tokens.
 * in:   window >= 2, 1 <= stride <= window (ignored by disjoint, llama.cpp and seed); limited: n
 *       was cut by the user, so a short last window is dropped in disjoint
 * err:  ERR_RANGE (too few tokens: found and wanted), ERR_NOMEM
 * own:  caller, ppl_windows_fini */
int ppl_windows_make(enum ppl_def d,
                     int64_t n,
                     int32_t window,
                     int32_t stride,
                     bool limited,
                     struct ppl_windows *out);

/* One window per row of the seed's loop. in: start [n_rows+1] token offsets of the rows; rows of
 * less than 2 tokens are left out; longer ones are cut to window tokens */
int ppl_windows_rows(const int64_t *start, int32_t n_rows, int32_t window, struct ppl_windows *out);
void ppl_windows_fini(struct ppl_windows *w);

struct ppl_figure {
    double nll_sum; /* sum of losses, nats; seed: the weighted sum */
    double n;       /* tokens scored; seed: summed lengths */
    double ppl;     /* exp(nll_sum / n) */
    double lo;      /* 95 % interval that respects autocorrelation; NaN with too few tokens */
    double hi;
};

/* Makes the figure. in: nll [w->n_scored] losses in window order, nats */
void ppl_figure(enum ppl_def d,
                const struct ppl_windows *w,
                const double *nll,
                struct ppl_figure *out);

#endif
