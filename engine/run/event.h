/* What the engine tells: one fixed-size event a token or end. The arrow "events" of the chain. */
#ifndef ENGINE_RUN_EVENT_H
#define ENGINE_RUN_EVENT_H

#include "engine/base/types.h"

enum event_kind {
    EVENT_TOKEN, /* one generated token */
    EVENT_END    /* the request is over; no further event carries its id */
};

struct event {
    uint64_t id;          /* request */
    int64_t t_ns;         /* monotonic, when the step's results were there */
    int32_t kind;         /* enum event_kind */
    int32_t token;        /* TOKEN: its id; END: -1 */
    int32_t index;        /* TOKEN: 0-based number among the generated; END: tokens generated */
    float logprob;        /* TOKEN: natural log of its probability; NaN when not asked for */
    int32_t finish;       /* END: enum finish of engine/sched/seq.h */
    int32_t n_prompt;     /* END */
    int32_t n_cached;     /* END: prompt tokens served from the prefix cache */
    int32_t n_preempt;    /* END */
    int64_t first_run_ns; /* END: when it first entered a batch; -1 when it never did */
};

#endif
