/* The scheduler: who runs next, on which blocks. Pure: no clock, file, device or log inside.
 *
 * Order of a plan: running decode rows (one token behind), then running prefill chunks, then
 * admissions in the order (priority, arrival). Nothing is admitted in a plan that preempted.
 * When a running sequence needs a block and none is available, the last of the running order is
 * preempted: its blocks go back, its tokens stay, and it waits at its old place in the queue. A
 * sequence that alone fills the pool ends with FINISH_LENGTH, so that somebody always progresses.
 *
 * Layers form groups, each with its own pool: those that attend to everything, and those with a
 * sliding window. A block of a windowed group goes back as soon as no later row can see it, so such
 * a group needs a bounded number of blocks however long a sequence grows. A cached prefix serves a
 * sequence when every group still has the blocks that the next row sees: all of them in a full
 * group, the last window in the other.
 * src: the hybrid cache of vLLM, design/hybrid_kv_cache_manager (idea; the search is our own). */
#ifndef ENGINE_SCHED_SCHED_H
#define ENGINE_SCHED_SCHED_H

#include "engine/sched/kvpool.h"
#include "engine/sched/seq.h"

struct sched_group {
    int32_t n_blocks;
    int32_t window; /* a row at position p sees positions > p - window; 0: all */
};

struct sched_opts {
    struct sched_group group[KVGROUP_MAX];
    int32_t n_group;       /* 1..KVGROUP_MAX */
    int32_t block_tok;     /* P */
    int32_t batch_tok_max; /* token budget of a step */
    int32_t running_max;   /* sequences at once */
    int32_t waiting_max;   /* queue limit; one more is refused */
    int32_t chunk_max;     /* tokens of one sequence in one step; 0: batch_tok_max */
    bool no_prefix_cache;
    uint64_t salt;
};

/* One line of a plan: a sequence advances over tokens [start, start + n). */
struct plan_item {
    struct seq *seq; /* ref */
    int32_t start;
    int32_t n;
    bool sample;                  /* these are its last known tokens: a new one is sampled */
    int32_t cow_src[KVGROUP_MAX]; /* block of each group whose content must be copied to cow_dst */
    int32_t cow_dst[KVGROUP_MAX]; /* first; -1: none, then in no group */
};

struct plan {
    struct plan_item *item; /* own, [running_max] decode rows first */
    int32_t n_item;
    int32_t n_tok;
    int32_t n_decode; /* leading items that advance by one known token and sample */
    int32_t n_preempted;
    int32_t n_admitted;
};

struct sched {
    struct sched_opts opts;
    struct kvpool pool[KVGROUP_MAX]; /* [n_group] */
    int64_t n_hit_tok;               /* prompt tokens served from the cache */
    int64_t n_query_tok;             /* prompt tokens asked for */
    struct seq **running;            /* own, [running_max] in admission order; sequences borrowed */
    int32_t n_running;
    struct seq **waiting; /* own, [waiting_max + running_max] sorted by (priority, order) */
    int32_t n_waiting;
    struct seq **done; /* own, [waiting_max + 2 * running_max] finished, to be collected */
    int32_t n_done;
    uint64_t n_submitted;
    int64_t n_preempted;
    int64_t n_step;
};

/* err: ERR_RANGE naming the option, ERR_NOMEM. own: caller, sched_fini (sequences are not freed) */
int sched_init(struct sched *s, const struct sched_opts *opts);
void sched_fini(struct sched *s);

/* A plan's storage. */
int plan_init(struct plan *p, int32_t running_max);
void plan_fini(struct plan *p);

/* Blocks of group g that a sequence of n_tok tokens holds at most while it runs. */
int32_t sched_blocks_needed(const struct sched_opts *o, int32_t g, int32_t n_tok);

/* Demands that a prompt of n tokens, and one more when it generates, fits the pools.
 * err: ERR_LIMIT with the numbers. cost: reads the options only, any thread */
int sched_check_fits(const struct sched_opts *o, int32_t n_prompt, bool generates);

/* Forgets all cached content. */
void sched_flush(struct sched *s);

/* Queues a sequence; the scheduler borrows it until it appears in sched_pop_done.
 * in:   q has as many groups as the scheduler
 * err:  ERR_LIMIT when prompt + 1 tokens can never fit the pool (numbers named); ERR_BUSY when the
 *       queue is full. The scheduler is unchanged on error */
int sched_submit(struct sched *s, struct seq *q, int64_t now_ns);

/* Ends a sequence by id; its blocks are free at once. out: false when it is not here */
bool sched_abort(struct sched *s, uint64_t id);

/* Decides one step. out: plan; n_item 0 when there is nothing to do.
 * cost: O(running + admitted + blocks taken), no allocation */
void sched_plan(struct sched *s, struct plan *p);

/* Takes the results of a step: tokens[i] is the token sampled for item i (read where item.sample).
 * Advances every item, publishes full blocks, applies stop rules, moves finished sequences to done.
 * cost: O(tokens), no allocation */
void sched_commit(struct sched *s, const struct plan *p, const int32_t *tokens);

/* The next finished sequence, or NULL. own: back to the caller */
struct seq *sched_pop_done(struct sched *s);

/* Verifies the pool's laws and that reference counts are exactly the sequences' holdings.
 * err: ERR_INTERNAL. cost: O(n_blocks + holdings) and an allocation */
int sched_check(const struct sched *s);

#endif
