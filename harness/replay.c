/* Threads and what they own:
 *
 *   sender   waits for each intended time, makes the request, engine_submit, publishes its entry
 *   engine   engine_step, again and again
 *   caller   engine_poll -> store; progress; ends the run
 *
 * Laws:
 *  1. An entry is the sender's until n_entry counts it, and the caller's from then on.
 *  2. by_id is set before n_entry. An event may come before both: the caller waits for by_id, which
 *     is certain to come, since the event's request has been accepted.
 *  3. The lock guards the arrival process, the users that are free again, and stop_sending. It is
 *     never held while anything is made, submitted or stored, so that a slow disk delays no
 * request.
 *  4. Times are monotonic and stored relative to the start of the run. */
#include "harness/replay.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/base/mem.h"
#include "engine/base/str.h"
#include "engine/sched/seq.h"

static const int64_t POLL_NS = 2000000;     /* the caller looks for events so often */
static const int64_t IDLE_NS = 500000;      /* an engine without work looks again after this */
static const int64_t SAMPLE_NS = 100000000; /* engine samples */
static const int64_t PROGRESS_NS = 200000000;
static const int64_t LEAD_NS = 50000000;             /* thread start to the first intended time */
static const int64_t DRAIN_DEFAULT_NS = 30000000000; /* of a scenario that names none */

struct entry {
    uint64_t id;         /* of the engine; 0: never accepted */
    int64_t seq;         /* number in the store */
    int64_t intended_ns; /* relative to the run's start, like all below */
    int64_t actual_ns;
    int64_t first_ns; /* -1: none */
    int64_t last_ns;
    int64_t end_ns; /* -1: not over */
    int32_t n_prompt;
    int32_t n_output;
    int32_t n_cached;
    int32_t n_preempt;
    int32_t finish;
    bool warmup;
    uint64_t seed;
    const char *error_class; /* literal; NULL: none */
    char hash[33];
    char error_text[160];
};

/* 1 + entry of the request with id id_base + i; 0: not known yet. */
struct slot {
    _Atomic int32_t entry;
};

struct replay {
    const struct replay_opts *o;
    struct entry *entry; /* own, [cap] in order of sending */
    int32_t cap;
    _Atomic int32_t n_entry;
    struct slot *by_id;       /* own, [cap] */
    _Atomic uint64_t id_base; /* first id of this run; 0: none yet */

    pthread_mutex_t lock;
    pthread_cond_t wake;    /* a user is free again, or stop_sending */
    struct arrival arrival; /* under the lock, like the next four */
    int64_t *ready;         /* own, ring [n_user]: starts of users that are free again */
    int32_t n_user;         /* closed loop; else 0 */
    int32_t ready_at;
    int32_t n_ready;

    int64_t start_ns; /* monotonic time of offset 0 */
    int64_t stop_ns;  /* offset at which the load ends; INT64_MAX: when all is sent */
    _Atomic bool stop_sending;
    _Atomic bool sending;
    _Atomic bool reached_stop; /* all that was due before stop_ns has been sent */
    _Atomic bool stop_engine;
    _Atomic int engine_rc;
    _Atomic int sender_rc;
    char engine_error[256]; /* written by the engine's thread before engine_rc */
    char sender_error[256]; /* written by the sender before sender_rc */

    int32_t n_begun;  /* entries whose first row is written */
    int32_t n_done;   /* entries that are over */
    int32_t all_done; /* entries below this are over */
    int64_t sampled_ns;
};

static int64_t now_of(const struct replay *r) {
    return clock_now_ns() - r->start_ns;
}

static void *engine_thread(void *arg) {
    struct replay *r = arg;
    while (!atomic_load(&r->stop_engine)) {
        bool busy = false;
        int rc = engine_step(r->o->engine, &busy);
        if (rc && rc != ERR_AGAIN) {
            str_copy(r->engine_error, (int64_t)sizeof r->engine_error, err_msg());
            atomic_store(&r->engine_rc, rc);
            break;
        }
        if (!busy || rc == ERR_AGAIN) {
            clock_sleep_until(clock_now_ns() + IDLE_NS);
        }
    }
    return NULL;
}

