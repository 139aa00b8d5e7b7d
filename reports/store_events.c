/* Token events, a request at a time, from the packed copy of a run or from its rows.
 *
 * token_event is the truth. token_pack holds the same events of a finished run, one BLOB a request
 * (pack.c), because ten million rows take seconds to step through and ten million numbers do not.
 *
 * 1. The pack of a run is made whole in one transaction or not at all.
 * 2. The first append to a run drops its pack in the same transaction, so a pack is never stale.
 *    A run has one writer at a time.
 * 3. A run that cannot be packed without loss (foreign rows) has no pack; then rows are read.
 * 4. Both ways give the same events; v_pack_error is empty in a sound database. */
#include <string.h>

#include "engine/base/buf.h"
#include "engine/base/err.h"
#include "engine/base/mem.h"
#include "reports/pack.h"
#include "reports/store_int.h"

enum { REQUEST_EVENTS_MAX = 1 << 24, PACK_BYTES_MAX = 1 << 28 };

/* Events of the request at hand. */
struct events {
    struct store_event *x; /* own */
    int64_t cap;
    struct store_events now; /* .events = x */
};

static int reserve(struct events *v, int64_t n) {
    if (n <= v->cap) {
        return 0;
    }
    if (n > REQUEST_EVENTS_MAX) {
        return err_set(ERR_LIMIT, "request %lld has more than %d token events",
                       (long long)v->now.seq, (int)REQUEST_EVENTS_MAX);
    }
    int64_t cap = i64_max(i64_max(256, n), 2 * v->cap);
    struct store_event *bigger = mem_realloc(MEM_REPORT, v->x, cap * (int64_t)sizeof *bigger);
    if (!bigger) {
        return ERR_NOMEM;
    }
    v->x = bigger;
    v->cap = cap;
    v->now.events = bigger;
    return 0;
}

static int hand_out(struct events *v, store_events_fn f, void *ctx) {
    int rc = v->now.n > 0 ? f(ctx, &v->now) : 0;
    v->now.n = 0;
    return rc;
}

static int
from_rows(struct store *s, int64_t run_id, struct events *v, store_events_fn f, void *ctx) {
    struct store_rows *rows = NULL;
    bool has = false;
    int rc = store_rows_open(s, "v_token_event", "seq, idx, t_ns, gap_ns, n_tokens", "run_id",
                             run_id, "seq, idx", &rows);
    if (rc) {
        return rc;
    }
    for (rc = store_rows_next(rows, &has); !rc && has;) {
        int64_t seq = store_rows_i64(rows, 0);
        rc = seq != v->now.seq ? hand_out(v, f, ctx) : 0;
        v->now.seq = seq;
        rc = rc ? rc : reserve(v, v->now.n + 1);
        if (!rc) {
            int64_t i = v->now.n++;
            v->now.is_whole = (i == 0 || v->now.is_whole) && store_rows_i64(rows, 1) == i;
            v->x[i] = (struct store_event){store_rows_i64(rows, 2), store_rows_i64(rows, 3),
                                           store_rows_i64(rows, 4)};
            rc = store_rows_next(rows, &has);
        }
    }
    store_rows_close(rows);
    return rc ? rc : hand_out(v, f, ctx);
}

static int from_pack(
    struct store *s, int64_t run_id, struct events *v, store_events_fn f, void *ctx, bool *found) {
    struct store_rows *rows = NULL;
    bool has = false;
    int rc =
        store_rows_open(s, "v_token_pack", "seq, n_events, data", "run_id", run_id, "seq", &rows);
    if (rc) {
        return rc;
    }
    for (rc = store_rows_next(rows, &has); !rc && has;) {
        int64_t bytes = 0;
        int64_t n = store_rows_i64(rows, 1);
        const void *data = store_rows_blob(rows, 2, &bytes);
        *found = true;
        v->now.seq = store_rows_i64(rows, 0);
        if (n < 1 || n > bytes / PACK_EVENT_MIN) {
            rc = err_set(ERR_FORMAT, "run %lld, request %lld: %lld packed events in %lld bytes",
                         (long long)run_id, (long long)v->now.seq, (long long)n, (long long)bytes);
        }
        rc = rc ? rc : reserve(v, n);
        rc = rc ? rc : pack_read(data, bytes, n, v->x);
        v->now.n = n;
        v->now.is_whole = true;
        rc = rc ? rc : hand_out(v, f, ctx);
        rc = rc ? rc : store_rows_next(rows, &has);
    }
    store_rows_close(rows);
    return rc;
}

