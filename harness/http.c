/* What three threads do with a request:
 *
 *   sender   submit: body and address are made, the request goes into the inbox
 *   loop     (http_loop.c) inbox -> schedule -> libcurl -> events into the ring
 *   caller   poll: ring -> events; a request that ended is free again at the poll after
 *
 * 1. The key is in memory alone: in the header fields of the requests and in `key`, by which it is
 *    taken out of every error text.
 * 2. A new request takes a free one's memory and easy handle, so a run at its height allocates
 *    bodies only. */
#include "harness/http.h"

#include <stdio.h>
#include <string.h>

#include "build_info.h"
#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/base/file.h"
#include "engine/base/json.h"
#include "engine/base/str.h"
#include "harness/http_int.h"

enum { URL_MAX = 4096, KEY_MAX = 4096, BODY_MAX = 1 << 28 };

static const int64_t LEAD_NS = 20000000;
static const int64_t TIMEOUT_NS = 600000000000;
static const int64_t STALL_NS = 60000000000;

static struct xfer *take_free(struct http *h) {
    pthread_mutex_lock(&h->lock);
    struct xfer *x = h->free;
    if (x) {
        h->free = x->next;
    }
    bool may_make = h->n_xfer < HTTP_REQUESTS_MAX;
    pthread_mutex_unlock(&h->lock);
    if (x || !may_make) {
        return x;
    }
    x = mem_calloc(MEM_HARNESS, (int64_t)sizeof *x);
    if (!x) {
        return NULL;
    }
    x->h = h;
    buf_init(&x->body, MEM_HARNESS, BODY_MAX);
    reply_init(&x->reply, &(struct reply_opts){.api = h->api});
    if (http_easy(x)) {
        reply_fini(&x->reply);
        mem_free(x);
        return NULL;
    }
    pthread_mutex_lock(&h->lock);
    h->all[h->n_xfer++] = x;
    pthread_mutex_unlock(&h->lock);
    return x;
}

static void give_free(struct http *h, struct xfer *x) {
    pthread_mutex_lock(&h->lock);
    x->next = h->free;
    h->free = x;
    pthread_mutex_unlock(&h->lock);
}

/* The URL whose turn it is, by shares: the smooth weighted turn. */
static int32_t next_url(struct http *h) {
    const struct scenario_http *s = h->o.s;
    int32_t best = 0;
    int32_t sum = 0;
    for (int32_t i = 0; i < s->n_urls; i++) {
        h->turn[i] += s->weights[i];
        sum += s->weights[i];
        best = h->turn[i] > h->turn[best] ? i : best;
    }
    h->turn[best] -= sum;
    return best;
}

/* The prompt: the tokenizer's text of the ids, else words; ids as they are where they mean
 * something to the server. */
static int make_body(struct http *h, const struct target_request *q, struct buf *out) {
    struct buf text;
    bool as_ids = h->tok && h->api == CHUNK_COMPLETIONS && h->dialect->takes_ids;
    buf_init(&text, MEM_HARNESS, BODY_MAX);
    int rc = 0;
    if (!as_ids) {
        rc = h->tok ? tok_decode(h->tok, q->ids, q->n_ids, true, &text)
                    : dialect_words(q->ids, q->n_ids, &text);
    }
    const struct dialect_request dq = {.api = h->api,
                                       .stream = h->stream,
                                       .model = h->o.model,
                                       .text = as_ids ? NULL : buf_cstr(&text),
                                       .ids = q->ids,
                                       .n_ids = q->n_ids,
                                       .max_new = q->max_new,
                                       .temperature = q->temperature,
                                       .top_p = q->top_p,
                                       .seed = q->seed,
                                       .more = h->more};
    rc = rc ? rc : dialect_body(h->dialect, &dq, out);
    buf_fini(&text);
    return rc;
}

