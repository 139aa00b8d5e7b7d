/* Opening, versions and transactions of the results database.
 *
 *   new file   -> schema*.sql, views.sql in one transaction -> application_id, user_version
 *   older      -> the missing steps of migrations[] in one transaction, all views anew
 *   newer -> ERR_UNSUPPORTED; foreign, no database, truncated -> ERR_FORMAT that says which
 *
 * 1. Write-ahead log with synchronous = NORMAL: a killed process loses no committed row, a power
 *    cut loses at most the newest transactions, and the file stays sound in both.
 * 2. A transaction is open from the first append until STORE_COMMIT_NS or STORE_COMMIT_ROWS later.
 * 3. An error rolls the open transaction back; a store is always either usable or closed. */
#include "reports/store.h"

#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/base/fault.h"
#include "engine/base/file.h"
#include "engine/base/mem.h"
#include "reports/store_int.h"

enum { BUSY_TIMEOUT_MS = 5000, CACHE_KIB = 65536 };

static const char schema_sql[] = {
#include "schema.sql.inc"
    0};

static const char schema_http_sql[] = {
#include "schema_http.sql.inc"
    0};

static const char pack_sql[] = {
#include "schema_pack.sql.inc"
    0};

static const char views_sql[] = {
#include "views.sql.inc"
    0};

/* migrations[v] brings a database from version v to v + 1. */
static const char *const migrations[STORE_VERSION] = {schema_sql, schema_http_sql, pack_sql};

int store_step(sqlite3_stmt *stmt) {
    return fault_hit(FAULT_SQL) ? SQLITE_IOERR : sqlite3_step(stmt);
}

int store_prepare(struct store *s, const char *sql, sqlite3_stmt **stmt) {
    *stmt = NULL;
    return fault_hit(FAULT_SQL) ? SQLITE_IOERR : sqlite3_prepare_v2(s->db, sql, -1, stmt, NULL);
}

int store_error(struct store *s, const char *what, int code) {
    bool own_text = s->db && (sqlite3_errcode(s->db) & 0xff) == (code & 0xff);
    const char *text = own_text ? sqlite3_errmsg(s->db) : sqlite3_errstr(code);
    bool is_input = (code & 0xff) == SQLITE_NOTADB || (code & 0xff) == SQLITE_CORRUPT;
    return err_set(is_input ? ERR_FORMAT : ERR_DB, "%s: cannot %s: %s", s->path, what, text);
}

int store_sql(struct store *s, const char *sql, const char *what) {
    int code = fault_hit(FAULT_SQL) ? SQLITE_IOERR : sqlite3_exec(s->db, sql, NULL, NULL, NULL);
    return code == SQLITE_OK ? 0 : store_error(s, what, code);
}

/* The one number that a pragma or count gives. */
static int one_number(struct store *s, const char *sql, int64_t *out) {
    sqlite3_stmt *stmt = NULL;
    int code = store_prepare(s, sql, &stmt);
    if (code == SQLITE_OK) {
        code = store_step(stmt);
        if (code == SQLITE_ROW) {
            *out = sqlite3_column_int64(stmt, 0);
            code = SQLITE_OK;
        }
    }
    sqlite3_finalize(stmt);
    return code == SQLITE_OK ? 0 : store_error(s, "read it", code);
}

void store_roll_back(struct store *s) {
    if (!sqlite3_get_autocommit(s->db)) {
        (void)sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
    }
    s->in_transaction = false;
    s->n_pending = 0;
    s->token_run = STORE_NULL;
}

/* Drops every view; they are made anew for the tables as they will be. */
static int drop_views(struct store *s) {
    sqlite3_stmt *stmt = NULL;
    int rc = 0;
    int code = store_prepare(s,
                             "SELECT group_concat('DROP VIEW \"' || replace(name, '\"', '\"\"') || "
                             "'\"', ';') FROM sqlite_schema WHERE type = 'view'",
                             &stmt);
    code = code == SQLITE_OK ? store_step(stmt) : code;
    if (code == SQLITE_ROW) {
        char *sql = sqlite3_mprintf("%s", sqlite3_column_text(stmt, 0));
        sqlite3_finalize(stmt);
        rc = sql ? store_sql(s, sql, "drop its views") : ERR_NOMEM;
        sqlite3_free(sql);
        return rc;
    }
    sqlite3_finalize(stmt);
    return store_error(s, "read its views", code);
}

static int migrate(struct store *s, int64_t version) {
    char pragma[128];
    int rc = store_sql(s, "BEGIN IMMEDIATE", "begin");
    if (rc) {
        return rc;
    }
    rc = drop_views(s);
    for (int64_t v = version; v < STORE_VERSION && !rc; v++) {
        rc = store_sql(s, migrations[v], "make its tables");
    }
    rc = rc ? rc : store_sql(s, views_sql, "make its views");
    sqlite3_snprintf((int)sizeof pragma, pragma,
                     "PRAGMA application_id = %d; PRAGMA user_version = %d; COMMIT",
                     (int)STORE_APPLICATION_ID, (int)STORE_VERSION);
    rc = rc ? rc : store_sql(s, pragma, "commit");
    if (rc) {
        store_roll_back(s);
    }
    return rc;
}

