/* Threads and what they own:
 *
 *   sender   waits for each intended time, makes the request, engine_submit
 *   engine   engine_step, again and again
 *   caller   engine_poll -> store; progress; ends the run
 *
 * The table of requests is shared by sender and caller under one lock; times are monotonic and
 * stored relative to the start of the run. */
#include "harness/replay.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/base/mem.h"
#include "engine/sched/seq.h"
#include "reports/stat.h"

static const int64_t POLL_NS = 2000000;     /* the caller looks for events so often */
static const int64_t IDLE_NS = 500000;      /* an engine without work looks again after this */
static const int64_t SAMPLE_NS = 100000000; /* engine samples */
static const int64_t PROGRESS_NS = 200000000;
static const int64_t LEAD_NS = 50000000; /* from thread start to the first intended time */

struct entry {
    uint64_t id;         /* of the engine; 0: never accepted */
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
    bool written;
    uint64_t seed;
    char hash[33];
    char error_class[24];
    char error_text[160];
};

struct replay {
    const struct replay_opts *o;
    pthread_mutex_t lock; /* entry, n_entry, by_id, freed */
    pthread_cond_t freed; /* closed loop: a request ended */
    struct entry *entry;  /* own, [cap] in order of sending */
    int32_t cap;
    _Atomic int32_t n_entry;
    int32_t *by_id;         /* own, [cap] entry of id_base + i */
    uint64_t id_base;       /* first id of this run; 0: none yet */
    struct arrival arrival; /* under the lock, like ready */
    int64_t *ready;         /* own, [cap] starts of users that are free again (closed loop) */
    int32_t n_ready;
    int64_t start_ns; /* monotonic time of offset 0 */
    _Atomic bool stop_sending;
    _Atomic bool sending;
    _Atomic bool stop_engine;
    _Atomic int engine_rc;
    char engine_error[256]; /* written by the engine's thread before engine_rc */
    int32_t n_done;
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
            memcpy(r->engine_error, err_msg(), sizeof r->engine_error - 1);
            atomic_store(&r->engine_rc, rc);
            break;
        }
        if (!busy || rc == ERR_AGAIN) {
            clock_sleep_until(clock_now_ns() + IDLE_NS);
        }
    }
    return NULL;
}

/* Hands one request to the engine and notes it. */
static void send_one(struct replay *r, int64_t seq, int64_t intended_ns) {
    const struct scenario *sc = r->o->sc;
    struct load_request q;
    struct entry e = {.intended_ns = intended_ns,
                      .first_ns = -1,
                      .last_ns = -1,
                      .end_ns = -1,
                      .n_cached = -1,
                      .n_preempt = -1,
                      .warmup = intended_ns < sc->warmup_ns};
    uint64_t id = 0;
    int rc = load_make(r->o->load, seq, e.warmup, &q);
    clock_sleep_until(r->start_ns + intended_ns);
    pthread_mutex_lock(&r->lock);
    e.actual_ns = now_of(r);
    if (!rc) {
        struct engine_request er = {.ids = q.ids,
                                    .n_ids = q.n_ids,
                                    .max_new = q.max_new,
                                    .ignore_stop = true,
                                    .sampling = {.temperature = (float)sc->temperature,
                                                 .top_p = (float)sc->top_p,
                                                 .seed = q.seed}};
        rc = engine_submit(r->o->engine, &er, &id);
    }
    int32_t i = atomic_load(&r->n_entry);
    e.id = id;
    e.n_prompt = q.n_ids;
    e.seed = q.seed;
    memcpy(e.hash, q.hash, sizeof e.hash);
    if (rc) {
        e.end_ns = now_of(r);
        strncpy(e.error_class, rc == ERR_BUSY ? "refused_busy" : "refused", 23);
        strncpy(e.error_text, err_msg(), sizeof e.error_text - 1);
    } else {
        r->id_base = r->id_base ? r->id_base : id;
        if (id - r->id_base < (uint64_t)r->cap) {
            r->by_id[id - r->id_base] = i;
        }
    }
    r->entry[i] = e;
    atomic_store(&r->n_entry, i + 1);
    pthread_mutex_unlock(&r->lock);
    load_request_fini(&q);
}

/* A start that is known now. */
static bool known_start(struct replay *r, int64_t *start_ns) {
    if (r->n_ready > 0) {
        *start_ns = r->ready[--r->n_ready];
        return true;
    }
    return arrival_next(&r->arrival, start_ns);
}

