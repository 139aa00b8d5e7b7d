/* A scenario: which targets answer which load, what is measured beside it, and what it must hold.
 *
 * One YAML file, strictly checked (format: README.md here). Strings belong to the scenario; zero
 * or NULL means "not given, the reader's default" throughout. */
#ifndef SCENARIOS_SCENARIO_H
#define SCENARIOS_SCENARIO_H

#include "engine/base/buf.h"
#include "engine/base/types.h"
#include "scenarios/arrival.h"
#include "scenarios/lengths.h"
#include "scenarios/scyaml.h"

enum {
    SCENARIO_TARGETS_MAX = 32,
    SCENARIO_POINTS_MAX = 64,
    SCENARIO_SLO_MAX = 32,
    SCENARIO_EVALS_MAX = 16,
    SCENARIO_PROMPTS_MAX = 256,
    SCENARIO_URLS_MAX = 16,
    SCENARIO_HEADERS_MAX = 16,
    SCENARIO_LABEL_MAX = 48
};

enum scenario_target_kind { TARGET_ENGINE, TARGET_HTTP, TARGET_NULL, TARGET_KIND_N };

/* A server over HTTP. The words of text fields are those of scenarios/README.md. */
struct scenario_http {
    int32_t n_urls;
    const char *urls[SCENARIO_URLS_MAX]; /* base addresses, with /v1 */
    int32_t weights[SCENARIO_URLS_MAX];  /* shares of the requests, 1 at least */
    const char *api;                     /* chat, completions or responses */
    const char *dialect;                 /* openai, vllm, ... */
    const char *stream;                  /* true or false */
    const char *version;                 /* of HTTP: 1.1 or 2 */
    const char *on_error;                /* continue or stop */
    const char *timestamps;              /* kernel or user: what stamps events */
    const char *key_env;    /* environment variable that holds the key; the key is nowhere */
    const char *key_header; /* field that carries it; NULL: Authorization, behind "Bearer " */
    const char *ca_file;    /* certificates to trust instead of the system's */
    const char *tokenizer;  /* folder or file; counts tokens and makes prompts */
    const char *body;       /* JSON object: more fields of every request */
    int32_t n_headers;
    const char *header_names[SCENARIO_HEADERS_MAX];
    const char *header_values[SCENARIO_HEADERS_MAX];
    int32_t connections; /* at most so many at once */
    int64_t timeout_ns;  /* of a whole request */
    int64_t stall_ns;    /* longest silence */
    int64_t connect_ns;  /* until there is a connection */
};

/* Nobody: answers at fixed times. */
struct scenario_null {
    int64_t ttft_ns;
    int64_t itl_ns;
    int32_t tokens; /* of every answer; 0: as many as are asked for */
};

struct scenario_target {
    const char *name;
    enum scenario_target_kind kind;
    const char *model;        /* engine: checkpoint; http: name sent in the request */
    const char *backend;      /* engine: ref, cpu, cuda, null */
    int32_t threads;          /* engine */
    int32_t max_batch_tokens; /* engine: tokens of one step */
    int32_t max_seqs;         /* engine: sequences of one step */
    int32_t block_tokens;     /* engine: tokens of one KV block */
    int32_t max_len;          /* engine: longest sequence, tokens */
    int64_t kv_bytes;         /* engine: memory of the KV pool (key kv_memory) */
    struct scenario_http http;
    struct scenario_null null;
};

enum scenario_workload { WORKLOAD_SYNTHETIC, WORKLOAD_DATASET, WORKLOAD_TRACE, WORKLOAD_N };

struct scenario_work {
    enum scenario_workload kind;
    struct lengths_spec input;  /* synthetic */
    struct lengths_spec output; /* synthetic; data set: LENGTH_UNSET = as the data set says */
    int32_t prefix_groups;      /* synthetic: prompts share one of this many prefixes */
    int32_t prefix_tokens;      /* synthetic: of this length, part of the input length */
    const char *dataset;        /* data set: name */
    const char *file;           /* data set or trace: path */
    double speed;               /* trace: 2 = twice as fast, 0 = 1 */
};

