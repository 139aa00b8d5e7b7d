/* What each path does. Answers that need no engine are made here in the HTTP thread; the others are
 * parsed and tokenized here and handed over, and their connection sleeps. */
#include <stdio.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/base/rng.h"
#include "engine/base/str.h"
#include "engine/serve/server_int.h"

enum { STREAM_BLOCK = 16384 };

static int get_health(struct server *s, struct call *c, struct buf *out) {
    bool dead = dispatch_is_dead(s->dispatch);
    bool ends = atomic_load(&s->draining);
    c->status = dead || ends ? 503 : 200;
    return buf_fmt(out, "{\"status\":\"%s\"}", dead ? "failed" : ends ? "draining" : "ok");
}

static int get_models(struct server *s, struct call *c, struct buf *out) {
    (void)c;
    return apiout_models(s->o.name, s->created_s, s->ctx_max, out);
}

static int get_metrics(struct server *s, struct call *c, struct buf *out) {
    struct engine_stats st;
    (void)c;
    engine_stats(s->o.engine, &st);
    return metrics_format(&s->metrics, &st, s->o.name, conns_n_open(&s->conns), out);
}

static int post_tokenize(struct server *s, struct call *c, struct buf *out) {
    static const struct tok_ids none;
    return apiout_tokens(c->req.n_prompt ? &c->req.prompt[0] : &none, s->ctx_max, out);
}

static int post_detokenize(struct server *s, struct call *c, struct buf *out) {
    struct buf text;
    buf_init(&text, MEM_SERVE, CALL_ANSWER_MAX);
    int rc = tok_decode(s->o.model->tok, c->req.tokens.v, c->req.tokens.n, false, &text);
    rc = rc ? rc : apiout_text(buf_cstr(&text), text.len, out);
    buf_fini(&text);
    return rc;
}

static const struct route routes[] = {
    {"POST", "/v1/chat/completions", false, APIREQ_CHAT, NULL},
    {"POST", "/v1/completions", false, APIREQ_COMPLETION, NULL},
    {"GET", "/v1/models", false, 0, get_models},
    {"GET", "/health", true, 0, get_health},
    {"GET", "/metrics", false, 0, get_metrics},
    {"POST", "/tokenize", false, APIREQ_TOKENIZE, post_tokenize},
    {"POST", "/detokenize", false, APIREQ_DETOKENIZE, post_detokenize}};

const struct route *route_find(const char *method, const char *path, struct apierr *e) {
    const char *allowed = NULL;
    bool head = str_eq(method, "HEAD");
    for (int32_t i = 0; i < ARRAY_LEN(routes); i++) {
        if (!str_eq(routes[i].path, path)) {
            continue;
        }
        if (str_eq(routes[i].method, head ? "GET" : method)) {
            return &routes[i];
        }
        allowed = routes[i].method;
    }
    if (allowed) {
        apierr_set(e, 405, NULL, "%.20s %.100s: want %s", method, path, allowed);
    } else {
        apierr_set(e, 404, NULL, "there is no %.20s %.100s", method, path);
    }
    return NULL;
}

static void add_headers(struct server *s, struct call *c, struct MHD_Response *r) {
    const struct route *route = c->route;
    bool text = route && route->answer == get_metrics && c->status == 200;
    char retry[16];
    MHD_add_response_header(r, "Content-Type",
                            c->stream ? "text/event-stream; charset=utf-8"
                            : text    ? "text/plain; version=0.0.4; charset=utf-8"
                                      : "application/json");
    if (c->stream) {
        MHD_add_response_header(r, "Cache-Control", "no-cache");
    }
    if (c->status == 429 || c->status == 503) {
        snprintf(retry, sizeof retry, "%d", APIERR_RETRY_S);
        MHD_add_response_header(r, "Retry-After", retry);
    }
    if (c->status == 401) {
        MHD_add_response_header(r, "WWW-Authenticate", "Bearer");
    }
    if (atomic_load(&s->draining)) {
        MHD_add_response_header(r, "Connection", "close");
    }
}

