/* Laws:
 *  1. Two references: one of the HTTP side until the library says that the request is over, one of
 *     the dispatcher while choices are in the engine.
 *  2. A connection sleeps only when there is nothing to send; suspended says so, under the lock,
 * and whoever brings something clears it and wakes it. A sleeping connection exists.
 *  3. What waits for a client is bounded; the writer is told, and never waits. */
#include "engine/serve/call.h"

#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/base/log.h"

struct call *call_create(struct MHD_Connection *conn, int64_t body_max, int64_t now_ns) {
    struct call *c = mem_calloc(MEM_SERVE, (int64_t)sizeof *c);
    if (!c) {
        return NULL;
    }
    atomic_init(&c->n_ref, 1);
    c->conn = conn;
    c->start_ns = now_ns;
    pthread_mutex_init(&c->lock, NULL);
    buf_init(&c->body, MEM_SERVE, body_max);
    buf_init(&c->out, MEM_SERVE, CALL_ANSWER_MAX);
    buf_init(&c->pending, MEM_SERVE, CALL_ANSWER_MAX);
    return c;
}

void call_take(struct call *c) {
    atomic_fetch_add(&c->n_ref, 1);
}

static void log_line(const struct call *c) {
    int64_t n_prompt = 0;
    int64_t n_cached = 0;
    int64_t n_new = 0;
    int64_t first_ns = 0;
    for (int32_t i = 0; i < c->n_choice; i++) {
        const struct choice *h = &c->choice[i];
        n_prompt += c->req.prompt[i / c->req.n].n;
        n_cached += h->n_cached;
        n_new += h->n_tok;
        bool sooner = h->first_ns && (!first_ns || h->first_ns < first_ns);
        first_ns = sooner ? h->first_ns : first_ns;
    }
    double ttft = first_ns ? (double)(first_ns - c->start_ns) * 1e-6 : 0;
    double all = (double)(clock_now_ns() - c->start_ns) * 1e-6;
    if (c->n_choice > 0) {
        log_info(
            "%s %s %d: %d choices, prompt %lld, cached %lld, new %lld, first %.1f ms, all %.1f "
            "ms, %s",
            c->method, c->path, c->status, c->n_choice, (long long)n_prompt, (long long)n_cached,
            (long long)n_new, ttft, all,
            c->end                ? c->end
            : c->choice[0].reason ? c->choice[0].reason
                                  : "no end");
    } else {
        log_info("%s %s %d: %.1f ms%s%s", c->method, c->path, c->status, all, c->end ? ", " : "",
                 c->end ? c->end : "");
    }
}

void call_release(struct call *c) {
    if (atomic_fetch_sub(&c->n_ref, 1) != 1) {
        return;
    }
    log_line(c);
    for (int32_t i = 0; i < c->n_choice; i++) {
        choice_fini(&c->choice[i]);
    }
    mem_free(c->choice);
    apireq_fini(&c->req);
    buf_fini(&c->body);
    buf_fini(&c->out);
    buf_fini(&c->pending);
    pthread_mutex_destroy(&c->lock);
    mem_free(c);
}

/* in: the lock is held */
static void wake(struct call *c) {
    if (c->suspended) {
        c->suspended = false;
        MHD_resume_connection(c->conn);
    }
}

void call_sleep(struct call *c) {
    pthread_mutex_lock(&c->lock);
    c->suspended = true;
    MHD_suspend_connection(c->conn);
    pthread_mutex_unlock(&c->lock);
}

void call_begin(struct call *c) {
    pthread_mutex_lock(&c->lock);
    c->status = MHD_HTTP_OK;
    c->stream = true;
    wake(c);
    pthread_mutex_unlock(&c->lock);
}

int call_append(struct call *c, const char *data, int64_t n, int64_t backlog_max) {
    pthread_mutex_lock(&c->lock);
    struct buf *b = &c->out;
    if (c->n_read > 0) {
        memmove(b->data, b->data + c->n_read, (size_t)(b->len - c->n_read));
        b->len -= c->n_read;
        c->n_read = 0;
    }
    int rc = b->len + n > backlog_max
                 ? err_set(ERR_LIMIT, "%lld bytes wait for the client, at most %lld may",
                           (long long)(b->len + n), (long long)backlog_max)
                 : buf_add(b, data, n);
    if (!rc) {
        wake(c);
    }
    pthread_mutex_unlock(&c->lock);
    return rc;
}

void call_end(struct call *c) {
    pthread_mutex_lock(&c->lock);
    c->done = true;
    wake(c);
    pthread_mutex_unlock(&c->lock);
}

void call_answer(struct call *c, int32_t status, struct buf *b) {
    pthread_mutex_lock(&c->lock);
    buf_fini(&c->out);
    c->out = *b;
    *b = (struct buf){0};
    c->status = status;
    c->done = true;
    wake(c);
    pthread_mutex_unlock(&c->lock);
}

void call_break(struct call *c, const char *why) {
    pthread_mutex_lock(&c->lock);
    c->end = c->end ? c->end : why;
    c->broken = true;
    c->done = true;
    wake(c);
    pthread_mutex_unlock(&c->lock);
}

void call_note(struct call *c, const char *why) {
    pthread_mutex_lock(&c->lock);
    c->end = c->end ? c->end : why;
    pthread_mutex_unlock(&c->lock);
}

ssize_t call_read(void *cls, uint64_t pos, char *dst, size_t max) {
    struct call *c = cls;
    ssize_t got = 0;
    (void)pos;
    pthread_mutex_lock(&c->lock);
    int64_t n = i64_min(c->out.len - c->n_read, (int64_t)i64_min((int64_t)max, INT32_MAX));
    if (c->broken) {
        got = MHD_CONTENT_READER_END_WITH_ERROR;
    } else if (n > 0) {
        memcpy(dst, c->out.data + c->n_read, (size_t)n);
        c->n_read += n;
        got = (ssize_t)n;
    } else if (c->done) {
        got = MHD_CONTENT_READER_END_OF_STREAM;
    } else {
        c->suspended = true;
        MHD_suspend_connection(c->conn);
    }
    pthread_mutex_unlock(&c->lock);
    return got;
}