static void prepare(struct http *h, const struct target_request *q, struct xfer *x) {
    x->tag = q->tag;
    x->intended_ns = q->intended_ns;
    x->at = -1;
    x->is_active = false;
    x->is_canceled = false;
    x->is_first_told = false;
    x->has_head = false;
    x->n_prereq = 0;
    x->heard_ns = 0;
    x->type[0] = '\0';
    x->retry_after[0] = '\0';
    x->curl_error[0] = '\0';
    x->wire = (struct target_wire){.endpoint = next_url(h),
                                   .handed_ns = -1,
                                   .dns_ns = -1,
                                   .connect_ns = -1,
                                   .tls_ns = -1,
                                   .first_write_ns = -1,
                                   .first_read_ns = -1,
                                   .n_reasoning = -1,
                                   .retry_after_ns = -1};
    snprintf(x->id, sizeof x->id, "X-Request-Id: trilemma-%lld", (long long)q->number);
    x->id_field = (struct curl_slist){.data = x->id, .next = h->headers};
    http_count_reset(&x->counter);
    http_load_xfer(x);
}

static int submit(struct target *head, const struct target_request *q, int64_t *sent_ns) {
    struct http *h = (struct http *)head;
    err_clear();
    if (q->tag >= TARGET_REQUESTS_MAX) {
        return err_set(ERR_RANGE, "tag %llu, at most %d", (unsigned long long)q->tag,
                       TARGET_REQUESTS_MAX - 1);
    }
    struct xfer *x = take_free(h);
    if (!x) {
        return err_set(ERR_BUSY, "%d requests in flight, or no memory for one more", h->n_xfer);
    }
    buf_clear(&x->body);
    int rc = make_body(h, q, &x->body);
    if (rc) {
        give_free(h, x);
        return rc;
    }
    prepare(h, q, x);
    *sent_ns = -1;
    pthread_mutex_lock(&h->lock);
    x->next = h->inbox;
    h->inbox = x;
    pthread_mutex_unlock(&h->lock);
    http_wake(h);
    return 0;
}

static int cancel(struct target *head, uint64_t tag) {
    struct http *h = (struct http *)head;
    pthread_mutex_lock(&h->lock);
    bool fits = h->n_canceled < HTTP_REQUESTS_MAX;
    if (fits) {
        h->canceled[h->n_canceled++] = tag;
    }
    pthread_mutex_unlock(&h->lock);
    http_wake(h);
    return fits ? 0 : ERR_BUSY;
}

static int32_t poll(struct target *head, struct target_event *ev, int32_t cap) {
    struct http *h = (struct http *)head;
    struct http_item item;
    int32_t n = 0;
    while (h->polled) {
        struct xfer *x = h->polled;
        h->polled = x->next;
        give_free(h, x);
    }
    for (; n < cap && ring_pop(&h->ring, &item); n++) {
        ev[n] = item.ev;
        if (item.text) {
            ev[n].n_tokens = http_count(&item.x->counter, h->tok, item.text, item.n_text);
            mem_free(item.text);
        }
        if (item.ev.kind == TARGET_END) {
            item.x->next = h->polled;
            h->polled = item.x;
        }
    }
    return n;
}

static int error(struct target *head) {
    struct http *h = (struct http *)head;
    int rc = atomic_load(&h->rc);
    return rc ? err_set(rc, "%s", h->error) : 0;
}

static int start(struct target *head) {
    struct http *h = (struct http *)head;
    int rc = http_loop_init(h);
    if (rc) {
        return rc;
    }
    atomic_store(&h->stop, false);
    atomic_store(&h->start_ns, clock_now_ns());
    if (pthread_create(&h->thread, NULL, http_loop_run, h) != 0) {
        http_loop_fini(h);
        return err_set(ERR_IO, "cannot start the thread of the HTTP target");
    }
    h->is_running = true;
    return 0;
}

static void stop(struct target *head) {
    struct http *h = (struct http *)head;
    if (h->is_running) {
        atomic_store(&h->stop, true);
        http_wake(h);
        pthread_join(h->thread, NULL);
        http_loop_fini(h);
        h->is_running = false;
    }
}

