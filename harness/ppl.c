#include "harness/ppl.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/base/mem.h"
#include "engine/base/str.h"
#include "reports/stat.h"

static const char *const names[PPL_DEF_N] = {"hf-strided", "disjoint", "llama.cpp", "seed"};

int ppl_def_parse(const char *name, enum ppl_def *out) {
    for (int32_t i = 0; i < PPL_DEF_N; i++) {
        if (str_eq(names[i], name)) {
            *out = (enum ppl_def)i;
            return 0;
        }
    }
    return err_set(ERR_USAGE,
                   "perplexity definition \"%s\" is not known; known are hf-strided, "
                   "disjoint, llama.cpp, seed",
                   name);
}

const char *ppl_def_name(enum ppl_def d) {
    return names[d];
}

static int windows_alloc(struct ppl_windows *out, int64_t n) {
    *out = (struct ppl_windows){0};
    if (n > INT32_MAX) {
        return err_set(ERR_LIMIT, "%lld windows are too many", (long long)n);
    }
    out->w = mem_array(MEM_HARNESS, n, (int64_t)sizeof *out->w);
    return out->w ? 0 : ERR_NOMEM;
}

static void windows_add(struct ppl_windows *out, int64_t begin, int64_t end, int64_t score_from) {
    if (score_from < end) {
        out->w[out->n++] = (struct ppl_window){begin, end, score_from};
        out->n_scored += end - score_from;
    }
}

void ppl_windows_fini(struct ppl_windows *w) {
    mem_free(w->w);
    *w = (struct ppl_windows){0};
}

static void lay(enum ppl_def d,
                int64_t n,
                int32_t window,
                int32_t stride,
                bool limited,
                struct ppl_windows *out) {
    int64_t scored = 0; /* targets below this have been scored */
    for (int64_t b = 0; b < n; b += stride) {
        int64_t end = i64_min(b + window, n);
        if (d == PPL_LLAMA_CPP) {
            if (b + window <= n) {
                windows_add(out, b, end, b + window / 2 + 1);
            }
            continue;
        }
        if (d == PPL_DISJOINT && limited && end - b < window) {
            break;
        }
        windows_add(out, b, end, i64_max(b + 1, d == PPL_HF_STRIDED ? scored : 0));
        scored = end;
        if (d == PPL_HF_STRIDED && end == n) {
            break;
        }
    }
}

int ppl_windows_make(enum ppl_def d,
                     int64_t n,
                     int32_t window,
                     int32_t stride,
                     bool limited,
                     struct ppl_windows *out) {
    if (window < 2 || (d == PPL_HF_STRIDED && (stride < 1 || stride > window))) {
        return err_set(ERR_RANGE,
                       "window %d, stride %d: want a window of 2 or more and a stride of "
                       "1..window",
                       window, stride);
    }
    int32_t step = d == PPL_HF_STRIDED ? stride : window;
    int rc = windows_alloc(out, n / step + 1);
    if (rc) {
        return rc;
    }
    lay(d, n, window, step, limited, out);
    if (out->n == 0) {
        ppl_windows_fini(out);
        return err_set(ERR_RANGE, "%lld tokens are too few for one window of %d (%s)", (long long)n,
                       window, names[d]);
    }
    return 0;
}

int ppl_windows_rows(const int64_t *start,
                     int32_t n_rows,
                     int32_t window,
                     struct ppl_windows *out) {
    int rc = windows_alloc(out, n_rows);
    for (int32_t i = 0; i < n_rows && !rc; i++) {
        windows_add(out, start[i], i64_min(start[i + 1], start[i] + window), start[i] + 1);
    }
    if (!rc && out->n == 0) {
        ppl_windows_fini(out);
        rc = err_set(ERR_RANGE, "no row has two tokens or more");
    }
    return rc;
}

static void seed_figure(const struct ppl_windows *w, const double *nll, struct ppl_figure *out) {
    const double *p = nll;
    for (int32_t i = 0; i < w->n; i++) {
        int64_t n_targets = w->w[i].end - w->w[i].score_from;
        double len = (double)(w->w[i].end - w->w[i].begin);
        double sum = 0;
        for (int64_t j = 0; j < n_targets; j++) {
            sum += *p++;
        }
        out->nll_sum += sum / (double)n_targets * len;
        out->n += len;
    }
}

void ppl_figure(enum ppl_def d,
                const struct ppl_windows *w,
                const double *nll,
                struct ppl_figure *out) {
    *out = (struct ppl_figure){0};
    if (d == PPL_SEED) {
        seed_figure(w, nll, out);
    } else {
        for (int64_t i = 0; i < w->n_scored; i++) {
            out->nll_sum += nll[i];
        }
        out->n = (double)w->n_scored;
    }
    out->ppl = exp(out->nll_sum / out->n);
    struct stat_ci ci = stat_mean(nll, w->n_scored);
    /* why: the interval is that of the mean loss over tokens, laid around the figure itself, whose
     * weights differ from it in the seed's definition alone */
    double half = (ci.hi - ci.lo) / 2;
    out->lo = exp(out->nll_sum / out->n - half);
    out->hi = exp(out->nll_sum / out->n + half);
}
