/* What the server counts, as Prometheus reads it; names of vLLM where the meaning is the same. */
#ifndef ENGINE_SERVE_METRICS_H
#define ENGINE_SERVE_METRICS_H

#include <pthread.h>

#include "engine/run/engine.h"

enum metrics_hist { METRICS_TTFT, METRICS_ITL, METRICS_E2E, METRICS_QUEUE, METRICS_HIST_N };
enum metrics_finish {
    METRICS_STOP,
    METRICS_LENGTH,
    METRICS_ABORT,
    METRICS_ERROR,
    METRICS_FINISH_N
};
enum { METRICS_BUCKETS = 20, METRICS_CODES = 16 };

struct metrics_bins {
    int64_t n[METRICS_BUCKETS + 1]; /* by bucket; the last is +Inf */
    int64_t count;
    double sum_s;
};

struct metrics {
    pthread_mutex_t lock;
    struct metrics_bins hist[METRICS_HIST_N];
    int64_t n_finish[METRICS_FINISH_N]; /* choices */
    int64_t n_prompt_tok;
    int64_t n_new_tok; /* that were part of an answer */
    struct {
        int32_t status;
        int64_t n;
    } code[METRICS_CODES]; /* answers by HTTP status */
    int64_t n_lost;        /* clients that went away */
    int64_t n_slow;        /* streams cut since their reader was too slow */
    int64_t n_timeout;     /* connections cut by the watchdog */
};

void metrics_init(struct metrics *m);
void metrics_fini(struct metrics *m);

/* All of these may be called from any thread. */
void metrics_time(struct metrics *m, enum metrics_hist h, int64_t ns);
void metrics_finish(struct metrics *m, enum metrics_finish f, int32_t n_prompt, int32_t n_new);
void metrics_code(struct metrics *m, int32_t status);
void metrics_count(struct metrics *m, int64_t *counter, int64_t n);

/* Appends the text exposition format 0.0.4. err: ERR_NOMEM, ERR_LIMIT */
int metrics_format(struct metrics *m,
                   const struct engine_stats *st,
                   const char *model,
                   int32_t n_open,
                   struct buf *out);

#endif
