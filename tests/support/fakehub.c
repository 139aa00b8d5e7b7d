/* One thread, two listening sockets, one connection at a time, one request a connection: enough
 * for a client that does one thing at a time, and without any race between answers.
 *
 * The thread touches neither mem_* nor err_* nor the fault points, so that a test may count and
 * break those of its own thread. */
#include "tests/support/support.h"

#include "tests/support/fakehub.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/base/str.h"

enum { REQUEST_MAX = 16384, SCRIPT_MAX = 16, HEAD_MAX = 2048 };

struct served {
    char suffix[FAKE_FIELD_MAX];
    const uint8_t *data; /* ref */
    int64_t n;
    const char *etag;   /* ref */
    const char *linked; /* ref */
};

struct fakehub {
    pthread_t thread;
    pthread_mutex_t lock;
    int listener[FAKE_PORTS];
    int stop[2]; /* a pipe; closed to end the thread */
    char url[FAKE_PORTS][64];
    struct served files[FAKE_FILES_MAX];
    int32_t n_files;
    struct fake_step script[FAKE_PORTS][SCRIPT_MAX];
    int32_t n_steps[FAKE_PORTS];
    int32_t at[FAKE_PORTS];
    struct fake_seen seen[FAKE_SEEN_MAX];
    int32_t n_seen;
};

static bool send_all(int fd, const void *data, int64_t n) {
    const uint8_t *p = data;
    while (n > 0) {
        ssize_t put = send(fd, p, (size_t)n, MSG_NOSIGNAL);
        if (put <= 0) {
            return false;
        }
        p += put;
        n -= put;
    }
    return true;
}

static void take_field(const char *line, const char *name, char dst[FAKE_FIELD_MAX]) {
    size_t n = strlen(name);
    if (strncasecmp(line, name, n) == 0 && line[n] == ':') {
        snprintf(dst, FAKE_FIELD_MAX, "%.*s", (int)strcspn(line + n + 2, "\r\n"), line + n + 2);
    }
}

/* Reads one request head. */
static bool read_request(int fd, struct fake_seen *s) {
    char text[REQUEST_MAX];
    size_t n = 0;
    while (n < sizeof text - 1) {
        ssize_t got = recv(fd, text + n, sizeof text - 1 - n, 0);
        if (got <= 0) {
            return false;
        }
        n += (size_t)got;
        text[n] = '\0';
        if (strstr(text, "\r\n\r\n")) {
            break;
        }
    }
    if (sscanf(text, "GET %319s", s->path) != 1) {
        return false;
    }
    for (char *line = strstr(text, "\r\n"); line; line = strstr(line + 2, "\r\n")) {
        take_field(line + 2, "Range", s->range);
        take_field(line + 2, "If-Range", s->if_range);
        take_field(line + 2, "Authorization", s->auth);
        take_field(line + 2, "User-Agent", s->agent);
    }
    return true;
}

/* Waits until the client goes or the hub is destroyed. */
static void wait_gone(const struct fakehub *h, int fd) {
    char c = 0;
    struct pollfd p[2] = {{.fd = fd, .events = POLLIN}, {.fd = h->stop[0], .events = POLLIN}};
    while (poll(p, 2, -1) > 0 && !p[1].revents) {
        if (p[0].revents && recv(fd, &c, 1, 0) <= 0) {
            return;
        }
    }
}

static const struct served *find(const struct fakehub *h, const char *path) {
    char plain[FAKE_FIELD_MAX];
    snprintf(plain, sizeof plain, "%.*s", (int)strcspn(path, "?"), path);
    for (int32_t i = 0; i < h->n_files; i++) {
        if (str_ends(plain, h->files[i].suffix)) {
            return &h->files[i];
        }
    }
    return NULL;
}

static void answer_status(int fd, int status, const char *more) {
    char head[HEAD_MAX];
    int n = snprintf(head, sizeof head,
                     "HTTP/1.1 %d Scripted\r\n%sContent-Length: 6\r\nConnection: "
                     "close\r\n\r\nsorry\n",
                     status, more ? more : "");
    send_all(fd, head, n);
}

static int64_t
first_byte(const struct fake_step *st, const struct served *f, const struct fake_seen *s) {
    long long from = 0;
    bool same = s->if_range[0] == '\0' || (f->etag && str_eq(s->if_range, f->etag));
    if (st->act == FAKE_NO_RANGE || !same || sscanf(s->range, "bytes=%lld-", &from) != 1) {
        return 0;
    }
    return from;
}

