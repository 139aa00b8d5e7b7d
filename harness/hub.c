/* The policy of a download: redirects, resuming, waiting, giving up.
 *
 *      try ----> hub ---302---> CDN ---200/206---> <path>.part ---hash, rename---> <path>
 *       ^         |              |
 *       +--wait---+-- 429, 5xx, cut, silence: at most `tries` requests, bounded waits
 *
 * 1. The token goes to the origin (scheme, host, port) of the first address and nowhere else; it
 *    and the query of a signed address stand in no message. A redirect from https to http is
 *    refused.
 * 2. A resumed request carries Range and, when the tag is known, If-Range. A 200 to it means
 *    another version: the part is emptied. A 206 must begin at the very byte that is missing and
 *    bear the tag of the part. A part without a tag is resumed only when a SHA-256 will judge the
 *    whole.
 * 3. Sizes are compared before the first byte is written: manifest, X-Linked-Size, Content-Range
 *    or Content-Length must agree.
 * 4. What another try cannot mend (no name, no connection, 401, 403, 404, wrong size) is tried
 *    once. */
#include "harness/hub.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include <curl/curl.h>

#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/base/str.h"
#include "harness/hubpart.h"
#include "harness/hubreq.h"
#include "harness/interrupt.h"

enum { NS_PER_S = 1000000000, SLICE_NS = 100000000, BACKOFF_MAX_S = 16 };

static const int64_t BYTES_MAX = INT64_C(1) << 42;

enum verdict { DONE, FAIL, AGAIN, WAIT };

struct get {
    const struct hub_opts *o;
    struct hub_net net; /* defaults filled in */
    struct hubreq *req; /* own */
    struct hubpart part;
    struct hubreq_head head;
    int64_t total;       /* bytes of the whole file; -1: not known */
    int64_t linked_size; /* what the hub itself said; -1: nothing */
    char linked_sha256[FILE_SHA256_HEX];
    int64_t from;  /* first byte asked for */
    bool begun;    /* the first byte of this answer was looked at */
    bool renew;    /* the part is of another version: begin again */
    bool on_hub;   /* this request goes to the origin of o->url */
    int64_t retry; /* nanoseconds the server asked for; -1: nothing */
    char url[HUBREQ_URL_MAX];
};

int hub_url(const char *endpoint,
            bool dataset,
            const char *repo,
            const char *revision,
            const char *path,
            char dst[HUB_URL_MAX]) {
    const char *base = endpoint && endpoint[0] != '\0' ? endpoint : HUB_ENDPOINT;
    size_t n = strlen(base);
    if (!str_starts(base, "https://") && !str_starts(base, "http://")) {
        return err_set(ERR_CONFIG,
                       "HF_ENDPOINT does not begin with https:// or http:// (it has %lld bytes)",
                       (long long)n);
    }
    while (n > 0 && base[n - 1] == '/') {
        n--;
    }
    int len = n >= HUB_URL_MAX ? -1
                               : snprintf(dst, HUB_URL_MAX, "%.*s/%s%s/resolve/%s/%s", (int)n, base,
                                          dataset ? "datasets/" : "", repo, revision, path);
    return len > 0 && len < HUB_URL_MAX
               ? 0
               : err_set(ERR_LIMIT, "address of more than %d bytes", HUB_URL_MAX - 1);
}

static int check_token(const char *token) {
    size_t n = token ? strlen(token) : 0;
    if (n >= HUB_TOKEN_MAX) {
        return err_set(ERR_CONFIG, "HF_TOKEN has %lld bytes, at most %d", (long long)n,
                       HUB_TOKEN_MAX - 1);
    }
    for (size_t i = 0; i < n; i++) {
        if (token[i] <= ' ' || token[i] > '~') {
            return err_set(ERR_CONFIG, "HF_TOKEN holds a blank or a byte that is not printable "
                                       "ASCII (a newline at its end?)");
        }
    }
    return 0;
}