/* The next intended start; waits for a free user in a closed loop. out: false when there is none */
static bool next_start(struct replay *r, int64_t *start_ns) {
    pthread_mutex_lock(&r->lock);
    bool found = known_start(r, start_ns);
    while (!found && r->arrival.o.kind == ARRIVAL_CLOSED && !atomic_load(&r->stop_sending)) {
        pthread_cond_wait(&r->freed, &r->lock);
        found = known_start(r, start_ns);
    }
    pthread_mutex_unlock(&r->lock);
    return found;
}

static void *sender_thread(void *arg) {
    struct replay *r = arg;
    const struct scenario *sc = r->o->sc;
    int64_t end_ns = sc->duration_ns > 0 ? sc->warmup_ns + sc->duration_ns : INT64_MAX;
    int64_t n_measured = 0;
    for (int64_t seq = 0; seq < r->cap && !atomic_load(&r->stop_sending); seq++) {
        int64_t start = 0;
        if (!next_start(r, &start) || start >= end_ns) {
            break;
        }
        if (sc->n_requests > 0 && start >= sc->warmup_ns && n_measured++ >= sc->n_requests) {
            break;
        }
        send_one(r, seq, start);
    }
    atomic_store(&r->sending, false);
    return NULL;
}

static int write_request(struct replay *r, int32_t i) {
    struct entry *e = &r->entry[i];
    struct store_request q = {.run_id = r->o->run_id,
                              .seq = i,
                              .phase = e->warmup ? "warmup" : "measured",
                              .intended_start_ns = e->intended_ns,
                              .actual_start_ns = e->actual_ns,
                              .first_event_ns = e->first_ns < 0 ? STORE_NULL : e->first_ns,
                              .first_token_ns = e->first_ns < 0 ? STORE_NULL : e->first_ns,
                              .first_answer_ns = e->first_ns < 0 ? STORE_NULL : e->first_ns,
                              .last_token_ns = e->last_ns < 0 ? STORE_NULL : e->last_ns,
                              .end_ns = e->end_ns < 0 ? STORE_NULL : e->end_ns,
                              .n_prompt = e->n_prompt,
                              .n_output = e->n_output,
                              .n_output_first = e->first_ns < 0 ? STORE_NULL : 1,
                              .n_output_is_estimated = 0,
                              .n_cached_prompt = e->n_cached < 0 ? STORE_NULL : e->n_cached,
                              .n_preempt = e->n_preempt < 0 ? STORE_NULL : e->n_preempt,
                              .finish_reason = e->end_ns < 0 || e->error_class[0]
                                                   ? NULL
                                                   : finish_name((enum finish)e->finish),
                              .error_class = e->error_class[0] ? e->error_class : NULL,
                              .error_text = e->error_text[0] ? e->error_text : NULL,
                              .prompt_hash = e->hash,
                              .seed = (int64_t)e->seed};
    e->written = e->end_ns >= 0;
    return store_request(r->o->store, &q);
}

static int on_token(struct replay *r, int32_t i, const struct event *ev) {
    struct entry *e = &r->entry[i];
    int64_t t = ev->t_ns - r->start_ns;
    struct store_token row = {.run_id = r->o->run_id,
                              .seq = i,
                              .idx = e->n_output,
                              .t_ns = t,
                              .gap_ns = e->first_ns < 0 ? STORE_NULL : t - e->last_ns,
                              .n_tokens = 1};
    e->first_ns = e->first_ns < 0 ? t : e->first_ns;
    e->last_ns = t;
    e->n_output++;
    return store_token(r->o->store, &row);
}

static void request_over(struct replay *r, int64_t end_ns) {
    int64_t start = 0;
    r->n_done++;
    if (arrival_done(&r->arrival, end_ns, &start) && r->n_ready < r->cap) {
        r->ready[r->n_ready++] = start;
        pthread_cond_signal(&r->freed);
    }
}

static int on_end(struct replay *r, int32_t i, const struct event *ev) {
    struct entry *e = &r->entry[i];
    e->end_ns = ev->t_ns - r->start_ns;
    e->finish = ev->finish;
    e->n_cached = ev->n_cached;
    e->n_preempt = ev->n_preempt;
    if (ev->finish == FINISH_ERROR) {
        strncpy(e->error_class, "engine_error", sizeof e->error_class - 1);
    } else if (ev->finish == FINISH_ABORT && !e->error_class[0]) {
        strncpy(e->error_class, "aborted", sizeof e->error_class - 1);
    }
    request_over(r, e->end_ns);
    return write_request(r, i);
}