static void answer_file(const struct fakehub *h,
                        int fd,
                        const struct fake_step *st,
                        const struct served *f,
                        const struct fake_seen *s) {
    char head[HEAD_MAX];
    char range[128] = "";
    char linked[256] = "";
    int64_t from = first_byte(st, f, s);
    if (from > 0 && from >= f->n) {
        snprintf(range, sizeof range, "Content-Range: bytes */%lld\r\n", (long long)f->n);
        answer_status(fd, 416, range);
        return;
    }
    if (from > 0) {
        from -= st->act == FAKE_SHIFTED ? 1 : 0;
        snprintf(range, sizeof range, "Content-Range: bytes %lld-%lld/%lld\r\n", (long long)from,
                 (long long)f->n - 1, (long long)f->n);
    }
    if (s->port == FAKE_HUB && f->linked) {
        snprintf(linked, sizeof linked, "X-Linked-Etag: %s\r\nX-Linked-Size: %lld\r\n", f->linked,
                 (long long)f->n);
    }
    int n = snprintf(head, sizeof head,
                     "HTTP/1.1 %d OK\r\n%s%s%s%s%s%sContent-Length: %lld\r\nConnection: "
                     "close\r\n\r\n",
                     range[0] ? 206 : 200, range, linked, f->etag ? "ETag: " : "",
                     f->etag ? f->etag : "", f->etag ? "\r\n" : "", st->headers ? st->headers : "",
                     (long long)(f->n - from));
    bool stops = st->act == FAKE_CUT || st->act == FAKE_STALL;
    int64_t len = stops ? i64_min(st->n, f->n - from) : f->n - from;
    send_all(fd, head, n);
    send_all(fd, f->data + from, len);
    if (st->act == FAKE_STALL) {
        wait_gone(h, fd);
    }
}

static void answer_no_length(int fd, const struct fake_step *st, const struct served *f) {
    static const char head[] = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n";
    send_all(fd, head, (int64_t)sizeof head - 1);
    send_all(fd, f->data, i64_min(st->n, f->n));
    for (int64_t i = f->n; i < st->n; i++) {
        send_all(fd, "x", 1);
    }
}

static void answer_redirect(const struct fakehub *h,
                            int fd,
                            const struct served *f,
                            const struct fake_seen *s) {
    char more[HEAD_MAX / 2];
    char linked[256] = "";
    if (f->linked) {
        snprintf(linked, sizeof linked, "X-Linked-Etag: %s\r\nX-Linked-Size: %lld\r\n", f->linked,
                 (long long)f->n);
    }
    snprintf(more, sizeof more, "Location: %s/cdn%.200s?sig=SECRET\r\n%s", h->url[FAKE_CDN],
             s->path, linked);
    answer_status(fd, 302, more);
}

static void answer(struct fakehub *h, int fd, int32_t port) {
    struct fake_seen s = {.port = port};
    struct fake_step st = {.act = FAKE_SERVE};
    if (!read_request(fd, &s)) {
        return;
    }
    pthread_mutex_lock(&h->lock);
    if (h->n_seen < FAKE_SEEN_MAX) {
        h->seen[h->n_seen++] = s;
    }
    if (h->n_steps[port] > 0) {
        st = h->script[port][h->at[port]];
        h->at[port] = i32_min(h->at[port] + 1, h->n_steps[port] - 1);
    }
    pthread_mutex_unlock(&h->lock);
    const struct served *f = find(h, s.path);
    if (st.act == FAKE_SILENT) {
        wait_gone(h, fd);
    } else if (st.act == FAKE_STATUS) {
        answer_status(fd, st.status, st.headers);
    } else if (!f) {
        answer_status(fd, 404, NULL);
    } else if (st.act == FAKE_REDIRECT) {
        answer_redirect(h, fd, f, &s);
    } else if (st.act == FAKE_NO_LENGTH) {
        answer_no_length(fd, &st, f);
    } else {
        answer_file(h, fd, &st, f, &s);
    }
}

static void *serve(void *ctx) {
    struct fakehub *h = ctx;
    struct pollfd p[FAKE_PORTS + 1] = {{.fd = h->listener[FAKE_HUB], .events = POLLIN},
                                       {.fd = h->listener[FAKE_CDN], .events = POLLIN},
                                       {.fd = h->stop[0], .events = POLLIN}};
    while (poll(p, FAKE_PORTS + 1, -1) > 0 && !p[FAKE_PORTS].revents) {
        for (int32_t i = 0; i < FAKE_PORTS; i++) {
            int fd = p[i].revents ? accept(h->listener[i], NULL, NULL) : -1;
            if (fd >= 0) {
                answer(h, fd, i);
                shutdown(fd, SHUT_RDWR);
                close(fd);
            }
        }
    }
    return NULL;
}

static void open_port(struct fakehub *h, int32_t port) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t n = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&a, n) != 0 || listen(fd, 16) != 0 ||
        getsockname(fd, (struct sockaddr *)&a, &n) != 0) {
        fail_msg("cannot listen on 127.0.0.1");
    }
    h->listener[port] = fd;
    snprintf(h->url[port], sizeof h->url[port], "http://127.0.0.1:%d", ntohs(a.sin_port));
}

