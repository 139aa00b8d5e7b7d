/* The results database: a result exists once it is in here.
 *
 * Appends take plain structs and are batched: rows are committed at most STORE_COMMIT_NS after they
 * were handed in while the caller goes on appending or ticking, so a killed process loses at most
 * that. The thread that opened a store owns it. Reading goes through the named views of views.sql.
 *
 * In every struct: NULL, NaN and STORE_NULL mean "not measured" and are stored as NULL. Strings are
 * borrowed for the call. */
#ifndef REPORTS_STORE_H
#define REPORTS_STORE_H

#include "engine/base/types.h"

#define STORE_NULL INT64_MIN

enum {
    STORE_VERSION = 3,                /* of the schema, kept in user_version */
    STORE_APPLICATION_ID = 0x54524c4d /* "TRLM" */
};
#define STORE_COMMIT_NS   INT64_C(1000000000)
#define STORE_COMMIT_ROWS 100000

struct store;

enum store_mode {
    STORE_READ, /* the file must exist and be of this version */
    STORE_WRITE /* made when absent, brought to this version when older */
};

/* Opens a database.
 * err:  ERR_FORMAT: no database, foreign database, damaged file; ERR_UNSUPPORTED: other version
 * (both are named); ERR_NOTFOUND in STORE_READ; ERR_DB with sqlite's own text; ERR_NOMEM own:
 * caller, store_close */
int store_open(const char *path, enum store_mode mode, struct store **out);

/* Commits and closes; frees s in any case. NULL is fine. err: ERR_DB, the last rows are lost */
int store_close(struct store *s);

/* Commits what is pending / does so only when STORE_COMMIT_NS have passed. err: ERR_DB */
int store_flush(struct store *s);
int store_tick(struct store *s);

/* Limits the file to about so many bytes; then appends fail as on a full disk. err: ERR_DB */
int store_limit(struct store *s, int64_t bytes);

/* A row that breaks a constraint of the schema is refused alone. After any other failed append the
 * rows since the last commit are gone; what was committed stays, and the store can be used on or
 * closed. Every function below: err: ERR_DB, ERR_NOMEM. */

struct store_session {
    const char *kind; /* "run", "eval", "quantize", "compare", "bench" */
    const char *scenario_name;
    const char *scenario_text; /* canonical; its sha256 is stored beside it */
    int64_t seed;
    double machine_usd_per_hour;
    int64_t start_wall_ns;
    const char *git_commit;
    const char *build;
    const char *host_json;
};
int store_session_begin(struct store *s, const struct store_session *r, int64_t *session_id);

/* status: "done" or "aborted". Commits. */
int store_session_end(struct store *s, int64_t session_id, const char *status, int64_t end_wall_ns);

/* One fact of the machine; a second one of the same name replaces it. */
int store_fact(struct store *s, int64_t session_id, const char *name, const char *value);

/* metric "ttft", "itl", "tpot", "e2e"; stat "each", "mean", "p50", "p90", "p95", "p99". */
int store_slo(
    struct store *s, int64_t session_id, const char *metric, const char *stat, int64_t limit_ns);

struct store_checkpoint {
    const char *path;
    const char *format;
    const char *scheme;
    const char *sha256; /* over the names and hashes of its files */
    int64_t n_params;
    int64_t disk_bytes;
    int64_t weight_bytes;
    double bits_per_weight;
    int64_t kv_bytes_per_token;
    const char *source;
};

/* The same (path, sha256) gives the same id; newer facts replace older ones, NULL keeps them. */
int store_checkpoint(struct store *s, const struct store_checkpoint *r, int64_t *checkpoint_id);

struct store_target {
    int64_t session_id;
    const char *name;
    const char *kind; /* "engine", "http", "null" */
    bool is_base;
    int64_t checkpoint_id;
    const char *detail;
};
int store_target(struct store *s, const struct store_target *r, int64_t *target_id);

struct store_run {
    int64_t session_id;
    int64_t target_id;
    int64_t point_index;
    const char *point; /* label, "2/s" */
    double point_value;
    const char *arrival;
    int64_t start_wall_ns;
};

/* Begins a run with status "running" and commits. */
int store_run_begin(struct store *s, const struct store_run *r, int64_t *run_id);

struct store_run_end {
    const char *status;       /* "done" or "aborted" */
    int64_t measured_from_ns; /* bounds of the measured phase, from run start */
    int64_t measured_to_ns;
    int64_t end_ns;
    const char *verdict;
    const char *reason;
};
/* Writes the end of a run and commits; then copies its token events into a form that is read fast.
 * May be called again with other values. cost: about 500 ns an event, once */
int store_run_finish(struct store *s, int64_t run_id, const struct store_run_end *r);

struct store_request {
    int64_t run_id;
    int64_t seq;
    const char *phase; /* "warmup", "measured", "drain" */
    int64_t intended_start_ns;
    int64_t actual_start_ns;
    int64_t first_event_ns;
    int64_t first_token_ns;
    int64_t first_answer_ns;
    int64_t last_token_ns;
    int64_t end_ns;
    int64_t n_prompt;
    int64_t n_output;
    int64_t n_output_first; /* tokens in the first token-bearing event */
    int64_t n_output_is_estimated;
    int64_t n_cached_prompt;
    int64_t n_preempt;
    const char *finish_reason;
    const char *error_class; /* NULL: succeeded */
    const char *error_text;
    const char *prompt_hash;
    int64_t seed;
};

/* A request; a second row of the same (run, seq) replaces the first, so that a request can be
 * written when it starts and again when it ends. */
int store_request(struct store *s, const struct store_request *r);

