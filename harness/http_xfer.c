/* One transfer: what libcurl is told, what it calls, and what its verdict means.
 *
 *   prereq  the connection stands, the request is written next  -> SENT
 *   header  the first byte of the answer; status, type, Retry-After
 *   body    -> reply -> FIRST, TOKENS
 *
 * src: libcurl 7.88: curl_easy_setopt(3), curl_easy_getinfo(3), libcurl-errors(3) */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/base/str.h"
#include "harness/http_int.h"

/* why: before it, a second request on a connection of HTTP/2 without TLS is a framing error */
static const unsigned H2C_REUSE = 0x080000;

enum { FRAME_BYTES = 6 }; /* of a chunk, at least */

static const int64_t CONNECT_NS = 10000000000;

/* Time of n bytes that are being read; never before what was there already. What came after the
 * look at the stamps has the time of its reading. */
static int64_t stamp(const struct xfer *x, size_t n) {
    struct http *h = x->h;
    h->rx_left -= (int64_t)n;
    int64_t t = h->rx_ns > 0 && h->rx_left >= 0 ? h->rx_ns : clock_now_ns();
    return i64_max(t, i64_max(x->heard_ns, x->wire.first_write_ns));
}

static void tell(struct xfer *x, enum target_event_kind kind, int64_t t_ns) {
    const struct http_item item = {.ev = {.tag = x->tag, .t_ns = t_ns, .kind = (int32_t)kind},
                                   .x = x};
    http_tell(x->h, &item);
}

/* The tokens of one event, or its mere arrival. */
static int on_reply(void *ctx, const struct reply_event *ev) {
    struct xfer *x = ctx;
    struct http *h = x->h;
    if (!x->is_first_told) {
        x->is_first_told = true;
        tell(x, TARGET_FIRST, x->heard_ns);
    }
    int64_t t_ns = x->heard_ns;
    x->wire.n_events++;
    h->rx_ns = h->rx_last_ns; /* of the events behind this one */
    x->heard_ns = i64_max(x->heard_ns, h->rx_ns);
    if (!ev->bears_tokens) {
        return 0;
    }
    struct http_item item = {.ev = {.tag = x->tag,
                                    .t_ns = t_ns,
                                    .kind = TARGET_TOKENS,
                                    .n_tokens = ev->n_tokens,
                                    .is_answer = ev->is_answer,
                                    .is_whole = ev->is_whole},
                             .x = x};
    bool is_counted = x->reply.count > REPLY_COUNT_TOKENIZER;
    if (h->tok && !is_counted) {
        item.text = mem_strdup(MEM_HARNESS, ev->text, ev->n);
        item.n_text = ev->n;
        if (!item.text) {
            return ERR_NOMEM;
        }
    }
    http_tell(h, &item);
    return 0;
}

static int on_prereq(void *ctx, char *peer, char *local, int peer_port, int local_port) {
    struct xfer *x = ctx;
    (void)peer;
    (void)local;
    (void)peer_port;
    (void)local_port;
    x->wire.first_write_ns = clock_now_ns();
    if (x->n_prereq++ == 0) {
        tell(x, TARGET_SENT, x->wire.first_write_ns);
    }
    return CURL_PREREQFUNC_OK;
}

static void keep(char *dst, int64_t cap, const char *v, size_t n) {
    while (n > 0 && strchr(" \t\r\n", v[n - 1])) {
        n--;
    }
    while (n > 0 && strchr(" \t", *v)) {
        v++;
        n--;
    }
    n = n < (size_t)cap ? n : (size_t)cap - 1;
    memcpy(dst, v, n);
    dst[n] = '\0';
}

static size_t on_header(char *line, size_t size, size_t count, void *ctx) {
    static const char type[] = "content-type:";
    static const char retry[] = "retry-after:";
    struct xfer *x = ctx;
    size_t n = size * count;
    x->heard_ns = stamp(x, n);
    if (x->wire.first_read_ns < 0) {
        x->wire.first_read_ns = x->heard_ns;
    }
    if (n >= 5 && memcmp(line, "HTTP/", 5) == 0) { /* also behind a 100 or a proxy's answer */
        x->type[0] = '\0';
        x->retry_after[0] = '\0';
    } else if (n >= sizeof type && strncasecmp(line, type, sizeof type - 1) == 0) {
        keep(x->type, HTTP_TYPE_MAX, line + sizeof type - 1, n - sizeof type + 1);
    } else if (n >= sizeof retry && strncasecmp(line, retry, sizeof retry - 1) == 0) {
        keep(x->retry_after, HTTP_ID_MAX, line + sizeof retry - 1, n - sizeof retry + 1);
    }
    return n;
}

/* Tells the reply what the header said, once. */
static void head(struct xfer *x) {
    long status = 0;
    if (x->has_head) {
        return;
    }
    curl_easy_getinfo(x->easy, CURLINFO_RESPONSE_CODE, &status);
    if (status > 0) {
        x->has_head = true;
        reply_head(&x->reply, (int32_t)status, x->type[0] ? x->type : NULL,
                   x->retry_after[0] ? x->retry_after : NULL);
    }
}