static int take_events(struct replay *r) {
    struct event ev[256];
    int rc = 0;
    int32_t n = engine_poll(r->o->engine, ev, ARRAY_LEN(ev));
    if (n == 0) {
        return 0;
    }
    pthread_mutex_lock(&r->lock);
    for (int32_t j = 0; j < n && !rc; j++) {
        uint64_t k = ev[j].id - r->id_base;
        if (r->id_base == 0 || ev[j].id < r->id_base || k >= (uint64_t)r->cap) {
            continue; /* left over from an earlier run on this engine */
        }
        int32_t i = r->by_id[k];
        rc = ev[j].kind == EVENT_TOKEN ? on_token(r, i, &ev[j]) : on_end(r, i, &ev[j]);
    }
    pthread_mutex_unlock(&r->lock);
    return rc;
}

/* Requests that were refused have no event: note them once. */
static int note_refused(struct replay *r) {
    int rc = 0;
    pthread_mutex_lock(&r->lock);
    for (int32_t i = 0; i < atomic_load(&r->n_entry) && !rc; i++) {
        struct entry *e = &r->entry[i];
        if (e->id == 0 && !e->written) {
            request_over(r, e->end_ns);
            rc = write_request(r, i);
        }
    }
    pthread_mutex_unlock(&r->lock);
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
    pthread_mutex_lock(&r->lock);
    for (int32_t i = 0; i < atomic_load(&r->n_entry); i++) {
        struct entry *e = &r->entry[i];
        if (e->id != 0 && e->end_ns < 0 && !e->error_class[0]) {
            strncpy(e->error_class, error_class, sizeof e->error_class - 1);
            engine_abort(r->o->engine, e->id);
        }
    }
    pthread_mutex_unlock(&r->lock);
}

static bool all_over(struct replay *r) {
    return !atomic_load(&r->sending) && r->n_done == atomic_load(&r->n_entry);
}

/* The caller's loop. out: *aborted when progress asked for the end */
static int record(struct replay *r, int64_t plan_ns, bool *aborted) {
    int64_t shown = 0;
    int64_t give_up = INT64_MAX; /* when the drain is over */
    bool ending = false;
    while (!all_over(r)) {
        int64_t t = now_of(r);
        int rc = take_events(r);
        rc = rc ? rc : note_refused(r);
        rc = rc ? rc : sample(r);
        rc = rc ? rc : store_tick(r->o->store);
        rc = rc ? rc : atomic_load(&r->engine_rc);
        if (rc) {
            return rc;
        }
        if (give_up == INT64_MAX && !atomic_load(&r->sending)) {
            give_up = t + r->o->sc->drain_ns;
        }
        if (r->o->progress && t - shown > PROGRESS_NS) {
            shown = t;
            *aborted =
                *aborted || r->o->progress(r->o->ctx, (double)t * 1e-9, (double)plan_ns * 1e-9,
                                           r->n_done, atomic_load(&r->n_entry)) != 0;
        }
        if ((*aborted || t > give_up) && !ending) {
            ending = true;
            atomic_store(&r->stop_sending, true);
            pthread_mutex_lock(&r->lock);
            pthread_cond_broadcast(&r->freed);
            pthread_mutex_unlock(&r->lock);
        }
        if (ending) { /* why: again and again, since the sender may have one more in its hands */
            abort_rest(r, *aborted ? "interrupted" : "drain_timeout");
        }
        clock_sleep_until(clock_now_ns() + POLL_NS);
    }
    return 0;
}

static int init(struct replay *r) {
    const struct scenario *sc = r->o->sc;
    struct arrival_opts ao = {.kind = sc->arrival.kind,
                              .value = sc->arrival.points[r->o->point],
                              .cv = sc->arrival.cv,
                              .seed = (uint64_t)sc->seed,
                              .trace_ns = r->o->load->trace.start_ns,
                              .n_trace = r->o->load->trace.n};
    r->cap = REPLAY_REQUESTS_MAX;
    r->entry = mem_array(MEM_HARNESS, r->cap, (int64_t)sizeof *r->entry);
    r->by_id = mem_array(MEM_HARNESS, r->cap, (int64_t)sizeof *r->by_id);
    r->ready = mem_array(MEM_HARNESS, r->cap, (int64_t)sizeof *r->ready);
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->freed, NULL);
    return r->entry && r->by_id && r->ready ? arrival_init(&r->arrival, &ao) : ERR_NOMEM;
}

