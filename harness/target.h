/* Who answers the requests of a replay, behind one interface: the embedded engine, a server over
 * HTTP, or nobody at all.
 *
 * A sender thread submits, one other thread polls; both may run at once. A member that sends by
 * itself at the intended time says how long before it wants to have the request. Times are
 * monotonic nanoseconds. */
#ifndef HARNESS_TARGET_H
#define HARNESS_TARGET_H

#include "engine/base/types.h"

enum { TARGET_ABOUT_MAX = 512, TARGET_REQUESTS_MAX = 1 << 20 };

struct target;

struct target_request {
    uint64_t tag;        /* 0..TARGET_REQUESTS_MAX - 1, of the caller; its events carry it */
    int64_t number;      /* of the request in its run, for the server's log */
    int64_t intended_ns; /* when it is to be sent */
    const int32_t *ids;  /* ref for the call, [n_ids]: the prompt */
    int32_t n_ids;
    int32_t max_new;
    double temperature; /* 0: greedy */
    double top_p;       /* 0: 1 */
    uint64_t seed;
};

enum target_event_kind {
    TARGET_SENT,   /* the first byte was written; only of members that send by themselves */
    TARGET_FIRST,  /* the first event of any kind, also one without a token */
    TARGET_TOKENS, /* an event that bears tokens */
    TARGET_END     /* the request is over; no further event carries its tag */
};

enum target_end {
    TARGET_OK,
    TARGET_FAILED,  /* the outcome has a class */
    TARGET_CANCELED /* by target_cancel */
};

/* What is known of the way through the network. -1: not measured. */
struct target_wire {
    int32_t endpoint;        /* index of the URL */
    int32_t status;          /* of HTTP; 0: no answer came */
    int32_t n_retries;       /* a kept connection was dead and another was taken */
    bool is_reused;          /* the connection was there */
    int64_t handed_ns;       /* when the client began with it */
    int64_t dns_ns;          /* durations of a new connection */
    int64_t connect_ns;      /* from the name to the connection */
    int64_t tls_ns;          /* from the connection to the end of the handshake */
    int64_t first_write_ns;  /* times: the first byte of the request */
    int64_t first_read_ns;   /* the first byte of the answer */
    int64_t n_bytes;         /* of the body */
    int64_t n_events;        /* of the stream, comments left out */
    int64_t n_reasoning;     /* tokens, as the server says */
    int64_t retry_after_ns;  /* as the server asks */
    const char *token_count; /* literal: how events were counted, see reply_count_name */
};

/* How a request ended. Numbers: -1 unknown. */
struct target_outcome {
    const char *finish;      /* NULL: not said */
    const char *error_class; /* NULL unless it failed */
    const char *error_text;  /* NULL: none */
    int64_t n_prompt;
    int64_t n_output;
    int64_t n_cached;
    int64_t n_preempt;
    bool is_estimated;   /* n_output is counted by the client without the server's word */
    bool is_spread;      /* tokens are spread evenly over the events: the server gave but the sum */
    bool is_unreachable; /* no answer at all came from there */
    const struct target_wire *wire; /* NULL: no network */
};

struct target_event {
    uint64_t tag;
    int64_t t_ns;
    int32_t kind;     /* enum target_event_kind */
    int32_t n_tokens; /* TOKENS */
    bool is_answer;   /* TOKENS: of the answer proper, not of its reasoning */
    bool is_whole;    /* TOKENS: the whole answer at once; no first token was seen */
    int32_t end;      /* END: enum target_end */
    const struct target_outcome *outcome; /* END; the target's until the next poll */
};

/* State of the target, at the caller's sampling times. */
struct target_sample {
    int64_t n_running;
    int64_t n_waiting;
    int64_t n_kv_blocks_used;
    int64_t n_kv_blocks;
    int64_t n_batch_tokens;
};

/* What a member does. */
struct target_ops {
    int (*start)(struct target *t);
    int (*submit)(struct target *t, const struct target_request *q, int64_t *sent_ns);
    int (*cancel)(struct target *t, uint64_t tag);
    int32_t (*poll)(struct target *t, struct target_event *ev, int32_t cap);
    int (*error)(struct target *t);
    bool (*sample)(struct target *t, struct target_sample *s); /* NULL: has none */
    void (*stop)(struct target *t);
    void (*close)(struct target *t);
};

/* The head of every member. */
struct target {
    const struct target_ops *ops;
    const char *broken;           /* literal: class of requests that a failed target leaves */
    int64_t lead_ns;              /* wants requests so long before their time; 0: at it */
    int32_t vocab;                /* ids it knows are below it; 0: any */
    int32_t ctx_max;              /* longest prompt and answer together, tokens; 0: any */
    char about[TARGET_ABOUT_MAX]; /* one line for reports; never a key */
};

/* Starts its threads; old events are dropped. err: ERR_IO, ERR_NOMEM, ERR_NET */
int target_start(struct target *t);

/* Hands a request over.
 * in:   not before lead_ns of its time; tags of requests in flight differ
 * out:  *sent_ns: when it was sent; -1: TARGET_SENT will say
 * err:  ERR_BUSY (too many in flight), any other refusal; no event will carry the tag */
int target_submit(struct target *t, const struct target_request *q, int64_t *sent_ns);

/* Asks for the end of a request, which comes as an event. Unknown tags are ignored.
 * err: ERR_BUSY: ask again */
int target_cancel(struct target *t, uint64_t tag);

/* Takes up to cap events. returns their number */
int32_t target_poll(struct target *t, struct target_event *ev, int32_t cap);

/* 0, or why the target as a whole has failed. */
int target_error(struct target *t);

/* out: false when there is nothing to sample */
bool target_sample(struct target *t, struct target_sample *s);

/* Ends its threads; what was told before can still be polled. */
void target_stop(struct target *t);

/* Frees it; NULL is fine. */
void target_close(struct target *t);

#endif
