/* engine_submit in the sender's thread, engine_step in the target's, engine_poll in the caller's.
 *
 * 1. tag_of[id - id_base] is set after engine_submit gave the id. An event may come before: poll
 *    waits for the entry, which is certain to come, since the event's request has been accepted.
 * 2. An engine that failed has ended its requests with an event each; the error is told apart. */
#include "harness/target_engine.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/base/mem.h"
#include "engine/base/str.h"
#include "engine/sched/seq.h"

static const int64_t IDLE_NS = 500000; /* an engine without work looks again after this */

enum { BATCH_MAX = 256 };

/* 1 + tag of the request with id id_base + i; 0: not known yet. */
struct slot {
    _Atomic uint64_t tag;
};

struct target_engine {
    struct target head;
    struct engine *engine;    /* ref */
    struct slot *tag_of;      /* own, [TARGET_REQUESTS_MAX] */
    _Atomic uint64_t id_base; /* first id of this run; 0: none yet */
    struct slot *id_of;       /* own, [TARGET_REQUESTS_MAX] by tag; 0: not accepted */
    pthread_t thread;
    bool is_running;
    _Atomic bool stop;
    _Atomic int rc;
    char error[256]; /* written by the thread before rc */
    struct event event[BATCH_MAX];
    struct target_outcome outcome[BATCH_MAX]; /* of the last poll */
};

static void *step_thread(void *arg) {
    struct target_engine *t = arg;
    while (!atomic_load(&t->stop)) {
        bool busy = false;
        int rc = engine_step(t->engine, &busy);
        if (rc && rc != ERR_AGAIN) {
            str_copy(t->error, (int64_t)sizeof t->error, err_msg());
            atomic_store(&t->rc, rc);
            break;
        }
        if (!busy || rc == ERR_AGAIN) {
            clock_sleep_until(clock_now_ns() + IDLE_NS);
        }
    }
    return NULL;
}

static int start(struct target *head) {
    struct target_engine *t = (struct target_engine *)head;
    struct event ev;
    while (engine_poll(t->engine, &ev, 1) == 1) {
    }
    mem_free(t->tag_of);
    mem_free(t->id_of);
    t->tag_of = mem_array(MEM_HARNESS, TARGET_REQUESTS_MAX, (int64_t)sizeof *t->tag_of);
    t->id_of = mem_array(MEM_HARNESS, TARGET_REQUESTS_MAX, (int64_t)sizeof *t->id_of);
    if (!t->tag_of || !t->id_of) {
        return ERR_NOMEM;
    }
    atomic_store(&t->id_base, 0);
    atomic_store(&t->stop, false);
    atomic_store(&t->rc, 0);
    if (pthread_create(&t->thread, NULL, step_thread, t) != 0) {
        return err_set(ERR_IO, "cannot start the engine's thread");
    }
    t->is_running = true;
    return 0;
}

static int submit(struct target *head, const struct target_request *q, int64_t *sent_ns) {
    struct target_engine *t = (struct target_engine *)head;
    struct engine_request er = {.ids = q->ids,
                                .n_ids = q->n_ids,
                                .max_new = q->max_new,
                                .ignore_stop = true,
                                .sampling = {.temperature = (float)q->temperature,
                                             .top_p = (float)q->top_p,
                                             .seed = q->seed}};
    uint64_t id = 0;
    *sent_ns = clock_now_ns();
    int rc = engine_submit(t->engine, &er, &id);
    if (rc) {
        return rc;
    }
    uint64_t base = atomic_load(&t->id_base);
    base = base ? base : id;
    atomic_store(&t->id_of[q->tag].tag, id);
    atomic_store(&t->tag_of[id - base].tag, q->tag + 1);
    atomic_store(&t->id_base, base);
    return 0;
}

static int cancel(struct target *head, uint64_t tag) {
    struct target_engine *t = (struct target_engine *)head;
    uint64_t id = atomic_load(&t->id_of[tag].tag);
    return id ? engine_abort(t->engine, id) : 0;
}

