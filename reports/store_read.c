/* Typed reading of the named views; nothing else is readable from outside.
 *
 * The query is put together from names that are checked letter by letter; the one value in it is a
 * bound parameter. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/base/mem.h"
#include "engine/base/str.h"
#include "reports/store_int.h"

enum { QUERY_MAX = 1024 };

struct store_rows {
    struct store *store; /* ref */
    sqlite3_stmt *stmt;  /* own */
};

static bool is_names(const char *s) {
    return strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789_, ") == strlen(s);
}

static int query_text(char sql[QUERY_MAX],
                      const char *view,
                      const char *columns,
                      const char *key,
                      const char *order) {
    if (!str_starts(view, "v_") || !is_names(view) || !is_names(columns) ||
        (key && !is_names(key)) || (order && !is_names(order))) {
        return err_set(ERR_INTERNAL, "no query on \"%s\" (%s)", view, columns);
    }
    int n =
        snprintf(sql, QUERY_MAX, "SELECT %s FROM %s%s%s%s%s%s", columns, view, key ? " WHERE " : "",
                 key ? key : "", key ? " = ?" : "", order ? " ORDER BY " : "", order ? order : "");
    return n < QUERY_MAX ? 0 : err_set(ERR_INTERNAL, "a query of %d bytes on %s", n, view);
}

int store_rows_open(struct store *s,
                    const char *view,
                    const char *columns,
                    const char *key,
                    int64_t id,
                    const char *order,
                    struct store_rows **out) {
    char sql[QUERY_MAX];
    int rc = query_text(sql, view, columns, key, order);
    if (rc) {
        return rc;
    }
    struct store_rows *r = mem_calloc(MEM_REPORT, (int64_t)sizeof *r);
    if (!r) {
        return ERR_NOMEM;
    }
    r->store = s;
    int code = store_prepare(s, sql, &r->stmt);
    if (code == SQLITE_OK && key) {
        code = sqlite3_bind_int64(r->stmt, 1, id);
    }
    if (code != SQLITE_OK) {
        rc = store_error(s, "read it", code);
        store_rows_close(r);
        return rc;
    }
    *out = r;
    return 0;
}

void store_rows_close(struct store_rows *r) {
    if (r) {
        sqlite3_finalize(r->stmt);
        mem_free(r);
    }
}

int store_rows_next(struct store_rows *r, bool *has) {
    int code = store_step(r->stmt);
    if (code != SQLITE_ROW && code != SQLITE_DONE) {
        return store_error(r->store, "read it", code);
    }
    *has = code == SQLITE_ROW;
    return 0;
}

int64_t store_rows_i64(const struct store_rows *r, int32_t i) {
    return sqlite3_column_type(r->stmt, i) == SQLITE_NULL ? STORE_NULL
                                                          : sqlite3_column_int64(r->stmt, i);
}

double store_rows_f64(const struct store_rows *r, int32_t i) {
    return sqlite3_column_type(r->stmt, i) == SQLITE_NULL ? (double)NAN
                                                          : sqlite3_column_double(r->stmt, i);
}

const void *store_rows_blob(const struct store_rows *r, int32_t i, int64_t *bytes) {
    const void *data = sqlite3_column_blob(r->stmt, i);
    *bytes = sqlite3_column_bytes(r->stmt, i);
    return data;
}

const char *store_rows_str(const struct store_rows *r, int32_t i) {
    return (const char *)sqlite3_column_text(r->stmt, i);
}