static int compare_sizes(const struct get *g, int64_t total) {
    if (g->o->size >= 0 && total >= 0 && total != g->o->size) {
        return err_set(ERR_CHECKSUM, "%s: the server has %lld bytes, the manifest says %lld",
                       file_base(g->o->path), (long long)total, (long long)g->o->size);
    }
    if (g->linked_size >= 0 && total >= 0 && total != g->linked_size) {
        return err_set(ERR_CHECKSUM, "%s: the server has %lld bytes, the hub says %lld",
                       file_base(g->o->path), (long long)total, (long long)g->linked_size);
    }
    if (g->o->sha256[0] && g->linked_sha256[0] && !str_eq(g->o->sha256, g->linked_sha256)) {
        return err_set(ERR_CHECKSUM, "%s: the hub has SHA-256 %s, the manifest wants %s",
                       file_base(g->o->path), g->linked_sha256, g->o->sha256);
    }
    return 0;
}

/* Law 3. err: ERR_CHECKSUM, and the part is emptied: it is of another file than the one wanted */
static int sizes_agree(struct get *g, int64_t total) {
    int rc = compare_sizes(g, total);
    int rc2 = rc ? hubpart_restart(&g->part, "") : 0;
    return rc2 ? rc2 : rc;
}

/* Looks at the header of an answer with a body, before its first byte is written. */
static int begin_body(struct get *g, const struct hubreq_head *h) {
    bool partial = h->status == 206;
    int64_t total = partial ? h->range_total : h->length;
    bool fits = h->has_range && h->range_first == g->from &&
                (h->range_total < 0 || h->range_last == h->range_total - 1);
    g->begun = true;
    if (partial && g->from == 0) {
        return err_set(ERR_HTTP, "%s: HTTP 206, but the whole file was asked for",
                       file_base(g->o->path));
    }
    bool other = g->part.etag[0] && h->etag[0] && !str_eq(g->part.etag, h->etag);
    if (partial && (!fits || other)) {
        g->renew = true;
        return err_set(ERR_HTTP, "%s: HTTP 206, but not the bytes from %lld on",
                       file_base(g->o->path), (long long)g->from);
    }
    int rc = sizes_agree(g, total);
    g->total = total >= 0 ? total : (g->o->size >= 0 ? g->o->size : g->linked_size);
    if (!rc && !partial) {
        rc = hubpart_restart(&g->part, h->etag);
    }
    return rc;
}

static int on_body(void *ctx, const struct hubreq_head *h, const void *data, int64_t n) {
    struct get *g = ctx;
    int rc = g->begun ? 0 : begin_body(g, h);
    int64_t max = g->total >= 0 ? g->total : BYTES_MAX;
    if (!rc && g->part.size + n > max) {
        rc = err_set(ERR_CHECKSUM, "%s: more than the %lld bytes it should have",
                     file_base(g->o->path), (long long)max);
        int rc2 = hubpart_restart(&g->part, "");
        return rc2 ? rc2 : rc;
    }
    return rc ? rc : hubpart_write(&g->part, data, n);
}

static void on_tick(void *ctx) {
    struct get *g = ctx;
    if (g->o->progress) {
        g->o->progress(g->o->progress_ctx, g->part.size, g->total);
    }
}

/* Decides where to begin, and empties a part that cannot be continued. */
static int choose_start(struct get *g) {
    bool judged = g->o->sha256[0] != '\0';
    bool too_long = g->o->size >= 0 && g->part.size > g->o->size;
    int rc = 0;
    if (g->part.size > 0 && (too_long || (g->part.etag[0] == '\0' && !judged))) {
        rc = hubpart_restart(&g->part, "");
    }
    g->from = g->part.size;
    g->total = g->o->size;
    return rc;
}

static int next_hop(struct get *g, int32_t hop) {
    const char *to = g->head.location;
    char host[HUBREQ_HOST_MAX];
    hubreq_host(g->url, host);
    if (hop == HUB_HOPS_MAX) {
        return err_set(ERR_HTTP, "%s: more than %d redirects", g->o->url, HUB_HOPS_MAX);
    }
    if (!str_starts(to, "https://") &&
        !(str_starts(to, "http://") && str_starts(g->url, "http:"))) {
        return err_set(ERR_HTTP, "%s: %s redirects to something that is not https", g->o->url,
                       host);
    }
    str_copy(g->url, HUBREQ_URL_MAX, to);
    return 0;
}