/* The tag of an event's request (law 1). out: false for one of an earlier run */
static bool tag_of(struct target_engine *t, uint64_t id, uint64_t *tag) {
    uint64_t base = atomic_load(&t->id_base);
    for (; base == 0; base = atomic_load(&t->id_base)) {
        sched_yield();
    }
    uint64_t k = id - base;
    if (id < base || k >= TARGET_REQUESTS_MAX) {
        return false;
    }
    uint64_t tag1 = atomic_load(&t->tag_of[k].tag);
    for (; tag1 == 0; tag1 = atomic_load(&t->tag_of[k].tag)) {
        sched_yield();
    }
    *tag = tag1 - 1;
    return true;
}

static enum target_end take_end(const struct event *ev, struct target_outcome *o) {
    bool failed = ev->finish == FINISH_ERROR;
    bool canceled = ev->finish == FINISH_ABORT;
    *o = (struct target_outcome){
        .finish = failed || canceled ? NULL : finish_name((enum finish)ev->finish),
        .error_class = failed ? "engine_error" : NULL,
        .n_prompt = ev->n_prompt,
        .n_output = ev->index,
        .n_cached = ev->n_cached,
        .n_preempt = ev->n_preempt};
    return failed ? TARGET_FAILED : (canceled ? TARGET_CANCELED : TARGET_OK);
}

static int32_t poll(struct target *head, struct target_event *ev, int32_t cap) {
    struct target_engine *t = (struct target_engine *)head;
    int32_t n_in = engine_poll(t->engine, t->event, i32_min(cap, BATCH_MAX));
    int32_t n = 0;
    for (int32_t i = 0; i < n_in; i++) {
        const struct event *e = &t->event[i];
        struct target_event out = {.t_ns = e->t_ns, .is_answer = true, .n_tokens = 1};
        if (!tag_of(t, e->id, &out.tag)) {
            continue;
        }
        out.kind = e->kind == EVENT_TOKEN ? TARGET_TOKENS : TARGET_END;
        if (out.kind == TARGET_END) {
            out.end = (int32_t)take_end(e, &t->outcome[n]);
            out.outcome = &t->outcome[n];
        }
        ev[n++] = out;
    }
    return n;
}

static int error(struct target *head) {
    struct target_engine *t = (struct target_engine *)head;
    int rc = atomic_load(&t->rc);
    return rc ? err_set(rc, "%s", t->error) : 0;
}

static bool sample(struct target *head, struct target_sample *s) {
    struct target_engine *t = (struct target_engine *)head;
    struct engine_stats es;
    engine_stats(t->engine, &es);
    *s = (struct target_sample){.n_running = es.n_running,
                                .n_waiting = es.n_waiting,
                                .n_kv_blocks_used = es.n_blocks_active,
                                .n_kv_blocks = es.n_blocks,
                                .n_batch_tokens = es.batch_tok_last};
    return true;
}

static void stop(struct target *head) {
    struct target_engine *t = (struct target_engine *)head;
    if (t->is_running) {
        atomic_store(&t->stop, true);
        pthread_join(t->thread, NULL);
        t->is_running = false;
    }
}

static void close_it(struct target *head) {
    struct target_engine *t = (struct target_engine *)head;
    stop(head);
    mem_free(t->tag_of);
    mem_free(t->id_of);
    mem_free(t);
}

static const struct target_ops ops = {.start = start,
                                      .submit = submit,
                                      .cancel = cancel,
                                      .poll = poll,
                                      .error = error,
                                      .sample = sample,
                                      .stop = stop,
                                      .close = close_it};

int target_engine_open(struct engine *e, struct target **out) {
    struct engine_stats es;
    struct target_engine *t = mem_calloc(MEM_HARNESS, (int64_t)sizeof *t);
    if (!t) {
        return ERR_NOMEM;
    }
    engine_stats(e, &es);
    t->head = (struct target){.ops = &ops, .broken = "engine_error", .ctx_max = es.ctx_max};
    t->engine = e;
    str_copy(t->head.about, TARGET_ABOUT_MAX, engine_describe(e));
    *out = &t->head;
    return 0;
}
