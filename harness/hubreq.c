/* One HTTP GET through libcurl's multi interface.
 *
 * 1. The loop is ours, so that silence is measured on our clock, and Ctrl-C is seen, ten times a
 *    second.
 * 2. TLS certificates are verified; only http and https are spoken; redirects are reported, not
 *    followed: who follows them decides who gets the token.
 * 3. Only the body of 200 and 206 reaches the caller; of other answers at most ERROR_BODY_MAX
 *    bytes are read and thrown away.
 * src: RFC 9110 sections 8.8.3 (ETag), 10.2.3 (Retry-After), 14.4 (Content-Range); libcurl 7.88 */
#include "harness/hubreq.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include <curl/curl.h>

#include "build_info.h"
#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/base/str.h"

enum { ERROR_BODY_MAX = 1 << 20, POLL_MS = 100, HEADER_MAX = 4096 };

struct hubreq {
    CURL *easy;   /* own */
    CURLM *multi; /* own, keeps connections between requests */
    const struct hubreq_opts *o;
    struct hubreq_head *head;
    int64_t n_body;  /* bytes of body so far */
    int64_t heard;   /* time of the last sign of life */
    int rc;          /* what body returned */
    bool begun;      /* a status line came */
    bool out_of_mem; /* libcurl could not copy a header */
    char error[CURL_ERROR_SIZE];
};

static bool get_part(const char *url, CURLUPart part, char *dst, int64_t cap) {
    char *s = NULL;
    CURLU *u = curl_url();
    bool ok = u && curl_url_set(u, CURLUPART_URL, url, 0) == CURLUE_OK &&
              curl_url_get(u, part, &s, CURLU_DEFAULT_PORT) == CURLUE_OK && str_copy(dst, cap, s);
    curl_free(s);
    curl_url_cleanup(u);
    return ok;
}

void hubreq_host(const char *url, char dst[HUBREQ_HOST_MAX]) {
    if (!get_part(url, CURLUPART_HOST, dst, HUBREQ_HOST_MAX)) {
        str_copy(dst, HUBREQ_HOST_MAX, "?");
    }
}

bool hubreq_same_origin(const char *a, const char *b) {
    static const CURLUPart parts[] = {CURLUPART_SCHEME, CURLUPART_HOST, CURLUPART_PORT};
    for (int32_t i = 0; i < ARRAY_LEN(parts); i++) {
        char x[HUBREQ_HOST_MAX];
        char y[HUBREQ_HOST_MAX];
        if (!get_part(a, parts[i], x, HUBREQ_HOST_MAX) ||
            !get_part(b, parts[i], y, HUBREQ_HOST_MAX) || strcasecmp(x, y) != 0) {
            return false;
        }
    }
    return true;
}

int hubreq_create(struct hubreq **out) {
    struct hubreq *r = mem_calloc(MEM_HARNESS, (int64_t)sizeof *r);
    if (!r) {
        return ERR_NOMEM;
    }
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
        mem_free(r);
        return err_set(ERR_NOMEM, "libcurl cannot start");
    }
    r->easy = curl_easy_init();
    r->multi = curl_multi_init();
    if (!r->easy || !r->multi) {
        hubreq_destroy(r);
        return err_set(ERR_NOMEM, "libcurl cannot make a handle");
    }
    *out = r;
    return 0;
}

void hubreq_destroy(struct hubreq *r) {
    if (!r) {
        return;
    }
    curl_easy_cleanup(r->easy);
    curl_multi_cleanup(r->multi);
    curl_global_cleanup();
    mem_free(r);
}

/* Content-Range: "bytes 0-9/10", "bytes 0-9/" and a star, or "bytes " star "/10". */
static void take_range(struct hubreq_head *h, const char *v) {
    char first[32] = "";
    char last[32] = "";
    char total[32] = "";
    if (sscanf(v, "bytes %31[0-9]-%31[0-9]/%31[0-9*]", first, last, total) == 3) {
        h->has_range = str_i64(first, 0, INT64_MAX, &h->range_first) == 0 &&
                       str_i64(last, 0, INT64_MAX, &h->range_last) == 0;
    } else if (sscanf(v, "bytes */%31[0-9]", total) == 1) {
        h->has_range = true;
    }
    if (h->has_range && !str_eq(total, "*")) {
        h->has_range = str_i64(total, 0, INT64_MAX, &h->range_total) == 0;
    }
    err_clear();
}

static void take_linked_etag(struct hubreq_head *h, const char *v) {
    size_t n = strlen(v);
    bool quoted = n >= 2 && v[0] == '"' && v[n - 1] == '"';
    const char *s = quoted ? v + 1 : v;
    n = quoted ? n - 2 : n;
    if (n == FILE_SHA256_HEX - 1 && strspn(s, "0123456789abcdef") == n) {
        memcpy(h->linked_sha256, s, n);
        h->linked_sha256[n] = '\0';
    }
}