struct scenario_arrival {
    enum arrival_kind kind;
    double cv; /* gamma */
    int32_t n_points;
    double points[SCENARIO_POINTS_MAX]; /* rates per second, users, requests or speeds; the sweep */
};

enum scenario_metric { METRIC_TTFT, METRIC_ITL, METRIC_TPOT, METRIC_E2E, METRIC_N };

/* quantile 0: every request must hold the limit. quantile -1: the mean must. Else that quantile. */
struct scenario_slo {
    enum scenario_metric metric;
    double quantile;
    int64_t limit_ns;
};

enum scenario_eval_kind { EVAL_PERPLEXITY, EVAL_KL, EVAL_ANSWERS, EVAL_KIND_N };

struct scenario_eval {
    enum scenario_eval_kind kind;
    const char *dataset;
    const char *definition; /* perplexity: name of the definition */
    int32_t window;         /* tokens */
    int32_t stride;         /* tokens */
    int64_t tokens;         /* at most this many tokens of the text */
    const char *base;       /* kl: name of a target */
    const char *file;       /* answers: prompts, one a line */
    int32_t max_tokens;     /* answers */
    int32_t n_prompts;
    const char *prompts[SCENARIO_PROMPTS_MAX]; /* answers */
};

struct scenario {
    struct scyaml_pool pool; /* own: every string below */
    const char *name;
    int64_t seed;
    int32_t n_targets;
    struct scenario_target targets[SCENARIO_TARGETS_MAX];
    struct scenario_work work;
    struct scenario_arrival arrival;
    int64_t duration_ns; /* of the measured phase of one point; 0: until requests are sent */
    int64_t n_requests;  /* of one point; 0: no limit */
    int64_t warmup_ns;
    int64_t drain_ns; /* longest wait for requests in flight at the end */
    int32_t n_slo;
    struct scenario_slo slo[SCENARIO_SLO_MAX];
    int32_t n_evals;
    struct scenario_eval *evals; /* own, [n_evals] */
    double machine_usd_per_hour; /* 0: no cost is computed */
    double temperature;          /* 0: greedy */
    double top_p;                /* 0: 1 */
    int64_t sampling_seed;       /* 0: seed */
};

/* Reads a scenario file, or n bytes of text; where names the text in errors.
 * err:  ERR_CONFIG "where:line:column: ..." (unknown, missing, doubled key, wrong type, unit or
 *       range, names that do not fit together), ERR_NOTFOUND, ERR_IO, ERR_LIMIT, ERR_NOMEM
 * own:  caller, scenario_fini */
int scenario_read(const char *path, struct scenario *sc);
int scenario_parse(const char *where, const char *text, int64_t n, struct scenario *sc);
void scenario_fini(struct scenario *sc);

/* Appends the canonical text: fixed key order, one spelling of each value. Parsing it gives an
 * equal scenario, printing that gives the same bytes. err: ERR_LIMIT, ERR_NOMEM */
int scenario_format(const struct scenario *sc, struct buf *b);

/* Label of sweep point i: "2/s", "8 users", "burst of 64", "1x". dst: SCENARIO_LABEL_MAX bytes */
char *scenario_point_label(const struct scenario *sc, int32_t i, char *dst);

/* The target that the others are compared with: the base of a kl evaluation, else the one named
 * "base", else the first. out: index */
int32_t scenario_base(const struct scenario *sc);

/* Words of the file: "engine", "synthetic", "ttft", "perplexity". */
const char *scenario_target_kind_name(enum scenario_target_kind kind);
const char *scenario_workload_name(enum scenario_workload kind);
const char *scenario_metric_name(enum scenario_metric metric);
const char *scenario_eval_name(enum scenario_eval_kind kind);

#endif