static void close_it(struct target *head) {
    struct http *h = (struct http *)head;
    struct http_item item;
    stop(head);
    while (ring_pop(&h->ring, &item)) {
        mem_free(item.text);
    }
    for (int32_t i = 0; i < h->n_xfer; i++) {
        struct xfer *x = h->all[i];
        curl_easy_cleanup(x->easy);
        buf_fini(&x->body);
        buf_fini(&x->counter.tail);
        reply_fini(&x->reply);
        mem_free(x);
    }
    for (int32_t i = 0; i < SCENARIO_URLS_MAX; i++) {
        mem_free(h->urls[i]);
    }
    curl_slist_free_all(h->headers);
    json_decref(h->more);
    tok_close(h->tok);
    ring_fini(&h->ring);
    mem_free(h->key);
    mem_free(h->all);
    mem_free(h->canceled);
    mem_free(h->by_tag);
    mem_free(h->waiting);
    mem_free(h->active);
    pthread_mutex_destroy(&h->lock);
    curl_global_cleanup();
    mem_free(h);
}

static const struct target_ops ops = {.start = start,
                                      .submit = submit,
                                      .cancel = cancel,
                                      .poll = poll,
                                      .error = error,
                                      .stop = stop,
                                      .close = close_it};

void http_usage(const struct target *t, struct http_usage *u) {
    const struct http *h = (const struct http *)t;
    int64_t all = clock_now_ns() - atomic_load(&h->start_ns);
    u->busy = (double)atomic_load(&h->busy_ns) / (double)i64_max(1, all);
    u->lag_ns_max = atomic_load(&h->lag_ns);
    u->cpu_ns = atomic_load(&h->cpu_ns);
}

static int make_urls(struct http *h) {
    const struct scenario_http *s = h->o.s;
    for (int32_t i = 0; i < s->n_urls; i++) {
        char url[URL_MAX];
        size_t n = strlen(s->urls[i]);
        while (n > 0 && s->urls[i][n - 1] == '/') {
            n--;
        }
        int len = snprintf(url, sizeof url, "%.*s%s", (int)n, s->urls[i], chunk_api_path(h->api));
        CURLU *u = curl_url();
        CURLUcode code = u ? curl_url_set(u, CURLUPART_URL, url, 0) : CURLUE_OUT_OF_MEMORY;
        curl_url_cleanup(u);
        if (code != CURLUE_OK || len >= (int)sizeof url) {
            return err_set(ERR_CONFIG, "url \"%.200s\": %s", s->urls[i],
                           len >= (int)sizeof url ? "too long" : curl_url_strerror(code));
        }
        h->urls[i] = mem_strdup(MEM_HARNESS, url, -1);
        if (!h->urls[i]) {
            return ERR_NOMEM;
        }
    }
    return 0;
}

static int add_field(struct http *h, const char *name, const char *sep, const char *value) {
    char line[KEY_MAX + 256];
    int n = snprintf(line, sizeof line, "%s%s%s", name, sep, value);
    struct curl_slist *list = n < (int)sizeof line ? curl_slist_append(h->headers, line) : NULL;
    memset(line, 0, sizeof line); /* it may have held the key */
    if (!list) {
        return err_set(ERR_CONFIG, "header field \"%.40s\" is too long, or no memory is left",
                       name);
    }
    h->headers = list;
    return 0;
}

/* in: o->key NULL: the variable is not set */
static int take_key(struct http *h, const struct http_opts *o) {
    const struct scenario_http *s = o->s;
    if (!s->key_env) {
        return 0;
    }
    if (!o->key || !o->key[0]) {
        return err_set(ERR_CONFIG, "the environment variable %s is %s, want the server's key in it",
                       s->key_env, o->key ? "empty" : "not set");
    }
    for (const char *c = o->key; *c; c++) {
        if ((unsigned char)*c <= 0x20 || (unsigned char)*c >= 0x7f || c - o->key >= KEY_MAX) {
            return err_set(ERR_CONFIG,
                           "the key in %s has a blank, a control character or more "
                           "than %d bytes",
                           s->key_env, (int)KEY_MAX);
        }
    }
    h->key = mem_strdup(MEM_HARNESS, o->key, -1);
    if (!h->key) {
        return ERR_NOMEM;
    }
    return s->key_header ? add_field(h, s->key_header, ": ", o->key)
                         : add_field(h, "Authorization", ": Bearer ", o->key);
}

