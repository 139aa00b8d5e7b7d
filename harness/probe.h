/* The HTTP target measured against the truth server: the same load as a run's, with both ends'
 * times side by side. */
#ifndef HARNESS_PROBE_H
#define HARNESS_PROBE_H

#include "harness/http.h"
#include "harness/truth.h"
#include "scenarios/arrival.h"

struct probe_opts {
    struct truth_opts truth;
    struct arrival_opts arrival; /* open or closed */
    int32_t n_requests;
    int32_t tokens; /* asked for by each request */
    bool whole;     /* no stream */
    bool kernel_time;
    bool (*stop)(void); /* asked now and then; NULL: never */
};

/* Errors are what the client saw minus what the server did, seconds, of requests that succeeded. */
struct probe_result {
    int32_t n_ok;
    int32_t n_failed;
    char error[160]; /* class and text of the first failure */
    int64_t n_events;
    double wall_s;   /* first request handed to last one over */
    double cpu_s;    /* of the loop's thread */
    double rate;     /* requests handed a second */
    double *lag_s;   /* own, [n_ok]: handed minus intended */
    double *start_s; /* own, [n_ok] ascending: when each was handed, from the first */
    double *ttft_s;  /* own, [n_ttft]: error of the time from the first byte to the first token */
    double *itl_s;   /* own, [n_itl]: error of each gap */
    double *gap_s;   /* own, [n_itl]: the true gap */
    int32_t n_ttft;
    int32_t n_itl;
};

/* Runs it. err: ERR_NET, ERR_IO, ERR_NOMEM, ERR_CANCELED (stop). own: caller, probe_fini */
int probe_run(const struct probe_opts *o, struct probe_result *r);
void probe_fini(struct probe_result *r);

#endif