/* Sleeps until an offset. out: false when sending is to stop */
static bool wait_until(struct replay *r, int64_t offset_ns) {
    int64_t at = r->start_ns + offset_ns;
    struct timespec ts = {.tv_sec = at / 1000000000, .tv_nsec = at % 1000000000};
    pthread_mutex_lock(&r->lock);
    while (!atomic_load(&r->stop_sending) && clock_now_ns() < at) {
        pthread_cond_timedwait(&r->wake, &r->lock, &ts);
    }
    pthread_mutex_unlock(&r->lock);
    return !atomic_load(&r->stop_sending);
}

/* Hands a request over and publishes its entry. rc: what load_make said */
static void hand_over(struct replay *r, int rc, const struct load_request *q, struct entry *e) {
    const struct scenario *sc = r->o->sc;
    struct engine_request er = {.ids = q->ids,
                                .n_ids = q->n_ids,
                                .max_new = q->max_new,
                                .ignore_stop = true,
                                .sampling = {.temperature = (float)sc->temperature,
                                             .top_p = (float)sc->top_p,
                                             .seed = q->seed}};
    int32_t i = atomic_load(&r->n_entry);
    uint64_t id = 0;
    e->actual_ns = now_of(r);
    rc = rc ? rc : engine_submit(r->o->engine, &er, &id);
    e->id = id;
    e->n_prompt = q->n_ids;
    e->seed = q->seed;
    memcpy(e->hash, q->hash, sizeof e->hash);
    if (rc) {
        e->end_ns = now_of(r);
        e->error_class = rc == ERR_BUSY ? "refused_busy" : "refused";
        str_copy(e->error_text, (int64_t)sizeof e->error_text, err_msg());
    }
    r->entry[i] = *e;
    if (!rc) {
        uint64_t base = atomic_load(&r->id_base);
        base = base ? base : id;
        atomic_store(&r->by_id[id - base].entry, i + 1);
        atomic_store(&r->id_base, base);
    }
    atomic_store(&r->n_entry, i + 1);
}

/* Waits for the intended time of request number n of its phase. out: false when sending is to stop
 */
static bool send_one(struct replay *r, int64_t n, bool warmup, int64_t intended_ns) {
    struct load_request q;
    struct entry e = {.seq = warmup ? -1 - n : n,
                      .intended_ns = intended_ns,
                      .first_ns = -1,
                      .last_ns = -1,
                      .end_ns = -1,
                      .n_cached = -1,
                      .n_preempt = -1,
                      .warmup = warmup};
    int rc = load_make(r->o->load, n, warmup, &q);
    bool go = wait_until(r, intended_ns);
    if (go) {
        hand_over(r, rc, &q, &e);
    }
    load_request_fini(&q);
    return go;
}

/* A start that is known now. in: lock held */
static bool known_start(struct replay *r, int64_t *start_ns) {
    if (r->n_ready > 0) {
        *start_ns = r->ready[r->ready_at];
        r->ready_at = (r->ready_at + 1) % r->n_user;
        r->n_ready--;
        return true;
    }
    return arrival_next(&r->arrival, start_ns);
}

/* The next intended start; waits for a free user in a closed loop. out: false when there is none */
static bool next_start(struct replay *r, int64_t *start_ns) {
    pthread_mutex_lock(&r->lock);
    bool found = known_start(r, start_ns);
    while (!found && r->n_user > 0 && !atomic_load(&r->stop_sending)) {
        pthread_cond_wait(&r->wake, &r->lock);
        found = known_start(r, start_ns);
    }
    pthread_mutex_unlock(&r->lock);
    return found;
}

static void *sender_thread(void *arg) {
    struct replay *r = arg;
    const struct scenario *sc = r->o->sc;
    int64_t n_warmup = 0;
    int64_t n_measured = 0;
    int64_t start = 0;
    while (next_start(r, &start)) {
        if (start >= r->stop_ns) {
            atomic_store(&r->reached_stop, true);
            break;
        }
        bool warmup = start < sc->warmup_ns;
        if (!warmup && sc->n_requests > 0 && n_measured == sc->n_requests) {
            break;
        }
        if (n_warmup + n_measured == r->cap) {
            int rc = err_set(ERR_LIMIT, "more than %d requests in one run", (int)r->cap);
            str_copy(r->sender_error, (int64_t)sizeof r->sender_error, err_msg());
            atomic_store(&r->sender_rc, rc);
            break;
        }
        if (!send_one(r, warmup ? n_warmup : n_measured, warmup, start)) {
            break;
        }
        n_warmup += warmup ? 1 : 0;
        n_measured += warmup ? 0 : 1;
    }
    atomic_store(&r->sending, false);
    return NULL;
}

