/* A server whose times are known: an OpenAI-compatible endpoint on the loopback that writes each
 * token at its planned time and keeps when it really did. The measure of the HTTP target.
 *
 * POST /v1/chat/completions, /v1/completions, /v1/responses answer by the schedule;
 * POST /NAME/v1/... gives the case NAME of the corpus (corpus.h) instead, and /echo/v1/... refuses
 * with the request's Authorization as its text. The token times of
 * request number k are found by its X-Request-Id. */
#ifndef HARNESS_TRUTH_H
#define HARNESS_TRUTH_H

#include "harness/chunk.h"

enum { TRUTH_REQUESTS_MAX = 1 << 20, TRUTH_TIMES_MAX = 1 << 24 };

struct truth;

struct truth_opts {
    int32_t port;      /* 0: any free one */
    int64_t ttft_ns;   /* from the whole request to the first token */
    int64_t itl_ns;    /* from token to token */
    int32_t tokens;    /* of an answer; 0: as many as are asked for */
    int32_t per_event; /* tokens in one event; 0: 1 */
    bool role_late;    /* the role comes with the first token, not at once */
    bool keep_times;   /* keep the time of every token */
};

/* What the server knows of a request. Monotonic nanoseconds; -1: did not happen. */
struct truth_record {
    int64_t number;   /* of its X-Request-Id; INT64_MIN: it had none of ours */
    int64_t recv_ns;  /* the whole request had been read */
    int64_t first_ns; /* just before the first token was written */
    int64_t last_ns;
    int64_t end_ns;  /* behind the last byte */
    int64_t time_at; /* index of its first token's time in truth_times; -1: not kept */
    int32_t n_tokens;
    int32_t n_events; /* with tokens */
};

/* Starts the server and its thread. err: ERR_NET (port taken), ERR_IO, ERR_NOMEM.
 * own: caller, truth_close */
int truth_open(const struct truth_opts *o, struct truth **out);

/* "http://127.0.0.1:PORT"; the port. own: the server */
const char *truth_url(const struct truth *t);
int32_t truth_port(const struct truth *t);

/* Ends the thread and every connection; the records stay. */
void truth_stop(struct truth *t);
void truth_close(struct truth *t);

/* After truth_stop: what was asked, in order of arrival, and the times of all events. */
const struct truth_record *truth_records(const struct truth *t, int32_t *n);
const int64_t *truth_times(const struct truth *t);

/* The record of that number; NULL: none. cost: O(n) */
const struct truth_record *truth_find(const struct truth *t, int64_t number);

#endif
