/* A server on a tiny model for tests, and what its engine would answer by itself. */
#ifndef TESTS_SUPPORT_API_SERVER_H
#define TESTS_SUPPORT_API_SERVER_H

#include "engine/serve/server.h"
#include "tests/support/support.h"

enum { API_SERVER_CTX = 1 << 16 };

struct api_server {
    char dir[FILE_PATH_MAX];
    struct model *model;
    struct engine *engine; /* the server's */
    struct server *server;
    int32_t port;
};

/* Starts one on backend ("cpu", "null"). in: so: limits; zero: defaults. Fails the test when it
 * cannot. own: caller, api_server_stop */
void api_server_start(struct api_server *s, const char *backend, const struct server_opts *so);
void api_server_stop(struct api_server *s);

/* The tokens that an engine of the same kind gives to a request. out: their number */
int32_t api_server_tokens(const struct api_server *s,
                          const char *backend,
                          const struct engine_request *r,
                          int32_t *tokens,
                          int32_t cap);

/* A number on the metrics page; NaN when there is none. in: the line up to the blank */
double api_server_metric(const struct api_server *s, const char *line);

/* Waits until it has that value; fails the test after a minute. */
void api_server_wait(const struct api_server *s, const char *line, double value);

#endif
