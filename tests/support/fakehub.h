/* A hub and its CDN on two loopback ports, for tests: real sockets, scripted answers. */
#ifndef TESTS_SUPPORT_FAKEHUB_H
#define TESTS_SUPPORT_FAKEHUB_H

#include "engine/base/types.h"

enum { FAKE_HUB, FAKE_CDN, FAKE_PORTS };
enum { FAKE_SEEN_MAX = 64, FAKE_FILES_MAX = 16, FAKE_FIELD_MAX = 320 };

enum fake_act {
    FAKE_SERVE,     /* the file, with ranges */
    FAKE_REDIRECT,  /* 302 to the CDN, with a signed query */
    FAKE_STATUS,    /* status, no body to speak of */
    FAKE_CUT,       /* as FAKE_SERVE, but the connection closes after n bytes of body */
    FAKE_STALL,     /* the same, but the connection stays open and silent */
    FAKE_NO_RANGE,  /* the whole file with 200, whatever was asked */
    FAKE_SHIFTED,   /* 206 that begins one byte early */
    FAKE_NO_LENGTH, /* 200 without Content-Length; n bytes (the file, then 'x'), then close */
    FAKE_SILENT,    /* takes the request and says nothing */
};

struct fake_step {
    enum fake_act act;
    int32_t status;      /* FAKE_STATUS */
    int64_t n;           /* bytes */
    const char *headers; /* ref; more header lines, each with CRLF; NULL: none */
};

/* One request as it came. */
struct fake_seen {
    int32_t port; /* FAKE_HUB or FAKE_CDN */
    char path[FAKE_FIELD_MAX];
    char range[FAKE_FIELD_MAX];
    char if_range[FAKE_FIELD_MAX];
    char auth[FAKE_FIELD_MAX];
    char agent[FAKE_FIELD_MAX];
};

struct fakehub;

/* Starts both servers on ports of 127.0.0.1; fails the test when it cannot. own: caller,
 * fakehub_destroy */
struct fakehub *fakehub_create(void);
void fakehub_destroy(struct fakehub *h);

/* "http://127.0.0.1:PORT". own: the hub's */
const char *fakehub_url(const struct fakehub *h, int32_t port);

/* Serves n bytes under every path that ends with suffix. in: data, etag, linked are references;
 * etag with its quotes, linked (X-Linked-Etag, from the hub alone) likewise; NULL: none. A suffix
 * that is known is replaced. */
void fakehub_file(struct fakehub *h,
                  const char *suffix,
                  const void *data,
                  int64_t n,
                  const char *etag,
                  const char *linked);

/* The answers of a port, one a request; the last one is repeated. Forgets what was seen. */
void fakehub_script(struct fakehub *h, int32_t port, const struct fake_step *steps, int32_t n);

/* Requests seen since the last fakehub_script, and the i-th of them. */
int32_t fakehub_n_seen(struct fakehub *h);
const struct fake_seen *fakehub_seen(struct fakehub *h, int32_t i);

/* Writes a zip with one stored member to path; fails the test when it cannot. */
void fakehub_zip(const char *path, const char *member, const void *data, int64_t n);

#endif