static int make_fields(struct http *h, const struct http_opts *o) {
    const struct scenario_http *s = o->s;
    int rc = add_field(h, "Content-Type", ": ", "application/json");
    rc = rc ? rc
            : add_field(h, "Accept", ": ", h->stream ? "text/event-stream" : "application/json");
    rc = rc ? rc : add_field(h, "Expect", ":", "");
    rc = rc ? rc : add_field(h, "User-Agent", ": ", "trilemma/" BUILD_VERSION);
    rc = rc ? rc : take_key(h, o);
    for (int32_t i = 0; i < s->n_headers && !rc; i++) {
        rc = add_field(h, s->header_names[i], ": ", s->header_values[i]);
    }
    return rc;
}

static int make_parts(struct http *h, const struct http_opts *o) {
    const struct scenario_http *s = o->s;
    int rc = ring_init(&h->ring, MEM_HARNESS, HTTP_RING, (int32_t)sizeof(struct http_item));
    h->all = mem_array(MEM_HARNESS, HTTP_REQUESTS_MAX, (int64_t)sizeof *h->all);
    h->canceled = mem_array(MEM_HARNESS, HTTP_REQUESTS_MAX, (int64_t)sizeof *h->canceled);
    h->waiting = mem_array(MEM_HARNESS, HTTP_REQUESTS_MAX, (int64_t)sizeof(struct xfer *));
    h->active = mem_array(MEM_HARNESS, HTTP_REQUESTS_MAX, (int64_t)sizeof(struct xfer *));
    h->by_tag = mem_array(MEM_HARNESS, TARGET_REQUESTS_MAX, (int64_t)sizeof(struct xfer *));
    if (!rc && !(h->all && h->canceled && h->waiting && h->active && h->by_tag)) {
        rc = ERR_NOMEM;
    }
    rc = rc ? rc : make_urls(h);
    rc = rc ? rc : make_fields(h, o);
    if (!rc && s->body) {
        rc = json_parse("body", s->body, (int64_t)strlen(s->body), &h->more);
    }
    if (!rc && s->tokenizer) {
        rc = tok_open(s->tokenizer, &h->tok);
    }
    if (!rc && s->ca_file && !file_exists(s->ca_file)) {
        rc = err_set(ERR_NOTFOUND, "ca_file %s: no such file", s->ca_file);
    }
    return rc;
}

static void describe(struct http *h) {
    const struct scenario_http *s = h->o.s;
    snprintf(h->head.about, TARGET_ABOUT_MAX, "%.300s%s, %.60s, %s, %s%s", s->urls[0],
             s->n_urls > 1 ? " and others" : "", h->o.model, chunk_api_name(h->api),
             h->dialect->name, h->stream ? "" : ", not streamed");
}

int http_open(const struct http_opts *o, struct target **out) {
    const struct scenario_http *s = o->s;
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
        return err_set(ERR_NOMEM, "libcurl cannot start");
    }
    struct http *h = mem_calloc(MEM_HARNESS, (int64_t)sizeof *h);
    if (!h) {
        curl_global_cleanup();
        return ERR_NOMEM;
    }
    h->head = (struct target){.ops = &ops, .broken = "client_error", .lead_ns = LEAD_NS};
    h->o = *o;
    h->o.key = NULL;
    h->api = s->api ? chunk_api_of(s->api) : CHUNK_CHAT;
    h->dialect = dialect_of(s->dialect);
    h->stream = !s->stream || str_eq(s->stream, "true");
    h->kernel_time = !s->timestamps || str_eq(s->timestamps, "kernel");
    h->timeout_ns = s->timeout_ns > 0 ? s->timeout_ns : TIMEOUT_NS;
    h->stall_ns = s->stall_ns > 0 ? s->stall_ns : STALL_NS;
    pthread_mutex_init(&h->lock, NULL);
    int rc = h->api == CHUNK_API_N || !h->dialect
                 ? err_set(ERR_CONFIG, "http: unknown api or dialect")
                 : make_parts(h, o);
    if (rc) {
        target_close(&h->head);
        return rc;
    }
    h->head.vocab = h->tok ? tok_n_vocab(h->tok) : 0;
    describe(h);
    *out = &h->head;
    return 0;
}
