/* Everything a report shows, computed from the views of one session.
 *
 * NaN means "not measured", as do a NULL string and STORE_NULL. Strings belong to the report. */
#ifndef REPORTS_SUMMARY_H
#define REPORTS_SUMMARY_H

#include "reports/stat.h"
#include "reports/steady.h"
#include "reports/store.h"
#include "reports/verdict.h"

enum {
    SUMMARY_CURVE = 101,           /* points of a distribution curve */
    SUMMARY_BINS_MAX = 200,        /* points of a time series */
    SUMMARY_FAILURES_MAX = 32,     /* error classes kept apart in one run */
    SUMMARY_ITEMS_MAX = 100000,    /* rows of one kind in a report */
    SUMMARY_SAMPLES_MAX = 1 << 27, /* token gaps of one run */
    SUMMARY_METRICS = 4            /* ttft, itl, tpot, e2e, in the order of struct report_run */
};

struct report_dist {
    int64_t n; /* samples */
    struct stat_ci mean;
    struct stat_ci p50;
    struct stat_ci p90;
    struct stat_ci p95;
    struct stat_ci p99;
    double curve[SUMMARY_CURVE]; /* quantiles 0, 1, ... 100 % */
};

struct report_target {
    int64_t target_id;
    const char *name;
    const char *kind;
    bool is_base;
    const char *detail;
    int64_t checkpoint_id;
    const char *path;
    const char *format;
    const char *scheme;
    const char *sha256;
    const char *source;
    int64_t n_params;
    int64_t disk_bytes;
    int64_t weight_bytes;
    double bits_per_weight;
    int64_t kv_bytes_per_token;
    struct stat_ci perplexity; /* the newest one */
    struct stat_ci
        perplexity_ratio; /* to the base; with bounds only where a paired one is stored */
    struct stat_ci kl;    /* nats per token */
    struct stat_ci top1;
};

struct report_eval {
    int32_t target;
    const char *task;
    const char *definition;
    const char *dataset;
    const char *dataset_sha256;
    int64_t window_tokens;
    int64_t stride_tokens;
    int64_t n_tokens;
    struct stat_ci value;
};

struct report_kl {
    int32_t target;
    const char *base;
    const char *dataset;
    int64_t n_tokens;
    struct stat_ci mean;
    double p50;
    double p90;
    double p99;
    double max;
    struct stat_ci top1;
};

struct report_answer {
    int32_t target;
    int64_t prompt_index;
    const char *prompt;
    const char *text;
    int64_t n_tokens;
    const char *finish_reason;
};

struct report_quant {
    int32_t target;
    int64_t quant_run_id;
    const char *method;
    const char *scheme;
    int64_t group_size;
    const char *dataset;
    int64_t n_samples;
    int64_t n_tokens;
    double seconds;
    const char *recipe;
};

struct report_module {
    int32_t quant; /* index into quants */
    const char *name;
    const char *method;
    int64_t group_size;
    int64_t n_samples;
    int64_t n_tokens;
    double damp;
    int64_t n_dead_columns;
    double rel_error;
    double logged_error;
    double seconds;
    int64_t bytes_before;
    int64_t bytes_after;
};

struct report_pair {
    const char *name;
    const char *value;
};

struct report_slo {
    const char *metric;
    const char *stat;
    double limit_s;
};

struct report_failure {
    const char *error_class;
    int64_t n;
};

struct report_peer {
    int32_t run;
    const char *definition;
    double ttft_s;
    double tpot_s;
    double itl_s;
    double e2e_s;
    double output_tokens_per_s;
};

/* One measured request, for paired comparison. */
struct report_sample {
    int64_t seq;
    bool ok;
    bool good; /* all limits held; meaningful when the session has limits */
    double start_s;
    double ttft_s;
    double tpot_s;
    double e2e_s;
};

struct report_run {
    int64_t run_id;
    int32_t target;
    int64_t point_index;
    const char *point;
    double point_value;
    const char *arrival;
    const char *status;
    struct verdict verdict;
    int64_t n_offered;
    int64_t n_ok;
    int64_t n_failed;
    int64_t n_prompt;
    int64_t n_output;
    int64_t n_cached_prompt;
    int64_t n_preempt;
    int32_t n_failures;
    struct report_failure failures[SUMMARY_FAILURES_MAX];
    double measured_from_s;
    double measured_to_s;
    struct steady steady; /* in bins of bin_s from measured_from_s */
    double window_from_s; /* the steady window, or the whole phase when there is none */
    double window_to_s;
    double bin_s;
    int32_t n_bins;
    double tokens_per_s[SUMMARY_BINS_MAX];
    struct report_dist dist[SUMMARY_METRICS]; /* seconds: ttft, itl, tpot, e2e */
    struct report_dist ttft_service;
    struct stat_ci send_lag_p99;
    struct stat_ci output_tokens_per_s;
    struct stat_ci goodput_per_s;
    struct stat_ci goodput_share;
    struct stat_ci usd_per_mtok;
    int64_t n_samples;
    struct report_sample *samples; /* own, [n_samples] by seq */
};

struct report {
    char **strings; /* own, [n_strings] of own */
    int64_t n_strings;
    int64_t cap_strings;
    int64_t session_id;
    const char *kind;
    const char *scenario_name;
    const char *scenario_text;
    const char *scenario_sha256;
    int64_t seed;
    double usd_per_hour;
    int64_t start_wall_ns;
    int64_t end_wall_ns;
    const char *git_commit;
    const char *build;
    const char *host_json;
    const char *status;
    int32_t base;                  /* index of the base target, -1 when there is none */
    struct report_target *targets; /* own; so are the arrays below */
    int32_t n_targets;
    struct report_run *runs;
    int32_t n_runs;
    struct report_eval *evals;
    int32_t n_evals;
    struct report_kl *kls;
    int32_t n_kls;
    struct report_answer *answers;
    int32_t n_answers;
    struct report_quant *quants;
    int32_t n_quants;
    struct report_module *modules;
    int32_t n_modules;
    struct report_slo *slos;
    int32_t n_slos;
    struct report_pair *facts;
    int32_t n_facts;
    struct report_pair *notes; /* name NULL */
    int32_t n_notes;
    struct report_peer *peers;
    int32_t n_peers;
};

/* Reads a session and computes its statistics.
 * in:   session_id 0: the newest session that has targets
 * err:  ERR_NOTFOUND (no such session), ERR_DB, ERR_LIMIT, ERR_NOMEM
 * own:  caller, summary_fini
 * cost: one pass over the session's events, O(n log n) */
int summary_read(struct store *s, int64_t session_id, struct report *out);
void summary_fini(struct report *r);

/* The verdict on one run from what is stored of it; for writing it down at the end of a run, after
 * a first store_run_finish. err: as summary_read */
int summary_judge(struct store *s, int64_t run_id, struct verdict *v);

/* The run of a target at its highest point of the load; NULL when it has none. own: r's */
const struct report_run *summary_top_run(const struct report *r, int32_t target);

/* "ttft", "itl", "tpot", "e2e" of 0 .. SUMMARY_METRICS - 1. */
const char *summary_metric_name(int32_t metric);

#endif