static void end_sending(struct replay *r) {
    pthread_mutex_lock(&r->lock);
    atomic_store(&r->stop_sending, true);
    pthread_cond_broadcast(&r->wake);
    pthread_mutex_unlock(&r->lock);
}

static int64_t or_null(int64_t v) {
    return v < 0 ? STORE_NULL : v;
}

static int write_request(struct replay *r, const struct entry *e) {
    bool ended_well = e->end_ns >= 0 && !e->error_class;
    struct store_request q = {.run_id = r->o->run_id,
                              .seq = e->seq,
                              .phase = e->warmup ? "warmup" : "measured",
                              .intended_start_ns = e->intended_ns,
                              .actual_start_ns = e->actual_ns,
                              .first_event_ns = or_null(e->first_ns),
                              .first_token_ns = or_null(e->first_ns),
                              .first_answer_ns = or_null(e->first_ns),
                              .last_token_ns = or_null(e->last_ns),
                              .end_ns = or_null(e->end_ns),
                              .n_prompt = e->n_prompt,
                              .n_output = e->n_output,
                              .n_output_first = e->first_ns < 0 ? STORE_NULL : 1,
                              .n_output_is_estimated = 0,
                              .n_cached_prompt = or_null(e->n_cached),
                              .n_preempt = or_null(e->n_preempt),
                              .finish_reason =
                                  ended_well ? finish_name((enum finish)e->finish) : NULL,
                              .error_class = e->error_class,
                              .error_text = e->error_text[0] ? e->error_text : NULL,
                              .prompt_hash = e->hash[0] ? e->hash : NULL,
                              .seed = (int64_t)e->seed};
    return store_request(r->o->store, &q);
}

/* Counts an entry as over, and gives its user back to the sender. */
static void request_over(struct replay *r, const struct entry *e) {
    int64_t start = 0;
    r->n_done++;
    pthread_mutex_lock(&r->lock);
    if (r->n_user > 0 && arrival_done(&r->arrival, e->end_ns, &start) && r->n_ready < r->n_user) {
        r->ready[(r->ready_at + r->n_ready) % r->n_user] = start;
        r->n_ready++;
        pthread_cond_broadcast(&r->wake);
    }
    pthread_mutex_unlock(&r->lock);
}

/* The first row of every new entry; a refused one is over with it. */
static int begin_new(struct replay *r) {
    int rc = 0;
    int32_t n = atomic_load(&r->n_entry);
    for (; r->n_begun < n && !rc; r->n_begun++) {
        const struct entry *e = &r->entry[r->n_begun];
        rc = write_request(r, e);
        if (e->id == 0) {
            request_over(r, e);
        }
    }
    return rc;
}

static int on_token(struct replay *r, struct entry *e, const struct event *ev) {
    int64_t t = ev->t_ns - r->start_ns;
    struct store_token row = {.run_id = r->o->run_id,
                              .seq = e->seq,
                              .idx = e->n_output,
                              .t_ns = t,
                              .gap_ns = e->first_ns < 0 ? STORE_NULL : t - e->last_ns,
                              .n_tokens = 1};
    e->first_ns = e->first_ns < 0 ? t : e->first_ns;
    e->last_ns = t;
    e->n_output++;
    return store_token(r->o->store, &row);
}

static int on_end(struct replay *r, struct entry *e, const struct event *ev) {
    e->end_ns = ev->t_ns - r->start_ns;
    e->finish = ev->finish;
    e->n_cached = ev->n_cached;
    e->n_preempt = ev->n_preempt;
    if (ev->finish == FINISH_ERROR) {
        e->error_class = "engine_error";
    } else if (ev->finish != FINISH_ABORT) {
        e->error_class = NULL; /* it was done before the abort came */
    }
    request_over(r, e);
    return write_request(r, e);
}

