/* Appends: each takes a plain struct, binds it to one prepared statement and steps it.
 *
 * bind reads a format, one letter a parameter: i int64 (STORE_NULL is NULL), f double (NaN is
 * NULL), s string (NULL is NULL). */
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/base/file.h"
#include "reports/store_int.h"

static const char *const sql_text[STORE_SQL_N] = {
#define STORE_SQL_TEXT(name, sql) sql,
    STORE_SQL_MAP(STORE_SQL_TEXT)
#undef STORE_SQL_TEXT
};

static int bind(sqlite3_stmt *stmt, const char *fmt, va_list ap) {
    int code = SQLITE_OK;
    for (int i = 0; fmt[i] && code == SQLITE_OK; i++) {
        if (fmt[i] == 'i') {
            int64_t v = va_arg(ap, int64_t);
            code = v == STORE_NULL ? sqlite3_bind_null(stmt, i + 1)
                                   : sqlite3_bind_int64(stmt, i + 1, v);
        } else if (fmt[i] == 'f') {
            double v = va_arg(ap, double);
            code = isnan(v) ? sqlite3_bind_null(stmt, i + 1) : sqlite3_bind_double(stmt, i + 1, v);
        } else {
            const char *v = va_arg(ap, const char *);
            code = v ? sqlite3_bind_text(stmt, i + 1, v, -1, SQLITE_STATIC)
                     : sqlite3_bind_null(stmt, i + 1);
        }
    }
    return code;
}

static int begin(struct store *s) {
    sqlite3_stmt *stmt = NULL;
    if (s->in_transaction) {
        return SQLITE_OK;
    }
    int code = store_prepare(s, "BEGIN", &stmt);
    code = code == SQLITE_OK ? store_step(stmt) : code;
    sqlite3_finalize(stmt);
    if (code != SQLITE_DONE) {
        return code;
    }
    s->in_transaction = true;
    s->n_pending = 0;
    s->begun_ns = clock_now_ns();
    return SQLITE_OK;
}

/* A row that breaks a constraint is refused alone; any other failure takes the rows since the last
 * commit with it. The handle stays usable. */
static int give_up(struct store *s, int code) {
    int rc = store_error(s, "write to it", code);
    if ((code & 0xff) == SQLITE_CONSTRAINT) {
        return rc;
    }
    store_roll_back(s);
    return rc;
}

/* Runs one statement; id (may be NULL) receives RETURNING's number or the new row's id. */
static int put(struct store *s, enum store_sql which, int64_t *id, const char *fmt, ...) {
    int64_t new_id = 0;
    int code = begin(s);
    if (code == SQLITE_OK && !s->stmts[which]) {
        code = store_prepare(s, sql_text[which], &s->stmts[which]);
    }
    sqlite3_stmt *stmt = s->stmts[which];
    if (code == SQLITE_OK) {
        va_list ap;
        va_start(ap, fmt);
        code = bind(stmt, fmt, ap);
        va_end(ap);
    }
    if (code == SQLITE_OK) {
        code = store_step(stmt);
        bool returned = code == SQLITE_ROW;
        new_id = returned ? sqlite3_column_int64(stmt, 0) : sqlite3_last_insert_rowid(s->db);
        code = returned ? store_step(stmt) : code;
    }
    if (stmt) {
        sqlite3_reset(stmt);
        sqlite3_clear_bindings(stmt);
    }
    if (code != SQLITE_DONE) {
        return give_up(s, code);
    }
    s->n_pending++;
    int rc = store_tick(s);
    if (!rc && id) {
        *id = new_id;
    }
    return rc;
}

int store_session_begin(struct store *s, const struct store_session *r, int64_t *session_id) {
    char sha[FILE_SHA256_HEX];
    int64_t id = 0;
    int rc = 0;
    if (r->scenario_text) {
        rc = mem_sha256(r->scenario_text, (int64_t)strlen(r->scenario_text), sha);
    }
    rc = rc ? rc
            : put(s, STORE_SQL_SESSION, &id, "ssssifisss", r->kind, r->scenario_name,
                  r->scenario_text, r->scenario_text ? sha : NULL, r->seed, r->machine_usd_per_hour,
                  r->start_wall_ns, r->git_commit, r->build, r->host_json);
    rc = rc ? rc : store_flush(s);
    if (!rc) {
        *session_id = id;
    }
    return rc;
}

int store_session_end(struct store *s,
                      int64_t session_id,
                      const char *status,
                      int64_t end_wall_ns) {
    int rc = put(s, STORE_SQL_SESSION_END, NULL, "sii", status, end_wall_ns, session_id);
    return rc ? rc : store_flush(s);
}

int store_fact(struct store *s, int64_t session_id, const char *name, const char *value) {
    return put(s, STORE_SQL_FACT, NULL, "iss", session_id, name, value);
}

int store_slo(
    struct store *s, int64_t session_id, const char *metric, const char *stat, int64_t limit_ns) {
    return put(s, STORE_SQL_SLO, NULL, "issi", session_id, metric, stat, limit_ns);
}

int store_checkpoint(struct store *s, const struct store_checkpoint *r, int64_t *checkpoint_id) {
    return put(s, STORE_SQL_CHECKPOINT, checkpoint_id, "ssssiiifis", r->path, r->format, r->scheme,
               r->sha256, r->n_params, r->disk_bytes, r->weight_bytes, r->bits_per_weight,
               r->kv_bytes_per_token, r->source);
}

