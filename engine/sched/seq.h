/* One request on its way through the scheduler.
 *
 *     WAITING --admit--> RUNNING --last token--> FINISHED
 *        ^                  |
 *        +----preempt-------+        abort leads from anywhere to FINISHED
 *
 * n_computed of the n_known tokens have their keys and values in the cache; a step moves n_computed
 * towards n_known (law 1 of the engine), and a sampled token makes n_known grow by one. */
#ifndef ENGINE_SCHED_SEQ_H
#define ENGINE_SCHED_SEQ_H

#include "engine/base/hash.h"
#include "engine/base/types.h"

enum seq_state { SEQ_WAITING, SEQ_RUNNING, SEQ_FINISHED };

enum finish {
    FINISH_NONE,
    FINISH_STOP,   /* an end-of-sequence or stop token */
    FINISH_LENGTH, /* the token limit, the context, or the pool */
    FINISH_ABORT,
    FINISH_SCORED, /* a scoring request is through its prompt */
    FINISH_ERROR
};

enum {
    SEQ_STOP_MAX = 16,
    KVGROUP_MAX = 2 /* groups of layers with block lists of their own */
};

/* The blocks of one sequence in one group of layers: logical block i, which keeps the positions
 * from i P on, is id[i] for first <= i < n. Blocks before first have left the group's window and
 * were given back; their id is -1. */
struct kvheld {
    int32_t *id; /* own, [cap_block] */
    int32_t first;
    int32_t n;
};

struct seq {
    uint64_t id;
    enum seq_state state;
    enum finish finish;
    bool score;         /* logits of the prompt are wanted; nothing is sampled */
    int32_t score_from; /* first position whose logits are wanted */
    bool ignore_stop;
    int32_t priority; /* larger goes first */
    uint64_t order;   /* arrival number: ties in priority */
    int64_t arrive_ns;

    int32_t *tok; /* own, [cap] prompt, then generated */
    int32_t cap;  /* n_prompt + max_new */
    int32_t n_prompt;
    int32_t n_known;
    int32_t n_computed;
    int32_t n_cached; /* prompt tokens that the first admission found in the cache */
    int32_t n_preempt;

    struct kvheld held[KVGROUP_MAX]; /* [n_group] */
    int32_t n_group;
    int32_t cap_block;
    int32_t n_published;  /* leading blocks whose chain hash is known */
    struct hash128 chain; /* hash of those */

    int32_t stop[SEQ_STOP_MAX];
    int32_t n_stop;
    void *user; /* ref, the engine's (sampling parameters) */
};

/* Makes a sequence with room for the prompt and max_new tokens.
 * in: n_prompt >= 1, max_new >= 0, block_tok >= 1, n_group 1..KVGROUP_MAX.
 * err: ERR_RANGE, ERR_NOMEM. own: caller, seq_destroy */
int seq_create(const int32_t *prompt,
               int32_t n_prompt,
               int32_t max_new,
               int32_t block_tok,
               int32_t n_group,
               struct seq **out);
void seq_destroy(struct seq *s);

/* Name of a finish reason as the OpenAI API spells it ("stop", "length", "abort", ...). */
const char *finish_name(enum finish f);

#endif