int store_events_each(struct store *s, int64_t run_id, store_events_fn f, void *ctx) {
    struct events v = {0};
    bool found = false;
    int rc = from_pack(s, run_id, &v, f, ctx, &found);
    if (!rc && !found) {
        rc = from_rows(s, run_id, &v, f, ctx);
    }
    mem_free(v.x);
    return rc;
}

struct packer {
    struct store *s;
    int64_t run_id;
    sqlite3_stmt *stmt; /* own */
    struct buf bytes;   /* own */
    bool is_lossy;      /* a request did not fit; the rest is passed over */
};

static int pack_request(void *ctx, const struct store_events *e) {
    struct packer *p = ctx;
    int rc = 0;
    p->is_lossy = p->is_lossy || !e->is_whole;
    buf_clear(&p->bytes);
    for (int64_t i = 0; i < e->n && !rc && !p->is_lossy; i++) {
        int64_t before = i ? e->events[i - 1].t_ns : 0;
        p->is_lossy = !pack_fits(&e->events[i], i, before);
        rc = p->is_lossy ? 0 : pack_add(&p->bytes, &e->events[i], before);
    }
    if (rc || p->is_lossy) {
        return rc;
    }
    const int64_t numbers[] = {p->run_id, e->seq, e->n};
    int code = SQLITE_OK;
    for (int32_t i = 0; i < ARRAY_LEN(numbers) && code == SQLITE_OK; i++) {
        code = sqlite3_bind_int64(p->stmt, i + 1, numbers[i]);
    }
    code = code == SQLITE_OK ? sqlite3_bind_blob64(p->stmt, ARRAY_LEN(numbers) + 1, p->bytes.data,
                                                   (sqlite3_uint64)p->bytes.len, SQLITE_STATIC)
                             : code;
    code = code == SQLITE_OK ? store_step(p->stmt) : code;
    sqlite3_reset(p->stmt);
    sqlite3_clear_bindings(p->stmt);
    return code == SQLITE_DONE ? 0 : store_error(p->s, "pack its events", code);
}

static int has_pack(struct store *s, int64_t run_id, bool *has) {
    struct store_rows *rows = NULL;
    int rc = store_rows_open(s, "v_token_pack", "seq", "run_id", run_id, NULL, &rows);
    rc = rc ? rc : store_rows_next(rows, has);
    store_rows_close(rows);
    return rc;
}

int store_pack_run(struct store *s, int64_t run_id) {
    struct packer p = {.s = s, .run_id = run_id};
    struct events v = {0};
    bool has = false;
    int rc = store_flush(s);
    rc = rc ? rc : has_pack(s, run_id, &has);
    if (rc || has) {
        return rc;
    }
    rc = store_sql(s, "BEGIN", "begin");
    if (rc) {
        return rc;
    }
    buf_init(&p.bytes, MEM_REPORT, PACK_BYTES_MAX);
    int code = store_prepare(
        s, "INSERT INTO token_pack (run_id, seq, n_events, data) VALUES (?, ?, ?, ?)", &p.stmt);
    rc = code == SQLITE_OK ? 0 : store_error(s, "pack its events", code);
    rc = rc ? rc : from_rows(s, run_id, &v, pack_request, &p);
    sqlite3_finalize(p.stmt);
    rc = rc ? rc : store_sql(s, p.is_lossy ? "ROLLBACK" : "COMMIT", "commit");
    if (rc) {
        store_roll_back(s);
    }
    s->token_run = STORE_NULL;
    buf_fini(&p.bytes);
    mem_free(v.x);
    return rc;
}