/* The entry of an event's request (law 2). */
static struct entry *entry_of(struct replay *r, uint64_t id) {
    uint64_t base = atomic_load(&r->id_base);
    for (; base == 0; base = atomic_load(&r->id_base)) {
        sched_yield();
    }
    uint64_t k = id - base;
    if (id < base || k >= (uint64_t)r->cap) {
        return NULL;
    }
    int32_t i = atomic_load(&r->by_id[k].entry);
    for (; i == 0; i = atomic_load(&r->by_id[k].entry)) {
        sched_yield();
    }
    return &r->entry[i - 1];
}

/* Takes what is there. out: *n events taken */
static int take_events(struct replay *r, int32_t *n) {
    struct event ev[256];
    int rc = 0;
    *n = engine_poll(r->o->engine, ev, ARRAY_LEN(ev));
    for (int32_t j = 0; j < *n && !rc; j++) {
        struct entry *e = entry_of(r, ev[j].id);
        if (e) {
            rc = ev[j].kind == EVENT_TOKEN ? on_token(r, e, &ev[j]) : on_end(r, e, &ev[j]);
        }
    }
    return rc;
}

static int sample(struct replay *r) {
    struct engine_stats s;
    int64_t t = now_of(r);
    if (t - r->sampled_ns < SAMPLE_NS) {
        return 0;
    }
    r->sampled_ns = t;
    engine_stats(r->o->engine, &s);
    return store_sample(r->o->store, &(struct store_sample){.run_id = r->o->run_id,
                                                            .t_ns = t,
                                                            .n_running = s.n_running,
                                                            .n_waiting = s.n_waiting,
                                                            .n_kv_blocks_used = s.n_blocks_active,
                                                            .n_kv_blocks = s.n_blocks,
                                                            .n_batch_tokens = s.batch_tok_last});
}

/* Aborts what still runs, with the class that says why. */
static void abort_rest(struct replay *r, const char *error_class) {
    for (int32_t i = r->all_done; i < r->n_begun; i++) {
        struct entry *e = &r->entry[i];
        if (e->end_ns >= 0) {
            r->all_done += i == r->all_done ? 1 : 0;
        } else if (!e->error_class && engine_abort(r->o->engine, e->id) == 0) {
            e->error_class = error_class;
        }
    }
}

static bool all_over(struct replay *r) {
    bool sending = atomic_load(&r->sending); /* before n_entry, which it may still raise */
    return !sending && r->n_done == atomic_load(&r->n_entry);
}

static int one_round(struct replay *r) {
    int32_t n = 0;
    int rc = begin_new(r);
    rc = rc ? rc : take_events(r, &n);
    rc = rc ? rc : sample(r);
    rc = rc ? rc : store_tick(r->o->store);
    rc = rc ? rc : atomic_load(&r->engine_rc);
    return rc;
}

/* The caller's loop. out: *aborted when progress asked for the end */
static int record(struct replay *r, bool *aborted) {
    const struct scenario *sc = r->o->sc;
    const int64_t plan_ns = sc->duration_ns > 0 ? r->stop_ns : 0;
    const int64_t drain_ns = sc->drain_ns > 0 ? sc->drain_ns : DRAIN_DEFAULT_NS;
    int64_t shown = 0;
    int64_t give_up = INT64_MAX; /* when the drain is over */
    bool ending = false;
    while (!all_over(r)) {
        int64_t t = now_of(r);
        int rc = one_round(r);
        if (rc) {
            return rc;
        }
        if (give_up == INT64_MAX && (!atomic_load(&r->sending) || t >= r->stop_ns)) {
            give_up = t + drain_ns;
        }
        if (r->o->progress && t - shown > PROGRESS_NS) {
            shown = t;
            *aborted =
                *aborted || r->o->progress(r->o->ctx, (double)t * 1e-9, (double)plan_ns * 1e-9,
                                           r->n_done, atomic_load(&r->n_entry)) != 0;
        }
        if ((*aborted || t > give_up) && !ending) {
            ending = true;
            end_sending(r);
        }
        if (ending) { /* why: again and again, since the sender may have one more in its hands */
            abort_rest(r, *aborted ? "interrupted" : "drain_timeout");
        }
        clock_sleep_until(clock_now_ns() + POLL_NS);
    }
    return 0;
}