static void take_number(const char *v, int64_t *dst) {
    if (str_i64(v, 0, INT64_MAX, dst)) {
        err_clear(); /* why: a number that cannot be read is as good as none */
    }
}

static void take_header(struct hubreq_head *h, const char *name, const char *v) {
    if (strcasecmp(name, "content-length") == 0) {
        take_number(v, &h->length);
    } else if (strcasecmp(name, "content-range") == 0) {
        take_range(h, v);
    } else if (strcasecmp(name, "etag") == 0) {
        if (v[0] != '"' || !str_copy(h->etag, HUBREQ_FIELD_MAX, v)) {
            h->etag[0] = '\0'; /* why: a weak tag may not be used with If-Range */
        }
    } else if (strcasecmp(name, "x-linked-etag") == 0) {
        take_linked_etag(h, v);
    } else if (strcasecmp(name, "x-linked-size") == 0) {
        take_number(v, &h->linked_size);
    } else if (strcasecmp(name, "retry-after") == 0) {
        str_copy(h->retry_after, HUBREQ_FIELD_MAX, v);
    }
}

static size_t on_header(char *data, size_t size, size_t n, void *ctx) {
    struct hubreq *r = ctx;
    char line[HEADER_MAX];
    size_t len = size * n;
    r->heard = clock_now_ns();
    if (len >= sizeof line) {
        return len; /* why: none of the fields we read is that long */
    }
    memcpy(line, data, len);
    while (len > 0 && strchr(" \t\r\n", line[len - 1])) {
        len--;
    }
    line[len] = '\0';
    if (str_starts(line, "HTTP/")) {
        *r->head = (struct hubreq_head){.length = -1,
                                        .range_first = -1,
                                        .range_last = -1,
                                        .range_total = -1,
                                        .linked_size = -1};
        r->begun = true;
        return size * n;
    }
    char *colon = strchr(line, ':');
    if (colon) {
        *colon = '\0';
        take_header(r->head, line, colon + 1 + strspn(colon + 1, " \t"));
    }
    return size * n;
}

static size_t on_body(char *data, size_t size, size_t n, void *ctx) {
    struct hubreq *r = ctx;
    int64_t len = (int64_t)(size * n);
    long status = 0;
    r->heard = clock_now_ns();
    r->n_body += len;
    curl_easy_getinfo(r->easy, CURLINFO_RESPONSE_CODE, &status);
    r->head->status = (int32_t)status;
    if (status != 200 && status != 206) {
        return r->n_body > ERROR_BODY_MAX ? 0 : size * n;
    }
    r->rc = r->o->body(r->o->ctx, r->head, data, len);
    return r->rc ? 0 : size * n;
}

static struct curl_slist *add(struct hubreq *r, struct curl_slist *list, const char *line) {
    struct curl_slist *more = curl_slist_append(list, line);
    r->out_of_mem = r->out_of_mem || !more;
    return more ? more : list;
}

static struct curl_slist *make_headers(struct hubreq *r) {
    const struct hubreq_opts *o = r->o;
    struct curl_slist *list = NULL;
    char line[HEADER_MAX];
    if (o->token && o->token[0] != '\0') {
        snprintf(line, sizeof line, "Authorization: Bearer %s", o->token);
        list = add(r, list, line);
    }
    if (o->from > 0) {
        snprintf(line, sizeof line, "Range: bytes=%lld-", (long long)o->from);
        list = add(r, list, line);
    }
    if (o->from > 0 && o->if_range[0] != '\0') {
        snprintf(line, sizeof line, "If-Range: %s", o->if_range);
        list = add(r, list, line);
    }
    return list;
}