/* Queues what lies in c->out, or the stream of it. */
static enum MHD_Result queue(struct server *s, struct call *c) {
    struct MHD_Response *r =
        c->stream
            ? MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, STREAM_BLOCK, call_read, c, NULL)
            : MHD_create_response_from_buffer((size_t)c->out.len,
                                              c->out.data ? c->out.data : c->method,
                                              MHD_RESPMEM_PERSISTENT);
    if (!r) {
        return MHD_NO;
    }
    add_headers(s, c, r);
    metrics_code(&s->metrics, c->status);
    enum MHD_Result rc = MHD_queue_response(c->conn, (unsigned int)c->status, r);
    MHD_destroy_response(r);
    return rc;
}

static enum MHD_Result refuse(struct server *s, struct call *c, const struct apierr *e) {
    buf_clear(&c->out);
    c->status = e->status;
    return apierr_format(e, &c->out) ? MHD_NO : queue(s, c);
}

static int parse(struct server *s, struct call *c, struct apierr *e) {
    const struct route *route = c->route;
    struct apireq_env env = {.model = s->o.model,
                             .name = s->o.name,
                             .vocab = s->o.model->weights->cfg.vocab,
                             .ctx_max = s->ctx_max,
                             .text_max = s->text_max,
                             .eos = s->o.model->weights->cfg.eos,
                             .n_eos = s->o.model->weights->cfg.n_eos,
                             .now_s = clock_wall_ns() / 1000000000};
    return apireq_parse(route->kind, &env, buf_cstr(&c->body), c->body.len, &c->req, e);
}

static enum MHD_Result hand_over(struct server *s, struct call *c) {
    uint64_t number = atomic_fetch_add(&s->n_answer, 1);
    c->head = (struct apiout){.chat = c->req.kind == APIREQ_CHAT,
                              .usage = c->req.usage,
                              .each = c->req.each,
                              .created_s = clock_wall_ns() / 1000000000,
                              .model = s->o.name};
    snprintf(c->head.id, sizeof c->head.id, "%s-%016llx", c->head.chat ? "chatcmpl" : "cmpl",
             (unsigned long long)rng_keyed(s->seed, number, 1));
    if (!c->req.seeded) {
        c->req.sampling.seed = rng_keyed(s->seed, number, 2);
    }
    c->handed = true;
    pthread_mutex_lock(&s->lock);
    s->n_handed++;
    pthread_mutex_unlock(&s->lock);
    call_sleep(c);
    int rc = dispatch_push(s->dispatch, c);
    if (rc) { /* it is ours alone still: the answer wakes it, and route_reply comes */
        struct apierr e = {0};
        struct buf b;
        apierr_from(&e, rc, NULL);
        buf_init(&b, MEM_SERVE, CALL_ANSWER_MAX);
        if (apierr_format(&e, &b)) {
            call_break(c, "no memory for the error");
        } else {
            call_answer(c, e.status, &b);
        }
        buf_fini(&b);
    }
    return MHD_YES;
}

enum MHD_Result route_act(struct server *s, struct call *c) {
    const struct route *route = c->route;
    struct apierr e = c->early;
    bool by_engine = route && !route->answer;
    if (!e.status && by_engine && atomic_load(&s->draining)) {
        apierr_set(&e, 503, NULL, "the server is shutting down");
    }
    if (!e.status && route->kind) {
        parse(s, c, &e);
    }
    if (e.status) {
        return refuse(s, c, &e);
    }
    if (by_engine) {
        return hand_over(s, c);
    }
    c->status = 200;
    int rc = route->answer(s, c, &c->out);
    if (rc) {
        apierr_from(&e, rc, NULL);
        return refuse(s, c, &e);
    }
    return queue(s, c);
}

enum MHD_Result route_reply(struct server *s, struct call *c) {
    pthread_mutex_lock(&c->lock);
    bool broken = c->broken;
    bool ready = c->status != 0;
    pthread_mutex_unlock(&c->lock);
    if (broken) {
        return MHD_NO;
    }
    if (!ready) {
        call_sleep(c);
        return MHD_YES;
    }
    return queue(s, c);
}