int store_target(struct store *s, const struct store_target *r, int64_t *target_id) {
    return put(s, STORE_SQL_TARGET, target_id, "issiis", r->session_id, r->name, r->kind,
               (int64_t)r->is_base, r->checkpoint_id, r->detail);
}

int store_run_begin(struct store *s, const struct store_run *r, int64_t *run_id) {
    int64_t id = 0;
    int rc = put(s, STORE_SQL_RUN, &id, "iiisfsi", r->session_id, r->target_id, r->point_index,
                 r->point, r->point_value, r->arrival, r->start_wall_ns);
    rc = rc ? rc : store_flush(s);
    if (!rc) {
        *run_id = id;
    }
    return rc;
}

int store_run_finish(struct store *s, int64_t run_id, const struct store_run_end *r) {
    int rc = put(s, STORE_SQL_RUN_FINISH, NULL, "siiissi", r->status, r->measured_from_ns,
                 r->measured_to_ns, r->end_ns, r->verdict, r->reason, run_id);
    rc = rc ? rc : store_flush(s);
    return rc ? rc : store_pack_run(s, run_id);
}

int store_request(struct store *s, const struct store_request *r) {
    return put(s, STORE_SQL_REQUEST, NULL, "iisiiiiiiiiiiiiissssi", r->run_id, r->seq, r->phase,
               r->intended_start_ns, r->actual_start_ns, r->first_event_ns, r->first_token_ns,
               r->first_answer_ns, r->last_token_ns, r->end_ns, r->n_prompt, r->n_output,
               r->n_output_first, r->n_output_is_estimated, r->n_cached_prompt, r->n_preempt,
               r->finish_reason, r->error_class, r->error_text, r->prompt_hash, r->seed);
}

int store_http(struct store *s, const struct store_http *r) {
    return put(s, STORE_SQL_HTTP, NULL, "iiiiiiiiiiiiiiiis", r->run_id, r->seq, r->endpoint,
               r->status, r->is_reused, r->n_retries, r->handed_ns, r->dns_ns, r->connect_ns,
               r->tls_ns, r->first_write_ns, r->first_read_ns, r->n_bytes, r->n_events,
               r->n_reasoning, r->retry_after_ns, r->token_count);
}

int store_spread(struct store *s, int64_t run_id, int64_t seq, int64_t n_events, int64_t n) {
    return put(s, STORE_SQL_SPREAD, NULL, "iiii", run_id, seq, n_events, n);
}

int store_token(struct store *s, const struct store_token *r) {
    if (r->run_id != s->token_run) {
        int rc = put(s, STORE_SQL_UNPACK, NULL, "i", r->run_id);
        if (rc) {
            return rc;
        }
        s->token_run = r->run_id;
    }
    return put(s, STORE_SQL_TOKEN, NULL, "iiiiii", r->run_id, r->seq, r->idx, r->t_ns, r->gap_ns,
               r->n_tokens);
}

int store_sample(struct store *s, const struct store_sample *r) {
    return put(s, STORE_SQL_SAMPLE, NULL, "iiiiiii", r->run_id, r->t_ns, r->n_running, r->n_waiting,
               r->n_kv_blocks_used, r->n_kv_blocks, r->n_batch_tokens);
}

int store_eval(struct store *s, const struct store_eval *r) {
    return put(s, STORE_SQL_EVAL, NULL, "issssiiiffffs", r->target_id, r->task, r->definition,
               r->dataset, r->dataset_sha256, r->window_tokens, r->stride_tokens, r->n_tokens,
               r->value, r->lo, r->hi, r->nll_sum, r->extra_json);
}

int store_kl(struct store *s, const struct store_kl *r) {
    return put(s, STORE_SQL_KL, NULL, "isssiiffffffffff", r->target_id, r->base, r->dataset,
               r->dataset_sha256, r->window_tokens, r->n_tokens, r->mean, r->lo, r->hi, r->p50,
               r->p90, r->p99, r->max, r->top1, r->top1_lo, r->top1_hi);
}

int store_answer(struct store *s, const struct store_answer *r) {
    return put(s, STORE_SQL_ANSWER, NULL, "iissis", r->target_id, r->prompt_index, r->prompt,
               r->text, r->n_tokens, r->finish_reason);
}

int store_quant_run(struct store *s, const struct store_quant_run *r, int64_t *quant_run_id) {
    return put(s, STORE_SQL_QUANT_RUN, quant_run_id, "iisssissiif", r->session_id, r->checkpoint_id,
               r->base_path, r->method, r->scheme, r->group_size, r->recipe_text, r->dataset,
               r->n_samples, r->n_tokens, r->seconds);
}

int store_quant_module(struct store *s, const struct store_quant_module *r) {
    return put(s, STORE_SQL_QUANT_MODULE, NULL, "iissiiififffii", r->quant_run_id, r->idx, r->name,
               r->method, r->group_size, r->n_samples, r->n_tokens, r->damp, r->n_dead_columns,
               r->rel_error, r->logged_error, r->seconds, r->bytes_before, r->bytes_after);
}

int store_note(
    struct store *s, int64_t session_id, int64_t run_id, int64_t wall_ns, const char *text) {
    return put(s, STORE_SQL_NOTE, NULL, "iiis", session_id, run_id, wall_ns, text);
}