struct fakehub *fakehub_create(void) {
    struct fakehub *h = mem_calloc(MEM_TEST, (int64_t)sizeof *h);
    if (!h) {
        fail_msg("no memory");
        return NULL;
    }
    open_port(h, FAKE_HUB);
    open_port(h, FAKE_CDN);
    pthread_mutex_init(&h->lock, NULL);
    if (pipe(h->stop) != 0 || pthread_create(&h->thread, NULL, serve, h) != 0) {
        fail_msg("cannot start the hub's thread");
    }
    return h;
}

void fakehub_destroy(struct fakehub *h) {
    close(h->stop[1]);
    pthread_join(h->thread, NULL);
    close(h->stop[0]);
    close(h->listener[FAKE_HUB]);
    close(h->listener[FAKE_CDN]);
    pthread_mutex_destroy(&h->lock);
    mem_free(h);
}

const char *fakehub_url(const struct fakehub *h, int32_t port) {
    return h->url[port];
}

void fakehub_file(struct fakehub *h,
                  const char *suffix,
                  const void *data,
                  int64_t n,
                  const char *etag,
                  const char *linked) {
    int32_t i = 0;
    pthread_mutex_lock(&h->lock);
    while (i < h->n_files && !str_eq(h->files[i].suffix, suffix)) {
        i++;
    }
    if (i < FAKE_FILES_MAX) {
        h->files[i] = (struct served){.data = data, .n = n, .etag = etag, .linked = linked};
        str_copy(h->files[i].suffix, FAKE_FIELD_MAX, suffix);
        h->n_files = i32_max(h->n_files, i + 1);
    }
    pthread_mutex_unlock(&h->lock);
}

void fakehub_script(struct fakehub *h, int32_t port, const struct fake_step *steps, int32_t n) {
    pthread_mutex_lock(&h->lock);
    for (int32_t i = 0; i < n && i < SCRIPT_MAX; i++) {
        h->script[port][i] = steps[i];
    }
    h->n_steps[port] = i32_min(n, SCRIPT_MAX);
    h->at[port] = 0;
    h->n_seen = 0;
    pthread_mutex_unlock(&h->lock);
}

int32_t fakehub_n_seen(struct fakehub *h) {
    pthread_mutex_lock(&h->lock);
    int32_t n = h->n_seen;
    pthread_mutex_unlock(&h->lock);
    return n;
}

const struct fake_seen *fakehub_seen(struct fakehub *h, int32_t i) {
    if (i >= fakehub_n_seen(h)) {
        fail_msg("only %d requests were seen", fakehub_n_seen(h));
    }
    return &h->seen[i];
}

static uint32_t crc32_of(const uint8_t *p, int64_t n) {
    uint32_t c = 0xffffffff;
    for (int64_t i = 0; i < n; i++) {
        c ^= p[i];
        for (int32_t k = 0; k < 8; k++) {
            c = (c >> 1) ^ ((c & 1) ? 0xedb88320u : 0);
        }
    }
    return ~c;
}

static uint8_t *put_le(uint8_t *p, uint32_t v, int32_t bytes) {
    for (int32_t i = 0; i < bytes; i++) {
        *p++ = (uint8_t)(v >> (8 * i));
    }
    return p;
}

/* The 26 bytes from "version needed" on that local and central headers share.
 * src: APPNOTE.TXT 6.3.10, 4.3.7 and 4.3.12 */
static uint8_t *put_common(uint8_t *p, uint32_t crc, uint32_t n, uint32_t n_name) {
    p = put_le(p, 20, 2);
    p = put_le(p, 0, 4); /* flags, stored */
    p = put_le(p, 0x00210000, 4);
    p = put_le(p, crc, 4);
    p = put_le(p, n, 4);
    p = put_le(p, n, 4);
    p = put_le(p, n_name, 2);
    return put_le(p, 0, 2);
}

void fakehub_zip(const char *path, const char *member, const void *data, int64_t n) {
    uint8_t local[30];
    uint8_t central[46];
    uint8_t end[22];
    uint32_t n_name = (uint32_t)strlen(member);
    uint32_t crc = crc32_of(data, n);
    uint32_t at = 30 + n_name + (uint32_t)n;
    put_common(put_le(local, 0x04034b50, 4), crc, (uint32_t)n, n_name);
    uint8_t *p = put_le(put_le(central, 0x02014b50, 4), 20, 2);
    p = put_common(p, crc, (uint32_t)n, n_name);
    put_le(put_le(put_le(put_le(p, 0, 4), 0, 4), 0, 4), 0, 2);
    p = put_le(put_le(put_le(end, 0x06054b50, 4), 0, 4), 0x00010001, 4);
    put_le(put_le(put_le(p, 46 + n_name, 4), at, 4), 0, 2);
    struct filew w;
    assert_ok(filew_open(&w, path));
    assert_ok(filew_write(&w, local, 30));
    assert_ok(filew_write(&w, member, n_name));
    assert_ok(filew_write(&w, data, n));
    assert_ok(filew_write(&w, central, 46));
    assert_ok(filew_write(&w, member, n_name));
    assert_ok(filew_write(&w, end, 22));
    assert_ok(filew_commit(&w));
}
