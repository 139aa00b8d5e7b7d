/* Downloads one file, resumably, from a server that behaves like the Hugging Face hub. */
#ifndef HARNESS_HUB_H
#define HARNESS_HUB_H

#include "engine/base/file.h"

#define HUB_ENDPOINT "https://huggingface.co"

enum {
    HUB_URL_MAX = 2048,
    HUB_TOKEN_MAX = 512, /* bytes of HF_TOKEN */
    HUB_HOPS_MAX = 5,    /* redirects of one download */
    HUB_TRIES = 5,       /* requests of one download, without its redirects */
    HUB_CONNECT_MS = 5000,
    HUB_STALL_MS = 20000,
    HUB_WAIT_S_MAX = 120, /* longest wait that a server may ask for */
};

/* How patient to be; a zeroed struct, or NULL for it, means the defaults above. */
struct hub_net {
    int64_t connect_ms;
    int64_t stall_ms;
    int32_t tries;
    void (*sleep)(void *ctx, int64_t ns); /* waits; NULL: the clock, ended early by stop */
    void *sleep_ctx;                      /* ref */
    bool (*stop)(void);                   /* NULL: interrupt_seen */
};

struct hub_opts {
    const char *url;    /* http or https */
    const char *token;  /* sent to the host of url alone; NULL or "": none */
    const char *path;   /* final name; its folder exists */
    int64_t size;       /* bytes it must have; -1: not known */
    const char *sha256; /* it must have; "": not known; then the hub's X-Linked-Etag is taken */
    const struct hub_net *net;
    void (*progress)(void *ctx, int64_t done, int64_t total); /* bytes; total -1: not known; NULL */
    void *progress_ctx;                                       /* ref */
};

struct hub_result {
    int64_t bytes;
    char sha256[FILE_SHA256_HEX];
};

/* Address of a file in a repository. in: endpoint NULL or "": HUB_ENDPOINT; slashes at its end are
 * ignored. err: ERR_CONFIG endpoint is no http or https address, ERR_LIMIT */
int hub_url(const char *endpoint,
            bool dataset,
            const char *repo,
            const char *revision,
            const char *path,
            char dst[HUB_URL_MAX]);

/* Downloads url to path. Bytes gather in "<path>.part"; a later call goes on where they end, when
 * the server still has the same file (If-Range). The final name appears last, by rename.
 * out:  r
 * err:  ERR_NET   no network, connection cut or silent after all tries; what came is kept
 *       ERR_HTTP  401, 403 (says what is wrong with HF_TOKEN), 429 and 5xx after all tries, others
 *       ERR_NOTFOUND 404; ERR_CHECKSUM wrong size or SHA-256, nothing kept
 *       ERR_CANCELED what came is kept; ERR_IO; ERR_BUSY another process is at it; ERR_CONFIG;
 *       ERR_NOMEM
 * cost: blocks; a missing network fails within connect_ms, without a second try */
int hub_get(const struct hub_opts *o, struct hub_result *r);

#endif
