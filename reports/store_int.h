/* What the three files of the store share. */
#ifndef REPORTS_STORE_INT_H
#define REPORTS_STORE_INT_H

#include <sqlite3.h>

#include "reports/store.h"

/* X(name, SQL). One prepared statement each, made at first use. */
#define STORE_SQL_MAP(X)                                                                           \
    X(SESSION, "INSERT INTO session (kind, scenario_name, scenario_text, scenario_sha256, seed, "  \
               "machine_usd_per_hour, start_wall_ns, git_commit, build, host_json, status) "       \
               "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'running')")                                 \
    X(SESSION_END, "UPDATE session SET status = ?, end_wall_ns = ? WHERE session_id = ?")          \
    X(FACT, "INSERT OR REPLACE INTO fact (session_id, name, value) VALUES (?, ?, ?)")              \
    X(SLO, "INSERT OR REPLACE INTO slo (session_id, metric, stat, limit_ns) VALUES (?, ?, ?, ?)")  \
    X(CHECKPOINT,                                                                                  \
      "INSERT INTO checkpoint (path, format, scheme, sha256, n_params, disk_bytes, "               \
      "weight_bytes, bits_per_weight, kv_bytes_per_token, source) "                                \
      "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (path, sha256) DO UPDATE SET "            \
      "format = coalesce(excluded.format, format), scheme = coalesce(excluded.scheme, scheme), "   \
      "n_params = coalesce(excluded.n_params, n_params), "                                         \
      "disk_bytes = coalesce(excluded.disk_bytes, disk_bytes), "                                   \
      "weight_bytes = coalesce(excluded.weight_bytes, weight_bytes), "                             \
      "bits_per_weight = coalesce(excluded.bits_per_weight, bits_per_weight), "                    \
      "kv_bytes_per_token = coalesce(excluded.kv_bytes_per_token, kv_bytes_per_token), "           \
      "source = coalesce(excluded.source, source) RETURNING checkpoint_id")                        \
    X(TARGET, "INSERT INTO target (session_id, name, kind, is_base, checkpoint_id, detail) "       \
              "VALUES (?, ?, ?, ?, ?, ?)")                                                         \
    X(RUN, "INSERT INTO run (session_id, target_id, point_index, point, point_value, arrival, "    \
           "start_wall_ns, status) VALUES (?, ?, ?, ?, ?, ?, ?, 'running')")                       \
    X(RUN_FINISH,                                                                                  \
      "UPDATE run SET status = ?, measured_from_ns = ?, measured_to_ns = ?, end_ns = ?, "          \
      "verdict = ?, reason = ? WHERE run_id = ?")                                                  \
    X(REQUEST,                                                                                     \
      "INSERT OR REPLACE INTO request (run_id, seq, phase, intended_start_ns, actual_start_ns, "   \
      "first_event_ns, first_token_ns, first_answer_ns, last_token_ns, end_ns, n_prompt, "         \
      "n_output, n_output_first, n_output_is_estimated, n_cached_prompt, n_preempt, "              \
      "finish_reason, error_class, error_text, prompt_hash, seed) "                                \
      "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")                    \
    X(HTTP, "INSERT OR REPLACE INTO request_http (run_id, seq, endpoint, status, is_reused, "      \
            "n_retries, handed_ns, dns_ns, connect_ns, tls_ns, first_write_ns, first_read_ns, "    \
            "n_bytes, n_events, n_reasoning, retry_after_ns, token_count) "                        \
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")                          \
    X(SPREAD, "UPDATE token_event SET n_tokens = (idx + 1) * ?4 / ?3 - idx * ?4 / ?3 "             \
              "WHERE run_id = ?1 AND seq = ?2")                                                    \
    X(TOKEN, "INSERT INTO token_event (run_id, seq, idx, t_ns, gap_ns, n_tokens) "                 \
             "VALUES (?, ?, ?, ?, ?, ?)")                                                          \
    X(UNPACK, "DELETE FROM token_pack WHERE run_id = ?")                                           \
    X(SAMPLE, "INSERT INTO engine_sample (run_id, t_ns, n_running, n_waiting, n_kv_blocks_used, "  \
              "n_kv_blocks, n_batch_tokens) VALUES (?, ?, ?, ?, ?, ?, ?)")                         \
    X(EVAL, "INSERT INTO eval_result (target_id, task, definition, dataset, dataset_sha256, "      \
            "window_tokens, stride_tokens, n_tokens, value, lo, hi, nll_sum, extra_json) "         \
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")                                      \
    X(KL,                                                                                          \
      "INSERT INTO kl_result (target_id, base, dataset, dataset_sha256, window_tokens, n_tokens, " \
      "mean, lo, hi, p50, p90, p99, max, top1, top1_lo, top1_hi) "                                 \
      "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")                                   \
    X(ANSWER, "INSERT OR REPLACE INTO answer (target_id, prompt_index, prompt, text, n_tokens, "   \
              "finish_reason) VALUES (?, ?, ?, ?, ?, ?)")                                          \
    X(QUANT_RUN,                                                                                   \
      "INSERT INTO quant_run (session_id, checkpoint_id, base_path, method, scheme, group_size, "  \
      "recipe_text, dataset, n_samples, n_tokens, seconds) "                                       \
      "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")                                                  \
    X(QUANT_MODULE,                                                                                \
      "INSERT INTO quant_module (quant_run_id, idx, name, method, group_size, n_samples, "         \
      "n_tokens, damp, n_dead_columns, rel_error, logged_error, seconds, bytes_before, "           \
      "bytes_after) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")                            \
    X(NOTE, "INSERT INTO note (session_id, run_id, wall_ns, text) VALUES (?, ?, ?, ?)")

#define STORE_SQL_ENUM(name, sql) STORE_SQL_##name,
enum store_sql { STORE_SQL_MAP(STORE_SQL_ENUM) STORE_SQL_N };
#undef STORE_SQL_ENUM

struct store {
    sqlite3 *db;                      /* own */
    sqlite3_stmt *stmts[STORE_SQL_N]; /* own, NULL until first use */
    char *path;                       /* own, for errors */
    bool in_transaction;
    int64_t n_pending; /* rows since the transaction began */
    int64_t begun_ns;  /* monotonic */
    int64_t token_run; /* its pack is known to be gone; STORE_NULL: none */
};

/* sqlite3_step and sqlite3_prepare_v2 with the fault point FAULT_SQL in front; sqlite's codes. */
int store_step(sqlite3_stmt *stmt);
int store_prepare(struct store *s, const char *sql, sqlite3_stmt **stmt);

/* Runs statements without rows. err: ERR_DB "cannot <what>" */
int store_sql(struct store *s, const char *sql, const char *what);

/* Ends the open transaction, if any, without its rows. */
void store_roll_back(struct store *s);

/* Packs the token events of a run that has no pack (store_events.c). err: ERR_DB, ERR_NOMEM,
 * ERR_LIMIT; the run then has none */
int store_pack_run(struct store *s, int64_t run_id);

/* ERR_DB "path: cannot <what>: <sqlite's text>". */
int store_error(struct store *s, const char *what, int code);

#endif