struct store_http {
    int64_t run_id;
    int64_t seq;
    int64_t endpoint;
    int64_t status;
    int64_t is_reused;
    int64_t n_retries;
    int64_t handed_ns;
    int64_t dns_ns; /* durations of a new connection, like the next two */
    int64_t connect_ns;
    int64_t tls_ns;
    int64_t first_write_ns;
    int64_t first_read_ns;
    int64_t n_bytes;
    int64_t n_events;
    int64_t n_reasoning;
    int64_t retry_after_ns;
    const char *token_count; /* see schema_http.sql */
};

/* The way of a request through the network. A second row replaces the first. */
int store_http(struct store *s, const struct store_http *r);

/* Spreads n tokens evenly over the stored events of a request: the server gave but the sum. */
int store_spread(struct store *s, int64_t run_id, int64_t seq, int64_t n_events, int64_t n);

struct store_token {
    int64_t run_id;
    int64_t seq;
    int64_t idx;
    int64_t t_ns;
    int64_t gap_ns; /* since the event before, STORE_NULL for the first */
    int64_t n_tokens;
};

/* One token-bearing event. cost: about a microsecond */
int store_token(struct store *s, const struct store_token *r);

struct store_sample {
    int64_t run_id;
    int64_t t_ns;
    int64_t n_running;
    int64_t n_waiting;
    int64_t n_kv_blocks_used;
    int64_t n_kv_blocks;
    int64_t n_batch_tokens;
};
int store_sample(struct store *s, const struct store_sample *r);

struct store_eval {
    int64_t target_id;
    const char *task; /* "perplexity" or a task's name */
    const char *definition;
    const char *dataset;
    const char *dataset_sha256;
    int64_t window_tokens;
    int64_t stride_tokens;
    int64_t n_tokens;
    double value;
    double lo;
    double hi;
    double nll_sum;
    const char *extra_json;
};
int store_eval(struct store *s, const struct store_eval *r);

struct store_kl {
    int64_t target_id;
    const char *base;
    const char *dataset;
    const char *dataset_sha256;
    int64_t window_tokens;
    int64_t n_tokens;
    double mean; /* nats per token */
    double lo;
    double hi;
    double p50;
    double p90;
    double p99;
    double max;
    double top1; /* share of equal most likely tokens, 0..1 */
    double top1_lo;
    double top1_hi;
};
int store_kl(struct store *s, const struct store_kl *r);

struct store_answer {
    int64_t target_id;
    int64_t prompt_index;
    const char *prompt;
    const char *text;
    int64_t n_tokens;
    const char *finish_reason;
};
int store_answer(struct store *s, const struct store_answer *r);

struct store_quant_run {
    int64_t session_id;
    int64_t checkpoint_id; /* what was written */
    const char *base_path;
    const char *method;
    const char *scheme;
    int64_t group_size;
    const char *recipe_text;
    const char *dataset;
    int64_t n_samples;
    int64_t n_tokens;
    double seconds;
};
int store_quant_run(struct store *s, const struct store_quant_run *r, int64_t *quant_run_id);

struct store_quant_module {
    int64_t quant_run_id;
    int64_t idx;
    const char *name;
    const char *method;
    int64_t group_size;
    int64_t n_samples;
    int64_t n_tokens;
    double damp;
    int64_t n_dead_columns;
    double rel_error;    /* relative output error on the calibration set */
    double logged_error; /* as GPTQ logs it */
    double seconds;
    int64_t bytes_before;
    int64_t bytes_after;
};
int store_quant_module(struct store *s, const struct store_quant_module *r);

/* run_id: STORE_NULL for the whole session. */
int store_note(
    struct store *s, int64_t session_id, int64_t run_id, int64_t wall_ns, const char *text);

/* Rows of a view. */
struct store_rows;

/* Opens "SELECT columns FROM view [WHERE key = id] [ORDER BY order]".
 * in:   view begins with "v_"; columns, key and order hold only names, commas and blanks; key and
 *       order may be NULL
 * err:  ERR_DB, ERR_INTERNAL for a name with other characters
 * own:  caller, store_rows_close, before store_close */
int store_rows_open(struct store *s,
                    const char *view,
                    const char *columns,
                    const char *key,
                    int64_t id,
                    const char *order,
                    struct store_rows **out);
void store_rows_close(struct store_rows *r);

/* Steps to the next row. out: *has false past the last one. err: ERR_DB */
int store_rows_next(struct store_rows *r, bool *has);

/* Column i of the row: STORE_NULL, NaN, NULL when it is NULL. own: strings live until the next
 * step. */
int64_t store_rows_i64(const struct store_rows *r, int32_t i);
double store_rows_f64(const struct store_rows *r, int32_t i);
const char *store_rows_str(const struct store_rows *r, int32_t i);

/* Bytes of column i. out: their number, 0 when it is NULL. own: live until the next step */
const void *store_rows_blob(const struct store_rows *r, int32_t i, int64_t *bytes);

struct store_event {
    int64_t t_ns;
    int64_t gap_ns; /* STORE_NULL: none */
    int64_t n_tokens;
};

/* The token events of one request, at least one, in order. */
struct store_events {
    int64_t seq;
    int64_t n;
    bool is_whole;                    /* numbered 0 to n - 1 without a hole */
    const struct store_event *events; /* ref, [n], for the call */
};

typedef int (*store_events_fn)(void *ctx, const struct store_events *e);

/* Calls f for each request of a run that has token events, ascending by seq.
 * err:  those of f; ERR_DB, ERR_FORMAT (damaged), ERR_LIMIT, ERR_NOMEM
 * cost: about 10 ns an event once the run is finished, 500 before */
int store_events_each(struct store *s, int64_t run_id, store_events_fn f, void *ctx);

#endif