/* After a failure, with both threads gone: the last events, and an end for every request. */
static int settle(struct replay *r) {
    int32_t n = 1;
    int rc = begin_new(r);
    while (!rc && n > 0) {
        rc = take_events(r, &n);
    }
    for (int32_t i = 0; i < r->n_begun && !rc; i++) {
        struct entry *e = &r->entry[i];
        if (e->end_ns < 0) {
            e->end_ns = now_of(r);
            e->error_class = "engine_error";
            rc = write_request(r, e);
        }
    }
    return rc;
}

static int init(struct replay *r) {
    const struct scenario *sc = r->o->sc;
    struct arrival_opts ao = {.kind = sc->arrival.kind,
                              .value = sc->arrival.points[r->o->point],
                              .cv = sc->arrival.cv,
                              .seed = (uint64_t)sc->seed,
                              .trace_ns = r->o->load->trace.start_ns,
                              .n_trace = r->o->load->trace.n};
    pthread_condattr_t attr;
    int rc = arrival_init(&r->arrival, &ao);
    r->cap = REPLAY_REQUESTS_MAX;
    r->stop_ns = sc->duration_ns > 0 ? sc->warmup_ns + sc->duration_ns : INT64_MAX;
    r->n_user = !rc && ao.kind == ARRIVAL_CLOSED ? (int32_t)ao.value : 0;
    r->entry = mem_array(MEM_HARNESS, r->cap, (int64_t)sizeof *r->entry);
    r->by_id = mem_array(MEM_HARNESS, r->cap, (int64_t)sizeof *r->by_id);
    r->ready = mem_array(MEM_HARNESS, r->n_user, (int64_t)sizeof *r->ready);
    pthread_mutex_init(&r->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&r->wake, &attr);
    pthread_condattr_destroy(&attr);
    return rc || (r->entry && r->by_id && r->ready) ? rc : ERR_NOMEM;
}

/* Events that an earlier user of the engine left in the ring are nobody's. */
static void drop_old_events(struct replay *r) {
    struct event ev;
    while (engine_poll(r->o->engine, &ev, 1) == 1) {
    }
}

static void fini(struct replay *r) {
    mem_free(r->entry);
    mem_free(r->by_id);
    mem_free(r->ready);
    pthread_mutex_destroy(&r->lock);
    pthread_cond_destroy(&r->wake);
}

static int run_threads(struct replay *r, bool *aborted) {
    pthread_t sender;
    pthread_t engine;
    atomic_store(&r->sending, true);
    r->start_ns = clock_now_ns() + LEAD_NS;
    if (pthread_create(&engine, NULL, engine_thread, r) != 0) {
        return err_set(ERR_IO, "cannot start the engine's thread");
    }
    int rc = 0;
    if (pthread_create(&sender, NULL, sender_thread, r) != 0) {
        rc = err_set(ERR_IO, "cannot start the sender's thread");
    } else {
        rc = record(r, aborted);
        end_sending(r);
        pthread_join(sender, NULL);
    }
    atomic_store(&r->stop_engine, true);
    pthread_join(engine, NULL);
    int engine_rc = atomic_load(&r->engine_rc);
    int sender_rc = atomic_load(&r->sender_rc);
    if (engine_rc) {
        rc = settle(r); /* a failure of the store would be the graver news */
        rc = rc ? rc : err_set(engine_rc, "%s", r->engine_error);
    } else if (!rc && sender_rc) {
        rc = err_set(sender_rc, "%s", r->sender_error);
    }
    return rc;
}

int replay_run(const struct replay_opts *o, struct replay_result *out) {
    struct replay *r = mem_calloc(MEM_HARNESS, (int64_t)sizeof *r);
    if (!r) {
        return ERR_NOMEM;
    }
    r->o = o;
    *out = (struct replay_result){0};
    int rc = init(r);
    if (!rc) {
        drop_old_events(r);
        rc = run_threads(r, &out->aborted);
        out->aborted = out->aborted || rc != 0;
        out->end_ns = i64_max(0, now_of(r));
        /* why: a phase without a last arrival is not shorter for it, nor are its rates higher */
        bool whole = atomic_load(&r->reached_stop) && !out->aborted;
        out->measured_to_ns = whole ? r->stop_ns : i64_min(r->stop_ns, out->end_ns);
        out->measured_from_ns = i64_min(o->sc->warmup_ns, out->measured_to_ns);
    }
    fini(r);
    mem_free(r);
    return rc;
}