/* Is this file ours, and which version? */
static int check_version(struct store *s, enum store_mode mode) {
    int64_t version = 0;
    int64_t application = 0;
    int64_t n_objects = 0;
    int64_t page = 0;
    int rc = one_number(s, "PRAGMA page_size", &page);
    if (!rc && file_size(s->path) % i64_max(1, page) != 0) {
        return err_set(ERR_FORMAT, "%s: %lld bytes, no multiple of its pages of %lld: truncated",
                       s->path, (long long)file_size(s->path), (long long)page);
    }
    rc = rc ? rc : one_number(s, "PRAGMA application_id", &application);
    rc = rc ? rc : one_number(s, "PRAGMA user_version", &version);
    rc = rc ? rc : one_number(s, "SELECT count(*) FROM sqlite_schema", &n_objects);
    if (rc) {
        return rc;
    }
    bool is_new = n_objects == 0 && application == 0;
    if ((!is_new && application != STORE_APPLICATION_ID) || (is_new && mode == STORE_READ)) {
        return err_set(ERR_FORMAT, "%s: a database, but not one of Trilemma's results", s->path);
    }
    if (version > STORE_VERSION) {
        return err_set(ERR_UNSUPPORTED,
                       "%s: results of version %lld, this program reads up to version %d", s->path,
                       (long long)version, (int)STORE_VERSION);
    }
    if (version == STORE_VERSION) {
        return 0;
    }
    if (mode == STORE_READ) {
        return err_set(ERR_UNSUPPORTED,
                       "%s: results of version %lld, want %d; any command that writes to it "
                       "brings it up",
                       s->path, (long long)version, (int)STORE_VERSION);
    }
    return migrate(s, version);
}

static int set_up(struct store *s, enum store_mode mode) {
    char pragmas[256];
    sqlite3_busy_timeout(s->db, BUSY_TIMEOUT_MS);
    sqlite3_snprintf((int)sizeof pragmas, pragmas,
                     "PRAGMA cache_size = -%d; PRAGMA temp_store = MEMORY; %s", (int)CACHE_KIB,
                     mode == STORE_WRITE ? "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL"
                                         : "PRAGMA query_only = ON");
    int rc = store_sql(s, pragmas, "open it");
    return rc ? rc : check_version(s, mode);
}

/* Reading falls back to a plain read-only handle where the folder cannot be written. */
static int open_handle(struct store *s, enum store_mode mode) {
    int flags = SQLITE_OPEN_READWRITE | (mode == STORE_WRITE ? SQLITE_OPEN_CREATE : 0);
    int code = sqlite3_open_v2(s->path, &s->db, flags, NULL);
    if (code != SQLITE_OK && mode == STORE_READ) {
        sqlite3_close(s->db);
        code = sqlite3_open_v2(s->path, &s->db, SQLITE_OPEN_READONLY, NULL);
    }
    return code == SQLITE_OK ? 0 : store_error(s, "open it", code);
}

int store_open(const char *path, enum store_mode mode, struct store **out) {
    if (mode == STORE_READ && !file_exists(path)) {
        return err_set(ERR_NOTFOUND, "%s: no such database", path);
    }
    if (mode == STORE_READ && file_size(path) == 0) {
        return err_set(ERR_FORMAT, "%s: an empty file, not a database", path);
    }
    if (file_is_dir(path)) {
        return err_set(ERR_FORMAT, "%s: a directory, not a database", path);
    }
    struct store *s = mem_calloc(MEM_REPORT, (int64_t)sizeof *s);
    if (!s) {
        return ERR_NOMEM;
    }
    s->token_run = STORE_NULL;
    s->path = mem_strdup(MEM_REPORT, path, -1);
    int rc = s->path ? open_handle(s, mode) : ERR_NOMEM;
    rc = rc ? rc : set_up(s, mode);
    if (rc) {
        sqlite3_close(s->db);
        mem_free(s->path);
        mem_free(s);
        return rc;
    }
    *out = s;
    return 0;
}

int store_flush(struct store *s) {
    if (!s->in_transaction) {
        return 0;
    }
    int rc = store_sql(s, "COMMIT", "commit");
    if (rc) {
        store_roll_back(s);
        return rc;
    }
    s->in_transaction = false;
    s->n_pending = 0;
    return 0;
}

int store_tick(struct store *s) {
    bool due = s->n_pending >= STORE_COMMIT_ROWS || clock_now_ns() - s->begun_ns >= STORE_COMMIT_NS;
    return s->in_transaction && due ? store_flush(s) : 0;
}

int store_limit(struct store *s, int64_t bytes) {
    char pragma[96];
    int64_t page = 0;
    int rc = one_number(s, "PRAGMA page_size", &page);
    if (rc) {
        return rc;
    }
    sqlite3_snprintf((int)sizeof pragma, pragma, "PRAGMA max_page_count = %lld",
                     (long long)i64_max(1, bytes / i64_max(1, page)));
    return store_sql(s, pragma, "limit it");
}

int store_close(struct store *s) {
    if (!s) {
        return 0;
    }
    int rc = store_flush(s);
    for (int32_t i = 0; i < STORE_SQL_N; i++) {
        sqlite3_finalize(s->stmts[i]);
    }
    sqlite3_close(s->db);
    mem_free(s->path);
    mem_free(s);
    return rc;
}
