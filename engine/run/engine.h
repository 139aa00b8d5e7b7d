/* The engine's border: requests in, events out. Opaque handle, status codes, no globals.
 *
 * One thread owns an engine: it alone calls engine_step, engine_score, engine_flush and
 * engine_close. Any thread may call engine_submit, engine_abort and engine_stats; one thread at a
 * time may call engine_poll. */
#ifndef ENGINE_RUN_ENGINE_H
#define ENGINE_RUN_ENGINE_H

#include "engine/model/weights.h"
#include "engine/run/event.h"
#include "engine/run/sampler.h"

struct engine;

/* Zero means the default in brackets. */
struct engine_opts {
    const char *backend;   /* ["cpu"] */
    const char *variant;   /* [best] SIMD variant of the cpu backend */
    int32_t n_threads;     /* [one per core] */
    int32_t block_tok;     /* [16] tokens of a KV block */
    int32_t batch_tok_max; /* [512] token budget of a step */
    int32_t running_max;   /* [32] sequences at once */
    int32_t waiting_max;   /* [4096] requests in flight; one more is refused */
    int32_t chunk_max;     /* [batch_tok_max] tokens of one sequence in a step */
    int32_t ctx_max;       /* [the model's] longest sequence */
    int64_t kv_bytes;      /* [256 MiB, or one whole context] cache memory */
    int32_t n_blocks;      /* [from kv_bytes] cache blocks of each group of layers */
    enum dtype kv_type;    /* [F32]; F8_E4M3: under the weights' k_scale and v_scale */
    bool no_prefix_cache;
    bool logprobs; /* fill event.logprob */
    uint64_t salt; /* of the prefix cache */
};

/* Called in the owner's thread for each row of logits that a request asked for: the prediction for
 * position + 1. logits [V], valid during the call. A non-zero return ends the request with an
 * error. */
typedef int (*engine_row_fn)(void *ctx, int32_t position, const float *logits, int32_t vocab);

struct engine_request {
    const int32_t *ids; /* ref for the call, [n_ids] */
    int32_t n_ids;
    int32_t max_new; /* tokens to generate; cut to what the context leaves */
    struct sampling sampling;
    const int32_t *stop; /* ref for the call, [n_stop] ids that end it; NULL: the model's */
    int32_t n_stop;
    bool ignore_stop;
    int32_t min_new;    /* no stop token among the first so many, unless stops are ignored */
    bool logprob;       /* fill event.logprob whatever the engine's option is */
    int32_t priority;   /* larger goes first */
    bool score;         /* compute the prompt and call row; nothing is generated */
    int32_t score_from; /* score: first position whose row is wanted */
    engine_row_fn row;  /* NULL: none. Without score: rows of the sampled positions */
    void *row_ctx;
};

struct engine_stats {
    int32_t n_running;
    int32_t n_waiting;
    int32_t n_blocks;
    int32_t n_blocks_active;
    int32_t n_blocks_cached;
    int64_t n_step;
    int64_t n_tok_computed; /* rows that went through the model */
    int64_t n_tok_generated;
    int64_t n_preempted;
    int64_t n_prefix_hit_tok;
    int64_t n_prefix_query_tok;
    int64_t n_evicted;
    int32_t batch_tok_last; /* rows of the last step */
    int64_t kv_bytes;
    int64_t kv_bytes_per_token;
    int64_t workspace_bytes;
    int32_t ctx_max;
    int32_t events_max; /* events that may wait for engine_poll */
};

/* Opens an engine on bound weights, which must outlive it. All memory is allocated here.
 * err:  ERR_RANGE (option), ERR_UNSUPPORTED (backend, weight or cache type), ERR_NOMEM
 * own:  caller, engine_close */
int engine_open(const struct weights *w, const struct engine_opts *opts, struct engine **out);
void engine_close(struct engine *e);

/* Queues a request. out: its id; the first event carries it.
 * err:  ERR_LIMIT (longer than the context or the pool: numbers named), ERR_RANGE (token id,
 *       sampling), ERR_BUSY (too many in flight), ERR_NOMEM, ERR_DEVICE (engine failed before) */
int engine_submit(struct engine *e, const struct engine_request *r, uint64_t *id);

/* Asks for the end of a request; its END event comes from the next step. Unknown ids are ignored.
 * err: ERR_BUSY when the queue of commands is full */
int engine_abort(struct engine *e, uint64_t id);

/* Runs one step. out: *busy false when there was nothing to do.
 * err:  ERR_DEVICE and the like end all requests with FINISH_ERROR and make the engine refuse more
 *       (later steps end what was queued still); ERR_AGAIN when the event ring has no room (poll
 *       first)
 * cost: one batch through the model; allocates nothing */
int engine_step(struct engine *e, bool *busy);

/* Takes up to cap events out. returns their number */
int32_t engine_poll(struct engine *e, struct event *ev, int32_t cap);

/* Scores a token sequence: row(position, logits) for positions from .. n-1, in order, through the
 * ordinary steps of the scheduler. The row of position p predicts token p + 1.
 * in:  no other request in flight; row not NULL
 * err: as engine_submit and engine_step; the row function's own code */
int engine_score(
    struct engine *e, const int32_t *ids, int32_t n, int32_t from, engine_row_fn row, void *ctx);

/* Forgets the prefix cache (a cold start). in: no request in flight */
void engine_flush(struct engine *e);

/* A snapshot as of the last step. */
void engine_stats(struct engine *e, struct engine_stats *out);

/* Verifies scheduler and pool invariants. err: ERR_INTERNAL */
int engine_check(const struct engine *e);

/* "cpu: avx2, 2 threads" for reports. own: the engine */
const char *engine_describe(const struct engine *e);

#endif