static void fini(struct replay *r) {
    mem_free(r->entry);
    mem_free(r->by_id);
    mem_free(r->ready);
    pthread_mutex_destroy(&r->lock);
    pthread_cond_destroy(&r->freed);
}

static double in_flight_mean(const struct replay *r, int64_t from, int64_t to) {
    double sum = 0;
    for (int32_t i = 0; i < atomic_load(&r->n_entry); i++) {
        const struct entry *e = &r->entry[i];
        int64_t end = e->end_ns < 0 ? to : e->end_ns;
        int64_t a = i64_max(e->intended_ns, from);
        int64_t b = i64_min(end, to);
        sum += b > a ? (double)(b - a) : 0;
    }
    return to > from ? sum / (double)(to - from) : (double)NAN;
}

static int judge(struct replay *r, struct replay_result *out) {
    int32_t n = atomic_load(&r->n_entry);
    int64_t third = (out->measured_to_ns - out->measured_from_ns) / 3;
    struct verdict_in in = {.is_aborted = out->aborted,
                            .is_closed = r->o->sc->arrival.kind == ARRIVAL_CLOSED,
                            .send_lag_p99_s = (double)NAN,
                            .ttft_p50_s = (double)NAN,
                            .in_flight_se = (double)NAN};
    double *lag = mem_array(MEM_HARNESS, n + 1, (int64_t)sizeof *lag);
    double *ttft = mem_array(MEM_HARNESS, n + 1, (int64_t)sizeof *ttft);
    int32_t n_ttft = 0;
    if (!lag || !ttft) {
        mem_free(lag);
        mem_free(ttft);
        return ERR_NOMEM;
    }
    for (int32_t i = 0; i < n; i++) {
        const struct entry *e = &r->entry[i];
        if (e->warmup) {
            continue;
        }
        lag[in.n_offered++] = (double)(e->actual_ns - e->intended_ns) * 1e-9;
        in.n_ok += e->error_class[0] ? 0 : 1;
        in.n_failed += e->error_class[0] ? 1 : 0;
        if (e->first_ns >= 0) {
            ttft[n_ttft++] = (double)(e->first_ns - e->intended_ns) * 1e-9;
        }
    }
    if (in.n_offered > 0) {
        stat_sort(lag, in.n_offered);
        in.send_lag_p99_s = lag[(in.n_offered - 1) * 99 / 100];
    }
    if (n_ttft > 0) {
        stat_sort(ttft, n_ttft);
        in.ttft_p50_s = ttft[(n_ttft - 1) / 2];
    }
    in.in_flight_first = in_flight_mean(r, out->measured_from_ns, out->measured_from_ns + third);
    in.in_flight_last = in_flight_mean(r, out->measured_to_ns - third, out->measured_to_ns);
    verdict_judge(&in, &out->verdict);
    mem_free(lag);
    mem_free(ttft);
    return 0;
}

static int run_threads(struct replay *r, struct replay_result *out) {
    const struct scenario *sc = r->o->sc;
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
        rc = record(r, sc->warmup_ns + sc->duration_ns, &out->aborted);
        atomic_store(&r->stop_sending, true);
        pthread_mutex_lock(&r->lock);
        pthread_cond_broadcast(&r->freed);
        pthread_mutex_unlock(&r->lock);
        pthread_join(sender, NULL);
    }
    atomic_store(&r->stop_engine, true);
    pthread_join(engine, NULL);
    if (atomic_load(&r->engine_rc)) {
        rc = err_set(atomic_load(&r->engine_rc), "%s", r->engine_error);
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
    rc = rc ? rc : run_threads(r, out);
    if (!rc) {
        out->end_ns = now_of(r);
        out->measured_from_ns = o->sc->warmup_ns;
        out->measured_to_ns =
            o->sc->duration_ns > 0 ? o->sc->warmup_ns + o->sc->duration_ns : out->end_ns;
        out->measured_to_ns = i64_min(out->measured_to_ns, out->end_ns);
        rc = judge(r, out);
    }
    fini(r);
    mem_free(r);
    return rc;
}
