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

/* Share of the time since start that its thread worked, 0..1, and longest time from an event to the
 * next look at the sockets, nanoseconds. */
void http_load(const struct target *t, double *busy, int64_t *lag_ns_max);

#endif