/* Sends the request along its redirects. out: g->head is the last answer's */
static int follow(struct get *g, enum hubreq_end *end) {
    struct hubreq_opts r = {.url = g->url,
                            .from = g->from,
                            .if_range = g->part.etag,
                            .connect_ms = g->net.connect_ms,
                            .stall_ms = g->net.stall_ms,
                            .stop = g->net.stop,
                            .body = on_body,
                            .tick = on_tick,
                            .ctx = g};
    str_copy(g->url, HUBREQ_URL_MAX, g->o->url);
    for (int32_t hop = 0;; hop++) {
        g->on_hub = hubreq_same_origin(g->url, g->o->url);
        r.token = g->on_hub ? g->o->token : NULL;
        int rc = hubreq_run(g->req, &r, &g->head, end);
        if (rc) {
            return rc;
        }
        if (g->on_hub && g->head.linked_sha256[0]) {
            str_copy(g->linked_sha256, FILE_SHA256_HEX, g->head.linked_sha256);
        }
        if (g->on_hub && g->head.linked_size >= 0) {
            g->linked_size = g->head.linked_size;
        }
        if (g->head.status < 300 || g->head.status > 399 || g->head.location[0] == '\0') {
            return 0;
        }
        rc = next_hop(g, hop);
        if (rc) {
            *end = HUBREQ_NO_WAY;
            return rc;
        }
    }
}

static int64_t parse_retry_after(const char *v) {
    int64_t s = 0;
    if (v[0] == '\0') {
        return -1;
    }
    if (str_i64(v, 0, INT32_MAX, &s)) {
        time_t at = curl_getdate(v, NULL);
        err_clear();
        if (at == (time_t)-1) {
            return -1;
        }
        s = i64_max(0, (int64_t)at - clock_wall_ns() / NS_PER_S);
    }
    return i64_min(s, INT32_MAX) * NS_PER_S;
}

/* 416: the part already is the whole file, or it is longer than the file has become. */
static enum verdict range_refused(struct get *g, int *rc) {
    if (g->from > 0 && g->head.has_range && g->head.range_total == g->part.size) {
        g->total = g->head.range_total;
        *rc = sizes_agree(g, g->total);
        return *rc ? FAIL : DONE;
    }
    *rc =
        err_set(ERR_HTTP, "HTTP 416: %s has no bytes from %lld on", g->o->url, (long long)g->from);
    g->renew = g->from > 0;
    return g->renew ? AGAIN : FAIL;
}

static int refused_token(const struct get *g, const char *host) {
    const char *url = g->o->url;
    int s = g->head.status;
    if (!g->on_hub) {
        return err_set(ERR_HTTP, "HTTP %d: %s, to which the hub sent us for %s, refuses it", s,
                       host, url);
    }
    if (!g->o->token || g->o->token[0] == '\0') {
        return err_set(ERR_HTTP, "HTTP %d: %s wants a token for %s: HF_TOKEN is needed", s, host,
                       url);
    }
    return err_set(ERR_HTTP, "HTTP %d: %s does not take this token for %s: HF_TOKEN was refused%s",
                   s, host, url, s == 403 ? " (is the repository's licence accepted?)" : "");
}

/* What follows from the status of a whole answer. */
static enum verdict judge_status(struct get *g, int *rc) {
    char host[HUBREQ_HOST_MAX];
    int32_t s = g->head.status;
    hubreq_host(g->url, host);
    if (s == 416) {
        return range_refused(g, rc);
    }
    if (s == 401 || s == 403) {
        *rc = refused_token(g, host);
        return FAIL;
    }
    if (s == 404) {
        *rc = err_set(ERR_NOTFOUND, "HTTP 404: %s is not there", g->o->url);
        return FAIL;
    }
    *rc = err_set(ERR_HTTP, "HTTP %d from %s for %s", s, host, g->o->url);
    if (s == 408 || s == 429 || s >= 500) {
        g->retry = parse_retry_after(g->head.retry_after);
        return WAIT;
    }
    return FAIL;
}

static int cut(const struct get *g) {
    if (g->part.size == 0) {
        return ERR_NET;
    }
    char of[40] = "";
    if (g->total >= 0) {
        snprintf(of, sizeof of, " of %lld", (long long)g->total);
    }
    return err_ctx(ERR_NET, "%s was cut after %lld%s bytes (kept: the same command goes on there)",
                   file_base(g->o->path), (long long)g->part.size, of);
}