static void set_options(struct hubreq *r, const struct curl_slist *headers) {
    char host[HUBREQ_HOST_MAX];
    CURL *e = r->easy;
    hubreq_host(r->o->url, host);
    curl_easy_reset(e);
    curl_easy_setopt(e, CURLOPT_URL, r->o->url);
    curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(e, CURLOPT_USERAGENT, "trilemma/" BUILD_VERSION);
    curl_easy_setopt(e, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(e, CURLOPT_HTTPGET, 1L);
    curl_easy_setopt(e, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(e, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
    curl_easy_setopt(e, CURLOPT_SSL_VERIFYPEER, 1L);
    curl_easy_setopt(e, CURLOPT_SSL_VERIFYHOST, 2L);
    curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(e, CURLOPT_QUICK_EXIT, 1L); /* why: never wait for a hanging name server */
    curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS, (long)r->o->connect_ms);
    curl_easy_setopt(e, CURLOPT_ERRORBUFFER, r->error);
    curl_easy_setopt(e, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(e, CURLOPT_HEADERDATA, r);
    curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(e, CURLOPT_WRITEDATA, r);
    if (str_eq(host, "127.0.0.1") || str_eq(host, "localhost") || str_eq(host, "[::1]")) {
        curl_easy_setopt(e, CURLOPT_PROXY, ""); /* why: our own machine is behind no proxy */
    }
}

/* Runs the added handle to its end. out: *code of libcurl. err: ERR_CANCELED, ERR_TIMEOUT */
static int drive(struct hubreq *r, CURLcode *code) {
    int running = 1;
    int left = 0;
    r->heard = clock_now_ns();
    while (running) {
        CURLMcode mc = curl_multi_perform(r->multi, &running);
        if (mc == CURLM_OK && running) {
            mc = curl_multi_poll(r->multi, NULL, 0, (int)i64_min(POLL_MS, r->o->stall_ms), NULL);
        }
        if (mc != CURLM_OK) {
            return err_set(ERR_NET, "libcurl: %s", curl_multi_strerror(mc));
        }
        if (r->o->tick) {
            r->o->tick(r->o->ctx);
        }
        if (r->o->stop()) {
            return err_set(ERR_CANCELED, "interrupted");
        }
        int64_t silent_ms = (clock_now_ns() - r->heard) / 1000000;
        if (running && silent_ms > r->o->stall_ms + (r->begun ? 0 : r->o->connect_ms)) {
            return err_set(ERR_TIMEOUT, "nothing came for %lld ms", (long long)silent_ms);
        }
    }
    const CURLMsg *m = curl_multi_info_read(r->multi, &left);
    *code = m && m->msg == CURLMSG_DONE ? m->data.result : CURLE_RECV_ERROR;
    return 0;
}

static bool proxy_refuses(const struct hubreq *r) {
    long status = 0;
    curl_easy_getinfo(r->easy, CURLINFO_HTTP_CONNECTCODE, &status);
    return status >= 300;
}

/* Turns libcurl's verdict into ours. */
static int judge(struct hubreq *r, CURLcode code, const char *host, enum hubreq_end *end) {
    const char *why = r->error[0] ? r->error : curl_easy_strerror(code);
    bool broke = code == CURLE_RECV_ERROR || code == CURLE_SEND_ERROR ||
                 code == CURLE_GOT_NOTHING || code == CURLE_HTTP2_STREAM;
    bool refused = r->head->status != 0 && r->head->status != 200 && r->head->status != 206;
    if (r->rc) {
        *end = HUBREQ_BODY;
        return r->rc;
    }
    /* why: the status of an error answer counts, however its body ended */
    if (code == CURLE_OK || refused) {
        *end = HUBREQ_WHOLE;
        return 0;
    }
    *end = r->begun || (broke && !proxy_refuses(r)) ? HUBREQ_CUT : HUBREQ_NO_WAY;
    if (*end == HUBREQ_CUT) {
        return err_set(ERR_NET, "%s: the connection broke: %s", host, why);
    }
    return err_set(ERR_NET, "cannot reach %s: %s", host, why);
}

static void read_info(struct hubreq *r) {
    long status = 0;
    const char *next = NULL;
    curl_easy_getinfo(r->easy, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_getinfo(r->easy, CURLINFO_REDIRECT_URL, &next);
    r->head->status = (int32_t)status;
    if (next && !str_copy(r->head->location, HUBREQ_URL_MAX, next)) {
        r->head->location[0] = '\0';
    }
}

int hubreq_run(struct hubreq *r,
               const struct hubreq_opts *o,
               struct hubreq_head *head,
               enum hubreq_end *end) {
    char host[HUBREQ_HOST_MAX];
    CURLcode code = CURLE_OK;
    *head = (struct hubreq_head){.length = -1, .linked_size = -1};
    *end = HUBREQ_NO_WAY;
    r->o = o;
    r->head = head;
    r->n_body = 0;
    r->rc = 0;
    r->begun = false;
    r->out_of_mem = false;
    r->error[0] = '\0';
    hubreq_host(o->url, host);
    struct curl_slist *headers = make_headers(r);
    int rc = r->out_of_mem ? err_set(ERR_NOMEM, "libcurl cannot make a header") : 0;
    if (rc) {
        goto free_headers;
    }
    set_options(r, headers);
    if (curl_multi_add_handle(r->multi, r->easy) != CURLM_OK) {
        rc = err_set(ERR_NOMEM, "libcurl cannot start a transfer");
        goto free_headers;
    }
    rc = drive(r, &code);
    if (!rc) {
        read_info(r);
        rc = judge(r, code, host, end);
    } else if (rc == ERR_CANCELED) {
        *end = HUBREQ_BODY;
    } else {
        *end = r->begun ? HUBREQ_CUT : HUBREQ_NO_WAY;
        rc = err_ctx(ERR_NET, "%s", host);
    }
    curl_multi_remove_handle(r->multi, r->easy);
free_headers:
    curl_slist_free_all(headers);
    return rc;
}
