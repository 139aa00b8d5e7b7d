/* The base against each other target: sizes, quality, paired speed, one sentence, and limits. */
#ifndef REPORTS_COMPARE_H
#define REPORTS_COMPARE_H

#include "reports/summary.h"

enum { COMPARE_POINTS_MAX = 64, COMPARE_TEXT_MAX = 640 };

/* NaN: no limit. */
struct compare_limits {
    double perplexity_increase_pct; /* at most */
    double kl;                      /* at most, nats per token */
    double top1_min_pct;            /* at least */
    double ttft_increase_pct;       /* mean time to first token, at most, at every point */
    double tpot_increase_pct;       /* mean time per output token, at most, at every point */
};

/* No limit at all. */
struct compare_limits compare_no_limits(void);

/* The same point of the load on both; ratios are target / base. */
struct compare_point {
    int32_t base_run; /* index into the report's runs */
    int32_t run;
    struct stat_ci ttft_ratio; /* of means over the requests that both answered, paired by number */
    struct stat_ci tpot_ratio;
    double rate_ratio; /* output tokens per second */
    double goodput_ratio;
};

struct compare_target {
    int32_t target; /* index into the report's targets */
    double disk_ratio;
    double memory_ratio;
    int32_t n_points;
    struct compare_point points[COMPARE_POINTS_MAX];
    char title[COMPARE_TEXT_MAX]; /* "gptq: 52 % of the memory, 1.64x as fast, perplexity +33 %" */
    char sentence[COMPARE_TEXT_MAX]; /* the same in words, with intervals */
    bool failed;                     /* a limit was exceeded, or could not be judged */
    char failures[COMPARE_TEXT_MAX];
};

struct compare {
    int32_t n;
    struct compare_target *items; /* own, one for each target that is not the base */
    bool failed;                  /* any of them */
};

/* Compares.
 * in:   limits may be NULL; a limit on something unmeasured fails
 * out:  *out; no items when the report has no base target
 * err:  ERR_NOMEM
 * own:  caller, compare_fini */
int compare_make(const struct report *r, const struct compare_limits *limits, struct compare *out);
void compare_fini(struct compare *c);

/* The highest common point of a comparison; NULL when there is none. own: c's */
const struct compare_point *compare_top(const struct compare_target *c);

#endif