/* One request with its redirects. */
static enum verdict attempt(struct get *g, int *rc) {
    enum hubreq_end end = HUBREQ_NO_WAY;
    g->begun = false;
    g->renew = false;
    g->retry = -1;
    *rc = choose_start(g);
    if (*rc) {
        return FAIL;
    }
    *rc = follow(g, &end);
    if (*rc && end == HUBREQ_CUT) {
        *rc = cut(g);
        return WAIT;
    }
    if (*rc == ERR_CANCELED && g->part.size > 0) {
        err_ctx(*rc, "%s: the first %lld bytes are kept", file_base(g->o->path),
                (long long)g->part.size);
    }
    if (*rc) {
        return g->renew ? AGAIN : FAIL;
    }
    if (g->head.status != 200 && g->head.status != 206) {
        return judge_status(g, rc);
    }
    if (!g->begun) {
        *rc = begin_body(g, &g->head); /* an empty file */
    }
    if (!*rc && g->total >= 0 && g->part.size != g->total) {
        *rc = err_set(ERR_NET, "the answer ended early");
        *rc = cut(g);
        return WAIT;
    }
    return *rc ? (g->renew ? AGAIN : FAIL) : DONE;
}

static void sleep_clock(const struct get *g, int64_t ns) {
    int64_t end = clock_now_ns() + ns;
    for (int64_t now = clock_now_ns(); now < end && !g->net.stop(); now = clock_now_ns()) {
        clock_sleep_until(i64_min(end, now + SLICE_NS));
    }
}

/* Waits before request n + 1; rc is why. out: 0, else the error that ends it all */
static int wait_turn(const struct get *g, int32_t n, int rc) {
    int64_t backoff_s = i64_min(INT64_C(1) << (n - 1), BACKOFF_MAX_S);
    int64_t ns = g->retry >= 0 ? g->retry : backoff_s * NS_PER_S;
    if (ns > (int64_t)HUB_WAIT_S_MAX * NS_PER_S) {
        return err_set(rc, "%s asks to wait %lld s, at most %d s are waited: try again later",
                       g->o->url, (long long)(ns / NS_PER_S), HUB_WAIT_S_MAX);
    }
    if (g->net.sleep) {
        g->net.sleep(g->net.sleep_ctx, ns);
    } else {
        sleep_clock(g, ns);
    }
    return g->net.stop() ? err_set(ERR_CANCELED, "interrupted while waiting for %s", g->o->url) : 0;
}

static int try_all(struct get *g) {
    for (int32_t n = 1;; n++) {
        int rc = 0;
        enum verdict v = attempt(g, &rc);
        if (v == DONE) {
            return 0;
        }
        if (v == FAIL || n >= g->net.tries) {
            return rc;
        }
        rc = v == AGAIN ? hubpart_restart(&g->part, "") : wait_turn(g, n, rc);
        if (rc) {
            return rc;
        }
    }
}

static struct hub_net fill_in(const struct hub_net *net) {
    struct hub_net n = net ? *net : (struct hub_net){0};
    n.connect_ms = n.connect_ms ? n.connect_ms : HUB_CONNECT_MS;
    n.stall_ms = n.stall_ms ? n.stall_ms : HUB_STALL_MS;
    n.tries = n.tries ? n.tries : HUB_TRIES;
    n.stop = n.stop ? n.stop : interrupt_seen;
    return n;
}

int hub_get(const struct hub_opts *o, struct hub_result *r) {
    struct get *g = NULL;
    int rc = check_token(o->token);
    if (rc) {
        return rc;
    }
    g = mem_calloc(MEM_HARNESS, (int64_t)sizeof *g);
    if (!g) {
        return ERR_NOMEM;
    }
    g->o = o;
    g->net = fill_in(o->net);
    g->linked_size = -1;
    g->total = -1;
    rc = hubreq_create(&g->req);
    if (rc) {
        goto free_get;
    }
    rc = hubpart_open(&g->part, o->path);
    if (rc) {
        goto destroy_req;
    }
    rc = try_all(g);
    if (!rc) {
        int64_t bytes = g->part.size;
        rc = hubpart_finish(&g->part, o->sha256[0] ? o->sha256 : g->linked_sha256, r->sha256);
        r->bytes = rc ? r->bytes : bytes;
    }
    hubpart_close(&g->part);
destroy_req:
    hubreq_destroy(g->req);
free_get:
    mem_free(g);
    return rc;
}