static size_t on_body(char *data, size_t size, size_t count, void *ctx) {
    struct xfer *x = ctx;
    size_t n = size * count;
    x->heard_ns = stamp(x, n + FRAME_BYTES);
    head(x);
    return reply_feed(&x->reply, data, (int64_t)n) ? n : 0;
}

static bool is_loopback(const char *url) {
    const char *host = strstr(url, "://");
    host = host ? host + 3 : url;
    return str_starts(host, "127.0.0.1") || str_starts(host, "localhost") ||
           str_starts(host, "[::1]");
}

static long http_version(const struct scenario_http *s) {
    bool is_tls = str_starts(s->urls[0], "https://");
    if (s->version && str_eq(s->version, "1.1")) {
        return CURL_HTTP_VERSION_1_1;
    }
    if (s->version) {
        return is_tls ? CURL_HTTP_VERSION_2TLS : CURL_HTTP_VERSION_2_PRIOR_KNOWLEDGE;
    }
    return is_tls ? CURL_HTTP_VERSION_2TLS : CURL_HTTP_VERSION_1_1;
}

int http_easy(struct xfer *x) {
    const struct http *h = x->h;
    const struct scenario_http *s = h->o.s;
    int64_t connect_ns = s->connect_ns > 0 ? s->connect_ns : CONNECT_NS;
    CURL *e = curl_easy_init();
    if (!e) {
        return err_set(ERR_NOMEM, "libcurl cannot make a handle");
    }
    x->easy = e;
    curl_easy_setopt(e, CURLOPT_PRIVATE, (char *)x);
    curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(e, CURLOPT_HTTP_VERSION, http_version(s));
    curl_easy_setopt(e, CURLOPT_POST, 1L);
    curl_easy_setopt(e, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(e, CURLOPT_NOPROGRESS, 1L);
    curl_easy_setopt(e, CURLOPT_TCP_NODELAY, 1L);
    curl_easy_setopt(e, CURLOPT_QUICK_EXIT, 1L); /* why: never wait for a hanging name server */
    curl_easy_setopt(e, CURLOPT_DNS_CACHE_TIMEOUT, -1L);
    curl_easy_setopt(e, CURLOPT_BUFFERSIZE, (long)HTTP_READ_MAX);
    curl_easy_setopt(e, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
    curl_easy_setopt(e, CURLOPT_SSL_VERIFYPEER, 1L);
    curl_easy_setopt(e, CURLOPT_SSL_VERIFYHOST, 2L);
    curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS, (long)(connect_ns / 1000000));
    curl_easy_setopt(e, CURLOPT_ERRORBUFFER, x->curl_error);
    curl_easy_setopt(e, CURLOPT_PREREQFUNCTION, on_prereq);
    curl_easy_setopt(e, CURLOPT_PREREQDATA, x);
    curl_easy_setopt(e, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(e, CURLOPT_HEADERDATA, x);
    curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(e, CURLOPT_WRITEDATA, x);
    if (s->ca_file) {
        curl_easy_setopt(e, CURLOPT_CAINFO, s->ca_file);
    }
    if (http_version(s) == CURL_HTTP_VERSION_2_PRIOR_KNOWLEDGE &&
        curl_version_info(CURLVERSION_NOW)->version_num < H2C_REUSE) {
        curl_easy_setopt(e, CURLOPT_FRESH_CONNECT, 1L);
        curl_easy_setopt(e, CURLOPT_FORBID_REUSE, 1L);
    }
    return 0;
}

void http_load_xfer(struct xfer *x) {
    struct http *h = x->h;
    const char *url = h->urls[x->wire.endpoint];
    CURL *e = x->easy;
    reply_reset(&x->reply,
                &(struct reply_opts){.api = h->api, .stream = h->stream, .fn = on_reply, .ctx = x});
    curl_easy_setopt(e, CURLOPT_URL, url);
    curl_easy_setopt(e, CURLOPT_HTTPHEADER, &x->id_field);
    curl_easy_setopt(e, CURLOPT_POSTFIELDS, buf_cstr(&x->body));
    curl_easy_setopt(e, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)x->body.len);
    if (is_loopback(url)) {
        curl_easy_setopt(e, CURLOPT_PROXY, ""); /* why: our own machine is behind no proxy */
    } else {
        curl_easy_setopt(e, CURLOPT_PROXY, NULL);
    }
}

/* What libcurl's code means. */
static enum reply_class class_of(const struct xfer *x, CURLcode code) {
    static const struct {
        CURLcode code;
        enum reply_class kind;
    } rows[] = {{CURLE_OK, REPLY_OK},
                {CURLE_COULDNT_RESOLVE_HOST, REPLY_DNS},
                {CURLE_COULDNT_RESOLVE_PROXY, REPLY_DNS},
                {CURLE_COULDNT_CONNECT, REPLY_CONNECT},
                {CURLE_OPERATION_TIMEDOUT, REPLY_CONNECT_TIMEOUT},
                {CURLE_SSL_CONNECT_ERROR, REPLY_TLS},
                {CURLE_PEER_FAILED_VERIFICATION, REPLY_TLS},
                {CURLE_SSL_CACERT_BADFILE, REPLY_TLS},
                {CURLE_SSL_ISSUER_ERROR, REPLY_TLS},
                {CURLE_SSL_CERTPROBLEM, REPLY_TLS},
                {CURLE_SSL_INVALIDCERTSTATUS, REPLY_TLS},
                {CURLE_GOT_NOTHING, REPLY_NO_ANSWER},
                {CURLE_PARTIAL_FILE, REPLY_CUT},
                {CURLE_OUT_OF_MEMORY, REPLY_NO_MEMORY}};
    long os = 0;
    if (x->h->is_reset && (code == CURLE_GOT_NOTHING || code == CURLE_PARTIAL_FILE)) {
        return REPLY_RESET;
    }
    for (int32_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (rows[i].code == code) {
            return rows[i].kind;
        }
    }
    curl_easy_getinfo(x->easy, CURLINFO_OS_ERRNO, &os);
    if (code == CURLE_RECV_ERROR || code == CURLE_SEND_ERROR) {
        return os == ECONNRESET || os == EPIPE ? REPLY_RESET : REPLY_CUT;
    }
    return REPLY_PROTOCOL;
}

static int64_t info_ns(CURL *e, CURLINFO what) {
    curl_off_t us = 0;
    return curl_easy_getinfo(e, what, &us) == CURLE_OK && us > 0 ? us * 1000 : 0;
}

/* Durations of a new connection, from what libcurl measured. */
static void read_wire(struct xfer *x) {
    struct target_wire *w = &x->wire;
    int64_t dns = info_ns(x->easy, CURLINFO_NAMELOOKUP_TIME_T);
    int64_t connect = info_ns(x->easy, CURLINFO_CONNECT_TIME_T);
    int64_t tls = info_ns(x->easy, CURLINFO_APPCONNECT_TIME_T);
    long n_new = 0;
    curl_easy_getinfo(x->easy, CURLINFO_NUM_CONNECTS, &n_new);
    w->is_reused = n_new == 0 && x->n_prereq > 0;
    w->n_retries = i32_max(0, x->n_prereq - 1);
    if (n_new > 0) {
        w->dns_ns = dns > 0 ? dns : -1;
        w->connect_ns = connect > 0 ? i64_max(0, connect - dns) : -1;
        w->tls_ns = tls > 0 ? i64_max(0, tls - connect) : -1;
    }
    w->status = x->reply.status;
    w->n_bytes = x->reply.n_body;
    w->n_reasoning = x->reply.n_reasoning;
    w->retry_after_ns = x->reply.retry_after_ns;
}

/* Takes every occurrence of the key out of a text. */
static void hide_key(const char *key, char *text) {
    size_t n = key ? strlen(key) : 0;
    for (char *at = n > 0 ? strstr(text, key) : NULL; at; at = strstr(at, key)) {
        memset(at, '*', n);
    }
}

void http_finish(struct xfer *x, CURLcode code) {
    struct reply *r = &x->reply;
    struct target_outcome *o = &x->outcome;
    if (x->wire.handed_ns >= 0) {
        head(x);
        reply_end(r, class_of(x, code),
                  x->curl_error[0] ? x->curl_error : curl_easy_strerror(code));
        read_wire(x);
    }
    enum reply_count count = r->count;
    bool by_tok = x->h->tok && r->n_events > 0 && count <= REPLY_COUNT_TOKENIZER;
    count = by_tok ? REPLY_COUNT_TOKENIZER : count;
    x->wire.token_count = reply_count_name(count);
    memcpy(x->finish, r->finish, sizeof x->finish);
    snprintf(x->error_text, sizeof x->error_text, "%s", r->error);
    hide_key(x->h->key, x->error_text);
    *o = (struct target_outcome){.finish = x->finish[0] ? x->finish : NULL,
                                 .n_prompt = r->n_prompt,
                                 .n_output = r->n_output,
                                 .n_cached = r->n_cached,
                                 .n_preempt = -1,
                                 .is_estimated = r->n_output < 0 && count != REPLY_COUNT_NONE &&
                                                 count <= REPLY_COUNT_TOKENIZER,
                                 .is_spread = count == REPLY_COUNT_SPREAD,
                                 .wire = &x->wire};
    if (!x->is_canceled && r->kind != REPLY_OK) {
        o->error_class = reply_class_name(r->kind);
        o->error_text = x->error_text;
        o->is_unreachable = r->status == 0 && r->kind != REPLY_TIMEOUT &&
                            r->kind != REPLY_NO_MEMORY && r->kind != REPLY_PROTOCOL;
    }
}
