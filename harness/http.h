/* A server over HTTP as a target: one thread, libcurl, an absolute schedule. */
#ifndef HARNESS_HTTP_H
#define HARNESS_HTTP_H

#include "harness/target.h"
#include "scenarios/scenario.h"

enum { HTTP_REQUESTS_MAX = 1 << 16 }; /* in flight, or ended and not yet polled */

struct http_opts {
    const struct scenario_http *s; /* ref, for the target's life */
    const char *model;             /* ref likewise: name sent in the requests */
    const char *key;               /* ref for the call; NULL: none. Kept in memory alone */
    const char *key_name;          /* of the variable, for errors */
};

/* Prepares the target; nothing is sent before target_start.
 * err:  ERR_CONFIG (URL, key), ERR_NOTFOUND and the like (tokenizer, ca_file), ERR_NOMEM
 * own:  caller, target_close */
int http_open(const struct http_opts *o, struct target **out);

/* What its thread did since target_start. */
struct http_usage {
    double busy;        /* share of the time that it worked, 0..1 */
    int64_t lag_ns_max; /* longest time between two looks at the sockets */
    int64_t cpu_ns;     /* processor time, as of the last tenth of a second; exact after stop */
};

void http_usage(const struct target *t, struct http_usage *u);

#endif
